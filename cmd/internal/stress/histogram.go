package stress

import (
	"math/bits"
	"time"
)

// Histogram counts durations in buckets whose width grows with the duration: subBuckets for each
// power of two, so that a percentile is off by at most 3 %. A Histogram belongs to one goroutine;
// Merge adds up those of several.
type Histogram struct {
	counts [buckets]uint32
	total  uint64
}

const (
	subBits    = 5
	subBuckets = 1 << subBits
	buckets    = (64 - subBits + 1) * subBuckets
)

func bucketOf(nanos uint64) int {
	if nanos < subBuckets {
		return int(nanos)
	}
	shift := bits.Len64(nanos) - subBits - 1
	return shift*subBuckets + int(nanos>>shift)
}

// middle returns the duration in the middle of a bucket.
func middle(bucket int) time.Duration {
	if bucket < 2*subBuckets {
		return time.Duration(bucket)
	}
	shift := bucket/subBuckets - 1
	low := uint64(bucket-shift*subBuckets) << shift
	return time.Duration(low + 1<<shift/2)
}

// Add counts a duration; a negative one counts as 0.
func (h *Histogram) Add(d time.Duration) {
	h.counts[bucketOf(uint64(max(d, 0)))]++
	h.total++
}

// Merge adds the counts of another histogram.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
}

// Quantile returns the duration that a share q of all durations does not exceed, or 0 if the
// histogram is empty.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := min(uint64(q*float64(h.total)), h.total-1)
	seen := uint64(0)
	for i, n := range h.counts {
		if seen += uint64(n); seen > rank {
			return middle(i)
		}
	}
	return 0
}

// Total returns the number of durations counted.
func (h *Histogram) Total() uint64 { return h.total }
