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

// Series names the points of one field of one tag set.
type Series struct {
	Field string
	Tags  []Tag // sorted by key; no key is there twice, no value is empty
}

// Column is points of one series. Whoever gets one must not change it, and copies what it keeps:
// the slices are used again for the next column.
type Column struct {
	// Series is whose points these are. Within one Read it is the same pointer for the same series,
	// and another one for another.
	Series *Series
	// Times are in ms since the epoch, ascending, each once, and later than in the columns of the
	// series before.
	Times []int64
	// Values are as many as the times, and finite.
	Values []float64
}

// Selection is which points a query reads. Its times are in ms, as those of columns: it is what a
// source searches its columns with.
type Selection struct {
	Measurement string
	Filters     []Filter // all of them hold; none selects every series
	Fields      []string // of these fields, without a field twice; none means all
	From, To    int64    // ms since the epoch, To excluded; From < To
	// LookBack asks, if it is not 0, for the last point of each series in [From-LookBack, From) as
	// well. Earlier ones of that time may come, or not.
	LookBack int64
	// Limits are those of the query. A source that knows before it reads that there are too many
	// series or points says so then (LimitError); those that it has given are counted by the query.
	Limits Limits
}

// Source has series. It is read by many queries at once.
type Source interface {
	// Read goes over the points of a selection: of each series in the order of their times, in
	// columns of any length. Columns of several series may take turns, in any order. Each pair is a
	// Column and nil, or a zero Column and an error, after which iteration ends; nothing runs
	// before the first step; break or a done ctx releases everything. A measurement that does not
	// exist has no series.
	Read(ctx context.Context, sel Selection) iter.Seq2[Column, error]
}
