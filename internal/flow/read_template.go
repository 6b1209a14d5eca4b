package flow

import (
	"strings"

	"github.com/floedb/floe/internal/document"
	"github.com/floedb/floe/internal/rawjson"
)

// mapping reads a template: a value in which strings may be paths, or JSON in text. With strict,
// text must be JSON.
func (r *reader) mapping(v **Template, rules pathRules, strict bool) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		if r.Told("template") {
			return
		}
		if n.Kind == document.Text && !isPath(n.Text) {
			inner := document.ReadText(n, r.Report)
			switch {
			case inner != nil && (strict || inner.Kind == document.Table || inner.Kind == document.List):
				n = inner
			case strict && inner == nil:
				r.Fail(n.Line, "bad-json", "%s is %s, expected JSON or a path", at, document.Quote(n.Text))
				return
			}
		}
		*v = r.compile(n, at, rules)
	}
}

// isPath reports whether a string of a template is a path.
func isPath(s string) bool { return strings.HasPrefix(s, "$.") || strings.HasPrefix(s, "$[") }

// compile compiles a node to a template.
func (r *reader) compile(n *document.Node, at string, rules pathRules) *Template {
	var b builder
	paths := 0
	r.render(&b, n, at, func(text string, line int, at string) *Path {
		if paths++; paths == maxPaths+1 {
			r.Fail(line, "too-many", "%s has more than %d paths", at, maxPaths)
		}
		return r.pathOf(text, line, at, rules)
	})
	return &Template{parts: b.done()}
}

// render writes a node as JSON. path compiles a string to a path, or reports that it is invalid; if
// path is nil, all text is literal.
func (r *reader) render(b *builder, n *document.Node, at string, path func(text string, line int, at string) *Path) {
	switch n.Kind {
	case document.Null:
		b.literal = append(b.literal, "null"...)
	case document.Bool:
		b.literal = append(b.literal, strings.ToLower(n.Text)...)
	case document.Number:
		b.literal = append(b.literal, n.Text...)
	case document.Text:
		r.renderText(b, n, at, path)
	case document.List:
		b.literal = append(b.literal, '[')
		for i, item := range n.Items {
			if i > 0 {
				b.literal = append(b.literal, ',')
			}
			r.render(b, item, at, path)
		}
		b.literal = append(b.literal, ']')
	case document.Table:
		b.literal = append(b.literal, '{')
		for i := range n.Pairs {
			p := &n.Pairs[i]
			if i > 0 {
				b.literal = append(b.literal, ',')
			}
			b.literal = append(rawjson.AppendText(b.literal, p.Key), ':')
			r.render(b, p.Value, document.Under(at, p.Key), path)
		}
		b.literal = append(b.literal, '}')
	}
}

func (r *reader) renderText(b *builder, n *document.Node, at string, path func(text string, line int, at string) *Path) {
	switch n.Ambiguous {
	case "a number":
		r.Fail(n.Line, "ambiguous", "%s is %s, which is not a JSON number: write it in decimal, or in quotes if it is text", at,
			document.Clip(n.Text))
	case "a boolean":
		r.Warn(n.Line, "ambiguous", "%s is %s, which is text, not a boolean: write true or false, or put it in quotes", at, n.Text)
	}
	if path != nil && isPath(n.Text) {
		if p := path(n.Text, n.Line, at); p != nil {
			b.path(p)
		}
		return
	}
	b.literal = rawjson.AppendText(b.literal, n.Text)
}

// literal reads a value as JSON. Text may also be JSON.
func (r *reader) literal(v *[]byte) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		if r.Told("JSON; default `%s`", *v) {
			return
		}
		if n.Kind == document.Text {
			inner := document.ReadText(n, r.Report)
			if inner == nil {
				r.Fail(n.Line, "bad-json", "%s is %s, expected JSON", at, document.Quote(n.Text))
				return
			}
			n = inner
		}
		var b builder
		r.render(&b, n, at, nil)
		*v = b.literal
	}
}

// path reads a path.
func (r *reader) path(v **Path, rules pathRules) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		if r.Told("path") {
			return
		}
		text := ""
		if r.Text(&text)(n, at); n.Kind == document.Text {
			*v = r.pathOf(text, n.Line, at, rules)
		}
	}
}

// pathOf compiles a path; nil if it is invalid.
func (r *reader) pathOf(text string, line int, at string, rules pathRules) *Path {
	p, err := parsePath(text, rules)
	if err != nil {
		r.Fail(line, "bad-path", "%s: path %s: %v", at, document.Quote(text), err)
		return nil
	}
	r.uses(&p, line, at)
	return &p
}

// uses records the step that a path refers to. The step may follow later in the document.
func (r *reader) uses(p *Path, line int, at string) {
	if p.root != RootOutput && p.root != RootOutcome {
		return
	}
	p.name = r.stepName(p.name)
	r.steps = append(r.steps, stepUse{p.name, at, line})
}

// stepName returns a step's name: start is an alias of the start step.
func (r *reader) stepName(name string) string {
	if _, own := r.places[name]; name == "start" && !own {
		return StartStep
	}
	return name
}

// keyTemplate reads text with paths in braces.
func (r *reader) keyTemplate(v *KeyTemplate) func(*document.Node, string) {
	return func(n *document.Node, at string) {
		if r.Told("text with paths in braces, at most %d bytes", maxKey) {
			return
		}
		text := ""
		if r.Text(&text)(n, at); n.Kind != document.Text {
			return
		}
		if text == "" || len(text) > maxKey {
			r.Fail(n.Line, "bad-value", "%s has %d bytes, expected 1 to %d", at, len(text), maxKey)
			return
		}
		var b builder
		for rest := text; rest != ""; {
			open := strings.IndexAny(rest, "{}")
			if open < 0 {
				b.literal = append(b.literal, rest...)
				break
			}
			end := strings.IndexByte(rest[open:], '}')
			if end <= 0 {
				r.Fail(n.Line, "bad-value", "%s is %s, which has unbalanced braces", at, document.Quote(text))
				return
			}
			b.literal = append(b.literal, rest[:open]...)
			if p := r.pathOf(rest[open+1:open+end], n.Line, at, pathRules{bare: true, own: true}); p != nil {
				b.path(p)
			}
			rest = rest[open+end+1:]
		}
		if v.parts = b.done(); len(v.parts) > maxPaths {
			r.Fail(n.Line, "too-many", "%s has more than %d paths", at, maxPaths)
		}
	}
}
