package pipeline

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/floedb/floe/internal/document"
	"github.com/floedb/floe/internal/formula"
	"github.com/floedb/floe/internal/rawjson"
)

// expression is a value that is made of a record: what a path leads to, an expression, text with paths in it, a constant, or an object or array of such.
type expression struct {
	constant []byte // JSON
	path     *formula.Path
	formula  *formula.Formula
	template *template
	keys     []string // of an object, whose values are parts
	parts    []*expression
	list     bool
}

// append appends the value as JSON. What a path does not lead to is null. m bounds what it costs.
func (e *expression) append(dst []byte, it *item, m *formula.Meter) ([]byte, error) {
	switch {
	case e.path != nil:
		if _, err := it.JSON(); err != nil {
			return dst, err
		}
		r, err := it.paidAt(e.path, m)
		if err != nil {
			return dst, err
		}
		if r.Exists() {
			return append(dst, r.Raw...), nil
		}
		return append(dst, "null"...), nil
	case e.formula != nil:
		return e.formula.AppendJSON(dst, it, m)
	case e.template != nil:
		s, ok, err := e.template.of(it, m)
		if err != nil {
			return dst, err
		}
		if !ok {
			return append(dst, "null"...), nil
		}
		return rawjson.AppendText(dst, s), nil
	case e.list:
		return e.appendList(dst, it, m)
	case e.keys != nil:
		return e.appendObject(dst, it, m)
	}
	return append(dst, e.constant...), nil
}

func (e *expression) appendList(dst []byte, it *item, m *formula.Meter) (_ []byte, err error) {
	dst = append(dst, '[')
	for i, part := range e.parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = part.append(dst, it, m); err != nil {
			return dst, err
		}
		if len(dst) > maxGrowth {
			return dst, errGrowth
		}
	}
	return append(dst, ']'), nil
}

func (e *expression) appendObject(dst []byte, it *item, m *formula.Meter) (_ []byte, err error) {
	dst = append(dst, '{')
	for i, part := range e.parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = part.append(append(rawjson.AppendText(dst, e.keys[i]), ':'), it, m); err != nil {
			return dst, fmt.Errorf("%s: %w", document.Clip(e.keys[i]), err)
		}
		if len(dst) > maxGrowth { // each member may be as large as the record, and there may be thousands
			return dst, errGrowth
		}
	}
	return append(dst, '}'), nil
}

// text returns the value as text, if there is one.
func (e *expression) text(it *item, m *formula.Meter) (string, bool, error) {
	switch {
	case e.path != nil:
		s, ok := textOf(it.at(e.path))
		return s, ok, nil
	case e.template != nil:
		return e.template.keyOf(it, m)
	}
	raw, err := e.append(nil, it, m)
	if err != nil {
		return "", false, err
	}
	s, ok := textOf(gjson.ParseBytes(raw))
	return s, ok, nil
}

// keyExpression reads what a key is made of: a path, with or without $., text with ${paths}, or expr:.
func (r *reader) keyExpression(v **expression) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		if rest, ok := strings.CutPrefix(n.Text, "expr:"); ok && n.Kind == document.Text {
			*v = r.formula(n, at, rest)
			return
		}
		var t *template
		if r.templateOf(&t)(n, at); t != nil {
			*v = &expression{template: t}
			if len(t.parts) == 1 && t.parts[0].path != nil && t.parts[0].text == "" {
				*v = &expression{path: t.parts[0].path}
			}
		}
	}
}

func (r *reader) formula(n *document.Node, at, text string) *expression {
	f, err := formula.Compile(strings.TrimSpace(text))
	if err != nil {
		r.Fail(n.Line, "bad-expression", "%s is %s: %v", at, document.Quote(n.Text), err)
		return nil
	}
	return &expression{formula: f}
}

// value reads a value of a map: $.path, expr:, text with ${paths}, or a constant.
func (r *reader) value(n *document.Node, at string) *expression {
	switch n.Kind {
	case document.Null:
		return &expression{constant: []byte("null")}
	case document.Bool:
		return &expression{constant: []byte(strings.ToLower(n.Text))}
	case document.Number:
		return &expression{constant: []byte(n.Text)}
	case document.List:
		e := &expression{list: true}
		for i, item := range n.Items {
			e.parts = append(e.parts, r.value(item, fmt.Sprintf("%s[%d]", at, i)))
		}
		return e
	case document.Table:
		return r.object(n.Pairs, at, r.value)
	}
	switch {
	case n.Doubt != "":
		r.Warn(n.Line, "ambiguous", "%s is %s, which is text and not %s: put it in quotes", at, document.Clip(n.Text), n.Doubt)
	case strings.HasPrefix(n.Text, "expr:"):
		return r.formula(n, at, n.Text[len("expr:"):])
	case n.Text == "$" || strings.HasPrefix(n.Text, "$.") || strings.HasPrefix(n.Text, "$["):
		e := &expression{}
		r.path(&e.path)(n, at)
		return e
	case strings.Contains(n.Text, "${"):
		e := &expression{}
		r.templateOf(&e.template)(n, at)
		return e
	}
	return &expression{constant: rawjson.AppendText(nil, n.Text)}
}

// object reads the members of an object.
func (r *reader) object(pairs []document.Pair, at string, value func(n *document.Node, at string) *expression) *expression {
	e := &expression{keys: []string{}}
	for i := range pairs {
		p := &pairs[i]
		if i == maxFields {
			r.Fail(p.Line, "too-many", "%s has %d members, at most %d are allowed", at, len(pairs), maxFields)
			break
		}
		e.keys = append(e.keys, p.Key)
		e.parts = append(e.parts, value(p.Value, document.Under(at, p.Key)))
	}
	return e
}
