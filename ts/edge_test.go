package ts_test

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/ts"
)

var (
	backfillFlag = flag.Int("backfill", 1, "series that TestBackfill writes ten years of")
	stormFlag    = flag.Int("storm", 30, "batches of late points that TestLateStorm writes")
)

// TestBackfill writes ten years with a point per day. A block is sealed into a bounded number of
// partitions, so the call is split.
func TestBackfill(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	var batch []ts.Point
	want := make(map[ts.At]float64)
	for i := range *backfillFlag {
		host := fmt.Sprintf("h%d", i)
		for d := range int64(3650) {
			p := point(host, -d*day, float64(d+int64(i)))
			p.Fields["twice"] = float64(2 * d)
			batch = append(batch, p)
			for f, v := range p.Fields {
				want[ts.At{Measurement: "cpu", Tags: "host=" + host + ";", Field: f, Time: p.Time.UnixMilli()}] = v
			}
		}
		write(t, s, batch...)
		if batch = batch[:0]; i%10 == 9 {
			r.Advance(6 * minute)
		}
	}
	compare(t, r, want)
	r.Advance(6 * minute)
	rows(t, r, ts.RowBlock, 0)
	compare(t, r, want)
	r.Verify()
}

// TestManyFields: a measurement has up to 1,024 fields, however few fields each point has. Points
// that exceed it are refused, and others written.
func TestManyFields(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	sparse := func(i int, millis int64) ts.Point {
		p := point("a", millis, 0)
		p.Fields = map[string]float64{fmt.Sprintf("f%04d", i): float64(i)}
		return p
	}
	var batch []ts.Point
	for i := range 1000 {
		batch = append(batch, sparse(i, int64(i)))
	}
	write(t, s, batch...)
	batch = batch[:0]
	for i := range 20 {
		batch = append(batch, sparse(990+i*2, hour+int64(i)))
	}
	result, err := s.Write(t.Context(), batch...)
	if result.Written != 20 || err != nil {
		t.Errorf("Write = %+v, %v", result, err)
	}
	result, err = s.Write(t.Context(), sparse(2000, 0), sparse(5, 2*hour), sparse(2001, 0))
	if result.Written+result.Refused != 3 || err != nil && !errors.Is(err, ts.ErrInvalid) {
		t.Errorf("Write = %+v, %v", result, err)
	}
	for i := range 10 {
		_, err = s.Write(t.Context(), sparse(3000+i, 0), sparse(6, 2*hour))
	}
	if !errors.Is(err, ts.ErrInvalid) {
		t.Errorf("Write of a field beyond 1,024 = %v, want ErrInvalid", err)
	}
	if m := must(s.Get(t.Context(), "cpu")); len(m.Fields) != ts.MaxFields {
		t.Errorf("%d fields, want %d", len(m.Fields), ts.MaxFields)
	}
	before := contents(r)
	r.Advance(6 * minute)
	check(t, r, before)
	r.Verify()
}

