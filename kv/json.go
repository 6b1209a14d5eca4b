package kv

import (
	"context"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Limits of JSON access.
const (
	MaxJSONDepth = 128  // nesting of a document and parts of a path
	maxJSONPath  = 4096 // bytes
)

// JSONGet returns the raw JSON at a path of the document stored at key. A path is gjson's ("user.tags.0", "items.#.id"), or a
// JSON path of names and indexes beginning with "$" ("$.user.tags[0]"); "$" and "" name the whole document.
//
// Errors: ErrNotFound if the key or the path does not exist; ErrInvalid if the value is not JSON or the path is malformed.
func (s *Store) JSONGet(ctx context.Context, key, path string) ([]byte, error) {
	e, err := s.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return getJSON(key, e.Value, path)
}

// JSONSet stores raw JSON at a path of the document at key, atomically; an expiry stays. Missing objects on the way are
// created (always objects: set an empty array first where one is wanted), as is the document itself; an array is extended by the
// index that equals its length, or by -1. Paths are as for JSONGet, but of names and indexes only.
//
// Errors: ErrInvalid if raw or the value is not JSON, the path is malformed, leads through a number or string, or past the end of
// an array, or the result exceeds the limit for values.
func (s *Store) JSONSet(ctx context.Context, key, path string, raw []byte) (Written, error) {
	return engine.Propose(ctx, &s.scope, jsonSetCommand(key, path, raw), decodeWritten)
}

// JSONDelete removes what is at a path of the document at key, atomically. Errors: as JSONSet, and ErrNotFound if there is nothing.
func (s *Store) JSONDelete(ctx context.Context, key, path string) (Written, error) {
	return engine.Propose(ctx, &s.scope, jsonDeleteCommand(key, path), decodeWritten)
}

// JSONSetOp is JSONSet as an operation of a transaction; its value in the result is a Written.
func JSONSetOp(key, path string, raw []byte) Op {
	return Op{engine.Hide(jsonSetCommand(key, path, raw))}
}

// JSONDeleteOp is JSONDelete as an operation of a transaction; its value in the result is a Written.
func JSONDeleteOp(key, path string) Op { return Op{engine.Hide(jsonDeleteCommand(key, path))} }

// jsonSetCommand carries the limit for the result: Apply must not look at a node's configuration.
func jsonSetCommand(key, path string, raw []byte) engine.Op {
	_, err := parsePath(path)
	if err == nil {
		err = checkJSON("kv: the JSON to set", raw)
	}
	set := op(kindJSONSet, key, err, nil, anyWritten)
	set.Payload = len(raw)
	set.Limited = func(maxBytes int) []byte {
		b := codec.AppendUvarint(body(key, writeOptions{}, len(path)+len(raw)), uint64(maxBytes))
		return append(codec.AppendString(b, path), raw...)
	}
	return set
}

func jsonDeleteCommand(key, path string) engine.Op {
	segments, err := parsePath(path)
	if err == nil && len(segments) == 0 {
		err = engine.Errorf(ErrInvalid, "kv: path %q names the whole document: use Delete", path)
	}
	return op(kindJSONDelete, key, err, codec.AppendString(body(key, writeOptions{}, len(path)), path), anyWritten)
}

func (m *machine) jsonSet(tx *engine.Tx, c *command, cur row) ([]byte, error) {
	doc := []byte("{}")
	if cur.exists() && !cur.tombstone() {
		doc = cur.value
	}
	doc, err := setJSON(string(c.key), doc, string(c.path), c.value, c.maxBytes)
	if err != nil {
		return nil, err
	}
	return encodeWritten(m.update(tx, c.key, cur, doc)), nil
}

func (m *machine) jsonDelete(tx *engine.Tx, c *command, cur row) ([]byte, error) {
	doc, err := deleteJSON(string(c.key), cur.value, string(c.path))
	if err != nil {
		return nil, err
	}
	return encodeWritten(m.update(tx, c.key, cur, doc)), nil
}

func getJSON(key string, doc []byte, path string) ([]byte, error) {
	if err := checkDocument(key, doc); err != nil {
		return nil, err
	}
	if path == "" || path == "$" {
		return doc, nil
	}
	if len(path) > maxJSONPath {
		return nil, engine.Errorf(ErrInvalid, "kv: path of %d bytes exceeds %d", len(path), maxJSONPath)
	}
	if strings.HasPrefix(path, "$") {
		segments, err := parsePath(path)
		if err != nil {
			return nil, err
		}
		at, _ := follow(gjson.ParseBytes(doc), segments)
		return rawJSON(key, path, at)
	}
	if err := checkQuery(path); err != nil {
		return nil, err
	}
	return rawJSON(key, path, gjson.GetBytes(doc, path))
}

// checkQuery refuses what makes gjson build new JSON out of the document: modifiers (@, !) and multipaths ({ and [). A few
// of them, one behind the other, grow a document without bound.
func checkQuery(path string) error {
	start := true // of a part
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c == '\\':
			i++
			start = false
		case c == '@' || c == '!' && start || start && (c == '{' || c == '['):
			return engine.Errorf(ErrInvalid, "kv: path %.64q: %q must be escaped with a backslash: modifiers and multipaths are not supported", path, c)
		default:
			start = c == '.' || c == '|'
		}
	}
	return nil
}

