package ts_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/ts"
)

// Points are written in batches, and series are listed by their tags.
func Example() {
	ctx := context.Background()
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	series := node.TS("default")

	noon := time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)
	for i := range 3 {
		_, err = series.Write(ctx, ts.Point{
			Measurement: "cpu", Tags: map[string]string{"host": "web-01"}, Fields: map[string]float64{"user": 10 + float64(i)},
			Time: noon.Add(time.Duration(i) * time.Minute),
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	m, err := series.Get(ctx, "cpu")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Name, m.Fields[0].Name, m.Series, m.Points, m.Newest.Sub(m.Oldest))
	for s, err := range series.Series("cpu").All(ctx, ts.Tags(map[string]string{"host": "web-01"})) {
		fmt.Println(s.Tags, err)
	}
	// Output:
	// cpu user 1 3 2m0s
	// map[host:web-01] <nil>
}

// Each line of the line protocol is written or refused on its own.
func ExampleStore_WriteLine() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	const lines = `cpu,host=web-01 user=12.5,system=3i 1700000000
cpu,host=web-02 user=
cpu,host=web-02 user=7,mode="idle" 1700000000
`
	result, err := node.TS("default").WriteLine(context.Background(), strings.NewReader(lines), ts.Seconds)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Written, "written,", result.Refused, "refused,", result.Strings, "strings left out")
	for _, e := range result.Errors {
		fmt.Printf("line %d: %v\n", e.At, e.Err)
	}
	// Output:
	// 2 written, 1 refused, 1 strings left out
	// line 2: field "user": no value
}

// A retention keeps points for a week and their hourly aggregates for a year.
func ExampleStore_SetRetention() {
	ctx := context.Background()
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	series := node.TS("default")
	day := 24 * time.Hour
	err = series.SetRetention(ctx, "cpu", ts.Retention{
		RawTTL: 7 * day, Downsample: []ts.Downsample{{Every: time.Hour, TTL: 365 * day}},
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = series.Write(ctx, ts.Point{Measurement: "cpu", Fields: map[string]float64{"user": 1}, Time: time.Now().Add(-8 * day)})
	fmt.Println("a point that is too old is refused:", err != nil)
	// Output: a point that is too old is refused: true
}
