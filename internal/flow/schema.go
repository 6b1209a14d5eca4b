package flow

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/floedb/floe/internal/document"
	"github.com/floedb/floe/internal/expression"
	"github.com/floedb/floe/internal/rawjson"
)

// Schema is a subset of JSON Schema. The zero value allows everything.
type Schema struct {
	types    uint8 // bit set of allowed types; 0: all
	required []string
	members  []schemaMember // by name
	closed   bool           // no other members are allowed
	items    *Schema
	enum     [][]byte // nil: any
	min, max *float64
	size     [sizes]*sizeLimit
}

// schemaMember is the schema of a member.
type schemaMember struct {
	name   string
	schema *Schema
}

// sizeLimit bounds a size.
type sizeLimit struct {
	min, max int64 // max -1: no limit
}

// Values with a size.
const (
	sizeText  = iota // in code points
	sizeItems        // of an array
	sizes
)

var sizeNames = [sizes]string{"characters", "elements"}

// The types of JSON Schema, in the order of their bits.
var schemaTypes = []string{"null", "boolean", "integer", "number", "string", "array", "object"}

const (
	typeNull = 1 << iota
	typeBool
	typeInteger
	typeNumber
	typeString
	typeArray
	typeObject
	typeEnd
)

// violation describes an invalid part of a value. The path is built only after a violation is
// found, because most values are valid.
type violation struct{ at, text string }

func violates(format string, args ...any) *violation {
	return &violation{text: fmt.Sprintf(format, args...)}
}

// below prepends a step to the path.
func (v *violation) below(at string) *violation {
	v.at = at + v.at
	return v
}

// Check reports the first violation found: the place, the value there and what is allowed.
func (s *Schema) Check(raw []byte) error {
	if !rawjson.Valid(raw) {
		return fmt.Errorf("$ is no JSON: %s", strconv.QuoteToASCII(document.Clip(string(clipBytes(raw)))))
	}
	if v := s.check(rawjson.TrimSpace(raw)); v != nil {
		return errors.New("$" + v.at + " " + v.text)
	}
	return nil
}

func clipBytes(raw []byte) []byte { return raw[:min(len(raw), 200)] }

// show returns the beginning of a value for messages.
func show(raw []byte) string { return document.Clip(string(bytes.ToValidUTF8(clipBytes(raw), nil))) }

func (s *Schema) check(raw []byte) *violation {
	if got := typeOf(raw); s.types != 0 && s.types&got == 0 {
		return violates("is %s, expected %s", show(raw), typeNames(s.types))
	}
	if s.enum != nil && !slices.ContainsFunc(s.enum, func(e []byte) bool { return expression.EqualJSON(e, raw) }) {
		return violates("is %s, expected %s", show(raw), s.allowed())
	}
	switch raw[0] {
	case '{':
		return s.checkObject(raw)
	case '[':
		return s.checkArray(raw)
	case '"':
		text, _ := rawjson.Text(raw)
		return s.checkSize(sizeText, int64(utf8.RuneCountInString(text)))
	case 't', 'f', 'n':
		return nil
	}
	return s.checkNumber(raw)
}

// typeOf returns the bits of the types that a value matches.
func typeOf(raw []byte) uint8 {
	switch raw[0] {
	case 'n':
		return typeNull
	case 't', 'f':
		return typeBool
	case '"':
		return typeString
	case '[':
		return typeArray
	case '{':
		return typeObject
	}
	if _, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return typeInteger | typeNumber
	}
	if n, ok := rawjson.Number(raw); ok && n == math.Trunc(n) {
		return typeInteger | typeNumber
	}
	return typeNumber
}

func typeNames(types uint8) string {
	var names []string
	for i, name := range schemaTypes {
		if types&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}

func (s *Schema) allowed() string {
	var list []string
	for i, e := range s.enum {
		if i == 10 {
			list = append(list, "...")
			break
		}
		list = append(list, show(e))
	}
	return strings.Join(list, " or ")
}

func (s *Schema) checkNumber(raw []byte) *violation {
	if s.min == nil && s.max == nil {
		return nil
	}
	n, ok := rawjson.Number(raw)
	switch {
	case !ok:
		return violates("is %s, which is out of range", show(raw))
	case s.min != nil && n < *s.min:
		return violates("is %s, expected at least %s", show(raw), decimal(*s.min))
	case s.max != nil && n > *s.max:
		return violates("is %s, expected at most %s", show(raw), decimal(*s.max))
	}
	return nil
}

func decimal(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }

func (s *Schema) checkSize(what int, n int64) *violation {
	limit := s.size[what]
	switch {
	case limit == nil:
		return nil
	case n < limit.min:
		return violates("has %d %s, expected at least %d", n, sizeNames[what], limit.min)
	case limit.max >= 0 && n > limit.max:
		return violates("has %d %s, expected at most %d", n, sizeNames[what], limit.max)
	}
	return nil
}

func (s *Schema) checkArray(raw []byte) (v *violation) {
	n := int64(0)
	rawjson.EachElement(raw, func(element []byte) bool {
		if s.items != nil {
			v = s.items.check(element)
		}
		if v != nil {
			v.below(fmt.Sprintf("[%d]", n))
		}
		n++
		return v == nil
	})
	if v != nil {
		return v
	}
	return s.checkSize(sizeItems, n)
}

func (s *Schema) checkObject(raw []byte) (v *violation) {
	seen := make(map[string]bool, len(s.required))
	rawjson.EachMember(raw, func(key, value []byte) bool {
		name, _ := rawjson.Text(key)
		seen[name] = true
		i, known := slices.BinarySearchFunc(s.members, name, func(m schemaMember, name string) int { return strings.Compare(m.name, name) })
		switch {
		case known:
			v = s.members[i].schema.check(value)
		case s.closed:
			v = violates("is not allowed")
		}
		if v != nil {
			v.below(memberAt(name))
		}
		return v == nil
	})
	for _, name := range s.required {
		if v == nil && !seen[name] {
			v = violates("is missing").below(memberAt(name))
		}
	}
	return v
}

// memberAt returns a step of a path. Plain names are recognised without Unicode tables, which may
// differ between builds.
func memberAt(name string) string {
	name = document.Clip(name)
	plain := name != ""
	for i := range len(name) {
		c := name[i]
		plain = plain && (c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z')
	}
	if plain {
		return "." + name
	}
	return "[" + string(rawjson.AppendText(nil, name)) + "]"
}
