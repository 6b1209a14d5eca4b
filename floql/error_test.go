package floql

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/expr-lang/expr/parser"

	"github.com/floedb/floe/internal/agg"
	"github.com/floedb/floe/internal/codec"
)

// TestErrors checks whole messages including their positions.
func TestErrors(t *testing.T) {
	for query, want := range map[string]string{
		"m[0..9] | where(value > \"a)":                      `col 25: unterminated string, expected "`,
		"m[0..9] | where(value > 'a\\')":                    `col 25: unterminated string, expected '`,
		"m[0..9] | where(value > [1)":                       `col 27: found ")", expected "]"`,
		"m[0..9] | where(value in {1]":                      `col 28: found "]", expected "}"`,
		"m[0..9] | where((value > 1":                        `col 27: found the end of the query, expected ")"`,
		"m[0..9] | where(value in [1":                       `col 28: found the end of the query, expected "]"`,
		"m[0..9] | where({value: 1":                         `col 26: found the end of the query, expected "}"`,
		"m[0..9] | where(value ]":                           `col 23: found "]", expected ")"`,
		"m[0..9] | where( )":                                `col 18: found ")", expected an expression in where(expr)`,
		"m[0..9] | where(# value > 1\n)":                    `line 2, col 1: found ")", expected an expression in where(expr)`,
		"m[0..9] | where(value > 1 // x\n)":                 `line 1, col 27: found "//", expected an operator: comments begin with #`,
		"m[0..9] | where(value /* x */ > 1)":                `col 23: found "/*", expected an operator: comments begin with #`,
		"m\xff":                                             `col 2: found a byte that is not UTF-8`,
		"m\ufffd":                                           `col 2: found "�", expected "|" or the end of the query`,
		"m | alias(\"\ufffd\xff\")":                         `col 13: found a byte that is not UTF-8`,
		"m[0..9] | limit(3 4)":                              `col 19: found "4", expected "," or ")" in limit(n)`,
		"m[0..9] | limit(":                                  `col 17: found the end of the query, expected a number`,
		"m[0..9] | limit()":                                 `col 17: found ")", expected a whole number in limit(n)`,
		"m[0..9] | limit(1, 2)":                             `col 20: found "2", expected no more arguments of limit(n)`,
		"m[0..9] | limit(x=2)":                              `col 17: unknown argument "x" of limit(n)`,
		"m[0..9] | limit(m=2)":                              `col 17: unknown argument "m" of limit(n)`,
		"m[0..9] | limit(n=2, n=3)":                         `col 22: argument "n" of limit(n) is given twice`,
		"m[0..9] | limit(-1)":                               `col 17: n is -1, expected 0 to 1e+09`,
		"m[0..9] | limit(1.5)":                              `col 17: n is 1.5, expected a whole number`,
		"m[0..9] | topk(1, avgg)":                           `col 19: found "avgg", expected avg, max, min, last or sum (did you mean "avg"?)`,
		"m[0..9] | percentile(101)":                         `col 22: p is 101, expected 0 to 100`,
		"m[0..9] | percentile(1e999)":                       `col 22: number 1e999 is too large`,
		"m[0..9] | percentile(1.2.3)":                       `col 22: found "1.2.3", expected a number`,
		"m[0..9] | percentile(x)":                           `col 22: found "x", expected a number`,
		"m[0..9] | shift(9000000000000000s) | shift(1000s)": `col 17: duration is longer than 285,000 years`,
		"m[0..9] | shift(200000y)":                          `col 23: calendar unit "y" is only for windows`,
		"m[0..9] | window(100000y1y) | avg()":               `col 18: duration is longer than 285,000 years`,
		"m[0..9] | window(99999999999999999999s) | avg()":   `col 18: duration is longer than 285,000 years`,
		"m[0..9] | window(9000000000000s1w) | avg()":        `none`,
		"m[0..9] | window(1mo1d) | avg()":                   `col 18: months and years cannot be combined with other units`,
		"m[0..9] | window(1q) | avg()":                      `col 19: unknown unit of time "q", expected ms, s, m, h, d or w, mo or y`,
		"m[0..9] | window(0s) | avg()":                      `col 18: duration is 0`,
		"m[0..9] | window(1d, tz=Nowhere/None) | avg()":     `col 25: unknown time zone "Nowhere/None", expected one like Europe/Berlin`,
		"m[0..9] | window(1d, tz=) | avg()":                 `col 25: found ")", expected a time zone`,
		"m[0..9] | window(1d, 2s":                           `col 24: found the end of the query, expected "," or ")" in window(size [, every] [, tz=])`,
		"m[0..9] | window(1d)":                              `col 11: window without an aggregation after it, expected avg(), sum(), count(), min(), max() or another one`,
		"m[0..9] | shift(9000000000000000ms)":               `none`,
		"m | window(12":                                     `col 14: found the end of the query, expected a unit of time: ms, s, m, h, d or w`,
		"m[0..9007199254740992]":                            "none",
		"m[0..9007199254740993]":                            `col 6: time 9007199254740993 is beyond 9007199254740992 ms`,
		"m" + strings.Repeat(" | where(field matches '"+strings.Repeat("[a-z]{200}", 9)+"')",
			7): `col 707: patterns of 50659 instructions in the query, expected at most 50000`,
		"m | where(" + strings.Repeat("x", 4097) + ")": `col 11: expression of 4097 bytes, expected no more than 4096`,
		"m[0..9] | vag()":                    `col 11: unknown stage "vag" (did you mean "avg"?)`,
		"m[0..9] | av()":                     `col 11: unknown stage "av" (did you mean "avg"?)`,
		"m[0..9] | mxa()":                    `col 11: unknown stage "mxa" (did you mean "max"?)`,
		"m[0..9] | sumx()":                   `col 11: unknown stage "sumx" (did you mean "sum"?)`,
		"m[0..9] | sumxy()":                  `col 11: unknown stage "sumxy" (did you mean "sum"?)`,
		"m[0..9] | percentil()":              `col 11: unknown stage "percentil" (did you mean "percentile"?)`,
		"m[0..9] | precentiles()":            `col 11: unknown stage "precentiles" (did you mean "percentile"?)`,
		"m[0..9] | preecntiless()":           `col 11: unknown stage "preecntiless" (did you mean "percentile"?)`,
		"m[0..9] | math(value + \"a\")":      `col 22: invalid operation: + (mismatched types float64 and string)`,
		"m[0..9] | where(valu > 1)":          `col 17: unknown name "valu", expected value, timestamp, tags or field (did you mean "value"?)`,
		"m[0..9] | where(value + 1)":         `col 17: expected bool, but got float64`,
		"m[0..9] | where(tags.x)":            `col 17: expected bool, but got string`,
		"m[0..9] | where(value matches '(')": "col 23: error parsing regexp: missing closing ): `(`",
		"m[0..9] | where(f(1) > 1)":          `col 17: unknown function "f", expected abs, ceil, floor, round, int, float, max, min`,
		"m[0..9] | join(+, n":                `col 20: found the end of the query, expected "," or ")" in join(+ | - | * | /, query)`,
		"m[0..9] | join(+, (n)":              `col 22: found the end of the query, expected "," or ")" in join(+ | - | * | /, query)`,
		"m[0..9] | join(%, (n))":             `col 16: found "%", expected +, -, * or /`,
		"m[9..0]":                            `col 3: the range ends before it begins`,
		"m[0..9":                             `col 7: found the end of the query, expected "]" and the stages`,
		"m[]":                                `col 3: found "]", expected a time: epoch ms, now, now-1h, -1h or RFC 3339`,
		"m[1970-13-01T00:00:00Z..now]":       `col 3: time "1970-13-01T00:00:00Z" is neither epoch ms nor RFC 3339 like 2024-05-01T12:00:00Z`,
		"m{a}":                               `col 4: found "}", expected =, !=, =~ or !~`,
		"m{a=}":                              `col 5: found "}", expected a value`,
		"m{a=b":                              `col 6: found the end of the query, expected "," or "}"`,
		"m{a=~[}":                            `col 6: pattern with [ but no ]`,
		"m x":                                `col 3: found "x", expected "|" or the end of the query`,
		"m |":                                `col 4: found the end of the query, expected a stage`,
		"":                                   `col 1: found the end of the query, expected a measurement`,
		"m[0..9]\n  | avg()\n  | summ()":     `line 3, col 5: unknown stage "summ" (did you mean "sum"?)`,
	} {
		_, err := Parse(query)
		got := "none"
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", query, got, want)
		}
	}
	for text, want := range map[string]string{

		"a=b c=d":   `col 5: found "c", expected "," or the end of the filters`,
		"a=b,":      `col 5: found the end of the query, expected the name of a tag`,
		"a=\xff":    `col 3: found a byte that is not UTF-8`,
		"a=b, c!=d": `none`,
		"a=b\n, c":  `line 2, col 4: found the end of the query, expected =, !=, =~ or !~`,
	} {
		_, err := ParseFilters(text)
		got := "none"
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("filters %q: %s, want %s", text, got, want)
		}
	}
}

