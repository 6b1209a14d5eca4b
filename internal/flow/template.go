package flow

import (
	"github.com/floedb/floe/internal/rawjson"
)

// Template is JSON in which strings that are a path stand for what the path leads to.
type Template struct {
	parts []templatePart
}

// templatePart is literal JSON with a path behind it, or without one.
type templatePart struct {
	literal string
	path    *Path
}

// MaxRendered is how many bytes a Template makes. What is longer than that is not complete.
const MaxRendered = 1 << 20

// maxPaths is how many paths a Template, a KeyTemplate or an Expr has at most: each of them may go
// over a whole input.
const maxPaths = 256

// maxKey is how long the key of a cache may be.
const maxKey = 1 << 10

// Append appends the JSON that the template makes: a path that leads nowhere is null. If more than
// MaxRendered bytes are appended, the rest is left out, and what was appended is no JSON.
func (t *Template) Append(dst []byte, s Source) []byte {
	start := len(dst)
	r := newResolver(s, pathsOf(t.parts))
	for i, at := 0, 0; i < len(t.parts) && (len(dst)-start <= MaxRendered); i++ {
		p := &t.parts[i]
		dst = append(dst, p.literal...)
		if p.path == nil {
			continue
		}
		value := r.value(at)
		if at++; value != nil {
			dst = append(dst, value...)
		} else {
			dst = append(dst, "null"...)
		}
	}
	return dst
}

// KeyTemplate is text with paths in braces: charge:{input.customer_id}. A path into input looks
// into the input of the step first, and then into that of the run.
type KeyTemplate struct {
	parts []templatePart
}

// Append appends the key: of strings their text, of everything else its JSON. It is not whole if a
// path leads nowhere, or to null, or if it is longer than a key may be.
func (k *KeyTemplate) Append(dst []byte, s Source) (key []byte, whole bool) {
	start, missing := len(dst), false
	paths := pathsOf(k.parts)
	inRun := len(paths)
	for _, p := range paths[:inRun] {
		second := *p
		if p.root == RootStepInput {
			second.root = RootInput
		}
		paths = append(paths, &second)
	}
	r := newResolver(s, paths)
	for i, at := 0, 0; i < len(k.parts) && len(dst)-start <= maxKey; i++ {
		p := &k.parts[i]
		dst = append(dst, p.literal...)
		if p.path == nil {
			continue
		}
		value := r.value(at)
		if value == nil {
			value = r.value(inRun + at)
		}
		at++
		if text, ok := rawjson.Text(value); ok {
			dst = append(dst, text...)
		} else {
			dst = append(dst, value...)
		}
		missing = missing || value == nil || string(value) == "null"
	}
	return dst, !missing && len(dst)-start <= maxKey
}

// pathsOf returns the paths of a template, in order.
func pathsOf(parts []templatePart) []*Path {
	paths := make([]*Path, 0, len(parts))
	for i := range parts {
		if parts[i].path != nil {
			paths = append(paths, parts[i].path)
		}
	}
	return paths
}

// builder puts a template together.
type builder struct {
	parts   []templatePart
	literal []byte
}

func (b *builder) path(p *Path) {
	b.parts = append(b.parts, templatePart{string(b.literal), p})
	b.literal = b.literal[:0]
}

func (b *builder) done() []templatePart {
	if len(b.literal) > 0 {
		b.path(nil)
	}
	return b.parts
}