// TestRefusals: each invalid point is refused on its own, with an error that gives the reason.
func TestRefusals(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	fields := map[string]float64{"v": 1}
	many := make(map[string]string)
	for i := range ts.MaxTags + 1 {
		many[fmt.Sprint(i)] = "x"
	}
	bad := []ts.Point{
		{Fields: fields},
		{Measurement: "floql", Fields: fields},
		{Measurement: "cpu:5m:max", Fields: fields},
		{Measurement: "a\nb", Fields: fields},
		{Measurement: "cpu"},
		{Measurement: "cpu", Fields: map[string]float64{"v": math.NaN()}},
		{Measurement: "cpu", Fields: map[string]float64{"v": math.Inf(-1)}},
		{Measurement: "cpu", Fields: map[string]float64{"": 1}},
		{Measurement: "cpu", Fields: fields, Tags: map[string]string{"": "x"}},
		{Measurement: "cpu", Fields: fields, Tags: map[string]string{"x": ""}},
		{Measurement: "cpu", Fields: fields, Tags: map[string]string{"x": string(make([]byte, ts.MaxTagValueBytes+1))}},
		{Measurement: "cpu", Fields: fields, Tags: map[string]string{"x": "\xff"}},
		{Measurement: "cpu", Fields: fields, Tags: many},
		{Measurement: "cpu", Fields: fields, Time: time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)},
		{Measurement: "cpu", Fields: fields, Time: at(25 * hour)},
	}
	good := point("a", 0, 1)
	result, err := s.Write(t.Context(), append(bad, good)...)
	if result.Written != 1 || result.Refused != len(bad) || !errors.Is(err, ts.ErrInvalid) {
		t.Errorf("Write = %+v, %v, want all refused but the last", result, err)
	}
	for i := range bad {
		if _, err := s.Write(t.Context(), bad[i]); !errors.Is(err, ts.ErrInvalid) {
			t.Errorf("Write of %+v = %v, want ErrInvalid", bad[i], err)
		}
	}
	for _, bad := range []ts.Retention{
		{RawTTL: -1}, {RawTTL: time.Millisecond}, {Downsample: []ts.Downsample{{Every: time.Millisecond}}},
		{Downsample: []ts.Downsample{{Every: time.Hour}, {Every: time.Hour}}},
		{Downsample: []ts.Downsample{{Every: time.Hour, TTL: time.Minute}}},
		{Downsample: make([]ts.Downsample, 9)},
	} {
		if err := s.SetRetention(t.Context(), "cpu", bad); !errors.Is(err, ts.ErrInvalid) {
			t.Errorf("SetRetention to %+v = %v, want ErrInvalid", bad, err)
		}
	}
	for _, n := range []int64{0, -1, 1<<31 + 1, 1 << 40} {
		if err := s.SetSeriesLimit(t.Context(), n); !errors.Is(err, ts.ErrInvalid) {
			t.Errorf("SetSeriesLimit to %d = %v, want ErrInvalid", n, err)
		}
	}
	for _, n := range []int64{1, 1 << 31} {
		if err := s.SetSeriesLimit(t.Context(), n); err != nil {
			t.Errorf("SetSeriesLimit to %d = %v", n, err)
		}
	}
	check(t, r, "cpu host=a; value 0 1")
}

// TestLateStorm repeatedly writes points into buckets computed long ago. All six aggregates always
// match the points.
func TestLateStorm(t *testing.T) {
	rng := rand.New(rand.NewPCG(machinetest.Seed(t), 0))
	r := newRig(t, 1)
	s := storeOf(r, "n")
	must(0, s.SetRetention(t.Context(), "cpu",
		ts.Retention{Downsample: []ts.Downsample{{Every: 10 * time.Minute}, {Every: 7 * time.Hour}}}))
	for range *stormFlag {
		var batch []ts.Point
		for range 1 + rng.IntN(20) {
			v := float64(rng.IntN(10_000)) / 100
			if rng.IntN(20) == 0 {
				v = math.Float64frombits(rng.Uint64())
				if math.IsNaN(v) || math.IsInf(v, 0) {
					v = -math.MaxFloat64
				}
			}
			batch = append(batch, point(fmt.Sprintf("h%d", rng.IntN(3)), -rng.Int64N(3*day)/second*second, v))
		}
		write(t, s, batch...)
		r.Advance(rng.Int64N(8 * minute))
	}
	r.Advance(hour)
	r.Advance(8 * hour)
	compareRollup(t, r, 1, 10*minute)
	compareRollup(t, r, 2, 7*hour)
}

// compareRollup compares a tier with aggregates of the points.
func compareRollup(t *testing.T, r *machinetest.Rig, tier uint16, every int64) {
	t.Helper()
	type bucket struct{ count, least, most, first, last, firstAt, lastAt float64 }
	want := make(map[ts.At]bucket)
	for k, v := range ts.Contents(r, 0, 0, 0) {
		at := float64(k.Time)
		k.Time = k.Time / every * every
		b, ok := want[k]
		if !ok {
			b = bucket{0, v, v, v, v, at, at}
		}
		b.count++
		b.least, b.most = min(b.least, v), max(b.most, v)
		if at < b.firstAt {
			b.first, b.firstAt = v, at
		}
		if at > b.lastAt {
			b.last, b.lastAt = v, at
		}
		want[k] = b
	}
	for column, of := range map[uint8]func(b bucket) float64{
		1: func(b bucket) float64 { return b.count }, 4: func(b bucket) float64 { return b.least },
		5: func(b bucket) float64 { return b.most },
		6: func(b bucket) float64 { return b.first }, 7: func(b bucket) float64 { return b.firstAt },
		8: func(b bucket) float64 { return b.last }, 9: func(b bucket) float64 { return b.lastAt },
	} {
		got := ts.Contents(r, 0, tier, column)
		for k, b := range want {
			if v, ok := got[k]; !ok || v != of(b) {
				t.Fatalf("tier %d: column %d of %+v is %v (%v), want %v", tier, column, k, v, ok, of(b))
			}
		}
		if len(got) != len(want) {
			t.Fatalf("tier %d: column %d has %d buckets, want %d", tier, column, len(got), len(want))
		}
	}
}