// TestSteps: a stage from another process must be a single stage for points.
func TestSteps(t *testing.T) {
	for text, want := range map[string]string{
		"abs()":                               "none",
		"abs() | abs()":                       `col 7: found "|", expected the end of the stage`,
		"avg()":                               "col 1: found avg, expected a stage for points",
		"topk(1)":                             "col 1: found topk, expected a stage for points",
		"clamp(1, 2) x":                       `col 13: found "x", expected the end of the stage`,
		"abs(\xff)":                           "col 5: stage of 6 bytes, expected up to 65536 of UTF-8",
		"abs()" + strings.Repeat(" ", 70_000): "col 1: stage of 70005 bytes, expected up to 65536 of UTF-8",
	} {
		_, err := parsePointWise(text)
		got := "none"
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.40q: %s, want %s", text, got, want)
		}
	}
	p, _ := planOf(t, "m[0..100] | abs() | round() | where(value > 1) | avg()")
	if n := len(p.plan.first); n != 3 {
		t.Fatalf("%d stages are pushed down, want 3", n)
	}
	refused := func(what string, change func(p *plan)) {
		t.Helper()
		p, _ := planOf(t, "m[0..100] | abs() | avg()")
		change(&p.plan)
		if _, err := decodePartial(p.Plan(), Limits{}); err == nil {
			t.Errorf("a plan with %s is accepted", what)
		}
	}
	refused("101 stages", func(p *plan) { p.first = slices.Repeat(p.first, maxStages+1) })
	refused("a negative shift", func(p *plan) { p.shift = -1 })
	refused("too long a shift", func(p *plan) { p.shift = agg.MaxTime + 1 })
	refused("a stage that is none for points", func(p *plan) {
		q, _ := Parse("m | topk(1)")
		p.first[0].stage = q.stages[0]
	})
	p.plan.first, p.plan.shift = slices.Repeat(p.plan.first[:1], maxStages), agg.MaxTime
	if _, err := decodePartial(p.Plan(), Limits{}); err != nil {
		t.Errorf("a plan with %d stages and the longest shift: %v", maxStages, err)
	}
}

