// Package pushdown lets FloQL compute aggregations where the points are. Package floql passes a
// Partial to a source that is an Aggregator, and package ts fills parts of it on every shard. A
// source that is a Namer provides the hints for a query without results.
//
// Users of the language do not need it, so it is not part of floql. Because floql imports it, the
// types of floql are type parameters here: floql.Selection, floql.Series and floql.Limits.
package pushdown

import (
	"context"

	"github.com/floedb/floe/internal/agg"
)

// Aggregator is a floql.Source that can aggregate points where they are. A query uses that if it
// begins with an aggregation, or with point-wise stages followed by one. Otherwise it reads the
// source.
type Aggregator[Selection, Series any] interface {
	// Aggregate adds the points of a selection to p: each series to p itself (Partial.Series), or
	// to a Partial of the same plan elsewhere (Partial.Plan, NewPartial), whose encoding is merged
	// (Partial.Encode, Partial.Merge). All points of a series must be added to one Partial. p must
	// not be used after Aggregate has returned.
	Aggregate(ctx context.Context, sel Selection, p Partial[Series]) error
}

// Partial is a part of an aggregation in windows: the states of its groups and buckets. Parts of
// one plan can be merged in any order. The result is the same, to the last bit, as if all points
// had been added to one of them. It is not safe for concurrent use.
//
// Errors: *floql.LimitError; ctx's error.
type Partial[Series any] interface {
	// Plan returns the encoded definition of the computation, for NewPartial in another process.
	Plan() []byte
	// Computes reports whether points pass through stages before they are aggregated. See
	// PartialSeries.AtOnce.
	Computes() bool
	// TakesRollups reports whether rollups that end within the range of the query can be added
	// instead of points. That is so if the range and all its buckets begin at multiples of
	// everyMillis, and the function can be computed from rollups. The range may end anywhere,
	// because points follow the last rollup.
	TakesRollups(everyMillis int64) bool
	// Split returns the first time at or after t at which a bucket of the query begins, or the end
	// of its range if none does. Rollups may replace the points before it.
	Split(t int64) int64
	// Series returns a PartialSeries for s, and does not retain s. The series counts as soon as it
	// has a point. It returns a *StageError if the stages before the aggregation cost too much for
	// the strings of the series.
	Series(s *Series) (PartialSeries, error)
	// Bytes returns the memory that the states take.
	Bytes() int64
	// Encode appends everything that has been added, for Merge. Nothing can be added after it.
	// Equal parts have equal encodings.
	Encode(ctx context.Context, dst []byte) ([]byte, error)
	// Merge adds the encoding of another Partial of the same plan. It returns an error for bytes
	// that Encode cannot have written.
	Merge(encoded []byte) error
	// Join adds another Partial of the same plan and process, which must not be used afterwards.
	Join(ctx context.Context, o Partial[Series]) error
}

// PartialSeries adds the points of one series to a Partial. Several series may take turns.
//
// Errors: *floql.LimitError, *StageError.
type PartialSeries interface {
	// AtOnce returns how many points to pass to Add between two checks whether the query has ended,
	// which is up to a few milliseconds of work.
	AtOnce() int
	// Add adds points with finite values, in order of time, and later than those of earlier calls.
	// It keeps neither slice. Points outside the range of the selection have no effect, except the
	// last one before it if there is a look-back.
	Add(times []int64, values []float64) error
	// AddRollup adds a rollup as one point, and does not keep it. See Partial.TakesRollups.
	AddRollup(r *agg.Rollup) error
}

// Namer is a floql.Source that can find unknown names.
type Namer[Selection any] interface {
	// Unknown returns the names in a selection that do not exist. It is called after the query, for
	// selections without series.
	Unknown(ctx context.Context, sel Selection) ([]Unknown, error)
}

// Unknown is a name that does not exist.
type Unknown struct {
	Message string   // measurement "cpu" has no field "usge"
	Name    string   // usge
	Known   []string // existing names; the hint suggests the nearest one
}

// StageError reports that a stage before the aggregation has failed for a point. An Aggregator
// returns it, and the query adds the position of the stage in its text.
type StageError struct {
	Stage   int // counted from 0
	Message string
}

func (e *StageError) Error() string { return e.Message }

// newPartial is the function that package floql has provided. It is read-only once all packages are
// initialized.
var newPartial any

// Provide sets the function behind NewPartial. Package floql calls it when it is initialized,
// because Go has no friend packages; see engine.Provide.
func Provide[Series, Limits any](f func(plan []byte, limits Limits) (Partial[Series], error)) struct{} {
	newPartial = f
	return struct{}{}
}

// NewPartial returns an empty Partial with the plan of another one, or an error if the plan did not
// come from Partial.Plan.
func NewPartial[Series, Limits any](plan []byte, limits Limits) (Partial[Series], error) {
	return newPartial.(func([]byte, Limits) (Partial[Series], error))(plan, limits)
}
