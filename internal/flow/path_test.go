package flow

import (
	"strings"
	"testing"

	"github.com/floedb/floe/internal/document"
	"github.com/floedb/floe/internal/expression"
	"github.com/floedb/floe/internal/rawjson"
)

func TestPaths(t *testing.T) {
	for _, test := range []struct{ path, want string }{
		{`$.input`, testInput},
		{`$.input.n`, `7`},
		{`$.input.o["x y"]["a-b"][1]`, `20`},
		{`$.input['o']['x y'].a-b[0]`, `10`},
		{`$["input"].o.k`, `"s2"`},
		{`$.input.list[4].five`, `5`},
		{`$.input.list[5]`, ``},
		{`$.input.list.five`, ``},
		{`$.input.n.x`, ``},
		{`$.input.none`, `null`},
		{`$.input.missing`, ``},
		{`$.input.café`, `"\ud83d\ude00"`},
		{`input.n`, `7`},
		{`steps.a.outcome`, `"success"`},
		{`$.steps.a.output`, `{"id": 5, "ok": false}`},
		{`$.steps["a"].output.id`, `5`},
		{`$.steps.zzz.output`, ``},
		{`$.steps._start.output[1]`, `2`},
		{`$.signals.go.by`, `"me"`},
		{`$.signals.go`, `{"by": "me"}`},
		{`$.flo.run_id`, `"wfr-1"`},
		{`$.flo.timestamp`, `1763740000123`},
		{`$.item.sku`, `"x"`},
		{`$.thing.sku`, `"x"`},
		{`$.index`, `3`},
	} {
		p, err := parsePath(test.path, pathRules{bare: true, item: true, as: "thing"})
		if err != nil {
			t.Errorf("%s: %v", test.path, err)
			continue
		}
		if got := string(p.Append([]byte("-"), testValues)); got != "-"+test.want {
			t.Errorf("%s: %s, want %s", test.path, got, test.want)
		}
	}
}

