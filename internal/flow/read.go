package flow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// reader makes a Definition of a document.
type reader struct {
	*report
	d      *Definition
	places map[string]Place // of steps and terminals, by name
	lines  []int            // of steps
	plans  map[string]int
	used   map[string]bool // plans that are run
	steps  []stepUse
}

// stepUse is a step that a path names.
type stepUse struct {
	name string
	at   string
	line int
}

// field is a key of a table: its names in snake_case, divided by spaces, the first of which is the one to prefer, and what reads its value.
type field struct {
	names string
	read  func(n *node, at string)
	null  bool // null is a value, not the same as no key
}

// table reads a table. Keys may be written in snake_case and in camelCase; one that is not known is a problem.
func (r *reader) table(n *node, at string, fields ...field) {
	if n.kind != nodeTable {
		r.fail(n.line, "wrong-type", "%s is %s, expected a table", at, n.describe())
		return
	}
	seen := make([]string, len(fields))
	for i := range n.pairs {
		p := &n.pairs[i]
		f := slices.IndexFunc(fields, func(f field) bool { return f.is(p.key) })
		switch {
		case f < 0:
			r.fail(p.line, "unknown-key", "unknown key %s in %s%s", quote(p.key), at, r.nearest(p.key, names(fields)))
		case seen[f] != "":
			r.fail(p.line, "duplicate-key", "%s and %s in %s say the same", seen[f], p.key, at)
		case p.value.kind == nodeNull && !fields[f].null:
			seen[f] = p.key
		default:
			seen[f] = p.key
			fields[f].read(p.value, under(at, p.key))
		}
	}
}

// top is what the whole document is called.
const top = "the definition"

// under returns the path of a key, for messages.
func under(at, key string) string {
	key = clip(key)
	if key == "" || nameLen(key) != len(key) {
		key = strconv.Quote(key)
	}
	if at == top {
		return key
	}
	return at + "." + key
}

func (f *field) is(key string) bool {
	for name := range strings.FieldsSeq(f.names) {
		if key == name || strings.Contains(name, "_") && key == camel(name) {
			return true
		}
	}
	return false
}

func names(fields []field) func() []string {
	return func() (list []string) {
		for _, f := range fields {
			list = append(list, strings.Fields(f.names)...)
		}
		return list
	}
}

