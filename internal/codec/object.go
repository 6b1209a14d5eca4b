package codec

// Object codes a record within a record. In JSON it is an object of its own; in the binary form its fields are like any others.
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
	path := r.path
	r.path += name + "."
	r.record(raw, code)
	r.path = path
}

func (d *describer) nested(name string, code func()) {
	outer := d.fields
	d.fields = nil
	code()
	d.fields = append(outer, Field{Name: name, Type: ObjectType, Fields: d.fields})
}

// ListOf is RestOf for a list that other fields may follow. Its binary form begins with the number of elements.
func ListOf[T any](f *Fields, name string, list *[]T, code func(*T, *Fields), r ...Range) {
	if f.checking || f.form != nil {
		RestOf(f, name, list, code, r...)
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
		n = 0
	}
	clear(*list) // or its elements would keep the previous record alive
	all := (*list)[:0]
	for ; n > 0 && c.Err() == nil; n-- {
		all = append(all, *new(T))
		code(&all[len(all)-1], f)
	}
	*list = all
}

// Embed codes a value that has an append function and a function that reads it.
func (c *Coder) Embed(appendTo func(dst []byte) []byte, read func(r *Reader)) {
	if c.reading {
		read(&c.src)
		return
	}
	c.dst = appendTo(c.dst)
}