// TestSelects: which fields and filters select a series.
func TestSelects(t *testing.T) {
	series := Series{Field: "v", Tags: []Tag{{"host", "web-1"}, {"region", "eu"}}}
	for text, want := range map[string]bool{
		"":                            true,
		"host=web-1":                  true,
		"host=web-2":                  false,
		"host!=web-2":                 true,
		"host!=web-1":                 false,
		"host=~web-*":                 true,
		"host!~web-*":                 false,
		"host=web-1, region=us":       false,
		"host=web-2, region=eu":       false,
		"host=web-1, region=eu":       true,
		"rack=1":                      false,
		"rack!=1":                     true,
		"host=web-1, rack=~*":         true,
		"host=web-1, rack=~?*":        false,
		"host=~web-*, region=~[a-f]*": true,
	} {
		filters, err := ParseFilters(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for _, fields := range [][]string{nil, {"v"}, {"u", "v"}, {"u"}} {
			sel := Selection{Filters: filters, Fields: fields}
			if got, want := sel.Selects(&series), want && (fields == nil || slices.Contains(fields, "v")); got != want {
				t.Errorf("filters %s, fields %q: Selects = %v, want %v", text, fields, got, want)
			}
		}
	}
}

// TestResultJSON: a result is encoded as by encoding/json.
func TestResultJSON(t *testing.T) {
	text := "a\"\\\n\t\r\x00\x01\x0f\x10\x1f\x7f\u00e9\U0001f600"
	at := func(millis int64) time.Time { return time.UnixMilli(millis) }
	r := Result{Query: text, Series: []ResultSeries{
		{Key: "k", Field: text, Tags: []Tag{{"a", text}, {"b", "c"}, {"d", ""}}},
		{Points: []Point{{at(-1), 0}, {at(0), math.NaN()}, {at(1), -1e-6}, {at(2), 9.99e-07}, {at(3), 1e21}, {at(4), 999999999999999900000},
			{at(5), -0.1}, {at(6), 1.0 / 3}}},
	}}
	b, err := json.Marshal(&r)
	if err != nil {
		t.Fatal(err)
	}
	if want := `"points":[{"timestamp":-1,"value":0},{"timestamp":0,"value":null},{"timestamp":1,"value":-0.000001},{"timestamp":2,"value":9.99e-07},` +
		`{"timestamp":3,"value":1e+21},{"timestamp":4,"value":999999999999999900000},{"timestamp":5,"value":-0.1},{"timestamp":6,"value":0.3333333333333333}]`; !strings.Contains(string(b), want) {
		t.Errorf("%s, want %s", b, want)
	}
	var back struct {
		Query  string
		Series []struct {
			Key, Field string
			PointCount int `json:"point_count"`
			Tags       []Tag
		}
	}
	if err := json.Unmarshal(b, &back); err != nil || back.Query != text || len(back.Series) != 2 || back.Series[0].Key != "k" ||
		back.Series[0].Field != text || back.Series[1].PointCount != 8 ||
		!slices.Equal(back.Series[0].Tags, r.Series[0].Tags) {
		t.Errorf("%s reads as %+v, %v", b, back, err)
	}
	if q, err := Parse("m | alias(" + quote(text[:7]) + ")"); err != nil || q.stages[0].args[0].text != text[:7] {
		t.Errorf("%s is not what was quoted: %v", quote(text[:7]), err)
	}
	if got := quote("\n\t\r\"\\"); got != `"\n\t\r\"\\"` {
		t.Errorf("quote = %s", got)
	}
}

// TestSuggest: the nearest known name is suggested, if it is near enough.
func TestSuggest(t *testing.T) {
	known := []string{"max", "min", "median", "percentile"}
	for unknown, want := range map[string]string{
		"MAX": "max", "mx": "max", "mxx": "max", "nim": "", "imn": "min", "m": "", "ma": "max", "xyz": "", "mean": "", "medain": "median",
		"mediums": "", "percenti": "percentile", "percent": "", "perce": "", "persentyle": "percentile",
	} {
		if want != "" {
			want = ` (did you mean "` + want + `"?)`
		}
		if got := suggest(unknown, known); got != want {
			t.Errorf("suggest(%q) = %q, want %q", unknown, got, want)
		}
	}
	for n, want := range map[int]int{199: 199, 200: 200, 201: 203} {
		if got := cut(strings.Repeat("a", n)); len(got) != want {
			t.Errorf("%d bytes are shown as %d, want %d", n, len(got), want)
		}
	}
	if got := cut(strings.Repeat("a", 198) + "\u20ac"); got != strings.Repeat("a", 198)+"..." {
		t.Errorf("cut within a character: %q", got)
	}
}

// TestUnknownNames: a name that is unknown is found in every part of an expression, and after a
// comment.
func TestUnknownNames(t *testing.T) {
	for _, e := range []string{
		"valu > 1", "valu > 1 ? true : false", "true ? valu > 1 : false", "true ? false : valu > 1", "!(valu > 1)", "1 > valu",
		"valu > 1 && true", `tags[valu] == "a"`, "value in [1, valu]", "value in valu", "abs(valu) > 1", "max(1, valu) > 1", "-valu > 1",
		"value > # more than\n valu",
	} {
		query := "m[0..9] | where(" + e + ")"
		line, at := "", regexp.MustCompile(`\bvalu\b`).FindStringIndex(query)[0]
		if n := strings.LastIndex(query[:at], "\n"); n >= 0 {
			line, at = "line 2, ", at-n-1
		}
		want := fmt.Sprintf("%scol %d: unknown name %q", line, at+1, "valu")
		if _, err := Parse(query); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", query, err, want)
		}
	}
}

