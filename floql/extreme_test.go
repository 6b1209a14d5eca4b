package floql_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/floedb/floe/floql"
)

// lookedAt is a context that records the longest time between two checks, and ends after a while.
// It measures the CPU time of the process, because wall time passes while a busy machine makes the
// process wait.
type lookedAt struct {
	context.Context
	end, latest, longest time.Duration
}

func (l *lookedAt) Err() error {
	now := processTime()
	l.longest, l.latest = max(l.longest, now-l.latest), now
	if now > l.end {
		return context.DeadlineExceeded
	}
	return nil
}

// processTime returns the CPU time of the process, on all processors.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// evalExtreme evaluates a query, which must check its context often enough and allocate a bounded
// amount, whatever its outcome.
func evalExtreme(t *testing.T, source floql.Source, query string, limits floql.Limits) error {
	t.Helper()
	const (
		pause  = 200 * time.Millisecond // garbage collection and other tests count too
		memory = 1 << 30                // includes short-lived garbage
	)
	limits.Time = -1 // so that only this context ends the query
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	now := processTime()
	ctx := &lookedAt{Context: t.Context(), latest: now, end: now + time.Second}
	_, err := floql.Eval(ctx, source, query, floql.Options{Now: time.UnixMilli(1_700_000_000_000), Limits: limits})
	ended := processTime()
	runtime.ReadMemStats(&after)
	if ctx.longest = max(ctx.longest, ended-ctx.latest); ctx.longest > pause {
		t.Errorf("%.300s does not look at its context for %v: %v", query, ctx.longest, err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > memory && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%.300s allocates %d MiB: %v", query, n>>20, err)
	}
	return err
}

// wide is a source with a single series, with many series, and with points as far apart as
// possible.
func wide(t *testing.T) *floql.Slice {
	t.Helper()
	s := new(floql.Slice)
	add := func(name string, tags map[string]string, ms int64, v float64) {
		if err := s.Add(name, tags, "v", time.UnixMilli(ms), v); err != nil {
			t.Fatal(err)
		}
	}
	for i := range int64(2000) {
		add("one", map[string]string{"k": "a"}, i*1000, float64(i%7))
		add("apart", map[string]string{"k": string(rune('a' + i%3))}, i*1_000_000_007*4, float64(i)*8e304*float64(1-i%2*2))
		add("many", map[string]string{"k": fmt.Sprint(i)}, i%5*1000, float64(i))
	}
	for i := range int64(50) {
		add("long", map[string]string{"k": strings.Repeat("a", 1024), "n": fmt.Sprint(i)}, i, float64(i))
		add("long", map[string]string{"k": strings.Repeat("a", 1024), "n": "0"}, i, float64(i))
	}
	return s
}

// TestExtremeCounts: the products of counts are bounded before allocations, with no series, one,
// and many.
func TestExtremeCounts(t *testing.T) {
	source := wide(t)
	limits := floql.Limits{Bytes: 8 << 20, ResultPoints: 100_000}
	const result, bytes = "the query exceeds the limit of 100000 points or buckets in the result",
		"the query exceeds the limit of 8388608 bytes of memory"
	for query, want := range map[string]string{
		"nosuch[0..2000000000000] | window(1s) | sum() | fill(0)":                        "",
		"nosuch[0..9007199254740991] | window(1ms) | sum() | fill(0)":                    "",
		"one[0..2000000000000] | window(1s) | sum() | fill(0)":                           result,
		"one[0..9007199254740991] | window(1ms) | sum() | fill(0)":                       result,
		"many[0..100000000] | window(1s) | group_by(k) | sum() | fill(0)":                result,
		"many[0..9007199254740991] | window(1ms) | group_by(k) | sum() | fill(0)":        result,
		"many[0..9007199254740991] | window(1ms) | group_by(k) | sum() | fill(null)":     result,
		"one[0..9007199254740991] | window(1000000d, 1ms) | sum()":                       bytes,
		"one[0..9007199254740991] | window(1mo) | sum()":                                 result,
		"one[0..2000000] | window(100000y) | sum() | fill(0)":                            "",
		"one[0..2000000] | window(100000y, 1d, tz=UTC) | sum() | fill(0)":                "",
		"one[0..2000000] | rate(100000y) | fill(linear)":                                 "",
		"one[9007199254740991ms] | window(9007199254740991ms) | sum() | fill(0)":         "",
		"one[9007199254740991ms] | shift(9007199254740991ms) | rate(9007199254740991ms)": "",
		"many[0..2000000] | topk(1000000000) | limit(1000000000) | moving_avg(1000000)":  "",
		"many[0..2000000] | group_by(*) | percentile(100) | fill(0)": "col 52: fill without a window and an " +
			"aggregation before it",
		"apart[0..9007199254740991] | window(1ms) | percentile(50) | fill(prev)":           result,
		"apart[0..9007199254740991] | window(1000000d, 1000d) | median()":                  "",
		"one[0..2000000]" + strings.Repeat(" | moving_avg(1000000)", 99) + " | sum()":      "",
		"many[0..2000000]" + strings.Repeat(" | math(value + timestamp)", 99) + " | sum()": bytes,
	} {
		err := evalExtreme(t, source, query, limits)
		if got := fmt.Sprint(err); err == nil && want != "" || err != nil && got != want {
			t.Errorf("%.200s: %v, want %q", query, err, want)
		}
	}
	now := floql.Options{Now: time.UnixMilli(-1 << 60)}
	if _, err := floql.Eval(t.Context(), source, "one[1h] | shift(9007199254740991ms) | rate(9007199254740991ms)", now); err == nil ||
		!strings.Contains(err.Error(), "-18014398509481984 ms or later") {
		t.Errorf("a range before all times: %v", err)
	}
	// Without limits, the context ends an endless query.
	none := floql.Options{Limits: floql.Limits{Bytes: -1, ResultPoints: -1, Time: -1}}
	_, err := floql.Eval(&patience{Context: t.Context(), left: 1000}, source, "one[0..9007199254740991] | window(1ms) | sum() | fill(0)",
		none)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("without limits: %v, want the error of the context", err)
	}
}

