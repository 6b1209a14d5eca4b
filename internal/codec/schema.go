package codec

import (
	"fmt"
	"math"
	"time"
)

// Type is the JSON type of a field.
type Type uint8

// The types of fields.
const (
	IntegerType Type = iota + 1
	BooleanType
	StringType
	BytesType // a string that holds any bytes
	ListType
	ObjectType
	NumberType
	AnyType // any JSON value
)

var typeNames = [...]string{
	IntegerType: "integer", BooleanType: "boolean", StringType: "string", BytesType: "bytes", ListType: "list", ObjectType: "object",
	NumberType: "number", AnyType: "JSON",
}

func (t Type) String() string { return typeNames[t] }

// Field describes a field of a record.
type Field struct {
	Name   string // "" for a list element
	Type   Type
	Unit   Unit
	Range  Range
	Fields []Field  // of an object; for a list, one Field without a name: its element
	Values []string // of a string that takes only these

	Required bool  // JSON must have it
	Default  int64 // of an integer that is absent from JSON
}

// Describe returns the fields that code codes. The values of the record are the defaults: a field
// whose default is out of range is required.
func Describe(code func(*Fields)) []Field {
	var d describer
	code(&Fields{form: &d})
	return d.fields
}

type describer struct {
	fields   []Field
	required string // name of a field that follows
}

func (d *describer) add(f Field) {
	f.Required = f.Required || f.Name == d.required && f.Name != ""
	d.fields = append(d.fields, f)
}

func (d *describer) signed(name string, v *int64, unit Unit, r Range) {
	d.add(Field{Name: name, Type: IntegerType, Unit: unit, Range: r, Default: *v, Required: !r.holds(*v)})
}
func (d *describer) unsigned(name string, v *uint64, unit Unit, r Range) {
	n := int64(min(*v, math.MaxInt64))
	d.add(Field{Name: name, Type: IntegerType, Unit: unit, Range: r, Default: n, Required: !r.holds(n)})
}
func (d *describer) float(name string, _ *float64) { d.add(Field{Name: name, Type: NumberType}) }
func (d *describer) boolean(name string, _ *bool)  { d.add(Field{Name: name, Type: BooleanType}) }
func (d *describer) text(name string, v *string, r Range) {
	d.add(Field{Name: name, Type: StringType, Range: r, Required: !r.holds(int64(len(*v)))})
}
func (d *describer) bytes(name string, v *[]byte, r Range) {
	d.add(Field{Name: name, Type: BytesType, Range: r, Required: !r.holds(int64(len(*v)))})
}
func (d *describer) instant(name string, _ *time.Time) {
	d.add(Field{Name: name, Type: IntegerType, Unit: Moment})
}
func (d *describer) custom(name string, v Custom) {
	f := Field{Name: name, Type: v.Type}
	if v.Values != nil {
		f.Values = v.Values()
	}
	d.add(f)
}

func (d *describer) list(name string, n int, r Range, _ func(int), each func(int)) {
	outer := d.fields
	d.fields = nil
	each(-1)
	element := d.fields
	if len(element) != 1 || element[0].Name != "" {
		element = []Field{{Type: ObjectType, Fields: element}}
	}
	d.fields = outer
	d.add(Field{Name: name, Type: ListType, Range: r, Fields: element, Required: !r.holds(int64(n))})
}

func (d *describer) given(string, bool) bool { return true }

// CheckFields returns an error for the first field that is out of range. In a decoded record a
// negative Count or Millis is a value that exceeds an int64, and the error shows the unsigned
// value.
func CheckFields[T any](v *T, decoded bool, code func(*T, *Fields)) error {
	f := borrow(Coder{})
	f.checking, f.decoded = true, decoded
	code(v, f)
	err := f.err
	giveBack(f)
	return err
}

func (r Range) holds(n int64) bool {
	return !r.bounds() || r.Optional && n == 0 || r.Min <= n && n <= r.Max
}

func (f *Fields) wrong(format string, args ...any) { f.Refuse(fmt.Errorf(format, args...)) }

func (f *Fields) checkSigned(name string, n int64, of []Range) {
	switch r := rangeOf(of); {
	case r.holds(n):
	case r.Min == 0 && r.Max == math.MaxInt64:
		f.wrong("%s %d is negative", label(name), n)
	default:
		f.wrong("%s %d is not in %d-%d", label(name), n, r.Min, r.Max)
	}
}

// checkCounted checks a non-negative integer.
func (f *Fields) checkCounted(name string, n int64, unit Unit, of []Range) {
	r := rangeOf(of)
	if r.holds(n) {
		return
	}
	var shown any = n
	if f.decoded {
		shown = uint64(n)
	}
	switch {
	case !f.decoded && n < 0 && r.Min == 0 && r.Max == math.MaxInt64:
		f.wrong("%s %d is negative", label(name), n)
	case unit == Millis:
		f.wrong("%s of %d ms is not in %d-%d", label(name), shown, r.Min, r.Max)
	default:
		f.wrong("%s %d is not in %d-%d", label(name), shown, r.Min, r.Max)
	}
}

func (f *Fields) checkUnsigned(name string, n uint64, of []Range) {
	if r := rangeOf(of); n > math.MaxInt64 && r.bounds() || !r.holds(int64(n)) {
		f.wrong("%s %d is not in %d-%d", label(name), n, r.Min, r.Max)
	}
}

func (f *Fields) checkLength(name string, n int, of []Range) {
	switch r := rangeOf(of); {
	case r.holds(int64(n)):
	case r.Min == 0:
		f.wrong("%s of %d bytes exceeds %d", label(name), n, r.Max)
	default:
		f.wrong("%s of %d bytes is not in %d-%d", label(name), n, r.Min, r.Max)
	}
}

func (f *Fields) checkCount(name string, n int, of []Range) bool {
	r := rangeOf(of)
	if !r.holds(int64(n)) {
		f.Refuse(tooMany(n, name, r))
		return false
	}
	return true
}
