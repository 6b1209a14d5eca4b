package floe_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/ts"
)

// Points are written one by one or as lines, and queried in place.
func Example_timeSeries() {
	node, err := floe.Open(floe.Config{}) // in memory
	if err != nil {
		panic(err)
	}
	defer node.Close()
	ctx := context.Background()

	noon := time.Date(2024, 1, 1, 12, 0, 0, 0, time.UTC)
	_, err = node.TS("default").Write(ctx,
		ts.Point{Measurement: "cpu", Tags: map[string]string{"host": "web-01"}, Fields: map[string]float64{"usage": 12.5}, Time: noon},
		ts.Point{Measurement: "cpu", Tags: map[string]string{"host": "web-02"}, Fields: map[string]float64{"usage": 40}, Time: noon},
	)
	if err != nil {
		panic(err)
	}
	lines := "cpu,host=web-01 usage=17.5 1704110460\ncpu,host=db-01 usage=99 1704110460"
	if _, err := node.TS("default").WriteLine(ctx, strings.NewReader(lines), ts.Seconds); err != nil {
		panic(err)
	}

	result, err := node.FloQL(ctx, "default",
		`cpu{host=~"web-*"}[2024-01-01T12:00:00Z..2024-01-01T12:10:00Z] | window(5m) | group_by(host) | avg()`)
	if err != nil {
		panic(err)
	}
	for _, s := range result.Series {
		for _, p := range s.Points {
			fmt.Println(s.Tags[0].Value, p.Time.Format("15:04"), p.Value)
		}
	}

	for sample, err := range node.TS("default").Read(ctx, "cpu", "usage", ts.Tags(map[string]string{"host": "web-01"})) {
		if err != nil {
			panic(err)
		}
		fmt.Println(sample.Time.UTC().Format("15:04"), sample.Value)
	}

	// Output:
	// web-01 12:00 15
	// web-02 12:00 40
	// 12:00 12.5
	// 12:01 17.5
}
