package expression

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/floedb/floe/internal/document"
	"github.com/floedb/floe/internal/rawjson"
)

// Path is the path of a part of a JSON value: $.a.b[0]["x y"], or a.b. The zero Path is the whole
// value.
type Path struct {
	text  string // in gjson's syntax
	shown string
}

// MaxHops is the maximum number of hops of a path.
const MaxHops = 64

// ParsePath parses a path with or without a leading $.
func ParsePath(text string) (Path, error) {
	rest := text
	switch {
	case text == "$":
		return Path{shown: "$"}, nil
	case strings.HasPrefix(text, "$.") || strings.HasPrefix(text, "$["):
		rest = text[1:]
	case text == "":
		return Path{}, errors.New("the path is empty")
	case text[0] != '[':
		rest = "." + text
	}
	hops, err := ParseHops(rest)
	if err != nil {
		return Path{}, err
	}
	return pathOf(hops)
}

func pathOf(hops []Hop) (p Path, err error) {
	if len(hops) > MaxHops {
		return Path{}, errHops
	}
	for _, h := range hops {
		switch {
		case h.Index && h.At > math.MaxInt32:
			return Path{}, fmt.Errorf("index %d, expected at most %d", h.At, math.MaxInt32)
		case h.Index:
			p.index(h.At)
		case h.Key == "":
			return Path{}, errors.New("a name in quotes is empty")
		default:
			p.name(h.Key)
		}
	}
	return p, nil
}

var errHops = fmt.Errorf("a path has at most %d members", MaxHops)

// ParseHops parses .name, [0] and ["name"], in any order. It allows three more than MaxHops, for
// the root of a path.
func ParseHops(rest string) ([]Hop, error) {
	var hops []Hop
	for rest != "" {
		if len(hops) == MaxHops+3 {
			return nil, errHops
		}
		h, n, err := parseHop(rest)
		if err != nil {
			return nil, err
		}
		hops = append(hops, h)
		rest = rest[n:]
	}
	return hops, nil
}

// parseHop parses a hop and returns its length.
func parseHop(rest string) (Hop, int, error) {
	switch {
	case rest[0] == '.':
		n := 1 + document.NameLen(rest[1:])
		if n == 1 {
			return Hop{}, 0, errors.New("expected a name after a dot")
		}
		return Hop{Key: rest[1:n]}, n, nil
	case rest[0] != '[':
		r, _ := utf8.DecodeRuneInString(rest)
		return Hop{}, 0, fmt.Errorf("found %q, expected a dot or [", r)
	case len(rest) > 1 && (rest[1] == '"' || rest[1] == '\''):
		return parseQuotedHop(rest)
	}
	end := strings.IndexByte(rest, ']')
	if end < 0 {
		return Hop{}, 0, errors.New("expected ] at the end of an index")
	}
	at, err := strconv.ParseUint(rest[1:end], 10, 31)
	if err != nil {
		return Hop{}, 0, fmt.Errorf("found [%s], expected an index from 0 or a name in quotes", document.Clip(rest[1:end]))
	}
	return Hop{At: int64(at), Index: true}, end + 1, nil
}

// parseQuotedHop parses ["name"] or ['name']. Quotes and backslashes are escaped with a backslash.
func parseQuotedHop(rest string) (Hop, int, error) {
	var key []byte
	for i := 2; i+1 < len(rest); i++ {
		switch c := rest[i]; {
		case c == '\\':
			i++
			key = append(key, rest[i])
		case c == rest[1] && rest[i+1] == ']':
			return Hop{Key: string(key)}, i + 2, nil
		case c == rest[1]:
			return Hop{}, 0, errors.New("expected ] after a name in quotes")
		default:
			key = append(key, c)
		}
	}
	return Hop{}, 0, errors.New("a name in quotes has no end")
}

// name adds a member. Characters that are special in gjson are escaped.
func (p *Path) name(name string) {
	if p.text != "" {
		p.text += "."
	}
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; c < utf8.RuneSelf && c != '_' && c != '-' && !('0' <= c && c <= '9') && !('a' <= c|0x20 && c|0x20 <= 'z') {
			b.WriteByte('\\')
		}
		b.WriteByte(name[i])
	}
	p.text += b.String()
	p.show()
	if n := document.NameLen(name); n == len(name) {
		p.shown += "." + name
		return
	}
	p.shown += "[" + string(rawjson.AppendText(nil, name)) + "]"
}

// index adds an element.
func (p *Path) index(at int64) {
	if p.text != "" {
		p.text += "."
	}
	p.text += strconv.FormatInt(at, 10)
	p.show()
	p.shown += "[" + strconv.FormatInt(at, 10) + "]"
}

func (p *Path) show() {
	if p.shown == "" {
		p.shown = "$"
	}
}

// String returns the path with a leading $.
func (p Path) String() string {
	if p.shown == "" {
		return "$"
	}
	return p.shown
}

// Of returns the part of a valid JSON value at the path.
func (p Path) Of(json string) gjson.Result {
	if p.text == "" {
		return gjson.Parse(json)
	}
	return gjson.Get(json, p.text)
}
