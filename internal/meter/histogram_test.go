package meter

import (
	"math"
	"sync"
	"testing"
	"time"
)

// TestBuckets: each duration is in the bucket whose bounds Prometheus would compute from its index.
func TestBuckets(t *testing.T) {
	for _, d := range []time.Duration{0, 1, time.Microsecond, 1234567, time.Millisecond, time.Second / 2, time.Second, time.Second + 1,
		3 * time.Second, time.Hour} {
		i := bucketOf(d)
		upper, lower := math.Exp2(float64(i)/perOctave), math.Exp2(float64(i-1)/perOctave)
		if s := d.Seconds(); s > upper && i != last || s <= lower && i != first {
			t.Errorf("%v is in bucket %d, from %g to %g", d, i, lower, upper)
		}
	}
}

func TestDistribution(t *testing.T) {
	var h Histogram
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 1000 {
				h.Observe(time.Millisecond)
				h.Observe(3 * time.Second)
			}
		})
	}
	all.Wait()
	d := h.Distribution()
	if d.Count != 8000 || d.Sum != 4000*(3*time.Second+time.Millisecond) || len(d.Buckets) != 2 {
		t.Errorf("got %+v", d)
	}
	for exponent, want := range map[int]uint64{LeastExponent: 0, -9: 4000, 1: 4000, 2: 8000, MostExponent: 8000} {
		if got := d.AtMost(exponent); got != want {
			t.Errorf("at most 2^%d s: %d, want %d", exponent, got, want)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	b.ReportAllocs()
	var h Histogram
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			h.Observe(123456)
		}
	})
}
