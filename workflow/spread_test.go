package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/workflow"
)

// spread returns the stores of a namespace that is spread over four shards.
func spread(t *testing.T) (*machinetest.Rig, *workflow.Store, *action.Store) {
	t.Helper()
	r := newRig(t, 4)
	if err := engine.NewNamespaces(r.Router()).Create(t.Context(), "n", true); err != nil {
		t.Fatal(err)
	}
	return r, flowsOf(r, "n"), actionsOf(r, "n")
}

// work executes all tasks that workers can take.
func work(t *testing.T, actions *action.Store, names ...string) (done int) {
	t.Helper()
	for {
		tasks, err := actions.Await(context.Background(), "w", names, action.Max(10))
		if err != nil {
			t.Fatal(err)
		}
		if len(tasks) == 0 {
			return done
		}
		for i := range tasks {
			if err := actions.Finish(context.Background(), "w", &tasks[i], map[string]any{"of": tasks[i].IdempotencyKey}, nil); err != nil {
				t.Fatal(err)
			}
			done++
		}
	}
}

// TestSpread: runs are in all shards, and their calls may be in other shards because of limits: the
// end of a call reaches its run all the same.
func TestSpread(t *testing.T) {
	ctx := t.Context()
	r, flows, actions := spread(t)
	for name, opts := range map[string][]action.RegisterOption{"free": nil, "limited": {action.MaxRunning(1)},
		"undo": {action.MaxRunning(1)}} {
		if _, err := actions.Register(ctx, name, opts...); err != nil {
			t.Fatal(err)
		}
	}
	child := startsWith("child", does(calling("@actions/limited"), "success", "flo.Completed"))
	start := does(calling("@actions/limited"), "success", "next")
	start.Compensate = &workflow.Call{Target: "@actions/undo"}
	fan := workflow.Parallel{Branches: []workflow.Branch{{"a", calling("@actions/free")}, {"b", calling("@workflow/child")}}}
	parent := startsWith("parent", start, named("next", does(fan, "success", "go")),
		named("go", does(workflow.WaitFor{Signal: "go"}, "success", "flo.Completed")))
	for _, d := range [][]byte{child, parent} {
		if _, err := flows.Create(ctx, d); err != nil {
			t.Fatal(err)
		}
	}
	var runs []workflow.RunID
	for i := range 24 {
		var opts []workflow.StartOption
		if i%3 == 1 {
			opts = append(opts, workflow.IdempotencyKey(fmt.Sprint(i)))
		} else if i%3 == 2 {
			opts = append(opts, workflow.UseID(workflow.RunID(fmt.Sprint("own-", i))))
		}
		s, err := flows.Start(ctx, "parent", []byte(`{"n":1}`), opts...)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, s.Run)
		if again, err := flows.Start(ctx, "parent", []byte(`{"n":1}`), opts...); i%3 == 1 &&
			(err != nil || !again.Duplicate || again.Run != s.Run) {
			t.Errorf("the start again: %+v, %v", again, err)
		} else if i%3 == 2 && !errors.Is(err, workflow.ErrExists) {
			t.Errorf("another run with the id: %v", err)
		} else if i%3 == 0 {
			runs = append(runs, again.Run)
		}
	}
	if _, err := flows.Start(ctx, "parent", nil, workflow.IdempotencyKey("a"), workflow.UseID("b")); !errors.Is(err, workflow.ErrInvalid) {
		t.Errorf("a start with a key and an id: %v", err)
	}
	// One is cancelled while its action waits in another shard, the other before any worker has
	// taken it.
	for _, id := range runs[:2] {
		if _, err := flows.Cancel(ctx, id, "enough"); err != nil {
			t.Fatal(err)
		}
	}
	r.Verify()
	work(t, actions, "free", "limited", "undo")
	shards := make(map[int]bool)
	for i, id := range runs {
		run, err := flows.Runs().Get(ctx, id)
		want := workflow.Waiting
		if i < 2 {
			want = workflow.Cancelled
		}
		if err != nil || run.Status != want {
			t.Fatalf("run %d: %+v, %v", i, run, err)
		}
		if shard, ok := workflow.ShardOf(id); ok {
			shards[shard] = true
		}
		if i >= 2 {
			if _, err := flows.Signal(ctx, id, "go", nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(shards) < 4 {
		t.Errorf("the runs are in %d shards", len(shards))
	}
	r.Verify()
	info, err := flows.Get(ctx, "parent")
	if want := (workflow.RunCounts{Total: 32, Completed: 30, Cancelled: 2}); err != nil || info.Runs != want {
		t.Errorf("the workflow: %+v, %v", info.Runs, err)
	}
	listed := make(map[workflow.RunID]bool)
	for run, err := range flows.Runs().All(ctx, workflow.Of("parent"), workflow.Limit(5)) {
		if err != nil || listed[run.ID] {
			t.Fatalf("run %s is listed twice: %v", run.ID, err)
		}
		listed[run.ID] = true
	}
	if len(listed) != len(runs) {
		t.Errorf("%d runs are listed, there are %d", len(listed), len(runs))
	}
	// Other shards receive changes.
	if err := flows.Disable(ctx, "parent"); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		if _, err := flows.Start(ctx, "parent", nil); !errors.Is(err, workflow.ErrConflict) {
			t.Errorf("a start of a disabled workflow: %v", err)
		}
	}
	if err := flows.Delete(ctx, "parent"); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		if _, err := flows.Start(ctx, "parent", nil); !errors.Is(err, workflow.ErrNotFound) {
			t.Errorf("a start of a deleted workflow: %v", err)
		}
	}
	if _, err := flows.Get(ctx, "parent"); !errors.Is(err, workflow.ErrNotFound) {
		t.Errorf("a deleted workflow: %v", err)
	}
	r.Pass(40 * 24 * 3600_000)
	r.Fire()
	for run, err := range flows.Runs().All(ctx) {
		t.Errorf("run %s is kept for too long: %v", run.ID, err)
	}
}

