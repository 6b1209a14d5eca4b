package floql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/floedb/floe/internal/agg"
)

// Options are the options of Eval. The zero value is valid.
type Options struct {
	// Now is the value of "now", the same everywhere in the query. The zero value means the time of
	// the call of Eval.
	Now time.Time
	// Limits bound the resources of the query. The zero value means the defaults.
	Limits Limits
}

// Eval parses a query and evaluates it.
//
// Errors: *Error for a mistake in the query, *LimitError if it exceeds a limit, ctx's error, and
// those of the source.
func Eval(ctx context.Context, src Source, query string, opts Options) (*Result, error) {
	q, err := Parse(query)
	if err != nil {
		return nil, err
	}
	return q.Eval(ctx, src, opts)
}

// Eval evaluates the query over a source. It ends soon after ctx is done.
//
// Errors: *Error for mistakes in the query found during evaluation, *LimitError if it exceeds a
// limit, ctx's error, and those of the source.
func (q *Query) Eval(ctx context.Context, src Source, opts Options) (*Result, error) {
	start := time.Now()
	if opts.Now.IsZero() {
		opts.Now = start
	}
	limits := opts.Limits.WithDefaults()
	late := &LimitError{Limit: LimitTime, message: fmt.Sprintf("the query exceeds the limit of %v", limits.Time)}
	if limits.Time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limits.Time, late)
		defer cancel()
	}
	r := &run{ctx: ctx, src: src, now: max(min(opts.Now.UnixMilli(), agg.MaxTime), -agg.MaxTime), limits: limits}
	f, err := r.query(q, hour)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, late) {
			return nil, late
		}
		return nil, err
	}
	res, err := r.result(q, f)
	if err != nil {
		return nil, err
	}
	res.Stats.Elapsed = time.Since(start)
	return res, nil
}

// run is one evaluation of a query.
type run struct {
	ctx    context.Context
	src    Source
	now    int64
	limits Limits
	rng    timeRange
	points int64 // read, including nested queries
	series int64
	bytes  int64 // of points in frames
	// unmatched are the first selections without series, for hints.
	unmatched []Selection
}

// frame holds the series between two stages.
type frame struct {
	key     string // their name
	series  []*frameSeries
	windows *agg.Windows // buckets of the points, or nil
	rng     agg.Range    // of the points
	sorted  bool         // by a stage: the order is significant
}

// frameSeries is a series with its points in order of time. A NaN value is a null.
type frameSeries struct {
	Series
	times  []int64
	values []float64
}

// query evaluates a query or a query nested in a join. inherited is the range used if the query has
// none.
func (r *run) query(q *Query, inherited timeRange) (*frame, error) {
	rng := inherited
	if q.timeRange != nil {
		rng = *q.timeRange
	}
	before := r.rng
	r.rng = rng
	defer func() { r.rng = before }()
	f := &frame{key: q.measurement, rng: agg.Range{From: rng.from.at(r.now), To: rng.to.at(r.now)}}
	if w := q.plan.floor; w != nil && rng.from.relative && f.rng.From < f.rng.To {
		from, err := w.Floor(f.rng.From)
		if err != nil {
			return nil, err
		}
		f.rng.From = from
	}
	if from := f.rng.From - q.plan.shift; from < -2*agg.MaxTime {
		return nil, errorAt(q.text, 0, "the query reads from %d ms, expected %d ms or later", from, -2*agg.MaxTime)
	}
	rest, err := r.read(q, f)
	if err != nil {
		return nil, err
	}
	for i := range rest {
		if err := r.step(&rest[i], f); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// step applies one step to a frame.
func (r *run) step(s *step, f *frame) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	switch {
	case s.points != nil:
		return r.pointWise(s, f)
	case s.reduce != nil:
		return r.reduce(s.reduce, f)
	case s.stage.role == naming:
		f.key = s.stage.args[0].text
		return nil
	}
	return s.stage.apply(r, f, s.stage)
}

// pointWise applies a step to all series of a frame.
func (r *run) pointWise(s *step, f *frame) (err error) {
	r.bytes -= f.bytes()
	for _, fs := range f.series {
		cost := s.stage.cost(&fs.Series)
		if err = checkCost(cost, &fs.Series); err != nil {
			return s.failed(err)
		}
		apply := s.points(&fs.Series)
		if fs.times, fs.values, err = r.chunked(apply, atOnce(cost), fs.times, fs.values); err != nil {
			return s.failed(err)
		}
	}
	f.dropEmpty()
	r.bytes += f.bytes()
	return nil
}

// failed adds the position in the query to an error.
func (s *step) failed(err error) error {
	if s.stage.text == "" || len(s.stage.args) == 0 || s.stage.args[0].expr == nil {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return errorAt(s.stage.text, s.stage.args[0].offset, "%v", err)
}

// chunk is the maximum number of points between two checks of ctx.
const chunk = 4096

// chunked applies a function to points, atOnce at a time.
func (r *run) chunked(apply pointFunc, atOnce int, times []int64, values []float64) ([]int64, []float64, error) {
	n := 0
	for from := 0; from < len(times); from += atOnce {
		if err := r.ctx.Err(); err != nil {
			return nil, nil, err
		}
		to := min(from+atOnce, len(times))
		t, v, err := apply(times[from:to], values[from:to])
		if err != nil {
			return nil, nil, err
		}
		n += copy(times[n:], t)
		copy(values[n-len(t):], v)
	}
	return times[:n], values[:n], nil
}

// sortFrame sorts series in the order of results: by field and tags.
func sortFrame(f *frame) {
	type named struct {
		*frameSeries
		tags string
	}
	all := make([]named, len(f.series))
	for i, s := range f.series {
		all[i] = named{s, tagsID(s.Tags)}
	}
	slices.SortFunc(all, func(a, b named) int { return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.tags, b.tags)) })
	for i, s := range all {
		f.series[i] = s.frameSeries
	}
}
