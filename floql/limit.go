package floql

import (
	"fmt"
	"time"

	"github.com/floedb/floe/internal/agg"
)

// Limits bound what a query may use. 0 means the default, negative no limit.
type Limits struct {
	// Points is how many points a query reads. By default 100,000,000.
	Points int64
	// Series is how many series with points of its range it reads, and how many an operation in it
	// has. By default 100,000.
	Series int64
	// ResultPoints is how many points its result has, and how many buckets its windows. By default
	// 1,000,000.
	ResultPoints int64
	// Bytes is how much memory it takes for states of buckets, values of percentiles, points in
	// between, and the numbers of the series that match its filters. By default 128 MiB.
	Bytes int64
	// Time is for how long it runs. By default 30 s.
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

// CheckSeries returns a *LimitError if n series are too many.
func (l Limits) CheckSeries(n int64) error {
	return exceeded(LimitSeries, "series", n, l.WithDefaults().Series)
}

// CheckPoints returns a *LimitError if n points are too many to read.
func (l Limits) CheckPoints(n int64) error {
	return exceeded(LimitPoints, "points", n, l.WithDefaults().Points)
}

func (l Limits) checkResult(n int64) error {
	return exceeded(LimitResultPoints, "points or buckets in the result", n, l.WithDefaults().ResultPoints)
}

// CheckBytes returns a *LimitError if n bytes of memory are too many.
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

// The limits of queries.
const (
	LimitPoints       Limit = "points"
	LimitSeries       Limit = "series"
	LimitResultPoints Limit = "result points"
	LimitBytes        Limit = "bytes"
	LimitTime         Limit = "time"
)

// LimitError says which limit a query has exceeded.
type LimitError struct {
	Limit   Limit
	message string
}

func (e *LimitError) Error() string { return e.message }

// table returns the limits as those of the states of an aggregation.
func (l Limits) table() agg.Limits {
	l = l.WithDefaults()
	return agg.Limits{Points: max(l.Points, 0), Bytes: max(l.Bytes, 0)}
}

// ofTable returns the error for one of package agg.
func (l Limits) ofTable(e *agg.LimitError) error {
	if e.Limit == agg.LimitPoints {
		return l.CheckPoints(e.Max + 1)
	}
	return l.CheckBytes(e.Max + 1)
}
