package flow

import (
	"encoding/hex"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/document"
)

// values is a Source: what paths lead to, by the text of the root.
type values map[string]string

func (v values) Root(r Root, name string) []byte {
	roots := map[Root]string{
		RootInput: "input", RootOutput: "steps." + name + ".output", RootOutcome: "steps." + name + ".outcome", RootSignal: "signals." +
			name,
		RootRunID: "flo.run_id", RootTimestamp: "flo.timestamp", RootItem: "item", RootIndex: "index", RootStepInput: "step input",
	}
	if raw, there := v[roots[r]]; there {
		return []byte(raw)
	}
	return nil
}

const testInput = `{"n": 7, "f": 2.5, "s": "abc", "t": true, "none": null, "big": 9223372036854775807, "huge": 1e999, "e": 1e2,
	"list": [1, "two", 3.0, [4], {"five": 5}], "o": {"x y": {"a-b": [10, 20]}, "k": "s", "k": "s2"}, "caf\u00e9": "\ud83d\ude00", "empty": [], "u": "日本"}`

var testValues = values{
	"input":          testInput,
	"steps.a.output": ` {"id": 5, "ok": false} `, "steps.a.outcome": `"success"`, "steps._start.output": `[1,2]`,
	"signals.go": `{"by": "me"}`, "flo.run_id": `"wfr-1"`, "flo.timestamp": `1763740000123`, "item": `{"sku": "x"}`, "index": `3`,
	"step input": `{"id": "c1", "n": null}`,
}

func TestConditions(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{`input.n > 0`, "true"},
		{`$.input.n > 0 and $.input.f < 3`, "true"},
		{`input.n == 7.0 && input.f == 2.5`, "true"},
		{`input.s == "abc" and input.s < "abd" and "B" < "a"`, "true"},
		{`input.n == "7"`, "false"},
		{`input.missing == nil and input.none == null and input.missing.deep.deeper == nil`, "true"},
		{`input.none == 0 or input.none == false or input.none == ""`, "false"},
		{`input.none < 1`, "< does not go with null and number"},
		{`input.missing >= "a"`, ">= does not go with null and string"},
		{`input.s > 1`, "> does not go with string and number"},
		{`input.n + input.s > 1`, "+ does not go with number and string"},
		{`input.list[0] == 1 and input.list[-1].five == 5 and input.list[99] == nil and input.list[-99] == nil`, "true"},
		{`input.list[input.n - 6] == "two"`, "true"},
		{`input["o"]["x y"]["a-b"][1] == 20`, "true"},
		{`input.o[input.missing ?? "k"] == "s2"`, "true"},
		{`input.o?.k == "s2"`, "true"},
		{`input.café == "😀"`, "true"},
		{`input.t`, "true"},
		{`not input.t || !input.t`, "false"},
		{`input.n`, "the condition is a number, expected true or false"},
		{`input.none`, "the condition is null, expected true or false"},
		{`input.list`, "the condition is an array, expected true or false"},
		{`input.s and true`, "and does not go with string"},
		{`false and input.s`, "false"},
		{`true or input.s`, "true"},
		{`input.n ? true : false`, "?: does not go with number"},
		{`input.t ? input.n > 5 : input.s > 1`, "true"},
		{`(input.missing ?? input.n) == 7`, "true"},
		{`input.n in [1, 7, 9] and input.s not in ["x"] and 3 in input.list and "two" in input.list`, "true"},
		{`"k" in input.o and "z" not in input.o`, "true"},
		{`5 in input.o`, "in does not go with number and object"},
		{`5 in input.s`, "in does not go with number and string"},
		{`input.n in 1..7 and 2.0 in 1..3 and 2.5 not in 1..3 and "2" not in 1..3`, "true"},
		{`input.n in 1..input.s`, ".. does not go with number and string"},
		{`input.list == [1, "two", 3, [4], input.list[4]]`, "true"},
		{`[[1, 2], [], "a", -5, 2.5, null, true, [input.n]] == [[1, 2], [], "a", -5, 2.5, null, true, [7]]`, "true"},
		{`input.list == [1]`, "false"},
		{`[1] == input.list or [] == input.list or input.list == [] or input.empty != []`, "false"},
		{`input.o == item or item == input.o or input == input.o`, "false"},
		{`input.o == input.o and input.o != steps.a.output`, "true"},
		{`len(input.list) == 5 and len(input.s) == 3 and len(input.o) == 2 and len(input.u) == 2 and len([1]) == 1 and len(input.empty) == 0`, "true"},
		{`len(input.n) == 1`, "len: a number, expected a string, array or object"},
		{`input.s contains "b" and input.s startsWith "ab" and input.s endsWith "bc" and not (input.s contains "x")`, "true"},
		{`input.list contains input.n`, "contains does not go with array and number"},
		{`input.big + 1 > 0`, "9223372036854775807 + 1 is out of range"},
		{`input.big * 2 > 0`, "9223372036854775807 * 2 is out of range"},
		{`-input.big - 2 < 0`, "-9223372036854775807 - 2 is out of range"},
		{`input.big == 9223372036854775807 and input.big > 9223372036854775806 and input.big < 9223372036854775808.0`, "true"},
		{`input.big + 0.5 > 0`, "true"},
		{`input.huge > 1`, "number 1e999 is out of range"},
		{`1e308 * 10 > 1`, "the result of * is out of range"},
		{`7 / 2 == 3.5 and 7 % 4 == 3 and -7 % 4 == -3 and 6 / 3 == 2`, "true"},
		{`input.n / 0 > 1`, "division by zero"},
		{`input.n % 0 > 1`, "division by zero"},
		{`input.f % 2 > 1`, "% needs integers"},
		{`input.e == 100`, "true"},
		{`-input.n == -7 and +input.n == 7 and -input.f == -2.5`, "true"},
		{`-input.s == 1`, "- does not go with string"},
		{`"a" + input.s == "aabc"`, "true"},
		{`steps.a.output.id == 5 and steps["a"].outcome == "success" and steps.zzz.output == nil`, "true"},
		{`signals.go.by == "me" and signals.other == nil and flo.run_id startsWith "wfr" and flo.timestamp > 5`, "true"},
		{`item.sku == "x" and index == 3`, "true"},
		{`1 < input.n < 10`, "true"},
		{`if input.t { input.n == 7 } else { false }`, "true"},
		{`"x" in input.missing`, "false"},
		{`input.s[0] == "a"`, "false"}, // a path into text leads nowhere
		{`input.s[input.n] == "a"`, "[] does not go with string and number"},
	} {
		e, err := compileExpr(test.text)
		if err != nil {
			t.Errorf("%s: compile: %v", test.text, err)
			continue
		}
		c := codec.NewEncoder(nil)
		codeExpr(&c, e)
		var back Expr
		d := codec.NewDecoder(c.Encoded())
		if codeExpr(&d, &back); d.Done() != nil || !reflect.DeepEqual(&back, e) {
			t.Errorf("%s: read back as %+v, %v", test.text, back, d.Err())
			continue
		}
		got := ""
		if holds, err := back.Eval(testValues); err != nil {
			got = err.Error()
		} else {
			got = strconv.FormatBool(holds)
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.text, got, test.want)
		}
	}
}

