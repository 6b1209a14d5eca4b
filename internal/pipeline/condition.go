package pipeline

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/floedb/floe/internal/document"
	"github.com/floedb/floe/internal/expression"
)

// condition is a condition of a filter or classifier. Short forms cannot fail; expressions can.
type condition func(it *item, m *expression.Meter) (bool, error)

// shortForms are the conditions other than expressions, by the prefix before the colon.
var shortForms = map[string]func(text string) (condition, error){
	"value_contains": about(func(it *item, s string) bool { return strings.Contains(stringOf(it.Value), s) }),
	"value_prefix":   about(func(it *item, s string) bool { return strings.HasPrefix(stringOf(it.Value), s) }),
	"key_contains":   about(func(it *item, s string) bool { return strings.Contains(stringOf(it.Key), s) }),
	"key_prefix":     about(func(it *item, s string) bool { return strings.HasPrefix(stringOf(it.Key), s) }),
	"key_equals":     about(func(it *item, s string) bool { return stringOf(it.Key) == s }),
	"min_length": func(text string) (condition, error) {
		n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31)
		if err != nil {
			return nil, fmt.Errorf("min_length is %s, expected a number of bytes", document.Quote(text))
		}
		return func(it *item, _ *expression.Meter) (bool, error) { return len(it.Value) >= int(n), nil }, nil
	},
	"json": jsonCondition,
	"expr": exprCondition,
}

var errWASM = errors.New("WebAssembly is not supported, write an expression")

const conditionForms = "expr:, value_contains:, value_prefix:, key_contains:, key_prefix:, key_equals:, min_length:, json:, not_empty " +
	"or key_not_empty"

func about(holds func(it *item, s string) bool) func(string) (condition, error) {
	return func(text string) (condition, error) {
		text = unquoted(strings.TrimPrefix(text, " "))
		if text == "" {
			return nil, errors.New("expected text after the colon")
		}
		return func(it *item, _ *expression.Meter) (bool, error) { return holds(it, text), nil }, nil
	}
}

// unquoted removes the quotes around a text, if there are any.
func unquoted(s string) string {
	if n := len(s); n >= 2 && (s[0] == '"' || s[0] == '\'') && s[n-1] == s[0] {
		return s[1 : n-1]
	}
	return s
}

// parseCondition parses a condition.
func parseCondition(text string) (condition, error) {
	text = strings.TrimSpace(text)
	switch text {
	case "not_empty":
		return func(it *item, _ *expression.Meter) (bool, error) { return len(it.Value) > 0, nil }, nil
	case "key_not_empty":
		return func(it *item, _ *expression.Meter) (bool, error) { return len(it.Key) > 0, nil }, nil
	}
	name, rest, colon := strings.Cut(text, ":")
	parse := shortForms[name]
	switch {
	case strings.HasPrefix(name, "wasm"):
		return nil, errWASM
	case !colon || parse == nil:
		return nil, fmt.Errorf("expected %s", conditionForms)
	}
	return parse(rest)
}

func exprCondition(text string) (condition, error) {
	f, err := expression.Condition(strings.TrimSpace(text))
	if err != nil {
		return nil, err
	}
	return func(it *item, m *expression.Meter) (bool, error) { return f.Bool(it, m) }, nil
}

// comparisons lists the operators of json:. An operator precedes its own prefixes.
var comparisons = []string{"!^=", "!*=", "!=", "^=", "*=", ">=", "<=", "==", "=", ">", "<"}

