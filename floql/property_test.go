package floql_test

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/test/floqltest"
)

var (
	runs = flag.Int("runs", 400, "random queries that are compared with the naive evaluator")
	seed = flag.Uint64("seed", 1, "of the first of them")
)

// TestAgainstNaive compares random queries over random points with the naive evaluator, to the last
// bit. The points are in memory, or in three sources that answer aggregations in parts.
func TestAgainstNaive(t *testing.T) {
	for i := range *runs {
		g := &generator{Rand: rand.New(rand.NewPCG(*seed+uint64(i), 0))}
		q := g.query()
		var whole floql.Slice
		parts := floqltest.NewShards(*seed + uint64(i))
		parts.Load(t, q.all)
		for _, p := range q.all {
			if err := whole.Add(p.Measurement, p.Tags, p.Field, time.UnixMilli(p.Timestamp), p.Value); err != nil {
				t.Fatal(err)
			}
		}
		want := q.naive()
		for name, source := range map[string]floql.Source{"whole": &whole, "parts": parts} {
			res, err := floql.Eval(t.Context(), source, q.text, floql.Options{Limits: floql.Limits{ResultPoints: 50_000}})
			if _, limited := errors.AsType[*floql.LimitError](err); limited {
				continue // a window of seconds over a month
			}
			if err != nil {
				t.Fatalf("-seed %d: %s: %v", *seed+uint64(i), q.text, err)
			}
			if got := format(res); got != want {
				t.Fatalf("-seed %d, %s: %s\ngot\n%s\nwant\n%s", *seed+uint64(i), name, q.text, got, want)
			}
		}
	}
}

