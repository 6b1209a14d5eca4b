package floql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/floedb/floe/internal/agg"
)

// Options are for Eval. The zero value works.
type Options struct {
	// Now is what "now" means, the same everywhere in the query. The zero value means the time at which Eval is called.
	Now time.Time
	// Limits bound what the query may use. The zero value means the defaults.
	Limits Limits
}

// Eval parses a query and evaluates it.
//
// Errors: *Error for what is wrong with the query, *LimitError if it exceeds a limit, that of ctx, and those of the source.
func Eval(ctx context.Context, src Source, query string, opts Options) (*Result, error) {
	q, err := Parse(query)
	if err != nil {
		return nil, err
	}
	return q.Eval(ctx, src, opts)
}

// Eval evaluates the query over a source. It ends soon after ctx is done.
//
// Errors: *Error for what turns out to be wrong with the query, *LimitError if it exceeds a limit, that of ctx, and those of the source.
func (q *Query) Eval(ctx context.Context, src Source, opts Options) (*Result, error) {
	start := time.Now()
	if opts.Now.IsZero() {
		opts.Now = start
	}
	limits := opts.Limits.WithDefaults()
	late := &LimitError{Limit: "time", message: fmt.Sprintf("the query exceeds the limit of %v", limits.Time)}
	if limits.Time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limits.Time, late)
		defer cancel()
	}
	r := &run{ctx: ctx, src: src, now: opts.Now.UnixMilli(), limits: limits}
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

// run is one evaluation.
type run struct {
	ctx    context.Context
	src    Source
	now    int64
	limits Limits
	rng    timeRange
	points int64 // read, of this and nested queries
	series int64
	bytes  int64 // of points in frames
	hints  []string
}

// frame is the series that are between two stages.
type frame struct {
	key     string // what they are called
	series  []*frameSeries
	windows *agg.Windows // whose buckets the points are, nil if they are of none
	rng     agg.Range    // of the points
	sorted  bool         // by a stage: the order counts
}

// frameSeries is a series, its points by time. A value that is NaN is a null.
type frameSeries struct {
	Series
	times  []int64
	values []float64
}

// query evaluates a query, or one in a join, for which inherited is the range that it has if it gives none.
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

// step takes a frame through one step.
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

// read reads what a query selects, with the steps that need not have it all: point-wise ones, and the first aggregation. It returns the steps that are left.
func (r *run) read(q *Query, f *frame) ([]step, error) {
	list := q.plan.list
	n := 0
	for n < len(list) && (list[n].points != nil || list[n].stage.role == naming) {
		if list[n].points == nil {
			f.key = list[n].stage.args[0].text
		}
		n++
	}
	sel, ok, err := r.selection(q, f)
	if err != nil {
		return nil, err
	}
	points := slices.DeleteFunc(slices.Clone(list[:n]), func(s step) bool { return s.points == nil })
	if n == len(list) || list[n].reduce == nil {
		if !ok {
			return list[n:], nil
		}
		return list[n:], r.collect(&sel, points, f, n == len(list), q.plan.shift)
	}
	limits := r.limits
	source, push := r.src.(Aggregator)
	if push = push && len(points) == 0; !push {
		limits.Points = -1 // stream counts them
	}
	p, w, err := r.partial(list[n].reduce, f, q.plan.shift, limits)
	if err != nil || !ok {
		return list[n+1:], err
	}
	if push {
		if err = source.Aggregate(r.ctx, sel, p); err == nil {
			err = r.count(p.table.Points(), p.table.SeriesCount())
		}
	} else {
		err = r.stream(&sel, points, q.plan.shift, func(s *Series, times []int64, values []float64) error {
			return p.addColumn(&Column{s, times, values})
		})
	}
	if err != nil {
		return nil, err
	}
	return list[n+1:], r.finish(p, w, f)
}

// count counts what has been read.
func (r *run) count(points, series int64) error {
	r.points, r.series = r.points+points, r.series+series
	return cmp.Or(r.limits.CheckPoints(r.points), r.limits.CheckSeries(r.series))
}

// selection returns what to read, and whether there can be anything.
func (r *run) selection(q *Query, f *frame) (Selection, bool, error) {
	shift := q.plan.shift
	sel := Selection{
		Measurement: q.measurement, Filters: q.filters, Fields: q.plan.fields, Limits: r.limits,
		From: f.rng.From - shift, To: f.rng.To - shift, LookBack: q.plan.lookBack,
	}
	r.hint(q)
	return sel, f.rng.From < f.rng.To && !q.plan.noFields, nil
}

