package points

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

type key struct {
	field  uint16
	series uint32
	time   int64
}

func (a key) compare(b key) int {
	return cmp.Or(cmp.Compare(a.field, b.field), cmp.Compare(a.series, b.series), cmp.Compare(a.time, b.time))
}

// model is what an encoding should hold.
type model map[key]uint64 // bits of the values

// read returns what an encoding holds, and checks it on the way.
func read(t testing.TB, data []byte) model {
	t.Helper()
	var r Reader
	info, err := r.Check(data)
	if err != nil {
		t.Fatalf("Check: %v", err)
	}
	m := make(model)
	var c Cursor
	last := key{}
	for _, field := range r.Fields(nil) {
		if ok, err := r.Runs(field, &c); !ok || err != nil {
			t.Fatalf("Runs(%d) = %t, %v", field, ok, err)
		}
		for c.Next() {
			times, values := c.Read()
			if len(times) != c.Len() || len(values) != c.Len() || times[0] != c.First() {
				t.Fatalf("a run of %d points from %d on has %d times from %d on and %d values", c.Len(), c.First(), len(times), times[0],
					len(values))
			}
			for i, ts := range times {
				k := key{field, c.Series(), ts}
				if len(m) > 0 && k.compare(last) <= 0 {
					t.Fatalf("%v comes behind %v", k, last)
				}
				last = k
				m[k] = math.Float64bits(values[i])
			}
		}
	}
	if info.Points != len(m) {
		t.Fatalf("Check counts %d points, there are %d", info.Points, len(m))
	}
	return m
}

func (m model) diff(want model) string {
	for k, bits := range want {
		if got, ok := m[k]; !ok || got != bits {
			return fmt.Sprintf("%v is %v (%t), want %v", k, math.Float64frombits(got), ok, math.Float64frombits(bits))
		}
	}
	if len(m) != len(want) {
		return fmt.Sprintf("%d points, want %d", len(m), len(want))
	}
	return ""
}

// both adds points to an encoder and to a model.
type both struct {
	Encoder
	model
}

func newBoth() *both { return &both{model: make(model)} }

func (b *both) float(series uint32, field uint16, time int64, v float64) {
	b.Float(series, field, time, v)
	b.model[key{field, series, time}] = math.Float64bits(v)
}

func (b *both) decimal(series uint32, field uint16, time, mantissa int64, exponent uint8) {
	b.Decimal(series, field, time, mantissa, exponent)
	b.model[key{field, series, time}] = math.Float64bits(Value(mantissa, exponent))
}

func TestEdges(t *testing.T) {
	values := []float64{0, math.Copysign(0, -1), 1, -1, 0.1, 12.5, -12.25, 1e300, -1e300, 1e-300, 5e-324, math.MaxFloat64, -math.MaxFloat64,
		1 << 53, 1<<53 - 1, 1<<53 + 2,
		-(1 << 53), 0.1 + 0.2, 1e15, 1e22, 1e23, 1e-22, 1e-23, 123456789012345, 1234567890123456789, 1.0 / 3, 4e-7, math.Pi}
	for i, v := range values {
		for j, w := range values {
			b := newBoth()
			b.float(7, 3, MinTime, v)
			b.float(7, 3, 0, w)
			b.float(7, 3, MaxTime, v)
			b.float(math.MaxUint32, 3, int64(i), v)
			b.float(0, math.MaxUint16, int64(j), w)
			if diff := read(t, b.Append(nil)).diff(b.model); diff != "" {
				t.Fatalf("%v and %v: %s", v, w, diff)
			}
		}
	}
}

func TestDecimalsOfSeveralPlaces(t *testing.T) {
	for _, ds := range [][][2]int64{
		{{125, 1}, {1225, 2}, {12, 0}},
		{{1, 22}, {MaxMantissa, 0}},
		{{0, 22}, {0, 0}, {-5, 7}},
		{{MaxMantissa, 22}, {-MaxMantissa, 22}},
		{{MaxMantissa, 0}, {1, 1}},
		{{0, 0}, {1, 22}},
	} {
		b := newBoth()
		for i, d := range ds {
			b.decimal(1, 1, int64(i), d[0], uint8(d[1]))
		}
		b.float(1, 1, 100, 0.5)
		if diff := read(t, b.Append(nil)).diff(b.model); diff != "" {
			t.Errorf("%v: %s", ds, diff)
		}
	}
}