// TestExtremeCosts: the cost per value is bounded, or the query is refused.
func TestExtremeCosts(t *testing.T) {
	source := wide(t)
	joined := func(n int) string { return "tags.k" + strings.Repeat("+tags.k", n) }
	for query, want := range map[string]string{
		"long | where(" + joined(30) + " != field)":                                         "",
		"long | where(tags.k matches '" + strings.Repeat("(a|b)*", 30) + "c')":              "",
		"long | where(tags.k matches '(a{100}){10}')":                                       "expected no more than 2000000",
		"long | where(tags.k matches '" + strings.Repeat("a{1000}", 20) + "')":              "expected no more than 10000",
		"long | where(" + joined(100) + " matches '(x+x+)+y')":                              "expected no more than 2000000",
		"long | where(" + joined(100) + " matches '(x+x+)+y') | sum()":                      "expected no more than 2000000",
		"long" + strings.Repeat(" | where(tags.k matches '(x+x+)+y')", 100):                 "",
		"long{k=~" + strings.Repeat("*a", 500) + "b}":                                       "",
		"long{k=~\"{" + strings.Repeat("*a,", 1000) + "b}\"}":                               "",
		"long{k=~\"" + strings.Repeat("{a,b}", 10) + "*" + strings.Repeat("a", 100) + "\"}": "expected no more than 65536",
		"long{k=~\"{" + strings.Repeat("*aaaaaaaaaa,", 1000) +
			"b}\"}": "the alternatives with * have 11000 bytes in all, expected no more than 8192",
		"long{k=~\"" + strings.Repeat("{a,b}", 11) + "\"}": "expected no more than 1024",
		"one" + strings.Repeat(" | join(+, (one"+strings.Repeat("|abs()", 20)+"))",
			60): "found more than 1000 stages, nested queries included",
	} {
		if name, stages, found := strings.Cut(query, " | "); found {
			query = name + "[0..1000] | " + stages
		} else {
			query += "[0..1000]"
		}
		err := evalExtreme(t, source, query, floql.Limits{Bytes: 32 << 20})
		if want == "" && err != nil && !errors.Is(err, context.DeadlineExceeded) || want != "" && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%.200s: %v, want %q", query, err, want)
		}
	}
}

