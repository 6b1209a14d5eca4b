package agg

import (
	"math"
	"math/big"
	"math/bits"
	"slices"

	"github.com/floedb/floe/internal/codec"
)

// wide is an integer of any length times 2^(64*base), in two's complement, lowest word first. It
// holds the exact sum of any values, or squares of values, and is as long as they need. The square
// of the least float64 is 2^-2148; the sum of 2^64 squares of the greatest is below 2^2112.
//
// The highest word is kept within ±2^62, so that adding a number whose words are all lower cannot
// overflow. The zero value is 0.
type wide struct {
	base int
	w    []uint64
}

// Bounds of a wide's words: the bits of squares of float64 values, and the carries of their sums.
const (
	leastWord = -34 // 2^-2176
	endWord   = 36  // 2^2304
)

// add adds ±(hi*2^64 + lo) * 2^exp.
func (a *wide) add(hi, lo uint64, exp int, negative bool) {
	at, s := exp>>6, uint(exp&63)
	x0, x1, x2 := lo<<s, hi<<s|lo>>(64-s), hi>>(64-s)
	if i := at - a.base; i < 0 || i+4 > len(a.w) {
		a.cover(at, at+4)
	}
	w := a.w[at-a.base:]
	_ = w[3]
	var c uint64
	if negative {
		w[0], c = bits.Sub64(w[0], x0, 0)
		w[1], c = bits.Sub64(w[1], x1, c)
		w[2], c = bits.Sub64(w[2], x2, c)
		for i := 3; c != 0 && i < len(w); i++ {
			w[i], c = bits.Sub64(w[i], 0, c)
		}
	} else {
		w[0], c = bits.Add64(w[0], x0, 0)
		w[1], c = bits.Add64(w[1], x1, c)
		w[2], c = bits.Add64(w[2], x2, c)
		for i := 3; c != 0 && i < len(w); i++ {
			w[i], c = bits.Add64(w[i], 0, c)
		}
	}
	a.guard()
}

// merge adds b.
func (a *wide) merge(b *wide) {
	if len(b.w) == 0 {
		return
	}
	a.cover(b.base, b.base+len(b.w)+1)
	w := a.w[b.base-a.base:]
	var carry uint64
	for i := range w {
		x := b.sign()
		if i < len(b.w) {
			x = b.w[i]
		}
		w[i], carry = bits.Add64(w[i], x, carry)
	}
	a.guard()
}

// cover makes room for the words from (including) to end (excluding).
func (a *wide) cover(from, end int) {
	if len(a.w) == 0 {
		a.base, a.w = from, append(a.w, make([]uint64, end-from)...)
		return
	}
	if from < a.base {
		a.w = slices.Insert(a.w, 0, make([]uint64, a.base-from)...)
		a.base = from
	}
	for a.base+len(a.w) < end {
		a.w = append(a.w, a.sign())
	}
}

// guard keeps the highest word within ±2^62.
func (a *wide) guard() {
	if top := int64(a.w[len(a.w)-1]); top >= 1<<62 || top < -1<<62 {
		a.w = append(a.w, a.sign())
	}
}

// sign is the word above the highest: all ones if the number is negative.
func (a *wide) sign() uint64 {
	if len(a.w) == 0 {
		return 0
	}
	return uint64(int64(a.w[len(a.w)-1]) >> 63)
}

// word returns the word of 2^(64*at).
func (a *wide) word(at int) uint64 {
	switch i := at - a.base; {
	case i < 0:
		return 0
	case i < len(a.w):
		return a.w[i]
	}
	return a.sign()
}

// float rounds to the nearest float64, ties to even; ±Inf beyond the greatest.
func (a *wide) float() float64 {
	if a.sign() == 0 {
		return roundWords(a.w, a.base, false)
	}
	w := slices.Clone(a.w)
	negate(w)
	return roundWords(w, a.base, true)
}

// negate negates a two's complement number.
func negate(w []uint64) {
	carry := uint64(1)
	for i := range w {
		w[i], carry = bits.Add64(^w[i], 0, carry)
	}
}

