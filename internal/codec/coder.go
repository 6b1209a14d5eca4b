package codec

import (
	"encoding/binary"
	"math"
	"sync"
	"time"
)

// Coder encodes and decodes records. One function does both, so the two cannot differ:
//
//	func (p *point) code(c *codec.Coder) {
//		c.Varint(&p.x)
//		c.String(&p.name)
//		codec.List(c, &p.tags, (*codec.Coder).String)
//	}
//
// An encoder appends the values that the pointers refer to, and does not modify them. A decoder
// sets them, and keeps its first error.
type Coder struct {
	dst     []byte
	src     Reader
	reading bool
}

// NewEncoder returns a Coder that appends to dst.
func NewEncoder(dst []byte) Coder { return Coder{dst: dst} }

// NewDecoder returns a Coder that reads src.
func NewDecoder(src []byte) Coder { return Coder{src: NewReader(src), reading: true} }

// coders pools the Coders of Encode and Decode. They are passed to a function value, so otherwise
// each would escape to the heap.
var coders = sync.Pool{New: func() any { return new(Coder) }}

// Encode appends the encoding of a record.
func Encode[T any](dst []byte, v *T, code func(*T, *Coder)) []byte {
	const usual = 64
	if dst == nil {
		dst = make([]byte, 0, usual)
	}
	c := coders.Get().(*Coder)
	*c = NewEncoder(dst)
	code(v, c)
	dst = c.dst
	*c = Coder{}
	coders.Put(c)
	return dst
}

// Decode decodes a record. It fails if bytes are left over.
func Decode[T any](b []byte, code func(*T, *Coder)) (v T, err error) {
	c := coders.Get().(*Coder)
	*c = NewDecoder(b)
	code(&v, c)
	err = c.Done()
	*c = Coder{}
	coders.Put(c)
	return v, err
}

// Encoded returns dst with the record appended.
func (c *Coder) Encoded() []byte { return c.dst }

// Reading reports whether the Coder decodes.
func (c *Coder) Reading() bool { return c.reading }

// Left returns the number of bytes that a decoder has not read.
func (c *Coder) Left() int { return c.src.Len() }

// Err returns the first error of a decoder.
func (c *Coder) Err() error { return c.src.Err() }

// Done returns the first error of a decoder, or an error if bytes are left.
func (c *Coder) Done() error { return c.src.Done() }

// Fail makes a decoder fail because of an invalid value, described by what.
func (c *Coder) Fail(what string) { c.src.fail(what) }

// Uvarint codes an unsigned integer.
func (c *Coder) Uvarint(v *uint64) {
	if c.reading {
		*v = c.src.Uvarint()
		return
	}
	c.dst = AppendUvarint(c.dst, *v)
}

// Varint codes an integer.
func (c *Coder) Varint(v *int64) {
	if c.reading {
		*v = c.src.Varint()
		return
	}
	c.dst = AppendVarint(c.dst, *v)
}

// Int codes an int. Decoding fails if the value does not fit.
func (c *Coder) Int(v *int) {
	wide := int64(*v)
	c.Varint(&wide)
	if !c.reading {
		return
	}
	if *v = int(wide); wide < math.MinInt || wide > math.MaxInt {
		c.Fail("integer out of range")
	}
}

// Uint16 codes a uint16 as a uvarint.
func (c *Coder) Uint16(v *uint16) { narrow(c, v, math.MaxUint16) }

// Uint32 codes a uint32 as a uvarint.
func (c *Coder) Uint32(v *uint32) { narrow(c, v, math.MaxUint32) }

// narrow does not write to v when encoding: v may be encoded concurrently.
func narrow[T uint16 | uint32](c *Coder, v *T, most uint64) {
	wide := uint64(*v)
	c.Uvarint(&wide)
	if !c.reading {
		return
	}
	if *v = T(wide); wide > most {
		c.Fail("number out of range")
	}
}

// Byte codes a byte.
func (c *Coder) Byte(v *byte) {
	if c.reading {
		*v = c.src.Byte()
		return
	}
	c.dst = append(c.dst, *v)
}

// Fixed64 codes 8 bytes, little endian. Use it for the bits of floats and for integers that are
// rarely small.
func (c *Coder) Fixed64(v *uint64) {
	if c.reading {
		*v = c.src.Fixed64()
		return
	}
	c.dst = binary.LittleEndian.AppendUint64(c.dst, *v)
}

