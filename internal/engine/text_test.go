package engine

import (
	"errors"
	"fmt"
	"testing"
)

// TestTextQuotesAlike: quoting does not depend on which characters a Go release considers
// printable, and equals fmt's for ordinary text.
func TestTextQuotesAlike(t *testing.T) {
	type name string
	for _, c := range []struct {
		format string
		arg    any
		want   string
	}{
		{"%q", "a\"b\\c\n\r\t", `"a\"b\\c\n\r\t"`},
		{"%q", "é 世界 \x00\x7f\xff", `"é 世界 \x00\x7f\xff"`},
		{"%q", "\u0085\u2028\U000e0001\U0001fae8", "\"\\u0085\u2028\U000e0001\U0001fae8\""},
		{"%.3q", "世界世界", `"世界世"`},
		{"%.2q", []byte("abc"), `"ab"`},
		{"%q", name("n"), `"n"`},
		{"%s|%v", "ab", "ab|%!v(MISSING)"},
		{"%5s", "ab", "   ab"},
		{"%x", []byte("ab"), "6162"},
		{"%v", errors.New("e"), "e"},
		{"%d", 7, "7"},
	} {
		if got := Text(c.format, c.arg); got != c.want {
			t.Errorf("Text(%q, %v) is %s, want %s", c.format, c.arg, got, c.want)
		}
		if got := Errorf(ErrInvalid, c.format, c.arg).Error(); got != c.want {
			t.Errorf("Errorf(%q, %v) is %s, want %s", c.format, c.arg, got, c.want)
		}
	}
	if got, want := Text("%q %d %s", "a", 1, "b"), fmt.Sprintf("%q %d %s", "a", 1, "b"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestCut: text is cut between characters.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"abc", 3, "abc"}, {"abc", 2, "ab"}, {"abc", 0, ""}, {"é世界", 5, "é世"}, {"é世界", 4, "é"}, {"é世界", 3, "é"}, {"é世界", 1,
			""}, {"\x80\x80\x80\x80\x80\x80", 5, "\x80\x80\x80\x80\x80"},
	} {
		if got := Cut(c.text, c.most); got != c.want {
			t.Errorf("Cut(%q, %d) is %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

// thrower is a panic value whose text panics, with another such value.
type thrower struct{ deep bool }

func (t thrower) Error() string {
	if t.deep {
		panic(thrower{true})
	}
	panic("no text")
}

func TestThrown(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{
		{"text", "text"}, {7, "7"}, {errors.New("failed"), "failed"},
		{thrower{}, "%!v(PANIC=Error method: no text)"},
		{thrower{true}, "a engine.thrower whose text panics"},
	} {
		if got := Thrown(c.value); got != c.want {
			t.Errorf("%T: %q, want %q", c.value, got, c.want)
		}
	}
}
