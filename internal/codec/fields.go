package codec

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/floedb/floe/internal/rawjson"
)

// Fields codes the fields of a record by name, so that one function serves every representation of
// the record:
//
//	func (b *dequeueBody) code(f *codec.Fields) {
//		f.Int("max", &b.max, codec.Range{Min: 1, Max: MaxBatch})
//		f.Millis("lease_ms", &b.lease, codec.Range{Min: 1, Max: maxMillis})
//	}
//
// In the log and on the wire fields follow each other without names, as a Coder codes them. JSON
// has them by name, CheckFields checks their ranges, and Describe lists them.
type Fields struct {
	coder    Coder
	form     form  // nil: binary, or checking
	checking bool  // ranges are being checked; this happens for every command and must not allocate
	decoded  bool  // see CheckFields
	err      error // of the check, or for a list that is too long to decode
}

// Range limits an integer, the length of a string in bytes, or the number of elements of a list.
// The zero Range sets no limit.
type Range struct {
	Min, Max int64
	Optional bool // zero or empty means absent and is allowed
}

// EncodeFields appends the binary form of a record.
func EncodeFields[T any](dst []byte, v *T, code func(*T, *Fields)) []byte {
	f := borrow(NewEncoder(dst))
	code(v, f)
	dst = f.coder.dst
	giveBack(f)
	return dst
}

// DecodeFields decodes the binary form into *v, and fails if bytes are left over. Byte fields alias
// b. The error matches ErrCorrupt, except for a list that is longer than its range.
func DecodeFields[T any](b []byte, v *T, code func(*T, *Fields)) error {
	f := borrow(NewDecoder(b))
	code(v, f)
	err := f.err
	if err == nil {
		err = f.coder.Done()
	}
	giveBack(f)
	return err
}

// borrowed pools Fields. They are passed to a function value, so otherwise each would escape to the
// heap.
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

// form codes fields in a representation other than the binary one. A field without a name is the
// record itself: a list element that is not an object.
type form interface {
	signed(name string, v *int64, unit Unit, r Range)
	unsigned(name string, v *uint64, unit Unit, r Range)
	boolean(name string, v *bool)
	float(name string, v *float64)
	text(name string, v *string, r Range)
	bytes(name string, v *[]byte, r Range)
	instant(name string, v *time.Time)
	custom(name string, v Custom)
	list(name string, n int, r Range, resize func(n int), each func(i int))
	nested(name string, code func())
	given(name string, set bool) bool // reports whether an optional field is present; set is what the record says
}

// Unit is the unit of an integer.
type Unit uint8

// The units of integers.
const (
	Plain  Unit = iota // none
	Millis             // milliseconds
	Moment             // milliseconds since the epoch
)

// Custom is a value with different JSON and binary forms, such as a receipt: a string in JSON, two
// integers in binary.
type Custom struct {
	Type   Type                     // in JSON
	Values func() []string          // of a string that takes only these
	Show   func(dst []byte) []byte  // appends the value as JSON
	Parse  func(value []byte) error // sets the value from valid JSON
}

// Binary returns the Coder of the binary form, or nil if another one is in use.
func (f *Fields) Binary() *Coder {
	if f.checking || f.form != nil {
		return nil
	}
	return &f.coder
}

// Checking reports whether ranges are being checked.
func (f *Fields) Checking() bool { return f.checking }

// Parsing reports whether fields are being read from JSON, or described. Absent fields keep their
// values, so callers set defaults if it is true.
func (f *Fields) Parsing() bool {
	switch f.form.(type) {
	case *jsonReader, *describer:
		return true
	}
	return false
}

// Require rejects JSON without a field.
func (f *Fields) Require(name string) {
	switch form := f.form.(type) {
	case *jsonReader:
		if !form.given(name, false) && form.missing == "" {
			form.missing = name
		}
	case *describer:
		form.required = name
	}
}

// Given reports whether an optional field is present in the JSON that is being read. In other forms
// it returns given, which is whether the record has the field. Binary forms of optional fields
// differ, so callers handle Binary first.
func (f *Fields) Given(name string, given bool) bool {
	if f.checking {
		return given
	}
	return f.form.given(name, given)
}

// OnCopy calls code with a copy of *v, and stores the copy in *v if fields are being read from
// JSON. Use it outside the binary form. Variables used by closures and interfaces escape to the
// heap, so without the copy every body would. Writing JSON must not change *v, since it may be read
// concurrently.
func OnCopy[T any](f *Fields, v *T, code func(v *T)) {
	own := *v
	if code(&own); f.Parsing() {
		*v = own
	}
}

