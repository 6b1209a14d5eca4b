// Command floql asks a day of measurements of a small data centre, which it makes up, in FloQL: no
// node, no storage, only the language.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/floedb/floe/floql"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// now is when everything is asked: in Berlin, the day on which summer time began.
var now = time.Date(2024, 3, 31, 22, 0, 0, 0, time.UTC)

// lesson is a question and a query that answers it.
type lesson struct{ question, query string }

var lessons = []lesson{
	{"Which temperatures came in the last half hour?", `temperature[30m]`},
	{"How warm is it in each room, by the quarter of an hour?", `temperature[30m] | window(15m) | group_by(room) | avg() | round(1)`},
	{"Only in rooms on the first floor?", `temperature{room=~1*}[30m] | window(30m) | max() | round(1)`},
	{"How many requests a second does each server take, though b restarted?", `requests[1h] | rate(30m) | round(2)`},
	{"And all of them together, at most?", `requests[3h] | rate(30m) | sum() | window(3h) | max() | round(2)`},
	{"On how much of the day was there light? The day had 23 hours.",
		`light[23h] | where(value > 0.5) | window(1d, tz=Europe/Berlin) | count() | math(value * 10 / 60)`},
	{"How full are the disks, in percent, now and an hour ago?",
		`used[10m] | group_by(server) | last() | join(/, (size | group_by(server) | last())) | math(value * 100) | round(1)`},
	{"", `used[10m] | shift(1h) | group_by(server) | last() | join(/, (size | group_by(server) | last())) | math(value * 100) | round(1)`},
	{"Which disk is the fullest?", `used[10m] | topk(1, last) | limit(1)`},
	{"What if one mistypes?", `temperature[30m] | window(15m) | agv()`},
}

func run(ctx context.Context, out io.Writer) error {
	points, err := day()
	if err != nil {
		return err
	}
	for _, l := range lessons {
		if l.question != "" {
			fmt.Fprintf(out, "\n%s\n", l.question)
		}
		fmt.Fprintf(out, "  %s\n", l.query)
		result, err := floql.Eval(ctx, points, l.query, floql.Options{Now: now})
		if e, ok := errors.AsType[*floql.Error](err); ok {
			fmt.Fprintf(out, "%s\n    %v\n", strings.Repeat(" ", e.Col+1)+"^", e)
			continue
		}
		if err != nil {
			return err
		}
		for _, s := range result.Series {
			fmt.Fprintln(out, "    "+line(s))
		}
	}
	return nil
}

// line writes a series on one line.
func line(s floql.ResultSeries) string {
	var b strings.Builder
	b.WriteString(s.Key)
	for _, t := range s.Tags {
		fmt.Fprintf(&b, " %s=%s", t.Key, t.Value)
	}
	b.WriteByte(':')
	for _, p := range s.Points {
		fmt.Fprintf(&b, "  %s %s", p.Time.Format("15:04"), strconv.FormatFloat(p.Value, 'f', -1, 64))
	}
	return b.String()
}

// day makes up measurements, one every ten minutes, up to now.
func day() (*floql.Slice, error) {
	points := new(floql.Slice)
	var failed error
	add := func(measurement, key, value, field string, at time.Time, v float64) {
		failed = errors.Join(failed, points.Add(measurement, map[string]string{key: value}, field, at, v))
	}
	for i := range 24 * 6 {
		at := now.Add(time.Duration(i-24*6) * 10 * time.Minute)
		sun := math.Sin(2 * math.Pi * (at.Sub(now).Hours() + 18) / 24)
		for room, warmth := range map[string]float64{"101": 20, "102": 21.5, "201": 19} {
			add("temperature", "room", room, "celsius", at, math.Round(100*(warmth+2*sun))/100)
		}
		add("light", "room", "101", "part", at, max(sun, 0))
		add("requests", "server", "a", "count", at, float64(600*i))
		add("requests", "server", "b", "count", at, float64(900*(i%70))) // restarts every 700 minutes
		for server, perPoint := range map[string]float64{"a": 10e6, "b": 40e6} {
			add("used", "server", server, "bytes", at, 1e9+perPoint*float64(i))
			add("size", "server", server, "bytes", at, 8e9)
		}
	}
	return points, failed
}
