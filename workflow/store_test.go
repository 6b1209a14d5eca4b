package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/workflow"
)

const twoSteps = `
kind: Workflow
name: order
version: "1"
start:
  run: "@actions/validate"
  transitions: { success: charge, failure: flo.Failed }
steps:
  charge:
    run: "@actions/charge"
    input: { amount: "$.input.amount", checked: "$.steps._start.output.ok" }
    transitions: { success: flo.Completed, failure: flo.Failed }
`

// TestTwoSteps runs a workflow of two actions with workers, in a plain namespace and in a spread
// one.
func TestTwoSteps(t *testing.T) {
	for _, spread := range []bool{false, true} {
		node := floe.OpenMemory(t)
		ctx := t.Context()
		if spread {
			if err := node.Namespaces().Create(ctx, "n", floe.Spread()); err != nil {
				t.Fatal(err)
			}
		}
		actions, flows := node.Action("n"), node.Workflow("n")
		w := actions.Worker(action.WorkerConfig{})
		w.Handle("validate", func(ctx context.Context, task *action.Task) (any, error) { return map[string]bool{"ok": true}, nil })
		w.Handle("charge", func(ctx context.Context, task *action.Task) (any, error) {
			var in struct {
				Amount  float64
				Checked bool
			}
			if err := json.Unmarshal(task.Input, &in); err != nil || !in.Checked {
				return nil, fmt.Errorf("input %s: %v", task.Input, err)
			}
			return map[string]float64{"charged": in.Amount}, nil
		})
		for _, name := range []string{"validate", "charge"} {
			if _, err := actions.Register(ctx, name); err != nil {
				t.Fatal(err)
			}
		}
		running, stop := context.WithCancel(ctx)
		done := make(chan error)
		go func() { done <- w.Run(running) }()
		if _, err := flows.Create(ctx, []byte(twoSteps)); err != nil {
			t.Fatal(err)
		}
		run, err := flows.StartAndWait(ctx, "order", []byte(`{"amount":12.5}`))
		if err != nil || run.Status != workflow.Completed || string(run.Output) != `{"charged":12.5}` || len(run.Steps) != 2 {
			t.Errorf("spread %t: run %+v, %v", spread, run, err)
		}
		for e, err := range flows.History(run.ID).All(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			t.Log(e.Type, e.Step, e.Attempt, e.Outcome, e.Detail)
		}
		stop()
		<-done
	}
}

// TestNamespaceOfDefinition: a definition that names a namespace can be created only in that one.
func TestNamespaceOfDefinition(t *testing.T) {
	node := floe.OpenMemory(t)
	definition := []byte("namespace: shop\n" + twoSteps)
	if _, err := node.Workflow("shop").Create(t.Context(), definition); err != nil {
		t.Errorf("into its namespace: %v", err)
	}
	want := `workflow "order" is for namespace "shop", not "other"`
	if _, err := node.Workflow("other").Create(t.Context(), definition); !errors.Is(err, workflow.ErrInvalid) || err.Error() != want {
		t.Errorf("into another one: %v, want %s", err, want)
	}
}

// TestAbsentAttribute: if the path of a search attribute leads to nothing, the run does not have
// the attribute. Such starts used to be refused.
func TestAbsentAttribute(t *testing.T) {
	flows := floe.OpenMemory(t).Workflow("n")
	definition := `
name: w
searchAttributes: [{ name: customer, from: $.input.customer }, { name: size, type: number, from: "$.input.items[0].size" }]
start: { waitForSignal: { type: go, timeoutMs: 60000 }, transitions: { success: flo.Completed } }
`
	if _, err := flows.Create(t.Context(), []byte(definition)); err != nil {
		t.Fatal(err)
	}
	for input, want := range map[string]map[string]any{
		"": nil, "null": nil, "[1]": nil, "{}": nil, `{"customer":null,"items":[]}`: nil, `{"customer":"c"}`: {"customer": "c"},
		`{"items":[{"size":3}]}`: {"size": 3.0},
	} {
		s, err := flows.Start(t.Context(), "w", []byte(input))
		if err != nil {
			t.Errorf("start with %q: %v", input, err)
			continue
		}
		if r, err := flows.Runs().Get(t.Context(), s.Run); err != nil || !maps.Equal(r.Attributes, want) {
			t.Errorf("attributes of %q: %v, %v, want %v", input, r.Attributes, err, want)
		}
	}
	want := `search attribute "customer": "7" is no string`
	if _, err := flows.Start(t.Context(), "w", []byte(`{"customer":7}`)); !errors.Is(err, workflow.ErrInvalid) || err.Error() != want {
		t.Errorf("start with another type: %v, want %s", err, want)
	}
}

// TestWaitWithoutRetention: Wait returns a finished run even if its workflow retains none.
func TestWaitWithoutRetention(t *testing.T) {
	ctx := t.Context()
	node := floe.OpenMemory(t)
	if err := node.Namespaces().Create(ctx, "spread", floe.Spread()); err != nil {
		t.Fatal(err)
	}
	for _, ns := range []string{"plain", "spread"} {
		flows := node.Workflow(ns)
		for i, retention := range []string{"0", "{ runs: 0 }", "{ runs: 3 }", "1ms"} {
			name := fmt.Sprint("w", i)
			if _, err := flows.Create(ctx, fmt.Appendf(nil,
				"name: %s\nretention: %s\nstart: { sleep: 2ms, transitions: { success: flo.Completed } }\n", name, retention)); err != nil {
				t.Fatal(err)
			}
			var callers sync.WaitGroup
			for range 8 {
				callers.Go(func() {
					for range 5 {
						if run, err := flows.StartAndWait(ctx, name, nil); err != nil || run.Status != workflow.Completed {
							t.Errorf("namespace %s, retention %s: the run is %s, %v", ns, retention, run.Status, err)
						}
					}
				})
			}
			callers.Wait()
		}
	}
}

// TestNoInputIsNull: a missing input is null, also if a start is repeated with its key.
func TestNoInputIsNull(t *testing.T) {
	flows := floe.OpenMemory(t).Workflow("n")
	create(t, flows, []byte("name: w\nstart: { wait_for_signal: { type: go, timeout: 1h }, transitions: { success: flo.Completed } }\n"))
	for i, inputs := range [][3]string{{"", "null", `""`}, {"null", "", "0"}} {
		key := workflow.IdempotencyKey(fmt.Sprint(i))
		first, err := flows.Start(t.Context(), "w", []byte(inputs[0]), key)
		if err != nil {
			t.Fatal(err)
		}
		for _, input := range inputs[:2] {
			if s, err := flows.Start(t.Context(), "w", []byte(input), key); err != nil || !s.Duplicate || s.Run != first.Run {
				t.Errorf("a start with %q behind one with %q: %+v, %v", input, inputs[0], s, err)
			}
		}
		if _, err := flows.Start(t.Context(), "w", []byte(inputs[2]), key); !errors.Is(err, workflow.ErrConflict) {
			t.Errorf("a start with %q behind one with %q: %v", inputs[2], inputs[0], err)
		}
	}
}