// TestSealedAlike: the same points give the same result, in any order and however they were sealed.
func TestSealedAlike(t *testing.T) {
	rng := rand.New(rand.NewPCG(machinetest.Seed(t), 0))
	var all []ts.Point
	for i := range 600 {
		all = append(all, point(fmt.Sprintf("h%d", i%7), int64(i/7)*10*minute-2*day, rng.NormFloat64()))
	}
	first := ""
	for range 4 {
		r := newRig(t, 1)
		s := storeOf(r, "n")
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for from := 0; from < len(all); {
			to := min(len(all), from+1+rng.IntN(100))
			write(t, s, all[from:to]...)
			from = to
			if rng.IntN(2) == 0 {
				r.Advance(rng.Int64N(20 * minute))
			}
		}
		r.Advance(rng.Int64N(2 * day))
		if got := contents(r); first == "" {
			first = got
		} else if got != first {
			t.Error("the same points are others when they come in another order")
		}
	}
}

// TestTransactionIsWhole: a transaction at the limits of one write stores all its points. One
// beyond a limit is refused and stores nothing.
func TestTransactionIsWhole(t *testing.T) {
	many := func(n int, of func(i int) ts.Point) []ts.Point {
		all := make([]ts.Point, n)
		for i := range all {
			all[i] = of(i)
		}
		return all
	}
	named := func(i int) ts.Point {
		p := point("a", 0, float64(i))
		p.Measurement = fmt.Sprint("m", i)
		return p
	}
	wide := func(i int) ts.Point { // 64 values, so that 1,024 points fill a write
		p := point("a", int64(i)*second, 0)
		for f := range 64 {
			p.Fields[fmt.Sprint("f", f)] = math.Sqrt(float64(i*64 + f))
		}
		delete(p.Fields, "value")
		return p
	}
	fields := func(n int) []ts.Point {
		p := point("a", 0, 0)
		for f := range n - 1 {
			p.Fields[fmt.Sprint("f", f)] = float64(f)
		}
		return []ts.Point{p}
	}
	for name, kind := range map[string]struct {
		limit int
		make  func(n int) []ts.Point
	}{
		"measurements": {1000, func(n int) []ts.Point { return many(n, named) }},
		"series": {1000, func(n int) []ts.Point {
			return many(n, func(i int) ts.Point { return point(fmt.Sprint("h", i), 0, 1) })
		}},
		"days": {1024, func(n int) []ts.Point { return many(n, func(i int) ts.Point { return point("a", -int64(i)*day, 1) }) }},
		"days times fields": {4096 / 8, func(n int) []ts.Point {
			return many(n, func(i int) ts.Point {
				p := point("a", -int64(i)*day, 1)
				for f := range 7 {
					p.Fields[fmt.Sprint("f", f)] = 1
				}
				return p
			})
		}},
		"points": {1024, func(n int) []ts.Point { return many(n, wide) }},
		"fields": {ts.MaxFields, fields},
		"bytes": {1 << 16, func(n int) []ts.Point { // incompressible points
			rng := rand.New(rand.NewPCG(1, 1))
			return many(n, func(i int) ts.Point {
				return point(fmt.Sprint("h", i%1000), -rng.Int64N(1000*day), math.Float64frombits(rng.Uint64()>>2|1<<52))
			})
		}},
	} {
		for _, d := range []int{-1, 0, 1} {
			t.Run(fmt.Sprint(name, "=", kind.limit+d), func(t *testing.T) {
				points := kind.make(kind.limit + d)
				values := 0
				for _, p := range points {
					values += len(p.Fields)
				}
				r := newRig(t, 1)
				_, err := r.Txn("n").Do(ts.WriteOp(points...)).Commit(t.Context())
				if d > 0 && !errors.Is(err, ts.ErrInvalid) || d <= 0 && err != nil {
					t.Errorf("Commit = %v", err)
				}
				want := values
				if d > 0 {
					want = 0
				}
				if n := len(ts.Contents(r, 0, 0, 0)); n != want {
					t.Errorf("the transaction has stored %d values, want %d", n, want)
				}
				alone := newRig(t, 1)
				result, err := storeOf(alone, "n").Write(t.Context(), points...)
				refused := name == "fields" && d > 0
				if (err != nil) != refused || result.Written+result.Refused != len(points) || result.Refused > 0 != refused {
					t.Errorf("Write = %+v, %v", result, err)
				}
				if refused {
					values = 0
				}
				if n := len(ts.Contents(alone, 0, 0, 0)); n != values {
					t.Errorf("Write has stored %d values, want %d", n, values)
				}
			})
		}
	}
}

