package flow

import (
	"errors"
	"fmt"
	"strings"

	"github.com/floedb/floe/internal/expression"
	"github.com/floedb/floe/internal/rawjson"
)

// Path is the path of a value: $.input.a[0]["x y"]. See Root for the possible roots.
type Path struct {
	root Root
	name string // of the step or signal
	hops []expression.Hop
}

// Root returns the root of the path.
func (p *Path) Root() Root { return p.root }

// Append appends the raw value at the path. It appends nothing if the value is missing.
func (p *Path) Append(dst []byte, s Source) []byte { return append(dst, p.value(s)...) }

// value returns the value at the path, valid until the next call of the source.
func (p *Path) value(s Source) []byte {
	raw := rawjson.TrimSpace(s.Root(p.root, p.name))
	if !rawjson.Valid(raw) {
		return nil
	}
	for i := range p.hops {
		if raw = partOf(raw, &p.hops[i]); raw == nil {
			return nil
		}
	}
	return raw
}

// partOf returns the part of a valid value that the hop selects.
func partOf(raw []byte, h *expression.Hop) []byte {
	if !h.Index {
		return rawjson.FindMember(raw, h.Key)
	}
	var found []byte
	n := int64(0)
	rawjson.EachElement(raw, func(element []byte) bool {
		if n == h.At {
			found = element
		}
		n++
		return found == nil
	})
	return found
}

// pathRules are the rules for paths at a place in a definition.
type pathRules struct {
	bare bool   // paths without $. are allowed
	item bool   // $.item and $.index exist
	as   string // alias of $.item
	own  bool   // the step's input takes precedence over the run's
}

// parsePath parses a path. A step's name in it is returned as written.
func parsePath(text string, rules pathRules) (Path, error) {
	rest, dollar := strings.CutPrefix(text, "$")
	if dollar {
		if !strings.HasPrefix(rest, ".") && !strings.HasPrefix(rest, "[") {
			return Path{}, errors.New("expected $.input, $.steps, $.signals, $.flo, $.item or $.index")
		}
	} else {
		if !rules.bare {
			return Path{}, errors.New(`expected a path that begins with "$."`)
		}
		rest = "." + text
	}
	hops, err := expression.ParseHops(rest)
	if err != nil {
		return Path{}, err
	}
	return rootPath(hops, rules)
}

// rootPath interprets the first hops as the root.
func rootPath(hops []expression.Hop, rules pathRules) (Path, error) {
	if len(hops) == 0 || hops[0].Index {
		return Path{}, errors.New("expected $.input, $.steps, $.signals, $.flo, $.item or $.index")
	}
	first := hops[0].Key
	name := func(i int) string {
		if i < len(hops) && !hops[i].Index {
			return hops[i].Key
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
		return p, fmt.Errorf("$.%s exists only in a parallel step with each", first)
	}
	if rules.own && p.root == RootInput {
		p.root = RootStepInput
	}
	switch p.hops = hops[used:]; {
	case len(p.hops) == 0:
		p.hops = nil
	case len(p.hops) > expression.MaxHops:
		return p, fmt.Errorf("a path has at most %d members", expression.MaxHops)
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
