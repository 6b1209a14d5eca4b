package expression

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/floedb/floe/internal/document"
	"github.com/floedb/floe/internal/rawjson"
)

// valueKind is the type of a value.
type valueKind uint8

const (
	isNull valueKind = iota
	isBool
	isInt
	isFloat
	isString
	isArray // JSON
	isObject
	isList // an array created by the expression
	kinds
)

func (k valueKind) String() string {
	return [...]string{"null", "boolean", "number", "number", "string", "array", "object", "array"}[k]
}

// value is a value of an expression: a scalar, the JSON of an array or object, or a list.
type value struct {
	kind valueKind
	bits uint64  // of a boolean, integer or float
	text string  // of a string; JSON of an array or object
	list []value // of a list
}

func boolean(yes bool) value {
	if yes {
		return value{kind: isBool, bits: 1}
	}
	return value{kind: isBool}
}

func integer(n int64) value   { return value{kind: isInt, bits: uint64(n)} }
func float(f float64) value   { return value{kind: isFloat, bits: math.Float64bits(f)} }
func text(s string) value     { return value{kind: isString, text: s} }
func (v *value) yes() bool    { return v.bits != 0 }
func (v *value) whole() int64 { return int64(v.bits) }
func (v *value) number() bool { return v.kind == isInt || v.kind == isFloat }
func (v *value) array() bool  { return v.kind == isArray || v.kind == isList }

// float returns a number as a float64.
func (v *value) float() float64 {
	if v.kind == isInt {
		return float64(v.whole())
	}
	return math.Float64frombits(v.bits)
}

// fromJSON converts a part of valid JSON to a value.
func fromJSON(r gjson.Result) (value, error) {
	switch r.Type {
	case gjson.Null:
		return value{}, nil
	case gjson.True, gjson.False:
		return boolean(r.Type == gjson.True), nil
	case gjson.String:
		return text(r.Str), nil
	case gjson.Number:
		return fromNumber(r)
	}
	if strings.HasPrefix(r.Raw, "[") {
		return value{kind: isArray, text: r.Raw}, nil
	}
	return value{kind: isObject, text: r.Raw}, nil
}

func fromNumber(r gjson.Result) (value, error) {
	if n, err := strconv.ParseInt(r.Raw, 10, 64); err == nil {
		return integer(n), nil
	}
	f, err := strconv.ParseFloat(r.Raw, 64)
	if err != nil {
		return value{}, fmt.Errorf("number %s is out of range", document.Clip(r.Raw))
	}
	return float(f), nil
}

// appendJSON appends a value as JSON.
func (v *value) appendJSON(dst []byte) ([]byte, error) {
	switch v.kind {
	case isNull:
		return append(dst, "null"...), nil
	case isBool:
		return strconv.AppendBool(dst, v.yes()), nil
	case isInt:
		return strconv.AppendInt(dst, v.whole(), 10), nil
	case isFloat:
		return AppendFloat(dst, v.float())
	case isString:
		return rawjson.AppendText(dst, v.text), nil
	case isList:
		dst = append(dst, '[')
		for i := range v.list {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = v.list[i].appendJSON(dst); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	}
	return append(dst, v.text...), nil
}

var errNumber = errors.New("the outcome is no number that JSON has: it is infinite or undefined")

// AppendFloat appends a number as JSON, with the fewest digits that identify it, and without a
// fraction if it is whole. It fails if the number is not finite.
func AppendFloat(dst []byte, f float64) ([]byte, error) {
	switch magnitude := math.Abs(f); {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return dst, errNumber
	case f == 0:
		return append(dst, '0'), nil
	case magnitude >= 1e-6 && magnitude < 1e21:
		return strconv.AppendFloat(dst, f, 'f', -1, 64), nil
	}
	return strconv.AppendFloat(dst, f, 'e', -1, 64), nil
}

// size returns the result of len: characters, elements or members.
func (v *value) size() (int64, bool) {
	n := int64(0)
	switch v.kind {
	case isString:
		return int64(utf8.RuneCountInString(v.text)), true
	case isList:
		return int64(len(v.list)), true
	case isArray, isObject:
		gjson.Parse(v.text).ForEach(func(_, _ gjson.Result) bool { n++; return true })
		return n, true
	}
	return 0, false
}

// cost returns the number of bytes to scan for a value.
func (v *value) cost() int {
	n := len(v.text)
	for i := range v.list {
		n += 16 + v.list[i].cost()
	}
	return n
}

// each calls yield for each element of an array, until it returns false or an error.
func (v *value) each(yield func(e value) (bool, error)) error {
	for i := range v.list {
		if more, err := yield(v.list[i]); err != nil || !more {
			return err
		}
	}
	var failed error
	if v.kind == isArray {
		gjson.Parse(v.text).ForEach(func(_, r gjson.Result) bool {
			e, err := fromJSON(r)
			more := err == nil
			if more {
				more, err = yield(e)
			}
			failed = err
			return more && err == nil
		})
	}
	return failed
}

// Memory of elements and members that are extracted from their JSON.
const (
	itemBytes   = int(unsafe.Sizeof(value{}))
	memberBytes = int(unsafe.Sizeof(gjson.Result{})) + 32
)

// elements returns the elements of an array.
func (r *run) elements(v *value) (list []value, err error) {
	if v.kind == isList {
		return v.list, nil
	}
	if err := r.pay(len(v.text)); err != nil {
		return nil, err
	}
	err = v.each(func(e value) (bool, error) {
		list = append(list, e)
		return true, r.make(itemBytes)
	})
	return list, err
}

// member looks up a member of an object. If the name is repeated, it returns the member that a path
// would: the last one if r.last is set, otherwise the first.
func (r *run) member(v *value, name string) (found gjson.Result, ok bool) {
	gjson.Parse(v.text).ForEach(func(k, m gjson.Result) bool {
		if k.Str == name {
			found, ok = m, true
		}
		return !ok || r.last
	})
	return found, ok
}
