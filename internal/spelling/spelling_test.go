package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"window", "where", "limit", "max_len", "by", "x"}
	long := strings.Repeat("limit", 20)
	for unknown, want := range map[string]string{
		"windw": "window", "widnow": "window", "WINDOW": "window", "wehre": "where", "limits": "limit", "imit": "limit",
		"maxlen": "max_len", "yb": "by", "y": "", "zz": "", "": "", "windowing": "window", "windowwwwwww": "", "q": "",
		long + "s": "",
	} {
		if got := Nearest(unknown, append(known, long)); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", unknown, got, want)
		}
	}
	if got := Nearest("wherr", nil); got != "" {
		t.Errorf("Nearest without names = %q", got)
	}
}

func TestEdits(t *testing.T) {
	for _, c := range []struct {
		a, b      string
		max, want int
	}{
		{"", "", 9, 0}, {"abc", "abc", 9, 0}, {"abc", "acb", 9, 1}, {"abc", "ab", 9, 1}, {"ab", "abc", 9, 1}, {"abc", "abd", 9, 1}, {"ba",
			"ab", 9, 1}, {"abcd", "badc", 9, 2},
		{"abc", "cab", 9, 2}, {"abxcd", "dcab", 9, 5}, {"", "abc", 9, 3}, {"abc", "", 9, 3}, {"", "abc", 3, 3}, {"abcdefgh", "a", 7,
			7}, {"a", "abcdefgh", 8, 7}, {"ab", "cd", 1, 1},
		{strings.Repeat("a", 64), strings.Repeat("a", 64), 9, 0}, {strings.Repeat("a", 65), strings.Repeat("a", 65), 9, 9}, {"abab", "baba",
			9, 2}, {"aab", "aba", 9, 1},
	} {
		if got := edits(c.a, c.b, c.max); got != c.want {
			t.Errorf("edits(%q, %q, %d) = %d, want %d", c.a, c.b, c.max, got, c.want)
		}
	}
}
