package flow

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/floedb/floe/internal/rawjson"
)

// Expr is a condition, compiled to operations of our own: what it says depends on nothing but the values that its paths lead to. Integers are int64, and what
// leaves their range is an error; other numbers are float64; strings are compared by their bytes; null equals only null.
type Expr struct {
	top term
}

// term is an operation with the terms that it is about, a literal, or a path.
type term struct {
	op    op
	args  []term
	whole int64
	float float64
	text  string
	path  *Path
}

// op is an operation. The numbers are part of the compiled form of definitions.
type op uint8

const (
	opNull op = iota + 1
	opTrue
	opFalse
	opInt
	opFloat
	opString
	opPath
	opNot
	opNegate
	opPlus // in front of a number
	opAnd
	opOr
	opAdd
	opSubtract
	opMultiply
	opDivide
	opModulo
	opEqual
	opDiffer
	opLess
	opLessEqual
	opGreater
	opGreaterEqual
	opIn
	opRange
	opContains
	opStartsWith
	opEndsWith
	opLen
	opMember // of an object by a string, of an array by an index
	opArray
	opIf
	opElse // ??: the second if the first is null
	opCount
)

// opNames are operations as they are written, with how many terms they are about; -1 is any number.
var opNames = [opCount]struct {
	name string
	args int
}{
	opNull: {"null", 0}, opTrue: {"true", 0}, opFalse: {"false", 0}, opInt: {"integer", 0}, opFloat: {"number", 0}, opString: {"string", 0}, opPath: {"path", 0},
	opNot: {"not", 1}, opNegate: {"-", 1}, opPlus: {"+", 1}, opAnd: {"and", 2}, opOr: {"or", 2},
	opAdd: {"+", 2}, opSubtract: {"-", 2}, opMultiply: {"*", 2}, opDivide: {"/", 2}, opModulo: {"%", 2},
	opEqual: {"==", 2}, opDiffer: {"!=", 2}, opLess: {"<", 2}, opLessEqual: {"<=", 2}, opGreater: {">", 2}, opGreaterEqual: {">=", 2},
	opIn: {"in", 2}, opRange: {"..", 2}, opContains: {"contains", 2}, opStartsWith: {"startsWith", 2}, opEndsWith: {"endsWith", 2},
	opLen: {"len", 1}, opMember: {"[]", 2}, opArray: {"array", -1}, opIf: {"?:", 3}, opElse: {"??", 2},
}

// Eval says whether the condition holds. Errors name the operator and the types that it can not be about.
func (e *Expr) Eval(s Source) (bool, error) {
	var paths []*Path
	m := machine{at: make(map[*Path]int)}
	e.top.paths(func(p *Path) {
		m.at[p] = len(paths)
		paths = append(paths, p)
	})
	m.resolver = newResolver(s, paths)
	v, err := m.eval(&e.top)
	if err != nil {
		return false, err
	}
	if v.kind != isBool {
		return false, fmt.Errorf("the condition is %s, expected true or false", a(v.kind))
	}
	return v.yes, nil
}

// a returns the name of a type with its article.
func a(k valueKind) string {
	switch name := k.String(); k {
	case isNull:
		return name
	case isArray, isObject, isList:
		return "an " + name
	default:
		return "a " + name
	}
}

// machine evaluates.
type machine struct {
	*resolver
	at      map[*Path]int // places of paths in the resolver
	touched int           // bytes
}

const (
	// maxTouched is how many bytes of values the operations of a condition may go over: one that compares a large input with itself hundreds of times
	// would hold up a shard.
	maxTouched = 64 << 20
	// comparing is how much more it costs to compare a value than to go over it.
	comparing = 16
)

// touch counts bytes that an operation goes over.
func (m *machine) touch(n int) error {
	if m.touched += n; m.touched > maxTouched {
		return fmt.Errorf("the condition goes over more than %d MiB of values", maxTouched>>20)
	}
	return nil
}

func (m *machine) eval(t *term) (value, error) {
	switch t.op {
	case opNull:
		return value{}, nil
	case opTrue, opFalse:
		return boolean(t.op == opTrue), nil
	case opInt:
		return value{kind: isInt, whole: t.whole}, nil
	case opFloat:
		return value{kind: isFloat, number: t.float}, nil
	case opString:
		return value{kind: isString, text: t.text}, nil
	case opPath:
		// The source may use its bytes again for the next path.
		raw := append([]byte(nil), m.value(m.at[t.path])...)
		if err := m.touch(len(raw)); err != nil {
			return value{}, err
		}
		return fromJSON(raw)
	case opAnd, opOr:
		return m.logic(t)
	case opIf:
		return m.choose(t)
	case opElse:
		v, err := m.eval(&t.args[0])
		if err != nil || v.kind != isNull {
			return v, err
		}
		return m.eval(&t.args[1])
	}
	return m.apply(t)
}

// logic is and and or, which leave the second term alone when the first decides.
func (m *machine) logic(t *term) (value, error) {
	for i := range t.args {
		yes, err := m.truth(&t.args[i], t.op)
		if err != nil || yes == (t.op == opOr) {
			return boolean(yes), err
		}
	}
	return boolean(t.op == opAnd), nil
}

func (m *machine) choose(t *term) (value, error) {
	yes, err := m.truth(&t.args[0], opIf)
	switch {
	case err != nil:
		return value{}, err
	case yes:
		return m.eval(&t.args[1])
	}
	return m.eval(&t.args[2])
}

// truth evaluates a term that has to be true or false for an operator.
func (m *machine) truth(t *term, of op) (bool, error) {
	v, err := m.eval(t)
	if err == nil && v.kind != isBool {
		err = mismatch(of, v)
	}
	return v.yes, err
}

