package pipeline

import (
	"errors"
	"slices"

	"github.com/floedb/floe/internal/document"
	"github.com/floedb/floe/internal/rawjson"
)

// mapper makes a new object from each record.
type mapper struct{ object *valueExpr }

func readMap(r *reader, o *Operator, n *document.Node, at string) {
	pairs := r.others(o, n, at, "fields")
	if len(pairs) == 0 {
		r.Fail(n.Line, "missing", "%s has no fields for the new object", at)
	}
	r.unique(pairs, at)
	o.private.spec = &mapper{r.object(pairs, at, r.value)}
}

// unique rejects a member that is both in fields and next to it.
func (r *reader) unique(pairs []document.Pair, at string) {
	seen := make(map[string]bool)
	for _, p := range pairs {
		if seen[p.Key] {
			r.Fail(p.Line, "duplicate-key", "%s sets %s twice", at, document.Quote(p.Key))
		}
		seen[p.Key] = true
	}
}

func (m *mapper) apply(w *worker, i int, it *item) error {
	value, err := m.object.append(w.room(len(it.Value)), it, &w.meter)
	if err != nil {
		return err
	}
	it.set(value)
	return w.made(i, it)
}

// setter sets members of a record's object.
type setter struct {
	names  []string
	values []*valueExpr
}

func readSet(r *reader, o *Operator, n *document.Node, at string) {
	pairs := r.others(o, n, at, "fields")
	if len(pairs) == 0 {
		r.Fail(n.Line, "missing", "%s has no fields to set", at)
	}
	r.unique(pairs, at)
	e := r.object(pairs, at, func(n *document.Node, at string) *valueExpr {
		if n.Kind != document.Text {
			return r.value(n, at)
		}
		text := n.Text
		if len(text) > 5 && text[:5] == "expr:" {
			text = text[5:]
		}
		return r.formula(n, at, text)
	})
	o.private.spec = &setter{e.keys, e.parts}
}

var errNoObject = errors.New("the value is no object, whose fields could be set")

func (s *setter) apply(w *worker, i int, it *item) error {
	if _, err := it.JSON(); err != nil {
		return err
	}
	var made [8][]byte
	values, size := made[:0], 0
	for j, e := range s.values {
		v, err := e.append(nil, it, &w.meter)
		if err != nil {
			return &fieldError{s.names[j], err}
		}
		if size += len(v); size > maxGrowth {
			return errGrowth
		}
		values = append(values, v)
	}
	b := append(w.room(len(it.Value)), '{')
	written := 0
	object := rawjson.EachMember(it.Value, func(key, value []byte) bool {
		j := slices.IndexFunc(s.names, func(name string) bool { return rawjson.IsText(key, name) })
		switch {
		case j < 0:
		case values[j] == nil: // another member with this name
			return true
		default:
			value, values[j] = values[j], nil
		}
		if written++; written > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, key...), ':'), value...)
		return true
	})
	if !object {
		return errNoObject
	}
	for j, v := range values {
		if v == nil {
			continue
		}
		if written++; written > 1 {
			b = append(b, ',')
		}
		b = append(append(rawjson.AppendText(b, s.names[j]), ':'), v...)
	}
	it.set(append(b, '}'))
	return w.made(i, it)
}

// fieldError is an error about a field.
type fieldError struct {
	field string
	err   error
}

func (e *fieldError) Error() string { return document.Clip(e.field) + ": " + e.err.Error() }
func (e *fieldError) Unwrap() error { return e.err }
