package workflow_test

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// TestScheduleOnce changes leaders and restarts nodes between and before ticks, in a plain and in a
// spread namespace: each tick starts exactly one run. Another replica that restarts after every
// entry reaches the same state.
func TestScheduleOnce(t *testing.T) {
	ctx := context.Background()
	source, err := os.ReadFile("testdata/definitions/tick.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, spread := range []bool{false, true} {
		r := newRig(t, 3)
		if spread {
			if err := engine.NewNamespaces(r.Router()).Create(ctx, "n", true); err != nil {
				t.Fatal(err)
			}
		}
		flows := flowsOf(r, "n")
		if _, err := flows.Create(ctx, bytes.ReplaceAll(source, []byte("max_concurrent: 2"), []byte("max_concurrent: 0"))); err != nil {
			t.Fatal(err)
		}
		if i, err := flows.Get(ctx, "tick"); err != nil || i.Schedule.Next.Sub(i.Schedule.Last) <= 0 ||
			i.Schedule.Next.Sub(i.Schedule.Last) > time.Minute {
			t.Errorf("just created: %+v, %v; want the next tick within a minute", i.Schedule, err)
		}
		const ticks = 12
		for n := range ticks * 6 {
			if n%4 == 1 {
				r.Restart()
			}
			if n%5 == 2 {
				r.SetTerm(uint64(2 + n))
			}
			r.Advance(10_000)
		}
		seen := make(map[string]bool)
		for run, err := range flows.Runs().All(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			if run.TriggeredBy != "schedule" || run.IdempotencyKey == "" || seen[run.IdempotencyKey] {
				t.Errorf("spread %t: run %+v", spread, run)
			}
			seen[run.IdempotencyKey] = true
		}
		i, err := flows.Get(ctx, "tick")
		if err != nil || len(seen) != ticks || i.Schedule.Started != ticks || i.Schedule.Skipped+i.Schedule.Missed != 0 {
			t.Errorf("spread %t: %d runs, %+v, %v; want %d", spread, len(seen), i.Schedule, err, ticks)
		}
		r.Replay(func() int { return 1 }, func() bool { return true })
	}
}
