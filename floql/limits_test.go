package floql_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/floql"
)

// TestLimits tries each limit of the language at its last value, beside it, and with the largest
// numbers.
func TestLimits(t *testing.T) {
	repeat := func(s string, n int64) string { return strings.Repeat(s, int(n)) }
	source := new(floql.Slice)
	for i := range int64(10) {
		if err := source.Add("m", map[string]string{"k": "a"}, "v", time.UnixMilli(i), float64(i)); err != nil {
			t.Fatal(err)
		}
	}
	eval := func(query string) error {
		_, err := floql.Eval(t.Context(), source, query, floql.Options{})
		return err
	}
	of := func(format string) func(n int64) error {
		return func(n int64) error { return eval(fmt.Sprintf("m[0..100] | "+format, n)) }
	}
	nested := func(n int64) string {
		query := "m"
		for range n {
			query = "m | join(+, (" + query + "))"
		}
		return query
	}
	for _, l := range []struct {
		what        string
		least, most int64
		says        string
		call        func(n int64) error
		large       bool // a count, so MaxInt64 is not tried
	}{
		{"bytes of a query", 1, 64 << 10, "expected no more than 65536", func(n int64) error { return eval("m" + repeat(" ", n-1)) }, true},
		{"bytes of filters", 0, 64 << 10, "expected no more than 65536",
			func(n int64) error { _, err := floql.ParseFilters(repeat(" ", n)); return err }, true},
		{"stages", 0, 100, "more than 100 stages", func(n int64) error { return eval("m" + repeat("|abs()", n)) }, true},
		{"stages of all queries", 902, 1000, "more than 1000 stages", func(n int64) error {
			query, left := "m", n-10-9*99
			for range 9 {
				query += "|join(+,(m" + repeat("|abs()", 99) + "))"
			}
			return eval(query + "|join(+,(m" + repeat("|abs()", left) + "))")
		}, true},
		{"queries in queries", 0, 8, "expected no more than 8", func(n int64) error { return eval(nested(n)) }, true},
		{"bytes of an expression", 5, 4096, "expected no more than 4096",
			func(n int64) error { return eval("m | math(1" + repeat(" ", n-5) + "+1.0)") }, true},
		{"instructions of the patterns of an expression", 4, 10_000, "expected no more than 10000", func(n int64) error {
			return eval(fmt.Sprintf("m | where(field matches '%s')", pattern(n)))
		}, true},
		{"instructions of all patterns", 45_004, 50_000, "at most 50000", func(n int64) error {
			part := fmt.Sprintf(" | where(field matches '%s')", pattern(9000))
			return eval("m" + repeat(part, 5) + fmt.Sprintf(" | where(field matches '%s')", pattern(n-45_000)))
		}, true},
		{"alternatives of a glob", 1, 1024, "expected no more than 1024",
			func(n int64) error { return eval("m{k=~\"{" + repeat("a,", n-1) + "a}\"}") }, true},
		{"KiB of the alternatives of a glob", 11, 64, "expected no more than 65536", func(n int64) error {
			return eval("m{k=~\"" + repeat("{a,b}", 10) + repeat("c", n-10) + "\"}")
		}, true},
		{"bytes of the alternatives with a star", 8, 8 << 10, "expected no more than 8192", func(n int64) error {
			return eval("m{k=~\"{" + repeat("*"+repeat("a", n/8-1)+",", 7) + "*" + repeat("a", n/8-1+n%8) + "}\"}")
		}, true},
		{"percentile", 0, 100, "0 to 100", of("percentile(%d)"), false},
		{"topk", 1, 1e9, "1 to 1e+09", of("topk(%d)"), false},
		{"bottomk", 1, 1e9, "1 to 1e+09", of("bottomk(%d)"), false},
		{"limit", 0, 1e9, "0 to 1e+09", of("limit(%d)"), false},
		{"moving_avg", 1, 1e6, "1 to 1e+06", of("moving_avg(%d)"), false},
		{"round", -300, 300, "-300 to 300", of("round(%d)"), false},
		{"window, ms", 1, 1 << 53, "285,000 years", of("window(%dms) | sum()"), false},
		{"window, months", 1, 1_200_000, "285,000 years", of("window(%dmo) | sum()"), false},
		{"window, years", 1, 100_000, "285,000 years", of("window(%dy) | sum()"), false},
		{"rate", 1, 1 << 53, "285,000 years", of("rate(%dms)"), false},
		{"derivative", 1, 1 << 53, "285,000 years", of("derivative(%dms)"), false},
		{"range", 0, 1 << 53, "285,000 years", func(n int64) error {
			_, err := floql.Parse(fmt.Sprintf("m[%dms]", n))
			return err
		}, false},
	} {
		tried := map[int64]bool{l.least: true, l.least + 1: true, l.most - 1: true, l.most: true, l.most + 1: false}
		if !l.large {
			tried[l.least-1], tried[math.MaxInt64], tried[math.MinInt64] = false, false, false
		}
		for n, taken := range tried {
			err := l.call(n)
			_, refused := errors.AsType[*floql.Error](err)
			if taken && err != nil || !taken && !refused || n > l.most && !strings.Contains(fmt.Sprint(err), l.says) {
				t.Errorf("%s: %d: %.300v, want that it is taken: %t, else an *Error with %q", l.what, n, err, taken, l.says)
			}
		}
	}
}

// pattern returns a regular expression that counts as n instructions. a{999} counts as 3,000,
// letters as one each plus one, and the whole as one more.
func pattern(n int64) string {
	repeated := (n - 3) / 3000
	if repeated == 0 {
		return strings.Repeat("b", int(n-1))
	}
	return strings.Repeat("a{999}", int(repeated)) + strings.Repeat("b", int(n-2-3000*repeated))
}