// hint notes what to say if the query selects no series.
func (r *run) hint(q *Query) {
	for i := range q.filters {
		if f := &q.filters[i]; f.looksRegular() {
			r.hints = append(r.hints, fmt.Sprintf("%s selects no series: patterns are globs, not regular expressions, so that . is a dot and * is any characters", f))
		}
	}
}

// partial returns what computes a reduction of what is read, and the windows.
func (r *run) partial(d *reduction, f *frame, shift int64, limits Limits) (*Partial, *agg.Windows, error) {
	if f.rng.From >= f.rng.To {
		f.windows = nil
		return nil, nil, nil
	}
	w, err := r.windows(d, f)
	if err != nil {
		return nil, nil, err
	}
	shifted := w.Shift(shift)
	p := plan{by: d.by, agg: agg.Plan{
		Func: d.fn, P: d.p, Pre: d.pre, Panes: shifted.Panes, From: f.rng.From - shift, To: f.rng.To - shift,
	}}
	if limits.Bytes > 0 {
		limits.Bytes = max(limits.Bytes-r.bytes, 1)
	}
	return newPartial(p, limits), w, nil
}

// windows returns the buckets of a reduction: its own, those of the one before, or the whole range.
func (r *run) windows(d *reduction, f *frame) (*agg.Windows, error) {
	if d.windows == nil {
		if f.windows != nil {
			w := f.windows.Starts()
			return &w, nil
		}
		w := agg.Whole(f.rng.From, f.rng.To)
		return &w, nil
	}
	most := r.limits.ResultPoints
	if most < 0 {
		most = 1 << 40
	}
	w, err := d.windows.Windows(f.rng, most, r.ctx.Err)
	if errors.Is(err, agg.ErrWindows) {
		return nil, r.limits.checkResult(most + 1)
	}
	return &w, err
}

// finish makes the series of a frame of an aggregation, sorted.
func (r *run) finish(p *Partial, w *agg.Windows, f *frame) error {
	f.series, f.sorted, r.bytes = nil, false, r.bytes-f.bytes()
	total := int64(0)
	groups, err := p.table.Groups()
	if err != nil {
		return p.limit(err)
	}
	for _, id := range groups {
		times, values, err := p.table.Finish(id, w, r.ctx.Err)
		if err != nil {
			return p.limit(err)
		}
		times, values, _ = each(func(v float64) float64 { return v })(nil)(times, values)
		s := &frameSeries{times: times, values: values}
		if s.Field, s.Tags, err = parseGroup(id); err != nil {
			return err
		}
		if total += s.bytes(); len(times) == 0 {
			continue
		}
		f.series = append(f.series, s)
		if err := r.limits.CheckBytes(r.bytes + total); err != nil {
			return err
		}
	}
	r.bytes += total
	f.windows = w
	if start, _, _ := w.Bucket(0); w.Count() > 0 {
		f.rng.From = min(f.rng.From, start)
	}
	return r.limits.CheckSeries(int64(len(f.series)))
}

func (s *frameSeries) bytes() int64 { return int64(16*len(s.times)) + 100 }

func (f *frame) bytes() (n int64) {
	for _, s := range f.series {
		n += s.bytes()
	}
	return n
}

// dropEmpty removes series without points: they are not there, so that fill gives them none.
func (f *frame) dropEmpty() {
	f.series = slices.DeleteFunc(f.series, func(s *frameSeries) bool { return len(s.times) == 0 })
}

// reduce aggregates the points of a frame.
func (r *run) reduce(d *reduction, f *frame) error {
	limits := r.limits
	limits.Points = -1 // they are no points that are read
	p, w, err := r.partial(d, f, 0, limits)
	if err != nil || p == nil {
		return err
	}
	for _, s := range f.series {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		times, values, _ := keep(func(int64, float64) (bool, error) { return true, nil })(s.times, s.values)
		if err := p.addColumn(&Column{&s.Series, times, values}); err != nil {
			return err
		}
	}
	return r.finish(p, w, f)
}

