package floql_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/floedb/floe/floql"
)

var noon = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)

// requests returns counters of two hosts, with a point every 20 s in the last five minutes before
// noon.
func requests() *floql.Slice {
	points := new(floql.Slice)
	for i := range 15 {
		at := noon.Add(time.Duration(i-15) * 20 * time.Second)
		for host, perPoint := range map[string]float64{"a": 20, "b": 50} {
			if err := points.Add("requests", map[string]string{"host": host}, "count", at, float64(i)*perPoint); err != nil {
				panic(err)
			}
		}
	}
	return points
}

func ExampleEval() {
	result, err := floql.Eval(context.Background(), requests(), "requests[3m] | rate(1m) | group_by(host) | max()",
		floql.Options{Now: noon})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range result.Series {
		fmt.Println(s.Key, s.Field, s.Tags)
		for _, p := range s.Points {
			fmt.Println(" ", p.Time.Format(time.TimeOnly), p.Value)
		}
	}
	// Output:
	// requests count [{host a}]
	//   11:57:00 1
	//   11:58:00 1
	//   11:59:00 1
	// requests count [{host b}]
	//   11:57:00 2.5
	//   11:58:00 2.5
	//   11:59:00 2.5
}

func ExampleParse() {
	query, err := floql.Parse(` cpu { host =~ web-* } [90m] | window( size=5m ) | avg()  # of all web servers`)
	fmt.Println(query, err)

	_, err = floql.Parse(`cpu[1h] | avgg()`)
	fmt.Println(err)
	if e, ok := errors.AsType[*floql.Error](err); ok {
		fmt.Println(e.Caret())
	}
	// Output:
	// cpu{host=~"web-*"}[1h30m] | window(5m) | avg() <nil>
	// col 11: unknown stage "avgg" (did you mean "avg"?)
	// cpu[1h] | avgg()
	//           ^
}

func ExampleResult() {
	result, err := floql.Eval(context.Background(), requests(), "requests{host=a}[1m] | last() | alias(now)", floql.Options{Now: noon})
	if err != nil {
		fmt.Println(err)
		return
	}
	body, err := json.Marshal(result)
	fmt.Println(string(body), err)
	// Output:
	// {"query":"requests{host=a}[1m] | last() | alias(now)","series":[{"key":"now","field":"count","point_count":1,"tags":[],"points":[{"timestamp":1714564740000,"value":280}]}]} <nil>
}

func ExampleLimits() {
	_, err := floql.Eval(context.Background(), requests(), "requests[1h] | sum()",
		floql.Options{Now: noon, Limits: floql.Limits{Points: 20}})
	limit, exceeded := errors.AsType[*floql.LimitError](err)
	fmt.Println(exceeded, limit.Limit)
	fmt.Println(err)
	// Output:
	// true points
	// the query exceeds the limit of 20 points
}

// wave is a source that computes its points instead of storing them.
type wave struct{}

func (wave) Read(ctx context.Context, sel floql.Selection) iter.Seq2[floql.Column, error] {
	return func(yield func(floql.Column, error) bool) {
		series := floql.Series{Field: "sine", Tags: []floql.Tag{{Key: "period", Value: "1h"}}}
		if sel.Measurement != "wave" || !sel.Selects(&series) {
			return
		}
		var times []int64
		var values []float64
		for t := sel.From - sel.From%60_000; t < sel.To && ctx.Err() == nil; t += 60_000 {
			if t >= sel.From {
				times, values = append(times, t), append(values, math.Sin(2*math.Pi*float64(t)/3600_000))
			}
		}
		yield(floql.Column{Series: &series, Times: times, Values: values}, ctx.Err())
	}
}

func ExampleSource() {
	result, err := floql.Eval(context.Background(), wave{}, "wave[1h] | window(15m) | max() | round(3)", floql.Options{Now: noon})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range result.Series[0].Points {
		fmt.Println(p.Time.Format(time.TimeOnly), p.Value)
	}
	// Output:
	// 11:00:00 0.995
	// 11:15:00 1
	// 11:30:00 0
	// 11:45:00 -0.105
}

func ExampleStages() {
	for _, s := range floql.Stages()[:4] {
		fmt.Printf("%s: %s\n", s.Signature, s.Doc)
	}
	// Output:
	// field(field, ...): keep only these fields
	// window(size [, every] [, tz=]): divide time into buckets for the next aggregation
	// avg(): mean of the points of each bucket
	// sum(): exact sum of the points of each bucket, rounded once
}
