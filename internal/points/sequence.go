package points

import (
	"math/bits"

	"github.com/floedb/floe/internal/codec"
)

// sequencesBuilder builds consecutive sequences.
type sequencesBuilder struct {
	first, base []int64
	width       []uint8
	exceptions  []uint32 // number per sequence
	places      []uint32 // of all exceptions, within their sequences
	highs       []int64  // of all exceptions: the bits of the difference above the width
	bits        bitWriter
}

func (s *sequencesBuilder) reset() {
	s.first, s.base, s.width, s.exceptions = s.first[:0], s.base[:0], s.width[:0], s.exceptions[:0]
	s.places, s.highs = s.places[:0], s.highs[:0]
	s.bits.reset()
}

// add appends a sequence of at least one integer.
func (s *sequencesBuilder) add(xs []int64) {
	base, width := frame(xs)
	s.first = append(s.first, xs[0])
	s.base = append(s.base, base)
	s.width = append(s.width, uint8(width))
	before := len(s.places)
	mask := uint64(1)<<width - 1
	for i := 1; i < len(xs); i++ {
		d := xs[i] - xs[i-1] - base
		if uint64(d) > mask {
			s.places = append(s.places, uint32(i))
			s.highs = append(s.highs, d>>width)
		}
		if width > 0 {
			s.bits.put(uint64(d)&mask, width)
		}
	}
	s.exceptions = append(s.exceptions, uint32(len(s.places)-before))
}

// fewest is the minimum length of a sequence with exceptions. In a shorter one, exceptions take
// more space than they save.
const fewest = 16

// frame chooses the base and width of a sequence's differences that take the fewest bits, including
// exceptions.
func frame(xs []int64) (base int64, width uint) {
	n := len(xs) - 1
	if n == 0 {
		return 0, 0
	}
	least, most := xs[1]-xs[0], xs[1]-xs[0]
	for i := 2; i <= n; i++ {
		d := xs[i] - xs[i-1]
		least, most = min(least, d), max(most, d)
	}
	base, width = least, uint(bits.Len64(uint64(most)-uint64(least)))
	if n < fewest || width == 0 {
		return base, width
	}
	best := n * int(width)
	// Steps may be spread around a mean, as in a random walk, or be equal with few exceptions, as
	// in regular times with gaps.
	for _, center := range [2]int64{middle(least, most, xs), xs[n/2] - xs[n/2-1]} {
		if b, w, size := centered(xs, center); size < best {
			base, width, best = b, w, size
		}
	}
	return base, width
}

// middle returns the approximate mean of the differences.
func middle(least, most int64, xs []int64) int64 {
	n := len(xs) - 1
	span := xs[n] - xs[0]
	// An overflowing sum is useless.
	if mean := span / int64(n); least <= mean && mean <= most {
		return mean
	}
	return least
}

// centered returns the best width of differences on both sides of center, their base, and the
// approximate number of bits, including exceptions.
func centered(xs []int64, center int64) (base int64, width uint, size int) {
	var need [65]int // number of differences per required width
	for i := 1; i < len(xs); i++ {
		d := xs[i] - xs[i-1] - center
		if d != 0 {
			need[min(bits.Len64(uint64(d^d>>63))+1, 64)]++
			continue
		}
		need[0]++
	}
	n := len(xs) - 1
	place := bits.Len(uint(n))
	widest := 64
	for widest > 0 && need[widest] == 0 {
		widest--
	}
	size = n*widest + 1
	beyond := 0
	for w := widest; w >= 0; w-- {
		if s := n*w + beyond*(place+max(2, widest-w+1)); s < size {
			width, size = uint(w), s
		}
		beyond += need[w]
	}
	if width == 0 {
		return center, 0, size
	}
	return center - 1<<(width-1), width, size
}

