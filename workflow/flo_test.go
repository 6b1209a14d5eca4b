package workflow_test

import (
	"context"
	"errors"
	"testing"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/workflow"
	"github.com/floedb/floe/workflow/workflowtest"
)

// TestAsFlo: definitions of Flo do here what they do there.
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
