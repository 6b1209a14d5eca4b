package flow

import (
	"github.com/floedb/floe/internal/rawjson"
)

// Template is JSON in which strings that are paths stand for the values at those paths.
type Template struct {
	parts []templatePart
}

// templatePart is literal JSON, optionally followed by a path.
type templatePart struct {
	literal string
	path    *Path
}

// MaxRendered is the maximum output of a Template in bytes. Longer output is truncated.
const MaxRendered = 1 << 20

// maxPaths is the maximum number of paths in a Template, a KeyTemplate or an Expr. Each may scan a
// whole input.
const maxPaths = 256

// maxKey is the maximum length of a cache key in bytes.
const maxKey = 1 << 10

// Append appends the JSON of the template; missing values are null. It drops output beyond
// MaxRendered bytes, and the appended bytes are then not valid JSON.
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

// KeyTemplate is text with paths in braces: charge:{input.customer_id}. A path into input uses the
// input of the step first, then that of the run.
type KeyTemplate struct {
	parts []templatePart
}

// Append appends the key: the text of strings and the JSON of other values. whole is false if a
// value is missing or null, or if the key exceeds its maximum length.
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

// builder assembles a template.
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
