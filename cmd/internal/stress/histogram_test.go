package stress

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h, other Histogram
	var all []time.Duration
	for i := range 10_000 {
		d := time.Duration(rng.ExpFloat64() * float64(time.Millisecond))
		all = append(all, d)
		if i%2 == 0 {
			h.Add(d)
		} else {
			other.Add(d)
		}
	}
	h.Merge(&other)
	slices.Sort(all)
	for _, q := range []float64{0, 0.01, 0.5, 0.99, 0.999, 1} {
		got, want := h.Quantile(q), all[min(int(q*float64(len(all))), len(all)-1)]
		if diff := (got - want).Abs(); float64(diff) > 0.035*float64(want)+1 {
			t.Errorf("quantile %v = %v, want %v within 3.5 %%", q, got, want)
		}
	}
	if got := new(Histogram).Quantile(0.5); got != 0 {
		t.Errorf("quantile of nothing = %v, want 0", got)
	}
	for _, d := range []time.Duration{0, 1, 31, 32, 63, 64, 65, 1<<62 + 12345} {
		var one Histogram
		one.Add(d)
		if got := one.Quantile(0.5); (got - d).Abs() > d/32+1 {
			t.Errorf("quantile of %d alone = %d", d, got)
		}
	}
}
