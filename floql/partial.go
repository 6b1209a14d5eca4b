package floql

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/floedb/floe/internal/agg"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/pushdown"
)

// partial implements pushdown.Partial.
type partial struct {
	plan   plan
	limits Limits
	table  *agg.Table
	series *lookup

	times  []int64 // of the points that steps process
	values []float64
}

// plan defines the computation of a partial, and the grouping of series.
type plan struct {
	agg   agg.Plan
	by    grouping
	first []step // applied to the points of each series before; all of them point-wise
	shift int64  // ms added to all times for that
}

// grouping defines which series are aggregated together: those of a field that have equal values of
// some tags, or of all tags.
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

var _ = pushdown.Provide(decodePartial)

func decodePartial(encodedPlan []byte, limits Limits) (pushdown.Partial[Series], error) {
	var p plan
	c := codec.NewDecoder(encodedPlan)
	p.code(&c)
	if err := c.Done(); err != nil {
		return nil, err
	}
	return newPartial(p, limits), nil
}

func newPartial(p plan, limits Limits) *partial {
	return &partial{plan: p, limits: limits.WithDefaults(), table: agg.NewTable(p.agg, limits.table())}
}

func (p *partial) Plan() []byte {
	c := codec.NewEncoder(nil)
	p.plan.code(&c)
	return c.Encoded()
}

func (p *partial) Series(s *Series) (pushdown.PartialSeries, error) {
	t, err := p.table.Series(groupID(s, &p.plan.by), tagsID(s.Tags))
	if err != nil {
		return nil, p.limit(err)
	}
	ps := &partialSeries{p: p, s: t}
	if len(p.plan.first) > 0 {
		var failed int
		if ps.pipe, failed, err = newPipe(s, p.plan.first); err != nil {
			return nil, &pushdown.StageError{Stage: failed, Message: err.Error()}
		}
	}
	return ps, nil
}

func (p *partial) Bytes() int64 { return p.table.Bytes() }

func (p *partial) Computes() bool { return len(p.plan.first) > 0 }

// limit converts a limit error of package agg.
func (p *partial) limit(err error) error {
	if l, ok := errors.AsType[*agg.LimitError](err); ok {
		return p.limits.ofTable(l)
	}
	return err
}

// checked converts an error of adding to the table, and checks the number of series.
func (p *partial) checked(err error) error {
	if err != nil {
		return p.limit(err)
	}
	if n := p.table.SeriesCount(); n > p.limits.Series {
		return p.limits.CheckSeries(n)
	}
	return nil
}

// partialSeries implements pushdown.PartialSeries.
type partialSeries struct {
	p    *partial
	s    *agg.Series
	pipe *pipe // nil if points are added unchanged
}

func (s *partialSeries) AtOnce() int {
	if s.pipe == nil {
		return math.MaxInt
	}
	return s.pipe.atOnce
}

func (s *partialSeries) Add(times []int64, values []float64) error {
	if s.pipe != nil {
		var err error
		if times, values, err = s.through(times, values); err != nil {
			return err
		}
	}
	return s.p.checked(s.s.Add(times, values))
}

// through passes points through the first steps.
func (s *partialSeries) through(times []int64, values []float64) ([]int64, []float64, error) {
	p, read := s.p, len(times)
	p.times, p.values = append(p.times[:0], times...), append(p.values[:0], values...)
	add(p.times, p.plan.shift)
	times, values, at, err := s.pipe.run(p.times, p.values)
	if err != nil {
		return nil, nil, &pushdown.StageError{Stage: at, Message: err.Error()}
	}
	add(times, -p.plan.shift)
	return times, values, p.limit(s.s.Pass(read-len(times), s.pipe.grown()))
}

func (p *partial) TakesRollups(everyMillis int64) bool {
	return !p.Computes() && p.plan.agg.TakesRollups(everyMillis)
}

func (s *partialSeries) AddRollup(r *agg.Rollup) error {
	return s.p.checked(s.s.AddRollup(r))
}

func (p *partial) Split(t int64) int64 {
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

func (p *partial) Encode(ctx context.Context, dst []byte) ([]byte, error) {
	b, err := p.table.Encode(dst, ctx.Err)
	return b, p.limit(err)
}

func (p *partial) Join(ctx context.Context, o pushdown.Partial[Series]) error {
	return p.checked(p.table.Join(o.(*partial).table, ctx.Err))
}

func (p *partial) Merge(encoded []byte) error {
	return p.checked(p.table.Merge(encoded, p.plan.by.valid))
}

// groupID identifies the group of a series: the field, and keys and values of the tags by which
// series are grouped.
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

// parseGroup decodes the result of groupID.
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

// valid reports whether an id can be a group of this grouping.
func (g *grouping) valid(id string) bool {
	_, tags, err := parseGroup(id)
	for _, t := range tags {
		if !g.all && !slices.Contains(g.tags, t.Key) {
			return false
		}
	}
	return err == nil
}

// tagsID identifies a tag set. Its bytewise order, by keys and values of the tags, decides between
// points at the same time.
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

// lookup finds the data of a series by its pointer, which is usually the same as in the last call.
type lookup struct {
	latest *Series
	to     pushdown.PartialSeries
	all    map[*Series]pushdown.PartialSeries
}

// addColumn adds a column of a Read.
func (p *partial) addColumn(c *Column) error {
	if p.series == nil {
		p.series = &lookup{all: make(map[*Series]pushdown.PartialSeries)}
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