// Float64 codes the bits of a float64, so that every value, including -0, survives.
func (c *Coder) Float64(v *float64) {
	b := math.Float64bits(*v)
	if c.Fixed64(&b); c.reading {
		*v = math.Float64frombits(b)
	}
}

// Len returns the number of bytes that a decoder has left.
func (c *Coder) Len() int { return c.src.Len() }

// More reports whether fields that a later layout added at the end of a record follow:
//
//	if c.More(p.color != 0) {
//		c.Varint(&p.color)
//	}
//
// An encoder continues if set is true. Pass whether one of the fields is not zero, so that records
// without them keep their encoding. A decoder continues if bytes are left, so the elements of a
// list cannot use More.
func (c *Coder) More(set bool) bool {
	if c.reading {
		return c.src.Len() > 0
	}
	return set
}

// Deadline codes a time in ms, 0 or later, that may be math.MaxInt64 for never, which takes a byte.
func (c *Coder) Deadline(t *int64) {
	v := uint64(*t) + 1
	if *t == math.MaxInt64 {
		v = 0
	}
	if c.Uvarint(&v); !c.reading {
		return
	}
	if *t = int64(v - 1); v == 0 {
		*t = math.MaxInt64
	} else if v > math.MaxInt64 {
		c.Fail("time out of range")
	}
}

// Bool codes a boolean.
func (c *Coder) Bool(v *bool) {
	if c.reading {
		*v = c.src.Bool()
		return
	}
	c.dst = AppendBool(c.dst, *v)
}

// String codes a string.
func (c *Coder) String(v *string) {
	if c.reading {
		*v = c.src.String()
		return
	}
	c.dst = AppendString(c.dst, *v)
}

// Bytes codes a slice that may be nil. A decoder copies it.
func (c *Coder) Bytes(v *[]byte) {
	there := *v != nil
	c.Bool(&there)
	switch {
	case !c.reading && there:
		c.dst = AppendBytes(c.dst, *v)
	case c.reading && there:
		*v = append([]byte{}, c.src.Bytes()...)
	case c.reading:
		*v = nil
	}
}

// View is Bytes without the copy: a decoded slice aliases the record.
func (c *Coder) View(v *[]byte) {
	if !c.reading {
		c.Bytes(v)
		return
	}
	*v = nil
	if there := c.src.Bool(); there {
		*v = c.src.Bytes()
	}
}

// Embed codes a value that has an append function and a function that reads it.
func (c *Coder) Embed(appendTo func(dst []byte) []byte, read func(r *Reader)) {
	if c.reading {
		read(&c.src)
		return
	}
	c.dst = appendTo(c.dst)
}

// alias codes bytes. Decoded ones alias the record.
func (c *Coder) alias(v *[]byte) {
	if c.reading {
		*v = c.src.Bytes()
		return
	}
	c.dst = AppendBytes(c.dst, *v)
}

// Time codes a time in ms since the epoch. The zero time is preserved.
func (c *Coder) Time(v *time.Time) {
	there, ms := !v.IsZero(), int64(0)
	if c.Bool(&there); there {
		ms = v.UnixMilli()
		c.Varint(&ms)
	}
	switch {
	case !c.reading:
	case there:
		*v = time.UnixMilli(ms)
	default:
		*v = time.Time{}
	}
}

// listAhead is the maximum number of elements that List allocates before decoding any.
const listAhead = 1024

// List codes a slice. code codes an element, which must take at least one byte. An empty slice
// decodes as nil.
func List[T any](c *Coder, list *[]T, code func(*Coder, *T)) {
	if !c.reading {
		c.dst = AppendUvarint(c.dst, uint64(len(*list)))
		for i := range *list {
			code(c, &(*list)[i])
		}
		return
	}
	n := c.src.Uvarint()
	// The length may be corrupt, so do not allocate for it before decoding elements.
	if n > uint64(c.src.Len()) {
		c.Fail("list longer than the record")
		return
	}
	*list = nil
	if n > 0 {
		*list = make([]T, 0, min(n, listAhead))
	}
	for range n {
		*list = append(*list, *new(T))
		if code(c, &(*list)[len(*list)-1]); c.Err() != nil {
			return
		}
	}
}
