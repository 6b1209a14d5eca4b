package main

import (
	"math/bits"
	"time"
)

// histogram counts durations in buckets whose width grows with the duration: subBuckets to each power of two, so that a
// percentile is off by 3 % at most. It belongs to one goroutine; merge adds up those of many.
type histogram struct {
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

// middle returns a duration in the middle of a bucket.
func middle(bucket int) time.Duration {
	if bucket < 2*subBuckets {
		return time.Duration(bucket)
	}
	shift := bucket/subBuckets - 1
	low := uint64(bucket-shift*subBuckets) << shift
	return time.Duration(low + 1<<shift/2)
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucketOf(uint64(max(d, 0)))]++
	h.total++
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
}

// quantile returns the duration that a share q of all stayed at or below; 0 of an empty histogram.
func (h *histogram) quantile(q float64) time.Duration {
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
