package pipeline

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/floedb/floe/internal/document"
	"github.com/floedb/floe/internal/expression"
	"github.com/floedb/floe/internal/rawjson"
)

// valueExpr is a value computed from a record: a path, an expression, text with paths, a constant,
// or an object or array of such values.
type valueExpr struct {
	constant []byte // JSON
	path     *expression.Path
	compiled *expression.Expr
	template *template
	keys     []string // of an object, whose values are parts
	parts    []*valueExpr
	list     bool
}

// append appends the value as JSON. A missing value is null. m bounds the cost.
func (e *valueExpr) append(dst []byte, it *item, m *expression.Meter) ([]byte, error) {
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
	case e.compiled != nil:
		return e.compiled.AppendJSON(dst, it, m)
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

func (e *valueExpr) appendList(dst []byte, it *item, m *expression.Meter) (_ []byte, err error) {
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

func (e *valueExpr) appendObject(dst []byte, it *item, m *expression.Meter) (_ []byte, err error) {
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

// text returns the value as text. ok is false if there is no value.
func (e *valueExpr) text(it *item, m *expression.Meter) (string, bool, error) {
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

// keyExpression reads the expression of a key: a path with or without $., text with ${paths}, or
// expr:.
func (r *reader) keyExpression(v **valueExpr) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		if rest, ok := strings.CutPrefix(n.Text, "expr:"); ok && n.Kind == document.Text {
			*v = r.formula(n, at, rest)
			return
		}
		var t *template
		if r.templateOf(&t)(n, at); t != nil {
			*v = &valueExpr{template: t}
			if len(t.parts) == 1 && t.parts[0].path != nil && t.parts[0].text == "" {
				*v = &valueExpr{path: t.parts[0].path}
			}
		}
	}
}

func (r *reader) formula(n *document.Node, at, text string) *valueExpr {
	f, err := expression.Compile(strings.TrimSpace(text))
	if err != nil {
		r.Fail(n.Line, "bad-expression", "%s is %s: %v", at, document.Quote(n.Text), err)
		return nil
	}
	return &valueExpr{compiled: f}
}

// value reads a value of a map: $.path, expr:, text with ${paths}, or a constant.
func (r *reader) value(n *document.Node, at string) *valueExpr {
	switch n.Kind {
	case document.Null:
		return &valueExpr{constant: []byte("null")}
	case document.Bool:
		return &valueExpr{constant: []byte(strings.ToLower(n.Text))}
	case document.Number:
		return &valueExpr{constant: []byte(n.Text)}
	case document.List:
		e := &valueExpr{list: true}
		for i, item := range n.Items {
			e.parts = append(e.parts, r.value(item, fmt.Sprintf("%s[%d]", at, i)))
		}
		return e
	case document.Table:
		return r.object(n.Pairs, at, r.value)
	}
	switch {
	case n.Ambiguous != "":
		r.Warn(n.Line, "ambiguous", "%s is %s, which is text, not %s: put it in quotes", at, document.Clip(n.Text), n.Ambiguous)
	case strings.HasPrefix(n.Text, "expr:"):
		return r.formula(n, at, n.Text[len("expr:"):])
	case n.Text == "$" || strings.HasPrefix(n.Text, "$.") || strings.HasPrefix(n.Text, "$["):
		e := &valueExpr{}
		r.path(&e.path)(n, at)
		return e
	case strings.Contains(n.Text, "${"):
		e := &valueExpr{}
		r.templateOf(&e.template)(n, at)
		return e
	}
	return &valueExpr{constant: rawjson.AppendText(nil, n.Text)}
}

// object reads the members of an object.
func (r *reader) object(pairs []document.Pair, at string, value func(n *document.Node, at string) *valueExpr) *valueExpr {
	e := &valueExpr{keys: []string{}}
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
