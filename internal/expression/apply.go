package expression

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

var (
	errRange = errors.New("the number is out of the range of integers")
	errZero  = errors.New("division by zero")
)

// apply evaluates the terms of an operation, then the operation.
func (r *run) apply(t *term) (value, error) {
	var args [3]value
	cost := 0
	for i := range t.args {
		var err error
		if args[i], err = r.eval(&t.args[i]); err != nil {
			return value{}, err
		}
		if args[i].kind >= isString {
			cost += args[i].cost()
		}
	}
	if err := r.pay(cost); err != nil {
		return value{}, err
	}
	x, y := &args[0], &args[1]
	switch t.op {
	case opNot, opNegate, opPlus:
		return unary(t.op, x)
	case opEqual, opDiffer:
		same, err := r.equal(x, y)
		return boolean(same == (t.op == opEqual)), err
	case opLess, opLessEqual, opGreater, opGreaterEqual:
		return compare(t.op, x, y)
	case opAdd:
		if x.kind == isString && y.kind == isString {
			return text(x.text + y.text), r.make(len(x.text) + len(y.text))
		}
		return arithmetic(t.op, x, y)
	case opSubtract, opMultiply, opDivide, opModulo, opPower:
		return arithmetic(t.op, x, y)
	case opIn:
		return r.in(x, y)
	case opBetween:
		return between(args)
	case opMember:
		return r.memberOf(x, y)
	case opSlice:
		return r.slice(args)
	}
	if t.op == opMatches && x.kind == isString {
		// A step costs about as much as scanning 8 bytes. All steps are tried once more at the end
		// of the text.
		if err := r.pay(8 * t.steps * (len(x.text) + 1)); err != nil {
			return value{}, err
		}
	}
	return search(t, x, y)
}

func unary(o op, v *value) (value, error) {
	switch {
	case o == opNot && v.kind == isBool:
		return boolean(!v.yes()), nil
	case o == opPlus && v.number():
		return *v, nil
	case o == opNegate && v.kind == isFloat:
		return float(-v.float()), nil
	case o == opNegate && v.kind == isInt:
		if v.whole() == math.MinInt64 {
			return value{}, errors.New("- of the smallest integer is out of range")
		}
		return integer(-v.whole()), nil
	}
	return value{}, mismatch(names[o], *v)
}