// Int codes an int.
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
	if f.form.signed(name, &wide, Plain, rangeOf(r)); f.Parsing() && wide >= math.MinInt && wide <= math.MaxInt {
		*v = int(wide)
	}
}

// Count codes a non-negative integer.
func (f *Fields) Count(name string, v *int64, r ...Range) { f.unsigned(name, v, Plain, r) }

// Millis codes a non-negative duration in milliseconds.
func (f *Fields) Millis(name string, v *int64, r ...Range) { f.unsigned(name, v, Millis, r) }

// unsigned codes a non-negative int64. A larger value decodes as a negative one, which the range of
// the field must exclude.
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
	OnCopy(f, v, func(v *int64) { f.form.signed(name, v, unit, rangeOf(r)) })
}

// Varint codes a signed integer.
func (f *Fields) Varint(name string, v *int64, r ...Range) {
	switch {
	case f.checking:
		f.checkSigned(name, *v, r)
		return
	case f.form == nil:
		f.coder.Varint(v)
		return
	}
	OnCopy(f, v, func(v *int64) { f.form.signed(name, v, Plain, rangeOf(r)) })
}

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
	OnCopy(f, v, func(v *int64) { f.form.signed(name, v, Millis, rangeOf(r)) })
}

// Narrow codes an unsigned integer of less than 64 bits. Its binary form is a uvarint.
func Narrow[T ~uint16 | ~uint32](f *Fields, name string, v *T) {
	wide, most := uint64(*v), uint64(^T(0))
	f.Uvarint(name, &wide, Range{Max: int64(most)})
	c := f.Binary()
	switch {
	case c == nil && !f.Parsing() || c != nil && !c.reading:
	case wide <= most:
		*v = T(wide)
	case c != nil:
		c.Fail("number out of range")
	default:
		f.Refuse(fmt.Errorf("%s %d is not in 0-%d", label(name), wide, most))
	}
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
	OnCopy(f, v, func(v *uint64) { f.form.unsigned(name, v, Plain, rangeOf(r)) })
}

// Byte codes a number of one byte.
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
	if f.form.unsigned(name, &wide, Plain, within); f.Parsing() && wide <= math.MaxUint8 {
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
	OnCopy(f, v, func(v *bool) { f.form.boolean(name, v) })
}

// Flag returns the code of a record that is one boolean.
func Flag(name string) func(*bool, *Fields) {
	return func(v *bool, f *Fields) { f.Bool(name, v) }
}

// Text codes a string.
func (f *Fields) Text(name string, v *string, r ...Range) {
	switch {
	case f.checking:
		f.checkLength(name, len(*v), r)
		return
	case f.form == nil:
		f.coder.String(v)
		return
	}
	OnCopy(f, v, func(v *string) { f.form.text(name, v, rangeOf(r)) })
}

// Bytes codes bytes. Decoded bytes alias the record.
func (f *Fields) Bytes(name string, v *[]byte, r ...Range) {
	switch {
	case f.checking:
		f.checkLength(name, len(*v), r)
		return
	case f.form == nil:
		f.coder.alias(v)
		return
	}
	OnCopy(f, v, func(v *[]byte) { f.form.bytes(name, v, rangeOf(r)) })
}

// Blob codes bytes that may be nil. JSON omits nil. Decoded bytes are a copy.
func (f *Fields) Blob(name string, v *[]byte, r ...Range) {
	switch {
	case f.checking:
		f.checkLength(name, len(*v), r)
	case f.form == nil:
		f.coder.Bytes(v)
	default:
		if f.form.given(name, *v != nil) {
			OnCopy(f, v, func(v *[]byte) { f.form.bytes(name, v, rangeOf(r)) })
		}
	}
}

// OptionalBytes is Blob without the copy: decoded bytes alias the record.
func (f *Fields) OptionalBytes(name string, v *[]byte, r ...Range) {
	if c := f.Binary(); c != nil {
		c.View(v)
	} else {
		f.Blob(name, v, r...)
	}
}

// Rest codes bytes that extend to the end of the record.
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

// Moment codes a time in milliseconds. It must not be the zero time.
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
	OnCopy(f, v, func(v *time.Time) { f.form.instant(name, v) })
}

// Time codes a time in milliseconds. The zero time is absent in JSON.
func (f *Fields) Time(name string, v *time.Time) {
	switch {
	case f.checking:
	case f.form == nil:
		f.coder.Time(v)
	default:
		if f.form.given(name, !v.IsZero()) {
			OnCopy(f, v, func(v *time.Time) { f.form.instant(name, v) })
		}
	}
}

