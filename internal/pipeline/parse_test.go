package pipeline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestBad runs testdata/bad.txt: definitions, and exactly what is said about them.
func TestBad(t *testing.T) {
	cases := 0
	datadriven.RunTest(t, "testdata/bad.txt", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd != "parse" {
			d.Fatalf(t, "unknown command %q", d.Cmd)
		}
		cases++
		job, problems := Parse([]byte(d.Input))
		var out strings.Builder
		bad := false
		for _, p := range problems {
			word := "error"
			if p.Warning {
				word = "warning"
			}
			bad = bad || !p.Warning
			fmt.Fprintf(&out, "%d %s %s: %s\n", p.Line, word, p.Code, p.Message)
		}
		if (job == nil) != bad || len(problems) == 0 {
			t.Errorf("%s: job %v with %v", d.Pos, job, problems)
		}
		return out.String()
	})
	if cases < 60 {
		t.Errorf("%d bad definitions, want 60", cases)
	}
}

// TestHostile: definitions that are made to take time or memory are refused, and say so.
func TestHostile(t *testing.T) {
	const frame = "name: x\nsources: [{stream: {name: in, partitions: all}}]\nsinks: [{stream: out}]\noperators:\n"
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	many := func(n int, line string) string { return frame + strings.Repeat(line, n) }
	for _, test := range []struct{ name, source, code string }{
		{"a bomb of aliases", bomb.String(), "too-large"},
		{"an alias of itself", "a: &a [*a]\n", ""},
		{"deep flow lists", "a: " + strings.Repeat("[", 200) + strings.Repeat("]", 200), "too-deep"},
		{"very deep flow lists", "a: " + strings.Repeat("[", 100_000), "syntax"},
		{"deep JSON", `{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}", "too-deep"},
		{"one byte too many", frame + "# " + strings.Repeat("x", MaxSource), "too-large"},
		{"all bytes that are allowed", frame + "  - {type: passthrough}\n#" + strings.Repeat("x", MaxSource-len(frame)-28) + "\n!",
			"syntax"},
		{"too many operators", many(MaxOperators+1, "  - {type: passthrough}\n"), "too-many"},
		{"a deep expression", frame + `  - {type: filter, condition: "expr: ` + strings.Repeat("(", 5000) + "1" +
			strings.Repeat(")", 5000) + `"}`, "bad-condition"},
		{"a long expression", frame + `  - {type: filter, condition: "expr: a` + strings.Repeat(" + a", 50_000) + ` > 1"}`,
			"bad-condition"},
		{"an expression that makes much", frame + `  - {type: filter, condition: "expr: len(1..1000000000) > 1"}`, "bad-condition"},
		{"a long path", frame + `  - {type: keyby, key: "$` + strings.Repeat(".a", 50_000) + `"}`, "bad-path"},
		{"bytes that are no UTF-8", frame + "  - {type: \xff}", "encoding"},
		{"a NUL", frame + "  - {type: \x00}", "encoding"},
		{"a tag of a type", frame + "  - !!binary aGk=", ""},
		{"thousands of mistakes", many(90, "  - {type: filter, a: 1, b: 2, c: 3}\n"), "unknown-key"},
	} {
		job, problems := Parse([]byte(test.source))
		if job != nil || len(problems) == 0 || len(problems) > 101 {
			t.Errorf("%s: job %v, %d problems", test.name, job != nil, len(problems))
			continue
		}
		found := test.code == ""
		for _, p := range problems {
			found = found || p.Code == test.code
			if len(p.Message) > 1000 {
				t.Errorf("%s: a message of %d bytes: %.100s", test.name, len(p.Message), p.Message)
			}
		}
		if !found {
			t.Errorf("%s: want %s, got %v", test.name, test.code, problems[:min(3, len(problems))])
		}
	}
}
