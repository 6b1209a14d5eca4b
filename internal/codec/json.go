package codec

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/floedb/floe/internal/rawjson"
	"github.com/floedb/floe/internal/spelling"
)

// AppendJSON appends a record as a JSON object. Bytes become strings: base64 with encode64,
// otherwise text in which U+FFFD replaces invalid UTF-8. lossy reports whether any bytes were
// replaced.
func AppendJSON(dst []byte, encode64 bool, code func(*Fields)) (_ []byte, lossy bool) {
	w := &jsonWriter{dst: dst, encode64: encode64}
	w.record(func() { code(&Fields{form: w}) }, true)
	return w.dst, w.lossy
}

type jsonWriter struct {
	dst      []byte
	encode64 bool
	lossy    bool
	object   bool // the current record is an object; its brace is open
}

// record writes an object, or a bare value if code names no field. If the record is always an
// object, it may be empty.
func (w *jsonWriter) record(code func(), always bool) {
	outer := w.object
	if w.object = always; always {
		w.dst = append(w.dst, '{')
	}
	if code(); w.object {
		w.dst = append(w.dst, '}')
	}
	w.object = outer
}

// name starts a field.
func (w *jsonWriter) name(name string) {
	switch {
	case name == "":
		return
	case !w.object:
		w.object, w.dst = true, append(w.dst, '{')
	case w.dst[len(w.dst)-1] != '{':
		w.dst = append(w.dst, ',')
	}
	w.dst = append(rawjson.AppendText(w.dst, name), ':')
}

func (w *jsonWriter) signed(name string, v *int64, _ Unit, _ Range) {
	w.name(name)
	w.dst = strconv.AppendInt(w.dst, *v, 10)
}

func (w *jsonWriter) unsigned(name string, v *uint64, _ Unit, _ Range) {
	w.name(name)
	w.dst = strconv.AppendUint(w.dst, *v, 10)
}

func (w *jsonWriter) boolean(name string, v *bool) {
	w.name(name)
	w.dst = strconv.AppendBool(w.dst, *v)
}

// float writes a number, or a string if JSON cannot represent the number.
func (w *jsonWriter) float(name string, v *float64) {
	w.name(name)
	switch {
	case math.IsNaN(*v) || math.IsInf(*v, 0):
		w.dst = rawjson.AppendText(w.dst, strconv.FormatFloat(*v, 'g', -1, 64))
	default:
		w.dst = strconv.AppendFloat(w.dst, *v, 'g', -1, 64)
	}
}

func (w *jsonWriter) text(name string, v *string, _ Range) {
	w.name(name)
	w.dst = rawjson.AppendText(w.dst, *v)
}

func (w *jsonWriter) bytes(name string, v *[]byte, _ Range) {
	w.name(name)
	if w.encode64 {
		w.dst = rawjson.AppendText(w.dst, base64.StdEncoding.EncodeToString(*v))
		return
	}
	w.lossy = w.lossy || !utf8.Valid(*v)
	w.dst = rawjson.AppendText(w.dst, string(*v))
}

func (w *jsonWriter) instant(name string, v *time.Time) {
	ms := v.UnixMilli()
	w.signed(name, &ms, Moment, Range{})
}

func (w *jsonWriter) custom(name string, v Custom) {
	w.name(name)
	w.dst = v.Show(w.dst)
}

func (w *jsonWriter) list(name string, n int, _ Range, _ func(int), each func(int)) {
	w.name(name)
	w.dst = append(w.dst, '[')
	for i := range n {
		if i > 0 {
			w.dst = append(w.dst, ',')
		}
		w.record(func() { each(i) }, false)
	}
	w.dst = append(w.dst, ']')
}

// ReadJSON reads a record from a JSON object. Absent fields keep their values. A field that is
// null, repeated, unknown or of the wrong type is an error, which names the field. Bytes are
// strings, base64 with decode64. ReadJSON does not check ranges; see CheckFields.
func ReadJSON(src []byte, decode64 bool, code func(*Fields)) error {
	if !rawjson.Valid(src) {
		return errors.New("the body is not valid JSON")
	}
	r := &jsonReader{decode64: decode64, asked: make([]string, 0, 16)}
	r.record(src, func() { code(&Fields{form: r}) })
	return r.err
}