// TestOneLineOfTooManyFields: a point with more fields than a measurement can have is refused
// alone, wherever it is in the batch.
func TestOneLineOfTooManyFields(t *testing.T) {
	line := func(fields int, prefix string, at int) string {
		var b strings.Builder
		b.WriteString("cpu,host=a ")
		for f := range fields {
			fmt.Fprintf(&b, "%s%d=%d,", prefix, f, f)
		}
		return fmt.Sprintf("%s %d\n", strings.TrimSuffix(b.String(), ","), machinetest.Epoch+int64(at))
	}
	r := newRig(t, 1)
	s := storeOf(r, "n")
	result, err := s.WriteLine(t.Context(), strings.NewReader(line(5, "a", 0)+line(1100, "b", 1)+line(5, "c", 2)), ts.Milliseconds)
	if err != nil || result.Written != 2 || result.Refused != 1 || len(result.Errors) != 1 || result.Errors[0].At != 2 ||
		!strings.Contains(result.Errors[0].Err.Error(), "1024 fields") {
		t.Errorf("WriteLine = %+v, %v, want line 2 refused", result, err)
	}
	// Points that the shard refuses do not use up the room for fields of later points.
	old := ts.Retention{RawTTL: time.Hour}
	if err := s.SetRetention(t.Context(), "cpu", old); err != nil {
		t.Fatal(err)
	}
	result, err = s.WriteLine(t.Context(), strings.NewReader(line(1000, "old", -int(2*hour))+line(1000, "new", 3)), ts.Milliseconds)
	if err != nil || result.Written != 1 || result.Refused != 1 || len(result.Errors) != 1 || result.Errors[0].At != 1 {
		t.Errorf("WriteLine = %+v, %v, want line 1 refused", result, err)
	}
	wide := func(prefix string, millis int64) ts.Point {
		p := point("a", millis, 1)
		for f := range 1000 {
			p.Fields[fmt.Sprint(prefix, f)] = 1
		}
		return p
	}
	got, err := s.Write(t.Context(), wide("older", -2*hour), wide("new", 4))
	if err == nil || got.Written != 1 || got.Refused != 1 || got.Errors[0].At != 0 {
		t.Errorf("Write = %+v, %v, want the first point refused", got, err)
	}
}

// TestTimesBeyondMilliseconds: a time outside the integer range of milliseconds is refused like
// others out of range. It used to be stored as another time.
func TestTimesBeyondMilliseconds(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	for _, far := range []time.Time{time.Unix(math.MinInt64/2, 0), time.Unix(1<<61+5, 0), time.Unix(math.MaxInt64/1000+1, 0),
		time.Unix(1<<62, 0)} {
		p := point("a", 0, 1)
		p.Time = far
		if result, err := s.Write(t.Context(), p); !errors.Is(err, ts.ErrInvalid) || result.Written != 0 {
			t.Errorf("%d s: %+v, %v, want ErrInvalid", far.Unix(), result, err)
		}
		if _, err := r.Txn("n").Do(ts.WriteOp(p)).Commit(t.Context()); !errors.Is(err, ts.ErrInvalid) {
			t.Errorf("%d s in a transaction: %v, want ErrInvalid", far.Unix(), err)
		}
	}
	for p, err := range s.Read(t.Context(), "cpu", "value") {
		t.Errorf("there is %v, %v", p, err)
	}
}
