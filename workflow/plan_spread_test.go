package workflow_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/workflow"
)

// spreadPlans are plans in a namespace that is spread over four shards, each with its own runs.
type spreadPlans struct {
	t       *testing.T
	r       *machinetest.Rig
	flows   *workflow.Store
	actions *action.Store
	next    int
}

func newSpreadPlans(t *testing.T, definition string) *spreadPlans {
	r, flows, actions := spread(t)
	for _, name := range []string{"a", "b"} {
		if _, err := actions.Register(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := flows.Create(t.Context(), []byte(definition)); err != nil {
		t.Fatal(err)
	}
	return &spreadPlans{t: t, r: r, flows: flows, actions: actions}
}

// start starts a run in a shard.
func (s *spreadPlans) start(shard int, input string) workflow.RunID {
	s.t.Helper()
	for range 1000 {
		s.next++
		id := workflow.RunID(fmt.Sprint("own-", s.next))
		if engine.NameShard("n", string(id), 4) != engine.ShardID(shard) {
			continue
		}
		if _, err := s.flows.Start(s.t.Context(), "w", []byte(input), workflow.UseID(id)); err != nil {
			s.t.Fatal(err)
		}
		return id
	}
	s.t.Fatalf("no id leads to shard %d", shard)
	return ""
}

// take takes all available tasks, and lists which runs call which actions.
func (s *spreadPlans) take() (tasks []action.Task, names []string) {
	s.t.Helper()
	for {
		got, err := s.actions.Await(context.Background(), "w", []string{"a", "b"}, action.Max(100))
		if err != nil {
			s.t.Fatal(err)
		}
		if len(got) == 0 {
			return tasks, names
		}
		for _, task := range got {
			tasks, names = append(tasks, task), append(names, task.Action)
		}
	}
}

func (s *spreadPlans) end(task *action.Task, result any, err error) {
	s.t.Helper()
	if err := s.actions.Finish(context.Background(), "w", task, result, err); err != nil {
		s.t.Fatal(err)
	}
}

// TestBreakerOfAllShards: a breaker that opens in one shard blocks calls in the others too, once
// they receive the change. Each shard probes separately after its cooldown.
func TestBreakerOfAllShards(t *testing.T) {
	s := newSpreadPlans(t, `
name: w
start: { run: "@plan/p", transitions: { success: flo.Completed } }
plans:
  p:
    executors:
      - { name: first, run: "@actions/a", priority: 2, breaker: { failure_threshold: 2, cooldown_ms: 10000, half_open_max_calls: 1 } }
      - { name: second, run: "@actions/b", priority: 1 }
`)
	calls := func(want ...string) []action.Task {
		t.Helper()
		for shard := range 4 {
			s.start(shard, "1")
		}
		tasks, names := s.take()
		if fmt.Sprint(names) != fmt.Sprint(want) {
			t.Errorf("the shards have called %v, want %v", names, want)
		}
		return tasks
	}
	settle := func(tasks []action.Task) {
		for i := range tasks {
			s.end(&tasks[i], 1, nil)
		}
	}
	settle(calls("a", "a", "a", "a"))
	s.r.Hold(true)
	for range 2 {
		s.start(1, "1")
		tasks, _ := s.take()
		s.end(&tasks[0], nil, action.Permanent(fmt.Errorf("down")))
		second, _ := s.take()
		settle(second)
	}
	for shard, want := range []string{"a", "b", "a", "a"} { // no other shard has received it
		s.start(shard, "1")
		tasks, names := s.take()
		if fmt.Sprint(names) != fmt.Sprint([]string{want}) {
			t.Errorf("shard %d calls %v, want %s", shard, names, want)
		}
		settle(tasks)
	}
	s.r.Hold(false)
	s.r.Deliver()
	settle(calls("b", "b", "b", "b"))
	s.r.Pass(10_000)
	probes := calls("a", "a", "a", "a")
	settle(calls("b", "b", "b", "b")) // each shard has one probe in flight
	settle(probes)
	settle(calls("a", "a", "a", "a"))
}

// TestRateOfAllShards: each shard has its share of a rate, however many calls it gets.
func TestRateOfAllShards(t *testing.T) {
	s := newSpreadPlans(t, `
name: w
start: { run: "@plan/p", transitions: { success: flo.Completed } }
plans: { p: { executors: [{ name: one, run: "@actions/a", rate_limit: { max_per_minute: 8 } }] } }
`)
	for range 10 {
		s.start(2, "1")
	}
	s.start(3, "1")
	if _, names := s.take(); len(names) != 3 {
		t.Errorf("%d calls at once, want 2 of the eight that four shards have, and 1", len(names))
	}
	for n := range 8 {
		s.r.Pass(30_000)
		s.r.Fire()
		if _, names := s.take(); len(names) != 1 {
			t.Errorf("%d calls %d seconds later, want 1", len(names), 30*(n+1))
		}
	}
	s.r.Verify()
}

// TestCacheOfAllShards: each shard has its own cache, and is notified when the whole cache is
// invalidated.
func TestCacheOfAllShards(t *testing.T) {
	s := newSpreadPlans(t, `
name: w
start: { run: "@plan/p", transitions: { success: hold } }
steps: { hold: { waitForSignal: { type: go, timeoutMs: 3600000, onTimeout: flo.Failed }, transitions: { success: flo.Completed } } }
plans: { p: { executors: [{ name: one, run: "@actions/a" }], cache: { ttl_ms: 60000, key: "{input.k}", invalidate_on: [changed] } }, uncached: { executors: [{ name: one, run: "@actions/b" }] } }
`)
	round := func(want int) (ids []workflow.RunID) {
		t.Helper()
		for shard := range 4 {
			ids = append(ids, s.start(shard, `{"k":1}`))
		}
		tasks, _ := s.take()
		if len(tasks) != want {
			t.Errorf("%d calls, want %d", len(tasks), want)
		}
		for i := range tasks {
			s.end(&tasks[i], 1, nil)
		}
		return ids
	}
	round(4)
	ids := round(0)
	if _, err := s.flows.Signal(t.Context(), ids[1], "other", nil); err != nil {
		t.Fatal(err)
	}
	round(0)
	if _, err := s.flows.Signal(t.Context(), ids[1], "changed", nil); err != nil {
		t.Fatal(err)
	}
	round(4)
	round(0)
	if err := s.flows.InvalidatePlan(t.Context(), "w", "p"); err != nil {
		t.Fatal(err)
	}
	ids = round(4)
	run, err := s.flows.Runs().Get(t.Context(), ids[0])
	if err != nil || run.Status != workflow.Waiting || !strings.Contains(run.Waits, "go") {
		t.Errorf("the run is %s and waits for %s, %v", run.Status, run.Waits, err)
	}
}
