package floql

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/floedb/floe/internal/spelling"
)

// Error is a mistake in a query, with its position.
type Error struct {
	Offset  int    // of the byte in the text, from 0
	Line    int    // from 1
	Col     int    // in the line, in characters, from 1
	Message string // what was found and what was expected
	text    string
}

// Error returns the position and the message: "col 14: unknown stage ..." or, for a query of
// several lines, "line 2, col 3: ...".
func (e *Error) Error() string {
	if !strings.Contains(e.text, "\n") {
		return fmt.Sprintf("col %d: %s", e.Col, e.Message)
	}
	return fmt.Sprintf("line %d, col %d: %s", e.Line, e.Col, e.Message)
}

// Caret returns the line of the query with the error, and below it a caret at its position.
func (e *Error) Caret() string {
	from := strings.LastIndexByte(e.text[:e.Offset], '\n') + 1
	line, _, _ := strings.Cut(e.text[from:], "\n")
	var b strings.Builder
	b.WriteString(line)
	b.WriteByte('\n')
	for _, c := range e.text[from:e.Offset] {
		if c != '\t' {
			c = ' '
		}
		b.WriteRune(c)
	}
	b.WriteByte('^')
	return b.String()
}

// errorAt returns the error at a byte of a text.
func errorAt(text string, offset int, format string, args ...any) *Error {
	for i, a := range args {
		switch a := a.(type) {
		case string:
			args[i] = cut(a)
		case error:
			args[i] = cut(a.Error())
		}
	}
	offset = min(offset, len(text))
	before := text[:offset]
	line := before[strings.LastIndexByte(before, '\n')+1:]
	return &Error{
		Offset:  offset,
		Line:    strings.Count(before, "\n") + 1,
		Col:     utf8.RuneCountInString(line) + 1,
		Message: fmt.Sprintf(format, args...),
		text:    text,
	}
}

// maxShown is the maximum number of bytes of an argument in an error.
const maxShown = 200

// cut returns a text, truncated if it is long.
func cut(text string) string {
	if len(text) <= maxShown {
		return text
	}
	n := maxShown
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "..."
}

// suggest returns ` (did you mean "...")?` for the known name nearest to an unknown one, "" if none
// is near.
func suggest(unknown string, known []string) string {
	if near := spelling.Nearest(unknown, known); near != "" {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
}