type jsonReader struct {
	decode64 bool
	err      error
	src      []byte // of the record
	opened   bool   // members are those of the record
	members  []jsonMember
	spare    []jsonMember // memory for members of the next record
	place    *jsonPlace
	asked    []string // names of fields, of outer records first
	missing  string   // first required field that the record lacks
}

// jsonMember is a member of a record that has not been read yet; its value is nil afterwards.
type jsonMember struct{ name, value []byte }

// maxRecord is the maximum number of members of a record. None has as many fields.
const maxRecord = 64

// jsonPlace is the place of a record in the body, nil for the body itself.
type jsonPlace struct {
	outer *jsonPlace
	field string
	index int // in a list; negative: the field is the record
}

// String returns the path of the record, such as "messages[3].".
func (p *jsonPlace) String() string {
	if p == nil {
		return ""
	}
	if p.index < 0 {
		return p.outer.String() + p.field + "."
	}
	return fmt.Sprintf("%v%s[%d].", p.outer, p.field, p.index)
}

func (r *jsonReader) fail(name, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("field %q: %s", r.place.String()+name, fmt.Sprintf(format, args...))
	}
}

// record reads an object, or a bare value if code names no field. code must read all members.
func (r *jsonReader) record(src []byte, code func()) {
	src0, opened0, members0, asked0 := r.src, r.opened, r.members, len(r.asked)
	missing0 := r.missing
	r.src, r.opened, r.members, r.missing = src, false, nil, ""
	code()
	if r.place == nil {
		r.open() // even a record without fields must be an object
	}
	var unknown *jsonMember
	for i := range r.members {
		if m := &r.members[i]; m.value != nil && (unknown == nil || bytes.Compare(m.name, unknown.name) < 0) {
			unknown = m
		}
	}
	if unknown != nil {
		name, hint := string(unknown.name), "unknown"
		if near := spelling.Nearest(name, r.asked[asked0:]); near != "" {
			hint = fmt.Sprintf("unknown (did you mean %q?)", near)
		}
		r.fail(name, "%s", hint)
	}
	if r.missing != "" && r.err == nil { // unknown fields come first: one may be a misspelling
		r.err = fmt.Errorf("field %q is missing", r.place.String()+r.missing)
	}
	r.missing = missing0
	if r.opened {
		r.spare = r.members[:0]
	}
	r.src, r.opened, r.members, r.asked = src0, opened0, members0, r.asked[:asked0]
}

// open splits the record into its members, once.
func (r *jsonReader) open() {
	if r.opened {
		return
	}
	r.opened, r.members, r.spare = true, r.spare, nil
	object := rawjson.EachMember(r.src, func(key, value []byte) bool {
		name := key[1 : len(key)-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			name = rawjson.AppendUnquoted(nil, name)
		}
		switch {
		case r.member(string(name)) != nil:
			r.fail(string(name), "given twice")
		case len(r.members) == maxRecord:
			r.fail(string(name), "a record has up to %d fields", maxRecord)
		}
		r.members = append(r.members, jsonMember{name, value})
		return r.err == nil
	})
	if !object && r.err == nil {
		r.err = fmt.Errorf("want an object, got %s", excerpt(r.src))
		if path := r.place.String(); path != "" {
			r.err = fmt.Errorf("field %q: %w", path[:len(path)-1], r.err)
		}
	}
}

// member returns an unread member of the record, nil if it does not exist.
func (r *jsonReader) member(name string) *jsonMember {
	for i := range r.members {
		if m := &r.members[i]; string(m.name) == name && m.value != nil {
			return m
		}
	}
	return nil
}

