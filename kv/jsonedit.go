package kv

import (
	"bytes"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/floedb/floe/internal/engine"
)

// editJSON returns the document with raw at the path. If raw is "", it deletes the value there.
func editJSON(key string, doc []byte, path, raw string) ([]byte, error) {
	segments, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	if err := checkDocument(key, doc); err != nil {
		return nil, err
	}
	if len(segments) == 0 {
		return []byte(raw), nil
	}
	e := editor{key: key, path: path, raw: raw, doc: doc, out: make([]byte, 0, len(doc)+len(path)+len(raw))}
	e.space()
	if e.edit(segments); e.err != nil {
		return nil, e.err
	}
	return e.out, checkDocument(key, e.out)
}

// editor rewrites the objects and arrays along a path, member by member, and copies everything
// else. Its additions are bounded by the length of the path and of raw. (sjson, by contrast, fills
// an array with nulls up to any given index, and deletes a neighbour along with a name that begins
// with a quote.)
//
// It reads the document once, from start to end. Parsing each container on the path and then the
// containers within it again would multiply the time by the nesting depth. The document is already
// known to be valid.
type editor struct {
	key, path string
	raw       string // "": delete
	doc       []byte
	at        int // in doc: it only increases
	looked    int // bytes of values read, for tests
	out       []byte
	err       error
}

func (e *editor) fail(kind error, format string, args ...any) {
	e.err = engine.Errorf(kind, "kv: key %q: "+format, append([]any{shown(e.key)}, args...)...)
}

// edit appends the container that starts here, changed at the segments, and moves past it.
func (e *editor) edit(segments []string) {
	switch e.doc[e.at] {
	case '{':
		e.editObject(segments)
	case '[':
		e.editArray(segments)
	default:
		kind := strings.ToLower(gjson.ParseBytes(e.value()).Type.String())
		e.fail(ErrInvalid, "path %q leads through a %s at %.64q", shown(e.path), kind, segments[0])
	}
}

// editMember appends the changed value that starts here, or nothing if it is deleted.
func (e *editor) editMember(rest []string) {
	if len(rest) > 0 {
		e.edit(rest)
		return
	}
	e.value()
	e.out = append(e.out, e.raw...)
}

func (e *editor) editObject(segments []string) {
	name, rest := segments[0], segments[1:]
	deletes := e.raw == "" && len(rest) == 0
	found := 0
	e.out = append(e.out, '{')
	for e.next('}') {
		k := e.value()
		e.next(0) // the colon
		match := isName(k, name)
		if match {
			found++
		}
		if match && deletes {
			e.value()
			continue
		}
		e.separate()
		e.out = append(append(e.out, k...), ':')
		if !match {
			e.out = append(e.out, e.value()...)
		} else if e.editMember(rest); e.err != nil {
			return
		}
	}
	switch {
	case found > 1:
		e.fail(ErrInvalid, "the document holds the name %.64q %d times", name, found)
	case found == 0 && e.raw == "":
		e.fail(ErrNotFound, "there is nothing at %q", shown(e.path))
	case found == 0:
		e.separate()
		e.out = append(gjson.AppendJSONString(e.out, name), ':')
		e.build(rest)
	}
	e.out = append(e.out, '}')
}

// isName reports whether a JSON string equals a name.
func isName(quoted []byte, name string) bool {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1:len(quoted)-1]) == name
	}
	return gjson.ParseBytes(quoted).Str == name
}

// build appends raw inside new objects for the rest of the path.
func (e *editor) build(rest []string) {
	for _, name := range rest {
		e.out = append(gjson.AppendJSONString(append(e.out, '{'), name), ':')
	}
	e.out = append(e.out, e.raw...)
	for range rest {
		e.out = append(e.out, '}')
	}
}

func (e *editor) editArray(segments []string) {
	const none = -2 // a part that is not an index must not lead into an element
	index, ok := arrayIndex(segments[0])
	if !ok {
		index = none
	}
	rest := segments[1:]
	deletes := e.raw == "" && len(rest) == 0
	n := 0
	e.out = append(e.out, '[')
	for ; e.next(']'); n++ {
		if n == index && deletes {
			e.value()
			continue
		}
		e.separate()
		if n != index {
			e.out = append(e.out, e.value()...)
		} else if e.editMember(rest); e.err != nil {
			return
		}
	}
	switch {
	case index < -1 || index > n:
		e.fail(ErrInvalid, "%.64q is not an index of an array of length %d", segments[0], n)
	case (index == n || index == -1) && e.raw == "":
		e.fail(ErrNotFound, "there is nothing at %q", shown(e.path))
	case index == n || index == -1:
		e.separate()
		e.build(rest)
	}
	e.out = append(e.out, ']')
}

// separate appends a comma unless a container has just been opened.
func (e *editor) separate() {
	if c := e.out[len(e.out)-1]; c != '{' && c != '[' {
		e.out = append(e.out, ',')
	}
}

// next moves to the next member, past the bracket, comma or colon before it. It returns false at
// the end of the container.
func (e *editor) next(end byte) bool {
	e.space()
	if e.doc[e.at] != end {
		e.at++ // the opening bracket or the separator
		if e.space(); e.doc[e.at] != end {
			return true
		}
	}
	e.at++
	return false
}

func (e *editor) space() {
	for e.at < len(e.doc) && e.doc[e.at] <= ' ' {
		e.at++
	}
}

// value moves past the value that starts here, of any kind, and returns it.
func (e *editor) value() []byte {
	from := e.at
	e.skip()
	e.looked += e.at - from
	return e.doc[from:e.at]
}

func (e *editor) skip() {
	for depth := 0; e.at < len(e.doc); e.at++ {
		switch c := e.doc[e.at]; c {
		case '"':
			if e.quoted(); depth == 0 {
				e.at++
				return
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return // after a number or a word
			}
			if depth--; depth == 0 {
				e.at++
				return
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return
			}
		}
	}
}

// quoted moves to the end of a string.
func (e *editor) quoted() {
	for e.at++; e.doc[e.at] != '"'; e.at++ {
		if e.doc[e.at] == '\\' {
			e.at++
		}
	}
}