func TestBadPaths(t *testing.T) {
	for _, test := range []struct{ path, want string }{
		{`$`, "expected $.input, $.steps, $.signals, $.flo, $.item or $.index"},
		{`$input`, "expected $.input, $.steps, $.signals, $.flo, $.item or $.index"},
		{`$.`, "expected a name after a dot"},
		{`$[0]`, "expected $.input, $.steps, $.signals, $.flo, $.item or $.index"},
		{`input.x`, `expected a path that begins with "$."`},
		{`$.input..x`, "expected a name after a dot"},
		{`$.input.x y`, "found ' ', expected a dot or ["},
		{`$.input[x]`, "found [x], expected an index from 0 or a name in quotes"},
		{`$.input[-1]`, "found [-1], expected an index from 0 or a name in quotes"},
		{`$.input[99999999999]`, "found [99999999999], expected an index from 0 or a name in quotes"},
		{`$.input[0`, "expected ] at the end of an index"},
		{`$.input["a]`, "a name in quotes has no end"},
		{`$.input["a\`, "a name in quotes has no end"},
		{`$.input["a"x]`, "expected ] after a name in quotes"},
		{`$.steps.a`, "expected $.steps.<name>.output or $.steps.<name>.outcome"},
		{`$.steps.a.status`, "expected $.steps.<name>.output or $.steps.<name>.outcome"},
		{`$.steps[0].output`, "expected $.steps.<name>.output or $.steps.<name>.outcome"},
		{`$.signals`, "expected $.signals.<type>"},
		{`$.flo`, "expected $.flo.run_id or $.flo.timestamp"},
		{`$.item.x`, "$.item exists only in a parallel step with each"},
		{`$.inputs.x`, `unknown root "inputs", expected input, steps, signals, flo`},
		{`$.input` + strings.Repeat(".a", expression.MaxHops+3), "a path has at most 64 members"},
	} {
		if _, err := parsePath(test.path, pathRules{}); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", document.Clip(test.path), err, test.want)
		}
	}
}

// readValue reads the value of a key that fields name, as it stands in a definition.
func readValue(t *testing.T, src string, read func(r *reader) func(*document.Node, string)) *document.Report {
	t.Helper()
	var found document.Report
	r := &reader{Reader: document.Reader{Report: &found}, d: &Definition{}, places: map[string]Place{}}
	if doc := document.Read([]byte(src), &found); doc != nil {
		read(r)(doc.Pairs[0].Value, "v")
	}
	return &found
}

func TestTemplates(t *testing.T) {
	for _, test := range []struct{ yaml, want string }{
		{`v: { amount: $.input.n, note: fixed, "k k": [$.input.t, {a: "$.input.list[3]"}], none: $.input.missing }`,
			`{"amount":7,"note":"fixed","k k":[true,{"a":[4]}],"none":null}`},
		{`v: $.input.list`, `[1, "two", 3.0, [4], {"five": 5}]`},
		{`v: "$.input.missing"`, `null`},
		{`v: "costs $.input.n"`, `"costs $.input.n"`},
		{`v: "$5"`, `"$5"`},
		{`v: '{"a": "$.input.n", "b": [1.50, "x"]}'`, `{"a":7,"b":[1.50,"x"]}`},
		{`v: "[1"`, `"[1"`},
		{`v: "5"`, `"5"`},
		{`v: null`, `null`},
		{`v: [12345678901234567890, -0.10, 1e5, True, ~]`, `[12345678901234567890,-0.10,1e5,true,null]`},
		{`v: 2026-01-02`, `"2026-01-02"`},
		{`{"v": "\ud83d\ude00\/\u0000"}`, `"😀/\u0000"`},
		{`v: "yes"`, `"yes"`},
	} {
		var got *Template
		found := readValue(t, test.yaml, func(r *reader) func(*document.Node, string) { return r.mapping(&got, pathRules{}, false) })
		if got == nil || len(found.Problems) > 0 {
			t.Errorf("%s: %v", test.yaml, found.Problems)
			continue
		}
		out := string(got.Append([]byte("-"), testValues))
		if out != "-"+test.want || !rawjson.Valid([]byte(out[1:])) {
			t.Errorf("%s: %s, want %s", test.yaml, out, test.want)
		}
	}
}

// TestTemplateIsBounded: a template that names a large input many times does not make all of it.
func TestTemplateIsBounded(t *testing.T) {
	var got *Template
	readValue(t, "v: ["+strings.Repeat("$.input,", 200)+"]",
		func(r *reader) func(*document.Node, string) { return r.mapping(&got, pathRules{}, false) })
	big := `"` + strings.Repeat("x", 1<<20) + `"`
	out := got.Append(nil, values{"input": big})
	if len(out) <= MaxRendered || len(out) > 2*MaxRendered+100 {
		t.Errorf("%d bytes, want a little more than %d", len(out), MaxRendered)
	}
}

func TestKeyTemplates(t *testing.T) {
	for _, test := range []struct {
		yaml, want string
		whole      bool
	}{
		{`v: "charge:{input.id}:{input.n}"`, "charge:c1:null", false}, // n of the step's input is there, and null
		{`v: "charge:{input.id}:{input.s}:{$.input.f}:{flo.run_id}"`, "charge:c1:abc:2.5:wfr-1", true},
		{`v: "{input.missing}x"`, "x", false},
		{`v: "all"`, "all", true},
		{`v: "{input.o}"`, `{"x y": {"a-b": [10, 20]}, "k": "s", "k": "s2"}`, true},
		{`v: "{steps.a.outcome}{input.u}"`, "success日本", true},
	} {
		var got KeyTemplate
		if found := readValue(t, test.yaml, func(r *reader) func(*document.Node,
			string) {
			return r.keyTemplate(&got)
		}); len(found.Problems) > 0 {
			t.Errorf("%s: %v", test.yaml, found.Problems)
			continue
		}
		key, whole := got.Append([]byte("-"), testValues)
		if string(key) != "-"+test.want || whole != test.whole {
			t.Errorf("%s: %s, %v, want %s, %v", test.yaml, key, whole, test.want, test.whole)
		}
	}
}

func TestKeysAreBounded(t *testing.T) {
	var got KeyTemplate
	readValue(t, `v: "`+strings.Repeat("{input}", 100)+`"`, func(r *reader) func(*document.Node, string) { return r.keyTemplate(&got) })
	if key, whole := got.Append(nil, values{"step input": `"` + strings.Repeat("x", 900) + `"`}); whole || len(key) > 3000 {
		t.Errorf("a key of %d bytes, whole %v", len(key), whole)
	}
}
