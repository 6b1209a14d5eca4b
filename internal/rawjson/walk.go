package rawjson

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is the maximum nesting depth of arrays and objects in JSON. Deeper nesting is invalid.
const MaxDepth = 256

// The functions of this file walk JSON as bytes. None of them modifies or keeps its input. Input
// that is not JSON has no members, no elements and no text. Functions whose comment requires valid
// input must not be called with other input.

// Valid reports whether raw is one JSON value, as RFC 8259 defines it: in UTF-8, and not nested
// deeper than MaxDepth.
func Valid(raw []byte) bool {
	end := skipValueIn(raw, SkipSpace(raw, 0), 0)
	return end >= 0 && SkipSpace(raw, end) == len(raw)
}

// Member returns the value of an object's member, nil if none exists. If several have the same
// name, the last one counts, as in most languages.
func Member(raw []byte, name string) []byte {
	if !Valid(raw) {
		return nil
	}
	return FindMember(raw, name)
}

// FindMember is Member for valid input.
func FindMember(raw []byte, name string) (found []byte) {
	EachMember(raw, func(key, value []byte) bool {
		if IsText(key, name) {
			found = value
		}
		return true
	})
	return found
}

// Elements calls yield for each element of an array, until it returns false, and reports whether
// raw is an array. It makes no calls for a truncated array.
func Elements(raw []byte, yield func(element []byte) bool) (array bool) {
	return Valid(raw) && EachElement(raw, yield)
}

// EachElement is Elements for valid input.
func EachElement(raw []byte, yield func(element []byte) bool) (array bool) {
	i := SkipSpace(raw, 0)
	if raw[i] != '[' {
		return false
	}
	for i = SkipSpace(raw, i+1); raw[i] != ']'; {
		end := skipValueIn(raw, i, 0)
		if !yield(raw[i:end:end]) {
			return true
		}
		if i = SkipSpace(raw, end); raw[i] == ',' {
			i = SkipSpace(raw, i+1)
		}
	}
	return true
}

// EachMember calls yield for the members of an object, keys with their quotes, until it returns
// false. It reports whether raw, which must be valid, is an object.
func EachMember(raw []byte, yield func(key, value []byte) bool) (object bool) {
	i := SkipSpace(raw, 0)
	if raw[i] != '{' {
		return false
	}
	for i = SkipSpace(raw, i+1); raw[i] != '}'; {
		keyEnd := SkipText(raw, i)
		key := raw[i:keyEnd:keyEnd]
		i = SkipSpace(raw, SkipSpace(raw, keyEnd)+1)
		end := skipValueIn(raw, i, 0)
		if !yield(key, raw[i:end:end]) {
			return true
		}
		if i = SkipSpace(raw, end); raw[i] == ',' {
			i = SkipSpace(raw, i+1)
		}
	}
	return true
}

// Text returns the text of a JSON string; an unpaired surrogate becomes U+FFFD.
func Text(raw []byte) (s string, ok bool) {
	text, ok := Bytes(raw)
	return string(text), ok
}

// Bytes is Text as bytes.
func Bytes(raw []byte) (text []byte, ok bool) {
	raw = TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '"' || SkipText(raw, 0) != len(raw) {
		return nil, false
	}
	return AppendUnquoted(make([]byte, 0, len(raw)), raw[1:len(raw)-1]), true
}

// IsText reports whether a valid JSON string has the text s.
func IsText(quoted []byte, s string) bool {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner) == s
	}
	return string(AppendUnquoted(nil, inner)) == s
}

// AppendUnquoted appends the text of a valid JSON string, given without its quotes.
func AppendUnquoted(dst, inner []byte) []byte {
	for {
		n := bytes.IndexByte(inner, '\\')
		if n < 0 {
			return append(dst, inner...)
		}
		dst = append(dst, inner[:n]...)
		escape := inner[n+1]
		inner = inner[n+2:]
		switch escape {
		case 'u':
			r := hex4(inner)
			inner = inner[4:]
			if utf16.IsSurrogate(r) && len(inner) >= 6 && inner[0] == '\\' && inner[1] == 'u' {
				if pair := utf16.DecodeRune(r, hex4(inner[2:])); pair != utf8.RuneError {
					r, inner = pair, inner[6:]
				}
			}
			dst = utf8.AppendRune(dst, r)
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		default:
			dst = append(dst, escape)
		}
	}
}

// hex4 returns the number of four hexadecimal digits, which must be present.
func hex4(b []byte) rune {
	n, _ := strconv.ParseUint(string(b[:4]), 16, 32)
	return rune(n)
}

// TextOf returns the text of a valid JSON string.
func TextOf(quoted []byte) string {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	return string(AppendUnquoted(nil, inner))
}

// AppendText appends s as a JSON string; invalid UTF-8 bytes become U+FFFD.
func AppendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r < ' ':
			dst = append(dst, '\\', 'u', '0', '0', "0123456789abcdef"[r>>4], "0123456789abcdef"[r&15])
		case r < utf8.RuneSelf:
			dst = append(dst, s[i])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}

// Number parses raw as a number; ok is false for a number outside the range of a float64.
func Number(raw []byte) (n float64, ok bool) {
	raw = TrimSpace(raw)
	if !IsNumber(raw) {
		return 0, false
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	return n, err == nil
}

// IsNumber reports whether raw is a JSON number.
func IsNumber(raw []byte) bool {
	return len(raw) > 0 && (raw[0] == '-' || isDigit(raw[0])) && skipNumber(raw, 0) == len(raw)
}

// SkipSpace returns the index of the first byte at or after i that is not white space.
func SkipSpace(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\t' || raw[i] == '\n' || raw[i] == '\r') {
		i++
	}
	return i
}