func (s *sequencesBuilder) appendTo(dst []byte) []byte {
	dst = appendColumn(dst, s.first)
	dst = appendColumn(dst, s.base)
	dst = appendColumn(dst, s.width)
	if len(s.first) == 0 {
		return dst
	}
	dst = codec.AppendUvarint(dst, uint64(len(s.places)))
	if len(s.places) > 0 {
		dst = appendColumn(dst, s.exceptions)
		dst = appendColumn(dst, s.places)
		dst = appendColumn(dst, s.highs)
	}
	dst = codec.AppendUvarint(dst, uint64(s.bits.size()))
	return s.bits.appendTo(dst)
}

// sequences are encoded sequences. Each is read from its start.
type sequences struct {
	n              int
	first, base    column
	width          column
	total          int // exceptions of all sequences
	exceptions     column
	places, highs  column
	diffs          []byte // the differences and everything after them
	size           int    // of the differences, bytes
	constant, none bool   // all have the same width; none has exceptions
}

// sequences reads n sequences.
func (s *scanner) sequences(what string, n int) (q sequences) {
	if q.n = n; n == 0 {
		return q
	}
	q.first = s.column(what, n)
	q.base = s.column(what, n)
	q.width = s.column(what, n)
	q.total = s.uvarint("number of exceptions", maxRuns)
	if q.total > 0 {
		q.exceptions = s.column(what, n)
		q.places = s.column(what, q.total)
		q.highs = s.column(what, q.total)
	}
	q.size = s.uvarint("length of differences", len(s.b))
	q.diffs = s.packed(what, q.size, 8)
	q.constant, q.none = q.width.width == 0, q.total == 0
	return q
}

// sequenceStart is the start of a sequence.
type sequenceStart struct {
	i         int
	bit       uint64 // in the differences
	exception int
}

// widthAt returns the width of a sequence. A width above 64 is corrupt and reads as 0.
func (q *sequences) widthAt(i int) uint {
	if w := q.width.at(i); uint64(w) <= 64 {
		return uint(w)
	}
	return 0
}

// skip moves p past a sequence of n integers.
func (q *sequences) skip(p *sequenceStart, n int) {
	p.bit += uint64(n-1) * uint64(q.widthAt(p.i))
	if !q.none {
		p.exception += int(q.exceptions.at(p.i))
	}
	p.i++
}

// skipAll moves p past k sequences of n integers each, all of one width and without exceptions.
func (q *sequences) skipAll(p *sequenceStart, k, n int) {
	p.bit += uint64(k) * uint64(n-1) * uint64(q.widthAt(p.i))
	p.i += k
}

// decode decodes the sequence at p, which has len(dst) integers, into dst.
func (q *sequences) decode(p sequenceStart, dst []int64) {
	x := q.first.at(p.i)
	dst[0] = x
	width, base, bit := q.widthAt(p.i), q.base.at(p.i), p.bit
	from := 1
	if !q.none {
		end := p.exception + int(q.exceptions.at(p.i))
		for e := p.exception; e < end && e < q.total; e++ {
			at := int(q.places.at(e))
			if at < from || at >= len(dst) {
				break
			}
			bit = unpack(dst[from-1:at], q.diffs, bit, width, base)
			d := base + int64(bitsAt(q.diffs, bit, width)) + q.highs.at(e)<<width
			dst[at] = dst[at-1] + d
			bit += uint64(width)
			from = at + 1
		}
	}
	unpack(dst[from-1:], q.diffs, bit, width, base)
}

// unpack adds up differences starting from dst[0], and returns the offset of the bit after them.
func unpack(dst []int64, diffs []byte, bit uint64, width uint, base int64) uint64 {
	x := dst[0]
	rest := dst[1:]
	switch {
	case width == 0:
		for i := range rest {
			x += base
			rest[i] = x
		}
		return bit
	case width > 57:
		for i := range rest {
			x += base + int64(bitsAt(diffs, bit, width))
			rest[i] = x
			bit += uint64(width)
		}
		return bit
	}
	mask := uint64(1)<<width - 1
	for i := range rest {
		x += base + int64(load(diffs, bit>>3)>>(bit&7)&mask)
		rest[i] = x
		bit += uint64(width)
	}
	return bit
}
