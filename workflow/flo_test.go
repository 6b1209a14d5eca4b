package workflow_test

import (
	"context"
	"errors"
	"testing"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/workflow"
	"github.com/floedb/floe/workflow/workflowtest"
)

// TestAsFlo: definitions of Flo behave here as they do there.
func TestAsFlo(t *testing.T) {
	w := workflowtest.New(t)
	w.Create([]byte(`name: unlisted
start: { run: "@plan/p", transitions: { success: flo.Completed, failure: flo.Failed } }
plans:
  p:
    executors:
      - { name: one, run: "@actions/odd", retry: { max_attempts: 3, initial_delay_ms: 10 } }
      - { name: two, run: "@actions/fine" }
    errors: { retryable: [busy] }
`), []byte(`name: quiet
start: { waitForSignal: { type: go, timeoutMs: 1000 }, transitions: { success: flo.Completed, failure: flo.Failed } }
`), []byte(`name: status
start: { sleep: { ms: 0 }, transitions: { success: Odd } }
terminals: { Odd: { status: rejected } }
`))
	called := 0
	w.Handle("odd", action.Handler(func(context.Context, *action.Task) (any, error) {
		called++
		return nil, action.Code("odd", errors.New("odd"))
	}))
	w.Return("fine", 1, nil)
	if run := w.Run("unlisted", "1"); run.Status != workflow.Completed || called != 1 {
		t.Errorf("an error that is not listed as retryable: %s after %d calls of the first executor, %s", run.Status, called, run.Error)
	}
	if run := w.Run("quiet", "1"); run.Status != workflow.TimedOut {
		t.Errorf("a signal that does not come, with a transition for failure: %s, %s", run.Status, run.Error)
	}
	if run := w.Run("status", "1"); run.Status != workflow.Failed {
		t.Errorf("a terminal whose status is not known: %s", run.Status)
	}
}

// TestFatal: errors listed as fatal, as retryable, and as neither: the number of calls of each
// executor and the outcome of the plan.
func TestFatal(t *testing.T) {
	for _, test := range []struct {
		lists, code string
		one, two    int
		outcome     string
	}{
		{"{ fatal: [bad] }", "bad", 1, 1, workflow.OutcomeExhausted},
		{"{ fatal: [bad] }", "other", 6, 6, workflow.OutcomeExhausted}, // three attempts, and the step calls the plan twice
		{"{ retryable: [busy] }", "busy", 6, 6, workflow.OutcomeExhausted},
		{"{ retryable: [busy] }", "other", 2, 2, workflow.OutcomeExhausted},
		{"{ retryable: [busy], fatal: [bad] }", "bad", 1, 1, workflow.OutcomeExhausted},
		{"{ retryable: [busy], fatal: [bad] }", "busy", 6, 6, workflow.OutcomeExhausted},
		{"{ retryable: [busy], fatal: [bad] }", "other", 2, 2, workflow.OutcomeExhausted},
	} {
		w := workflowtest.New(t)
		w.Create([]byte(`name: lists
start: { run: "@plan/p", retry: { max_attempts: 2, initial_delay_ms: 10 }, transitions: { success: flo.Completed, failure: flo.Failed } }
plans:
  p:
    executors:
      - { name: one, run: "@actions/one", retry: { max_attempts: 3, initial_delay_ms: 10 } }
      - { name: two, run: "@actions/two", retry: { max_attempts: 3, initial_delay_ms: 10 } }
    errors: ` + test.lists + "\n"))
		calls := map[string]int{}
		for _, name := range []string{"one", "two"} {
			w.Handle(name, action.Handler(func(context.Context, *action.Task) (any, error) {
				calls[name]++
				return nil, action.Code(test.code, errors.New("no"))
			}))
		}
		run := w.Run("lists", "1")
		if run.Status != workflow.Failed || calls["one"] != test.one || calls["two"] != test.two || run.Steps[0].Outcome != test.outcome ||
			run.Code != test.code {
			t.Errorf("errors %s, all with %s: %s (%s), outcome %q, %d and %d calls; want %q, %d and %d",
				test.lists, test.code, run.Status, run.Code, run.Steps[0].Outcome, calls["one"], calls["two"], test.outcome, test.one,
				test.two)
		}
	}
}
