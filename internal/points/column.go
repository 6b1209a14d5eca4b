package points

import (
	"encoding/binary"
	"math/bits"

	"github.com/floedb/floe/internal/codec"
)

// appendColumn appends a column of values; nothing if there are no values.
func appendColumn[T int64 | uint32 | uint8](dst []byte, values []T) []byte {
	if len(values) == 0 {
		return dst
	}
	least, most := values[0], values[0]
	for _, v := range values {
		least, most = min(least, v), max(most, v)
	}
	width := uint(bits.Len64(uint64(most) - uint64(least)))
	dst = append(dst, byte(width))
	dst = codec.AppendVarint(dst, int64(least))
	if width == 0 {
		return dst
	}
	var acc uint64
	var n uint
	for _, v := range values {
		d := uint64(v) - uint64(least)
		acc |= d << n
		if n+width < 64 {
			n += width
			continue
		}
		dst = binary.LittleEndian.AppendUint64(dst, acc)
		acc = d >> (64 - n)
		n += width - 64
	}
	for ; n > 0; n -= min(n, 8) {
		dst = append(dst, byte(acc))
		acc >>= 8
	}
	return dst
}

// column is an encoded column. In the zero value all values are 0.
type column struct {
	least int64
	width uint
	data  []byte // from the first value to the end of the encoding, so that nearly all loads are of 8 bytes
}

func (c *column) at(i int) int64 {
	if c.width == 0 {
		return c.least
	}
	return c.least + int64(bitsAt(c.data, uint64(i)*uint64(c.width), c.width))
}

// scanner reads an encoding sequentially. Like codec.Reader it keeps its first error.
type scanner struct {
	b   []byte
	err error
}

func (s *scanner) fail(format string, args ...any) {
	if s.err == nil {
		s.err = corrupt(format, args...)
	}
	s.b = nil
}

func (s *scanner) byte() byte {
	if len(s.b) == 0 {
		s.fail("unexpected end")
		return 0
	}
	c := s.b[0]
	s.b = s.b[1:]
	return c
}

// uvarint reads an integer of up to most. It rejects encodings longer than needed.
func (s *scanner) uvarint(what string, most int) int {
	v, n := binary.Uvarint(s.b)
	if n <= 0 || (n > 1 && s.b[n-1] == 0) || v > uint64(most) {
		s.fail("%s", what)
		return 0
	}
	s.b = s.b[n:]
	return int(v)
}

func (s *scanner) varint() int64 {
	v, n := binary.Uvarint(s.b)
	if n <= 0 || (n > 1 && s.b[n-1] == 0) {
		s.fail("varint")
		return 0
	}
	s.b = s.b[n:]
	return int64(v>>1) ^ -int64(v&1)
}

// packed reads n packed integers. It returns the data starting at the first of them.
func (s *scanner) packed(what string, n int, width uint) []byte {
	size := bytesOf(n, width)
	if size > len(s.b) {
		s.fail("%s: end", what)
		return nil
	}
	data := s.b
	s.b = s.b[size:]
	return data
}

// column reads a column of n values.
func (s *scanner) column(what string, n int) (c column) {
	if n == 0 {
		return c
	}
	if c.width = uint(s.byte()); c.width > 64 {
		s.fail("%s: width %d", what, c.width)
		return column{}
	}
	c.least = s.varint()
	if c.width > 0 {
		c.data = s.packed(what, n, c.width)
		checkPadding(s, what, c.data, n, c.width)
	}
	return c
}

// checkPadding rejects non-zero bits after n packed integers.
func checkPadding(s *scanner, what string, data []byte, n int, width uint) {
	if used := uint64(n) * uint64(width); s.err == nil && used%8 != 0 && data[used/8]>>(used%8) != 0 {
		s.fail("%s: padding", what)
	}
}
