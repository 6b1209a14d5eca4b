package floql

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/floedb/floe/internal/pushdown"
)

// read reads the selection of a query and applies the steps that can run on the fly: point-wise
// ones, and the first aggregation. It returns the remaining steps.
func (r *run) read(q *Query, f *frame) ([]step, error) {
	list := q.plan.list
	n := 0
	for n < len(list) && (list[n].points != nil || list[n].stage.role == naming) {
		if list[n].points == nil {
			f.key = list[n].stage.args[0].text
		}
		n++
	}
	points := slices.DeleteFunc(slices.Clone(list[:n]), func(s step) bool { return s.points == nil })
	in := input{q.selection(f, r.limits), points, q.plan.shift}
	before := r.series
	defer func() {
		if r.series == before && len(r.unmatched) < maxHints {
			r.unmatched = append(r.unmatched, in.sel)
		}
	}()
	nothing := f.rng.From >= f.rng.To || q.plan.noFields
	if n == len(list) || list[n].reduce == nil {
		if nothing {
			return list[n:], nil
		}
		return list[n:], r.collect(&in, f, n == len(list))
	}
	if nothing {
		return list[n+1:], nil
	}
	return list[n+1:], r.aggregate(&in, list[n].reduce, f)
}

// input is the selection to read, with the steps applied to each series first.
type input struct {
	sel    Selection
	points []step // all of them point-wise
	shift  int64  // ms added to all times
}

// aggregate reads into an aggregation. If the source can aggregate, it also runs the steps before
// the aggregation.
func (r *run) aggregate(in *input, d *reduction, f *frame) error {
	limits := r.limits
	source, push := r.src.(pushdown.Aggregator[Selection, Series])
	if !push {
		limits.Points = -1 // stream counts them
	}
	p, w, err := r.partial(d, f, in.shift, limits)
	if err != nil {
		return err
	}
	if push {
		p.plan.first, p.plan.shift = in.points, in.shift
		if err = source.Aggregate(r.ctx, in.sel, p); err == nil {
			err = r.count(p.table.Points(), p.table.SeriesCount())
		}
		if failed, ok := errors.AsType[*pushdown.StageError](err); ok && failed.Stage >= 0 && failed.Stage < len(in.points) {
			err = in.points[failed.Stage].failed(err)
		}
	} else {
		err = r.stream(in, func(s *Series, times []int64, values []float64) error {
			return p.addColumn(&Column{s, times, values})
		})
	}
	if err != nil {
		return err
	}
	return r.finish(p, w, f)
}

// count counts points and series read.
func (r *run) count(points, series int64) error {
	r.points, r.series = r.points+points, r.series+series
	return cmp.Or(r.limits.CheckPoints(r.points), r.limits.CheckSeries(r.series))
}

// selection returns the points to read.
func (q *Query) selection(f *frame, limits Limits) Selection {
	return Selection{
		Measurement: q.measurement, Filters: q.filters, Fields: q.plan.fields, Limits: limits,
		From: f.rng.From - q.plan.shift, To: f.rng.To - q.plan.shift, LookBack: q.plan.lookBack,
	}
}

// pipe is the state of the first steps for one series.
type pipe struct {
	apply  []pointFunc
	keeps  []int64 // maximum number of points that each step keeps, if more than a few
	seen   int64
	bytes  int64 // of memory not yet reported
	atOnce int   // points between two checks of ctx
}

// Memory of a step for each series: its state, and the machine that runs an expression.
const (
	stepBytes    = 200
	machineBytes = 1500
)

