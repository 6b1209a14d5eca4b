package document

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Reader reads the nodes of a document into Go values and reports problems.
type Reader struct {
	*Report

	// Tell, if not nil, receives the type, default and limits of a value instead of reading it. It
	// is used to generate references.
	Tell func(kind string)
}

// Told calls Tell and reports whether it is set.
func (r *Reader) Told(format string, args ...any) bool {
	if r.Tell == nil {
		return false
	}
	r.Tell(fmt.Sprintf(format, args...))
	return true
}

const (
	// MaxMillis is the maximum duration in a document: 100 years.
	MaxMillis = 100 * 365 * 24 * 3600 * 1000
	maxNames  = 100 // in a list of names
)

// Field is a key of a table and the function that reads its value. Names lists its names in
// snake_case, separated by spaces, the preferred one first.
type Field struct {
	Names string
	Read  func(n *Node, at string)
	Null  bool // null is a value, not a missing key
}

// Table reads a table. Keys may be in snake_case or camelCase. An unknown key is a problem.
func (r *Reader) Table(n *Node, at string, fields ...Field) {
	if r.Told("table") {
		return
	}
	if n.Kind != Table {
		r.Fail(n.Line, "wrong-type", "%s is %s, expected a table", at, n.Describe())
		return
	}
	seen := make([]string, len(fields))
	for i := range n.Pairs {
		p := &n.Pairs[i]
		f := slices.IndexFunc(fields, func(f Field) bool { return f.is(p.Key) })
		switch {
		case f < 0:
			r.Fail(p.Line, "unknown-key", "unknown key %s in %s%s", Quote(p.Key), at, r.Nearest(p.Key, names(fields)))
		case seen[f] != "":
			r.Fail(p.Line, "duplicate-key", "%s and %s in %s are the same key", seen[f], p.Key, at)
		case p.Value.Kind == Null && !fields[f].Null:
			seen[f] = p.Key
		default:
			seen[f] = p.Key
			fields[f].Read(p.Value, Under(at, p.Key))
		}
	}
}

// Top is the name of the whole document in messages.
const Top = "the definition"

// Under returns the path of a key, for messages.
func Under(at, key string) string {
	key = Clip(key)
	if key == "" || NameLen(key) != len(key) {
		key = strconv.Quote(key)
	}
	if at == Top {
		return key
	}
	return at + "." + key
}

// Get returns the value of a key in either spelling, nil if it is missing or null.
func (n *Node) Get(name string) *Node {
	f := Field{Names: name}
	for i := range n.Pairs {
		if f.is(n.Pairs[i].Key) && n.Pairs[i].Value.Kind != Null {
			return n.Pairs[i].Value
		}
	}
	return nil
}

func (f *Field) is(key string) bool {
	for name := range strings.FieldsSeq(f.Names) {
		if key == name || strings.Contains(name, "_") && key == Camel(name) {
			return true
		}
	}
	return false
}

func names(fields []Field) func() []string {
	return func() (list []string) {
		for _, f := range fields {
			list = append(list, strings.Fields(f.Names)...)
		}
		return list
	}
}

