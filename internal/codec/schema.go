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
	Fields []Field // of an object; for a list, one Field without a name: its element
}

// Describe returns the fields that code codes.
func Describe(code func(*Fields)) []Field {
	var d describer
	code(&Fields{form: &d})
	return d.fields
}

type describer struct{ fields []Field }

func (d *describer) add(name string, t Type, unit Unit, r Range) {
	d.fields = append(d.fields, Field{Name: name, Type: t, Unit: unit, Range: r})
}

func (d *describer) signed(name string, _ *int64, unit Unit, r Range) {
	d.add(name, IntegerType, unit, r)
}
func (d *describer) unsigned(name string, _ *uint64, unit Unit, r Range) {
	d.add(name, IntegerType, unit, r)
}
func (d *describer) float(name string, _ *float64)         { d.add(name, NumberType, Plain, Range{}) }
func (d *describer) boolean(name string, _ *bool)          { d.add(name, BooleanType, Plain, Range{}) }
func (d *describer) text(name string, _ *string, r Range)  { d.add(name, StringType, Plain, r) }
func (d *describer) bytes(name string, _ *[]byte, r Range) { d.add(name, BytesType, Plain, r) }
func (d *describer) instant(name string, _ *time.Time)     { d.add(name, IntegerType, Moment, Range{}) }
func (d *describer) custom(name string, v Custom)          { d.add(name, v.Type, Plain, Range{}) }

func (d *describer) list(name string, _ int, r Range, _ func(int), each func(int)) {
	outer := d.fields
	d.fields = nil
	each(-1)
	element := d.fields
	if len(element) != 1 || element[0].Name != "" {
		element = []Field{{Type: ObjectType, Fields: element}}
	}
	d.fields = append(outer, Field{Name: name, Type: ListType, Range: r, Fields: element})
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