// TestFewOthersAmongDecimals: one value that is no decimal of two places, as the -0.00 that printf
// writes of a small number below 0, leaves all others what they are. It was found in the size of
// points on the disk: a zero crossing cost 20 kB.
func TestFewOthersAmongDecimals(t *testing.T) {
	for name, other := range map[string]func(b *both, at int64){
		"-0":                        func(b *both, at int64) { b.float(1, 1, at, math.Copysign(0, -1)) },
		"a full float":              func(b *both, at int64) { b.float(1, 1, at, 0.1+0.2) },
		"many places":               func(b *both, at int64) { b.decimal(1, 1, at, 1, 22) },
		"a large one":               func(b *both, at int64) { b.float(1, 1, at, 1e300) },
		"a large one, as a decimal": func(b *both, at int64) { b.decimal(1, 1, at, MaxMantissa, 0) },
	} {
		for _, places := range [][]int64{{0}, {1}, {700}, {1000, 1001, 2000}, {4095, 4096}, {4999}} {
			b, rng := newBoth(), rand.New(rand.NewPCG(1, 1))
			v := int64(5000)
			for at := range int64(5000) {
				v += int64(rng.NormFloat64() * 50)
				if b.decimal(1, 1, at, v, 2); slices.Contains(places, at) {
					other(b, at)
				}
			}
			data := b.Append(nil)
			if diff := read(t, data).diff(b.model); diff != "" {
				t.Errorf("%s at %v: %s", name, places, diff)
			}
			if most := 5400 + 60*len(places); len(data) > most {
				t.Errorf("%s at %v: %d bytes, want up to %d", name, places, len(data), most)
			}
		}
	}
}

func TestLaterPointReplaces(t *testing.T) {
	b := newBoth()
	for i := range 100 {
		b.float(uint32(i%3), 1, int64(i%7), float64(i))
	}
	if diff := read(t, b.Append(nil)).diff(b.model); diff != "" {
		t.Error(diff)
	}
	if b.Len() != 21 {
		t.Errorf("Len() = %d once they are sorted, want 21", b.Len())
	}
}

// random adds points of all kinds.
func (b *both) random(rng *rand.Rand) {
	series, fields, n := 1+rng.IntN(40), 1+rng.IntN(4), 1+rng.IntN(2000)
	step, jitter := rng.Int64N(20_000), rng.Int64N(50)
	base, places, gap := rng.Uint32N(1<<20), uint8(rng.IntN(4)), 1+rng.Uint32N(3)
	kind := rng.IntN(7)
	for i := range n {
		s, f := base+gap*uint32(rng.IntN(series)), uint16(rng.IntN(fields)*11)
		at := int64(i/series)*step + rng.Int64N(jitter+1)
		if rng.IntN(300) == 0 {
			at -= rng.Int64N(1 << 40)
		}
		switch kind {
		case 0:
			b.decimal(s, f, at, rng.Int64N(10_000)-5000, places)
		case 1:
			b.float(s, f, at, rng.NormFloat64())
		case 2:
			b.float(s, f, at, math.Round(rng.NormFloat64()*100)/100)
		case 3:
			if v := math.Float64frombits(rng.Uint64()); finite(v) {
				b.float(s, f, at, v)
				continue
			}
			b.decimal(s, f, at, rng.Int64N(MaxMantissa), uint8(rng.IntN(23)))
		case 5: // decimals, but for a few
			if v := math.Round(rng.NormFloat64()*10) / 100; rng.IntN(100) == 0 {
				b.float(s, f, at, []float64{math.Copysign(0, -1), 0.1 + 0.2, 1e-9, 1e300}[rng.IntN(4)])
			} else {
				b.float(s, f, at, v)
			}
		case 6:
			if b.decimal(s, f, at, rng.Int64N(10_000)-5000, places); rng.IntN(100) == 0 {
				b.decimal(s, f, at, rng.Int64N(MaxMantissa), uint8(rng.IntN(23)))
			}
		case 4:
			if b.decimal(s, f, at, int64(i), 0); s%5 == 0 {
				b.float(s, f, at, 1/float64(i+3))
			}
		}
	}
}

func TestRandom(t *testing.T) {
	var used Encoder
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := &both{Encoder: used, model: make(model)}
		b.Reset()
		b.random(rng)
		if diff := read(t, b.Append(nil)).diff(b.model); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
		size := 200 + rng.IntN(5000)
		joined := make(model)
		last := key{}
		for p := range b.Chunks(size) {
			if len(p.Data) > size && p.Points > 50 {
				t.Fatalf("seed %d: a chunk of %d bytes with %d points, want up to %d", seed, len(p.Data), p.Points, size)
			}
			m := read(t, p.Data)
			from, to, end := int64(math.MaxInt64), int64(math.MinInt64), uint32(0)
			for k, bits := range m {
				joined[k] = bits
				from, to, end = min(from, k.time), max(to, k.time), max(end, k.series)
			}
			if p.Points != len(m) || p.From != from || p.To != to || p.Last != end {
				t.Fatalf("seed %d: chunk %+v has %d points from %d to %d, the last series is %d", seed, p, len(m), from, to, end)
			}
			first := key{0, p.Series, p.Time}
			if len(joined) > len(m) && first.compare(last) <= 0 {
				t.Fatalf("seed %d: a chunk begins at %v, behind one that begins at %v", seed, first, last)
			}
			last = first
		}
		if diff := joined.diff(b.model); diff != "" {
			t.Fatalf("seed %d, in chunks: %s", seed, diff)
		}
		used = b.Encoder
	}
}