// field returns the JSON of a field, nil if it is absent.
func (r *jsonReader) field(name string) []byte {
	if r.err != nil {
		return nil
	}
	if name == "" {
		return r.src
	}
	r.open()
	r.asked = append(r.asked, name)
	m := r.member(name)
	if m == nil {
		return nil
	}
	value := m.value
	m.value = nil
	return value
}

// excerpt shortens JSON for an error message.
func excerpt(b []byte) string {
	const long = 40
	if len(b) > long {
		return fmt.Sprintf("%q ...", b[:long])
	}
	return string(b)
}

func (r *jsonReader) signed(name string, v *int64, _ Unit, _ Range) {
	if raw := r.field(name); raw != nil {
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil {
			r.fail(name, "want an integer, got %s", excerpt(raw))
			return
		}
		*v = n
	}
}

func (r *jsonReader) unsigned(name string, v *uint64, _ Unit, _ Range) {
	if raw := r.field(name); raw != nil {
		n, err := strconv.ParseUint(string(raw), 10, 64)
		if err != nil {
			r.fail(name, "want a non-negative integer, got %s", excerpt(raw))
			return
		}
		*v = n
	}
}

func (r *jsonReader) boolean(name string, v *bool) {
	switch raw := r.field(name); string(raw) {
	case "true", "false":
		*v = raw[0] == 't'
	case "":
	default:
		r.fail(name, "want true or false, got %s", excerpt(raw))
	}
}

func (r *jsonReader) float(name string, v *float64) {
	raw := r.field(name)
	if raw == nil {
		return
	}
	text, quoted := rawjson.Text(raw)
	if !quoted {
		text = string(raw)
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || quoted && !math.IsNaN(n) && !math.IsInf(n, 0) {
		r.fail(name, "want a number, got %s", excerpt(raw))
		return
	}
	*v = n
}

func (r *jsonReader) text(name string, v *string, _ Range) {
	if raw := r.field(name); raw != nil {
		s, ok := rawjson.Text(raw)
		if !ok {
			r.fail(name, "want a string, got %s", excerpt(raw))
			return
		}
		*v = s
	}
}

func (r *jsonReader) bytes(name string, v *[]byte, _ Range) {
	raw := r.field(name)
	if raw == nil {
		return
	}
	text, ok := rawjson.Bytes(raw)
	if !ok {
		r.fail(name, "want a string, got %s", excerpt(raw))
		return
	}
	if *v = text; r.decode64 {
		*v = make([]byte, base64.StdEncoding.DecodedLen(len(text)))
		n, err := base64.StdEncoding.Decode(*v, text)
		if *v = (*v)[:n]; err != nil {
			r.fail(name, "want base64, got %s", excerpt(raw))
		}
	}
}

func (r *jsonReader) instant(name string, v *time.Time) {
	ms := v.UnixMilli()
	if r.signed(name, &ms, Moment, Range{}); r.err == nil {
		*v = time.UnixMilli(ms)
	}
}

func (r *jsonReader) custom(name string, v Custom) {
	if raw := r.field(name); raw != nil {
		if err := v.Parse(raw); err != nil {
			r.fail(name, "%v", err)
		}
	}
}

func (r *jsonReader) list(name string, _ int, _ Range, resize func(int), each func(int)) {
	raw := r.field(name)
	if raw == nil {
		return
	}
	var elements [][]byte
	if array := rawjson.EachElement(raw, func(e []byte) bool {
		elements = append(elements, e)
		return true
	}); !array {
		r.fail(name, "want an array, got %s", excerpt(raw))
		return
	}
	resize(len(elements))
	place := &jsonPlace{outer: r.place, field: name}
	r.place = place
	for i, e := range elements {
		if r.err != nil {
			break
		}
		place.index = i
		r.record(e, func() { each(i) })
	}
	r.place = place.outer
}

func (w *jsonWriter) given(_ string, is bool) bool { return is }

func (r *jsonReader) given(name string, _ bool) bool {
	r.open()
	r.asked = append(r.asked, name)
	return r.member(name) != nil
}
