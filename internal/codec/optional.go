package codec

// OptionalBytes codes bytes that may be nil, as Coder.Bytes does. JSON leaves nil out. Decoded bytes
// alias the record.
func (f *Fields) OptionalBytes(name string, v *[]byte, r ...Range) {
	if c := f.Binary(); c != nil {
		c.View(v)
	} else if f.Given(name, *v != nil) {
		f.Bytes(name, v, r...)
	}
}
