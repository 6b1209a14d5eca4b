package floql

import (
	"fmt"
	"strings"
)

// Op is how a filter compares the value of a tag.
type Op uint8

// The operators of filters.
const (
	Equal    Op = iota // =
	NotEqual           // !=
	Match              // =~, a glob
	NotMatch           // !~
)

var ops = [...]string{Equal: "=", NotEqual: "!=", Match: "=~", NotMatch: "!~"}

// String returns the operator as it is written.
func (o Op) String() string {
	if int(o) >= len(ops) {
		return fmt.Sprintf("Op(%d)", o)
	}
	return ops[o]
}

// Filter is a condition on a tag. A series without the tag is one whose value is empty: host!=a and
// host!~a* hold for it, and host="" for it only.
type Filter struct {
	Tag   string
	Op    Op
	Value string // a value, or the glob of Match and NotMatch

	globs []string // the alternatives of the glob, without braces
}

// NewFilter returns a filter that can be asked.
//
// Errors: for a pattern that is none, with the reason.
func NewFilter(tag string, op Op, value string) (Filter, error) {
	f := Filter{Tag: tag, Op: op, Value: value}
	if op > NotMatch {
		return Filter{}, fmt.Errorf("unknown operator %d", op)
	}
	var err error
	if op == Match || op == NotMatch {
		f.globs, err = parseGlob(value)
	}
	return f, err
}

// Matches reports whether the filter holds for a series whose tag has a value, "" if it has not the
// tag.
func (f *Filter) Matches(value string) bool {
	switch f.Op {
	case Equal:
		return value == f.Value
	case NotEqual:
		return value != f.Value
	}
	for _, g := range f.globs {
		if matchGlob(g, value) {
			return f.Op == Match
		}
	}
	return f.Op == NotMatch
}

// Prefix returns what every value begins with for which the filter holds: the whole value for
// Equal, what stands before the first wildcard for Match.
func (f *Filter) Prefix() string {
	switch f.Op {
	case Equal:
		return f.Value
	case Match:
		return globPrefix(f.globs)
	}
	return ""
}

// String returns the filter as a query has it.
func (f *Filter) String() string {
	return name(f.Tag) + f.Op.String() + value(f.Value)
}

// looksRegular reports whether a glob was perhaps meant to be a regular expression: web.* as a glob
// matches only what begins with "web.".
func (f *Filter) looksRegular() bool {
	if f.Op != Match && f.Op != NotMatch {
		return false
	}
	for _, sign := range []string{".*", ".+", ".?", `\d`, `\w`, `\.`, "(", "[^"} {
		if strings.Contains(f.Value, sign) {
			return true
		}
	}
	return false
}
