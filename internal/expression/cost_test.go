package expression

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

// fixed is a record with a value and nothing else.
type fixed string

func (d fixed) JSON() (string, error)      { return string(d), nil }
func (fixed) RecordKey() string            { return "" }
func (fixed) Time() int64                  { return 0 }
func (fixed) Header(string) (string, bool) { return "", false }
func repeated(s string, n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(s+",", n), ",") + "]"
}

// TestCostGrowsWithSize: what an evaluation goes over and makes is counted before it happens. Each
// of these took seconds, or gigabytes, and was not refused.
func TestCostGrowsWithSize(t *testing.T) {
	large := strings.Repeat("é", 200_000)
	many := repeated("1", 500_000)
	deep := strings.Repeat("[", 90) + repeated("1", 100_000) + strings.Repeat("]", 90)
	for _, test := range []struct {
		name, text string
		value      fixed
	}{
		{"a set of characters to trim", `trim($.s, $.set)`, fixed(`{"s":"` + large + `","set":"` + strings.Repeat("è", 200_000) + `é"}`)},
		{"a pattern and empty strings", `count($.a, {# matches "(a?){900}b"}) > 0`, fixed(`{"a":` + repeated(`""`, 100_000) + `}`)},
		{"a path read for each element", `count($.a, {$.b == 1}) > 0`, fixed(`{"a":` + repeated("1", 50_000) + `,"b":1}`)},
		{"references to a list of many", `map([$.a[0:]], {[` + strings.TrimSuffix(strings.Repeat("#,", 300), ",") + `]})`,
			fixed(`{"a":` + repeated("1", 20_000) + `}`)},
		{"lists of a large array", `[` + strings.TrimSuffix(strings.Repeat("$.a[0:],", 100), ",") + `]`, fixed(`{"a":` + many + `}`)},
		{"parts of a string", `split($.s, "")`, fixed(`{"s":"` + strings.Repeat("x", 1<<20) + `"}`)},
		{"the elements of an array", `map($.a, {#})`, fixed(`{"a":` + many + `}`)},
		{"arrays that are compared", `$.a == $.b`, fixed(`{"a":` + many + `,"b":` + many + `}`)},
		{"deep arrays that are compared", `$.a == $.b`, fixed(`{"a":` + deep + `,"b":` + deep + `}`)},
	} {
		f, err := Compile(test.text)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = f.AppendJSON(nil, test.value, nil)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrCost) && !errors.Is(err, errMade) {
			t.Errorf("%s: %v, want that it is refused", test.name, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 4*maxMade { // garbage included
			t.Errorf("%s: %d MiB", test.name, used>>20)
		}
	}
}

// TestLargeValuesAreFine: ordinary expressions over large values stay within the bound.
func TestLargeValuesAreFine(t *testing.T) {
	value := fixed(`{"a":` + repeated(`{"n":1,"s":"some text"}`, 2000) + `,"s":"` + strings.Repeat("x", 60_000) + `","set":" é","m":` +
		repeated("1", 500_000) + `}`)
	for _, text := range []string{
		`sum($.a, {#.n}) == 2000 && len($.s) == 60000`, `len(filter($.a, {#.s matches "^some .*"})) == 2000`, `trim($.s, $.set) == $.s`,
		`$.a == $.a`, `len(split($.s, "y")) == 1`,
		`len($.a[10:]) == 1990`, `min($.m) == 1`, `len(map($.a, {[#, #]})) == 2000`,
	} {
		f, err := Condition(text)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := f.Bool(value, nil); !ok || err != nil {
			t.Errorf("%s: %t, %v", text, ok, err)
		}
	}
}

// TestPatternsAreBounded: a repetition of a few bytes stands for thousands of instructions, and an
// expression may have many.
func TestPatternsAreBounded(t *testing.T) {
	for _, text := range []string{
		`"" matches "(` + strings.Repeat("ab", 1000) + `){1000}"`,
		strings.TrimSuffix(strings.Repeat(`"" matches "(`+strings.Repeat("ab", 10)+`){1000}" || `, 20), "|| "),
	} {
		if _, err := Compile(text); err == nil || !strings.Contains(err.Error(), "more than 100000 instructions") {
			t.Errorf("%.40s: %v, want an error with the limit", text, err)
		}
	}
	if _, err := Compile(`$.s matches "^[\\p{L}]{1,1000}$" && $.t matches "(a|b){500}"`); err != nil {
		t.Error(err)
	}
}

// TestLimits: an expression that is as much as is allowed is taken, and one that is more is refused
// with the limit.
func TestLimits(t *testing.T) {
	for _, test := range []struct {
		name string
		most int
		say  string
		make func(n int) string
	}{
		{"bytes", MaxText, "at most 4096", func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }},
		{"terms", MaxTerms, "more than 1000 terms",
			func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n-1), ",") + "]" }},
		{"members of a path", MaxHops, "at most 64 members", func(n int) string { return "$" + strings.Repeat(".a", n) }},
		// one for each character, group, repetition and sequence
		{"instructions", maxPattern, "more than 100000 instructions", func(n int) string {
			return `$.s matches "(` + strings.Repeat("a", 999) + `){98}` + strings.Repeat("b", n-99*(1+1+999)-1) + `"`
		}},
	} {
		for n := test.most - 1; n <= test.most+1; n++ {
			_, err := Compile(test.make(n))
			if n <= test.most && err != nil || n > test.most && (err == nil || !strings.Contains(err.Error(), test.say)) {
				t.Errorf("%s: %d: %v", test.name, n, err)
			}
		}
	}
}
