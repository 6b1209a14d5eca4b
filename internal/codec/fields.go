package codec

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/floedb/floe/internal/rawjson"
)

// Fields codes the fields of a record by name, so that one function serves every reader of the record:
//
//	func (b *dequeueBody) code(f *codec.Fields) {
//		f.Int("max", &b.max, codec.Range{Min: 1, Max: MaxBatch})
//		f.Millis("lease_ms", &b.lease, codec.Range{Min: 1, Max: maxMillis})
//	}
//
// The log and the wire carry the fields in their order and without names, as a Coder codes them. JSON carries them by name. Check compares them with their
// ranges, and Describe lists them.
type Fields struct {
	coder    Coder
	form     form  // nil: binary, or checking
	checking bool  // fields are compared with their ranges, which is done for every command: nothing is allocated for it
	decoded  bool  // see CheckFields
	err      error // of the check
}

// Range bounds an integer, the bytes of a text or the elements of a list. The zero Range bounds nothing.
type Range struct {
	Min, Max int64
	Optional bool // zero or empty means absent, and is in range
}

// EncodeFields appends a record.
func EncodeFields[T any](dst []byte, v *T, code func(*T, *Fields)) []byte {
	f := borrow(NewEncoder(dst))
	code(v, f)
	dst = f.coder.dst
	giveBack(f)
	return dst
}

// DecodeFields reads what EncodeFields wrote, all of it, into *v. Bytes alias b.
func DecodeFields[T any](b []byte, v *T, code func(*T, *Fields)) error {
	f := borrow(NewDecoder(b))
	code(v, f)
	err := f.coder.Done()
	giveBack(f)
	return err
}

// borrowed are the Fields of EncodeFields and DecodeFields: what is coded is called through a function, so that each would be allocated.
var borrowed = sync.Pool{New: func() any { return new(Fields) }}

func borrow(c Coder) *Fields {
	f := borrowed.Get().(*Fields)
	f.coder = c
	return f
}

func giveBack(f *Fields) {
	*f = Fields{}
	borrowed.Put(f)
}

// form is what codes fields in any way but the binary one. A field without a name is the record itself: an element of a list that is no object.
type form interface {
	signed(name string, v *int64, unit Unit, r Range)
	unsigned(name string, v *uint64, unit Unit, r Range)
	boolean(name string, v *bool)
	text(name string, v *string, r Range)
	bytes(name string, v *[]byte, r Range)
	instant(name string, v *time.Time)
	custom(name string, v Custom)
	list(name string, n int, r Range, resize func(n int), each func(i int))
	given(name string, is bool) bool // whether an optional field is there, of which the record says that it is
}

// Unit says what an integer counts.
type Unit uint8

// The units of integers.
const (
	Plain  Unit = iota // nothing in particular
	Millis             // milliseconds
	Moment             // milliseconds since the epoch
)

// Custom is a value that is not in JSON what it is in a record, such as a receipt: text there, two integers here.
type Custom struct {
	Type  Type                     // what it is in JSON
	Show  func(dst []byte) []byte  // appends it as JSON
	Parse func(value []byte) error // reads JSON, which is valid
}

// Binary returns the Coder of the log and the wire, nil if the fields are coded otherwise.
func (f *Fields) Binary() *Coder {
	if f.checking || f.form != nil {
		return nil
	}
	return &f.coder
}

// Checking reports whether the fields are compared with their ranges.
func (f *Fields) Checking() bool { return f.checking }

// Parsing reports whether the fields are read from JSON, where one that is absent stays what it is: then code first sets what is the default.
func (f *Fields) Parsing() bool {
	_, parses := f.form.(*jsonReader)
	return parses
}

// Given reports whether an optional field is there: to be coded, with given as what the record says, or to be read. Records have ways of their own to say so,
// thus it is called after a look at Binary.
func (f *Fields) Given(name string, given bool) bool {
	if f.checking {
		return given
	}
	return f.form.given(name, given)
}

// Int codes an integer that this machine has to be able to hold.
func (f *Fields) Int(name string, v *int, r ...Range) {
	switch {
	case f.checking:
		f.checkSigned(name, int64(*v), r)
		return
	case f.form == nil:
		f.coder.Int(v)
		return
	}
	wide := int64(*v)
	if f.form.signed(name, &wide, Plain, rangeOf(r)); wide >= math.MinInt && wide <= math.MaxInt {
		*v = int(wide)
	}
}

// Count codes an integer that is never negative.
func (f *Fields) Count(name string, v *int64, r ...Range) { f.unsigned(name, v, Plain, r) }

// Millis codes a duration in ms that is never negative.
func (f *Fields) Millis(name string, v *int64, r ...Range) { f.unsigned(name, v, Millis, r) }

// unsigned codes an int64 as an unsigned integer. A decoder may find one beyond it, which is negative then: its range has to refuse that.
func (f *Fields) unsigned(name string, v *int64, unit Unit, r []Range) {
	switch {
	case f.checking:
		f.checkCounted(name, *v, unit, r)
		return
	case f.form == nil:
		wide := uint64(*v)
		f.coder.Uvarint(&wide)
		if f.coder.reading {
			*v = int64(wide)
		}
		return
	}
	wide := *v
	f.form.signed(name, &wide, unit, rangeOf(r))
	*v = wide
}

// Varint codes an integer.
func (f *Fields) Varint(name string, v *int64, r ...Range) {
	switch {
	case f.checking:
		f.checkSigned(name, *v, r)
		return
	case f.form == nil:
		f.coder.Varint(v)
		return
	}
	wide := *v
	f.form.signed(name, &wide, Plain, rangeOf(r))
	*v = wide
}

