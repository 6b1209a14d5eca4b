package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
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

// TestTwoSteps runs a workflow of two actions with workers, in a plain namespace and in a spread one.
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
