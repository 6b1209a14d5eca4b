package workflow_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/workflow"
)

// chain is a workflow of the given number of steps, each of which calls an action.
func chain(steps int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name: chain\nstart: { run: \"@actions/a\", transitions: { success: %s } }\n", place(1, steps))
	if steps > 1 {
		b.WriteString("steps:\n")
	}
	for n := 1; n < steps; n++ {
		fmt.Fprintf(&b, "  s%d: { run: \"@actions/a\", transitions: { success: %s } }\n", n, place(n+1, steps))
	}
	return b.String()
}

func place(n, steps int) string {
	if n == steps {
		return "flo.Completed"
	}
	return fmt.Sprint("s", n)
}

// written runs a chain the given number of times on its own node, with a worker in its process. It
// returns the number of rows written to the node's state.
func written(t *testing.T, steps, runs int) int {
	t.Helper()
	commits := func() (n int) {
		for _, e := range shard.GuardedEfforts() {
			if e.Command == "commit" {
				n = e.Sum.Rows
			}
		}
		return n
	}
	before := commits()
	node, err := floe.Open(floe.Config{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := node.Action("default").Worker(action.WorkerConfig{Concurrency: 1})
	w.Handle("a", func(context.Context, *action.Task) (any, error) { return 1, nil })
	if _, err := node.Action("default").Register(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	if _, err := node.Workflow("default").Create(ctx, []byte(chain(steps))); err != nil {
		t.Fatal(err)
	}
	for range runs {
		settled(t, node)
		if run, err := node.Workflow("default").StartAndWait(ctx, "chain", []byte(`{"n":1}`)); err != nil ||
			run.Status != workflow.Completed {
			t.Fatalf("%+v, %v", run, err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := node.Close(); err != nil {
		t.Error(err)
	}
	return commits() - before
}

// TestRowsOfRun counts the rows that runs write, of workflows and of actions together, as
// documented in docs/workflows.md. Rows created and deleted by one entry never reach the state.
// Each run starts when the worker's claim waits: a run that comes earlier writes one more row.
func TestRowsOfRun(t *testing.T) {
	shard.GuardHosts()
	const more = 40
	perRun := func(steps int) float64 {
		return float64(written(t, steps, 10+more)-written(t, steps, 10)) / more
	}
	one, five := perRun(1), perRun(5)
	// Heartbeats, and the shutdown of the worker and the node, write a few rows that belong to no
	// run.
	if step := (five - one) / 4; math.Round(one) != rowsOfRun || math.Round(step) != rowsOfStep {
		t.Fatalf("a run of one step writes %.2f rows, want %d; each further step %.2f, want %d", one, rowsOfRun, step, rowsOfStep)
	}
}

// Costs of runs, as documented in docs/workflows.md.
const (
	rowsOfRun    = 30
	rowsOfStep   = 14
	entriesOfRun = 4 // of a run of three steps
)

// TestDocumentedCosts: docs/workflows.md states these figures.
func TestDocumentedCosts(t *testing.T) {
	text, err := os.ReadFile("../docs/workflows.md")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("one of three action steps is %d log entries when a worker of the process has room. One of one step writes %d "+
		"rows, those of its action included, and each further step %d.",
		entriesOfRun, rowsOfRun, rowsOfStep)
	if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), want) {
		t.Errorf("docs/workflows.md does not say: %s", want)
	}
}
