package agg

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/floedb/floe/internal/codec"
)

// everyFunc are all functions, with a parameter for those that have one.
var everyFunc = []Plan{
	{Func: Count}, {Func: Total}, {Func: Avg}, {Func: Min}, {Func: Max}, {Func: First}, {Func: Last}, {Func: Stddev}, {Func: Spread},
	{Func: Percentile, P: 50}, {Func: Percentile, P: 99.9}, {Func: Total, Pre: Rate}, {Func: Max, Pre: Increase},
}

type testSeries struct {
	group, key string
	times      []int64
	values     []float64
}

func randomSeries(r *rand.Rand) (all []testSeries) {
	for i := range 6 {
		s := testSeries{group: string(rune('a' + i%2)), key: string(rune('p' + i))}
		t := r.Int64N(50)
		for range r.IntN(300) {
			s.times, s.values = append(s.times, t), append(s.values, anyValue(r))
			t += 1 + r.Int64N(10)
		}
		all = append(all, s)
	}
	return all
}

// fill adds series to a table, in columns of random lengths that take turns.
func fill(t *testing.T, table *Table, all []testSeries, r *rand.Rand) {
	t.Helper()
	var to []*Series
	for _, s := range all {
		h, err := table.Series(s.group, s.key)
		if err != nil {
			t.Fatal(err)
		}
		to = append(to, h)
	}
	rest := slices.Clone(all)
	for left := len(rest); left > 0; {
		i := r.IntN(len(rest))
		s := &rest[i]
		if len(s.times) == 0 {
			left--
			rest, to = slices.Delete(rest, i, i+1), slices.Delete(to, i, i+1)
			continue
		}
		n := 1 + r.IntN(len(s.times))
		if err := to[i].Add(s.times[:n], s.values[:n]); err != nil {
			t.Fatal(err)
		}
		s.times, s.values = s.times[n:], s.values[n:]
	}
}

// results are the bits of everything that a table computes.
func results(t *testing.T, table *Table, w *Windows) (all []string) {
	t.Helper()
	ids, err := table.Groups()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		times, values, err := table.Finish(id, w, never)
		if err != nil {
			t.Fatal(err)
		}
		for i := range times {
			all = append(all, fmt.Sprintf("%s %d %x", id, times[i], math.Float64bits(values[i])))
		}
	}
	return all
}

// TestPartsAreTheWhole: the same points give the same bits, and the same encoding, however they are
// spread over tables and whatever is merged first.
func TestPartsAreTheWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 12 {
		series := randomSeries(r)
		size := 1 + r.Int64N(400)
		l := Layout{Size: Step{Millis: size}, Every: Step{Millis: 1 + r.Int64N(size)}}
		w, err := l.Windows(Range{From: 20, To: 1500}, 1e6, never)
		if err != nil {
			t.Fatal(err)
		}
		for _, plan := range everyFunc {
			plan.Panes, plan.From, plan.To = w.Panes, 20, 1500
			whole := NewTable(plan, Limits{})
			fill(t, whole, series, r)
			merged, joined := NewTable(plan, Limits{}), NewTable(plan, Limits{Bytes: 1 << 40})
			for _, i := range r.Perm(len(series)) {
				part := NewTable(plan, Limits{})
				fill(t, part, series[i:i+1], r)
				b, err := part.Encode(nil, never)
				if err != nil {
					t.Fatal(err)
				}
				if err := merged.Merge(b, nil); err != nil {
					t.Fatalf("%+v: merge %x: %v", plan, b, err)
				}
				if err := joined.Join(part, never); err != nil {
					t.Fatal(err)
				}
			}
			got, want := results(t, merged, &w), results(t, whole, &w)
			if !slices.Equal(got, want) {
				t.Fatalf("round %d, %+v: parts give\n%v\nthe whole\n%v", round, plan, got, want)
			}
			if got := results(t, joined, &w); !slices.Equal(got, want) {
				t.Fatalf("round %d, %+v: joined parts give\n%v\nthe whole\n%v", round, plan, got, want)
			}
			if plan.Func != Percentile && plan.Pre == Points && w.Tumbling() && joined.bytes > whole.bytes {
				t.Fatalf("%+v: joined parts count %d bytes, the whole %d", plan, joined.bytes, whole.bytes)
			}
			a, errA := merged.Encode(nil, never)
			b, errB := whole.Encode(nil, never)
			if err := errors.Join(errA, errB); err != nil || !bytes.Equal(a, b) {
				t.Fatalf("%+v: encodings differ, %v", plan, err)
			}
			if merged.Points() != whole.Points() || merged.SeriesCount() != whole.SeriesCount() {
				t.Fatalf("%d points of %d series, want %d of %d", merged.Points(), merged.SeriesCount(), whole.Points(),
					whole.SeriesCount())
			}
		}
	}
}

