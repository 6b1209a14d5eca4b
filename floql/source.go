package floql

import (
	"context"
	"iter"
)

// Tag is a tag of a series.
type Tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Series identifies the points of one field of one tag set.
type Series struct {
	Field string
	Tags  []Tag // sorted by key; keys are unique, values not empty
}

// Column holds points of one series. Receivers must not change it and must copy what they keep: the
// slices are reused for the next column.
type Column struct {
	// Series is the series of the points. Within one Read, the same series has the same pointer,
	// and different series have different ones.
	Series *Series
	// Times are in ms since the epoch, ascending and unique, and later than in earlier columns of
	// the series.
	Times []int64
	// Values has the length of Times; all values are finite.
	Values []float64
}

// Selection selects the points that a query reads. Its times are in ms, like those of columns, so
// that a source can compare them.
type Selection struct {
	Measurement string
	Filters     []Filter // all must match; none selects every series
	Fields      []string // fields to read, without duplicates; none means all
	From, To    int64    // ms since the epoch, To excluded; From < To
	// LookBack, if not 0, also requests the last point of each series in [From-LookBack, From).
	// Earlier points of that time may or may not be included.
	LookBack int64
	// Limits are those of the query. A source that can detect before reading that there are too
	// many series or points returns a LimitError. The query counts those that it receives.
	Limits Limits
}

// Source provides series. It must be safe for concurrent use by many queries.
type Source interface {
	// Read iterates over the points of a selection. Those of each series come in order of time, in
	// columns of any length. Columns of several series may alternate, in any order. Each pair is a
	// Column and nil, or a zero Column and an error, after which iteration ends. Nothing runs
	// before the first step, and break or a done ctx releases everything. A measurement that does
	// not exist has no series.
	Read(ctx context.Context, sel Selection) iter.Seq2[Column, error]
}
