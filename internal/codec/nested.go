package codec

import "fmt"

// Object codes a nested record. In JSON it is an object. In binary its fields follow without a
// frame.
func Object[T any](f *Fields, name string, v *T, code func(*T, *Fields)) {
	if f.form == nil {
		code(v, f)
		return
	}
	f.form.nested(name, func() { code(v, f) })
}

func (w *jsonWriter) nested(name string, code func()) {
	w.name(name)
	w.record(code, true)
}

func (r *jsonReader) nested(name string, code func()) {
	raw := r.field(name)
	if raw == nil {
		return
	}
	outer := r.place
	r.place = &jsonPlace{outer, name, -1}
	r.record(raw, code)
	r.place = outer
}

func (d *describer) nested(name string, code func()) {
	outer := d.fields
	d.fields = nil
	code()
	d.fields = append(outer, Field{Name: name, Type: ObjectType, Fields: d.fields})
}

// ListOf codes a list with its length in front. The binary form of an element takes at least one
// byte. An empty list decodes as nil.
func ListOf[T any](f *Fields, name string, list *[]T, code func(*T, *Fields), r ...Range) {
	if f.form == nil && f.coder.reading {
		*list = nil
	}
	ListInto(f, name, list, code, r...)
}

// ListInto is ListOf for the body of a command: decoding reuses the memory of the slice.
func ListInto[T any](f *Fields, name string, list *[]T, code func(*T, *Fields), r ...Range) {
	switch {
	case f.checking:
		checkEach(f, name, *list, code, r)
		return
	case f.form != nil:
		formList(f, name, list, code, rangeOf(r))
		return
	}
	c, n := &f.coder, uint64(len(*list))
	if c.Uvarint(&n); !c.reading {
		for i := range *list {
			code(&(*list)[i], f)
		}
		return
	}
	if n > uint64(c.src.Len()) {
		c.Fail("list longer than the record")
	}
	f.within(name, n, r)
	if c.Err() != nil {
		n = 0
	}
	clear(*list) // or its elements would keep the previous record alive
	all := (*list)[:0]
	if cap(all) == 0 && n > 0 {
		all = make([]T, 0, min(n, listAhead))
	}
	for ; n > 0 && c.Err() == nil; n-- {
		all = append(all, *new(T))
		code(&all[len(all)-1], f)
	}
	*list = all
}

// within stops the decoding of a list that is longer than its range, before memory is allocated for
// its elements. The error is that of CheckFields.
func (f *Fields) within(name string, n uint64, of []Range) {
	if r := rangeOf(of); r.Max > 0 && n > uint64(r.Max) && f.coder.Err() == nil {
		f.err = tooMany(n, name, r)
		f.coder.Fail(f.err.Error())
	}
}

func tooMany[N int | uint64](n N, name string, r Range) error {
	return fmt.Errorf("%d %s are not in %d-%d", n, label(name), r.Min, r.Max)
}

// RestOf codes a list that extends to the end of the record. The binary form of an element takes at
// least one byte. Decoding reuses the memory of the slice.
func RestOf[T any](f *Fields, name string, list *[]T, code func(*T, *Fields), r ...Range) {
	if f.checking {
		checkEach(f, name, *list, code, r)
		return
	}
	if f.form != nil {
		formList(f, name, list, code, rangeOf(r))
		return
	}
	if !f.coder.reading {
		for i := range *list {
			code(&(*list)[i], f)
		}
		return
	}
	clear(*list) // or its elements would keep the previous record alive
	all := (*list)[:0]
	for f.coder.Err() == nil && f.coder.src.Len() > 0 {
		all = append(all, *new(T))
		code(&all[len(all)-1], f)
		f.within(name, uint64(len(all)), r)
	}
	*list = all
}

// Text codes an element of a list of strings.
func Text(v *string, f *Fields) { f.Text("", v) }

func checkEach[T any](f *Fields, name string, list []T, code func(*T, *Fields), r []Range) {
	if !f.checkCount(name, len(list), r) {
		return
	}
	for i := 0; i < len(list) && f.err == nil; i++ {
		code(&list[i], f)
	}
}

func formList[T any](f *Fields, name string, list *[]T, code func(*T, *Fields), r Range) {
	all := *list
	f.form.list(name, len(all), r, func(n int) { all = make([]T, n) }, func(i int) {
		if i < 0 { // a description needs no elements
			code(new(T), f)
			return
		}
		code(&all[i], f)
	})
	if f.Parsing() {
		*list = all
	}
}
