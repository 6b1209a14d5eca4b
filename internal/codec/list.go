package codec

// ListOf codes a list as its length and its elements, as List does. The binary form of an element
// takes at least one byte. Decoding reuses the memory of the slice.
func ListOf[T any](f *Fields, name string, list *[]T, code func(*T, *Fields), r ...Range) {
	c := f.Binary()
	switch {
	case c == nil:
		RestOf(f, name, list, code, r...)
		return
	case !c.reading:
		c.dst = AppendUvarint(c.dst, uint64(len(*list)))
		for i := range *list {
			code(&(*list)[i], f)
		}
		return
	}
	n := c.src.Uvarint()
	if n > uint64(c.src.Len()) {
		c.Fail("list longer than the record")
		return
	}
	clear(*list) // or its elements would keep the previous record alive
	all := (*list)[:0]
	for ; n > 0 && c.Err() == nil; n-- {
		all = append(all, *new(T))
		code(&all[len(all)-1], f)
	}
	*list = all
}
