package kv

import (
	"context"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/floedb/floe/internal/engine"
)

// Limits of JSON access.
const (
	MaxJSONDepth = 128  // nesting of a document and parts of a path
	maxJSONPath  = 4096 // bytes
)

// JSONGet returns the raw JSON at a path of the document stored at key.
//
// A path has up to 128 names and indexes in at most 4,096 bytes. JSONGet, JSONSet and JSONDelete
// accept two forms:
//
//   - "user.tags.0": parts between dots. A backslash takes the next character literally, as in
//     "a\.b". In a name, . * ? # @ | and a backslash must be escaped, and a $ at the beginning.
//   - "$.user.tags[0]" or "$['a b'][0]": names after dots, indexes and quoted names in brackets.
//
// "" and "$" are the whole document. Parts cannot be empty. In an object each part is a name, even
// "0". In an array it is an index from 0, without a sign or leading zeros. -1 is the position after
// the last element, where JSONSet appends. If an object has a name twice, JSONGet returns the first
// value.
//
// JSONGet alone also accepts gjson queries, which may match several places: a path of the first
// form with an unescaped * ? # or |, such as "items.#.id" or "items.#(id==2).name". Modifiers (@)
// and multipaths are not supported.
//
// Errors: ErrNotFound if the key or the path does not exist; ErrInvalid if the value is not JSON,
// the path is malformed, or a part that applies to an array is not an index.
func (s *Store) JSONGet(ctx context.Context, key, path string) ([]byte, error) {
	if err := checkReadPath(path); err != nil {
		return nil, err
	}
	e, err := s.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return getJSON(key, e.Value, path)
}

// JSONSet stores raw JSON at a path of the document at key, atomically; an expiry is kept. Missing
// objects on the path are created, as is the document itself. To create an array, set an empty one
// first. An index equal to the array's length, or -1, appends to it. Paths are those of JSONGet,
// without queries.
//
// Errors: ErrInvalid if raw or the value is not JSON, or the result exceeds the value limit.
// ErrInvalid also if the path is malformed, leads through a number or string, or past the end of an
// array.
func (s *Store) JSONSet(ctx context.Context, key, path string, raw []byte) (Written, error) {
	return engine.Propose(ctx, &s.scope, jsonSetOp(key, path, raw), jsonSet.Decode)
}

// JSONDelete removes the value at a path of the document at key, atomically. Errors: as JSONSet,
// and ErrNotFound if the path does not exist.
func (s *Store) JSONDelete(ctx context.Context, key, path string) (Written, error) {
	return engine.Propose(ctx, &s.scope, jsonDeleteOp(key, path), jsonDelete.Decode)
}

// JSONSetOp is JSONSet as an operation of a transaction.
func JSONSetOp(key, path string, raw []byte) OpOf[Written] {
	return opOf[Written](jsonSetOp(key, path, raw))
}

// JSONDeleteOp is JSONDelete as an operation of a transaction.
func JSONDeleteOp(key, path string) OpOf[Written] { return opOf[Written](jsonDeleteOp(key, path)) }

func (w *write) jsonSet(b *jsonSetBody) (none Written, err error) {
	if err := w.allows(&b.guard); err != nil {
		return none, err
	}
	doc := []byte("{}")
	if w.cur.exists() && !w.cur.tombstone() {
		doc = w.cur.value
	}
	if doc, err = setJSON(string(w.key), doc, string(b.path), b.raw, int(b.maxBytes)); err != nil {
		return none, err
	}
	return w.update(doc), nil
}

func (w *write) jsonDelete(b *jsonDeleteBody) (none Written, err error) {
	if err := w.finds(&b.guard); err != nil {
		return none, err
	}
	doc, err := deleteJSON(string(w.key), w.cur.value, string(b.path))
	if err != nil {
		return none, err
	}
	return w.update(doc), nil
}

