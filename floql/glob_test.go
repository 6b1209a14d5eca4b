package floql

import (
	"context"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/floedb/floe/internal/pushdown"
)

// randomGlob returns a pattern and an equivalent regular expression.
func randomGlob(rng *rand.Rand, depth int) (glob, expr string) {
	const literals = "abé-*?[]{}\\,!"
	literal := func() string {
		all := []rune(literals)
		return string(all[rng.IntN(len(all))])
	}
	for range rng.IntN(5) {
		switch n := rng.IntN(10); {
		case n < 2:
			glob, expr = glob+"*", expr+"(?s:.*)"
		case n < 3:
			glob, expr = glob+"?", expr+"(?s:.)"
		case n < 4:
			not := []string{"", "!"}[rng.IntN(2)]
			glob, expr = glob+"["+not+`a-bé\]]`, expr+"["+strings.ReplaceAll(not, "!", "^")+`a-bé\]]`
		case n < 5 && depth > 0:
			var globs, exprs []string
			for range 1 + rng.IntN(3) {
				g, e := randomGlob(rng, depth-1)
				globs, exprs = append(globs, g), append(exprs, "(?:"+e+")")
			}
			glob, expr = glob+"{"+strings.Join(globs, ",")+"}", expr+"(?:"+strings.Join(exprs, "|")+")"
		case n < 8:
			l := literal()
			glob, expr = glob+`\`+l, expr+regexp.QuoteMeta(l)
		default:
			l := []string{"a", "b", "é", "-"}[rng.IntN(4)]
			glob, expr = glob+l, expr+l
		}
	}
	return glob, expr
}

// TestGlobLikeRegexp compares random patterns with regular expressions.
func TestGlobLikeRegexp(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	matched := 0
	for range 5000 {
		glob, expr := randomGlob(rng, 2)
		filter, err := NewFilter("t", Match, glob)
		if err != nil {
			t.Fatalf("%q: %v", glob, err)
		}
		re := regexp.MustCompile("^(?:" + expr + ")$")
		for range 20 {
			var value strings.Builder
			for range rng.IntN(6) {
				value.WriteString([]string{"a", "b", "é", "-", "*", "]", "\n"}[rng.IntN(7)])
			}
			want := re.MatchString(value.String())
			if got := filter.Matches(value.String()); got != want {
				t.Fatalf("%q matches %q: %t, want %t as %s does", glob, value.String(), got, want, expr)
			}
			if want {
				matched++
			}
		}
	}
	if matched < 5000 {
		t.Errorf("only %d of 100000 values match: the test tells little", matched)
	}
}

// TestCut: a long text is cut to at most 200 bytes, at the end of a character.
func TestCut(t *testing.T) {
	for at := range 4 {
		text := strings.Repeat("a", at) + strings.Repeat("漢", 100)
		got, ok := strings.CutSuffix(cut(text), "...")
		if !ok || !strings.HasPrefix(text, got) || !utf8.ValidString(got) || len(got) > 200 || len(got) < 198 {
			t.Errorf("cut(%q) = %q", text, got)
		}
	}
	if got := cut(strings.Repeat("a", 200)); len(got) != 200 {
		t.Errorf("a text of 200 bytes is cut to %q", got)
	}
}

// TestEscapes: a backslash makes the next character literal. One at the end of the text leaves the
// string unterminated.
func TestEscapes(t *testing.T) {
	for text, want := range map[string]string{`host="a\"b"`: `a"b`, `host="a\\"`: `a\`, `host='\''`: `'`} {
		if all, err := ParseFilters(text); err != nil || len(all) != 1 || all[0].Value != want {
			t.Errorf("%s: %v, %v, want %q", text, all, err, want)
		}
	}
	for _, text := range []string{`host="a\`, `host="\`, `host="a\"`} {
		if all, err := ParseFilters(text); err == nil {
			t.Errorf("%s is parsed as %v", text, all)
		}
	}
}

// TestTakesRollups: rollups replace points only if no stage changes points before aggregation and
// windows consist of whole buckets.
func TestTakesRollups(t *testing.T) {
	for query, want := range map[string]bool{
		"cpu[0..3600000] | window(5m) | sum()": true, "cpu[0..3600000] | sum()": true,
		"cpu[0..3600000] | abs() | window(5m) | sum()": false,
		"cpu[0..3600000] | window(90s) | sum()":        false, "cpu[0..3600000] | window(5m) | stddev()": false,
		"cpu[1..3600000] | window(5m) | sum()": false,
	} {
		var s rollupSource
		if _, err := Eval(t.Context(), &s, query, Options{}); err != nil || !s.asked || s.takes != want {
			t.Errorf("%s takes rollups: %t (asked: %t), %v, want %t", query, s.takes, s.asked, err, want)
		}
	}
}

// rollupSource records whether a query accepts rollups of a minute.
type rollupSource struct {
	Slice
	asked, takes bool
}

func (s *rollupSource) Aggregate(_ context.Context, _ Selection, p pushdown.Partial[Series]) error {
	s.asked, s.takes = true, p.TakesRollups(60_000)
	return nil
}