// TestCallsBeforeShardsHaveHeard: the target of a run's call is known in its home shard but not yet
// in the run's own shard.
func TestCallsBeforeShardsHaveHeard(t *testing.T) {
	ctx := t.Context()
	r, flows, actions := spread(t)
	step := named("child", does(calling("@workflow/new"), "success", "flo.Completed"))
	step.Compensate = &workflow.Call{Target: "@actions/new"}
	parent := startsWith("parent", does(calling("@actions/new"), "success", "child"), step)
	if _, err := flows.Create(ctx, parent); err != nil {
		t.Fatal(err)
	}
	r.Hold(true)
	if _, err := actions.Register(ctx, "new"); err != nil {
		t.Fatal(err)
	}
	if _, err := flows.Create(ctx, startsWith("new", does(workflow.WaitFor{Signal: "go"}, "success", "flo.Completed"))); err != nil {
		t.Fatal(err)
	}
	var runs []workflow.RunID
	for range 8 {
		s, err := flows.Start(ctx, "parent", []byte("1"))
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, s.Run)
	}
	r.Hold(false)
	r.Deliver()
	if n := work(t, actions, "new"); n != len(runs) {
		t.Errorf("%d actions were carried out, want %d", n, len(runs))
	}
	var children []workflow.RunID
	for run, err := range flows.Runs().All(ctx, workflow.Of("new")) {
		if err != nil {
			t.Fatal(err)
		}
		children = append(children, run.ID)
	}
	for _, id := range runs[:3] { // their children are cancelled, wherever they are
		if _, err := flows.Cancel(ctx, id, "enough"); err != nil {
			t.Fatal(err)
		}
	}
	work(t, actions, "new")
	for _, id := range children {
		if _, err := flows.Signal(ctx, id, "go", nil); err != nil && !errors.Is(err, workflow.ErrConflict) {
			t.Fatal(err)
		}
	}
	if info, err := flows.Get(ctx, "parent"); err != nil || info.Runs != (workflow.RunCounts{Total: 8, Completed: 5, Cancelled: 3}) {
		t.Errorf("parents: %+v, %v", info.Runs, err)
	}
	if info, err := flows.Get(ctx, "new"); err != nil || info.Runs != (workflow.RunCounts{Total: 8, Completed: 5, Cancelled: 3}) {
		t.Errorf("children: %+v, %v", info.Runs, err)
	}
}

// TestLateReplies: the target of a call that has ended before its shard replied is cancelled. A
// call that could not be made is not waited for.
func TestLateReplies(t *testing.T) {
	const most = 8
	for _, c := range []struct {
		name, target string
		lose         bool // the target is deleted before it receives the calls
	}{{"action", "@actions/new", false}, {"no action", "@actions/new", true}, {"child", "@workflow/new", false},
		{"no child", "@workflow/new", true}} {
		for _, compensate := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, compensated %t", c.name, compensate), func(t *testing.T) {
				ctx := t.Context()
				r, flows, actions := spread(t)
				start := does(calling(c.target), "success", "flo.Completed")
				if compensate {
					start.Compensate = &workflow.Call{Target: "@actions/undo"}
				}
				create(t, flows, startsWith("parent", start))
				must := func(err error) {
					t.Helper()
					if err != nil {
						t.Fatal(err)
					}
				}
				_, err := actions.Register(ctx, "undo")
				must(err)
				r.Hold(true) // other shards have not received the target, so their calls go to its home
				_, err = actions.Register(ctx, "new")
				must(err)
				create(t, flows, startsWith("new", does(workflow.WaitFor{Signal: "go"}, "success", "flo.Completed")))
				for range most {
					s, err := flows.Start(ctx, "parent", nil)
					must(err)
					_, err = flows.Cancel(ctx, s.Run, "enough")
					must(err)
				}
				if c.lose {
					must(actions.Delete(ctx, "new", action.Force()))
					must(flows.Delete(ctx, "new", workflow.Force()))
				}
				r.Hold(false)
				r.Deliver()
				if i, err := actions.Get(ctx, "new"); !c.lose && (err != nil || i.Runs.Pending != 0) {
					t.Errorf("%d runs of the action are left, %v", i.Runs.Pending, err)
				}
				for run, err := range flows.Runs().All(ctx, workflow.Active(), workflow.Of("new")) {
					t.Errorf("child %s is left, %v", run.ID, err)
				}
				want := 0
				if compensate {
					want = most
				}
				if n := work(t, actions, "undo"); n != want {
					t.Errorf("%d runs are compensated, want %d", n, want)
				}
				if info, err := flows.Get(ctx, "parent"); err != nil || info.Runs != (workflow.RunCounts{Total: most, Cancelled: most}) {
					t.Errorf("parents: %+v, %v", info.Runs, err)
				}
				r.Verify()
			})
		}
	}
}

