package meter

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// The buckets of a Histogram are those of a Prometheus native histogram with this schema: eight per
// power of two, so that a percentile is off by at most 9 %. Bucket i counts durations of more than
// 2^((i-1)/8) seconds and at most 2^(i/8).
const (
	Schema    = 3
	perOctave = 1 << Schema
	first     = -20 * perOctave // up to a microsecond, and everything shorter
	last      = 6 * perOctave   // up to a minute, and everything longer
)

// bounds are the upper bounds of the buckets from a half to one.
var bounds = func() (b [perOctave]float64) {
	for i := range b {
		b[i] = math.Exp2(float64(i)/perOctave - 1)
	}
	return b
}()

// Histogram counts durations. It is safe for concurrent use; the zero value is empty.
type Histogram struct {
	counts [last - first + 1]atomic.Uint64
	nanos  atomic.Int64
}

// Observe counts a duration.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	h.counts[bucketOf(d)-first].Add(1)
	h.nanos.Add(int64(d))
}

func bucketOf(d time.Duration) int {
	if d == 0 {
		return first
	}
	part, exponent := math.Frexp(d.Seconds())
	at, _ := slices.BinarySearch(bounds[:], part)
	return min(max(at+(exponent-1)*perOctave, first), last)
}

// Distribution is the contents of a Histogram.
type Distribution struct {
	Count uint64
	Sum   time.Duration
	// Buckets are the nonempty buckets, in order.
	Buckets []Bucket
}

// Bucket is a bucket of a Distribution.
type Bucket struct {
	Index int // see Schema
	Count uint64
}

// Distribution returns the counts so far. It may or may not include concurrent calls of Observe.
func (h *Histogram) Distribution() (d Distribution) {
	for i := range h.counts {
		if n := h.counts[i].Load(); n > 0 {
			d.Buckets = append(d.Buckets, Bucket{first + i, n})
			d.Count += n
		}
	}
	d.Sum = time.Duration(h.nanos.Load())
	return d
}

// AtMost returns the number of durations of at most 2^exponent seconds.
func (d *Distribution) AtMost(exponent int) (n uint64) {
	for _, b := range d.Buckets {
		if b.Index <= exponent*perOctave {
			n += b.Count
		}
	}
	return n
}

// The range of exponents for which AtMost is meaningful.
const (
	LeastExponent = first / perOctave
	MostExponent  = last/perOctave - 1
)
