package floql

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/floedb/floe/internal/agg"
	"github.com/floedb/floe/internal/codec"
)

// Partial is a part of an aggregation in windows: the states of its groups and buckets. Parts of one plan can be merged, in any order, and the result is
// the same to the last bit as if one of them had been given all points.
type Partial struct {
	plan   plan
	limits Limits
	table  *agg.Table
	series *lookup

	times  []int64 // of points that steps go over
	values []float64
}

// plan is what a Partial computes, and how series are grouped.
type plan struct {
	agg   agg.Plan
	by    grouping
	first []step // what is done with the points of each series before, all of them point-wise
	shift int64  // ms that are added to all times for that
}

// grouping says which series are aggregated together: those of a field with equal values of some tags, or of all.
type grouping struct {
	all  bool
	tags []string // sorted
}

func (p *plan) code(c *codec.Coder) {
	p.agg.Code(c)
	c.Bool(&p.by.all)
	codec.List(c, &p.by.tags, (*codec.Coder).String)
	codec.List(c, &p.first, codeStep)
	if c.Varint(&p.shift); len(p.first) > maxStages || p.shift < 0 || p.shift > agg.MaxTime {
		c.Fail("bad stages before an aggregation")
	}
}

// codeStep codes a point-wise step as the text of its stage.
func codeStep(c *codec.Coder, s *step) {
	var text string
	if !c.Reading() {
		text = s.stage.String()
	}
	if c.String(&text); !c.Reading() || c.Err() != nil {
		return
	}
	stage, err := parsePointWise(text)
	if err != nil {
		c.Fail(err.Error())
		return
	}
	*s = step{stage: stage, points: stage.points(stage)}
}

// NewPartial returns an empty Partial of the plan of another one.
//
// Errors: if the plan is not what Partial.Plan returns.
func NewPartial(encodedPlan []byte, limits Limits) (*Partial, error) {
	var p plan
	c := codec.NewDecoder(encodedPlan)
	p.code(&c)
	if err := c.Done(); err != nil {
		return nil, err
	}
	return newPartial(p, limits), nil
}

func newPartial(p plan, limits Limits) *Partial {
	return &Partial{plan: p, limits: limits.WithDefaults(), table: agg.NewTable(p.agg, limits.table())}
}

// Plan returns the encoding of what is computed, for NewPartial in another process.
func (p *Partial) Plan() []byte {
	c := codec.NewEncoder(nil)
	p.plan.code(&c)
	return c.Encoded()
}

// Series returns what adds points of a series, which it keeps nothing of. It counts as a series as soon as it has a point.
//
// Errors: *LimitError; *StageError if the stages before the aggregation cost too much for the strings of the series.
func (p *Partial) Series(s *Series) (*PartialSeries, error) {
	t, err := p.table.Series(groupID(s, &p.plan.by), tagsID(s.Tags))
	if err != nil {
		return nil, p.limit(err)
	}
	ps := &PartialSeries{p: p, s: t}
	if len(p.plan.first) > 0 {
		var failed int
		if ps.pipe, failed, err = newPipe(s, p.plan.first); err != nil {
			return nil, &StageError{failed, err.Error()}
		}
	}
	return ps, nil
}

// Bytes returns the memory that the states take.
func (p *Partial) Bytes() int64 { return p.table.Bytes() }

// Computes reports whether points go through stages before they are aggregated, expressions perhaps. See PartialSeries.AtOnce.
func (p *Partial) Computes() bool { return len(p.plan.first) > 0 }

// StageError says that a stage before the aggregation has failed for a point. Who adds points elsewhere hands it on to the query, which knows where in its
// text the stage is.
type StageError struct {
	Stage   int // counted from 0
	Message string
}

func (e *StageError) Error() string { return e.Message }

// limit returns the error for one of package agg.
func (p *Partial) limit(err error) error {
	if l, ok := errors.AsType[*agg.LimitError](err); ok {
		return p.limits.ofTable(l)
	}
	return err
}

// checkSeries is asked for each column, so it looks before it makes an error.
func (p *Partial) checkSeries() error {
	if n := p.table.SeriesCount(); n > p.limits.Series {
		return p.limits.CheckSeries(n)
	}
	return nil
}

// PartialSeries adds the points of one series to a Partial. Those of several series may take turns.
type PartialSeries struct {
	p    *Partial
	s    *agg.Series
	pipe *pipe // nil if points are added as they are
}

// AtOnce returns how many points Add should be given between two looks at whether the query has ended: up to a few milliseconds of work.
func (s *PartialSeries) AtOnce() int {
	if s.pipe == nil {
		return math.MaxInt
	}
	return s.pipe.atOnce
}

// Add adds points: finite values, in the order of their times, which are later than those of the calls before. It keeps neither slice. Points outside of
// the range of the selection change nothing, but for the last one before it if there is a look-back.
//
// Errors: *LimitError, *StageError.
func (s *PartialSeries) Add(times []int64, values []float64) error {
	if s.pipe != nil {
		var err error
		if times, values, err = s.through(times, values); err != nil {
			return err
		}
	}
	if err := s.s.Add(times, values); err != nil {
		return s.p.limit(err)
	}
	return s.p.checkSeries()
}