// TrimSpace returns raw without the white space around it.
func TrimSpace(raw []byte) []byte { return bytes.Trim(raw, " \t\n\r") }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// SkipValue returns the end of the value that begins at i, -1 if none exists.
func SkipValue(raw []byte, i int) int { return skipValueIn(raw, i, 0) }

// skipValueIn returns the end of the value that begins at i, -1 if none exists.
func skipValueIn(raw []byte, i, depth int) int {
	if i >= len(raw) || depth > MaxDepth {
		return -1
	}
	switch c := raw[i]; {
	case c == '"':
		return SkipText(raw, i)
	case c == '{':
		return skipObject(raw, i, depth)
	case c == '[':
		return skipArray(raw, i, depth)
	case c == '-' || isDigit(c):
		return skipNumber(raw, i)
	case c == 't':
		return skipWord(raw, i, "true")
	case c == 'f':
		return skipWord(raw, i, "false")
	case c == 'n':
		return skipWord(raw, i, "null")
	}
	return -1
}

func skipWord(raw []byte, i int, word string) int {
	if !bytes.HasPrefix(raw[i:], []byte(word)) {
		return -1
	}
	return i + len(word)
}

func skipArray(raw []byte, i, depth int) int {
	if i = SkipSpace(raw, i+1); i < len(raw) && raw[i] == ']' {
		return i + 1
	}
	for {
		end := skipValueIn(raw, i, depth+1)
		if end < 0 {
			return -1
		}
		if i = SkipSpace(raw, end); i == len(raw) || raw[i] != ',' && raw[i] != ']' {
			return -1
		}
		if raw[i] == ']' {
			return i + 1
		}
		i = SkipSpace(raw, i+1)
	}
}

func skipObject(raw []byte, i, depth int) int {
	if i = SkipSpace(raw, i+1); i < len(raw) && raw[i] == '}' {
		return i + 1
	}
	for {
		if i == len(raw) || raw[i] != '"' {
			return -1
		}
		if i = SkipText(raw, i); i < 0 {
			return -1
		}
		if i = SkipSpace(raw, i); i == len(raw) || raw[i] != ':' {
			return -1
		}
		end := skipValueIn(raw, SkipSpace(raw, i+1), depth+1)
		if end < 0 {
			return -1
		}
		if i = SkipSpace(raw, end); i == len(raw) || raw[i] != ',' && raw[i] != '}' {
			return -1
		}
		if raw[i] == '}' {
			return i + 1
		}
		i = SkipSpace(raw, i+1)
	}
}

// SkipText returns the end of the string that begins at i.
func SkipText(raw []byte, i int) int {
	for i = skipPlain(raw, i+1); i < len(raw); i = skipPlain(raw, i) {
		switch c := raw[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c == '\\':
			n := escapeLen(raw[i+1:])
			if n == 0 {
				return -1
			}
			i += 1 + n
		case c < utf8.RuneSelf:
			i++
		default:
			r, n := utf8.DecodeRune(raw[i:])
			if r == utf8.RuneError && n == 1 {
				return -1
			}
			i += n
		}
	}
	return -1
}

// skipPlain skips printable ASCII characters other than quotes and backslashes, eight at a time. It
// may stop before the first other one.
func skipPlain(raw []byte, i int) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(raw); i += 8 {
		w := binary.LittleEndian.Uint64(raw[i:])
		// The first byte that is not plain gets the high bit. Bytes after it do not matter.
		if (w|(w-ones*' ')|((w^ones*'"')-ones)|((w^ones*'\\')-ones))&high != 0 {
			break
		}
	}
	return i
}

// escapeLen returns the length of the escape after a backslash, 0 if it is invalid.
func escapeLen(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	if b[0] != 'u' {
		return min(1, 1+bytes.IndexByte([]byte(`"\/bfnrt`), b[0]))
	}
	if len(b) < 5 {
		return 0
	}
	for _, c := range b[1:5] {
		if !isDigit(c) && !('a' <= c|0x20 && c|0x20 <= 'f') {
			return 0
		}
	}
	return 5
}

// skipNumber returns the end of the number that begins at i.
func skipNumber(raw []byte, i int) int {
	if raw[i] == '-' {
		i++
	}
	whole := skipDigits(raw, i)
	if whole == i || raw[i] == '0' && whole > i+1 {
		return -1
	}
	if i = whole; i < len(raw) && raw[i] == '.' {
		end := skipDigits(raw, i+1)
		if end == i+1 {
			return -1
		}
		i = end
	}
	if i < len(raw) && raw[i]|0x20 == 'e' {
		i++
		if i < len(raw) && (raw[i] == '+' || raw[i] == '-') {
			i++
		}
		end := skipDigits(raw, i)
		if end == i {
			return -1
		}
		i = end
	}
	return i
}

func skipDigits(raw []byte, i int) int {
	for i < len(raw) && isDigit(raw[i]) {
		i++
	}
	return i
}

// Unpaired reports whether a string in raw, which must be valid JSON, has an unpaired surrogate,
// which decoders replace.
func Unpaired(raw []byte) bool {
	unit := func(i int) rune {
		if i+6 > len(raw) || raw[i] != '\\' || raw[i+1] != 'u' {
			return 0
		}
		n, _ := strconv.ParseUint(string(raw[i+2:i+6]), 16, 16)
		return rune(n)
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		if r := unit(i); utf16.IsSurrogate(r) {
			if utf16.DecodeRune(r, unit(i+6)) == utf8.RuneError {
				return true
			}
			i += 6
		}
		i++
	}
	return false
}
