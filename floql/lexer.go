package floql

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// lexer reads a query from front to back. It does not produce tokens, because the meaning of a
// character depends on its context. In a range, ".." and "-" are operators, while in filters and
// arguments they can be part of words. So the parser requests the kind of token that it expects.
// The first error sticks, and ends the text.
type lexer struct {
	text string
	pos  int // of the next byte
	err  *Error
}

func (l *lexer) fail(offset int, format string, args ...any) {
	if l.err == nil {
		l.err = errorAt(l.text, offset, format, args...)
	}
	l.pos = len(l.text)
}

// space skips white space and comments.
func (l *lexer) space() {
	for l.pos < len(l.text) {
		switch c := l.text[l.pos]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			l.pos++
		case c == '#':
			l.pos = lineEnd(l.text, l.pos)
		default:
			return
		}
	}
}

func lineEnd(text string, from int) int {
	if i := strings.IndexByte(text[from:], '\n'); i >= 0 {
		return from + i
	}
	return len(text)
}

// next returns the next byte that is not space, 0 at the end.
func (l *lexer) next() byte {
	if l.space(); l.pos == len(l.text) {
		return 0
	}
	return l.text[l.pos]
}

// eat skips a token if it is next.
func (l *lexer) eat(sign string) bool {
	l.space()
	if !strings.HasPrefix(l.text[l.pos:], sign) {
		return false
	}
	l.pos += len(sign)
	return true
}

// expect skips a token, or fails.
func (l *lexer) expect(sign, where string) bool {
	if l.eat(sign) {
		return true
	}
	l.fail(l.pos, "found %s, expected %q %s", l.found(), sign, where)
	return false
}

// found describes the next token, for errors.
func (l *lexer) found() string {
	if l.space(); l.pos == len(l.text) {
		return "the end of the query"
	}
	if w := l.peekWord(); w != "" {
		return fmt.Sprintf("%q", w)
	}
	_, n := utf8.DecodeRuneInString(l.text[l.pos:])
	return fmt.Sprintf("%q", l.text[l.pos:l.pos+n])
}

// peekWord returns the next bare word, which may begin with a digit, or "".
func (l *lexer) peekWord() string {
	l.space()
	end := l.pos
	for end < len(l.text) && isWord(l.text[end], end == l.pos) {
		end++
	}
	return l.text[l.pos:end]
}

// identifier reads a bare word of letters, digits and underscores, or returns "".
func (l *lexer) identifier() string {
	w := l.peekWord()
	if i := strings.IndexAny(w, ".:/-"); i >= 0 {
		w = w[:i]
	}
	if w == "" || isDigit(w[0]) {
		return ""
	}
	l.pos += len(w)
	return w
}

// name reads a name, bare or quoted; what describes it, for errors.
func (l *lexer) name(what string) string {
	if c := l.next(); c == '"' || c == '\'' {
		at := l.pos
		s := l.quoted()
		if s == "" {
			l.fail(at, "found an empty name, expected %s", what)
		}
		return s
	}
	w := l.peekWord()
	if w == "" || isDigit(w[0]) {
		l.fail(l.pos, "found %s, expected %s", l.found(), what)
		return ""
	}
	l.pos += len(w)
	return w
}

// value reads the value of a tag, bare or quoted. A bare glob may have wildcards.
func (l *lexer) value(glob bool) string {
	if c := l.next(); c == '"' || c == '\'' {
		return l.quoted()
	}
	end, depth := l.pos, 0
	for ; end < len(l.text); end++ {
		c := l.text[end]
		if isWord(c, end == l.pos) || glob && strings.IndexByte("*?[]!.-/:", c) >= 0 {
			continue
		}
		if !glob || !(c == '{' || c == '}' && depth > 0 || c == ',' && depth > 0) {
			break
		}
		switch c {
		case '{':
			depth++
		case '}':
			depth--
		}
	}
	if end == l.pos {
		l.fail(l.pos, "found %s, expected a value", l.found())
		return ""
	}
	v := l.text[l.pos:end]
	l.pos = end
	return v
}

// quoted reads a quoted string. A backslash escapes a quote or a backslash, and \n, \t and \r have
// their usual meaning. Before any other character a backslash stands for itself.
func (l *lexer) quoted() string {
	start, quote := l.pos, l.text[l.pos]
	var b strings.Builder
	for i := l.pos + 1; i < len(l.text); i++ {
		c := l.text[i]
		switch {
		case c == quote:
			l.pos = i + 1
			return b.String()
		case c == '\\' && i+1 < len(l.text):
			i++
			b.WriteString(unescape(l.text[i]))
		default:
			b.WriteByte(c)
		}
	}
	l.fail(start, "unterminated string, expected %c", quote)
	return ""
}

func unescape(c byte) string {
	switch c {
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case 'r':
		return "\r"
	case '"', '\'', '\\':
		return string(rune(c))
	}
	return `\` + string([]byte{c})
}

// digits reads a run of digits.
func (l *lexer) digits() string {
	end := l.pos
	for end < len(l.text) && isDigit(l.text[end]) {
		end++
	}
	d := l.text[l.pos:end]
	l.pos = end
	return d
}

// letters reads a run of letters.
func (l *lexer) letters() string {
	end := l.pos
	for end < len(l.text) && (l.text[end]|0x20) >= 'a' && (l.text[end]|0x20) <= 'z' {
		end++
	}
	w := l.text[l.pos:end]
	l.pos = end
	return w
}

// raw reads up to the closing parenthesis without a match, ignoring quotes and comments. It returns
// the text with comments blanked out.
func (l *lexer) raw() string {
	text := l.text[l.pos:]
	var open, kept []byte
	begin := 0 // start of the text not yet in kept
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '(', '[', '{':
			open = append(open, c)
		case ')', ']', '}':
			if len(open) == 0 && c == ')' {
				l.pos += i
				return string(append(kept, text[begin:i]...))
			}
			if len(open) == 0 || open[len(open)-1] != opening(c) {
				l.fail(l.pos+i, "found %q, expected %q", string(rune(c)), closing(open))
				return ""
			}
			open = open[:len(open)-1]
		case '"', '\'', '`':
			end := stringEnd(text, i)
			if end < 0 {
				l.fail(l.pos+i, "unterminated string, expected %c", c)
				return ""
			}
			i = end
		case '#':
			end := lineEnd(text, i)
			kept = append(append(kept, text[begin:i]...), strings.Repeat(" ", end-i)...)
			begin, i = end, end-1
		case '/':
			// The compiler of expressions would treat the rest of the line, or of the expression,
			// as a comment of its own.
			if i+1 < len(text) && (text[i+1] == '/' || text[i+1] == '*') {
				l.fail(l.pos+i, "found %q, expected an operator: comments begin with #", text[i:i+2])
				return ""
			}
		}
	}
	l.fail(len(l.text), "found the end of the query, expected %q", closing(open))
	return ""
}

func opening(c byte) byte {
	switch c {
	case ']':
		return '['
	case '}':
		return '{'
	}
	return '('
}

func closing(open []byte) string {
	if len(open) == 0 {
		return ")"
	}
	switch open[len(open)-1] {
	case '[':
		return "]"
	case '{':
		return "}"
	}
	return ")"
}

// stringEnd returns the end of the string that starts at i, -1 if it does not end.
func stringEnd(b string, i int) int {
	for j := i + 1; j < len(b); j++ {
		switch {
		case b[j] == '\\' && b[i] != '`':
			j++
		case b[j] == b[i]:
			return j
		}
	}
	return -1
}
