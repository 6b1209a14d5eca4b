package expression

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// function is a built-in function.
type function struct {
	name        string
	least, most int       // number of arguments; most -1: unlimited
	returns     valueKind // kinds: it depends
	takes       string    // a letter per argument, the last also for all further ones: s string, n number, a array, x any
	do          func(r *run, args []value) (value, error)
}

// functions lists all functions without predicates; those with predicates are loops. None depends
// on a clock. Arrays and objects are read in the order of the text.
var functions = []function{
	{"len", 1, 1, isInt, "x", func(r *run, a []value) (value, error) {
		if a[0].kind == isObject && r.last {
			all, err := r.members(&a[0])
			return integer(int64(len(all))), err
		}
		n, ok := a[0].size()
		if !ok {
			return value{}, wrong(a[0], "a string, array or object")
		}
		return integer(n), nil
	}},
	{"abs", 1, 1, kinds, "n", func(_ *run, a []value) (value, error) {
		if a[0].kind == isInt {
			if a[0].whole() < 0 {
				return unary(opNegate, &a[0])
			}
			return a[0], nil
		}
		return float(math.Abs(a[0].float())), nil
	}},
	{"ceil", 1, 1, kinds, "n", rounding(math.Ceil)},
	{"floor", 1, 1, kinds, "n", rounding(math.Floor)},
	{"round", 1, 1, kinds, "n", rounding(math.Round)},
	{"int", 1, 1, isInt, "x", func(_ *run, a []value) (value, error) { return toInt(a[0]) }},
	{"float", 1, 1, isFloat, "x", func(_ *run, a []value) (value, error) { return toFloat(a[0]) }},
	{"string", 1, 1, isString, "x", func(r *run, a []value) (value, error) {
		if a[0].kind == isString {
			return a[0], nil
		}
		b, err := a[0].appendJSON(nil)
		if err == nil {
			err = r.make(len(b))
		}
		return text(string(b)), err
	}},
	{"type", 1, 1, isString, "x", func(_ *run, a []value) (value, error) { return text(a[0].kind.String()), nil }},
	{"upper", 1, 1, isString, "s", making(strings.ToUpper)},
	{"lower", 1, 1, isString, "s", making(strings.ToLower)},
	{"trim", 1, 2, isString, "s", trimming(strings.TrimSpace, strings.Trim)},
	{"trimPrefix", 1, 2, isString, "s", trimming(nil, strings.TrimPrefix)},
	{"trimSuffix", 1, 2, isString, "s", trimming(nil, strings.TrimSuffix)},
	{"hasPrefix", 2, 2, isBool, "s", func(_ *run, a []value) (value, error) {
		return boolean(strings.HasPrefix(a[0].text, a[1].text)),
			nil
	}},
	{"hasSuffix", 2, 2, isBool, "s", func(_ *run, a []value) (value, error) {
		return boolean(strings.HasSuffix(a[0].text, a[1].text)),
			nil
	}},
	{"indexOf", 2, 2, isInt, "s", func(_ *run, a []value) (value, error) {
		return characters(a[0].text, strings.Index(a[0].text, a[1].text)), nil
	}},
	{"lastIndexOf", 2, 2, isInt, "s", func(_ *run, a []value) (value, error) {
		return characters(a[0].text, strings.LastIndex(a[0].text, a[1].text)), nil
	}},
	{"replace", 3, 3, isString, "s", func(r *run, a []value) (value, error) {
		n := strings.Count(a[0].text, a[1].text)
		if err := r.make(len(a[0].text) + n*len(a[2].text)); err != nil {
			return value{}, err
		}
		return text(strings.ReplaceAll(a[0].text, a[1].text, a[2].text)), nil
	}},
	{"split", 2, 2, isList, "s", func(r *run, a []value) (value, error) {
		if err := r.make((itemBytes + 16) * (1 + strings.Count(a[0].text, a[1].text))); err != nil {
			return value{}, err
		}
		var list []value
		for _, part := range strings.Split(a[0].text, a[1].text) {
			list = append(list, text(part))
		}
		return value{kind: isList, list: list}, nil
	}},
	{"join", 1, 2, isString, "as", func(r *run, a []value) (value, error) {
		var parts []string
		between, size := "", 0
		if len(a) == 2 {
			between = a[1].text
		}
		err := a[0].each(func(e value) (bool, error) {
			if e.kind != isString {
				return false, wrong(e, "an array of strings")
			}
			parts = append(parts, e.text)
			size = len(e.text) + len(between)
			return true, r.make(size)
		})
		return text(strings.Join(parts, between)), err
	}},
	{"min", 1, -1, kinds, "x", extreme(-1)},
	{"max", 1, -1, kinds, "x", extreme(1)},
	{"mean", 1, 1, isFloat, "a", func(_ *run, a []value) (value, error) {
		sum, n, err := total(a[0])
		if err == nil && n == 0 {
			err = errors.New("the array is empty")
		}
		if err != nil {
			return value{}, err
		}
		return float(sum.float() / float64(n)), nil
	}},
	{"first", 1, 1, kinds, "a", func(_ *run, a []value) (value, error) { return element(&a[0], 0) }},
	{"last", 1, 1, kinds, "a", func(_ *run, a []value) (value, error) { return element(&a[0], -1) }},
	{"keys", 1, 1, isList, "x", func(r *run, a []value) (value, error) { return parts(r, a[0], true) }},
	{"values", 1, 1, isList, "x", func(r *run, a []value) (value, error) { return parts(r, a[0], false) }},
}