// apply evaluates all terms of an operation, and then the operation.
func (m *machine) apply(t *term) (value, error) {
	if t.op == opArray {
		return m.array(t)
	}
	var args [2]value
	for i := range t.args {
		var err error
		if args[i], err = m.eval(&t.args[i]); err != nil {
			return value{}, err
		}
	}
	cost := args[0].bytes() + args[1].bytes()
	if t.op == opEqual || t.op == opDiffer || t.op == opIn {
		cost *= comparing
	}
	if err := m.touch(cost); err != nil {
		return value{}, err
	}
	if len(t.args) == 1 {
		return unary(t.op, args[0])
	}
	return binary(t.op, args[0], args[1])
}

func (m *machine) array(t *term) (value, error) {
	list := make([]value, len(t.args))
	for i := range t.args {
		var err error
		if list[i], err = m.eval(&t.args[i]); err != nil {
			return value{}, err
		}
	}
	return value{kind: isList, list: list}, nil
}

// mismatch is the error of an operator and types that do not go together.
func mismatch(o op, args ...value) error {
	names := make([]string, len(args))
	for i := range args {
		names[i] = args[i].kind.String()
	}
	return fmt.Errorf("%s does not go with %s", opNames[o].name, strings.Join(names, " and "))
}

func unary(o op, v value) (value, error) {
	switch {
	case o == opNot && v.kind == isBool:
		return boolean(!v.yes), nil
	case o == opLen:
		if n, ok := v.size(); ok {
			return value{kind: isInt, whole: n}, nil
		}
	case o == opPlus && v.isNumber():
		return v, nil
	case o == opNegate && v.kind == isFloat:
		return value{kind: isFloat, number: -v.number}, nil
	case o == opNegate && v.kind == isInt:
		if v.whole == math.MinInt64 {
			return value{}, errors.New("- of the smallest integer is out of range")
		}
		return value{kind: isInt, whole: -v.whole}, nil
	}
	return value{}, mismatch(o, v)
}

func binary(o op, x, y value) (value, error) {
	switch o {
	case opEqual, opDiffer:
		same, err := equal(x, y)
		return boolean(same == (o == opEqual)), err
	case opLess, opLessEqual, opGreater, opGreaterEqual:
		return compare(o, x, y)
	case opAdd, opSubtract, opMultiply, opDivide, opModulo:
		return arithmetic(o, x, y)
	case opIn:
		return in(x, y)
	case opRange:
		if x.kind == isInt && y.kind == isInt {
			return value{kind: isRange, whole: x.whole, last: y.whole}, nil
		}
	case opMember:
		return memberOf(x, y)
	case opContains, opStartsWith, opEndsWith:
		return search(o, x, y)
	}
	return value{}, mismatch(o, x, y)
}

func compare(o op, x, y value) (value, error) {
	var c int
	switch {
	case x.isNumber() && y.isNumber():
		c = compareNumbers(x, y)
	case x.kind == isString && y.kind == isString:
		c = order(x.text, y.text)
	default:
		return value{}, mismatch(o, x, y)
	}
	switch o {
	case opLess:
		return boolean(c < 0), nil
	case opLessEqual:
		return boolean(c <= 0), nil
	case opGreater:
		return boolean(c > 0), nil
	}
	return boolean(c >= 0), nil
}

// in looks for an element of an array, a member of an object, or an integer of a range.
func in(x, y value) (value, error) {
	switch y.kind {
	case isRange:
		if !x.isNumber() {
			return boolean(false), nil
		}
		whole := x.kind == isInt || x.number == math.Trunc(x.number)
		first, last := value{kind: isInt, whole: y.whole}, value{kind: isInt, whole: y.last}
		return boolean(whole && compareNumbers(x, first) >= 0 && compareNumbers(x, last) <= 0), nil
	case isObject:
		if x.kind != isString {
			return value{}, mismatch(opIn, x, y)
		}
		return boolean(rawjson.FindMember(y.raw, x.text) != nil), nil
	case isArray, isList:
		found := false
		err := y.each(func(e value) (bool, error) {
			var err error
			found, err = equal(x, e)
			return !found, err
		})
		return boolean(found), err
	}
	return value{}, mismatch(opIn, x, y)
}

// memberOf returns a part of a value, null if there is no such part. An index below zero counts from the end.
func memberOf(x, y value) (value, error) {
	switch {
	case x.kind == isNull && (y.kind == isString || y.kind == isInt):
		return value{}, nil
	case x.kind == isObject && y.kind == isString:
		return fromJSON(rawjson.FindMember(x.raw, y.text))
	case (x.kind == isArray || x.kind == isList) && y.kind == isInt:
		return element(x, y.whole)
	}
	return value{}, mismatch(opMember, x, y)
}

// element returns an element of an array.
func element(x value, at int64) (found value, err error) {
	if at < 0 {
		n, _ := x.size()
		at += n
	}
	i := int64(0)
	err = x.each(func(e value) (bool, error) {
		if i == at {
			found = e
		}
		i++
		return i <= at, nil
	})
	return found, err
}

func search(o op, x, y value) (value, error) {
	if x.kind != isString || y.kind != isString {
		return value{}, mismatch(o, x, y)
	}
	switch o {
	case opContains:
		return boolean(strings.Contains(x.text, y.text)), nil
	case opStartsWith:
		return boolean(strings.HasPrefix(x.text, y.text)), nil
	}
	return boolean(strings.HasSuffix(x.text, y.text)), nil
}
