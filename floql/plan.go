package floql

import (
	"slices"

	"github.com/floedb/floe/internal/agg"
)

// steps are the steps of a query after reading, in order.
type steps struct {
	list     []step
	fields   []string    // to read; nil means all
	noFields bool        // field(a) | field(b): there are no fields to read
	shift    int64       // ms by which the points read are earlier
	floor    *agg.Layout // the bounds to which a relative start is rounded down: those of the first window
	lookBack int64       // ms
}

// step is one of: points, a reduction, or a stage that needs all series.
type step struct {
	stage  *stage
	points func(*Series) pointFunc
	reduce *reduction
}

// reduction aggregates points in buckets.
type reduction struct {
	fn      agg.Func
	p       float64
	pre     agg.Pre
	windows *agg.Layout // nil: those of the previous reduction, or the whole range
	by      grouping
}

// planner processes the stages of a query in order.
type planner struct {
	p       *reader
	steps   *steps
	pending *stage // a window not yet used by an aggregation
	windows *agg.Layout
	by      grouping
	buckets bool // a stage has made buckets
	reduced bool // there was an aggregation
	ordered bool // there was a stage that depends on the order of points
}

// compile checks the stages together and makes the plan.
func (p *reader) compile(q *Query) *steps {
	c := planner{p: p, steps: &steps{}}
	for _, s := range q.stages {
		c.add(s)
	}
	if c.pending != nil {
		p.fail(c.pending.offset, "window without an aggregation after it, expected avg(), sum(), count(), min(), max() or another one")
	}
	return c.steps
}

func (c *planner) add(s *stage) {
	switch s.role {
	case selecting:
		c.field(s)
	case shifting:
		c.steps.shift += s.args[0].step.Millis
		if c.steps.shift > agg.MaxTime {
			c.p.fail(s.offset, "shift by more than 285,000 years")
		}
	case windowing:
		c.window(s)
	case grouped:
		c.by = grouping{all: s.args[0].text == "*", tags: slices.Sorted(slices.Values(s.args[0].list))}
	case counting:
		c.count(s)
	case aggregation:
		c.aggregate(s)
	case pointWise:
		c.ordered = c.ordered || s.ordered
		c.steps.list = append(c.steps.list, step{stage: s, points: s.points(s)})
	default:
		c.whole(s)
	}
}

func (c *planner) field(s *stage) {
	if c.reduced {
		c.p.fail(s.offset, "field after an aggregation, expected it before")
	}
	st := c.steps
	fields := slices.Clone(s.args[0].list)
	if st.fields != nil {
		fields = slices.DeleteFunc(fields, func(f string) bool { return !slices.Contains(st.fields, f) })
	}
	st.fields, st.noFields = fields, len(fields) == 0
}

func (c *planner) window(s *stage) {
	if c.pending != nil {
		c.p.fail(c.pending.offset, "found another window after window, expected an aggregation between them")
	}
	c.pending = s
	w := &agg.Layout{Size: s.args[0].step, Every: s.args[0].step, Zone: s.args[2].zone}
	if s.args[1].given {
		w.Every = s.args[1].step
	}
	c.use(w, s)
}

// use sets the windows of the following aggregations.
func (c *planner) use(w *agg.Layout, s *stage) {
	// Errors of a calendar do not depend on the range, so a small range is enough to find them.
	if _, err := w.Windows(agg.Range{From: 0, To: 1}, 1_000_000, func() error { return nil }); err != nil {
		c.p.fail(s.args[0].offset, "%v", err)
	}
	c.windows = w
	if c.steps.floor == nil {
		c.steps.floor = w
	}
}

func (c *planner) count(s *stage) {
	w := &agg.Layout{Size: s.args[0].step, Every: s.args[0].step, Zone: s.args[1].zone}
	pending := c.windows
	if c.use(w, s); c.pending != nil {
		c.windows = pending // rate has its own buckets; the next aggregation uses those of the window
	}
	if !c.reduced && !c.ordered {
		const least = 60 * 60 * 1000
		c.steps.lookBack = max(least, w.Size.Millis, w.Size.Months*31*24*60*60*1000)
	}
	c.reduce(s, &reduction{fn: agg.Total, pre: s.pre, windows: w, by: grouping{all: true}})
}

func (c *planner) reduce(s *stage, r *reduction) {
	c.steps.list = append(c.steps.list, step{stage: s, reduce: r})
	c.reduced, c.buckets = true, c.buckets || r.windows != nil
}

func (c *planner) aggregate(s *stage) {
	r := &reduction{fn: s.fn, by: c.by}
	switch s.name {
	case "median":
		r.p = 50
	case "percentile":
		r.p = s.args[0].number
	}
	// An aggregation after rate in the same buckets is computed together with it, for each series
	// as soon as its rate is known.
	if n := len(c.steps.list); n > 0 && c.pending == nil {
		if before := c.steps.list[n-1].reduce; before != nil && before.pre != agg.Points && before.by.all && before.fn == agg.Total &&
			!c.afterAggregate() {
			before.fn, before.p, before.by = r.fn, r.p, r.by
			c.steps.list[n-1].stage = s
			return
		}
	}
	if c.pending != nil {
		r.windows, c.pending = c.windows, nil
	}
	c.reduce(s, r)
}

// afterAggregate reports whether the latest step is an aggregation that was merged into a rate.
func (c *planner) afterAggregate() bool {
	return c.steps.list[len(c.steps.list)-1].stage.role != counting
}

func (c *planner) whole(s *stage) {
	if c.pending != nil {
		c.p.fail(s.offset, "%s between window and its aggregation, expected it after both", s.name)
	}
	if s.role == filling && !c.buckets {
		c.p.fail(s.offset, "fill without a window and an aggregation before it")
	}
	c.steps.list = append(c.steps.list, step{stage: s})
}
