package floql

import (
	"fmt"
	"time"

	"github.com/floedb/floe/internal/agg"
)

// Limits bound the resources of a query. 0 means the default, negative no limit.
type Limits struct {
	// Points is the maximum number of points read. The default is 100,000,000.
	Points int64
	// Series is the maximum number of series read that have points in the range, and of the series
	// of any operation in the query. The default is 100,000.
	Series int64
	// ResultPoints is the maximum number of points of the result, and of buckets of its windows.
	// The default is 1,000,000.
	ResultPoints int64
	// Bytes is the memory limit for states of buckets, values of percentiles, intermediate points,
	// and the numbers of the series that match its filters. The default is 128 MiB.
	Bytes int64
	// Time is the maximum running time. The default is 30 s.
	Time time.Duration
}

var defaults = Limits{Points: 100_000_000, Series: 100_000, ResultPoints: 1_000_000, Bytes: 128 << 20, Time: 30 * time.Second}

// WithDefaults returns the limits with every 0 replaced by its default.
func (l Limits) WithDefaults() Limits {
	or := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	or(&l.Points, defaults.Points)
	or(&l.Series, defaults.Series)
	or(&l.ResultPoints, defaults.ResultPoints)
	or(&l.Bytes, defaults.Bytes)
	or((*int64)(&l.Time), int64(defaults.Time))
	return l
}

// CheckSeries returns a *LimitError if n series exceed the limit.
func (l Limits) CheckSeries(n int64) error {
	return exceeded(LimitSeries, "series", n, l.WithDefaults().Series)
}

// CheckPoints returns a *LimitError if n points to read exceed the limit.
func (l Limits) CheckPoints(n int64) error {
	return exceeded(LimitPoints, "points", n, l.WithDefaults().Points)
}

func (l Limits) checkResult(n int64) error {
	return exceeded(LimitResultPoints, "points or buckets in the result", n, l.WithDefaults().ResultPoints)
}

// CheckBytes returns a *LimitError if n bytes of memory exceed the limit.
func (l Limits) CheckBytes(n int64) error {
	return exceeded(LimitBytes, "bytes of memory", n, l.WithDefaults().Bytes)
}

func exceeded(limit Limit, unit string, n, max int64) error {
	if max < 0 || n <= max {
		return nil
	}
	return &LimitError{Limit: limit, message: fmt.Sprintf("the query exceeds the limit of %d %s", max, unit)}
}

// Limit is one of the Limits of a query.
type Limit string

// Limits of queries.
const (
	LimitPoints       Limit = "points"
	LimitSeries       Limit = "series"
	LimitResultPoints Limit = "result points"
	LimitBytes        Limit = "bytes"
	LimitTime         Limit = "time"
)

// LimitError names the limit that a query exceeded.
type LimitError struct {
	Limit   Limit
	message string
}

func (e *LimitError) Error() string { return e.message }

// table returns the limits in the form of package agg.
func (l Limits) table() agg.Limits {
	l = l.WithDefaults()
	return agg.Limits{Points: max(l.Points, 0), Bytes: max(l.Bytes, 0)}
}

// ofTable converts a limit error of package agg.
func (l Limits) ofTable(e *agg.LimitError) error {
	if e.Limit == agg.LimitPoints {
		return l.CheckPoints(e.Max + 1)
	}
	return l.CheckBytes(e.Max + 1)
}