// TestCosts: the cost of an expression, in steps per point, determines the number of points between
// two context checks.
func TestCosts(t *testing.T) {
	for steps, want := range map[int64]int{0: chunk, 1: chunk, chunkSteps / chunk: chunk, chunkSteps/chunk + 1: chunk - 1,
		chunkSteps / 7: 7, chunkSteps: 1, chunkSteps + 1: 1, math.MaxInt64: 1} {
		if got := atOnce(steps); got != want && !(want == chunk-1 && got < chunk) {
			t.Errorf("atOnce(%d) = %d, want %d", steps, got, want)
		}
	}
	series := Series{Field: "field", Tags: []Tag{{"a", "bcd"}, {"longest", ""}, {"e", "fghijkl"}}}
	if got := series.longest(); got != 7 {
		t.Errorf("longest = %d", got)
	}
	if got := series.bytes(); got != 5+4+7+8+3*32 {
		t.Errorf("bytes = %d", got)
	}
	if err := checkCost(maxPointSteps, &series); err != nil {
		t.Error(err)
	}
	if err := checkCost(maxPointSteps+1, &series); err == nil {
		t.Error("one step too many is taken")
	}
	costs := func(text string) int64 {
		q, err := Parse("m | " + text)
		if err != nil {
			t.Fatal(err)
		}
		return q.stages[0].cost(&series)
	}
	for text, want := range map[string]int64{
		`abs()`:                                                 2,
		`round()`:                                               20,
		`cumsum()`:                                              20,
		`moving_avg(3)`:                                         20,
		`clamp(0, 1)`:                                           2,
		`math(value + 1)`:                                       2,
		`math(-value)`:                                          8,
		`math(value * 2 + timestamp)`:                           34,
		`math(value > 1 ? value : 2)`:                           31,
		`where(field == "abc")`:                                 22,
		`where(field + tags.a == "x")`:                          58,
		`where((field ?? "abcdefghijk") == "a")`:                57,
		`where(tags["a"] in ["x", "yy", field])`:                60,
		`where(field matches "ab*")`:                            56,
		`where(field matches "(ab){10}")`:                       448,
		`where(tags.a + field matches "a")`:                     69,
		`where(max(value, 2, 3) > abs(timestamp))`:              42,
		`where(tags?.a == "b")`:                                 33,
		`where(!(value > 1) and field != "x")`:                  47,
		`where((value > 1 ? field : "abcdefghijklm") == field)`: 66,
		`where(field matches "[a-cx-z]")`:                       48,
	} {
		if got := costs(text); got != want {
			t.Errorf("%s costs %d, want %d", text, got, want)
		}
	}
}