// TestStartsBeforeShardsHaveHeard: a start goes to any shard, and to the workflow's home if that
// shard has not received the workflow yet.
func TestStartsBeforeShardsHaveHeard(t *testing.T) {
	ctx := t.Context()
	r, flows, _ := spread(t)
	r.Hold(true)
	if _, err := flows.Create(ctx, startsWith("new", does(workflow.WaitFor{Signal: "go"}, "success", "flo.Completed"))); err != nil {
		t.Fatal(err)
	}
	shards := make(map[int]bool)
	start := func() {
		t.Helper()
		for range 12 {
			s, err := flows.Start(ctx, "new", nil)
			if err != nil {
				t.Fatal(err)
			}
			shard, _ := workflow.ShardOf(s.Run)
			shards[shard] = true
		}
	}
	if start(); len(shards) != 1 {
		t.Errorf("the first runs are in %d shards, and one has heard of their workflow", len(shards))
	}
	if _, err := flows.Start(ctx, "none", nil); !errors.Is(err, workflow.ErrNotFound) {
		t.Errorf("a start of what there is not: %v", err)
	}
	r.Hold(false)
	r.Deliver()
	if start(); len(shards) != 4 {
		t.Errorf("the runs are in %d shards, and all have heard of their workflow", len(shards))
	}
	r.Verify()
}

// TestUnheard: a start whose key binds it to a shard without the workflow is retried if the
// workflow's home has it. Retries last as long as the caller waits.
func TestUnheard(t *testing.T) {
	r, flows, _ := spread(t)
	r.Hold(true)
	create(t, flows, startsWith("new", does(workflow.Sleep{}, "success", "flo.Completed")))
	if !flows.Unheard(t.Context(), "new") {
		t.Error("a workflow that its home knows passes for one that there is not")
	}
	if flows.Unheard(t.Context(), "none") {
		t.Error("a workflow that there is not is waited for")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if flows.Unheard(over, "new") {
		t.Error("a start whose caller has left is tried again")
	}
	alone := flowsOf(newRig(t, 1), "n")
	create(t, alone, startsWith("new", does(workflow.Sleep{}, "success", "flo.Completed")))
	if alone.Unheard(t.Context(), "new") {
		t.Error("a start in a namespace that is not spread is tried again")
	}
}

// TestSpreadIsHeard: once a call has returned, starts in all shards respect it.
func TestSpreadIsHeard(t *testing.T) {
	ctx := t.Context()
	_, flows, _ := spread(t)
	definition := func(version int) []byte {
		return fmt.Appendf(nil,
			"name: w\nversion: \"%d\"\nstart: { waitForSignal: { type: go }, transitions: { success: flo.Completed } }\n", version)
	}
	starts := func(want error, version string) {
		t.Helper()
		for i := range 16 {
			var opts []workflow.StartOption
			if i%2 == 1 {
				opts = append(opts, workflow.IdempotencyKey(fmt.Sprint(version, i)))
			}
			s, err := flows.Start(ctx, "w", nil, opts...)
			if !errors.Is(err, want) {
				t.Fatalf("start %d: %v, want %v", i, err, want)
			}
			if want != nil {
				continue
			}
			if run, err := flows.Runs().Get(ctx, s.Run); err != nil || run.Version != version {
				t.Fatalf("start %d runs version %q, want %q: %v", i, run.Version, version, err)
			}
		}
	}
	for version := range 3 {
		if _, err := flows.Create(ctx, definition(version)); err != nil {
			t.Fatal(err)
		}
		starts(nil, fmt.Sprint(version))
	}
	if err := flows.Disable(ctx, "w"); err != nil {
		t.Fatal(err)
	}
	starts(workflow.ErrConflict, "")
	if err := flows.Delete(ctx, "w"); !errors.Is(err, workflow.ErrConflict) {
		t.Fatalf("Delete of a workflow with active runs: %v", err)
	}
	if err := flows.Delete(ctx, "w", workflow.Force()); err != nil {
		t.Fatal(err)
	}
	starts(workflow.ErrNotFound, "")
}