// Uvarint codes an unsigned integer.
func (f *Fields) Uvarint(name string, v *uint64, r ...Range) {
	switch {
	case f.checking:
		f.checkUnsigned(name, *v, r)
		return
	case f.form == nil:
		f.coder.Uvarint(v)
		return
	}
	wide := *v
	f.form.unsigned(name, &wide, Plain, rangeOf(r))
	*v = wide
}

// Byte codes a small number.
func (f *Fields) Byte(name string, v *byte, r ...Range) {
	switch {
	case f.checking:
		f.checkUnsigned(name, uint64(*v), r)
		return
	case f.form == nil:
		f.coder.Byte(v)
		return
	}
	within := rangeOf(r)
	if within.Max == 0 {
		within.Max = math.MaxUint8
	}
	wide := uint64(*v)
	if f.form.unsigned(name, &wide, Plain, within); wide <= math.MaxUint8 {
		*v = byte(wide)
	}
}

// Bool codes a boolean.
func (f *Fields) Bool(name string, v *bool) {
	switch {
	case f.checking:
		return
	case f.form == nil:
		f.coder.Bool(v)
		return
	}
	is := *v
	f.form.boolean(name, &is)
	*v = is
}

// Text codes a text.
func (f *Fields) Text(name string, v *string, r ...Range) {
	switch {
	case f.checking:
		f.checkLength(name, len(*v), r)
		return
	case f.form == nil:
		f.coder.String(v)
		return
	}
	text := *v
	f.form.text(name, &text, rangeOf(r))
	*v = text
}

// Bytes codes bytes, which a decoder of commands does not copy.
func (f *Fields) Bytes(name string, v *[]byte, r ...Range) {
	switch {
	case f.checking:
		f.checkLength(name, len(*v), r)
		return
	case f.form == nil:
		f.coder.alias(v)
		return
	}
	b := *v
	f.form.bytes(name, &b, rangeOf(r))
	*v = b
}

// Rest codes bytes that reach to the end of the record.
func (f *Fields) Rest(name string, v *[]byte, r ...Range) {
	switch c := &f.coder; {
	case f.checking || f.form != nil:
		f.Bytes(name, v, r...)
	case c.reading:
		*v = c.src.Rest()
	default:
		c.dst = append(c.dst, *v...)
	}
}

// Moment codes a time, which has milliseconds and is not the zero one.
func (f *Fields) Moment(name string, v *time.Time) {
	switch {
	case f.checking:
		return
	case f.form == nil:
		ms := v.UnixMilli()
		if f.coder.Varint(&ms); f.coder.reading {
			*v = time.UnixMilli(ms)
		}
		return
	}
	t := *v
	f.form.instant(name, &t)
	*v = t
}

// Duration codes a duration, which JSON has in ms.
func (f *Fields) Duration(name string, v *time.Duration, r ...Range) {
	switch {
	case f.checking:
		f.checkCounted(name, v.Milliseconds(), Millis, r)
		return
	case f.form == nil:
		f.coder.Varint((*int64)(v))
		return
	}
	ms := v.Milliseconds()
	shown := ms
	if f.form.signed(name, &ms, Millis, rangeOf(r)); ms != shown {
		*v = time.Duration(ms) * time.Millisecond
	}
}

// Refuse makes a check or the reading of JSON fail with an error of the caller; nil changes nothing.
func (f *Fields) Refuse(err error) {
	if r, reads := f.form.(*jsonReader); reads && r.err == nil {
		r.err = err
	} else if f.checking && f.err == nil {
		f.err = err
	}
}

// Custom codes a value in JSON; it is called after a look at Binary and at Checking.
func (f *Fields) Custom(name string, v Custom) { f.form.custom(name, v) }

// Token codes a value that is text in JSON, such as a receipt; it is called after a look at Binary and at Checking.
func (f *Fields) Token(name string, show func() string, parse func(text string) error) {
	f.Custom(name, Custom{
		Type: StringType,
		Show: func(dst []byte) []byte { return rawjson.AppendText(dst, show()) },
		Parse: func(value []byte) error {
			text, ok := rawjson.Text(value)
			if !ok {
				return fmt.Errorf("want a string, got %s", excerpt(value))
			}
			return parse(text)
		},
	})
}

// RestOf codes a list that reaches to the end of the record, each element with code, which has to use at least a byte. It reads into the slice that it finds.
func RestOf[T any](f *Fields, name string, list *[]T, code func(*T, *Fields), r ...Range) {
	if f.checking {
		if f.checkCount(name, len(*list), r) {
			for i := 0; i < len(*list) && f.err == nil; i++ {
				code(&(*list)[i], f)
			}
		}
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
	clear(*list) // or what the elements were read from would stay in memory
	all := (*list)[:0]
	for f.coder.Err() == nil && f.coder.src.Len() > 0 {
		all = append(all, *new(T))
		code(&all[len(all)-1], f)
	}
	*list = all
}

func formList[T any](f *Fields, name string, list *[]T, code func(*T, *Fields), r Range) {
	all := *list
	f.form.list(name, len(all), r, func(n int) { all = make([]T, n) }, func(i int) {
		if i < 0 { // a description: there are no elements
			code(new(T), f)
			return
		}
		code(&all[i], f)
	})
	*list = all
}

func rangeOf(r []Range) Range {
	if len(r) == 0 {
		return Range{}
	}
	return r[0]
}

// bounds reports whether the Range bounds anything.
func (r Range) bounds() bool { return r.Min != 0 || r.Max != 0 }

// label is what a field is called in an error: of "lease_ms" it is "lease".
func label(name string) string {
	return strings.ReplaceAll(strings.TrimSuffix(name, "_ms"), "_", " ")
}
