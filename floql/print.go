package floql

import (
	"strings"
	"unicode/utf8"
)

// name returns a name as a query has it: bare, or quoted if it has to be.
func name(s string) string {
	if isBare(s) && !isDigit(s[0]) {
		return s
	}
	return quote(s)
}

// value returns the value of a tag as a query has it: bare, or quoted if it has to be.
func value(s string) string {
	if isBare(s) {
		return s
	}
	return quote(s)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isWord reports whether a bare word may have the character, at its beginning or later.
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

// quote returns a string that the lexer reads back.
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
