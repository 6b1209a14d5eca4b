package pipeline

import (
	"errors"
	"fmt"
	"strings"

	"github.com/floedb/floe/internal/document"
	"github.com/floedb/floe/internal/expression"
)

// template is text with parts of the record: user:${$.id}. A template that is only a path is
// written $.id or id.
type template struct {
	parts []templatePart
	text  string
}

// templatePart is text followed by the value at a path.
type templatePart struct {
	text string
	path *expression.Path
	key  bool // use the record's key instead of a path
}

// parseTemplate parses a template.
func parseTemplate(text string) (*template, error) {
	t := &template{text: text}
	if !strings.Contains(text, "${") {
		p, err := expression.ParsePath(text)
		t.parts = []templatePart{{path: &p}}
		return t, err
	}
	for rest := text; rest != ""; {
		before, inside, found := strings.Cut(rest, "${")
		if !found {
			t.parts = append(t.parts, templatePart{text: before})
			break
		}
		path, after, closed := cutBrace(inside)
		if !closed {
			return nil, errors.New("expected } after ${")
		}
		if path == "key" {
			t.parts = append(t.parts, templatePart{text: before, key: true})
			rest = after
			continue
		}
		p, err := expression.ParsePath(path)
		if err != nil {
			return nil, fmt.Errorf("${%s}: %w", document.Clip(path), err)
		}
		t.parts = append(t.parts, templatePart{text: before, path: &p})
		rest = after
	}
	return t, nil
}

// cutBrace cuts at the } that ends a path. Quoted names in the path may contain other braces.
func cutBrace(s string) (path, after string, found bool) {
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && c == '}':
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// maxTemplateKey is the maximum length of a key made of several parts. It exceeds the limit of any
// key, so that the user of the key reports one that is slightly too long.
const maxTemplateKey = 64 << 10

var errTemplateKey = fmt.Errorf("the key is longer than %d bytes", maxTemplateKey)

// of returns the text for a record, and whether all parts exist. It fails if the text has several
// parts and exceeds the maximum size of a record.
func (t *template) of(it *item, m *expression.Meter) (string, bool, error) {
	return t.upTo(it, m, maxGrowth, errGrowth)
}

// keyOf is of for a key.
func (t *template) keyOf(it *item, m *expression.Meter) (string, bool, error) {
	return t.upTo(it, m, maxTemplateKey, errTemplateKey)
}

// upTo returns text of up to most bytes. Each part may be as large as the record, and a definition
// has room for thousands of parts.
func (t *template) upTo(it *item, m *expression.Meter, most int, larger error) (string, bool, error) {
	if len(t.parts) == 1 && t.parts[0].text == "" {
		return t.parts[0].of(it, m)
	}
	var b strings.Builder
	for i := range t.parts {
		s, ok, err := t.parts[i].of(it, m)
		if !ok || err != nil {
			return "", false, err
		}
		if b.Len()+len(t.parts[i].text)+len(s) > most {
			return "", false, larger
		}
		b.WriteString(t.parts[i].text)
		b.WriteString(s)
	}
	return b.String(), true, nil
}

// of returns the value of a part's path.
func (p *templatePart) of(it *item, m *expression.Meter) (string, bool, error) {
	switch {
	case p.key:
		return stringOf(it.Key), true, nil
	case p.path == nil:
		return "", true, nil
	}
	r, err := it.paidAt(p.path, m)
	if err != nil {
		return "", false, err
	}
	s, ok := textOf(r)
	return s, ok, nil
}

// templateOf reads a template of a definition.
func (r *reader) templateOf(v **template) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		text := ""
		if r.Text(&text)(n, at); n.Kind != document.Text {
			return
		}
		t, err := parseTemplate(text)
		if err != nil {
			r.Fail(n.Line, "bad-path", "%s is %s: %v", at, document.Quote(text), err)
			return
		}
		*v = t
	}
}

// path reads a path of a definition.
func (r *reader) path(v **expression.Path) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		text := ""
		if r.Text(&text)(n, at); n.Kind != document.Text {
			return
		}
		p, err := expression.ParsePath(text)
		if err != nil {
			r.Fail(n.Line, "bad-path", "%s is %s: %v", at, document.Quote(text), err)
			return
		}
		*v = &p
	}
}
