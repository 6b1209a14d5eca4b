package floql

import (
	"fmt"
	"strings"
)

// Op is the operator by which a filter compares the value of a tag.
type Op uint8

// The operators of filters.
const (
	Equal    Op = iota // =
	NotEqual           // !=
	Match              // =~, a glob
	NotMatch           // !~
)

var ops = [...]string{Equal: "=", NotEqual: "!=", Match: "=~", NotMatch: "!~"}

// String returns the operator in query syntax.
func (o Op) String() string {
	if int(o) >= len(ops) {
		return fmt.Sprintf("Op(%d)", o)
	}
	return ops[o]
}

// Filter is a condition on a tag. A series without the tag has the empty value: host!=a and
// host!~a* match it, and host="" matches only such series.
type Filter struct {
	Tag   string
	Op    Op
	Value string // a value, or the glob for Match and NotMatch

	globs []string // the alternatives of the glob, without braces
}

// NewFilter returns a compiled filter.
//
// Errors: for an invalid pattern, with the reason.
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

// Matches reports whether the filter matches a series whose tag has the value, "" if the series
// does not have the tag.
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

// Prefix returns a common prefix of all values that the filter matches: the whole value for Equal,
// the part before the first wildcard for Match.
func (f *Filter) Prefix() string {
	switch f.Op {
	case Equal:
		return f.Value
	case Match:
		return globPrefix(f.globs)
	}
	return ""
}

// String returns the filter in query syntax.
func (f *Filter) String() string {
	return name(f.Tag) + f.Op.String() + value(f.Value)
}

// looksRegular reports whether a glob may have been meant as a regular expression. As a glob, web.*
// matches only values that begin with "web.".
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
