package workflow_test

import (
	"context"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/workflow"
)

const threeSteps = `
kind: Workflow
name: three
version: "1"
start: { run: "@actions/a", transitions: { success: second, failure: flo.Failed } }
steps:
  second: { run: "@actions/b", transitions: { success: third, failure: flo.Failed } }
  third: { run: "@actions/c", transitions: { success: flo.Completed, failure: flo.Failed } }
`

// TestEntriesOfRun: a run of three steps takes four entries: work created by a command is taken in
// the same entry.
func TestEntriesOfRun(t *testing.T) {
	node, err := floe.Open(floe.Config{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	})
	w := node.Action("default").Worker(action.WorkerConfig{Concurrency: 1})
	for _, name := range []string{"a", "b", "c"} {
		w.Handle(name, func(context.Context, *action.Task) (any, error) { return 1, nil })
		if _, err := node.Action("default").Register(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	go func() { ended <- w.Run(ctx) }()
	if _, err := node.Workflow("default").Create(ctx, []byte(threeSteps)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		settled(t, node)
		before := entries(t, node)
		run, err := node.Workflow("default").StartAndWait(ctx, "three", nil)
		if err != nil || run.Status != workflow.Completed {
			t.Fatalf("%+v, %v", run, err)
		}
		if n := entries(t, node) - before; n != entriesOfRun {
			t.Errorf("a run of three steps is %d entries, want %d", n, entriesOfRun)
		}
	}
}

// settled returns when the worker is listed and waits, both with its take and for cancellations.
func settled(t *testing.T, node *floe.Node) {
	t.Helper()
	for t.Context().Err() == nil {
		page, err := node.Action("default").Workers().Page(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stats, err := node.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Items) == 1 && stats.Waiting == 2 {
			return
		}
	}
}

func entries(t *testing.T, node *floe.Node) (n uint64) {
	t.Helper()
	stats, err := node.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stats.Shards {
		n += s.Commit
	}
	return n
}
