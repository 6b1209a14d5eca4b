package flow

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/expr-lang/expr"
)

var expressions = flag.Int("expressions", 1500, "how many expressions are compared with expr-lang/expr")

// generator makes expressions of the language that both have in common: paths lead somewhere, types
// go together, nothing overflows or is divided by zero.
type generator struct{ *rand.Rand }

func (g generator) pick(list ...string) string { return list[g.IntN(len(list))] }

func (g generator) boolean(depth int) string {
	if depth == 0 {
		return g.pick("true", "false", "input.t", "input.list[1] == nil", "steps.a.output.ok", `steps["a"].outcome == "success"`)
	}
	b, n, s := func() string { return g.boolean(depth - 1) }, func() string { return g.number(depth - 1) },
		func() string { return g.text(depth - 1) }
	switch g.IntN(10) {
	case 0:
		return fmt.Sprintf("(%s %s %s)", b(), g.pick("and", "&&", "or", "||"), b())
	case 1:
		return fmt.Sprintf("%s (%s)", g.pick("not", "!"), b())
	case 2, 3:
		return fmt.Sprintf("%s %s %s", n(), g.pick("==", "!=", "<", "<=", ">", ">="), n())
	case 4:
		return fmt.Sprintf("%s %s %s", s(), g.pick("==", "!=", "<", "<=", ">", ">=", "contains", "startsWith", "endsWith", "not contains"),
			s())
	case 5:
		return fmt.Sprintf("%s %s [%s, %s, %s]", n(), g.pick("in", "not in"), n(), s(), n())
	case 6:
		return fmt.Sprintf("%s in %d..%d", n(), g.IntN(5), g.IntN(20))
	case 7:
		return fmt.Sprintf("(%s ? %s : %s)", b(), b(), b())
	case 8:
		return fmt.Sprintf("%s %s %s", g.pick(n(), s(), b()), g.pick("==", "!="), g.pick(n(), s(), "nil", "input.none"))
	}
	return fmt.Sprintf("%s in input.o", s())
}

func (g generator) number(depth int) string {
	if depth == 0 {
		return g.pick("0", "1", "7", "2.5", "-3", "input.n", "input.f", "input.e", "input.list[0]", "input.list[2]", "$env.input.n",
			"flo.timestamp", "index", `input["n"]`)
	}
	n := func() string { return g.number(depth - 1) }
	switch g.IntN(7) {
	case 0, 1:
		return fmt.Sprintf("(%s %s %s)", n(), g.pick("+", "-", "*"), n())
	case 2:
		return fmt.Sprintf("(%s / %s)", n(), g.pick("2", "0.5", "input.n"))
	case 3:
		return fmt.Sprintf("(%s %% %s)", g.pick("5", "input.n", "-11", "index"), g.pick("3", "-2"))
	case 4:
		return fmt.Sprintf("len(%s)", g.pick(g.text(depth-1), "input.list", "[1, 2]", "input.empty"))
	case 5:
		return fmt.Sprintf("(%s ?? %s)", g.pick("input.none", "nil", n()), n())
	}
	return fmt.Sprintf("-(%s)", n())
}

func (g generator) text(depth int) string {
	if depth == 0 {
		return g.pick(`"abc"`, `""`, `"k"`, `"Ünï"`, "input.s", "input.u", "input.list[1]", "item.sku", "signals.go.by", "flo.run_id")
	}
	return fmt.Sprintf("(%s + %s)", g.text(depth-1), g.text(depth-1))
}

// environment is what expr sees of the values: integers as int64, as ours are.
func environment(t *testing.T) map[string]any {
	parse := func(raw string) any {
		raw = strings.ReplaceAll(raw, "1e999", "null")
		d := json.NewDecoder(strings.NewReader(raw))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		return numbers(v)
	}
	v := testValues
	return map[string]any{
		"input": parse(v["input"]), "item": parse(v["item"]), "index": parse(v["index"]),
		"signals": map[string]any{"go": parse(v["signals.go"])},
		"steps":   map[string]any{"a": map[string]any{"output": parse(v["steps.a.output"]), "outcome": parse(v["steps.a.outcome"])}},
		"flo":     map[string]any{"run_id": parse(v["flo.run_id"]), "timestamp": parse(v["flo.timestamp"])},
	}
}

func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return int(n)
		}
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return v
}

// TestSameAsExpr compares with expr-lang/expr, of whose language ours is a part.
func TestSameAsExpr(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(5, 6))}
	env := environment(t)
	compared := 0
	for range *expressions {
		text := g.boolean(1 + g.IntN(4))
		want, err := expr.Eval(text, env)
		if err != nil {
			continue // as when expr finds types that do not go together, or a text too deep
		}
		e, err := compileExpr(strings.ReplaceAll(text, "$env.", "$."))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := e.Eval(testValues)
		if err != nil && strings.Contains(err.Error(), "out of range") {
			continue // expr overflows in silence
		}
		if err != nil || any(got) != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
		compared++
	}
	if compared < *expressions/2 {
		t.Errorf("%d of %d expressions were compared", compared, *expressions)
	}
}