// TestCodedConditions: the coded form is part of what logs hold, and does not change.
func TestCodedConditions(t *testing.T) {
	b, err := os.ReadFile("testdata/conditions.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		at := strings.LastIndexByte(line, ' ')
		text, want := line[:at], strings.TrimSpace(line[at:])
		e, err := compileExpr(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		c := codec.NewEncoder(nil)
		if codeExpr(&c, e); hex.EncodeToString(c.Encoded()) != want {
			t.Errorf("%s: %x, want %s", text, c.Encoded(), want)
		}
	}
}

// TestConditionsAreBounded: what a condition costs is bounded, whatever it is about.
func TestConditionsAreBounded(t *testing.T) {
	source := values{"input": "[" + strings.Repeat("[1,2,3],", 1<<16) + "0]"}
	for _, text := range []string{strings.Repeat("input == input and ", 120) + "true", strings.Repeat("5 in input or ", 200) + "true",
		strings.Repeat("len(input) > 0 and ", 190) + "true"} {
		e, err := compileExpr(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Eval(source); err == nil || !strings.HasPrefix(err.Error(), "the expression ") {
			t.Errorf("%s: %v", document.Clip(text), err)
		}
	}
	once, err := compileExpr("input == input and len(input) == 65537")
	if err != nil {
		t.Fatal(err)
	}
	if holds, err := once.Eval(source); !holds || err != nil {
		t.Errorf("once: %v, %v", holds, err)
	}
}

func TestBadConditions(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{``, "unexpected token EOF"},
		{`input.n >`, "unexpected token EOF"},
		{`1 + 2`, "the expression is a number, expected true or false"},
		{`"yes"`, "the expression is a string, expected true or false"},
		{`len(input.s)`, "the expression is a number, expected true or false"},
		{`input.n and 5`, "column 9: and does not go with anything and a number"},
		{`input.s matches "a+"`, "column 9: operator matches, expected literals"},
		{`input.n ** 2 > 1`, "column 9: operator **, expected"},
		{`lower(input.s) == "a"`, "column 1: function lower, expected"},
		{`all(input.list, # > 1)`, "column 1: function all, expected"},
		{`now() > 1`, "column 1: function now, expected"},
		{`foo(1)`, "column 1: function foo, expected"},
		{`input.list[1:2] == nil`, "slice, expected"},
		{`{"a": 1} == nil`, "map, expected"},
		{`let x = 1; x == 1`, "variabledeclarator, expected"},
		{`a.b == 1`, `unknown root "a", expected input, steps, signals, flo, item or index`},
		{`steps.fan-out.output == 1`, "expected $.steps.<name>.output or $.steps.<name>.outcome"},
		{`steps.a == 1`, "expected $.steps.<name>.output or $.steps.<name>.outcome"},
		{`steps[input.s].output == 1`, "expected $.steps.<name>.output or $.steps.<name>.outcome"},
		{`signals == 1`, "expected $.signals.<type>"},
		{`flo.version == 1`, "expected $.flo.run_id or $.flo.timestamp"},
		{`$ == 1`, "expected $.input"},
		{`(1..3) == nil`, "operator .., expected"},
		{`99999999999999999999 > 1`, "value out of range"},
		{strings.Repeat("input.a == 1 or ", 250) + "true", "the expression has more than 1000 terms"},
	} {
		_, err := compileExpr(test.text)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", document.Clip(test.text), err, test.want)
		}
	}
}
