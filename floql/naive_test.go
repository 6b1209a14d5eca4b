package floql_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/floedb/floe/internal/test/floqltest"
)

// The naive evaluator applies the stages of the reference one after another, over all points at
// once, in rational numbers. It shares no code with the package under test, not even the parser: a
// query is a list of steps that can print themselves.

type naivePoint struct {
	t    int64
	v    float64
	null bool
}

type naiveSeries struct {
	tags   map[string]string
	field  string
	points []naivePoint
}

// naiveBucket is a bucket [from, to) and the time that names it.
type naiveBucket struct{ start, from, to int64 }

// naive is the state between two steps.
type naive struct {
	all       []floqltest.Point
	from, to  int64
	rangeFrom int64 // as in the query
	shift     int64
	fields    []string
	series    []*naiveSeries
	buckets   []naiveBucket // of the last aggregation
	window    *naiveWindow  // for the next aggregation
	by        []string
	byAll     bool
	lookBack  int64
}

type naiveStep interface {
	String() string
	apply(n *naive)
}

func key(tags map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		fmt.Fprintf(&b, "%s\x00%s\x00", k, tags[k])
	}
	return b.String()
}

// load selects points: all in [from, to), and those of the look-back before it.
func (n *naive) load(filter func(map[string]string) bool) {
	found := make(map[string]*naiveSeries)
	for _, p := range n.all {
		t := p.Timestamp + n.shift
		if t < n.from-n.lookBack || t >= n.to || !filter(p.Tags) || n.fields != nil && !slices.Contains(n.fields, p.Field) {
			continue
		}
		id := p.Field + "\x00" + key(p.Tags)
		if found[id] == nil {
			found[id] = &naiveSeries{tags: p.Tags, field: p.Field}
		}
		s := found[id]
		s.points = slices.DeleteFunc(s.points, func(old naivePoint) bool { return old.t == t })
		s.points = append(s.points, naivePoint{t: t, v: p.Value})
	}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		s := found[id]
		slices.SortFunc(s.points, func(a, b naivePoint) int { return cmp.Compare(a.t, b.t) })
		n.series = append(n.series, s)
	}
}