// through takes points through the first steps.
func (s *PartialSeries) through(times []int64, values []float64) ([]int64, []float64, error) {
	p, read := s.p, len(times)
	p.times, p.values = append(p.times[:0], times...), append(p.values[:0], values...)
	add(p.times, p.plan.shift)
	times, values, at, err := s.pipe.run(p.times, p.values)
	if err != nil {
		return nil, nil, &StageError{at, err.Error()}
	}
	add(times, -p.plan.shift)
	return times, values, p.limit(s.s.Pass(read-len(times), s.pipe.grown()))
}

// Rollup is what is known of several points of a series that have been rolled up.
type Rollup struct {
	Start        int64   // ms since the epoch, when its bucket begins
	Count        uint64  // of points, at least 1
	Sum, SumLost float64 // the exact sum is Sum + SumLost + all of SumRest
	SumRest      []float64
	Min, Max     float64
	First, Last  float64
	FirstTime    int64 // ms, of First; Start if it is not known
	LastTime     int64 // ms, of Last; Start if it is not known
}

// TakesRollups reports whether rollups of buckets of so many ms can be added instead of points, as far as they end within the range of the query: the range
// and all its buckets begin at multiples of that, and the function can be computed from them. The range may end anywhere, as now does: what is left
// behind the last rollup comes as points.
func (p *Partial) TakesRollups(every time.Duration) bool {
	return !p.Computes() && p.plan.agg.TakesRollups(every.Milliseconds())
}

// AddRollup adds what a rollup stands for, as one point. See Partial.TakesRollups.
//
// Errors: *LimitError.
func (s *PartialSeries) AddRollup(r *Rollup) error {
	ar := agg.Rollup(*r)
	if err := s.s.AddRollup(&ar); err != nil {
		return s.p.limit(err)
	}
	return s.p.checkSeries()
}

// Split returns the first time at or after t at which a bucket of the query begins, or the end of its range if there is none: where what is older can come
// from rollups and the rest from points.
func (p *Partial) Split(t int64) int64 {
	plan := &p.plan.agg
	switch {
	case t <= plan.From:
		return plan.From
	case t >= plan.To:
		return plan.To
	}
	i := plan.Panes.Index(t)
	if plan.Panes.Start(i) < t {
		i++
	}
	return min(max(plan.Panes.Start(i), plan.From), plan.To)
}

// Encode appends everything that has been added, for Merge; nothing can be added after it. Equal parts have equal encodings.
//
// Errors: *LimitError; that of ctx.
func (p *Partial) Encode(ctx context.Context, dst []byte) ([]byte, error) {
	b, err := p.table.Encode(dst, ctx.Err)
	return b, p.limit(err)
}

// Join adds what another Partial of the same plan has, which must not be used any more: Merge for what is in the same process.
//
// Errors: *LimitError; that of ctx.
func (p *Partial) Join(ctx context.Context, o *Partial) error {
	if err := p.table.Join(o.table, ctx.Err); err != nil {
		return p.limit(err)
	}
	return p.checkSeries()
}

// Merge adds what another Partial of the same plan has encoded.
//
// Errors: *LimitError; an error for bytes that Encode has not written.
func (p *Partial) Merge(encoded []byte) error {
	if err := p.table.Merge(encoded, func(id string) bool { return p.plan.by.valid(id) }); err != nil {
		return p.limit(err)
	}
	return p.checkSeries()
}

// groupID names the group of a series: the field, and keys and values of the tags by which series are grouped.
func groupID(s *Series, by *grouping) string {
	c := codec.NewEncoder(make([]byte, 0, 64))
	field := s.Field
	c.String(&field)
	for i := range s.Tags {
		if t := &s.Tags[i]; by.all || slices.Contains(by.tags, t.Key) {
			c.String(&t.Key)
			c.String(&t.Value)
		}
	}
	return string(c.Encoded())
}

// parseGroup returns what groupID has encoded.
func parseGroup(id string) (field string, tags []Tag, err error) {
	c := codec.NewDecoder([]byte(id))
	c.String(&field)
	for c.Err() == nil && c.Len() > 0 {
		var t Tag
		c.String(&t.Key)
		c.String(&t.Value)
		if n := len(tags); n > 0 && tags[n-1].Key >= t.Key || t.Value == "" {
			c.Fail("tags out of order")
		}
		tags = append(tags, t)
	}
	return field, tags, c.Done()
}

// valid reports whether a group can be one of this grouping.
func (g *grouping) valid(id string) bool {
	_, tags, err := parseGroup(id)
	for _, t := range tags {
		if !g.all && !slices.Contains(g.tags, t.Key) {
			return false
		}
	}
	return err == nil
}

// tagsID names a tag set, in the order that decides between points at the same time: by keys and values of the tags, bytewise.
func tagsID(tags []Tag) string {
	var b strings.Builder
	for _, t := range tags {
		b.WriteString(t.Key)
		b.WriteByte(0)
		b.WriteString(t.Value)
		b.WriteByte(0)
	}
	return b.String()
}

// lookup finds what belongs to a series by its pointer: mostly it is the one that was asked for last.
type lookup struct {
	latest *Series
	to     *PartialSeries
	all    map[*Series]*PartialSeries
}

// addColumn adds a column of a Read.
func (p *Partial) addColumn(c *Column) error {
	if p.series == nil {
		p.series = &lookup{all: make(map[*Series]*PartialSeries)}
	}
	l := p.series
	if l.latest != c.Series {
		to := l.all[c.Series]
		if to == nil {
			var err error
			if to, err = p.Series(c.Series); err != nil {
				return err
			}
			l.all[c.Series] = to
		}
		l.latest, l.to = c.Series, to
	}
	return l.to.Add(c.Times, c.Values)
}