// loops lists the functions with a predicate.
var loops = []string{"all", "any", "none", "one", "filter", "map", "count", "find", "sum"}

func wrong(v value, want string) error { return fmt.Errorf("%s, expected %s", article(v.kind), want) }

// characters returns the number of characters before an offset in a string, in the unit of slices
// and len; -1 for offset -1.
func characters(s string, at int) value {
	if at < 0 {
		return integer(-1)
	}
	return integer(int64(utf8.RuneCountInString(s[:at])))
}

// check returns an error if the arguments do not match the function.
func (f *function) check(args []value) error {
	for i := range args {
		v := &args[i]
		switch want := f.takes[min(i, len(f.takes)-1)]; {
		case want == 's' && v.kind != isString:
			return wrong(*v, "a string")
		case want == 'n' && !v.number():
			return wrong(*v, "a number")
		case want == 'a' && !v.array():
			return wrong(*v, "an array")
		}
	}
	return nil
}

func making(f func(string) string) func(*run, []value) (value, error) {
	return func(r *run, a []value) (value, error) {
		return text(f(a[0].text)), r.make(len(a[0].text))
	}
}

func trimming(space func(string) string, of func(s, cut string) string) func(*run, []value) (value, error) {
	return func(r *run, a []value) (value, error) {
		switch {
		case len(a) == 2:
			if space != nil { // each character may be compared with the whole second string
				if err := r.pay(len(a[0].text) * len(a[1].text)); err != nil {
					return value{}, err
				}
			}
			return text(of(a[0].text, a[1].text)), nil
		case space == nil:
			return a[0], nil
		}
		return text(space(a[0].text)), nil
	}
}

func rounding(f func(float64) float64) func(*run, []value) (value, error) {
	return func(_ *run, a []value) (value, error) {
		if a[0].kind == isInt {
			return a[0], nil
		}
		return float(f(a[0].float())), nil
	}
}

func toInt(v value) (value, error) {
	switch v.kind {
	case isInt:
		return v, nil
	case isFloat:
		if f := math.Trunc(v.float()); f >= -1<<63 && f < 1<<63 {
			return integer(int64(f)), nil
		}
		return value{}, errRange
	case isString:
		n, err := strconv.ParseInt(v.text, 10, 64)
		if err != nil {
			return value{}, errors.New("the string is no integer")
		}
		return integer(n), nil
	}
	return value{}, wrong(v, "a number or string")
}

func toFloat(v value) (value, error) {
	switch {
	case v.number():
		return float(v.float()), nil
	case v.kind == isString:
		f, err := strconv.ParseFloat(v.text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return value{}, errors.New("the string is no number")
		}
		return float(f), nil
	}
	return value{}, wrong(v, "a number or string")
}

// extreme returns the minimum or maximum of the arguments, or of an array.
func extreme(sign int) func(*run, []value) (value, error) {
	return func(_ *run, a []value) (value, error) {
		list := value{kind: isList, list: a}
		if len(a) == 1 && a[0].array() {
			list = a[0]
		}
		best := value{}
		err := list.each(func(e value) (bool, error) {
			switch {
			case !e.number():
				return false, wrong(e, "numbers")
			case best.kind == isNull || compareNumbers(&e, &best)*sign > 0:
				best = e
			}
			return true, nil
		})
		if err == nil && best.kind == isNull {
			err = errors.New("the array is empty")
		}
		return best, err
	}
}

func total(v value) (sum value, n int64, err error) {
	sum = integer(0)
	err = v.each(func(e value) (bool, error) {
		n++
		var err error
		sum, err = arithmetic(opAdd, &sum, &e)
		return true, err
	})
	return sum, n, err
}

// parts returns the keys or values of an object, in the order of the text.
func parts(r *run, v value, keys bool) (value, error) {
	if v.kind != isObject {
		return value{}, wrong(v, "an object")
	}
	var list []value
	var failed error
	gjson.Parse(v.text).ForEach(func(k, e gjson.Result) bool {
		if failed = r.make(itemBytes); failed != nil {
			return false
		}
		item := text(k.Str)
		if !keys {
			item, failed = fromJSON(e)
		}
		list = append(list, item)
		return failed == nil
	})
	return value{kind: isList, list: list}, failed
}