// Camel converts snake_case to camelCase.
func Camel(snake string) string {
	if strings.HasPrefix(snake, "_") {
		return snake
	}
	words := strings.Split(snake, "_")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// Text reads text.
func (r *Reader) Text(v *string) func(*Node, string) {
	return func(n *Node, at string) {
		if r.Told("text%s", defaultOf(*v)) {
			return
		}
		if n.Kind != Text {
			r.Fail(n.Line, "wrong-type", "%s is %s, expected text%s", at, n.Describe(), n.inQuotes())
			return
		}
		*v = n.Text
	}
}

// inQuotes returns a hint to quote a scalar that should be text.
func (n *Node) inQuotes() string {
	if n.Kind == Number || n.Kind == Bool {
		return ": put it in quotes"
	}
	return ""
}

// Name reads a floe name.
func (r *Reader) Name(v *string) func(*Node, string) {
	return func(n *Node, at string) {
		if r.Told("name%s", defaultOf(*v)) {
			return
		}
		if r.Text(v)(n, at); n.Kind == Text {
			r.CheckName(n.Text, at, n.Line)
		}
	}
}

// MaxName is the maximum length of a name in bytes.
const MaxName = 255

// CheckName reports whether a name is valid, and adds a problem if it is not.
func (r *Reader) CheckName(name, at string, line int) bool {
	switch {
	case name == "":
		r.Fail(line, "bad-name", "%s is empty", at)
	case len(name) > MaxName:
		r.Fail(line, "bad-name", "%s is a name of %d bytes, at most %d are allowed", at, len(name), MaxName)
	default:
		i := strings.IndexFunc(name, func(c rune) bool {
			return unicode.IsControl(c) || unicode.In(c, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
		})
		if i < 0 {
			return true
		}
		c := []rune(name[i:])[0]
		r.Fail(line, "bad-name", "%s is %s, which holds the control character %U", at, strconv.QuoteToASCII(Clip(name)), c)
	}
	return false
}

// Boolean reads true or false.
func (r *Reader) Boolean(v *bool) func(*Node, string) {
	return func(n *Node, at string) {
		if r.Told("boolean%s", defaultOf(strconv.FormatBool(*v))) {
			return
		}
		if n.Kind != Bool {
			r.Fail(n.Line, "wrong-type", "%s is %s, expected true or false", at, n.Describe())
			return
		}
		*v = strings.EqualFold(n.Text, "true")
	}
}

// Count reads an integer within bounds.
func (r *Reader) Count(v *int64, least, most int64) func(*Node, string) {
	return func(n *Node, at string) {
		if r.Tell != nil {
			preset := ""
			if least <= *v && *v <= most {
				preset = defaultOf(strconv.FormatInt(*v, 10))
			}
			r.Told("integer, %d to %d%s", least, most, preset)
			return
		}
		i, err := strconv.ParseInt(n.Text, 10, 64)
		if n.Kind != Number || err != nil || i < least || i > most {
			r.Fail(n.Line, "bad-number", "%s is %s, expected a whole number from %d to %d", at, n.Describe(), least, most)
			return
		}
		*v = i
	}
}

// Millis reads a duration: a number of ms, or text such as 5m.
func (r *Reader) Millis(v *int64, least int64) func(*Node, string) {
	return func(n *Node, at string) {
		if r.Tell != nil {
			preset := ""
			if least <= *v && *v <= MaxMillis {
				preset = defaultOf(span(*v))
			}
			r.Told("duration, %s to 100 years%s", span(least), preset)
			return
		}
		ms, ok := MillisOf(n)
		switch {
		case !ok:
			r.Fail(n.Line, "bad-duration", "%s is %s, expected a number of ms or a duration such as 500ms, 5m or 7d", at, n.Describe())
		case ms < least || ms > MaxMillis:
			r.Fail(n.Line, "bad-duration", "%s is %s, expected %d ms to 100 years", at, n.Describe(), least)
		default:
			*v = ms
		}
	}
}

// span formats a duration as written in documents.
func span(ms int64) string {
	const day = 24 * 3600 * 1000
	switch {
	case ms > 0 && ms%day == 0:
		return fmt.Sprintf("%dd", ms/day)
	case ms%60_000 == 0 && ms > 0:
		return fmt.Sprintf("%dm", ms/60_000)
	case ms%1000 == 0 && ms > 0:
		return fmt.Sprintf("%ds", ms/1000)
	case ms == 0:
		return "0"
	}
	return fmt.Sprintf("%dms", ms)
}

// defaultOf describes the default value of a key.
func defaultOf(value string) string {
	if value == "" {
		return ""
	}
	return "; default `" + value + "`"
}

// MillisOf returns the duration given as a number of ms or as text.
func MillisOf(n *Node) (ms int64, ok bool) {
	switch n.Kind {
	case Number:
		ms, err := strconv.ParseInt(n.Text, 10, 64)
		return ms, err == nil
	case Text:
		return Duration(n.Text)
	}
	return 0, false
}

// Duration parses 1h30m, 500ms or 7d, and returns ms.
func Duration(text string) (ms int64, ok bool) {
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		n, err := strconv.ParseUint(days, 10, 16)
		return int64(n) * 24 * 3600 * 1000, err == nil
	}
	d, err := time.ParseDuration(text)
	return d.Milliseconds(), err == nil && d%time.Millisecond == 0
}

// Word reads a word of a closed set. Spellings of a word are separated by spaces, the preferred one
// first; - and _ are equivalent in all of them.
func Word[T any](r *Reader, v *T, set ...Choice[T]) func(*Node, string) {
	return func(n *Node, at string) {
		var all []string
		if r.Tell != nil {
			preset := ""
			for _, c := range set {
				word, _, _ := strings.Cut(c.Words, " ")
				if all = append(all, "`"+word+"`"); len(set) > 1 && any(c.Value) == any(*v) {
					preset = defaultOf(word)
				}
			}
			r.Tell(OneOf(all) + preset)
			return
		}
		for _, c := range set {
			spellings := strings.Fields(c.Words)
			for _, s := range spellings {
				if n.Kind == Text && Dashed(n.Text) == Dashed(s) {
					*v = c.Value
					return
				}
			}
			all = append(all, spellings[0])
		}
		r.Fail(n.Line, "bad-value", "%s is %s, expected %s", at, n.Describe(), OneOf(all))
	}
}

// Dashed replaces each _ by -.
func Dashed(s string) string { return strings.ReplaceAll(s, "_", "-") }

// Choice is a member of a closed set.
type Choice[T any] struct {
	Words string
	Value T
}

// Is returns a Choice.
func Is[T any](words string, value T) Choice[T] { return Choice[T]{words, value} }

// Each reads a list.
func (r *Reader) Each(most int, read func(n *Node, at string)) func(*Node, string) {
	return func(n *Node, at string) {
		if r.Told("list of at most %d", most) {
			return
		}
		if n.Kind != List {
			r.Fail(n.Line, "wrong-type", "%s is %s, expected a list", at, n.Describe())
			return
		}
		for i, item := range n.Items {
			if i == most {
				r.Fail(item.Line, "too-many", "%s has %d elements, at most %d are allowed", at, len(n.Items), most)
				return
			}
			read(item, fmt.Sprintf("%s[%d]", at, i))
		}
	}
}

// Texts reads a list of distinct names.
func (r *Reader) Texts(v *[]string) func(*Node, string) {
	return r.Each(maxNames, func(n *Node, at string) {
		name := ""
		if r.Name(&name)(n, at); slices.Contains(*v, name) {
			r.Fail(n.Line, "duplicate-name", "%s is %s, which is already in the list", at, Quote(name))
			return
		}
		*v = append(*v, name)
	})
}

// Named reads a table whose keys are names.
func (r *Reader) Named(most int, read func(name string, p *Pair, at string)) func(*Node, string) {
	return func(n *Node, at string) {
		if r.Tell != nil {
			bound := ""
			if most < math.MaxInt {
				bound = fmt.Sprintf(" of at most %d", most)
			}
			r.Told("table%s by name", bound)
			return
		}
		if n.Kind != Table {
			r.Fail(n.Line, "wrong-type", "%s is %s, expected a table", at, n.Describe())
			return
		}
		for i := range n.Pairs {
			p := &n.Pairs[i]
			if i == most {
				r.Fail(p.Line, "too-many", "%s has %d members, at most %d are allowed", at, len(n.Pairs), most)
				return
			}
			r.CheckName(p.Key, "a key of "+at, p.Line)
			read(p.Key, p, Under(at, p.Key))
		}
	}
}

// NameLen returns the length in bytes of the prefix of text that is a name without quotes.
func NameLen(text string) int {
	for i, r := range text {
		if r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return i
		}
	}
	return len(text)
}

// Snake converts camelCase to snake_case: keyBy becomes key_by.
func Snake(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; 'A' <= c && c <= 'Z' {
			b.WriteByte('_')
			b.WriteByte(c | 0x20)
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
