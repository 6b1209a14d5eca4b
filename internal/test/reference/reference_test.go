package reference

import (
	"strings"
	"testing"
)

func TestWrap(t *testing.T) {
	long := strings.Repeat("word ", 19) // 95 columns
	for page, want := range map[string]string{
		"# " + long + long + "\n":         "# " + long + long + "\n",
		"| " + long + "| " + long + "|\n": "| " + long + "| " + long + "|\n",
		"a\nb\n\nc":                       "a b\n\nc\n",
		long + "`a b` c\n":                long + "`a b`\nc\n",
		"- " + long + "word\n  d\n- e\n":  "- " + strings.TrimSpace(long) + "\n  word d\n- e\n",
		"```\na\nb\n```\nc\nd\n":          "```\na\nb\n```\nc d\n",
	} {
		if got := wrap(page); got != want {
			t.Errorf("wrap(%q) =\n%s\nwant\n%s", page, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	want := "\n| a | b |\n|---|---|\n| `x\\|y` | 1<br>2 |\n"
	if got := Table([]string{"a", "b"}, [][]string{{Code("x|y"), "1\n2"}}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
