package flow

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// evaluate does with a definition all that a machine does.
func evaluate(d *Definition, s Source) {
	pathOf := func(p *Path) {
		if p != nil {
			p.Append(nil, s)
		}
	}
	templateOf := func(t *Template) {
		if t != nil {
			t.Append(nil, s)
		}
	}
	schemaOf := func(c *Schema) {
		if c != nil {
			_ = c.Check(s.Root(RootInput, ""))
		}
	}
	call := func(c *Call) {
		templateOf(c.Input)
		c.Retry.Backoff.Pause(c.Retry.Attempts, 12345)
		if c.Poll != nil {
			c.Poll.Backoff.Pause(3, 12345)
		}
		if c.Target == TargetPlan {
			_ = d.Plans[c.Plan].Executors[0]
		}
	}
	schemaOf(d.Input)
	templateOf(d.Output)
	for i := range d.Signals {
		schemaOf(d.Signals[i].Schema)
	}
	for i := range d.Attributes {
		pathOf(&d.Attributes[i].From)
	}
	d.calls(call)
	for i := range d.Steps {
		step := &d.Steps[i]
		if step.When != nil {
			_, _ = step.When.Eval(s)
		}
		schemaOf(step.Wait.Schema)
		pathOf(step.Sleep.Until)
		pathOf(step.Parallel.Each)
		for _, t := range step.Transitions {
			if t.To < 0 {
				templateOf(d.Terminal(t.To).Output)
			} else {
				_ = d.Steps[t.To].Name
			}
		}
	}
	for i := range d.Plans {
		p := &d.Plans[i]
		for j := range p.Executors {
			call(&p.Executors[j].Call)
		}
		if p.Cache != nil {
			p.Cache.Key.Append(nil, s)
		}
		if p.Fallback != nil {
			templateOf(p.Fallback.Value)
		}
	}
}

// tryDecode reads a compiled form, and if it is one writes it back, runs it, and compares.
func tryDecode(t *testing.T, record []byte) {
	d, err := decodeDefinition(record)
	if err != nil {
		return
	}
	evaluate(d, testValues)
	back, err := decodeDefinition(encode(d))
	if err != nil || !reflect.DeepEqual(back, d) {
		t.Fatalf("read %+v, wrote and read %+v, %v", d, back, err)
	}
}

func FuzzCode(f *testing.F) {
	for _, src := range samples(f) {
		f.Add(encode(mustParse(f, string(src))))
	}
	f.Fuzz(tryDecode)
}

// TestDamagedCode is a short FuzzCode that always runs.
func TestDamagedCode(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, src := range samples(t) {
		d := mustParse(t, string(src))
		record := encode(d)
		first := *d
		first.MaxSteps = 0
		layout := len(encode(&first)) // without what later layouts have appended
		for n := range record {
			if _, err := decodeDefinition(record[:n]); err == nil && n != layout {
				t.Fatalf("%d of %d bytes are taken for a definition", n, len(record))
			}
		}
		for range 500 {
			damaged := append([]byte(nil), record...)
			for range 1 + r.IntN(3) {
				damaged[r.IntN(len(damaged))] = byte(r.Uint32())
			}
			tryDecode(t, damaged)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, src := range samples(f) {
		f.Add(src)
	}
	for _, src := range hostile() {
		if len(src) < 10_000 {
			f.Add([]byte(src))
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		d, problems := Parse(src)
		checkProblems(t, src, problems)
		if d == nil {
			return
		}
		for _, p := range problems {
			if p.Severity == Error {
				t.Fatalf("a definition with an error: %v", p)
			}
		}
		evaluate(d, testValues)
		if back, err := decodeDefinition(encode(d)); err != nil || !reflect.DeepEqual(back, d) {
			t.Fatalf("wrote %+v, read %+v, %v", d, back, err)
		}
	})
}

func FuzzCondition(f *testing.F) {
	for _, seed := range []string{`input.n > 0 and len(input.list) in 1..5`, `$.input.o["x y"] ?? nil == [1, -2.5, "a"][input.n]`,
		`not (item.sku contains "x") ? true : 1 < 2 < 3`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if e, err := compileExpr(text); err == nil && len(text) <= MaxExpression {
			_, _ = e.Eval(testValues)
		}
	})
}
