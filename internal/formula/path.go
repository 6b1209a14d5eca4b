package formula

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/floedb/floe/internal/document"
	"github.com/floedb/floe/internal/rawjson"
)

// Path leads to a part of a JSON value: $.a.b[0]["x y"], or a.b. The zero Path leads to the whole value.
type Path struct {
	text  string // as gjson reads it
	shown string
}

// MaxHops is how many members a path goes through at most.
const MaxHops = 64

// ParsePath reads a path, with or without $ in front.
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
	var p Path
	for hops := 0; rest != ""; hops++ {
		if hops == MaxHops {
			return Path{}, fmt.Errorf("a path goes through at most %d members", MaxHops)
		}
		n, err := p.hop(rest)
		if err != nil {
			return Path{}, err
		}
		rest = rest[n:]
	}
	return p, nil
}

// hop adds what the text begins with and says how long that is.
func (p *Path) hop(rest string) (int, error) {
	switch {
	case rest[0] == '.':
		n := 1 + document.NameLen(rest[1:])
		if n == 1 {
			return 0, errors.New("expected a name after a dot")
		}
		p.name(rest[1:n])
		return n, nil
	case rest[0] != '[':
		r, _ := utf8.DecodeRuneInString(rest)
		return 0, fmt.Errorf("found %q, expected a dot or [", r)
	case len(rest) > 1 && (rest[1] == '"' || rest[1] == '\''):
		return p.quoted(rest)
	}
	end := strings.IndexByte(rest, ']')
	if end < 0 {
		return 0, errors.New("expected ] at the end of an index")
	}
	at, err := strconv.ParseUint(rest[1:end], 10, 31)
	if err != nil {
		return 0, fmt.Errorf("found [%s], expected an index from 0 or a name in quotes", document.Clip(rest[1:end]))
	}
	p.index(int64(at))
	return end + 1, nil
}

// quoted adds ["name"] or ['name'], with backslashes in front of quotes and backslashes.
func (p *Path) quoted(rest string) (int, error) {
	var name []byte
	for i := 2; i+1 < len(rest); i++ {
		switch c := rest[i]; {
		case c == '\\':
			i++
			name = append(name, rest[i])
		case c == rest[1] && rest[i+1] == ']' && len(name) == 0:
			return 0, errors.New("a name in quotes is empty")
		case c == rest[1] && rest[i+1] == ']':
			p.name(string(name))
			return i + 2, nil
		case c == rest[1]:
			return 0, errors.New("expected ] after a name in quotes")
		default:
			name = append(name, c)
		}
	}
	return 0, errors.New("a name in quotes has no end")
}

// name adds a member. All that gjson takes for more than a letter is escaped.
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

// String returns the path with $ in front.
func (p Path) String() string {
	if p.shown == "" {
		return "$"
	}
	return p.shown
}

// Of returns the part of a valid value.
func (p Path) Of(json string) gjson.Result {
	if p.text == "" {
		return gjson.Parse(json)
	}
	return gjson.Get(json, p.text)
}
