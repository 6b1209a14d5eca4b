package action_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
)

// TestScheduleReachesWorkers: on a real node, by its clock, ticks become runs that a worker carries
// out exactly once, also across a restart.
func TestScheduleReachesWorkers(t *testing.T) {
	dir := t.TempDir()
	seen := make(map[string]bool)
	for round := range 2 {
		node, err := floe.Open(floe.Config{DataDir: dir, Shards: 2})
		if err != nil {
			t.Fatal(err)
		}
		s := node.Action("default")
		if _, err := s.Register(t.Context(), "tick"); err != nil {
			t.Fatal(err)
		}
		// The same schedule is set again when the node is reopened.
		if err := s.Schedules("tick").Set(t.Context(), "often", action.ScheduleSpec{Every: time.Second, Input: []byte(`{"n":1}`)},
			action.Priority(7)); err != nil {
			t.Fatal(err)
		}
		tasks := make(chan *action.Task, 100)
		stop := working(t, s.Worker(action.WorkerConfig{ID: fmt.Sprint("w", round)}).Handle("tick",
			func(_ context.Context, task *action.Task) (any, error) {
				tasks <- task
				return nil, nil
			}))
		for range 2 {
			select {
			case task := <-tasks:
				if task.Source != "schedule:often" || string(task.Input) != `{"n":1}` || task.Priority != 7 || seen[task.IdempotencyKey] {
					t.Errorf("task %+v, seen before: %v", task, seen[task.IdempotencyKey])
				}
				seen[task.IdempotencyKey] = true
			case <-short(t).Done():
				t.Fatal("no tick")
			}
		}
		if err := stop(); err != nil {
			t.Errorf("Run = %v", err)
		}
		if found, err := s.Schedules("tick").Get(t.Context(), "often"); err != nil || found.Ran < int64(len(seen)) || found.Refused != 0 ||
			found.Priority != 7 {
			t.Errorf("%+v, %v", found, err)
		}
		if err := node.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

func ExampleSchedules_Set() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		panic(err)
	}
	defer node.Close()
	ctx := context.Background()
	actions := node.Action("default")
	if _, err := actions.Register(ctx, "report"); err != nil {
		panic(err)
	}
	err = actions.Schedules("report").Set(ctx, "nightly", action.ScheduleSpec{
		Cron: "0 2 * * MON-FRI", Zone: "Europe/Berlin", CatchUp: action.CatchUpOne, Input: []byte(`{"full":true}`),
	})
	if err != nil {
		panic(err)
	}
	made, err := actions.Schedules("report").Trigger(ctx, "nightly") // now, once
	if err != nil {
		panic(err)
	}
	run, err := actions.Runs().Get(ctx, made.Run)
	fmt.Println(run.Action, run.Status, run.Source, string(run.Input), err)
	// Output: report pending schedule:nightly {"full":true} <nil>
}
