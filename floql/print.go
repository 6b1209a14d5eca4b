package floql

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// name returns a name in query syntax: bare, or quoted if necessary.
func name(s string) string {
	if isBare(s) && !isDigit(s[0]) {
		return s
	}
	return quote(s)
}

// value returns the value of a tag in query syntax: bare, or quoted if necessary.
func value(s string) string {
	if isBare(s) {
		return s
	}
	return quote(s)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isWord reports whether a bare word may contain the character, at its beginning or later.
func isWord(c byte, first bool) bool {
	switch {
	case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_':
		return true
	case isDigit(c):
		return true
	}
	return !first && strings.IndexByte(".:/-", c) >= 0
}

func isBare(s string) bool {
	for i := range len(s) {
		if !isWord(s[i], i == 0) {
			return false
		}
	}
	return s != ""
}

// quote returns a quoted string that the lexer reads back.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(s); {
		_, n := utf8.DecodeRuneInString(s[i:])
		switch c := s[i]; c {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case '\n':
			b.WriteString(`\n`)
		case '\t':
			b.WriteString(`\t`)
		case '\r':
			b.WriteString(`\r`)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	b.WriteByte('"')
	return b.String()
}

// Text returns the query text that was passed to Parse.
func (q *Query) Text() string { return q.text }

// String returns the query in canonical form, which Parse parses to the same query.
func (q *Query) String() string {
	var b strings.Builder
	b.WriteString(name(q.measurement))
	for i, f := range q.filters {
		b.WriteString(map[bool]string{true: "{", false: ", "}[i == 0])
		b.WriteString(f.String())
	}
	if len(q.filters) > 0 {
		b.WriteByte('}')
	}
	if q.timeRange != nil {
		b.WriteString(q.timeRange.String())
	}
	for _, s := range q.stages {
		b.WriteString(" | ")
		b.WriteString(s.String())
	}
	return b.String()
}

// String returns the stage in canonical form.
func (s *stage) String() string {
	var args []string
	skipped := false
	for i := range s.params {
		p, a := &s.params[i], &s.args[i]
		if !a.given {
			skipped = true
			continue
		}
		text := a.print(p)
		if skipped || p.named {
			text = p.name + "=" + text
		}
		args = append(args, text)
	}
	return fmt.Sprintf("%s(%s)", s.name, strings.Join(args, ", "))
}

func (a *arg) print(p *param) string {
	switch p.kind {
	case aDuration, aWindow:
		return printSpan(a.step)
	case aNumber, aWhole:
		return printNumber(a.number)
	case aWordOrNumber:
		if a.text == "" {
			return printNumber(a.number)
		}
	case aZone, aText:
		return name(a.text)
	case names, tagNames:
		var list []string
		for _, n := range a.list {
			list = append(list, name(n))
		}
		return a.text + strings.Join(list, ", ")
	case aQuery:
		return "(" + a.query.String() + ")"
	}
	return a.text
}
