package dashboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/rawjson"
	"github.com/floedb/floe/internal/spelling"
)

const (
	// maxDepth is the maximum nesting of a body.
	maxDepth = 128
	// maxMembers is the maximum number of members of a body's object: each takes far more memory
	// than its few bytes in the body.
	maxMembers = 64
)

// object is a body, parsed member by member. A member of the wrong type, including null, is a
// problem, and so is an unknown member.
type object struct {
	in       *input
	members  map[string]json.RawMessage
	asked    []string
	required []string // of asked, for descriptions
}

func (o *object) member(name string) (raw json.RawMessage, given bool) {
	o.asked = append(o.asked, name)
	raw, given = o.members[name]
	delete(o.members, name)
	return raw, given
}

// text returns a required string member.
func (o *object) text(name string) string {
	raw, given := o.member(name)
	o.in.describe(name, textSchema)
	if o.in.probe != nil {
		o.required = append(o.required, name)
	}
	if !given {
		o.in.invalid("body lacks the member %q, a string", name)
		return ""
	}
	s, ok := rawjson.Text(raw)
	if !ok {
		o.in.invalid("member %q of the body must be a string", name)
	}
	return s
}

// integer returns an integer member, written without fraction and exponent.
func (o *object) integer(name string, s span) int64 {
	raw, given := o.member(name)
	o.in.describe(name, s.schema)
	if !given {
		return s.absent
	}
	n, ok := s.parse(string(raw))
	if !ok {
		o.in.invalid("member %q of the body is %.64s, it takes an integer from %d to %d", name, raw, s.min, s.max)
	}
	return n
}

// boolean returns a boolean member, false if it is missing.
func (o *object) boolean(name string) bool {
	raw, given := o.member(name)
	o.in.describe(name, boolSchema)
	if given && string(raw) != "true" && string(raw) != "false" {
		o.in.invalid("member %q of the body is %.64s, it takes true or false", name, raw)
	}
	return string(raw) == "true"
}

func (o *object) finish() {
	for name := range o.members {
		o.in.invalid("body has an unknown member %.64q: it takes %s%s", name, strings.Join(o.asked, ", "), didYouMean(name, o.asked))
	}
}

// didYouMean returns a hint at the name that an unknown one was probably meant to be.
func didYouMean(unknown string, known []string) string {
	if near := spelling.Nearest(unknown, known); near != "" {
		return fmt.Sprintf(" (did you mean %s?)", near)
	}
	return ""
}

// parseObject returns the members of a JSON object. It is stricter than encoding/json, so that all
// parsers of a body agree: no byte order mark, only valid UTF-8, no lone surrogates, no duplicate
// members, and case-sensitive names. All errors are ErrInvalid.
func parseObject(body []byte) (map[string]json.RawMessage, error) {
	if err := checkText(body); err != nil {
		return nil, err
	}
	if err := checkSyntax(body); err != nil {
		return nil, err
	}
	members, err := make(map[string]json.RawMessage), error(nil)
	object := rawjson.EachMember(body, func(key, value []byte) bool {
		name, _ := rawjson.Text(key)
		if _, twice := members[name]; twice {
			err = engine.Errorf(engine.ErrInvalid, "body has the member %.64q twice", name)
		}
		if members[name] = value; len(members) > maxMembers {
			err = engine.Errorf(engine.ErrInvalid, "body has more than %d members", maxMembers)
		}
		return err == nil
	})
	if !object {
		return nil, engine.Errorf(engine.ErrInvalid, "body is not a JSON object")
	}
	return members, err
}

func checkText(body []byte) error {
	const byteOrderMark = "\xef\xbb\xbf"
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return engine.Errorf(engine.ErrInvalid, "body is empty, a JSON object is needed")
	case bytes.HasPrefix(body, []byte(byteOrderMark)):
		return engine.Errorf(engine.ErrInvalid, "body begins with a byte order mark")
	case !utf8.Valid(body):
		return engine.Errorf(engine.ErrInvalid, "body is not valid UTF-8")
	}
	return nil
}

// checkSyntax rejects bodies that are not one JSON value, nest too deeply or contain half a
// surrogate pair.
func checkSyntax(body []byte) error {
	if !rawjson.Valid(body) { // which is faster than the package that says why
		if err := json.Unmarshal(body, new(json.RawMessage)); err != nil {
			var syntax *json.SyntaxError
			if errors.As(err, &syntax) {
				return engine.Errorf(engine.ErrInvalid, "body is not valid JSON at byte %d: %v", syntax.Offset, err)
			}
			return engine.Errorf(engine.ErrInvalid, "body is not valid JSON: %v", err)
		}
	}
	depth, inString, plain := 0, false, bytes.IndexByte(body, '\\') < 0
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case plain && c == '"': // no quote is escaped
			i += 1 + bytes.IndexByte(body[i+1:], '"')
		case inString && c == '\\':
			n := escapeLength(body[i:])
			if n == 0 {
				return engine.Errorf(engine.ErrInvalid, "body has half a surrogate pair at byte %d", i)
			}
			i += n - 1
		case c == '"':
			inString = !inString
		case !inString && (c == '{' || c == '['):
			if depth++; depth > maxDepth {
				return engine.Errorf(engine.ErrInvalid, "body nests deeper than %d", maxDepth)
			}
		case !inString && (c == '}' || c == ']'):
			depth--
		}
	}
	return nil
}

// escapeLength returns the length of the valid escape sequence at the start of s; a surrogate pair
// counts as one. It is 0 for half a pair.
func escapeLength(s []byte) int {
	const short, long = len(`\n`), len(`\u0000`)
	if s[1] != 'u' {
		return short
	}
	first := codeUnit(s[short:long])
	if !utf16.IsSurrogate(first) {
		return long
	}
	rest := s[long:]
	if len(rest) >= long && slices.Equal(rest[:short], []byte(`\u`)) &&
		utf16.DecodeRune(first, codeUnit(rest[short:long])) != utf8.RuneError {
		return 2 * long
	}
	return 0
}

func codeUnit(hex []byte) rune {
	n, err := strconv.ParseUint(string(hex), 16, 16)
	if err != nil {
		return 0
	}
	return rune(n)
}
