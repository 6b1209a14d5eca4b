package codec

import (
	"encoding/binary"
	"math"
	"sync"
	"time"
)

// Coder writes a record or reads one, by the same function, so that the two can not differ:
//
//	func (p *point) code(c *codec.Coder) {
//		c.Varint(&p.x)
//		c.String(&p.name)
//		codec.List(c, &p.tags, (*codec.Coder).String)
//	}
//
// An encoder appends what the pointers point to, and changes nothing there; a decoder fills it in, and its first error sticks.
type Coder struct {
	dst     []byte
	src     Reader
	reading bool
}

// NewEncoder returns a Coder that appends to dst.
func NewEncoder(dst []byte) Coder { return Coder{dst: dst} }

// NewDecoder returns a Coder that reads src, which it keeps no part of.
func NewDecoder(src []byte) Coder { return Coder{src: NewReader(src), reading: true} }

// coders are those of Encode and Decode: what is coded is called through a function, so that each would be allocated.
var coders = sync.Pool{New: func() any { return new(Coder) }}

// Encode appends a record that is coded field by field.
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

// Decode reads what Encode wrote, all of it.
func Decode[T any](b []byte, code func(*T, *Coder)) (v T, err error) {
	c := coders.Get().(*Coder)
	*c = NewDecoder(b)
	code(&v, c)
	err = c.Done()
	*c = Coder{}
	coders.Put(c)
	return v, err
}

// Encoded returns what has been appended.
func (c *Coder) Encoded() []byte { return c.dst }

// Reading reports whether the Coder decodes.
func (c *Coder) Reading() bool { return c.reading }

// Left returns the number of bytes that a decoder has yet to read.
func (c *Coder) Left() int { return c.src.Len() }

// Err returns the first error of a decoder.
func (c *Coder) Err() error { return c.src.Err() }

// Done returns the first error of a decoder, or one if bytes are left.
func (c *Coder) Done() error { return c.src.Done() }

// Fail makes a decoder fail because a value that it has read makes no sense; what says which.
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

// Int codes an integer that this machine has to be able to hold.
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

// Uint16 codes an unsigned integer of two bytes at most.
func (c *Coder) Uint16(v *uint16) { narrow(c, v, math.MaxUint16) }

// Uint32 codes an unsigned integer of four bytes at most.
func (c *Coder) Uint32(v *uint32) { narrow(c, v, math.MaxUint32) }

// narrow leaves what it encodes untouched, as others may be encoding it too.
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

// Fixed64 codes 8 bytes, little endian: for integers that are rarely small, and bits of floats.
func (c *Coder) Fixed64(v *uint64) {
	if c.reading {
		*v = c.src.Fixed64()
		return
	}
	c.dst = binary.LittleEndian.AppendUint64(c.dst, *v)
}

// Float64 codes a float64 by its bits, so that every value, also -0, comes back as it was.
func (c *Coder) Float64(v *float64) {
	b := math.Float64bits(*v)
	if c.Fixed64(&b); c.reading {
		*v = math.Float64frombits(b)
	}
}

// Len returns how many bytes a decoder has left.
func (c *Coder) Len() int { return c.src.Len() }

// More reports whether a record goes on with fields that a later layout appended:
//
//	if c.More(p.color != 0) {
//		c.Varint(&p.color)
//	}
//
// An encoder goes on if set, which says that one of them is not zero, so that records without them stay as they were. A decoder goes on if anything is left.
// That holds for the last fields of a record, and not for the elements of a list.
func (c *Coder) More(set bool) bool {
	if c.reading {
		return c.src.Len() > 0
	}
	return set
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

// Bytes codes a slice that may be nil, and is a copy when it is read.
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

// View codes what Bytes codes, for who is done with it before the source changes: what is read is a part of that.
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

// alias codes bytes. Decoded ones alias the record.
func (c *Coder) alias(v *[]byte) {
	if c.reading {
		*v = c.src.Bytes()
		return
	}
	c.dst = AppendBytes(c.dst, *v)
}

// Time codes a time, in ms since the epoch; the zero time stays what it is.
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

// listAhead is for how many elements List takes memory before they are there.
const listAhead = 1024

// List codes a slice, each of its elements with code, which has to use at least a byte. An empty one is read as nil.
func List[T any](c *Coder, list *[]T, code func(*Coder, *T)) {
	if !c.reading {
		c.dst = AppendUvarint(c.dst, uint64(len(*list)))
		for i := range *list {
			code(c, &(*list)[i])
		}
		return
	}
	n := c.src.Uvarint()
	// What the length claims is not believed before the elements are there.
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
