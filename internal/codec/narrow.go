package codec

import "fmt"

// Narrow codes an unsigned integer of less than 64 bits. Its binary form is a uvarint.
func Narrow[T ~uint16 | ~uint32](f *Fields, name string, v *T) {
	wide, most := uint64(*v), uint64(^T(0))
	f.Uvarint(name, &wide, Range{Max: int64(most)})
	c := f.Binary()
	switch {
	case f.checking || c != nil && !c.reading:
	case wide <= most:
		*v = T(wide)
	case c != nil:
		c.Fail("number out of range")
	default:
		f.Refuse(fmt.Errorf("%s %d is not in 0-%d", label(name), wide, most))
	}
}
