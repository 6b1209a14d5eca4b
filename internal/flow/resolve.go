package flow

import (
	"github.com/floedb/floe/internal/expression"
	"github.com/floedb/floe/internal/rawjson"
)

// resolver finds the values of many paths. It scans each root once, regardless of the number of
// paths into it. Otherwise a hostile definition with hundreds of paths could block a shard.
type resolver struct {
	source Source
	paths  []*Path
	known  []bool
	spans  []span // by path
	// The path of the last root that the source returned. Another call may invalidate the root.
	last *Path
	raw  []byte
}

// span is the position of a value in its root; end is 0 if the value is missing.
type span struct{ from, end int }

func newResolver(s Source, paths []*Path) *resolver {
	return &resolver{source: s, paths: paths, known: make([]bool, len(paths)), spans: make([]span, len(paths))}
}

// value returns the value of a path, nil if it is missing. It is valid until the next call.
func (r *resolver) value(i int) []byte {
	if len(r.paths) == 1 {
		return r.paths[i].value(r.source)
	}
	if !r.known[i] {
		r.find(r.paths[i])
	}
	if r.spans[i].end == 0 {
		return nil
	}
	return r.load(r.paths[i])[r.spans[i].from:r.spans[i].end]
}

// load returns the root of a path.
func (r *resolver) load(p *Path) []byte {
	if r.last == nil || !r.last.sameRoot(p) {
		r.last, r.raw = p, r.source.Root(p.root, p.name)
	}
	return r.raw
}

func (p *Path) sameRoot(other *Path) bool { return p.root == other.root && p.name == other.name }

// find finds the values of all paths with the same root as p.
func (r *resolver) find(p *Path) {
	var top fork
	for i, other := range r.paths {
		if p.sameRoot(other) {
			r.known[i] = true
			top.add(other.hops, i)
		}
	}
	if raw := r.load(p); rawjson.Valid(raw) {
		r.walk(&top, raw, rawjson.SkipSpace(raw, 0))
	}
}

// fork is a place in a root, with the paths that end there and those that continue.
type fork struct {
	ends     []int
	members  map[string]*fork
	elements map[int64]*fork
}

func (f *fork) add(hops []expression.Hop, path int) {
	for i := range hops {
		f = f.next(&hops[i])
	}
	f.ends = append(f.ends, path)
}

func (f *fork) next(h *expression.Hop) *fork {
	if h.Index {
		return child(&f.elements, h.At)
	}
	return child(&f.members, h.Key)
}

func child[K comparable](m *map[K]*fork, key K) *fork {
	if *m == nil {
		*m = make(map[K]*fork)
	}
	f := (*m)[key]
	if f == nil {
		f = new(fork)
		(*m)[key] = f
	}
	return f
}

// walk scans the valid value at i and returns its end.
func (r *resolver) walk(f *fork, raw []byte, i int) (end int) {
	switch {
	case f.members != nil && raw[i] == '{':
		end = r.walkObject(f, raw, i)
	case f.elements != nil && raw[i] == '[':
		end = r.walkArray(f, raw, i)
	default:
		end = rawjson.SkipValue(raw, i)
	}
	for _, path := range f.ends {
		r.spans[path] = span{i, end}
	}
	return end
}

func (r *resolver) walkObject(f *fork, raw []byte, i int) int {
	for i = rawjson.SkipSpace(raw, i+1); raw[i] != '}'; {
		end := rawjson.SkipText(raw, i)
		next := f.members[rawjson.TextOf(raw[i:end])]
		if i = rawjson.SkipSpace(raw, rawjson.SkipSpace(raw, end)+1); next == nil {
			end = rawjson.SkipValue(raw, i)
		} else {
			// If a member is repeated, the last one counts, with everything in it.
			r.forget(next)
			end = r.walk(next, raw, i)
		}
		if i = rawjson.SkipSpace(raw, end); raw[i] == ',' {
			i = rawjson.SkipSpace(raw, i+1)
		}
	}
	return i + 1
}

func (r *resolver) walkArray(f *fork, raw []byte, i int) int {
	i = rawjson.SkipSpace(raw, i+1)
	for n := int64(0); raw[i] != ']'; n++ {
		end := 0
		if next := f.elements[n]; next != nil {
			end = r.walk(next, raw, i)
		} else {
			end = rawjson.SkipValue(raw, i)
		}
		if i = rawjson.SkipSpace(raw, end); raw[i] == ',' {
			i = rawjson.SkipSpace(raw, i+1)
		}
	}
	return i + 1
}

// forget discards the values found at a place and below it.
func (r *resolver) forget(f *fork) {
	for _, path := range f.ends {
		r.spans[path] = span{}
	}
	for _, next := range f.members {
		r.forget(next)
	}
	for _, next := range f.elements {
		r.forget(next)
	}
}
