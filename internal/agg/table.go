package agg

import (
	"fmt"
	"math"
	"slices"

	"github.com/floedb/floe/internal/codec"
)

// Plan is the computation of a Table. It is the same for all parts of a query.
type Plan struct {
	Func     Func
	P        float64 // for Percentile, 0 to 100
	Pre      Pre
	Panes    Panes
	From, To int64 // ms; points outside are ignored, but Pre uses the last one before From
}

// Code codes the plan.
func (p *Plan) Code(c *codec.Coder) {
	c.Byte((*byte)(&p.Func))
	c.Byte((*byte)(&p.Pre))
	c.Float64(&p.P)
	c.Varint(&p.From)
	c.Varint(&p.To)
	p.Panes.Code(c)
	if c.Reading() && !p.valid() {
		c.Fail("bad plan of an aggregation")
	}
}

func (p *Plan) valid() bool {
	return p.Func.valid() && p.Pre <= Rate && p.P >= 0 && p.P <= 100 && p.From >= -2*MaxTime && p.From < p.To && p.To <= 2*MaxTime &&
		p.Panes.cover(p.From, p.To)
}

// Limits bound a Table; 0 means unlimited.
type Limits struct {
	Points int64 // added
	Bytes  int64 // of memory
}

// The limits of a LimitError.
const (
	LimitPoints = "points"
	LimitBytes  = "bytes"
)

// LimitError names the limit of a Table that was exceeded.
type LimitError struct {
	Limit string
	Max   int64
}

func (e *LimitError) Error() string { return fmt.Sprintf("more than %d %s", e.Max, e.Limit) }

// Table holds the states of all groups and panes of one aggregation. Group names are opaque strings
// of the caller.
type Table struct {
	plan   Plan
	limits Limits
	groups map[string]*group
	open   []*Series // with a latest pane still to be emitted; only with Pre
	points int64
	series int64
	bytes  int64
}

// Approximate memory not counted in states: of a group, a block, a series and a bucket.
const (
	groupBytes  = 160
	blockBytes  = 96 // with its place in an index
	seriesBytes = 160
	bucketBytes = 24 // of a sliding window: its number, time and value
)

// NewTable returns an empty table.
func NewTable(plan Plan, limits Limits) *Table {
	return &Table{plan: plan, limits: limits, groups: make(map[string]*group)}
}

// Points returns the number of points added, here and to merged tables.
func (t *Table) Points() int64 { return t.points }

// SeriesCount returns the number of series added, here and to merged tables.
func (t *Table) SeriesCount() int64 { return t.series }

// Series adds the points of one series to its group.
type Series struct {
	t       *Table
	g       *group
	key     string
	counter *counter // with Pre
	counted bool     // has had points
	pane    int64    // of the latest run, which spans start to end
	start   int64
	end     int64
	run     int // length of the latest run of points in one pane, a good guess for the next
}

// Series returns a Series for adding points to a group. Its key orders series that have points at
// the same time, see First. It counts as a series once it has a point.
func (t *Table) Series(groupID, key string) (*Series, error) {
	s := &Series{t: t, g: t.group(groupID), key: key, run: 1}
	if t.plan.Pre != Points {
		s.counter = new(counter)
		t.open = append(t.open, s)
	}
	return s, t.grow(seriesBytes + int64(len(key)))
}

func (t *Table) group(id string) *group {
	g := t.groups[id]
	if g == nil {
		g = new(group)
		t.groups[id] = g
		t.bytes += groupBytes + int64(len(id))
	}
	return g
}

// Add adds points in order of time. If the plan has a Pre, they must be later than those of
// previous calls. The values must be finite. Add keeps neither slice.
//
// Errors: LimitError.
func (s *Series) Add(times []int64, values []float64) error {
	t := s.t
	if t.points += int64(len(times)); t.limits.Points > 0 && t.points > t.limits.Points {
		return &LimitError{LimitPoints, t.limits.Points}
	}
	from, _ := slices.BinarySearch(times, t.plan.From)
	to, _ := slices.BinarySearch(times, t.plan.To)
	if from > 0 && s.counter != nil {
		s.counter.any, s.counter.latest, s.counter.pane = true, values[from-1], math.MinInt64
	}
	if len(times) > 0 && !s.counted {
		s.counted = true
		t.series++
	}
	times, values = times[from:to], values[from:to]
	for len(times) > 0 {
		s.enter(times[0])
		n := s.runOf(times, s.end)
		if err := s.addRun(s.pane, times[:n], values[:n]); err != nil {
			return err
		}
		times, values = times[n:], values[n:]
	}
	return nil
}

// Bytes returns the memory that the table takes.
func (t *Table) Bytes() int64 { return t.bytes }

// Pass counts points of the series that were read but not added, and their bytes of memory.
//
// Errors: LimitError.
func (s *Series) Pass(points int, bytes int64) error {
	t := s.t
	if t.points += int64(points); t.limits.Points > 0 && t.points > t.limits.Points {
		return &LimitError{LimitPoints, t.limits.Points}
	}
	if points > 0 && !s.counted {
		s.counted = true
		t.series++
	}
	return t.grow(bytes)
}

