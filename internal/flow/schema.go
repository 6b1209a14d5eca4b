package flow

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Schema is what a value of JSON has to be like: a subset of JSON Schema. The zero value allows everything.
type Schema struct {
	types    uint8 // a bit for each that is allowed; 0: all
	required []string
	members  []schemaMember // by name
	closed   bool           // no other members
	items    *Schema
	enum     [][]byte // nil: any
	min, max *float64
	size     [sizes]*sizeLimit
}

// schemaMember is what a member has to be like.
type schemaMember struct {
	name   string
	schema *Schema
}

// sizeLimit is what is counted, and what the count may be.
type sizeLimit struct {
	min, max int64 // max -1: any
}

// What has a size.
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

// Check says what is wrong with a value: where, what is there, and what is allowed.
func (s *Schema) Check(raw []byte) error {
	if !Valid(raw) {
		return fmt.Errorf("$ is no JSON: %s", clip(strconv.QuoteToASCII(string(clipBytes(raw)))))
	}
	return s.check("$", trimSpace(raw))
}

func clipBytes(raw []byte) []byte { return raw[:min(len(raw), 200)] }

// show returns the beginning of a value, for messages.
func show(raw []byte) string { return clip(string(bytes.ToValidUTF8(clipBytes(raw), nil))) }

func (s *Schema) check(at string, raw []byte) error {
	if got := typeOf(raw); s.types != 0 && s.types&got == 0 {
		return fmt.Errorf("%s is %s, expected %s", at, show(raw), typeNames(s.types))
	}
	if s.enum != nil && !slices.ContainsFunc(s.enum, func(e []byte) bool { return equalJSON(e, raw) }) {
		return fmt.Errorf("%s is %s, expected %s", at, show(raw), s.allowed())
	}
	switch raw[0] {
	case '{':
		return s.checkObject(at, raw)
	case '[':
		return s.checkArray(at, raw)
	case '"':
		text, _ := Text(raw)
		return s.checkSize(at, sizeText, int64(utf8.RuneCountInString(text)))
	case 't', 'f', 'n':
		return nil
	}
	return s.checkNumber(at, raw)
}

// typeOf returns the bits of the types that a value has.
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
	if n, ok := Number(raw); ok && n == math.Trunc(n) {
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

func (s *Schema) checkNumber(at string, raw []byte) error {
	if s.min == nil && s.max == nil {
		return nil
	}
	n, ok := Number(raw)
	switch {
	case !ok:
		return fmt.Errorf("%s is %s, which is out of range", at, show(raw))
	case s.min != nil && n < *s.min:
		return fmt.Errorf("%s is %s, expected at least %s", at, show(raw), decimal(*s.min))
	case s.max != nil && n > *s.max:
		return fmt.Errorf("%s is %s, expected at most %s", at, show(raw), decimal(*s.max))
	}
	return nil
}

func decimal(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }

func (s *Schema) checkSize(at string, what int, n int64) error {
	limit := s.size[what]
	switch {
	case limit == nil:
		return nil
	case n < limit.min:
		return fmt.Errorf("%s has %d %s, expected at least %d", at, n, sizeNames[what], limit.min)
	case limit.max >= 0 && n > limit.max:
		return fmt.Errorf("%s has %d %s, expected at most %d", at, n, sizeNames[what], limit.max)
	}
	return nil
}

func (s *Schema) checkArray(at string, raw []byte) (err error) {
	n := int64(0)
	elements(raw, func(element []byte) bool {
		if s.items != nil {
			err = s.items.check(fmt.Sprintf("%s[%d]", at, n), element)
		}
		n++
		return err == nil
	})
	if err != nil {
		return err
	}
	return s.checkSize(at, sizeItems, n)
}

func (s *Schema) checkObject(at string, raw []byte) (err error) {
	seen := make(map[string]bool, len(s.required))
	members(raw, func(key, value []byte) bool {
		name, _ := Text(key)
		seen[name] = true
		i, known := slices.BinarySearchFunc(s.members, name, func(m schemaMember, name string) int { return strings.Compare(m.name, name) })
		switch {
		case known:
			err = s.members[i].schema.check(memberAt(at, name), value)
		case s.closed:
			err = fmt.Errorf("%s is not allowed", memberAt(at, clip(name)))
		}
		return err == nil
	})
	for _, name := range s.required {
		if err == nil && !seen[name] {
			err = fmt.Errorf("%s is missing", memberAt(at, name))
		}
	}
	return err
}

// memberAt returns the path of a member.
func memberAt(at, name string) string {
	if name != "" && nameLen(name) == len(name) {
		return at + "." + name
	}
	return at + "[" + strconv.Quote(name) + "]"
}