// pointWise takes all series of a frame through a step.
func (r *run) pointWise(s *step, f *frame) (err error) {
	r.bytes -= f.bytes()
	for _, fs := range f.series {
		apply := s.points(&fs.Series)
		if fs.times, fs.values, err = r.chunked(apply, fs.times, fs.values); err != nil {
			return s.failed(err)
		}
	}
	f.dropEmpty()
	r.bytes += f.bytes()
	return nil
}

// failed says where in the query something failed.
func (s *step) failed(err error) error {
	if s.stage.text == "" || len(s.stage.args) == 0 || s.stage.args[0].expr == nil {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return errorAt(s.stage.text, s.stage.args[0].offset, "%v", err)
}

// chunk is how many points are looked at between two looks at ctx: a few ms, at the speed of the slowest expressions.
const chunk = 4096

// chunked applies a function to points, in chunks.
func (r *run) chunked(apply pointFunc, times []int64, values []float64) ([]int64, []float64, error) {
	n := 0
	for from := 0; from < len(times); from += chunk {
		if err := r.ctx.Err(); err != nil {
			return nil, nil, err
		}
		to := min(from+chunk, len(times))
		t, v, err := apply(times[from:to], values[from:to])
		if err != nil {
			return nil, nil, err
		}
		n += copy(times[n:], t)
		copy(values[n-len(t):], v)
	}
	return times[:n], values[:n], nil
}

// pipe is the state of the first steps for one series.
type pipe struct {
	apply []pointFunc
	steps []step
}

func newPipe(s *Series, steps []step) *pipe {
	p := &pipe{steps: steps}
	for _, st := range steps {
		p.apply = append(p.apply, st.points(s))
	}
	return p
}

// stream reads a selection and hands on what the first steps make of it, which the receiver may not keep.
func (r *run) stream(sel *Selection, points []step, shift int64, to func(*Series, []int64, []float64) error) error {
	pipes := make(map[*Series]*pipe)
	var spareTimes []int64
	var spareValues []float64
	for c, err := range r.src.Read(r.ctx, *sel) {
		if err = cmp.Or(err, r.ctx.Err()); err != nil {
			return err
		}
		times, values := c.Times, c.Values
		p, series := pipes[c.Series], int64(0)
		if p == nil {
			p, series = newPipe(c.Series, points), 1
			pipes[c.Series] = p
		}
		if err := r.count(int64(len(times)), series); err != nil {
			return err
		}
		if len(points) > 0 {
			spareTimes, spareValues = append(spareTimes[:0], times...), append(spareValues[:0], values...)
			times, values = spareTimes, spareValues
			add(times, shift)
			if times, values, err = r.through(p, times, values); err != nil {
				return err
			}
			add(times, -shift)
		}
		if err := to(c.Series, times, values); err != nil {
			return err
		}
	}
	return nil
}

func add(times []int64, d int64) {
	if d != 0 {
		for i := range times {
			times[i] += d
		}
	}
}

// through takes points through the steps of a pipe.
func (r *run) through(p *pipe, times []int64, values []float64) (_ []int64, _ []float64, err error) {
	for i, apply := range p.apply {
		if times, values, err = r.chunked(apply, times, values); err != nil {
			return nil, nil, p.steps[i].failed(err)
		}
	}
	return times, values, nil
}

// collect reads a selection into a frame. If it is the result already, it may have no more points than a result.
func (r *run) collect(sel *Selection, points []step, f *frame, last bool, shift int64) error {
	found := make(map[*Series]*frameSeries)
	total := int64(0)
	sel.LookBack = 0
	err := r.stream(sel, points, shift, func(s *Series, times []int64, values []float64) error {
		fs := found[s]
		if fs == nil {
			fs = &frameSeries{Series: Series{Field: s.Field, Tags: slices.Clone(s.Tags)}}
			found[s] = fs
			r.bytes += fs.bytes()
		}
		fs.times, fs.values = append(fs.times, times...), append(fs.values, values...)
		add(fs.times[len(fs.times)-len(times):], shift)
		total += int64(len(times))
		r.bytes += int64(16 * len(times))
		err := r.limits.CheckBytes(r.bytes)
		if err == nil && last {
			err = r.limits.checkResult(total)
		}
		return err
	})
	if err != nil {
		return err
	}
	f.series = slices.Collect(maps.Values(found))
	f.dropEmpty()
	sortFrame(f)
	return nil
}

// sortFrame puts series into the order of results: by field and tags.
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
