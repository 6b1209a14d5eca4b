package codec

// SignedMillis codes a duration in milliseconds whose binary form is signed.
func (f *Fields) SignedMillis(name string, v *int64, r ...Range) {
	switch {
	case f.checking:
		if of := rangeOf(r); !of.holds(*v) {
			f.wrong("%s of %d ms is not in %d-%d", label(name), *v, of.Min, of.Max)
		}
		return
	case f.form == nil:
		f.coder.Varint(v)
		return
	}
	wide := *v
	f.form.signed(name, &wide, Millis, rangeOf(r))
	*v = wide
}