// TestRollups: rollups instead of points give the same, but for the order of points at one time.
func TestRollups(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		series := randomSeries(r)
		w, err := (&Layout{Size: Step{Millis: 120}, Every: Step{Millis: 60}}).Windows(Range{From: 60, To: 1200}, 1e6, never)
		if err != nil {
			t.Fatal(err)
		}
		for _, plan := range everyFunc {
			plan.Panes, plan.From, plan.To = w.Panes, 60, 1200
			if !plan.TakesRollups(20) {
				if plan.Pre == Points && plan.Func != Stddev && plan.Func != Percentile {
					t.Errorf("%+v takes no rollups", plan)
				}
				continue
			}
			points, rolled := NewTable(plan, Limits{}), NewTable(plan, Limits{})
			fill(t, points, series, r)
			for _, s := range series {
				addRolled(t, rolled, s, 20)
			}
			if got, want := results(t, rolled, &w), results(t, points, &w); !slices.Equal(got, want) {
				t.Fatalf("%+v: rollups give\n%v\npoints\n%v", plan, got, want)
			}
		}
	}
	plan := Plan{Func: Avg, Panes: Panes{step: 60}, From: 60, To: 1200}
	for every, want := range map[int64]bool{60: true, 30: true, 20: true, 40: false, 120: false} {
		if plan.TakesRollups(every) != want {
			t.Errorf("windows of 60 take rollups of %d: %v", every, !want)
		}
	}
	if plan.From = 61; plan.TakesRollups(60) {
		t.Error("a range that begins within a rollup takes it")
	}
}

