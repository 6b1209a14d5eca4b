package flow

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/document"
)

const minimal = "name: x\nstart: { run: '@actions/a', transitions: { success: flo.Completed, failure: flo.Failed } }\n"

var hostileBytes = flag.Int("hostile", MaxSource/8, "how long hostile definitions are")

// hostile are definitions that are meant to do harm, by name.
func hostile() map[string]string {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		bomb += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 8), i)
	}
	count := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	wide := "input: &a { run: '@actions/x' }\nsteps:\n" + count(*hostileBytes/35, "  s%d: *a\n")
	many := "name: x\nsteps:\n" + count(*hostileBytes/52, "  s%d: { run: no, transitions: { a: b, c: d } }\n")
	transitions := "name: x\nstart: { run: '@actions/a', transitions: {" + count(*hostileBytes/17, "o%[1]d: s%[1]d,")
	fill := func(unit string) string { return strings.Repeat(unit, *hostileBytes/len(unit)) }
	return map[string]string{
		"a bomb of aliases":      bomb + minimal,
		"a bomb of text":         "a: &a " + strings.Repeat("x", 100_000) + "\nb: [" + strings.Repeat("*a, ", 5000) + "]\n" + minimal,
		"many aliases":           wide,
		"an anchor in itself":    "a: &a [*a]\n" + minimal,
		"an anchor in its table": "a: &a { b: { c: *a } }\n" + minimal,
		"a merge key":            "a: &a { x: 1 }\nb: { <<: *a }\n" + minimal,
		"open brackets":          fill("["),
		"open braces":            fill("{a: "),
		"dashes":                 fill("- "),
		"question marks":         fill("? "),
		"keys in keys":           fill("{? "),
		"JSON in JSON":           strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000),
		"JSON of 200 levels":     `{"name": ` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}",
		"YAML of 200 levels":     "name: " + strings.Repeat("[", 200) + strings.Repeat("]", 200),
		"many elements":          "name: x\nstart: [" + strings.Repeat("1,", *hostileBytes/2-100) + "]",
		"many elements of JSON":  `{"name": [` + strings.Repeat("1,", *hostileBytes/2-100) + "1]}",
		"an input of many elements": "name: x\nstart: { run: '@actions/a', input: [" + strings.Repeat("1,", *hostileBytes/2-100) +
			"], transitions: { success: flo.Completed } }",
		"many bad steps":        many,
		"many bad transitions":  transitions + "} }",
		"many times a key":      fill("a: 1\n"),
		"many unknown keys":     count(*hostileBytes/13, "a%d: 1\n"),
		"many comments":         fill("#\n"),
		"a long comment":        "#" + fill("x"),
		"a comment behind each": fill("- a #b\n"),
		"a long key":            fill("a") + ": 1",
		"a long text":           "name: '" + fill("a") + "'",
		"colons":                fill(": "),
		"ampersands":            fill("&a "),
		"asterisks":             fill("*a "),
		"quotes":                fill("'"),
		"line breaks":           fill("\n"),
		"tabs":                  fill("\t"),
		"documents":             fill("---\n"),
		"tags":                  fill("!a "),
		"percents":              fill("%a\n"),
		"bars":                  fill("|\n"),
		"a text of lines":       "name: |\n" + fill("  a\n"),
		"folded lines":          "name: " + fill("a\n  "),
		"NUL":                   "name: \"a\\0b\"\n" + minimal[8:],
		"a raw NUL":             "name: a\x00b\n" + minimal[8:],
		"invalid UTF-8":         "name: a\xff\n" + minimal[8:],
		"UTF-16":                "\xff\xfen\x00a\x00",
		"more than 1 MiB":       strings.Repeat("a", MaxSource+1),
		"nothing":               "",
		"only a comment":        "# nothing\n",
		"null":                  "~",
		"a list":                "- a",
		"text":                  "hello",
		"two documents":         minimal + "---\n" + minimal,
		"a tag":                 "name: !!binary aGVsbG8=\n" + minimal[8:],
		"a tag of its own":      "name: !secret x\n" + minimal[8:],
		"nested expressions": "name: x\nstart: { run: '@actions/a', when: '" + strings.Repeat("(", 4000) +
			"', transitions: { success: flo.Completed } }",
		"many nots": "name: x\nstart: { run: '@actions/a', when: '" + strings.Repeat("!", 4000) +
			"input.a', transitions: { success: flo.Completed } }",
		"nested schemas": "name: x\ninput_schema: " + strings.Repeat("{items: ", 90) + "{}" + strings.Repeat("}", 90),
	}
}

// checkProblems checks what holds of every list of problems.
func checkProblems(t *testing.T, src []byte, problems []Problem) {
	t.Helper()
	if len(problems) > document.MaxProblems {
		t.Fatalf("%d problems, at most %d are told", len(problems), document.MaxProblems)
	}
	last := 1
	lines := 2 + strings.Count(string(src), "\n") + strings.Count(string(src), "\r") + strings.Count(string(src), "\u0085") +
		strings.Count(string(src), "\u2028") + strings.Count(string(src), "\u2029")
	for _, p := range problems {
		if p.Line < last || p.Line > lines || p.Code == "" || p.Message == "" || p.Severity < Warning || p.Severity > Error ||
			len(p.Message) > 2000 {
			t.Fatalf("problem %+v behind line %d of %d", p, last, lines)
		}
		last = p.Line
	}
}

// harmless are those that are odd, and right.
var harmless = map[string]bool{"many nots": true, "an input of many elements": true}

// TestHostile: none of it is taken for a definition, nor takes long: the time of a test ends it,
// and a bomb would not.
func TestHostile(t *testing.T) {
	for name, src := range hostile() {
		t.Run(name, func(t *testing.T) {
			d, problems := Parse([]byte(src))
			if d != nil && !harmless[name] {
				t.Errorf("taken for a definition: %+v", d)
			}
			if d == nil && len(problems) == 0 {
				t.Error("no definition and no problem")
			}
			checkProblems(t, []byte(src), problems)
		})
	}
}
