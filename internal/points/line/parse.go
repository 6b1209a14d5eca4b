package line

import (
	"bytes"
	"errors"
	"fmt"
)

// errBehindString reports invalid text after a string. If the string spans several lines, it was
// not a string after all.
var errBehindString = errors.New("a string must be followed by a comma, a space or the end")

// parse reads a line into s.line.
func (s *Scanner) parse(text []byte) error {
	s.unescaped = s.unescaped[:0]
	end := seriesEnd(text)
	if end < 0 {
		return errors.New("no fields: a line is measurement,tags fields timestamp")
	}
	s.line.Series = text[:end]
	rest, err := s.fields(skipSpaces(text[end:]))
	if err != nil {
		return err
	}
	if err := s.timestamp(skipSpaces(rest)); err != nil {
		return err
	}
	if len(s.line.Fields) == 0 {
		return errors.New("only string fields, which are not stored")
	}
	return nil
}

// seriesEnd returns the index of the space after measurement and tags, or -1.
func seriesEnd(text []byte) int {
	end := bytes.IndexByte(text, ' ')
	if end < 0 || bytes.IndexByte(text[:end], '\\') < 0 {
		return end
	}
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i = skipEscaped(text, i)
		case ' ':
			return i
		}
	}
	return -1
}

func skipSpaces(b []byte) []byte {
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	return b
}

// fields reads fields, separated by commas, and returns the rest.
func (s *Scanner) fields(b []byte) (rest []byte, err error) {
	for {
		i, escaped := nameEnd(b)
		if i < 0 {
			return nil, fmt.Errorf("field %.32q has no value", b)
		}
		if i == 0 {
			return nil, errors.New("a field has no name")
		}
		key := b[:i]
		if escaped {
			key = s.unescape(key)
		}
		if b, err = s.value(key, b[i+1:]); err != nil {
			return nil, err
		}
		if len(b) == 0 || b[0] == ' ' {
			return b, nil
		}
		b = b[1:] // a comma
	}
}

// nameEnd returns the index of the equals sign after a name, or -1 if a comma or a space comes
// first.
func nameEnd(b []byte) (end int, escaped bool) {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '=':
			return i, escaped
		case '\\':
			escaped = true
			i = skipEscaped(b, i)
		case ',', ' ':
			return -1, escaped
		}
	}
	return -1, escaped
}

// skipEscaped returns the index of the character that the backslash at i may escape. As in
// InfluxDB, a backslash does not escape a backslash. Both are literal, and the second may escape
// the next character.
func skipEscaped(b []byte, i int) int {
	if i+1 < len(b) && b[i+1] == '\\' {
		return i
	}
	return i + 1
}

// unescape returns a name without its backslashes.
func (s *Scanner) unescape(name []byte) []byte {
	from := len(s.unescaped)
	s.unescaped = appendUnescaped(s.unescaped, name, true)
	return s.unescaped[from:]
}

// appendUnescaped appends text without the backslashes before a comma, a space and, if equals is
// set, an equals sign. All other backslashes are literal (unescapeMeasurement and unescapeTag in
// models/points.go of influxdata/influxdb 1.8; Telegraf's serializer escapes no backslash).
func appendUnescaped(dst, text []byte, equals bool) []byte {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c == '\\' && i+1 < len(text) {
			if next := text[i+1]; next == ',' || next == ' ' || next == '=' && equals {
				i++
			}
		}
		dst = append(dst, text[i])
	}
	return dst
}

// value reads the value of a field, and returns the rest: a comma, a space or nothing.
func (s *Scanner) value(key, b []byte) (rest []byte, err error) {
	if len(b) > 0 && b[0] == '"' {
		return s.text(b)
	}
	f := Field{Key: key}
	n := f.number(b)
	if n < 0 {
		if n, err = f.other(b); err != nil {
			return nil, fmt.Errorf("field %.64q: %w", key, err)
		}
	}
	s.line.Fields = append(s.line.Fields, f)
	return b[n:], nil
}

// text skips a string.
func (s *Scanner) text(b []byte) (rest []byte, err error) {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			if rest = b[i+1:]; len(rest) > 0 && rest[0] != ',' && rest[0] != ' ' {
				return nil, errBehindString
			}
			s.line.Strings++
			return rest, nil
		}
	}
	return nil, errOpen
}

// timestamp reads the timestamp after the fields.
func (s *Scanner) timestamp(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	t, ok := parseInt(b)
	if !ok {
		return fmt.Errorf("timestamp %.32q is not a 64-bit integer", b)
	}
	if s.line.Time, ok = s.precision.millis(t); !ok {
		return fmt.Errorf("timestamp %d %s is out of range", t, s.precision)
	}
	s.line.HasTime = true
	return nil
}

// parseInt parses all of b as an integer.
func parseInt(b []byte) (v int64, ok bool) {
	digits := b
	negative := b[0] == '-'
	if negative {
		digits = b[1:]
	}
	u, ok := parseUint(digits)
	switch {
	case !ok:
		return 0, false
	case negative:
		return -int64(u), u <= 1<<63
	}
	return int64(u), u < 1<<63
}

// parseUint parses all of b as digits.
func parseUint(b []byte) (v uint64, ok bool) {
	if len(b) == 0 {
		return 0, false
	}
	for i, c := range b {
		d := uint64(c - '0')
		if d > 9 {
			return 0, false
		}
		if i >= 19 && (v > (1<<64-1)/10 || v*10 > 1<<64-1-d) {
			return 0, false
		}
		v = v*10 + d
	}
	return v, true
}
