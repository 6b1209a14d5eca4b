// Command 08-floql queries a day of invented measurements in FloQL. It opens no node: package floql
// works on any source of points.
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

// now is the time of all queries. In Berlin, summer time began on that day.
var now = time.Date(2024, 3, 31, 22, 0, 0, 0, time.UTC)

var questions = []struct{ question, query string }{
	{"average temperature per room and quarter of an hour", `temperature[30m] | window(15m) | group_by(room) | avg() | round(1)`},
	{"the same, for the first floor only", `temperature{room=~1*}[30m] | window(15m) | avg() | round(1)`},
	{"requests per second and server; b restarted during the day", `requests[1h] | rate(30m) | round(2)`},
	{"peak of the total", `requests[3h] | rate(30m) | sum() | window(3h) | max()`},
	{"hours of light; the day had 23 hours",
		`light[23h] | where(value > 0.45) | window(1d, tz=Europe/Berlin) | count() | math(value / 6) | round(1)`},
	{"percent of each disk in use", `used[10m] | group_by(server) | last() | join(/, (size | group_by(server) | last())) | math(value * 100) | round(1)`},
	{"fullest disk an hour ago", `used[10m] | shift(1h) | topk(1, last)`},
	{"a typing error", `temperature[30m] | window(15m) | agv()`},
}

func run(ctx context.Context, out io.Writer) error {
	points, err := day()
	if err != nil {
		return err
	}
	for _, q := range questions {
		fmt.Fprintf(out, "# %s\n%s\n", q.question, q.query)
		result, err := floql.Eval(ctx, points, q.query, floql.Options{Now: now})
		if e, ok := errors.AsType[*floql.Error](err); ok {
			fmt.Fprintf(out, "%s\n  %v\n", strings.Repeat(" ", e.Col-1)+"^", e)
			continue
		}
		if err != nil {
			return err
		}
		for _, s := range result.Series {
			fmt.Fprintln(out, " ", line(s))
		}
	}
	return nil
}

// line formats a series.
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

// day invents a measurement every ten minutes, up to now.
func day() (*floql.Slice, error) {
	points := new(floql.Slice)
	var failed error
	add := func(measurement, key, value, field string, at time.Time, v float64) {
		failed = errors.Join(failed, points.Add(measurement, map[string]string{key: value}, field, at, v))
	}
	for i := range 24 * 6 {
		at := now.Add(time.Duration(i-24*6) * 10 * time.Minute)
		sun := math.Sin(2 * math.Pi * (at.Sub(now).Hours() + 18) / 24)
		add("temperature", "room", "101", "celsius", at, 20+2*sun)
		add("temperature", "room", "201", "celsius", at, 19+2*sun)
		add("light", "room", "101", "part", at, max(sun, 0))
		add("requests", "server", "a", "count", at, float64(600*i))
		add("requests", "server", "b", "count", at, float64(900*(i%70))) // restarts every 700 minutes
		add("used", "server", "a", "bytes", at, 1e9+1e7*float64(i))
		add("used", "server", "b", "bytes", at, 1e9+4e7*float64(i))
		add("size", "server", "a", "bytes", at, 8e9)
		add("size", "server", "b", "bytes", at, 8e9)
	}
	return points, failed
}
