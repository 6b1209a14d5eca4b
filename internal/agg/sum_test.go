package agg

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/floedb/floe/internal/codec"
)

// exact adds values with all bits that a sum of float64 values may have, and rounds once.
func exact(values []float64) float64 {
	sum := new(big.Float).SetPrec(2400)
	for _, v := range values {
		sum.Add(sum, new(big.Float).SetFloat64(v))
	}
	f, _ := sum.Float64()
	return f
}

// anyValue returns values of the kinds that sums treat differently.
func anyValue(r *rand.Rand) float64 {
	switch r.IntN(8) {
	case 0:
		return 0
	case 1:
		return math.Copysign(0, -1)
	case 2:
		return math.Round(r.NormFloat64()*10000) / 100
	case 3:
		return r.NormFloat64() * math.Pow(10, float64(r.IntN(600)-300))
	case 4:
		return math.Float64frombits(r.Uint64N(1 << 40)) // subnormal
	case 5:
		return float64(int64(r.Uint64()))
	case 6:
		return math.Ldexp(1, r.IntN(2098)-1074) * float64(1-2*r.IntN(2))
	}
	return r.Float64()
}

func TestSumIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		values := make([]float64, 1+r.IntN(40))
		for i := range values {
			if values[i] = anyValue(r); i > 0 && r.IntN(3) == 0 {
				values[i] = -values[r.IntN(i)] // what cancels leaves the small ones
			}
		}
		var whole, parts Sum
		whole.AddColumn(values)
		for rest := values; len(rest) > 0; {
			n := 1 + r.IntN(len(rest))
			var part Sum
			part.AddColumn(rest[:n])
			rest = rest[n:]
			part = recode(t, &part)
			part.Merge(&parts)
			parts = part
		}
		want := exact(values)
		if got := whole.Float(); math.Float64bits(got) != math.Float64bits(want) && got+want != 0 {
			t.Fatalf("sum of %v = %v, want %v", values, got, want)
		}
		if got := parts.Float(); math.Float64bits(got) != math.Float64bits(whole.Float()) {
			t.Fatalf("sum of %v in parts = %v, want %v", values, got, want)
		}
	}
}

func recode(t *testing.T, s *Sum) (back Sum) {
	t.Helper()
	c := codec.NewEncoder(nil)
	s.Code(&c)
	d := codec.NewDecoder(c.Encoded())
	if back.Code(&d); d.Done() != nil {
		t.Fatalf("decode %x: %v", c.Encoded(), d.Done())
	}
	e := codec.NewEncoder(nil)
	if back.Code(&e); string(e.Encoded()) != string(c.Encoded()) {
		t.Fatalf("encoded again: %x, first %x", e.Encoded(), c.Encoded())
	}
	return back
}

func TestSumOfManyLargeValues(t *testing.T) {
	values := make([]float64, 1<<14)
	for i := range values {
		values[i] = 1<<52 - 1
	}
	var s Sum
	for range 4 {
		s.AddColumn(values)
	}
	if got, want := s.Float(), (1<<52-1)*float64(1<<16); got != want {
		t.Errorf("sum = %v, want %v", got, want)
	}
	for _, v := range values {
		for range 4 {
			s.Add(-v)
		}
	}
	if s.Add(0.5); s.Float() != 0.5 {
		t.Errorf("what is left = %v, want 0.5", s.Float())
	}
}

func TestSumOverflows(t *testing.T) {
	var s Sum
	s.AddColumn([]float64{math.MaxFloat64, math.MaxFloat64, math.MaxFloat64})
	if !math.IsInf(s.Float(), 1) || s.Mean(3) != math.MaxFloat64 {
		t.Errorf("sum and mean of three times the greatest value = %v, %v", s.Float(), s.Mean(3))
	}
	s.Add(-math.MaxFloat64)
	if s.Add(-math.MaxFloat64); s.Float() != math.MaxFloat64 {
		t.Errorf("sum = %v after taking two of them away", s.Float())
	}
}

func BenchmarkSum(b *testing.B) {
	for name, scale := range map[string]float64{"gauge": 100, "far": 1e30} {
		b.Run("values="+name, func(b *testing.B) {
			values := make([]float64, 1000)
			r := rand.New(rand.NewPCG(1, 2))
			for i := range values {
				values[i] = r.NormFloat64() * scale
			}
			var s Sum
			for b.Loop() {
				s.AddColumn(values)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/point")
		})
	}
}

// TestSumParts: the parts of a sum add up to it exactly, and the first is what it is rounded to.
func TestSumParts(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for n := range 2000 {
		var s, again Sum
		for range rng.IntN(20) {
			v := math.Float64frombits(rng.Uint64())
			switch {
			case n%3 == 0:
				v = float64(rng.IntN(1e6)) / 100
			case math.IsNaN(v) || math.IsInf(v, 0):
				v = -math.MaxFloat64
			}
			s.Add(v)
			again.Add(v)
		}
		want := s.Float()
		parts := s.Parts(nil, 64)
		if s.Float() != 0 || len(parts) > 64 {
			t.Fatalf("%d parts, %v is left", len(parts), s.Float())
		}
		if len(parts) > 0 && !math.IsInf(want, 0) && parts[0] != want {
			t.Fatalf("the first part is %v, want %v", parts[0], want)
		}
		for _, v := range parts {
			again.Add(-v)
		}
		if again.Float() != 0 {
			t.Fatalf("%v is not in the parts %v of %v", again.Float(), parts, want)
		}
	}
}