func getJSON(key string, doc []byte, path string) ([]byte, error) {
	if err := checkReadPath(path); err != nil {
		return nil, err
	}
	if err := checkDocument(key, doc); err != nil {
		return nil, err
	}
	if isQuery(path) {
		return rawJSON(key, path, gjson.GetBytes(doc, path))
	}
	segments, err := parsePath(path)
	if err != nil || len(segments) == 0 {
		return doc, err
	}
	at := gjson.ParseBytes(doc)
	for _, segment := range segments {
		if _, ok := arrayIndex(segment); at.IsArray() && !ok {
			return nil, engine.Errorf(ErrInvalid, "kv: key %q: %.64q is not an index of an array", shown(key), segment)
		}
		at = child(at, segment)
	}
	return rawJSON(key, path, at)
}

// checkReadPath rejects a path that JSONGet does not accept for any document.
func checkReadPath(path string) error {
	if isQuery(path) {
		return checkQuery(path)
	}
	_, err := parsePath(path)
	return err
}

// isQuery reports whether a path may match several places. Such a path is for gjson and can only be
// read.
func isQuery(path string) bool {
	if strings.HasPrefix(path, "$") {
		return false
	}
	for i := 0; i < len(path); i++ {
		switch path[i] {
		case '\\':
			i++
		case '*', '?', '#', '|':
			return true
		}
	}
	return false
}

// checkQuery rejects paths that make gjson build new JSON from the document: modifiers (@, !) and
// multipaths ({ and [). A chain of a few of them grows a document without bound.
func checkQuery(path string) error {
	if err := checkPathText(path); err != nil {
		return err
	}
	start := true // of a part
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c == '\\':
			i++
			start = false
		case c == '@' || c == '!' && start || start && (c == '{' || c == '['):
			return pathError(path, i, "%q must be escaped with a backslash: modifiers and multipaths are not supported", c)
		default:
			start = c == '.' || c == '|'
		}
	}
	return nil
}

func checkPathText(path string) error {
	if len(path) > maxJSONPath {
		return engine.Errorf(ErrInvalid, "kv: path of %d bytes exceeds %d", len(path), maxJSONPath)
	}
	if !utf8.ValidString(path) {
		return engine.Errorf(ErrInvalid, "kv: path %q is not valid UTF-8", shown(path))
	}
	return nil
}

// pathError returns an error about a path, with the position of its byte, counted from 0.
func pathError(path string, at int, format string, args ...any) error {
	return engine.Errorf(ErrInvalid, "kv: path %q, byte %d: "+format, append([]any{shown(path), at}, args...)...)
}

// arrayIndex parses a part of a path as an array index; -1 is the position after the end. ok is
// false if it is not an index.
func arrayIndex(segment string) (index int, ok bool) {
	index, err := strconv.Atoi(segment)
	return index, err == nil && index >= -1 && strconv.Itoa(index) == segment
}

func rawJSON(key, path string, at gjson.Result) ([]byte, error) {
	if !at.Exists() {
		return nil, engine.Errorf(ErrNotFound, "kv: key %q has nothing at %q", shown(key), shown(path))
	}
	return []byte(at.Raw), nil
}

func setJSON(key string, doc []byte, path string, raw []byte, maxBytes int) ([]byte, error) {
	if err := checkJSON("kv: the JSON to set", raw); err != nil {
		return nil, err
	}
	out, err := editJSON(key, doc, path, string(raw))
	if err == nil && len(out) > maxBytes {
		err = engine.Errorf(ErrInvalid, "kv: key %q: document of %d bytes exceeds max_value_size (%d bytes)", shown(key), len(out),
			maxBytes)
	}
	return out, err
}

func deleteJSON(key string, doc []byte, path string) ([]byte, error) {
	return editJSON(key, doc, path, "")
}

