package agg

import (
	"math"
	"slices"

	"github.com/floedb/floe/internal/codec"
)

// sample is the column of Percentile: all values, as integers in the order of the values (-0 below
// 0).
type sample struct {
	p      float64
	values [blockLen][]uint64
}

func newSample(_ Func, p float64) column { return &sample{p: p} }

const signBit = 1 << 63

// ordinal maps a float64 to an integer, in the order of the values.
func ordinal(v float64) uint64 {
	b := math.Float64bits(v)
	return b ^ (uint64(int64(b)>>63) | signBit)
}

func fromOrdinal(o uint64) float64 {
	return math.Float64frombits(o ^ (uint64(^int64(o)>>63) | signBit))
}

func (s *sample) add(i int, _ string, _ []int64, values []float64) {
	all := slices.Grow(s.values[i], len(values))
	for _, v := range values {
		all = append(all, ordinal(v))
	}
	s.values[i] = all
}

func (s *sample) merge(i int, o column, j int) {
	s.values[i] = append(s.values[i], o.(*sample).values[j]...)
}

func (s *sample) empty(i int) bool { return len(s.values[i]) == 0 }

// sortRun is the number of values sorted between two calls of stop: a few ms.
const sortRun = 1 << 15

// sort sorts a state, as final and code require. It ends early if stop returns an error.
func (s *sample) sort(i int, stop func() error) error {
	v := s.values[i]
	for run := range slices.Chunk(v, sortRun) {
		if err := stop(); err != nil {
			return err
		}
		slices.Sort(run)
	}
	if len(v) <= sortRun {
		return nil
	}
	spare := make([]uint64, len(v))
	for run := sortRun; run < len(v); run *= 2 {
		for at := 0; at < len(v); at += 2 * run {
			middle, end := min(at+run, len(v)), min(at+2*run, len(v))
			if err := mergeRuns(spare[at:end], v[at:middle], v[middle:end], stop); err != nil {
				return err
			}
		}
		v, spare = spare, v
	}
	s.values[i] = v
	return nil
}

// mergeRuns merges two sorted runs.
func mergeRuns(dst, a, b []uint64, stop func() error) error {
	for n := range dst {
		if n%sortRun == 0 {
			if err := stop(); err != nil {
				return err
			}
		}
		if len(b) == 0 || len(a) > 0 && a[0] <= b[0] {
			dst[n], a = a[0], a[1:]
		} else {
			dst[n], b = b[0], b[1:]
		}
	}
	return nil
}

// final interpolates linearly between the two values around the rank p/100 * (n-1), counted from 0.
func (s *sample) final(i int) (float64, bool) { return quantile(s.values[i], s.p), true }

func quantile(sorted []uint64, p float64) float64 {
	rank := p * float64(len(sorted)-1) / 100
	at := int(rank)
	low, part := fromOrdinal(sorted[at]), rank-float64(at)
	if part == 0 {
		return low
	}
	high := fromOrdinal(sorted[at+1])
	if d := high - low; !math.IsInf(d, 0) {
		return low + float64(d*part) // the conversion keeps processors from rounding once instead of twice
	}
	return float64(low*(1-part)) + float64(high*part)
}

// code codes the sorted values as differences.
func (s *sample) code(i int, c *codec.Coder) {
	n := uint64(len(s.values[i]))
	if codeCount(c, &n); c.Reading() {
		s.read(i, n, c)
		return
	}
	before := uint64(0)
	for _, v := range s.values[i] {
		d := v - before
		c.Uvarint(&d)
		before = v
	}
}

func (s *sample) read(i int, n uint64, c *codec.Coder) {
	if n > uint64(c.Len()) {
		c.Fail("more values than bytes")
		return
	}
	values, v := make([]uint64, n), uint64(0)
	for j := range values {
		var d uint64
		if c.Uvarint(&d); v+d < v {
			c.Fail("bad value")
		}
		v += d
		if f := fromOrdinal(v); math.IsNaN(f) || math.IsInf(f, 0) {
			c.Fail("value is not finite")
		}
		values[j] = v
	}
	s.values[i] = values
}

func (s *sample) bytes(i int) int64 { return int64(8 * cap(s.values[i])) }
