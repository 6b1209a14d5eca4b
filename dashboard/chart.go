package dashboard

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/floedb/floe/ts"
)

// chart reads points of a field within a range of time, ms. Points of several series arrive
// interleaved and must be sorted.
type chart struct {
	store              *ts.Store
	measurement, field string
	tags               map[string]string
	from, to           int64
}

func formatMillis(ms int64) string { return strconv.FormatInt(ms, 10) }

// read calls f for all points of a part of the range.
func (c *chart) read(ctx context.Context, from, to int64, f func(dataPoint)) error {
	points := c.store.Read(ctx, c.measurement, c.field, ts.Tags(c.tags), ts.Between(time.UnixMilli(from), time.UnixMilli(to)))
	for p, err := range points {
		if err != nil {
			return err
		}
		f(dataPoint{p.Time.UnixMilli(), p.Value})
	}
	return nil
}

func byTime(a, b dataPoint) int { return cmp.Compare(a.Timestamp, b.Timestamp) }

// first returns about the first n points, never only some of the points of one time. after is the
// time of the first omitted point, 0 if none exists.
func (c *chart) first(ctx context.Context, n int) (points []dataPoint, after int64, err error) {
	points = []dataPoint{}
	// The first points are searched in parts of the range, each longer than the one before while
	// few points are found.
	step := (24 * time.Hour).Milliseconds()
	for from := c.from; from < c.to && len(points) <= n; {
		to := min(c.to, from+step)
		before := len(points)
		err := c.read(ctx, from, to, func(p dataPoint) {
			if points = append(points, p); len(points) > 4*n+1000 {
				points = firstOf(points, n+1)
			}
		})
		if err != nil {
			return nil, 0, err
		}
		if from = to; len(points)-before < n/2 {
			step *= 2
		}
	}
	slices.SortStableFunc(points, byTime)
	if len(points) <= n {
		return points, 0, nil
	}
	after = points[n].Timestamp
	end := n
	for end > 0 && points[end-1].Timestamp == after {
		end--
	}
	if end == 0 { // more points at one time than fit into a response: they cannot be split
		points = firstOf(points, n+1)
		return points, after + 1, nil
	}
	return points[:end], after, nil
}

// firstOf returns the first n points by time, and further ones with the time of the last of them.
func firstOf(points []dataPoint, n int) []dataPoint {
	slices.SortStableFunc(points, byTime)
	for n < len(points) && points[n].Timestamp == points[n-1].Timestamp {
		n++
	}
	return points[:n]
}

// reduced returns up to n points that look the same on a chart as all of them: the minimum and
// maximum of each of n/2 parts of the range.
func (c *chart) reduced(ctx context.Context, n int) ([]dataPoint, error) {
	all := []dataPoint{}
	var parts []extremes
	add := func(p dataPoint) { parts[c.part(p.Timestamp, len(parts))].add(p) }
	if c.from >= c.to {
		return all, nil
	}
	err := c.read(ctx, c.from, c.to, func(p dataPoint) {
		if parts != nil {
			add(p)
			return
		}
		if all = append(all, p); len(all) > n {
			parts = make([]extremes, n/2)
			for _, p := range all {
				add(p)
			}
			all = all[:0]
		}
	})
	for i := range parts {
		all = parts[i].appendTo(all)
	}
	slices.SortStableFunc(all, byTime)
	return all, err
}

// part returns the index of the part of a time, if the range has n equal parts.
func (c *chart) part(at int64, n int) int {
	return min(int(float64(at-c.from)/float64(c.to-c.from)*float64(n)), n-1)
}

// extremes are the minimum and maximum of some points.
type extremes struct {
	any         bool
	least, most dataPoint
}

func (e *extremes) add(p dataPoint) {
	if !e.any {
		*e = extremes{true, p, p}
		return
	}
	if p.Value < e.least.Value {
		e.least = p
	}
	if p.Value > e.most.Value {
		e.most = p
	}
}

func (e *extremes) appendTo(points []dataPoint) []dataPoint {
	switch {
	case !e.any:
		return points
	case e.least == e.most:
		return append(points, e.least)
	}
	return append(points, e.least, e.most)
}