// parsePath splits a path of names and indexes. In "a.b.0" a backslash takes the next character
// literally; "$.a['b c'][0]" has brackets for indexes and quoted names. No segments means the whole
// document.
func parsePath(path string) ([]string, error) {
	if err := checkPathText(path); err != nil {
		return nil, err
	}
	p := pathParser{path: path, rest: path}
	if strings.HasPrefix(path, "$") {
		p.rest = path[1:]
		for p.rest != "" && p.err == nil {
			p.jsonPathStep()
		}
	} else if path != "" {
		p.dotted()
	}
	return p.segments, p.err
}

type pathParser struct {
	path, rest string
	segments   []string
	err        error
}

// fail sets an error at a byte offset in rest.
func (p *pathParser) fail(at int, format string, args ...any) {
	p.err = pathError(p.path, len(p.path)-len(p.rest)+at, format, args...)
}

// add adds the segment that starts at a byte offset in rest.
func (p *pathParser) add(at int, segment string) {
	switch {
	case segment == "":
		p.fail(at, "empty part")
	case len(p.segments) == MaxJSONDepth:
		p.fail(at, "more than %d parts", MaxJSONDepth)
	default:
		p.segments = append(p.segments, segment)
	}
}

// dotted parses "a.b.0". It rejects wildcards and queries of gjson: a write must name one place.
func (p *pathParser) dotted() {
	var segment strings.Builder
	start := 0
	for i := 0; i < len(p.rest) && p.err == nil; i++ {
		switch c := p.rest[i]; c {
		case '\\':
			if i++; i == len(p.rest) {
				p.fail(i-1, "backslash at the end")
				return
			}
			segment.WriteByte(p.rest[i])
		case '.':
			p.add(start, segment.String())
			segment.Reset()
			start = i + 1
		case '*', '?', '#', '@', '|':
			p.fail(i, "%q must be escaped with a backslash", c)
		default:
			segment.WriteByte(c)
		}
	}
	if p.err == nil {
		p.add(start, segment.String())
	}
}

func (p *pathParser) jsonPathStep() {
	switch p.rest[0] {
	case '.':
		name := p.rest[1:]
		if end := strings.IndexAny(name, ".["); end >= 0 {
			name = name[:end]
		}
		if bad := strings.IndexAny(name, "*?#@|]"); bad >= 0 {
			p.fail(1+bad, "%q in a name that is not in brackets and quotes", name[bad])
			return
		}
		p.add(1, name)
		p.rest = p.rest[1+len(name):]
	case '[':
		end, quote := "]", ""
		if strings.HasPrefix(p.rest[1:], "'") || strings.HasPrefix(p.rest[1:], `"`) {
			quote = p.rest[1:2]
			end = quote + "]"
		}
		inside, after, ok := strings.Cut(p.rest[1+len(quote):], end)
		if !ok {
			p.fail(0, "[ without %s", end)
			return
		}
		if _, ok := arrayIndex(inside); !ok && quote == "" {
			p.fail(1, "%.16q is neither an index nor a quoted name", inside)
			return
		}
		p.add(1+len(quote), inside)
		p.rest = after
	default:
		p.fail(0, "found %q, expected . or [", p.rest[0])
	}
}

func child(at gjson.Result, segment string) gjson.Result {
	var found gjson.Result
	index := 0
	isArray := at.IsArray()
	if !isArray && !at.IsObject() {
		return found
	}
	at.ForEach(func(k, v gjson.Result) bool {
		if isArray && strconv.Itoa(index) == segment || !isArray && k.String() == segment {
			found = v
			return false
		}
		index++
		return true
	})
	return found
}

func checkDocument(key string, doc []byte) error {
	return checkJSON(engine.Text("kv: the value of key %q", shown(key)), doc)
}

// checkJSON rejects values that are not JSON or are nested too deeply: gjson recurses without a
// bound.
func checkJSON(what string, b []byte) error {
	depth, inString := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > MaxJSONDepth {
				return engine.Errorf(ErrInvalid, "%s nests deeper than %d", what, MaxJSONDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	if !gjson.ValidBytes(b) {
		return engine.Errorf(ErrInvalid, "%s is not valid JSON", what)
	}
	return nil
}