// roundWords rounds ±w * 2^(64*base) to the nearest float64, ties to even.
func roundWords(w []uint64, base int, negative bool) float64 {
	n := len(w)
	for n > 0 && w[n-1] == 0 {
		n--
	}
	if n == 0 {
		return 0
	}
	top := 64*(n-1) + bits.Len64(w[n-1]) - 1 // the highest bit
	lowest := max(top-52, -1074-64*base)     // the last bit kept: 53 of them, fewer for subnormal results
	if lowest > top+1 {
		return 0
	}
	m := wordAt(w[:n], lowest)
	if lowest > 0 && bitAt(w[:n], lowest-1) && (m&1 == 1 || anyBelow(w, lowest-1)) {
		m++
	}
	v := math.Ldexp(float64(m), lowest+64*base)
	if negative {
		return -v
	}
	return v
}

// wordAt returns the 64 bits of w that begin at a bit, which may be negative.
func wordAt(w []uint64, bit int) uint64 {
	i, s := bit>>6, uint(bit&63)
	var v uint64
	if i >= 0 && i < len(w) {
		v = w[i] >> s
	}
	if i+1 >= 0 && i+1 < len(w) {
		v |= w[i+1] << (64 - s)
	}
	return v
}

func bitAt(w []uint64, bit int) bool { return bit>>6 < len(w) && w[bit>>6]>>(bit&63)&1 == 1 }

// anyBelow reports whether a bit below the given one is set.
func anyBelow(w []uint64, bit int) bool {
	for _, x := range w[:bit>>6] {
		if x != 0 {
			return true
		}
	}
	return w[bit>>6]<<(63-bit&63)<<1 != 0
}

// big returns the number as an integer times 2^(64*base).
func (a *wide) big() *big.Int {
	w := slices.Clone(a.w)
	negative := a.sign() != 0
	if negative {
		negate(w)
	}
	v := new(big.Int)
	for i := len(w) - 1; i >= 0; i-- {
		v.Lsh(v, 64).Or(v, new(big.Int).SetUint64(w[i]))
	}
	if negative {
		v.Neg(v)
	}
	return v
}

// code codes the number; the encoding depends only on its value:
//
//	count of words (1 byte) | base (varint, if there are any) | words, 8 bytes each, little endian
//
// without zero words at the low end, and without words at the high end that repeat the sign.
func (a *wide) code(c *codec.Coder) {
	if !c.Reading() {
		appendWords(c, a.base, a.w)
		return
	}
	*a = wide{}
	if base, w := readWords(c, nil); len(w) > 0 {
		*a = wide{base, w}
	}
}

// appendWords codes words whose lowest counts 2^(64*base).
func appendWords(c *codec.Coder, base int, w []uint64) {
	for len(w) > 0 && w[0] == 0 {
		w, base = w[1:], base+1
	}
	for len(w) > 1 && isSign(w[len(w)-1], w[len(w)-2]) {
		w = w[:len(w)-1]
	}
	n, at := byte(len(w)), int64(base)
	if c.Byte(&n); n > 0 {
		c.Varint(&at)
	}
	for i := range w {
		c.Fixed64(&w[i])
	}
}

// readWords reads the output of appendWords, into w if it has room. It returns no words if decoding
// fails or the number is 0.
func readWords(c *codec.Coder, w []uint64) (base int, words []uint64) {
	var n byte
	var at int64
	if c.Byte(&n); n == 0 {
		return 0, nil
	}
	if c.Varint(&at); at < leastWord || at+int64(n) > endWord {
		c.Fail("sum out of range")
		return 0, nil
	}
	if int(n)+1 > cap(w) {
		w = make([]uint64, 0, n+1)
	}
	w = w[:n]
	for i := range w {
		c.Fixed64(&w[i])
	}
	if w[0] == 0 || n > 1 && isSign(w[n-1], w[n-2]) {
		c.Fail("sum with superfluous words")
		return 0, nil
	}
	if top := int64(w[n-1]); top >= 1<<62 || top < -1<<62 {
		w = append(w, uint64(top>>63))
	}
	return int(at), w
}

// isSign reports whether a word only repeats the sign of the word below it.
func isSign(top, below uint64) bool { return top == uint64(int64(below)>>63) }
