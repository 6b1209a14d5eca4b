// Command 07-timeseries writes an hour of measurements, corrects and deletes some of them, queries
// the rest, and sets limits on what the node keeps.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/ts"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// start is the beginning of the hour in which the measurements were made.
var start = time.Now().Truncate(time.Hour).Add(-time.Hour)

func run(ctx context.Context, out io.Writer) error {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		return err
	}
	defer node.Close()
	for _, part := range []func(context.Context, *ts.Store, io.Writer) error{retain, write, correct, remove, limit} {
		if err := part(ctx, node.TS("ops"), out); err != nil {
			return err
		}
	}
	return nil
}

// retain keeps points for a week, and summaries of five minutes for 90 days.
func retain(ctx context.Context, series *ts.Store, _ io.Writer) error {
	const day = 24 * time.Hour
	return series.SetRetention(ctx, "cpu", ts.Retention{
		RawTTL: 7 * day, Downsample: []ts.Downsample{{Every: 5 * time.Minute, TTL: 90 * day}}})
}

// write stores a point per minute for each of two hosts, in one call.
func write(ctx context.Context, series *ts.Store, out io.Writer) error {
	var points []ts.Point
	for minute := range 60 {
		for host, percent := range map[string]float64{"web-01": 40, "web-02": 20} {
			points = append(points, ts.Point{
				Measurement: "cpu",
				Tags:        map[string]string{"host": host},
				Fields:      map[string]float64{"percent": percent + float64(minute/15)},
				Time:        start.Add(time.Duration(minute) * time.Minute),
			})
		}
	}
	written, err := series.Write(ctx, points...)
	fmt.Fprintf(out, "wrote %d points\n", written.Written)
	return errors.Join(err, written.Err(), query(ctx, series, out))
}

// query prints the average of each host per half hour.
func query(ctx context.Context, series *ts.Store, out io.Writer) error {
	result, err := series.Query(ctx, fmt.Sprintf(`cpu{host=~"web-*"}[%d..%d] | window(30m) | group_by(host) | avg()`,
		start.UnixMilli(), start.Add(time.Hour).UnixMilli()))
	if err != nil {
		return err
	}
	for _, s := range result.Series {
		fmt.Fprintf(out, "  %s:", s.Tags[0].Value)
		for _, p := range s.Points {
			fmt.Fprintf(out, "  %v %.1f", p.Time.Sub(start), p.Value)
		}
		fmt.Fprintln(out)
	}
	return nil
}

// correct writes a point again, in line protocol. The later write replaces the value.
func correct(ctx context.Context, series *ts.Store, out io.Writer) error {
	line := fmt.Sprintf("cpu,host=web-01 percent=100 %d", start.UnixMilli())
	written, err := series.WriteLine(ctx, strings.NewReader(line), ts.Milliseconds)
	fmt.Fprintf(out, "corrected %d point\n", written.Written)
	return errors.Join(err, written.Err(), query(ctx, series, out))
}

// remove deletes the second half hour of one host.
func remove(ctx context.Context, series *ts.Store, out io.Writer) error {
	n, err := series.DeleteRange(ctx, "cpu", start.Add(30*time.Minute), start.Add(time.Hour), map[string]string{"host": "web-02"})
	fmt.Fprintf(out, "deleted a range of %d series\n", n)
	return errors.Join(err, query(ctx, series, out))
}

// limit bounds the number of series: a tag with too many values cannot fill the node.
func limit(ctx context.Context, series *ts.Store, out io.Writer) error {
	if err := series.SetSeriesLimit(ctx, 2); err != nil {
		return err
	}
	_, err := series.Write(ctx, ts.Point{Measurement: "cpu", Tags: map[string]string{"host": "web-03"},
		Fields: map[string]float64{"percent": 1}, Time: start})
	var full *ts.LimitError
	if !errors.As(err, &full) {
		return fmt.Errorf("a third series: %w", err)
	}
	fmt.Fprintf(out, "limit of %d series, most values: tag %s\n", full.Limit, full.Tag)
	return nil
}
