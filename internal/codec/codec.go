package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrCorrupt is matched by every error of a Reader.
var ErrCorrupt = errors.New("malformed record")

// AppendUvarint appends v as an unsigned varint.
func AppendUvarint(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, v) }

// AppendVarint appends v as a zig-zag varint.
func AppendVarint(dst []byte, v int64) []byte { return binary.AppendVarint(dst, v) }

// AppendBytes appends the length of b and b.
func AppendBytes(dst, b []byte) []byte { return append(AppendUvarint(dst, uint64(len(b))), b...) }

// AppendString appends the length of s and s.
func AppendString(dst []byte, s string) []byte {
	return append(AppendUvarint(dst, uint64(len(s))), s...)
}

// AppendBool appends 1 or 0.
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// Reader reads a record from front to back. The zero value reads an empty record.
type Reader struct {
	b   []byte
	err error
}

// NewReader returns a Reader over b. The slices it returns alias b.
func NewReader(b []byte) Reader { return Reader{b: b} }

func (r *Reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrCorrupt, what)
	}
	r.b = nil
}

// Uvarint reads an unsigned varint. It must have the shortest encoding, so every value has only
// one.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || (n > 1 && r.b[n-1] == 0) {
		r.fail("bad varint")
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Varint reads a zig-zag varint.
func (r *Reader) Varint() int64 {
	u := r.Uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.b) == 0 {
		r.fail("unexpected end")
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

// Fixed64 reads 8 bytes, little endian.
func (r *Reader) Fixed64() uint64 {
	if len(r.b) < 8 {
		r.fail("unexpected end")
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

// Bool reads a byte that must be 0 or 1.
func (r *Reader) Bool() bool {
	c := r.Byte()
	if c > 1 {
		r.fail("bad boolean")
	}
	return c == 1
}

// Bytes reads a length and that many bytes, which alias the record.
func (r *Reader) Bytes() []byte {
	n := r.Uvarint()
	if n > uint64(len(r.b)) {
		r.fail("length beyond the end")
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

// String reads a length and that many bytes, which it copies.
func (r *Reader) String() string { return string(r.Bytes()) }

// Rest returns the unread bytes.
func (r *Reader) Rest() []byte {
	b := r.b
	r.b = nil
	return b
}

// Len returns the number of unread bytes.
func (r *Reader) Len() int { return len(r.b) }

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// Done returns the first error, or an error if bytes are left.
func (r *Reader) Done() error {
	if r.err == nil && len(r.b) > 0 {
		r.fail(fmt.Sprintf("%d bytes left over", len(r.b)))
	}
	return r.err
}