// enter finds the pane of a time, which is usually that of the previous run or the next one.
func (s *Series) enter(time int64) {
	p := &s.t.plan.Panes
	if step := s.end - s.start; p.bounds == nil && time >= s.end && time < s.end+step {
		s.pane, s.start, s.end = s.pane+1, s.end, s.end+step
		return
	}
	if time < s.start || time >= s.end {
		s.pane = p.Index(time)
		s.start, s.end = p.Start(s.pane), p.Start(s.pane+1)
	}
}

// runOf returns the number of times before end, at least 1. Points usually arrive at regular
// intervals, so it tries the length of the previous run.
func (s *Series) runOf(times []int64, end int64) int {
	n := s.run
	if n > len(times) || times[n-1] >= end || n < len(times) && times[n] < end {
		n, _ = slices.BinarySearch(times, end)
	}
	s.run = max(n, 1)
	return n
}

// addRun adds points of one pane.
func (s *Series) addRun(pane int64, times []int64, values []float64) error {
	if s.counter == nil {
		return s.t.add(s.g, pane, s.key, times, values)
	}
	c := s.counter
	if !c.any {
		c.begin(pane, times[0], values[0])
		values = values[1:]
	} else if pane != c.pane {
		if err := s.emit(); err != nil {
			return err
		}
		c.enter(pane, max(s.t.plan.Panes.Start(pane), s.t.plan.From))
	}
	if len(values) > 0 {
		c.add(values)
	}
	return nil
}

// emit adds the counter's result for a pane to the group.
func (s *Series) emit() error {
	c := s.counter
	if !c.open {
		return nil
	}
	c.open = false
	v := c.increase()
	if s.t.plan.Pre == Rate {
		end := min(s.t.plan.Panes.Start(c.pane+1), s.t.plan.To)
		v /= float64(end-c.covered) / 1000
	}
	if math.IsInf(v, 0) {
		return nil
	}
	c.time[0], c.value[0] = s.t.plan.Panes.Start(c.pane), v
	return s.t.add(s.g, c.pane, s.key, c.time[:], c.value[:])
}

// settle emits the last panes of all counters. Nothing can be added after it.
func (t *Table) settle() error {
	for _, s := range t.open {
		if err := s.emit(); err != nil {
			return err
		}
	}
	t.open = nil
	return nil
}

// add adds points to a state.
func (t *Table) add(g *group, pane int64, key string, times []int64, values []float64) error {
	c, i := t.state(g, pane)
	before := c.bytes(i)
	c.add(i, key, times, values)
	return t.grow(c.bytes(i) - before)
}

// state returns the column and place of a state, and creates it if necessary.
func (t *Table) state(g *group, pane int64) (column, int) {
	number := pane >> blockShift // rounded down, also below 0
	i, found := g.find(number)
	if !found {
		f := &funcs[t.plan.Func]
		i = g.add(block{number, f.column(t.plan.Func, t.plan.P)})
		t.bytes += blockBytes + blockLen*f.bytes
	}
	return g.blocks[i].column, int(pane - number*blockLen)
}

// grow counts memory.
func (t *Table) grow(n int64) error {
	if t.bytes += n; t.limits.Bytes > 0 && t.bytes > t.limits.Bytes {
		return &LimitError{LimitBytes, t.limits.Bytes}
	}
	return nil
}

// Rollup summarizes several points of a series.
type Rollup struct {
	Start               int64   // ms; no bound of a pane lies between two of the points
	Count               uint64  // at least 1
	Sum, SumLost        float64 // the exact sum is Sum + SumLost + all of SumRest
	SumRest             []float64
	Min, Max            float64
	First, Last         float64
	FirstTime, LastTime int64 // ms, or Start
}

// TakesRollups reports whether rollups with buckets of every ms that end within the plan's range
// can answer the plan.
func (p *Plan) TakesRollups(every int64) bool {
	return p.Pre == Points && p.Func != Stddev && p.Func != Percentile && p.Panes.Aligned(every) && p.From%every == 0
}

// AddRollup adds the points that a rollup summarizes. The plan must take rollups of its length, and
// the rollup must not end after the range. It counts as one point.
//
// Errors: LimitError.
func (s *Series) AddRollup(r *Rollup) error {
	t := s.t
	if t.points++; t.limits.Points > 0 && t.points > t.limits.Points {
		return &LimitError{LimitPoints, t.limits.Points}
	}
	if !s.counted {
		s.counted = true
		t.series++
	}
	if r.Start < t.plan.From || r.Start >= t.plan.To {
		return nil
	}
	c, i := t.state(s.g, t.plan.Panes.Index(r.Start))
	before := c.bytes(i)
	switch c := c.(type) {
	case *moment:
		c.addSum(i, r.Count, r.Sum, r.SumLost)
		for _, v := range r.SumRest {
			c.addSum(i, 0, v, 0)
		}
	case *extreme:
		c.addRange(i, r.Min, r.Max)
	case *edge:
		p := edgePoint{r.FirstTime, r.First, s.key}
		if c.f == Last {
			p = edgePoint{r.LastTime, r.Last, s.key}
		}
		c.addPoint(i, p)
	}
	return t.grow(c.bytes(i) - before)
}
