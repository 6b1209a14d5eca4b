package agg

import (
	"math"
	"math/bits"

	"github.com/floedb/floe/internal/codec"
)

// Sum is an exact sum of finite values, rounded only when it is read. The zero value is 0. A Sum
// must not be copied after first use.
//
// Three words hold 192 bits in two's complement, the lowest counting 2^-128. That is enough for
// every value whose magnitude is below 2^52 and whose last bit is not below 2^-128, the range of
// measured values. The highest word stays within ±2^62 between calls, so that 1,024 such values can
// be added without checking for overflow. Other values go to a wide, which is allocated when the
// first one arrives.
type Sum struct {
	w0, w1, w2 uint64
	rest       *wide
}

const (
	sumBase   = -2                 // the lowest word of a Sum, as wide counts words
	sumExp    = 64*sumBase + 1075  // the biased exponent of a float64 whose mantissa begins at the lowest bit
	sumRange  = 1023 + 52 - sumExp // number of exponents from there on that fit the three words
	sumChunk  = 1024               // values added between checks of the highest word
	mantissa  = 1<<52 - 1
	hiddenBit = 1 << 52
)

// Add adds a finite value.
func (s *Sum) Add(v float64) { s.AddColumn([]float64{v}) }

// AddColumn adds finite values, taking a few nanoseconds each.
func (s *Sum) AddColumn(values []float64) {
	for len(values) > sumChunk {
		s.addChunk(values[:sumChunk])
		values = values[sumChunk:]
	}
	s.addChunk(values)
}

func (s *Sum) addChunk(values []float64) {
	w0, w1, w2 := s.w0, s.w1, s.w2
	for _, v := range values {
		b := math.Float64bits(v)
		shift := b>>52&0x7ff - sumExp
		if shift >= sumRange {
			s.addRest(b)
			continue
		}
		m := b&mantissa | hiddenBit
		// Shifts by 64 or more, which include negative differences here, give 0. So each word is
		// right for every shift from 0 to 127.
		x0 := m << shift
		x1 := m<<(shift-64) | m>>(64-shift)
		x2 := m >> (128 - shift)
		// A negative value is added as its complement and one.
		sign := uint64(int64(b) >> 63)
		var c uint64
		w0, c = bits.Add64(w0, x0^sign, sign&1)
		w1, c = bits.Add64(w1, x1^sign, c)
		w2, _ = bits.Add64(w2, x2^sign, c)
	}
	s.w0, s.w1, s.w2 = w0, w1, w2
	if top := int64(w2); top >= 1<<62 || top < -1<<62 {
		s.spill()
	}
}

// addRest adds a value, given as its bits, that is 0 or outside the three words.
func (s *Sum) addRest(b uint64) {
	if b<<1 == 0 {
		return
	}
	if s.rest == nil {
		s.rest = new(wide)
	}
	m, exp := split(b)
	s.rest.add(0, m, exp, b>>63 == 1)
}

// split returns mantissa and exponent of the magnitude of a float64.
func split(b uint64) (m uint64, exp int) {
	m, exp = b&mantissa, int(b>>52&0x7ff)
	if exp == 0 {
		return m, -1074
	}
	return m | hiddenBit, exp - 1075
}

// spill moves the three words to the wide.
func (s *Sum) spill() {
	if s.rest == nil {
		s.rest = new(wide)
	}
	s.rest.merge(&wide{base: sumBase, w: []uint64{s.w0, s.w1, s.w2}})
	s.w0, s.w1, s.w2 = 0, 0, 0
}

// Merge adds another sum, which it leaves unchanged.
func (s *Sum) Merge(o *Sum) {
	var c uint64
	s.w0, c = bits.Add64(s.w0, o.w0, 0)
	s.w1, c = bits.Add64(s.w1, o.w1, c)
	s.w2, _ = bits.Add64(s.w2, o.w2, c)
	if top := int64(s.w2); top >= 1<<62 || top < -1<<62 {
		s.spill()
	}
	if o.rest != nil {
		if s.rest == nil {
			s.rest = new(wide)
		}
		s.rest.merge(o.rest)
	}
}

// Float returns the sum, rounded to the nearest float64, ties to even. It is ±Inf beyond the
// greatest float64, and 0 for the empty sum.
func (s *Sum) Float() float64 {
	if s.rest != nil {
		all := s.whole()
		return all.float()
	}
	w := [3]uint64{s.w0, s.w1, s.w2}
	negative := int64(s.w2) < 0
	if negative {
		negate(w[:])
	}
	return roundWords(w[:], sumBase, negative)
}

// Mean returns the rounded sum divided by n. A sum beyond the greatest float64 is divided before
// rounding, so that the mean of finite values is finite.
func (s *Sum) Mean(n uint64) float64 {
	v := s.Float()
	if !math.IsInf(v, 0) {
		return v / float64(n)
	}
	all := s.whole()
	all.base--
	return math.Ldexp(all.float()/float64(n), 64)
}

// Parts splits the sum into at most the given number of finite values and resets it to 0. Each part
// is the remainder rounded to the nearest float64, or the greatest float64 if the remainder exceeds
// it. The exact sum of the parts is the sum. The first part of a finite sum equals Float; few sums
// need more than two.
//
// If the parts do not suffice, the least significant rest is dropped. Only sums of dozens of the
// greatest float64 need that many.
func (s *Sum) Parts(dst []float64, most int) []float64 {
	for ; most > 0; most-- {
		v := s.Float()
		if v == 0 {
			break
		}
		if math.IsInf(v, 0) {
			v = math.Copysign(math.MaxFloat64, v)
		}
		dst = append(dst, v)
		s.Add(-v)
	}
	*s = Sum{}
	return dst
}

// whole returns the sum as one number.
func (s *Sum) whole() wide {
	all := wide{base: sumBase, w: []uint64{s.w0, s.w1, s.w2, uint64(int64(s.w2) >> 63)}}
	if s.rest != nil {
		all.merge(s.rest)
	}
	return all
}

// Code codes the sum. The encoding depends only on its value: 1 byte for 0, and 10 to 27 bytes for
// most others.
func (s *Sum) Code(c *codec.Coder) {
	if !c.Reading() && s.rest == nil {
		w := [...]uint64{s.w0, s.w1, s.w2, uint64(int64(s.w2) >> 63)}
		appendWords(c, sumBase, w[:])
		return
	}
	if !c.Reading() {
		all := s.whole()
		all.code(c)
		return
	}
	var room [5]uint64
	base, w := readWords(c, room[:0])
	*s = Sum{}
	if len(w) == 0 {
		return
	}
	a := wide{base, w}
	if a.base < sumBase || a.base+len(a.w) > sumBase+3 {
		s.rest = &wide{base, append([]uint64{}, w...)}
		return
	}
	s.w0, s.w1, s.w2 = a.word(sumBase), a.word(sumBase+1), a.word(sumBase+2)
}

// bytes is the memory of the sum beyond the struct.
func (s *Sum) bytes() int64 {
	if s.rest == nil {
		return 0
	}
	return 32 + int64(8*cap(s.rest.w))
}