// TestSeek compares runs that were sought with those that were passed.
func TestSeek(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		b := newBoth()
		if seed%2 == 0 {
			b.random(rng)
		} else { // all runs are alike
			for i := range 20 * (1 + rng.IntN(5)) {
				b.decimal(100+3*uint32(i%20), 0, int64(i/20)*10, int64(i*i%1000), 1)
			}
		}
		var r Reader
		if err := r.Open(b.Append(nil)); err != nil {
			t.Fatal(err)
		}
		var all, some Cursor
		r.Runs(0, &all)
		r.Runs(0, &some)
		for all.Next() {
			if rng.IntN(3) > 0 {
				continue
			}
			want := all.Series() - rng.Uint32N(2)
			if !some.Seek(want) || some.Series() < want {
				t.Fatalf("seed %d: Seek(%d) is at %d", seed, want, some.Series())
			}
			for some.i < all.i && some.Series() >= want {
				some.Next()
			}
			if some.i != all.i {
				continue
			}
			ts, vs := all.Read()
			times, values := some.Read()
			if !slices.Equal(times, ts) || !slices.Equal(values, vs) {
				t.Fatalf("seed %d: series %d, run %d: %v %v, want %v %v", seed, all.Series(), all.i, times, values, ts, vs)
			}
		}
	}
}

func TestSeriesAndFields(t *testing.T) {
	var e Encoder
	e.Float(9, 4, 1, 1)
	e.Float(2, 8, 1, 1)
	e.Float(9, 8, 2, 1)
	e.Float(5, 8, 2, 1)
	var r Reader
	if err := r.Open(e.Append(nil)); err != nil {
		t.Fatal(err)
	}
	series, err := r.Series(nil)
	if err != nil || !slices.Equal(series, []uint32{2, 5, 9}) {
		t.Errorf("Series() = %v, %v", series, err)
	}
	if fields := r.Fields(nil); !slices.Equal(fields, []uint16{4, 8}) {
		t.Errorf("Fields() = %v", fields)
	}
	if ok, err := r.Runs(5, new(Cursor)); ok || err != nil {
		t.Errorf("Runs(5) = %t, %v", ok, err)
	}
}

// TestHostile: Check refuses encodings that no encoder writes.
func TestHostile(t *testing.T) {
	var e Encoder
	for i := range 40 {
		e.Decimal(uint32(i%4), uint16(i%2), int64(i), int64(i), 1)
	}
	good := e.Append(nil)
	var r Reader
	if _, err := r.Check(good); err != nil {
		t.Fatal(err)
	}
	for n := range good {
		if _, err := r.Check(good[:n]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("the first %d bytes of %d: %v", n, len(good), err)
		}
	}
	if _, err := r.Check(append(slices.Clone(good), 0)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte too much: %v", err)
	}
	var inf, huge, late Encoder
	inf.Float(1, 1, 1, math.Inf(1))
	huge.Decimal(1, 1, 1, MaxMantissa+1, 0)
	late.Float(1, 1, MaxTime+1, 1)
	for name, e := range map[string]*Encoder{"infinite": &inf, "mantissa": &huge, "late": &late} {
		if _, err := r.Check(e.Append(nil)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// 2^20 runs of 2 points each in a few bytes.
	many := []byte{version, 1, 0, 0, 0x80, 0x80, 0x40, 0, 0, 2, 1, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	many[3] = byte(len(many)-4)<<1 | 1
	if _, err := r.Check(many); err == nil || !strings.Contains(err.Error(), "points") {
		t.Errorf("too many points: %v", err)
	}
}

func FuzzCheck(f *testing.F) {
	for seed := range uint64(8) {
		b := newBoth()
		b.random(rand.New(rand.NewPCG(seed, 3)))
		if data := b.Append(nil); len(data) < 4096 {
			f.Add(data)
		}
	}
	var e Encoder
	e.Float(1, 2, 3, 4)
	f.Add(e.Append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r Reader
		info, err := r.Check(data)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%v is not ErrCorrupt", err)
			}
			touch(&r, data)
			return
		}
		if info.Points > 1<<12 {
			return // a few bytes can say very many points that are alike
		}
		m := read(t, data)
		var e Encoder
		for k, bits := range m {
			e.Float(k.series, k.field, k.time, math.Float64frombits(bits))
		}
		if diff := read(t, e.Append(nil)).diff(m); diff != "" {
			t.Fatal(diff)
		}
	})
}

// touch reads corrupt points, which must not panic.
func touch(r *Reader, data []byte) {
	if r.Open(data) != nil {
		return
	}
	var c Cursor
	for _, f := range r.Fields(nil) {
		if _, err := r.Runs(f, &c); err != nil {
			continue
		}
		for range 100 {
			if !c.Next() {
				break
			}
			c.Read()
		}
		c.Seek(c.Series() + 10)
	}
}