func (n *naive) format() string {
	var lines []string
	for _, s := range n.series {
		if len(s.points) == 0 {
			continue
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s %q", s.field, key(s.tags))
		for _, p := range s.points {
			if p.null {
				fmt.Fprintf(&b, " %d=null", p.t)
			} else {
				fmt.Fprintf(&b, " %d=%v", p.t, p.v+0) // 0 for -0
			}
		}
		lines = append(lines, b.String())
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func rat(v float64) *big.Rat { return new(big.Rat).SetFloat64(v) }

func ratSum(values []float64) *big.Rat {
	sum := new(big.Rat)
	for _, v := range values {
		sum.Add(sum, rat(v))
	}
	return sum
}

func float(r *big.Rat) float64 {
	v, _ := r.Float64()
	return v
}

// naiveAggregates computes each function over the points of a bucket, sorted by time and series.
var naiveAggregates = map[string]func(values []float64) (float64, bool){
	"count": func(v []float64) (float64, bool) { return float64(len(v)), true },
	"sum":   func(v []float64) (float64, bool) { return float(ratSum(v)), true },
	"avg":   func(v []float64) (float64, bool) { return float(ratSum(v)) / float64(len(v)), true },
	"min":   func(v []float64) (float64, bool) { return slices.Min(v), true },
	"max":   func(v []float64) (float64, bool) { return slices.Max(v), true },
	"last":  func(v []float64) (float64, bool) { return v[len(v)-1], true },
	"median": func(v []float64) (float64, bool) {
		return naivePercentile(v, 50), true
	},
	"spread": func(v []float64) (float64, bool) { return slices.Max(v) - slices.Min(v), true },
	"stddev": func(v []float64) (float64, bool) {
		if len(v) < 2 {
			return 0, false
		}
		mean := new(big.Rat).Quo(ratSum(v), big.NewRat(int64(len(v)), 1))
		squares := new(big.Rat)
		for _, x := range v {
			d := new(big.Rat).Sub(rat(x), mean)
			squares.Add(squares, d.Mul(d, d))
		}
		squares.Quo(squares, big.NewRat(int64(len(v)-1), 1))
		root := new(big.Float).SetPrec(500).SetRat(squares)
		f, _ := root.Sqrt(root).Float64()
		return f, true
	},
}

func naivePercentile(v []float64, p float64) float64 {
	sorted := slices.Sorted(slices.Values(v))
	rank := p * float64(len(v)-1) / 100
	below := math.Floor(rank)
	if below == rank {
		return sorted[int(rank)]
	}
	a, b := sorted[int(below)], sorted[int(below)+1]
	return a + float64((b-a)*(rank-below))
}

// naiveAggregate is an aggregation stage.
type naiveAggregate struct {
	name string
	p    float64
}

func (a naiveAggregate) String() string {
	if a.name == "percentile" {
		return fmt.Sprintf("percentile(%v)", a.p)
	}
	return a.name + "()"
}

// naiveSample is a point and its series.
type naiveSample struct {
	naivePoint
	key string
}

func (a naiveAggregate) apply(n *naive) {
	if n.window != nil {
		n.buckets, n.window = n.window.buckets(n.from, n.to), nil
	} else if n.buckets == nil {
		n.buckets = []naiveBucket{{n.from, n.from, n.to}}
	} else {
		// Points at bucket starts fall into the same buckets again.
		for i := range n.buckets {
			n.buckets[i].from, n.buckets[i].to = n.buckets[i].start, n.buckets[i].start+1
		}
	}
	groups := make(map[string]*naiveSeries)
	members := make(map[string][]*naiveSeries)
	for _, s := range n.series {
		tags := make(map[string]string)
		for k, v := range s.tags {
			if n.byAll || slices.Contains(n.by, k) {
				tags[k] = v
			}
		}
		id := s.field + "\x00" + key(tags)
		if groups[id] == nil {
			groups[id] = &naiveSeries{tags: tags, field: s.field}
		}
		members[id] = append(members[id], s)
	}
	n.series = nil
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		g := groups[id]
		for _, b := range n.buckets {
			var in []naiveSample
			for _, s := range members[id] {
				for _, p := range s.points {
					if p.t >= b.from && p.t < b.to && !p.null {
						in = append(in, naiveSample{p, key(s.tags)})
					}
				}
			}
			if v, ok := a.compute(in); ok && !math.IsInf(v, 0) {
				g.points = append(g.points, naivePoint{t: b.start, v: v})
			}
		}
		n.series = append(n.series, g)
	}
	n.from = min(n.from, n.buckets[0].start)
}

func (a naiveAggregate) compute(in []naiveSample) (float64, bool) {
	if len(in) == 0 {
		return 0, false
	}
	slices.SortFunc(in, func(a, b naiveSample) int { return cmp.Or(cmp.Compare(a.t, b.t), strings.Compare(a.key, b.key)) })
	var values []float64
	for _, s := range in {
		values = append(values, s.v)
	}
	switch a.name {
	case "percentile":
		return naivePercentile(values, a.p), true
	case "first":
		first := values[0]
		for _, s := range in {
			if s.t == in[0].t {
				first = s.v // the greatest key of that time comes last
			}
		}
		return first, true
	}
	return naiveAggregates[a.name](values)
}

// naiveWindow is a window in steps of ms, or in days, weeks or months of a time zone.
type naiveWindow struct {
	size, every int64 // ms
	unit        string
	zone        string
}

func (w naiveWindow) String() string {
	switch {
	case w.zone != "":
		return fmt.Sprintf("window(1%s, tz=%s)", w.unit, w.zone)
	case w.every != w.size:
		return fmt.Sprintf("window(%dms, %dms)", w.size, w.every)
	}
	return fmt.Sprintf("window(%dms)", w.size)
}

func (w naiveWindow) apply(n *naive) { n.window = &w }

func (w naiveWindow) buckets(from, to int64) (all []naiveBucket) {
	if w.zone != "" {
		return w.calendar(from, to)
	}
	for start := from - ((from%w.every)+w.every)%w.every; start < to; start += w.every {
		all = append(all, naiveBucket{start, max(start, from), min(start+w.size, to)})
	}
	return all
}

// calendar steps through time in five minutes and reads the local calendar.
func (w naiveWindow) calendar(from, to int64) (all []naiveBucket) {
	loc, err := time.LoadLocation(w.zone)
	if err != nil {
		panic(err)
	}
	label := func(t int64) string {
		at := time.UnixMilli(t).In(loc)
		switch w.unit {
		case "mo":
			return at.Format("2006-01")
		case "w":
			year, week := at.ISOWeek()
			return fmt.Sprint(year, week)
		}
		return at.Format("2006-01-02")
	}
	const step, margin = 5 * 60 * 1000, 40 * 24 * 3600 * 1000
	begin := from - margin - (from-margin)%step
	for t := begin; t <= to+margin; t += step {
		if label(t) == label(t-step) {
			continue
		}
		if n := len(all); n > 0 {
			all[n-1].to = t
		}
		all = append(all, naiveBucket{start: t, from: t})
	}
	all = all[:len(all)-1]
	all = slices.DeleteFunc(all, func(b naiveBucket) bool { return b.to <= from || b.start >= to })
	for i := range all {
		all[i].from, all[i].to = max(all[i].from, from), min(all[i].to, to)
	}
	return all
}

// naiveCounter is rate or increase.
type naiveCounter struct {
	name string
	d    int64
}

func (c naiveCounter) String() string { return fmt.Sprintf("%s(%dms)", c.name, c.d) }

func (c naiveCounter) apply(n *naive) {
	buckets := naiveWindow{size: c.d, every: c.d}.buckets(n.from, n.to)
	for _, s := range n.series {
		s.points = slices.DeleteFunc(s.points, func(p naivePoint) bool { return p.null })
		var out []naivePoint
		for _, b := range buckets {
			sum, any, covered := new(big.Rat), false, b.from
			for i, p := range s.points {
				if p.t < b.from || p.t >= b.to {
					continue
				}
				if i == 0 {
					covered = p.t
					continue
				}
				any = true
				if before := s.points[i-1].v; p.v < before {
					sum.Add(sum, rat(p.v))
				} else {
					sum.Add(sum, new(big.Rat).Sub(rat(p.v), rat(before)))
				}
			}
			v := float(sum)
			if c.name == "rate" {
				v /= float64(b.to-covered) / 1000
			}
			if any && !math.IsInf(v, 0) {
				out = append(out, naivePoint{t: b.start, v: v})
			}
		}
		s.points = out
	}
	n.buckets = buckets
	n.from = min(n.from, n.buckets[0].start)
}

// naiveGroup is group_by.
type naiveGroup struct {
	by  []string
	all bool
}

func (g naiveGroup) String() string {
	if g.all {
		return "group_by(*)"
	}
	return "group_by(" + strings.Join(g.by, ", ") + ")"
}

func (g naiveGroup) apply(n *naive) { n.by, n.byAll = g.by, g.all }

// naiveEach is a stage that handles each series on its own.
type naiveEach struct {
	text string
	f    func(s *naiveSeries, points []naivePoint) []naivePoint
}

func (e naiveEach) String() string { return e.text }

func (e naiveEach) apply(n *naive) {
	for _, s := range n.series {
		s.points = e.f(s, slices.Clone(s.points))
	}
}

// naiveFill is fill.
type naiveFill struct {
	with  string
	value float64
}

func (f naiveFill) String() string { return "fill(" + f.with + ")" }

func (f naiveFill) apply(n *naive) {
	for _, s := range n.series {
		if len(s.points) == 0 {
			continue // such a series does not exist
		}
		var out []naivePoint
		for _, b := range n.buckets {
			if v, ok := f.at(s.points, b.start); ok {
				out = append(out, v)
			}
		}
		s.points = out
	}
}

func (f naiveFill) at(points []naivePoint, t int64) (naivePoint, bool) {
	var before, after *naivePoint
	for i := range points {
		switch p := &points[i]; {
		case p.null:
		case p.t == t:
			return *p, true
		case p.t < t:
			before = p
		case after == nil:
			after = p
		}
	}
	switch {
	case f.with == "null":
		return naivePoint{t: t, null: true}, true
	case f.with == "prev":
		if before == nil {
			return naivePoint{}, false
		}
		return naivePoint{t: t, v: before.v}, true
	case f.with == "linear":
		if before == nil || after == nil {
			return naivePoint{}, false
		}
		part := float64(t-before.t) / float64(after.t-before.t)
		return naivePoint{t: t, v: before.v + float64((after.v-before.v)*part)}, true
	}
	return naivePoint{t: t, v: f.value}, true
}

// naiveTop is topk or bottomk.
type naiveTop struct {
	name, by string
	k        int
}

func (k naiveTop) String() string { return fmt.Sprintf("%s(%d, %s)", k.name, k.k, k.by) }

func (k naiveTop) apply(n *naive) {
	rank := func(s *naiveSeries) (float64, bool) {
		var values []float64
		for _, p := range s.points {
			if !p.null {
				values = append(values, p.v)
			}
		}
		if len(values) == 0 {
			return 0, false
		}
		return naiveAggregates[k.by](values)
	}
	n.series = slices.DeleteFunc(n.series, func(s *naiveSeries) bool { _, ok := rank(s); return !ok })
	slices.SortStableFunc(n.series, func(a, b *naiveSeries) int {
		return cmp.Or(cmp.Compare(a.field, b.field), strings.Compare(key(a.tags), key(b.tags)))
	})
	slices.SortStableFunc(n.series, func(a, b *naiveSeries) int {
		x, _ := rank(a)
		y, _ := rank(b)
		if k.name == "bottomk" {
			return cmp.Compare(x, y)
		}
		return cmp.Compare(y, x)
	})
	n.series = n.series[:min(k.k, len(n.series))]
}

// naiveJoin is join with a query over the same points and range.
type naiveJoin struct {
	op    string
	steps []naiveStep
}

func (j naiveJoin) String() string {
	text := "m"
	for _, s := range j.steps {
		text += " | " + s.String()
	}
	return fmt.Sprintf("join(%s, (%s))", j.op, text)
}

func (j naiveJoin) apply(n *naive) {
	right := naive{all: n.all, from: n.rangeFrom, to: n.to, rangeFrom: n.rangeFrom}
	right.load(func(map[string]string) bool { return true })
	for _, s := range j.steps {
		s.apply(&right)
	}
	for _, s := range n.series {
		partners := slices.DeleteFunc(slices.Clone(right.series), func(r *naiveSeries) bool {
			return key(r.tags) != key(s.tags) ||
				len(r.points) == 0
		})
		if len(partners) > 1 {
			partners = slices.DeleteFunc(partners, func(r *naiveSeries) bool { return r.field != s.field })
		}
		var out []naivePoint
		for _, p := range s.points {
			for _, r := range partners {
				for _, q := range r.points {
					if q.t != p.t {
						continue
					}
					v := map[string]float64{"+": p.v + q.v, "-": p.v - q.v, "*": p.v * q.v, "/": p.v / q.v}[j.op]
					if null := p.null || q.null; null || !math.IsInf(v, 0) && !math.IsNaN(v) {
						out = append(out, naivePoint{p.t, v, null})
					}
				}
			}
		}
		s.points = out
	}
}
