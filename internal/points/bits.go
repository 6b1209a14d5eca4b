package points

import "encoding/binary"

// bitWriter packs integers, starting from the lowest bits.
type bitWriter struct {
	buf []byte
	acc uint64 // bits not yet in buf
	n   uint   // number of bits in acc, less than 64
}

// put appends the lowest width bits of v. v must have no other bits.
func (w *bitWriter) put(v uint64, width uint) {
	w.acc |= v << w.n
	if w.n+width < 64 {
		w.n += width
		return
	}
	w.buf = binary.LittleEndian.AppendUint64(w.buf, w.acc)
	w.acc = v >> (64 - w.n)
	w.n += width - 64
}

// size returns the number of bytes that appendTo appends.
func (w *bitWriter) size() int { return len(w.buf) + int(w.n+7)/8 }

func (w *bitWriter) appendTo(dst []byte) []byte {
	dst = append(dst, w.buf...)
	for acc, n := w.acc, int(w.n); n > 0; n -= 8 {
		dst = append(dst, byte(acc))
		acc >>= 8
	}
	return dst
}

func (w *bitWriter) reset() { *w = bitWriter{buf: w.buf[:0]} }

// bytesOf returns the number of bytes of n packed integers.
func bytesOf(n int, width uint) int { return int((uint64(n)*uint64(width) + 7) / 8) }

// load returns the 8 bytes of b from index i. Bytes beyond the end are zero.
func load(b []byte, i uint64) uint64 {
	if i+8 <= uint64(len(b)) {
		return binary.LittleEndian.Uint64(b[i:])
	}
	return loadLast(b, i)
}

func loadLast(b []byte, i uint64) (v uint64) {
	for n := i; n < uint64(len(b)) && n < i+8; n++ {
		v |= uint64(b[n]) << (8 * (n - i))
	}
	return v
}

// bitsAt returns width bits of b from a bit offset.
func bitsAt(b []byte, bit uint64, width uint) uint64 {
	i, shift := bit>>3, uint(bit&7)
	v := load(b, i) >> shift
	if shift+width > 64 && i+8 < uint64(len(b)) {
		v |= uint64(b[i+8]) << (64 - shift)
	}
	return v & (1<<width - 1)
}