// camel turns snake_case into camelCase.
func camel(snake string) string {
	if strings.HasPrefix(snake, "_") {
		return snake
	}
	words := strings.Split(snake, "_")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// The readers of scalars.

func (r *reader) text(v *string) func(*node, string) {
	return func(n *node, at string) {
		if n.kind != nodeText {
			r.fail(n.line, "wrong-type", "%s is %s, expected text%s", at, n.describe(), n.inQuotes())
			return
		}
		*v = n.text
	}
}

// inQuotes hints at what makes text of a scalar.
func (n *node) inQuotes() string {
	if n.kind == nodeNumber || n.kind == nodeBool {
		return ": put it in quotes"
	}
	return ""
}

// name reads a name as everything in floe has one.
func (r *reader) name(v *string) func(*node, string) {
	return func(n *node, at string) {
		if r.text(v)(n, at); n.kind == nodeText {
			r.checkName(n.text, at, n.line)
		}
	}
}

// MaxName is how many bytes a name has at most.
const MaxName = 255

// checkName says whether a name may be one.
func (r *reader) checkName(name, at string, line int) bool {
	switch {
	case name == "":
		r.fail(line, "bad-name", "%s is empty", at)
	case len(name) > MaxName:
		r.fail(line, "bad-name", "%s is a name of %d bytes, at most %d are allowed", at, len(name), MaxName)
	default:
		i := strings.IndexFunc(name, func(c rune) bool {
			return unicode.IsControl(c) || unicode.In(c, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
		})
		if i < 0 {
			return true
		}
		c := []rune(name[i:])[0]
		r.fail(line, "bad-name", "%s is %s, which holds the control character %U", at, strconv.QuoteToASCII(clip(name)), c)
	}
	return false
}

func (r *reader) boolean(v *bool) func(*node, string) {
	return func(n *node, at string) {
		if n.kind != nodeBool {
			r.fail(n.line, "wrong-type", "%s is %s, expected true or false", at, n.describe())
			return
		}
		*v = strings.EqualFold(n.text, "true")
	}
}

// count reads a whole number within bounds.
func (r *reader) count(v *int64, least, most int64) func(*node, string) {
	return func(n *node, at string) {
		i, err := strconv.ParseInt(n.text, 10, 64)
		if n.kind != nodeNumber || err != nil || i < least || i > most {
			r.fail(n.line, "bad-number", "%s is %s, expected a whole number from %d to %d", at, n.describe(), least, most)
			return
		}
		*v = i
	}
}

// millis reads a time: a number of ms, or text such as 5m.
func (r *reader) millis(v *int64, least int64) func(*node, string) {
	return func(n *node, at string) {
		ms, ok := millisOf(n)
		switch {
		case !ok:
			r.fail(n.line, "bad-duration", "%s is %s, expected a number of ms or a duration such as 500ms, 5m or 7d", at, n.describe())
		case ms < least || ms > maxMillis:
			r.fail(n.line, "bad-duration", "%s is %s, expected %d ms to 100 years", at, n.describe(), least)
		default:
			*v = ms
		}
	}
}

func millisOf(n *node) (ms int64, ok bool) {
	switch n.kind {
	case nodeNumber:
		ms, err := strconv.ParseInt(n.text, 10, 64)
		return ms, err == nil
	case nodeText:
		return duration(n.text)
	}
	return 0, false
}

// duration reads 1h30m, 500ms, or 7d, in ms.
func duration(text string) (ms int64, ok bool) {
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		n, err := strconv.ParseUint(days, 10, 16)
		return int64(n) * 24 * 3600 * 1000, err == nil
	}
	d, err := time.ParseDuration(text)
	return d.Milliseconds(), err == nil && d%time.Millisecond == 0
}

// word reads one of the words of a closed set. Several spellings of one are divided by spaces, the first of which is the one to prefer; - and _ are the same in all
// of them.
func word[T any](r *reader, v *T, set ...choice[T]) func(*node, string) {
	return func(n *node, at string) {
		var all []string
		for _, c := range set {
			spellings := strings.Fields(c.words)
			for _, s := range spellings {
				if n.kind == nodeText && dashed(n.text) == dashed(s) {
					*v = c.value
					return
				}
			}
			all = append(all, spellings[0])
		}
		r.fail(n.line, "bad-value", "%s is %s, expected %s", at, n.describe(), oneOf(all))
	}
}

func dashed(s string) string { return strings.ReplaceAll(s, "_", "-") }

// choice is a member of a closed set.
type choice[T any] struct {
	words string
	value T
}

// each reads a list.
func (r *reader) each(most int, read func(n *node, at string)) func(*node, string) {
	return func(n *node, at string) {
		if n.kind != nodeList {
			r.fail(n.line, "wrong-type", "%s is %s, expected a list", at, n.describe())
			return
		}
		for i, item := range n.items {
			if i == most {
				r.fail(item.line, "too-many", "%s has %d elements, at most %d are allowed", at, len(n.items), most)
				return
			}
			read(item, fmt.Sprintf("%s[%d]", at, i))
		}
	}
}

// texts reads a list of different names.
func (r *reader) texts(v *[]string) func(*node, string) {
	return r.each(MaxNames, func(n *node, at string) {
		name := ""
		if r.name(&name)(n, at); slices.Contains(*v, name) {
			r.fail(n.line, "duplicate-name", "%s is %s, which stands in the list already", at, quote(name))
			return
		}
		*v = append(*v, name)
	})
}

// named reads a table whose keys are names.
func (r *reader) named(most int, read func(name string, p *pair, at string)) func(*node, string) {
	return func(n *node, at string) {
		if n.kind != nodeTable {
			r.fail(n.line, "wrong-type", "%s is %s, expected a table", at, n.describe())
			return
		}
		for i := range n.pairs {
			p := &n.pairs[i]
			if i == most {
				r.fail(p.line, "too-many", "%s has %d members, at most %d are allowed", at, len(n.pairs), most)
				return
			}
			r.checkName(p.key, "a key of "+at, p.line)
			read(p.key, p, under(at, p.key))
		}
	}
}