func compare(o op, x, y *value) (value, error) {
	var c int
	switch {
	case x.number() && y.number():
		c = compareNumbers(x, y)
	case x.kind == isString && y.kind == isString:
		c = strings.Compare(x.text, y.text)
	default:
		return value{}, mismatch(names[o], *x, *y)
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

func arithmetic(o op, x, y *value) (value, error) {
	switch {
	case !x.number() || !y.number():
		return value{}, mismatch(names[o], *x, *y)
	case o == opModulo && x.kind == isInt && y.kind == isInt && y.whole() == 0:
		return value{}, errZero
	case o == opModulo && x.kind == isInt && y.kind == isInt:
		return integer(x.whole() % y.whole()), nil
	case o == opModulo:
		return value{}, errors.New("% needs integers")
	case o == opDivide || o == opPower || x.kind == isFloat || y.kind == isFloat:
		return floats(o, x.float(), y.float())
	}
	return integers(o, x.whole(), y.whole())
}

// floats converts each result explicitly, so that no processor fuses two operations.
func floats(o op, x, y float64) (value, error) {
	var n float64
	switch o {
	case opAdd:
		n = float64(x + y)
	case opSubtract:
		n = float64(x - y)
	case opMultiply:
		n = float64(x * y)
	case opPower:
		n = math.Pow(x, y)
	default:
		if y == 0 {
			return value{}, errZero
		}
		n = float64(x / y)
	}
	if math.IsInf(n, 0) || math.IsNaN(n) {
		return value{}, fmt.Errorf("the result of %s is out of range", names[o])
	}
	return float(n), nil
}

func integers(o op, x, y int64) (value, error) {
	var n int64
	fits := false
	switch o {
	case opAdd:
		n = x + y
		fits = (n > x) == (y > 0)
	case opSubtract:
		n = x - y
		fits = (n < x) == (y > 0)
	case opMultiply:
		n = x * y
		fits = x == 0 || n/x == y && !(x == -1 && y == math.MinInt64)
	}
	if !fits {
		return value{}, fmt.Errorf("%d %s %d is out of range", x, names[o], y)
	}
	return integer(n), nil
}

// in searches an array for an element, or an object for a member.
func (r *run) in(x, y *value) (value, error) {
	switch y.kind {
	case isObject:
		if x.kind != isString {
			return value{}, mismatch("in", *x, *y)
		}
		_, there := r.member(y, x.text)
		return boolean(there), nil
	case isArray, isList:
		found := false
		err := y.each(func(e value) (bool, error) {
			if err := r.pay(x.cost()); err != nil {
				return false, err
			}
			var err error
			found, err = r.equal(x, &e)
			return !found, err
		})
		return boolean(found), err
	case isNull:
		return boolean(false), nil
	}
	return value{}, mismatch("in", *x, *y)
}

// between evaluates x in a..b for integers.
func between(args [3]value) (value, error) {
	x, first, last := &args[0], &args[1], &args[2]
	if first.kind != isInt || last.kind != isInt {
		return value{}, mismatch("..", *first, *last)
	}
	if !x.number() {
		return boolean(false), nil
	}
	whole := x.kind == isInt || x.float() == math.Trunc(x.float())
	return boolean(whole && compareNumbers(x, first) >= 0 && compareNumbers(x, last) <= 0), nil
}

// memberOf returns an element or a member, null if it is missing. A negative index counts from the
// end.
func (r *run) memberOf(x, y *value) (value, error) {
	switch {
	case x.kind == isNull && (y.kind == isString || y.kind == isInt):
		return value{}, nil
	case x.kind == isObject && y.kind == isString:
		found, _ := r.member(x, y.text)
		return fromJSON(found)
	case x.array() && y.kind == isInt:
		return element(x, y.whole())
	}
	return value{}, mismatch("[]", *x, *y)
}

func element(x *value, at int64) (found value, err error) {
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

// slice evaluates x[from:to] for a string, by characters, or an array. Bounds beyond the ends are
// clipped.
func (r *run) slice(args [3]value) (value, error) {
	x, from, to := &args[0], &args[1], &args[2]
	n, ok := x.size()
	if !ok || x.kind == isObject || from.kind != isInt || to.kind != isInt && to.kind != isNull {
		return value{}, mismatch("[:]", *x, *from, *to)
	}
	first, last := bound(from.whole(), n), n
	if to.kind == isInt {
		last = bound(to.whole(), n)
	}
	last = max(first, last)
	if x.kind == isString {
		return text(runes(x.text, first, last)), nil
	}
	items, err := r.elements(x)
	if err != nil {
		return value{}, err
	}
	return value{kind: isList, list: items[first:last]}, nil
}

func bound(at, n int64) int64 {
	if at < 0 {
		at += n
	}
	return min(max(at, 0), n)
}

// runes returns the characters of a string from first to last.
func runes(s string, first, last int64) string {
	from := skip(s, first)
	return s[from : from+skip(s[from:], last-first)]
}

func skip(s string, n int64) (at int) {
	for ; n > 0; n-- {
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
	}
	return at
}

func search(t *term, x, y *value) (value, error) {
	if t.op == opMatches {
		if x.kind != isString {
			return value{}, mismatch("matches", *x, text(""))
		}
		return boolean(t.match.MatchString(x.text)), nil
	}
	if x.kind != isString || y.kind != isString {
		return value{}, mismatch(names[t.op], *x, *y)
	}
	switch t.op {
	case opContains:
		return boolean(strings.Contains(x.text, y.text)), nil
	case opStartsWith:
		return boolean(strings.HasPrefix(x.text, y.text)), nil
	}
	return boolean(strings.HasSuffix(x.text, y.text)), nil
}

// loop evaluates a function that applies a predicate to each element of an array.
func (r *run) loop(t *term) (value, error) {
	v, err := r.eval(&t.args[0])
	if err != nil {
		return value{}, err
	}
	if !v.array() {
		return value{}, mismatch(t.name, v)
	}
	if err := r.pay(v.cost()); err != nil {
		return value{}, err
	}
	r.items, r.index = append(r.items, value{}), append(r.index, 0)
	depth := len(r.items) - 1
	out, count, n := []value(nil), int64(0), int64(0)
	var sum = integer(0)
	done := value{kind: kinds}
	err = v.each(func(e value) (bool, error) {
		r.items[depth], r.index[depth] = e, n
		n++
		got, err := r.eval(&t.args[1])
		if err != nil {
			return false, err
		}
		switch t.name {
		case "map":
			out = append(out, got)
			return true, r.make(itemBytes + got.cost())
		case "sum":
			sum, err = arithmetic(opAdd, &sum, &got)
			return true, err
		}
		if got.kind != isBool {
			return false, fmt.Errorf("the predicate of %s is %s, expected true or false", t.name, article(got.kind))
		}
		if got.yes() {
			count++
		}
		switch {
		case t.name == "filter" && got.yes():
			out = append(out, e)
			return true, r.make(itemBytes + e.cost())
		case t.name == "find" && got.yes():
			done = e
		case t.name == "any" && got.yes(), t.name == "all" && !got.yes(), t.name == "none" && got.yes():
			done = boolean(t.name == "any")
		}
		return done.kind == kinds, nil
	})
	r.items, r.index = r.items[:depth], r.index[:depth]
	switch {
	case err != nil || done.kind != kinds:
		return done, err
	case t.name == "map" || t.name == "filter":
		return value{kind: isList, list: out}, nil
	case t.name == "sum":
		return sum, nil
	case t.name == "count":
		return integer(count), nil
	case t.name == "one":
		return boolean(count == 1), nil
	case t.name == "find":
		return value{}, nil
	}
	return boolean(t.name != "any"), nil
}
