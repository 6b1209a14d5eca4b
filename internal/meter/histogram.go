package meter

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// The buckets of a Histogram are those of a native histogram of Prometheus with this schema: eight
// to each power of two, so that a percentile is off by 9 % at most. Bucket i holds what is more
// than 2^((i-1)/8) seconds and at most 2^(i/8).
const (
	Schema    = 3
	perOctave = 1 << Schema
	first     = -20 * perOctave // up to a microsecond, all that is less too
	last      = 6 * perOctave   // up to a minute, all that is more too
)

// bounds are the upper ends of the buckets of the octave from a half to one.
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

// Distribution is what a Histogram has counted.
type Distribution struct {
	Count uint64
	Sum   time.Duration
	// Buckets are those that have counted something, in order.
	Buckets []Bucket
}

// Bucket is one of a Distribution.
type Bucket struct {
	Index int // see Schema
	Count uint64
}

// Distribution returns what has been counted so far. Calls that are counted meanwhile are in it or
// not.
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

// AtMost returns how many of the durations were at most 2^exponent seconds.
func (d *Distribution) AtMost(exponent int) (n uint64) {
	for _, b := range d.Buckets {
		if b.Index <= exponent*perOctave {
			n += b.Count
		}
	}
	return n
}

// The exponents of two between which AtMost tells something.
const (
	LeastExponent = first / perOctave
	MostExponent  = last/perOctave - 1
)