func rawJSON(key, path string, at gjson.Result) ([]byte, error) {
	if !at.Exists() {
		return nil, engine.Errorf(ErrNotFound, "kv: key %q has nothing at %q", key, path)
	}
	return []byte(at.Raw), nil
}

func setJSON(key string, doc []byte, path string, raw []byte, maxBytes int) ([]byte, error) {
	if err := checkJSON("kv: the JSON to set", raw); err != nil {
		return nil, err
	}
	out, err := editJSON(key, doc, path, string(raw))
	if err == nil && len(out) > maxBytes {
		err = engine.Errorf(ErrInvalid, "kv: key %q: document of %d bytes exceeds max_value_size (%d bytes)", key, len(out), maxBytes)
	}
	return out, err
}

func deleteJSON(key string, doc []byte, path string) ([]byte, error) {
	return editJSON(key, doc, path, "")
}

// parsePath splits a path of names and indexes. In "a.b.0" a backslash takes the next character as it is; "$.a['b c'][0]"
// has brackets for indexes and quoted names. No segments means the whole document.
func parsePath(path string) ([]string, error) {
	if len(path) > maxJSONPath {
		return nil, engine.Errorf(ErrInvalid, "kv: path of %d bytes exceeds %d", len(path), maxJSONPath)
	}
	if !utf8.ValidString(path) {
		return nil, engine.Errorf(ErrInvalid, "kv: path %.64q is not valid UTF-8", path)
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
	if p.err == nil && len(p.segments) > MaxJSONDepth {
		p.fail("more than %d parts", MaxJSONDepth)
	}
	return p.segments, p.err
}

type pathParser struct {
	path, rest string
	segments   []string
	err        error
}

func (p *pathParser) fail(format string, args ...any) {
	p.err = engine.Errorf(ErrInvalid, "kv: path %.64q: "+format, append([]any{p.path}, args...)...)
}

func (p *pathParser) add(segment string) {
	if segment == "" {
		p.fail("an empty part")
		return
	}
	p.segments = append(p.segments, segment)
}

// dotted reads "a.b.0". Wildcards and queries of gjson are refused: a write must name one place.
func (p *pathParser) dotted() {
	var segment strings.Builder
	for i := 0; i < len(p.rest) && p.err == nil; i++ {
		switch c := p.rest[i]; c {
		case '\\':
			if i++; i == len(p.rest) {
				p.fail("ends with a backslash")
				return
			}
			segment.WriteByte(p.rest[i])
		case '.':
			p.add(segment.String())
			segment.Reset()
		case '*', '?', '#', '@', '|':
			p.fail("%q must be escaped with a backslash", c)
		default:
			segment.WriteByte(c)
		}
	}
	if p.err == nil {
		p.add(segment.String())
	}
}

func (p *pathParser) jsonPathStep() {
	switch p.rest[0] {
	case '.':
		name := p.rest[1:]
		if end := strings.IndexAny(name, ".["); end >= 0 {
			name = name[:end]
		}
		if strings.ContainsAny(name, "*?#@|]") {
			p.fail("%q names no single place", name)
			return
		}
		p.add(name)
		p.rest = p.rest[1+len(name):]
	case '[':
		end, quote := "]", ""
		if strings.HasPrefix(p.rest[1:], "'") || strings.HasPrefix(p.rest[1:], `"`) {
			quote = p.rest[1:2]
			end = quote + "]"
		}
		inside, after, ok := strings.Cut(p.rest[1+len(quote):], end)
		if !ok {
			p.fail("[ without %s", end)
			return
		}
		if _, err := strconv.Atoi(inside); err != nil && quote == "" {
			p.fail("[%.16s] is neither an index nor a quoted name", inside)
			return
		}
		p.add(inside)
		p.rest = after
	default:
		p.fail("found %q, expected . or [", p.rest[0])
	}
}

// follow walks the segments as far as they exist and returns what is there, and how many were walked.
func follow(at gjson.Result, segments []string) (gjson.Result, int) {
	for i, segment := range segments {
		next := child(at, segment)
		if !next.Exists() {
			return next, i
		}
		at = next
	}
	return at, len(segments)
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
	return checkJSON("kv: the value of key "+strconv.Quote(key), doc)
}

// checkJSON refuses what is not JSON or nests too deeply: gjson recurses without a bound.
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