// Duration codes a duration, which is in milliseconds in JSON.
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
	if f.form.signed(name, &ms, Millis, rangeOf(r)); ms == shown {
		return
	}
	*v = time.Duration(ms) * time.Millisecond
	if v.Milliseconds() != ms {
		f.Refuse(fmt.Errorf("field %q: %d ms exceed %d", name, ms, math.MaxInt64/int64(time.Millisecond)))
	}
}

// Float codes a float64; its binary form has the exact bits.
func (f *Fields) Float(name string, v *float64) {
	switch {
	case f.checking:
	case f.form == nil:
		f.coder.Float64(v)
	default:
		OnCopy(f, v, func(v *float64) { f.form.float(name, v) })
	}
}

// Namespace codes the namespace of a query. JSON has no field for it, because the URL of the
// request has it.
func (f *Fields) Namespace(v *string) {
	if c := f.Binary(); c != nil {
		c.String(v)
	}
}

// More reports whether fields follow that a later layout added; see Coder.More. JSON has all
// fields.
func (f *Fields) More(set bool) bool {
	if c := f.Binary(); c != nil {
		return c.More(set)
	}
	return true
}

// Found codes whether a query found its object, and reports whether the object's fields follow.
func (f *Fields) Found(v *bool) bool {
	f.Bool("found", v)
	_, describes := f.form.(*describer)
	return *v || describes
}

// Hex codes a fixed number of bytes, such as a hash. They are hexadecimal in JSON.
func (f *Fields) Hex(name string, b []byte) {
	switch {
	case f.checking:
		return
	case f.form == nil:
		for i := range b {
			f.coder.Byte(&b[i])
		}
		return
	}
	f.Token(name, func() string { return hex.EncodeToString(b) }, func(text string) error {
		decoded, err := hex.DecodeString(text)
		if err != nil || len(decoded) != len(b) {
			return fmt.Errorf("want %d hexadecimal digits, got %d characters", 2*len(b), len(text))
		}
		copy(b, decoded)
		return nil
	})
}

// Enum codes a value that has a name in JSON. Names is indexed by value; "" marks a number that is
// not a value.
func Enum[T ~uint8](f *Fields, name string, v *T, names []string) {
	named := func(t T) bool { return int(t) < len(names) && names[t] != "" }
	all := func() []string { return slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == "" }) }
	switch {
	case f.checking:
		if !named(*v) {
			f.wrong("unknown %s %d", label(name), *v)
		}
		return
	case f.form == nil:
		b := byte(*v)
		if f.coder.Byte(&b); f.coder.reading {
			*v = T(b)
		}
		return
	}
	OnCopy(f, v, func(v *T) {
		f.token(name, all, func() string {
			if named(*v) {
				return names[*v]
			}
			return strconv.Itoa(int(*v))
		}, func(text string) error {
			i := slices.Index(names, text)
			if i < 0 || text == "" {
				return fmt.Errorf("unknown %s %q: want one of %s", label(name), text, strings.Join(all(), ", "))
			}
			*v = T(i)
			return nil
		})
	})
}

// Refuse fails a check or the reading of JSON with err, unless err is nil.
func (f *Fields) Refuse(err error) {
	if r, reads := f.form.(*jsonReader); reads && r.err == nil {
		r.err = err
	} else if f.checking && f.err == nil {
		f.err = err
	}
}

// Custom codes a value in JSON. Callers handle Binary and Checking first.
func (f *Fields) Custom(name string, v Custom) { f.form.custom(name, v) }

// Token codes a value that is a string in JSON, such as a receipt. Callers handle Binary and
// Checking first.
func (f *Fields) Token(name string, show func() string, parse func(text string) error) {
	f.token(name, nil, show, parse)
}

func (f *Fields) token(name string, values func() []string, show func() string, parse func(text string) error) {
	f.Custom(name, Custom{
		Type:   StringType,
		Values: values,
		Show:   func(dst []byte) []byte { return rawjson.AppendText(dst, show()) },
		Parse: func(value []byte) error {
			text, ok := rawjson.Text(value)
			if !ok {
				return fmt.Errorf("want a string, got %s", excerpt(value))
			}
			return parse(text)
		},
	})
}

func rangeOf(r []Range) Range {
	if len(r) == 0 {
		return Range{}
	}
	return r[0]
}

// bounds reports whether the Range sets a limit.
func (r Range) bounds() bool { return r.Min != 0 || r.Max != 0 }

// label returns the name of a field for error messages, "lease" for "lease_ms".
func label(name string) string {
	return strings.ReplaceAll(strings.TrimSuffix(name, "_ms"), "_", " ")
}