// addRolled adds a series by its rollups. Sums of a few values that are far apart do not fit into
// two float64, so only the others are rolled up.
func addRolled(t *testing.T, table *Table, s testSeries, every int64) {
	t.Helper()
	to, err := table.Series(s.group, s.key)
	if err != nil {
		t.Fatal(err)
	}
	for len(s.times) > 0 {
		start := s.times[0] - s.times[0]%every
		n, _ := slices.BinarySearch(s.times, start+every)
		times, values := s.times[:n], s.values[:n]
		s.times, s.values = s.times[n:], s.values[n:]
		var sum Sum
		sum.AddColumn(values)
		high := sum.Float()
		rest := sum
		rest.rest = nil
		var left Sum
		left.AddColumn(values)
		left.Add(-high)
		low := left.Float()
		if left.Add(-low); left.Float() != 0 || math.IsInf(high, 0) {
			if err := to.Add(times, values); err != nil {
				t.Fatal(err)
			}
			continue
		}
		roll := Rollup{
			Start: start, Count: uint64(n), Sum: high, SumLost: low, First: values[0], Last: values[n-1], FirstTime: times[0],
			LastTime: times[n-1],
			Min:      values[0], Max: values[0],
		}
		for _, v := range values {
			roll.Min, roll.Max = math.Min(roll.Min, v), math.Max(roll.Max, v)
		}
		if err := to.AddRollup(&roll); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTableLimits(t *testing.T) {
	plan := Plan{Func: Percentile, P: 50, Panes: Panes{step: 10}, From: 0, To: 1000}
	for _, c := range []struct {
		limits Limits
		want   string
	}{
		{Limits{}, ""}, {Limits{Points: 100}, ""}, {Limits{Points: 99}, LimitPoints}, {Limits{Bytes: 100_000}, ""}, {Limits{Bytes: 3000},
			LimitBytes},
	} {
		table := NewTable(plan, c.limits)
		s, err := table.Series("g", "k")
		for i := int64(0); i < 100 && err == nil; i++ {
			err = s.Add([]int64{10 * i}, []float64{1})
		}
		limit, _ := errors.AsType[*LimitError](err)
		if c.want == "" && err != nil || c.want != "" && (limit == nil || limit.Limit != c.want) {
			t.Errorf("100 points with %+v: %v, want %q", c.limits, err, c.want)
		}
	}
}

// TestAddAllocates: columns of points make no garbage, whatever is computed of them, once the
// states are there; percentiles keep the points.
func TestAddAllocates(t *testing.T) {
	times, values := make([]int64, 1000), make([]float64, 1000)
	for i := range times {
		times[i], values[i] = int64(i), float64(i%17)/4
	}
	for _, plan := range everyFunc {
		if plan.Func == Percentile {
			continue
		}
		plan.Panes, plan.From, plan.To = Panes{step: 30}, 0, 1<<40
		table := NewTable(plan, Limits{})
		s, err := table.Series("g", "k")
		if err != nil {
			t.Fatal(err)
		}
		allocs := testing.AllocsPerRun(50, func() {
			if err := s.Add(times, values); err != nil {
				t.Fatal(err)
			}
			if plan.Pre != Points {
				s.counter = new(counter)
			}
		})
		if allocs > 1 {
			t.Errorf("%+v: %v allocations for 1,000 points", plan, allocs)
		}
	}
}

// FuzzMerge merges bytes: nothing that it takes may be anything but an encoding.
func FuzzMerge(f *testing.F) {
	r := rand.New(rand.NewPCG(7, 8))
	plans := slices.Clone(everyFunc)
	for i := range plans {
		plans[i].Panes, plans[i].From, plans[i].To = Panes{step: 100}, 0, 1000
		table := NewTable(plans[i], Limits{})
		s, err := table.Series("g", "k")
		if err != nil {
			f.Fatal(err)
		}
		if err := s.Add([]int64{1, 50, 150, 920}, []float64{anyValue(r), 1.5, -2, 1e300}); err != nil {
			f.Fatal(err)
		}
		b, err := table.Encode(nil, never)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), b)
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		table := NewTable(plans[int(which)%len(plans)], Limits{Bytes: 1 << 20})
		err := table.Merge(b, nil)
		if _, limited := errors.AsType[*LimitError](err); err != nil && !limited && !errors.Is(err, codec.ErrCorrupt) {
			t.Fatalf("merge %x: %v", b, err)
		}
		if err != nil {
			return
		}
		back, err := table.Encode(nil, never)
		if err != nil || !bytes.Equal(back, b) {
			t.Fatalf("merged %x, encoded %x, %v", b, back, err)
		}
		w, err := (&Layout{Size: Step{Millis: 100}, Every: Step{Millis: 100}}).Windows(Range{From: 0, To: 1000}, 1e6, never)
		if err != nil {
			t.Fatal(err)
		}
		results(t, table, &w)
	})
}

func BenchmarkAdd(b *testing.B) {
	times, values := make([]int64, 1000), make([]float64, 1000)
	for i := range times {
		times[i], values[i] = int64(i)*10_000, float64(i%1700)/100
	}
	for name, plan := range map[string]Plan{
		"avg": {Func: Avg}, "max": {Func: Max}, "last": {Func: Last}, "count": {Func: Count}, "stddev": {Func: Stddev},
		"rate": {Func: Total, Pre: Rate},
	} {
		for _, window := range []int64{10, 300, 3600} {
			b.Run(fmt.Sprintf("func=%s/window=%ds", name, window), func(b *testing.B) {
				plan.Panes, plan.From, plan.To = Panes{step: window * 1000}, 0, 1<<40
				table := NewTable(plan, Limits{})
				s, err := table.Series("g", "k")
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					if err := s.Add(times, values); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/point")
			})
		}
	}
}
