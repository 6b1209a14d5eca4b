package flow

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/floedb/floe/internal/document"
	"github.com/floedb/floe/internal/rawjson"
)

// Path leads to a value: $.input.a[0]["x y"]. See Root for where paths begin.
type Path struct {
	root Root
	name string // of the step or signal
	hops []hop
}

// Root returns where the path begins.
func (p *Path) Root() Root { return p.root }

// hop goes from a value to a part of it: a member of an object, or an element of an array.
type hop struct {
	key   string
	at    int64 // of an element
	index bool
}

// maxHops is how long paths are at most. Each hop goes over what is left of the value once.
const maxHops = 64

// Append appends the value that the path leads to, as it is written there. It appends nothing if there is none.
func (p *Path) Append(dst []byte, s Source) []byte { return append(dst, p.value(s)...) }

// value returns the value, which is valid until the source is asked again.
func (p *Path) value(s Source) []byte {
	raw := rawjson.TrimSpace(s.Root(p.root, p.name))
	if !rawjson.Valid(raw) {
		return nil
	}
	for i := range p.hops {
		if raw = p.hops[i].from(raw); raw == nil {
			return nil
		}
	}
	return raw
}

// from returns the part of a valid value.
func (h *hop) from(raw []byte) []byte {
	if !h.index {
		return rawjson.FindMember(raw, h.key)
	}
	var found []byte
	n := int64(0)
	rawjson.EachElement(raw, func(element []byte) bool {
		if n == h.at {
			found = element
		}
		n++
		return found == nil
	})
	return found
}

// pathRules say what the place of a path allows.
type pathRules struct {
	bare bool   // without $.
	item bool   // $.item and $.index are there
	as   string // another name for $.item
	own  bool   // the input of a step comes before that of the run
}

// parsePath reads a path. The step that it names is returned with its name as it is written.
func parsePath(text string, rules pathRules) (Path, error) {
	rest, dollar := strings.CutPrefix(text, "$")
	if dollar {
		if !strings.HasPrefix(rest, ".") && !strings.HasPrefix(rest, "[") {
			return Path{}, errors.New("expected $.input, $.steps, $.signals, $.flo, $.item or $.index")
		}
	} else {
		if !rules.bare {
			return Path{}, errors.New("expected $. in front")
		}
		rest = "." + text
	}
	hops, err := parseHops(rest)
	if err != nil {
		return Path{}, err
	}
	return rootPath(hops, rules)
}

// rootPath takes the first hops for the root.
func rootPath(hops []hop, rules pathRules) (Path, error) {
	if len(hops) == 0 || hops[0].index {
		return Path{}, errors.New("expected $.input, $.steps, $.signals, $.flo, $.item or $.index")
	}
	first := hops[0].key
	name := func(i int) string {
		if i < len(hops) && !hops[i].index {
			return hops[i].key
		}
		return ""
	}
	p := Path{}
	used := 1
	switch {
	case rules.item && first == rules.as && first != "" || first == "item":
		p.root = RootItem
	case first == "index":
		p.root = RootIndex
	case first == "input":
		p.root = RootInput
	case first == "signals":
		p.root, p.name, used = RootSignal, name(1), 2
		if p.name == "" {
			return p, errors.New("expected $.signals.<type>")
		}
	case first == "steps":
		p.name, used = name(1), 3
		switch name(2) {
		case "output":
			p.root = RootOutput
		case "outcome":
			p.root = RootOutcome
		}
		if p.name == "" || p.root == 0 {
			return p, errors.New("expected $.steps.<name>.output or $.steps.<name>.outcome")
		}
	case first == "flo" || first == "floe":
		used = 2
		switch name(1) {
		case "run_id", "runId":
			p.root = RootRunID
		case "timestamp":
			p.root = RootTimestamp
		default:
			return p, errors.New("expected $.flo.run_id or $.flo.timestamp")
		}
	default:
		return p, fmt.Errorf("unknown root %q, expected input, steps, signals, flo%s", first, rules.items())
	}
	if (p.root == RootItem || p.root == RootIndex) && !rules.item {
		return p, fmt.Errorf("$.%s is there only in a parallel step with each", first)
	}
	if rules.own && p.root == RootInput {
		p.root = RootStepInput
	}
	switch p.hops = hops[used:]; {
	case len(p.hops) == 0:
		p.hops = nil
	case len(p.hops) > maxHops:
		return p, fmt.Errorf("a path goes through at most %d members", maxHops)
	}
	return p, nil
}

func (r *pathRules) items() string {
	switch {
	case !r.item:
		return ""
	case r.as != "" && r.as != "item":
		return ", item, " + r.as + " or index"
	}
	return ", item or index"
}

// parseHops reads .name, [0] and ["name"], in any order.
func parseHops(rest string) ([]hop, error) {
	var hops []hop
	for rest != "" {
		if len(hops) == maxHops+3 {
			return nil, fmt.Errorf("a path goes through at most %d members", maxHops)
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

// parseHop reads one and says how long it is.
func parseHop(rest string) (hop, int, error) {
	switch {
	case rest[0] == '.':
		n := 1 + document.NameLen(rest[1:])
		if n == 1 {
			return hop{}, 0, errors.New("expected a name after a dot")
		}
		return hop{key: rest[1:n]}, n, nil
	case rest[0] != '[':
		r, _ := utf8.DecodeRuneInString(rest)
		return hop{}, 0, fmt.Errorf("found %q, expected a dot or [", r)
	case len(rest) > 1 && (rest[1] == '"' || rest[1] == '\''):
		return parseQuotedHop(rest)
	}
	end := strings.IndexByte(rest, ']')
	if end < 0 {
		return hop{}, 0, errors.New("expected ] at the end of an index")
	}
	at, err := strconv.ParseUint(rest[1:end], 10, 31)
	if err != nil {
		return hop{}, 0, fmt.Errorf("found [%s], expected an index from 0 or a name in quotes", rest[1:end])
	}
	return hop{at: int64(at), index: true}, end + 1, nil
}

// parseQuotedHop reads ["name"] or ['name'], with backslashes in front of quotes and backslashes.
func parseQuotedHop(rest string) (hop, int, error) {
	var key []byte
	for i := 2; i+1 < len(rest); i++ {
		switch c := rest[i]; {
		case c == '\\':
			i++
			key = append(key, rest[i])
		case c == rest[1] && rest[i+1] == ']':
			return hop{key: string(key)}, i + 2, nil
		case c == rest[1]:
			return hop{}, 0, errors.New("expected ] after a name in quotes")
		default:
			key = append(key, c)
		}
	}
	return hop{}, 0, errors.New("a name in quotes has no end")
}
