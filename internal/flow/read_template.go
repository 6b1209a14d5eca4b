package flow

import "strings"

// mapping reads a template: a value in which strings may be paths, which may also be JSON in text. If text has to be JSON, other text is a problem.
func (r *reader) mapping(v **Template, rules pathRules, strict bool) func(*node, string) {
	return func(n *node, at string) {
		if n.kind == nodeText && !isPath(n.text) {
			inner := r.jsonIn(n)
			switch {
			case inner != nil && (strict || inner.kind == nodeTable || inner.kind == nodeList):
				n = inner
			case strict && inner == nil:
				r.fail(n.line, "bad-json", "%s is %s, expected JSON or a path", at, quote(n.text))
				return
			}
		}
		*v = r.compile(n, at, rules)
	}
}

// jsonIn reads the JSON that a text is, nil if it is none.
func (r *reader) jsonIn(n *node) *node {
	if !Valid([]byte(n.text)) {
		return nil
	}
	j := jsonReader{report: r.report, src: []byte(n.text), line: n.line}
	return j.value(0)
}

// isPath says whether a string of a template is a path.
func isPath(s string) bool { return strings.HasPrefix(s, "$.") || strings.HasPrefix(s, "$[") }

// compile makes a template of a node.
func (r *reader) compile(n *node, at string, rules pathRules) *Template {
	var b builder
	paths := 0
	r.render(&b, n, at, func(text string, line int, at string) *Path {
		if paths++; paths == maxPaths+1 {
			r.fail(line, "too-many", "%s has more than %d paths", at, maxPaths)
		}
		return r.pathOf(text, line, at, rules)
	})
	return &Template{parts: b.done()}
}

// render writes a node as JSON. Path makes a path of text, or says that it is none; without it all text is literal.
func (r *reader) render(b *builder, n *node, at string, path func(text string, line int, at string) *Path) {
	switch n.kind {
	case nodeNull:
		b.literal = append(b.literal, "null"...)
	case nodeBool:
		b.literal = append(b.literal, strings.ToLower(n.text)...)
	case nodeNumber:
		b.literal = append(b.literal, n.text...)
	case nodeText:
		r.renderText(b, n, at, path)
	case nodeList:
		b.literal = append(b.literal, '[')
		for i, item := range n.items {
			if i > 0 {
				b.literal = append(b.literal, ',')
			}
			r.render(b, item, at, path)
		}
		b.literal = append(b.literal, ']')
	case nodeTable:
		b.literal = append(b.literal, '{')
		for i := range n.pairs {
			p := &n.pairs[i]
			if i > 0 {
				b.literal = append(b.literal, ',')
			}
			b.literal = append(AppendText(b.literal, p.key), ':')
			r.render(b, p.value, under(at, p.key), path)
		}
		b.literal = append(b.literal, '}')
	}
}

func (r *reader) renderText(b *builder, n *node, at string, path func(text string, line int, at string) *Path) {
	switch n.doubt {
	case "a number":
		r.fail(n.line, "ambiguous", "%s is %s, which is no number of JSON: write it in decimal, or in quotes if it is text", at, clip(n.text))
	case "a boolean":
		r.warn(n.line, "ambiguous", "%s is %s, which is text and no boolean: write true or false, or put it in quotes", at, n.text)
	}
	if path != nil && isPath(n.text) {
		if p := path(n.text, n.line, at); p != nil {
			b.path(p)
		}
		return
	}
	b.literal = AppendText(b.literal, n.text)
}

// literal reads a value as JSON, in which text may be JSON too.
func (r *reader) literal(v *[]byte) func(*node, string) {
	return func(n *node, at string) {
		if n.kind == nodeText {
			inner := r.jsonIn(n)
			if inner == nil {
				r.fail(n.line, "bad-json", "%s is %s, expected JSON", at, quote(n.text))
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
func (r *reader) path(v **Path, rules pathRules) func(*node, string) {
	return func(n *node, at string) {
		text := ""
		if r.text(&text)(n, at); n.kind == nodeText {
			*v = r.pathOf(text, n.line, at, rules)
		}
	}
}

// pathOf compiles a path, nil if it is none.
func (r *reader) pathOf(text string, line int, at string, rules pathRules) *Path {
	p, err := parsePath(text, rules)
	if err != nil {
		r.fail(line, "bad-path", "%s: path %s: %v", at, quote(text), err)
		return nil
	}
	r.uses(&p, line, at)
	return &p
}

// uses notes the step that a path names, which may come later in the document.
func (r *reader) uses(p *Path, line int, at string) {
	if p.root != RootOutput && p.root != RootOutcome {
		return
	}
	p.name = r.stepName(p.name)
	r.steps = append(r.steps, stepUse{p.name, at, line})
}

// stepName returns the name of a step: start is another one for the step to start with.
func (r *reader) stepName(name string) string {
	if _, own := r.places[name]; name == "start" && !own {
		return StartStep
	}
	return name
}

// keyTemplate reads text with paths in braces.
func (r *reader) keyTemplate(v *KeyTemplate) func(*node, string) {
	return func(n *node, at string) {
		text := ""
		if r.text(&text)(n, at); n.kind != nodeText {
			return
		}
		if text == "" || len(text) > maxKey {
			r.fail(n.line, "bad-value", "%s has %d bytes, expected 1 to %d", at, len(text), maxKey)
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
				r.fail(n.line, "bad-value", "%s is %s, in which { and } do not match", at, quote(text))
				return
			}
			b.literal = append(b.literal, rest[:open]...)
			if p := r.pathOf(rest[open+1:open+end], n.line, at, pathRules{bare: true, own: true}); p != nil {
				b.path(p)
			}
			rest = rest[open+end+1:]
		}
		if v.parts = b.done(); len(v.parts) > maxPaths {
			r.fail(n.line, "too-many", "%s has more than %d paths", at, maxPaths)
		}
	}
}