// newPipe returns the pipe of a series, or an error and the step it concerns.
func newPipe(s *Series, steps []step) (_ *pipe, failed int, err error) {
	p := &pipe{bytes: stepBytes}
	cost := int64(0)
	for i, st := range steps {
		cost = sum(cost, st.stage.cost(s))
		if err := checkCost(cost, s); err != nil {
			return nil, i, err
		}
		p.apply = append(p.apply, st.points(s))
		p.bytes += stepBytes
		if e := st.stage.expression(); e != nil {
			p.bytes += machineBytes + s.bytes()
		}
		if n := st.stage.keeps(); n > 0 {
			p.keeps = append(p.keeps, n)
		}
	}
	p.atOnce = atOnce(cost)
	return p, 0, nil
}

// keeps returns the maximum number of points of a series that a stage keeps, or 0 if they are few.
func (s *stage) keeps() int64 {
	if s.name == "moving_avg" {
		return int64(s.args[0].number)
	}
	return 0
}

// run passes points through the steps. If one fails, it returns its index.
func (p *pipe) run(times []int64, values []float64) (_ []int64, _ []float64, failed int, err error) {
	for _, keeps := range p.keeps {
		n := 8 * max(min(int64(len(times)), keeps-p.seen), 0)
		p.bytes += n
	}
	p.seen += int64(len(times))
	for i, apply := range p.apply {
		if times, values, err = apply(times, values); err != nil {
			return nil, nil, i, err
		}
	}
	return times, values, 0, nil
}

// grown returns the number of bytes by which the state has grown.
func (p *pipe) grown() int64 {
	n := p.bytes
	p.bytes = 0
	return n
}

// stream reads a selection and passes the results of the first steps to a function, which must not
// keep them.
func (r *run) stream(in *input, to func(*Series, []int64, []float64) error) error {
	pipes := make(map[*Series]*pipe)
	var spareTimes []int64
	var spareValues []float64
	held := int64(0)
	defer func() { r.bytes -= held }()
	for c, err := range r.src.Read(r.ctx, in.sel) {
		if err = cmp.Or(err, r.ctx.Err()); err != nil {
			return err
		}
		times, values := c.Times, c.Values
		p, series := pipes[c.Series], int64(0)
		if p == nil {
			failed := 0
			if p, failed, err = newPipe(c.Series, in.points); err != nil {
				return in.points[failed].failed(err)
			}
			pipes[c.Series], series = p, 1
		}
		if err := r.count(int64(len(times)), series); err != nil {
			return err
		}
		if len(in.points) > 0 {
			spareTimes, spareValues = append(spareTimes[:0], times...), append(spareValues[:0], values...)
			times, values = spareTimes, spareValues
			add(times, in.shift)
			if times, values, err = r.through(in.points, p, times, values); err != nil {
				return err
			}
			add(times, -in.shift)
			grown := p.grown()
			held, r.bytes = held+grown, r.bytes+grown
			if err := r.limits.CheckBytes(r.bytes); err != nil {
				return err
			}
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

// through passes points through the steps of a pipe, in chunks.
func (r *run) through(steps []step, p *pipe, times []int64, values []float64) ([]int64, []float64, error) {
	failed := 0
	times, values, err := r.chunked(func(t []int64, v []float64) (_ []int64, _ []float64, err error) {
		t, v, failed, err = p.run(t, v)
		return t, v, err
	}, p.atOnce, times, values)
	if err != nil {
		return nil, nil, steps[failed].failed(err)
	}
	return times, values, nil
}

// collect reads a selection into a frame. If the frame is the final result, the limit of result
// points applies to it.
func (r *run) collect(in *input, f *frame, last bool) error {
	found := make(map[*Series]*frameSeries)
	total := int64(0)
	in.sel.LookBack = 0
	err := r.stream(in, func(s *Series, times []int64, values []float64) error {
		fs := found[s]
		if fs == nil {
			fs = &frameSeries{Series: Series{Field: s.Field, Tags: slices.Clone(s.Tags)}}
			found[s] = fs
			r.bytes += fs.bytes()
		}
		fs.times, fs.values = append(fs.times, times...), append(fs.values, values...)
		add(fs.times[len(fs.times)-len(times):], in.shift)
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