// jsonCondition parses <path><op><value>.
func jsonCondition(text string) (condition, error) {
	text = strings.TrimSpace(text)
	at, op := findComparison(text)
	if op == "" {
		return nil, errors.New("expected <path><op><value>, with one of = != ^= *= !^= !*= > >= < <=")
	}
	path, err := expression.ParsePath(strings.TrimSpace(text[:at]))
	if err != nil {
		return nil, err
	}
	want := strings.TrimSpace(text[at+len(op):])
	literal := unquoted(want)
	number, numeric := finite(want)
	negated := strings.HasPrefix(op, "!")
	holds := func(r gjson.Result) bool { return ordered(r, op, literal, number, numeric) }
	switch strings.TrimPrefix(op, "!") {
	case "=", "==":
		holds = func(r gjson.Result) bool { return equalsText(r, literal, number, numeric) != negated }
	case "^=":
		holds = func(r gjson.Result) bool {
			s, ok := textOf(r)
			return (ok && strings.HasPrefix(s, literal)) != negated
		}
	case "*=":
		holds = func(r gjson.Result) bool {
			s, ok := textOf(r)
			return (ok && strings.Contains(s, literal)) != negated
		}
	}
	return func(it *item, m *expression.Meter) (bool, error) {
		r, err := it.paidAt(&path, m)
		return err == nil && holds(r), err
	}, nil
}

// finite parses a number. It rejects NaN, which has no order.
func finite(text string) (float64, bool) {
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
}

// ambiguousText returns an error for a json: condition whose text looks like part of an expression.
// Such a text must be quoted.
func ambiguousText(text string) error {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), "json:")
	if !ok {
		return nil
	}
	rest = strings.TrimSpace(rest)
	at, op := findComparison(rest)
	want := strings.TrimSpace(rest[at+len(op):])
	if unquoted(want) != want {
		return nil
	}
	for _, sign := range []string{"=", ">", "<", "!"} {
		if strings.HasPrefix(want, sign) {
			return fmt.Errorf("unknown operator %s%s, expected one of = != ^= *= !^= !*= > >= < <=", op, sign)
		}
	}
	for _, sign := range []string{"&&", "||", " and ", " or "} {
		if strings.Contains(want, sign) {
			return fmt.Errorf("%s is part of the compared text: put the text in quotes, or write expr: for several conditions",
				strings.TrimSpace(sign))
		}
	}
	return nil
}

// findComparison finds the operator after a path. Quoted names in the path may contain operators.
func findComparison(text string) (at int, op string) {
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0 && c == '\\':
			i++
			continue
		case quote != 0:
			if c == quote {
				quote = 0
			}
			continue
		case c == '"' || c == '\'':
			quote = c
			continue
		}
		for _, o := range comparisons {
			if strings.HasPrefix(text[i:], o) {
				return i, o
			}
		}
	}
	return 0, ""
}

// equalsText reports whether a value equals a literal: numbers by value, other values by text.
func equalsText(r gjson.Result, literal string, number float64, numeric bool) bool {
	if r.Type == gjson.Number && numeric {
		return r.Num == number
	}
	if r.Type == gjson.Null {
		return r.Exists() && literal == "null"
	}
	s, _ := textOf(r)
	return s == literal
}

// ordered compares numbers with numbers, and strings with text.
func ordered(r gjson.Result, op, literal string, number float64, numeric bool) bool {
	c := 0
	switch {
	case r.Type == gjson.Number && numeric:
		c = order(r.Num, number)
	case r.Type == gjson.String && numeric:
		n, ok := finite(r.Str)
		if !ok {
			return false
		}
		c = order(n, number)
	case r.Type == gjson.String:
		c = strings.Compare(r.Str, literal)
	default:
		return false
	}
	switch op {
	case ">":
		return c > 0
	case ">=":
		return c >= 0
	case "<":
		return c < 0
	}
	return c <= 0
}

func order(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// condition reads a condition of a definition: text, or a table with one form such as {expr: amount
// > 100}.
func (r *reader) condition(v *condition) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		text := n.Text
		switch {
		case n.Kind == document.Table && len(n.Pairs) == 1 && n.Pairs[0].Value.Kind != document.Table &&
			n.Pairs[0].Value.Kind != document.List:
			text = n.Pairs[0].Key + ":" + n.Pairs[0].Value.Text
		case n.Kind != document.Text:
			r.Fail(n.Line, "wrong-type", "%s is %s, expected a condition: %s", at, n.Describe(), conditionForms)
			return
		}
		c, err := parseCondition(text)
		if err == nil && !r.stored {
			err = ambiguousText(text)
		}
		if err != nil {
			r.Fail(n.Line, "bad-condition", "%s is %s: %v", at, document.Quote(text), err)
			return
		}
		*v = c
	}
}
