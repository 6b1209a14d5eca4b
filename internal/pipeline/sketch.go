package pipeline

import (
	"math"
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/codec"
)

const (
	// maxExact is the maximum number of distinct values counted exactly. Values are distinguished
	// by 64-bit hashes.
	maxExact = 1024
	// registerBits is the binary logarithm of the number of registers for larger counts. Their
	// error is 1.04 / sqrt(4096), 1.6 %.
	registerBits = 12
	registers    = 1 << registerBits
)

func hash(s string) uint64 { return xxhash.Sum64String(s) }

// distinct counts distinct values, with sorted hashes or, if there are many, with HyperLogLog
// registers (Flajolet et al., 2007).
type distinct struct {
	hashes    []uint64
	registers []byte
}

func (d *distinct) add(h uint64) {
	if d.registers != nil {
		d.register(h)
		return
	}
	i, there := slices.BinarySearch(d.hashes, h)
	switch {
	case there:
	case len(d.hashes) < maxExact:
		d.hashes = slices.Insert(d.hashes, i, h)
	default:
		d.widen()
		d.register(h)
	}
}

// widen switches to registers.
func (d *distinct) widen() {
	d.registers = make([]byte, registers)
	for _, h := range d.hashes {
		d.register(h)
	}
	d.hashes = nil
}

func (d *distinct) register(h uint64) {
	i := h >> (64 - registerBits)
	rank := byte(bits.LeadingZeros64(h<<registerBits|1<<(registerBits-1))) + 1
	d.registers[i] = max(d.registers[i], rank)
}

func (d *distinct) merge(o *distinct) {
	if o.registers == nil {
		d.hashes = slices.Clone(d.hashes)
		for _, h := range o.hashes {
			d.add(h)
		}
		return
	}
	if d.registers == nil {
		d.widen()
	}
	for i, rank := range o.registers {
		d.registers[i] = max(d.registers[i], rank)
	}
}

// size returns the count.
func (d *distinct) size() uint64 {
	if d.registers == nil {
		return uint64(len(d.hashes))
	}
	sum, zeros := 0.0, 0
	for _, rank := range d.registers {
		sum += math.Ldexp(1, -int(rank))
		if rank == 0 {
			zeros++
		}
	}
	const m = registers
	estimate := 0.7213 / (1 + 1.079/m) * m * m / sum
	if estimate <= 2.5*m && zeros > 0 {
		estimate = m * math.Log(m/float64(zeros))
	}
	return uint64(math.Round(estimate))
}

// code codes the sorted hashes, or all registers.
func (d *distinct) code(c *codec.Coder) {
	wide := d.registers != nil
	c.Bool(&wide)
	if wide {
		text := string(d.registers)
		if c.String(&text); c.Reading() {
			if d.registers = []byte(text); len(d.registers) != registers || slices.Max(d.registers) > 64-registerBits+1 {
				c.Fail("registers")
			}
		}
		return
	}
	codec.List(c, &d.hashes, (*codec.Coder).Fixed64)
	if c.Reading() && (len(d.hashes) > maxExact || !slices.IsSortedFunc(d.hashes, func(a, b uint64) int {
		if a < b {
			return -1
		}
		return 1
	})) {
		c.Fail("hashes out of order")
	}
}

// Bucket bounds of a sketch are powers of (1 + e) / (1 - e), so that the middle of a bucket is
// within e of all its values (DDSketch; Masson et al., 2019).
const (
	accuracy   = 0.01
	maxBuckets = 4096 // beyond it the lowest are merged
)

var logBase = math.Log((1 + accuracy) / (1 - accuracy))

// sketch estimates percentiles within 1 %.
type sketch struct {
	negative, positive []bucket // by index
	zeros              uint64
	least, greatest    float64
	count              uint64
}

// bucket counts numbers.
type bucket struct {
	index int64
	count uint64
}

func (s *sketch) add(v float64) {
	if s.count == 0 || v < s.least {
		s.least = v
	}
	if s.count == 0 || v > s.greatest {
		s.greatest = v
	}
	s.count++
	switch {
	case v > 0:
		s.positive = addBucket(s.positive, bucket{indexOf(v), 1})
	case v < 0:
		s.negative = addBucket(s.negative, bucket{indexOf(-v), 1})
	default:
		s.zeros++
	}
}

func indexOf(v float64) int64 { return int64(math.Ceil(math.Log(v) / logBase)) }

func addBucket(list []bucket, b bucket) []bucket {
	i, there := slices.BinarySearchFunc(list, b.index, func(b bucket, index int64) int { return int(b.index - index) })
	if there {
		list[i].count += b.count
		return list
	}
	list = slices.Insert(list, i, b)
	if len(list) > maxBuckets {
		list[1].count += list[0].count
		list = slices.Delete(list, 0, 1)
	}
	return list
}

func (s *sketch) merge(o *sketch) {
	s.positive, s.negative = slices.Clone(s.positive), slices.Clone(s.negative)
	for _, b := range o.positive {
		s.positive = addBucket(s.positive, b)
	}
	for _, b := range o.negative {
		s.negative = addBucket(s.negative, b)
	}
	s.zeros += o.zeros
	s.count += o.count
	s.least, s.greatest = min(s.least, o.least), max(s.greatest, o.greatest)
}

// quantile returns an estimate of the number with the rank q * (count - 1).
func (s *sketch) quantile(q float64) float64 {
	rank := uint64(q * float64(s.count-1))
	v := s.ranked(rank)
	return min(max(v, s.least), s.greatest)
}

func (s *sketch) ranked(rank uint64) float64 {
	seen := uint64(0)
	for i := len(s.negative) - 1; i >= 0; i-- {
		if seen += s.negative[i].count; seen > rank {
			return -middle(s.negative[i].index)
		}
	}
	if seen += s.zeros; seen > rank {
		return 0
	}
	for _, b := range s.positive {
		if seen += b.count; seen > rank {
			return middle(b.index)
		}
	}
	return s.greatest
}

func middle(index int64) float64 {
	return 2 * math.Exp(float64(index)*logBase) / (1 + (1+accuracy)/(1-accuracy))
}

func (s *sketch) code(c *codec.Coder) {
	c.Uvarint(&s.zeros)
	c.Float64(&s.least)
	c.Float64(&s.greatest)
	s.count = s.zeros
	for _, list := range []*[]bucket{&s.negative, &s.positive} {
		last := int64(math.MinInt32)
		codec.List(c, list, func(c *codec.Coder, b *bucket) {
			c.Varint(&b.index)
			c.Uvarint(&b.count)
			if c.Reading() && (b.index <= last || b.index > math.MaxInt32 || b.count == 0) {
				c.Fail("buckets out of order")
			}
			last = b.index
			s.count += b.count
		})
		if c.Reading() && len(*list) > maxBuckets {
			c.Fail("too many buckets")
		}
	}
	if c.Reading() && (s.count == 0 || math.IsNaN(s.least) || math.IsNaN(s.greatest)) {
		c.Fail("sketch of nothing")
	}
}
