package engine

import (
	"fmt"
	"reflect"
	"unicode/utf8"
)

// Text is fmt.Sprintf for text that machines store or return. Quoted strings and bytes (%q) look
// the same in every build and end after 200 bytes. Package strconv follows the Unicode tables of
// the Go release, which define what is printable.
func Text(format string, args ...any) string {
	own := make([]any, len(args))
	for i, a := range args {
		own[i] = quoted(a)
	}
	return fmt.Sprintf(format, own...)
}

// Thrown returns the text of a panic value of user code. The value's methods are user code too.
// Package fmt recovers when they panic, but not when their panic value panics again.
func Thrown(value any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("a %T whose text panics", value)
		}
	}()
	return fmt.Sprint(value)
}

// quoted wraps a text argument so that its quoting does not depend on Unicode tables.
func quoted(a any) any {
	switch a := a.(type) {
	case string:
		return quotable{a, a}
	case []byte:
		return quotable{string(a), a}
	case error, fmt.Stringer:
		return a
	}
	if v := reflect.ValueOf(a); v.Kind() == reflect.String {
		return quotable{v.String(), a}
	}
	return a
}

// maxQuoted is the maximum number of bytes of a quoted text, because a message must not repeat a
// name or key of unlimited length.
const maxQuoted = 200

// quotable is a text that is formatted as its underlying value, except for %q.
type quotable struct {
	text string
	of   any
}

// Format formats the text.
func (q quotable) Format(f fmt.State, verb rune) {
	if verb != 'q' {
		fmt.Fprintf(f, fmt.FormatString(f, verb), q.of)
		return
	}
	s := Cut(q.text, maxQuoted)
	n, precise := f.Precision()
	if precise {
		for i := range s {
			if n--; n < 0 {
				s = s[:i]
				break
			}
		}
	}
	b := appendQuoted(nil, s)
	if len(s) < len(q.text) && !precise {
		b = append(b, "..."...)
	}
	_, _ = f.Write(b)
}

// appendQuoted appends a text in double quotes, with escapes for quotes, backslashes, control
// characters and invalid UTF-8.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r < ' ' || r == 0x7f || r == utf8.RuneError && n == 1:
			dst = fmt.Appendf(dst, `\x%02x`, s[0])
		case r > 0x7f && r < 0xa0:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default:
			dst = append(dst, s[:n]...)
		}
		s = s[n:]
	}
	return append(dst, '"')
}

// Cut truncates a text to at most most bytes without splitting a character.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for end := most; end >= 0 && end > most-utf8.UTFMax; end-- {
		if utf8.RuneStart(text[end]) {
			return text[:end]
		}
	}
	return text[:most] // it is not UTF-8
}