// TestResultLimits: a query's result points are limited, and so is its memory for data apart from
// its aggregations.
func TestResultLimits(t *testing.T) {
	var source Slice
	for i := range int64(200) {
		if err := source.Add("m", map[string]string{"k": strconv.FormatInt(i, 10)}, "v", time.UnixMilli(i%3), float64(i)); err != nil {
			t.Fatal(err)
		}
	}
	eval := func(query string, limits Limits) error {
		_, err := Eval(t.Context(), &source, query, Options{Limits: limits})
		return err
	}
	for points, ok := range map[int64]bool{199: false, 200: true, -1: true} {
		if err := eval("m[0..3]", Limits{ResultPoints: points}); (err == nil) != ok {
			t.Errorf("200 points where %d are allowed: %v", points, err)
		}
	}
	least := func(query string) int64 {
		return int64(sort.Search(1<<20, func(n int) bool { return eval(query, Limits{Bytes: int64(n) + 1}) == nil }))
	}
	read, reduced := least("m[0..3] | topk(1000)"), least("m[0..3] | topk(1000) | group_by(*) | count()")
	if read < 200*116 || reduced < read+200*16 {
		t.Errorf("reading 200 series takes %d bytes, counting them as well %d", read, reduced)
	}
}

// TestConstants: numbers with a minus are constants, and other expressions are not.
func TestConstants(t *testing.T) {
	none := math.NaN()
	for text, want := range map[string]float64{"2": 2, "2.5": 2.5, "-2": -2, "--2": 2, "+2": none, "-value": none, "value": none} {
		tree, err := parser.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := constant(tree.Node)
		if ok == math.IsNaN(want) || ok && got != want {
			t.Errorf("%s is the constant %v, %v", text, got, ok)
		}
	}
}

// TestParseGroup: the tags of a group are in order and have values.
func TestParseGroup(t *testing.T) {
	for want, parts := range map[string][]string{
		"":                  {"f", "a", "1", "b", "2"},
		"tags out of order": {"f", "b", "1", "a", "2"},
	} {
		for _, parts := range [][]string{parts, append(parts[:3:3], parts[1], "2"), append(parts[:3:3], "c", "")} {
			id := ""
			for _, part := range parts {
				id = string(codec.AppendString([]byte(id), part))
			}
			field, tags, err := parseGroup(id)
			good := want == "" && parts[3] == "b"
			if good != (err == nil) || good && (field != "f" || len(tags) != 2) ||
				!good && !strings.Contains(err.Error(), "tags out of order") {
				t.Errorf("%q is %q, %v, %v", parts, field, tags, err)
			}
		}
	}
}