// TestParseCosts: the memory for parsing a query, and with it the time, grows with its text, not
// with the text times the number of stages. Parse has no context.
func TestParseCosts(t *testing.T) {
	nested := func(stage string, n int) string {
		part := "m" + strings.Repeat("|"+stage, 90)
		return part + strings.Repeat("|join(+,("+part+"))", n/90-1)
	}
	for query, want := range map[string]string{
		nested("math(value*2)", 900) + strings.Repeat(" ", 40_000):    "",
		nested("math(value*value)", 90) + strings.Repeat("#", 60_000): "",
		nested("where(value>1#"+strings.Repeat("x", 50)+"\n)", 540):   "",
		nested("where(field matches '"+strings.Repeat("[a-z]{200}", 9)+"')",
			540): "patterns of 50659 instructions in the query, expected at most 50000",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := floql.Parse(query)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 || !strings.Contains(fmt.Sprint(err), cmp.Or(want, "<nil>")) {
			t.Errorf("%.100s: %v after %d KiB, want %q", query, err, n>>10, want)
		}
	}
}

// TestLongArguments: an error does not repeat a long argument, in any position.
func TestLongArguments(t *testing.T) {
	x := strings.Repeat("x", 60_000)
	for _, query := range []string{
		x + "{", "m | " + x + "()", "m | window(1" + x + ")", "m[" + x + "]", "m{a=b} " + x, "m | topk(" + strings.Repeat("9", 60_000) +
			")", "m | where(" + x[:4000] + ")",
		"m | sort(" + x + ")", "m | window(1d, tz=" + x + ")", "m | avg(" + x + "=1)", "m | field(" + x[:9000] + "," + x[:9000] +
			")", "m[" + strings.Repeat("9", 60_000) + "..now]",
		"m | where(tags.a matches \"" + x[:3000] + "[\")", "m | where(value > 0) | fill(\"" + x + "\")",
	} {
		_, err := floql.Parse(query)
		if err == nil || len(err.Error()) > 500 {
			t.Errorf("%.40s: an error of %d bytes: %.300v", query, len(fmt.Sprint(err)), err)
		}
	}
}

// TestExtremeQueries evaluates queries of random stages, with numbers and durations at both ends of
// their ranges.
func TestExtremeQueries(t *testing.T) {
	source := wide(t)
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	of := func(s ...string) string { return s[rng.IntN(len(s))] }
	duration := func() string { return of("1ms", "1s", "1m", "1h", "1d", "7d", "1000000d", "9007199254740991ms") }
	stage := func() string {
		step := of("1mo", "1y", "100000y", duration(), duration(), duration())
		aggregate := of("sum()", "avg()", "count()", "last()", "median()", "stddev()", "percentile(99.9)", "spread()")
		switch rng.IntN(9) {
		case 0, 1:
			return "window(" + step + of("", ", tz=Europe/Berlin") + ") | " + aggregate
		case 2:
			return "window(" + step + ", " + duration() + ") | " + aggregate
		case 3:
			return of("rate", "increase") + "(" + step + of("", ", tz=UTC") + ")"
		case 4:
			return of("topk(1000000000)", "bottomk(1, last)", "sort(desc)", "limit(1000000000)", "limit(0)", "moving_avg(1000000)",
				"cumsum()", "delta()")
		case 5:
			return "fill(" + of("0", "-1e308", "null", "prev", "linear") + ")"
		case 6:
			return of("shift("+duration()+")", "derivative("+duration()+")", "round(-300)", "round(300)", "clamp(-1e308, 1e308)",
				"math(value * 1e308 ** value)")
		case 7:
			return "group_by(" + of("*", "k", "none") + ")"
		}
		return "join(" + of("+", "/") + ", (" + of("one", "many", "apart") + " | window(" + duration() +
			") | group_by(*) | sum() | fill(0)))"
	}
	for i := range 300 {
		query := of("nosuch", "one", "many", "apart", "long")
		query += of("[0..9007199254740991]", "[0..2000000]", "[9007199254740991ms]", "[1969-01-01T00:00:00Z..now]", "[1h]")
		for range 1 + rng.IntN(4) {
			query += " | " + stage()
		}
		evalExtreme(t, source, query, floql.Limits{Bytes: 4 << 20, ResultPoints: 50_000})
		if t.Failed() {
			t.Fatalf("query %d of seed %d", i, seed)
		}
	}
}
