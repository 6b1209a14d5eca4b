package codec

import "fmt"

// ListOf codes a list whose binary form begins with its length, as that of List does. A decoded list
// is in memory of its own, so it outlives the next record that is decoded into the same variable.
func ListOf[T any](f *Fields, name string, list *[]T, code func(*T, *Fields), r ...Range) {
	c := f.Binary()
	if c == nil {
		RestOf(f, name, list, code, r...)
		return
	}
	n := uint64(len(*list))
	c.Uvarint(&n)
	if !c.reading {
		for i := range *list {
			code(&(*list)[i], f)
		}
		return
	}
	*list = nil
	switch {
	case n > uint64(c.Left()):
		c.Fail("list longer than the record")
	case n > 0:
		*list = make([]T, 0, min(n, listAhead))
	}
	for uint64(len(*list)) < n && c.Err() == nil {
		*list = append(*list, *new(T))
		code(&(*list)[len(*list)-1], f)
	}
}

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
