package workflow_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/workflow"
)

// TestRetrySpans: a run distinguishes 16 retries after compensations. From the 17th on the first
// two are merged, with the visits between them: those cannot be retried.
func TestRetrySpans(t *testing.T) {
	for retries, want := range map[int]error{0: workflow.ErrConflict, 1: nil, 16: nil, 17: workflow.ErrConflict, 19: workflow.ErrConflict} {
		t.Run(fmt.Sprint(retries), func(t *testing.T) {
			// A round compensates the step do and ends; only the first two visit the step look.
			u := startUndoing(t, plain, `start: { run: "@actions/other", transitions: { success: look } }
steps:
  look: { run: "@actions/other", transitions: { success: do } }
  do: { run: "@actions/do", compensate: "@actions/undo", transitions: { success: fail } }
  fail: { run: "@actions/other", transitions: { success: flo.Completed } }
`)
			retry := func(step string) error {
				_, err := u.flows.Retry(t.Context(), u.run, workflow.FromStep(step))
				return err
			}
			round := func() {
				u.done("do", "1")
				u.fail("other")
				u.done("undo", "1")
			}
			u.done("other", "1")
			u.done("other", "1")
			round()
			for i := range retries {
				if i == 0 {
					if err := retry("look"); err != nil {
						t.Fatal(err)
					}
					u.done("other", "1")
				} else if err := retry("do"); err != nil {
					t.Fatal(err)
				}
				round()
			}
			if err := retry("fail"); !errors.Is(err, workflow.ErrConflict) {
				t.Errorf("a step after the compensated one: %v, want ErrConflict", err)
			}
			if retries == 0 { // the visit to look is before the compensated one
				want = nil
			}
			if err := retry("look"); !errors.Is(err, want) {
				t.Errorf("a step between the compensations: %v, want %v", err, want)
			}
			u.r.Verify()
		})
	}
}

// TestDeleteNamespaceOfEndedRuns: a namespace whose workflows are all deleted can be deleted, with
// everything that is left of their runs.
func TestDeleteNamespaceOfEndedRuns(t *testing.T) {
	for _, spread := range []bool{false, true} {
		r, ctx := newRig(t, 3), t.Context()
		namespaces := engine.NewNamespaces(r.Router())
		if err := namespaces.Create(ctx, "n", spread); err != nil {
			t.Fatal(err)
		}
		flows := flowsOf(r, "n")
		for _, name := range []string{"a", "b"} {
			create(t, flows, startsWith(name, does(workflow.Sleep{For: time.Minute}, "success", "flo.Completed")))
			for range 150 {
				if _, err := flows.Start(ctx, name, nil); err != nil {
					t.Fatal(err)
				}
			}
			r.Pass(60_000)
			r.Fire()
			if err := namespaces.Delete(ctx, "n"); !errors.Is(err, engine.ErrConflict) {
				t.Errorf("a namespace with a workflow: %v, want ErrConflict", err)
			}
			if err := flows.Delete(ctx, name); err != nil {
				t.Fatal(err)
			}
		}
		r.Verify()
		if err := namespaces.Delete(ctx, "n"); err != nil {
			t.Fatal(err)
		}
		for shard := range engine.ShardID(r.Shards()) {
			for _, row := range r.Rows(shard) {
				if row.Machine == engine.MachineWorkflow {
					t.Fatalf("row %q is left", row.Key)
				}
			}
		}
	}
}
