package kv

import (
	"context"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

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
// created, as is the document itself; an array is extended by the index that equals its length, or by -1. Paths are as for
// JSONGet, but of names and indexes only.
//
// Errors: ErrInvalid if raw or the value is not JSON, the path is malformed, leads through a number or string, or past the end of
// an array, or the result exceeds the limit for values.
func (s *Store) JSONSet(ctx context.Context, key, path string, raw []byte) (Written, error) {
	return propose(ctx, s, jsonSetCommand(key, path, raw, s.maxValue), decodeWritten)
}

// JSONDelete removes what is at a path of the document at key, atomically. Errors: as JSONSet, and ErrNotFound if there is nothing.
func (s *Store) JSONDelete(ctx context.Context, key, path string) (Written, error) {
	return propose(ctx, s, jsonDeleteCommand(key, path), decodeWritten)
}

// JSONSetOp is JSONSet as an operation of a transaction; its value in the result is a Written. The document may grow to 1 MiB.
func JSONSetOp(key, path string, raw []byte) engine.Op {
	return jsonSetCommand(key, path, raw, DefaultMaxValueBytes)
}

// JSONDeleteOp is JSONDelete as an operation of a transaction; its value in the result is a Written.
func JSONDeleteOp(key, path string) engine.Op { return jsonDeleteCommand(key, path) }

// jsonSetCommand carries the limit for the result: Apply must not look at a node's configuration.
func jsonSetCommand(key, path string, raw []byte, maxBytes int) engine.Op {
	_, err := parsePath(path)
	if err == nil {
		err = checkJSON("kv: the JSON to set", raw)
	}
	b := codec.AppendUvarint(body(key, writeOptions{}, len(path)+len(raw)), uint64(maxBytes))
	b = append(codec.AppendString(b, path), raw...)
	set := op(kindJSONSet, key, err, b, anyWritten)
	set.Payload = len(raw)
	return set
}

func jsonDeleteCommand(key, path string) engine.Op {
	segments, err := parsePath(path)
	if err == nil && len(segments) == 0 {
		err = engine.Errorf(ErrInvalid, "kv: path %q names the whole document: use Delete", path)
	}
	return op(kindJSONDelete, key, err, codec.AppendString(body(key, writeOptions{}, len(path)), path), anyWritten)
}

func (m *Machine) jsonSet(tx *engine.Tx, c *command, cur row) ([]byte, error) {
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

func (m *Machine) jsonDelete(tx *engine.Tx, c *command, cur row) ([]byte, error) {
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
	return rawJSON(key, path, gjson.GetBytes(doc, path))
}

func rawJSON(key, path string, at gjson.Result) ([]byte, error) {
	if !at.Exists() {
		return nil, engine.Errorf(ErrNotFound, "kv: key %q has nothing at %q", key, path)
	}
	return []byte(at.Raw), nil
}

func setJSON(key string, doc []byte, path string, raw []byte, maxBytes int) ([]byte, error) {
	segments, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	if err := checkJSON("kv: the JSON to set", raw); err != nil {
		return nil, err
	}
	if err := checkDocument(key, doc); err != nil {
		return nil, err
	}
	_, dialect, err := locate(key, doc, segments)
	if err != nil {
		return nil, err
	}
	if len(segments) == 0 {
		return raw, nil
	}
	// locate has bounded what can be added: the parts of the path that are missing, and at most one array element.
	out, err := sjson.SetRawBytes(doc, dialect, raw)
	if err != nil {
		return nil, engine.Errorf(ErrInvalid, "kv: key %q: set %q: %v", key, path, err)
	}
	if len(out) > maxBytes {
		return nil, engine.Errorf(ErrInvalid, "kv: key %q: document of %d bytes exceeds max_value_size (%d bytes)", key, len(out), maxBytes)
	}
	return out, checkDocument(key, out)
}

func deleteJSON(key string, doc []byte, path string) ([]byte, error) {
	segments, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	if err := checkDocument(key, doc); err != nil {
		return nil, err
	}
	at, dialect, err := locate(key, doc, segments)
	if err != nil {
		return nil, err
	}
	if !at.Exists() || len(segments) == 0 {
		return nil, engine.Errorf(ErrNotFound, "kv: key %q has nothing at %q", key, path)
	}
	out, err := sjson.DeleteBytes(doc, dialect)
	if err != nil {
		return nil, engine.Errorf(ErrInvalid, "kv: key %q: delete %q: %v", key, path, err)
	}
	return out, nil
}

// parsePath splits a path of names and indexes. In "a.b.0" a backslash takes the next character as it is; "$.a['b c'][0]"
// has brackets for indexes and quoted names. No segments means the whole document.
func parsePath(path string) ([]string, error) {
	if len(path) > maxJSONPath {
		return nil, engine.Errorf(ErrInvalid, "kv: path of %d bytes exceeds %d", len(path), maxJSONPath)
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
		if strings.ContainsAny(name, "*?#@|") {
			p.fail("%q names no single place", name)
			return
		}
		p.add(name)
		p.rest = p.rest[1+len(name):]
	case '[':
		inside, after, ok := strings.Cut(p.rest[1:], "]")
		if !ok {
			p.fail("[ without ]")
			return
		}
		if q := len(inside) - 1; q > 0 && (inside[0] == '\'' || inside[0] == '"') && inside[q] == inside[0] {
			inside = inside[1:q]
		} else if _, err := strconv.Atoi(inside); err != nil {
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

// locate returns what the segments lead to, if it exists, and the path in sjson's dialect. It refuses paths whose result
// would be surprising or without bound: sjson fills an array with nulls up to whatever index it is given.
func locate(key string, doc []byte, segments []string) (at gjson.Result, dialect string, err error) {
	at = gjson.ParseBytes(doc)
	parts := make([]string, len(segments))
	for i, segment := range segments {
		switch {
		case at.IsArray():
			n := int(at.Get("#").Int())
			index, err := strconv.Atoi(segment)
			if err != nil || index < -1 || index > n || segment != strconv.Itoa(index) {
				return at, "", engine.Errorf(ErrInvalid, "kv: key %q: %.64q is no index of an array of length %d", key, segment, n)
			}
			parts[i] = segment
		case at.IsObject() || !at.Exists():
			parts[i] = ":" + gjson.Escape(segment)
		default:
			return at, "", engine.Errorf(ErrInvalid, "kv: key %q: the path leads through a %s at %.64q", key, strings.ToLower(at.Type.String()), segment)
		}
		at = child(at, segment)
	}
	return at, strings.Join(parts, "."), nil
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