func format(res *floql.Result) string {
	var lines []string
	for _, s := range res.Series {
		tags := make(map[string]string)
		for _, t := range s.Tags {
			tags[t.Key] = t.Value
		}
		line := fmt.Sprintf("%s %q", s.Field, key(tags))
		for _, p := range s.Points {
			if p.IsNull() {
				line += fmt.Sprintf(" %d=null", p.Time.UnixMilli())
			} else {
				line += fmt.Sprintf(" %d=%v", p.Time.UnixMilli(), p.Value)
			}
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// generated is a query, as text and as steps of the naive evaluator.
type generated struct {
	naiveStart naive
	all        []floqltest.Point
	host       string // a filter, unless empty
	steps      []naiveStep
	text       string
}

func (q *generated) naive() string {
	n := q.naiveStart
	n.load(func(tags map[string]string) bool { return q.host == "" || tags["host"] == q.host })
	for _, s := range q.steps {
		s.apply(&n)
	}
	return n.format()
}

type generator struct{ *rand.Rand }

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

// scale describes generated points: their distance in time, and their values.
type scale struct {
	base, step int64
	value      func() float64
	counter    bool
}

func (g *generator) scale() scale {
	s := scale{base: pick[int64](g, 0, 1_000_000, 1711753200000, 1729976400000), step: pick[int64](g, 1, 1000, 7000, 3600_000)}
	switch g.IntN(5) {
	case 0:
		s.value = func() float64 { return float64(g.IntN(20)) }
	case 1:
		s.value = func() float64 { return math.Round(g.NormFloat64()*1000) / 100 }
	case 2:
		s.value = func() float64 { return g.NormFloat64() * math.Pow(10, float64(g.IntN(40)-20)) }
	case 3:
		s.value = func() float64 { return math.Ldexp(float64(g.IntN(100)-50), g.IntN(1000)-500) }
	default:
		s.counter = true
		s.value = func() float64 { return float64(g.IntN(50)) / 4 }
	}
	return s
}

func (g *generator) points(s scale) (all []floqltest.Point) {
	for _, tags := range []map[string]string{{"host": "a", "region": "x"}, {"host": "b", "region": "x"}, {"host": "c"}, {}} {
		for _, field := range []string{"u", "v"} {
			if g.IntN(4) == 0 {
				continue
			}
			t, v := s.base+s.step*int64(g.IntN(10)), 0.0
			for range g.IntN(40) {
				if t += s.step * int64(1+g.IntN(3)); g.IntN(10) == 0 {
					t += s.step * int64(g.IntN(30))
				}
				if v = s.value(); s.counter && len(all) > 0 && g.IntN(8) > 0 {
					v += all[len(all)-1].Value
				}
				all = append(all, floqltest.Point{Measurement: "m", Tags: tags, Field: field, Timestamp: t, Value: v})
			}
		}
	}
	g.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func (g *generator) query() *generated {
	s := g.scale()
	q := &generated{all: g.points(s)}
	n := &q.naiveStart
	n.all = q.all
	n.from = s.base + s.step*int64(g.IntN(30))
	n.to = n.from + 1 + s.step*int64(1+g.IntN(80))
	n.rangeFrom = n.from
	q.text = "m"
	if g.IntN(4) == 0 {
		q.host = pick(g, "a", "b", "nobody")
		q.text += "{host=" + q.host + "}"
	}
	q.text += fmt.Sprintf("[%d..%d]", n.from, n.to)
	if g.IntN(6) == 0 {
		n.shift = s.step * int64(g.IntN(20)+1)
		q.text += fmt.Sprintf(" | shift(%dms)", n.shift)
	}
	if g.IntN(6) == 0 {
		n.fields = []string{pick(g, "u", "v", "nobody")}
		q.text += fmt.Sprintf(" | field(%s)", n.fields[0])
	}
	g.stages(q, s)
	for _, step := range q.steps {
		q.text += " | " + step.String()
	}
	return q
}

// stages adds stages: point-wise ones, an aggregation or a counter, others, and perhaps the same
// again.
func (g *generator) stages(q *generated, s scale) {
	add := func(steps ...naiveStep) { q.steps = append(q.steps, steps...) }
	ordered := g.each(q, 3)
	for round := range 1 + g.IntN(2) {
		if g.IntN(2) == 0 {
			add(pick(g, naiveGroup{all: true}, naiveGroup{by: []string{"host"}}, naiveGroup{by: []string{"host", "region"}},
				naiveGroup{by: []string{"region"}}))
		}
		if g.IntN(4) == 0 {
			c := naiveCounter{pick(g, "rate", "increase"), s.step * int64(1+g.IntN(20))}
			if add(c); round == 0 && !ordered {
				q.naiveStart.lookBack = max(3600_000, c.d)
			}
			if g.IntN(3) == 0 {
				continue
			}
		} else if w := g.window(s, q.naiveStart.to-q.naiveStart.from); g.IntN(5) > 0 {
			add(w)
			g.each(q, 5)
		}
		add(g.aggregate())
		if g.each(q, 4); round == 0 && g.IntN(4) == 0 {
			g.whole(q)
		}
	}
}

// whole adds a stage that needs all series, after an aggregation.
func (g *generator) whole(q *generated) {
	switch g.IntN(3) {
	case 0:
		if !slices.ContainsFunc(q.steps, func(s naiveStep) bool { _, w := s.(naiveWindow); _, c := s.(naiveCounter); return w || c }) {
			return
		}
		v := float64(g.IntN(5))
		q.steps = append(q.steps, naiveFill{pick(g, "null", "prev", "linear", strconv.Itoa(int(v))), v})
	case 1:
		q.steps = append(q.steps, naiveTop{pick(g, "topk", "bottomk"), pick(g, "avg", "max", "min", "last", "sum"), 1 + g.IntN(4)})
	case 2:
		var steps []naiveStep
		for _, s := range q.steps {
			switch s.(type) {
			case naiveWindow, naiveGroup:
				steps = append(steps, s)
			case naiveAggregate:
				q.steps = append(q.steps, naiveJoin{pick(g, "+", "-", "*", "/"), append(steps, g.aggregate())})
				return
			case naiveCounter:
				return
			}
		}
	}
}

func (g *generator) aggregate() naiveAggregate {
	return naiveAggregate{pick(g, "avg", "sum", "count", "min", "max", "first", "last", "median", "stddev", "spread", "percentile"),
		pick(g, 0, 10, 37.5, 99, 100)}
}

func (g *generator) window(s scale, length int64) naiveWindow {
	if s.base > 1e9 && s.step >= 7000 && g.IntN(3) > 0 {
		return naiveWindow{unit: pick(g, "d", "w", "mo"),
			zone: pick(g, "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns")}
	}
	w := naiveWindow{size: max(length/int64(1+g.IntN(12)), 1)}
	w.size -= w.size % min(s.step, w.size)
	if w.every = w.size; g.IntN(3) == 0 {
		w.every = max(w.size/int64(1+g.IntN(5)), 1)
	}
	return w
}

// each adds a point-wise stage with probability 1/n, and reports whether it depends on the order of
// points.
func (g *generator) each(q *generated, n int) (ordered bool) {
	if g.IntN(n) > 0 {
		return false
	}
	i := g.IntN(len(naiveStages))
	q.steps = append(q.steps, naiveStages[i])
	return naiveOrdered[naiveStages[i].text]
}

var naiveOrdered = map[string]bool{"delta()": true, "derivative(7s)": true, "cumsum()": true, "moving_avg(3)": true, "limit(4)": true}

var naiveStages = []naiveEach{
	values("abs()", math.Abs), values("ceil()", math.Ceil), values("floor()", math.Floor), values("round()", math.Round),
	values("round(1)", naiveRound),
	values("clamp(-5, 50)", func(v float64) float64 { return min(max(v, -5), 50) }),
	values("math(value * 2)", func(v float64) float64 { return v * 2 }),
	values("math(10 - value)", func(v float64) float64 { return 10 - v }),
	values("math(1 / value)", func(v float64) float64 { return 1 / v }),
	values("math(value > 5 ? value : -value)", func(v float64) float64 {
		if v > 5 {
			return v
		}
		return -v
	}),
	filter("where(value > 5)", func(_ *naiveSeries, p naivePoint) bool { return p.v > 5 }),
	filter("where(5 >= value)", func(_ *naiveSeries, p naivePoint) bool { return p.v <= 5 }),
	filter("where(value != 0 && timestamp % 2 == 0)", func(_ *naiveSeries, p naivePoint) bool { return p.v != 0 && p.t%2 == 0 }),
	filter(`where(tags.host in ["a", "c"] or field == "u")`, func(s *naiveSeries, p naivePoint) bool {
		return s.tags["host"] == "a" || s.tags["host"] == "c" || s.field == "u"
	}),
	{"delta()", differences(func(a, b naivePoint) float64 { return b.v - a.v })},
	{"derivative(7s)", differences(func(a, b naivePoint) float64 { return (b.v - a.v) / float64(b.t-a.t) * 7000 })},
	{"limit(4)", func(_ *naiveSeries, p []naivePoint) []naivePoint { return p[:min(4, len(p))] }},
	{"cumsum()", running(func(before []float64) float64 { return float(ratSum(before)) })},
	{"moving_avg(3)", running(func(before []float64) float64 {
		latest := before[max(0, len(before)-3):]
		return float(ratSum(latest)) / float64(len(latest))
	})},
}

func values(text string, f func(float64) float64) naiveEach {
	return naiveEach{text, func(_ *naiveSeries, points []naivePoint) (out []naivePoint) {
		for _, p := range points {
			if !p.null {
				p.v = f(p.v)
			}
			if !math.IsInf(p.v, 0) && !math.IsNaN(p.v) {
				out = append(out, p)
			}
		}
		return out
	}}
}

func filter(text string, f func(*naiveSeries, naivePoint) bool) naiveEach {
	return naiveEach{text, func(s *naiveSeries, points []naivePoint) []naivePoint {
		return slices.DeleteFunc(points, func(p naivePoint) bool { return p.null || !f(s, p) })
	}}
}

func differences(f func(a, b naivePoint) float64) func(*naiveSeries, []naivePoint) []naivePoint {
	return func(_ *naiveSeries, points []naivePoint) (out []naivePoint) {
		points = slices.DeleteFunc(points, func(p naivePoint) bool { return p.null })
		for i := 1; i < len(points); i++ {
			if v := f(points[i-1], points[i]); !math.IsInf(v, 0) {
				out = append(out, naivePoint{t: points[i].t, v: v})
			}
		}
		return out
	}
}

func running(f func(before []float64) float64) func(*naiveSeries, []naivePoint) []naivePoint {
	return func(_ *naiveSeries, points []naivePoint) (out []naivePoint) {
		var before []float64
		for _, p := range points {
			if !p.null {
				before = append(before, p.v)
				p.v = f(before)
			}
			if !math.IsInf(p.v, 0) {
				out = append(out, p)
			}
		}
		return out
	}
}

// naiveRound rounds the shortest decimal to one decimal, halves away from zero.
func naiveRound(v float64) float64 {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(math.Abs(v), 'g', -1, 64))
	r.Mul(r, big.NewRat(20, 1))
	r.Add(r, big.NewRat(1, 1)) // 2 * (10 v + 1/2)
	whole := new(big.Int).Quo(r.Num(), new(big.Int).Mul(r.Denom(), big.NewInt(2)))
	return math.Copysign(float(new(big.Rat).SetFrac(whole, big.NewInt(10))), v)
}
