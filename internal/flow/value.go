package flow

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/floedb/floe/internal/document"
	"github.com/floedb/floe/internal/rawjson"
)

// valueKind is the type of a value in an expression.
type valueKind uint8

const (
	isNull valueKind = iota
	isBool
	isInt
	isFloat
	isString
	isArray
	isObject
	isList // an array that is written in the expression
	isRange
)

func (k valueKind) String() string {
	return [...]string{"null", "boolean", "number", "number", "string", "array", "object", "array", "range"}[k]
}

// value is what an expression computes with: a scalar, or the raw JSON of an array or object.
type value struct {
	kind   valueKind
	yes    bool
	whole  int64 // isInt, and where isRange begins
	last   int64 // of isRange
	number float64
	text   string
	raw    []byte
	list   []value
}

// fromJSON returns the value that valid JSON stands for: whole numbers that an int64 holds are integers. Nothing is null.
func fromJSON(raw []byte) (value, error) {
	if len(raw) == 0 {
		return value{}, nil
	}
	switch raw[0] {
	case 'n':
		return value{}, nil
	case 't', 'f':
		return value{kind: isBool, yes: raw[0] == 't'}, nil
	case '"':
		s, _ := rawjson.Text(raw)
		return value{kind: isString, text: s}, nil
	case '[':
		return value{kind: isArray, raw: raw}, nil
	case '{':
		return value{kind: isObject, raw: raw}, nil
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return value{kind: isInt, whole: n}, nil
	}
	n, ok := rawjson.Number(raw)
	if !ok {
		return value{}, fmt.Errorf("number %s is out of range", document.Clip(string(raw)))
	}
	return value{kind: isFloat, number: n}, nil
}

func boolean(yes bool) value { return value{kind: isBool, yes: yes} }

func (v *value) isNumber() bool { return v.kind == isInt || v.kind == isFloat }

// float returns a number as a float64.
func (v *value) float() float64 {
	if v.kind == isInt {
		return float64(v.whole)
	}
	return v.number
}

// size is what len returns.
func (v *value) size() (int64, bool) {
	n := int64(0)
	switch v.kind {
	case isString:
		return int64(utf8.RuneCountInString(v.text)), true
	case isList:
		return int64(len(v.list)), true
	case isArray:
		rawjson.EachElement(v.raw, func([]byte) bool { n++; return true })
		return n, true
	case isObject:
		return int64(len(table(v.raw))), true
	}
	return 0, false
}

// table returns the members of an object. Of several with the same name the last one counts.
func table(raw []byte) map[string][]byte {
	t := make(map[string][]byte)
	rawjson.EachMember(raw, func(key, value []byte) bool {
		name, _ := rawjson.Text(key)
		t[name] = value
		return true
	})
	return t
}

// equal compares as == does: values of different types differ, numbers are equal by value, arrays and objects by what they hold.
func equal(a, b value) (bool, error) {
	switch {
	case a.isNumber() && b.isNumber():
		return compareNumbers(a, b) == 0, nil
	case a.kind == isList || b.kind == isList:
		return equalLists(a, b)
	case a.kind != b.kind:
		return false, nil
	}
	switch a.kind {
	case isBool:
		return a.yes == b.yes, nil
	case isString:
		return a.text == b.text, nil
	case isArray:
		return equalLists(a, b)
	case isObject:
		return equalObjects(a, b)
	}
	return a.kind == isNull, nil
}

// each calls yield for the elements of an array, until it returns false or an error.
func (v *value) each(yield func(e value) (bool, error)) error {
	for i := range v.list {
		if more, err := yield(v.list[i]); err != nil || !more {
			return err
		}
	}
	var failed error
	if v.kind == isArray {
		rawjson.EachElement(v.raw, func(raw []byte) bool {
			e, err := fromJSON(raw)
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

// items returns the elements of an array.
func (v *value) items() (list []value, err error) {
	if v.kind == isList {
		return v.list, nil
	}
	err = v.each(func(e value) (bool, error) {
		list = append(list, e)
		return true, nil
	})
	return list, err
}

func (v *value) isArray() bool { return v.kind == isArray || v.kind == isList }

// bytes returns how many bytes of JSON or text a value has.
func (v *value) bytes() int { return len(v.raw) + len(v.text) }

func equalLists(a, b value) (bool, error) {
	switch {
	case !a.isArray() || !b.isArray():
		return false, nil
	case a.bytes() > b.bytes(): // the shorter one is taken apart, the longer one only as far as they are the same
		a, b = b, a
	}
	as, err := a.items()
	if err != nil {
		return false, err
	}
	i, same := 0, true
	err = b.each(func(e value) (bool, error) {
		var err error
		if i == len(as) {
			same = false
		} else {
			same, err = equal(as[i], e)
		}
		i++
		return same, err
	})
	return same && i == len(as), err
}

func equalObjects(a, b value) (bool, error) {
	if a.bytes() > b.bytes() {
		a, b = b, a
	}
	as, bs := table(a.raw), make(map[string][]byte)
	rawjson.EachMember(b.raw, func(key, value []byte) bool {
		name := rawjson.TextOf(key)
		bs[name] = value
		return as[name] != nil
	})
	if len(as) != len(bs) {
		return false, nil
	}
	// Each of the members has to be equal, so which of them is compared first decides only where to stop; numbers that are out of range differ from all.
	for name, x := range as {
		if y := bs[name]; y == nil || !equalJSON(x, y) {
			return false, nil
		}
	}
	return true, nil
}

// equalJSON compares two valid values of JSON.
func equalJSON(x, y []byte) bool {
	a, err := fromJSON(x)
	if err != nil {
		return bytes.Equal(x, y)
	}
	b, err := fromJSON(y)
	if err != nil {
		return false
	}
	same, err := equal(a, b)
	return err == nil && same
}

// compareNumbers orders two numbers by their value: as integers if both are, exactly otherwise too.
func compareNumbers(a, b value) int {
	switch {
	case a.kind == isInt && b.kind == isInt:
		return order(a.whole, b.whole)
	case a.kind == isInt:
		return -compareMixed(b.number, a.whole)
	case b.kind == isInt:
		return compareMixed(a.number, b.whole)
	}
	return order(a.number, b.number)
}

// compareMixed orders a float and an integer without rounding the integer.
func compareMixed(f float64, n int64) int {
	const beyond = 1 << 63
	switch {
	case f >= beyond:
		return 1
	case f < -beyond:
		return -1
	}
	whole := math.Trunc(f)
	if c := order(int64(whole), n); c != 0 {
		return c
	}
	return order(f, whole)
}

func order[T int64 | float64 | string](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
