package action_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/workflow"
)

// openSpread returns the actions of a spread namespace.
func openSpread(t *testing.T) *action.Store {
	t.Helper()
	node, err := floe.Open(floe.Config{Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := node.Namespaces().Create(t.Context(), "wide", floe.Spread()); err != nil {
		t.Fatal(err)
	}
	return node.Action("wide")
}

// TestLimitsKeepKeys: idempotency keys survive when limits are set, changed or removed. Limits used
// to move runs to another shard of a spread namespace. Earlier keys were unknown there, so a repeat
// made another run.
func TestLimitsKeepKeys(t *testing.T) {
	s := openSpread(t)
	made := make(map[string]action.RunID)
	invoke := func(key string) {
		t.Helper()
		got, err := s.Invoke(short(t), "a", []byte("1"), action.IdempotencyKey(key), action.ConcurrencyKey("c"+key))
		if err != nil {
			t.Fatalf("Invoke with key %s: %v", key, err)
		}
		if was, known := made[key]; got.Duplicate != known || known && got.Run != was {
			t.Errorf("Invoke with key %s = %+v, it was run %q", key, got, was)
		}
		made[key] = got.Run
	}
	for i, opts := range [][]action.RegisterOption{
		nil,
		{action.MaxRunning(1)},
		nil,
		{action.MaxRunningPerKey(1)},
		{action.RateLimit(action.Rate{Limit: 10, Per: time.Second})},
		nil,
	} {
		if _, err := s.Register(short(t), "a", opts...); err != nil {
			t.Fatal(err)
		}
		for n := range 6 * (i + 1) { // those of all earlier rounds, and 6 more
			invoke(fmt.Sprint(n))
		}
		if _, err := s.Invoke(short(t), "a", []byte("2"), action.IdempotencyKey("0")); !errors.Is(err, floe.ErrConflict) {
			t.Errorf("Invoke with another input = %v", err)
		}
	}
	if info, err := s.Get(short(t), "a"); err != nil || info.Runs.Pending != int64(len(made)) {
		t.Errorf("%d runs are pending, %v; want %d", info.Runs.Pending, err, len(made))
	}
}

// TestKeyOfNewAction: a run with an idempotency key may be invoked before its shard has received
// the action. It used to be created at the action's home, where a repeat did not look for it.
func TestKeyOfNewAction(t *testing.T) {
	s := openSpread(t)
	for i := range 20 {
		name := fmt.Sprint("a", i)
		if _, err := s.Register(short(t), name); err != nil {
			t.Fatal(err)
		}
		first, err := s.Invoke(short(t), name, nil, action.IdempotencyKey("k"))
		if err != nil {
			t.Fatal(err)
		}
		if again, err := s.Invoke(short(t), name, nil, action.IdempotencyKey("k")); err != nil || !again.Duplicate ||
			again.Run != first.Run {
			t.Errorf("%s: a repeat = %+v, %v; it was %s", name, again, err, first.Run)
		}
	}
}

// TestScheduleOfLimitedKeys: in a spread namespace, schedules may have a concurrency key if their
// action has a limit per key. Their runs used to be refused.
func TestScheduleOfLimitedKeys(t *testing.T) {
	s := openSpread(t)
	if _, err := s.Register(short(t), "a", action.MaxRunningPerKey(1)); err != nil {
		t.Fatal(err)
	}
	working(t, s.Worker(action.WorkerConfig{}).Handle("a", nothing))
	for i := range 8 {
		name := fmt.Sprint("s", i)
		if err := s.Schedules("a").Set(short(t), name, action.ScheduleSpec{Every: time.Hour}, action.ConcurrencyKey(name)); err != nil {
			t.Fatal(err)
		}
		i, err := s.Schedules("a").Trigger(short(t), name)
		if err != nil {
			t.Fatalf("Trigger %s = %v", name, err)
		}
		if run, err := s.Wait(short(t), i.Run); err != nil || run.Status != action.Completed {
			t.Errorf("%+v, %v", run, err)
		}
	}
}

// TestDeleteLooksEverywhere: an action of a spread namespace is not deleted while it has runs that
// have not ended, in any shard. Runs outside its home used to be ignored.
func TestDeleteLooksEverywhere(t *testing.T) {
	s := openSpread(t)
	for i := range 8 {
		name := fmt.Sprint("a", i)
		if _, err := s.Register(short(t), name); err != nil {
			t.Fatal(err)
		}
		run, err := s.Invoke(short(t), name, nil, action.IdempotencyKey("k"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Delete(short(t), name); !errors.Is(err, floe.ErrConflict) {
			t.Errorf("Delete %s = %v", name, err)
		}
		if err := s.Cancel(short(t), run.Run, ""); err != nil {
			t.Error(err)
		}
		if err := s.Delete(short(t), name); err != nil {
			t.Errorf("Delete %s = %v", name, err)
		}
	}
	if err := s.Delete(short(t), "nothing"); !errors.Is(err, floe.ErrNotFound) {
		t.Errorf("Delete = %v", err)
	}
}

func nothing(context.Context, *action.Task) (any, error) { return nil, nil }

// TestTagPlacesRuns: the runs of an action whose name has a {tag} are in the tag's shard, whatever
// invoked them. Transactions on data with the tag can therefore include their ends. Runs without an
// idempotency key used to be in any shard.
func TestTagPlacesRuns(t *testing.T) {
	node, err := floe.Open(floe.Config{Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	if err := node.Namespaces().Create(t.Context(), "wide", floe.Spread()); err != nil {
		t.Fatal(err)
	}
	s, flows := node.Action("wide"), node.Workflow("wide")
	if _, err := s.Register(short(t), "pay{o42}"); err != nil {
		t.Fatal(err)
	}
	order := workflow.Definition{Name: "order", Start: workflow.Step{
		Do: workflow.Call{Target: "@actions/pay{o42}"}, Transitions: []workflow.Transition{{On: "success", To: "flo.Completed"}},
	}}
	if _, err := flows.Create(short(t), order.YAML()); err != nil {
		t.Fatal(err)
	}
	if err := s.Schedules("pay{o42}").Set(short(t), "hourly",
		action.ScheduleSpec{Every: time.Hour, Overlap: action.OverlapAllow}); err != nil {
		t.Fatal(err)
	}
	const each = 8
	for i := range each {
		if _, err := s.Invoke(short(t), "pay{o42}", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Invoke(short(t), "pay{o42}", nil, action.IdempotencyKey(fmt.Sprint("{other}", i))); err != nil {
			t.Fatal(err)
		}
		if _, err := flows.Start(short(t), "order", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Schedules("pay{o42}").Trigger(short(t), "hourly"); err != nil {
			t.Fatal(err)
		}
		if _, err := node.Txn("wide").Do(kv.PutOp("{o42}invoked", nil), action.InvokeOp("pay{o42}", nil)).Commit(short(t)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := node.Txn("wide").Do(kv.PutOp("{o43}", nil), action.InvokeOp("pay{o42}", nil)).Commit(short(t)); !errors.Is(err,
		floe.ErrInvalid) {
		t.Errorf("a transaction over two tags: %v", err)
	}
	for n := range 5 * each {
		tasks, err := s.Await(short(t), "w", []string{"pay{o42}"})
		if err != nil || len(tasks) != 1 {
			t.Fatal(tasks, err)
		}
		task := &tasks[0]
		if _, err := node.Txn("wide").If(action.Held(task)).Do(kv.PutOp("{o42}paid", nil),
			action.CompleteOp(task, nil)).Commit(short(t)); err != nil {
			t.Fatalf("end %d, of a run of %q: %v", n, task.Source, err)
		}
	}
}

// TestPagesOfActions: pages of any size together list each action once, in order, and only the last
// one has no cursor.
func TestPagesOfActions(t *testing.T) {
	s, ctx := openSpread(t), t.Context()
	var names []string
	for i := range 13 {
		names = append(names, fmt.Sprintf("a%02d", i))
		if _, err := s.Register(ctx, names[i]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Register(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	for limit := 1; limit <= 15; limit++ {
		for prefix, want := range map[string][]string{"a": names, "": append(slices.Clone(names), "b"), "a1": names[10:], "c": nil} {
			var got []string
			for cursor, pages := "", 1; ; pages++ {
				page, err := s.Page(ctx, action.Limit(limit), action.Prefix(prefix), action.Cursor(cursor))
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range page.Items {
					got = append(got, a.Name)
				}
				if cursor = page.Cursor; cursor == "" {
					if most := max(1, (len(want)+limit-1)/limit); pages > most {
						t.Errorf("prefix %q, limit %d: %d pages, want %d", prefix, limit, pages, most)
					}
					break
				}
				if len(page.Items) != limit {
					t.Errorf("prefix %q, limit %d: a page of %d that is not the last", prefix, limit, len(page.Items))
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("prefix %q, limit %d: %v are listed, want %v", prefix, limit, got, want)
			}
		}
	}
}

// TestAwaitBesideRate: a worker that waits in a spread namespace is woken in shards where a run
// waits for a rate. It used to be woken there neither by a run of another action nor by another
// rate, for as long as the rate asked for.
func TestAwaitBesideRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := openSpread(t), t.Context()
		hourly := action.RateLimit(action.Rate{Limit: 1, Per: time.Hour})
		register := func(name string, opts ...action.RegisterOption) {
			t.Helper()
			if _, err := s.Register(ctx, name, append(opts, action.Timeout(24*time.Hour))...); err != nil {
				t.Fatal(err)
			}
		}
		invoke := func(name string, opts ...action.InvokeOption) {
			t.Helper()
			if _, err := s.Invoke(ctx, name, nil, opts...); err != nil {
				t.Fatal(err)
			}
		}
		type answer struct {
			tasks []action.Task
			err   error
		}
		// waits has a worker wait while f happens. It returns the tasks that the worker gets, and
		// how long that took.
		waits := func(f func(), names ...string) (tasks []action.Task, took time.Duration) {
			t.Helper()
			c := make(chan answer, 1)
			began := time.Now()
			go func() {
				tasks, err := s.Await(ctx, "waiter", names, action.Wait(2*time.Hour))
				c <- answer{tasks, err}
			}()
			<-time.After(time.Minute)
			synctest.Wait()
			if f != nil {
				f()
			}
			a := <-c
			if a.err != nil {
				t.Fatal(a.err)
			}
			return a.tasks, time.Since(began)
		}
		takeAll := func(name string) (n int) {
			t.Helper()
			for {
				tasks, err := s.Await(ctx, "holder", []string{name})
				if err != nil {
					t.Fatal(err)
				}
				if len(tasks) == 0 {
					return n
				}
				n++
			}
		}

		register("{x}rated", hourly)
		register("{x}free")
		register("other")
		for range 3 {
			invoke("{x}rated")
		}
		if n := takeAll("{x}rated"); n != 1 {
			t.Fatalf("%d runs begun at once, want 1", n)
		}
		names := []string{"{x}rated", "{x}free", "other"}
		for _, name := range []string{"{x}free", "other", "{x}free"} {
			if got, took := waits(func() { invoke(name) }, names...); len(got) != 1 || got[0].Action != name || took > 2*time.Minute {
				t.Errorf("while %s is invoked: %+v after %v", name, got, took)
			}
		}
		if got, took := waits(nil, names...); len(got) != 1 || got[0].Action != "{x}rated" || took > time.Hour {
			t.Errorf("what the rate allows in an hour: %+v after %v", got, took)
		}
		if got, took := waits(func() { register("{x}rated") }, names...); len(got) != 1 || took > 2*time.Minute {
			t.Errorf("while the rate is removed: %d runs after %v", len(got), took)
		}

		// Runs invoked before there was a rate are in shards other than the action's home.
		for name, rate := range map[string]action.Rate{"none": {}, "fast": {Limit: 1000, Per: time.Second}} {
			register(name)
			for i := range 40 {
				invoke(name, action.IdempotencyKey(fmt.Sprint(i)))
			}
			register(name, hourly)
			n := takeAll(name)
			if n > 4 {
				t.Fatalf("%d runs begun at once, want one in each of 4 shards", n)
			}
			if got, took := waits(func() { register(name, action.RateLimit(rate)) }, name); len(got) != 1 || took > 2*time.Minute {
				t.Errorf("while the rate becomes %+v: %d runs after %v", rate, len(got), took)
			}
			for n++; n < 40; n++ {
				if got, err := s.Await(ctx, "waiter", []string{name}, action.Wait(time.Minute)); err != nil || len(got) != 1 {
					t.Fatalf("with the rate %+v: %d runs behind %d, %v", rate, len(got), n, err)
				}
			}
		}
	})
}

// TestAwaitTogether: when several runs arrive in two shards of a spread namespace, all waiting
// workers get their runs at once. One worker used to be woken for both shards and take from one. No
// worker was woken for the run in the other shard for up to a second, and then only one per second.
func TestAwaitTogether(t *testing.T) {
	t.Run("two", func(t *testing.T) { testAwaitTogether(t, 2, 100) })
	t.Run("many", func(t *testing.T) { testAwaitTogether(t, 60, 5) })
}

func testAwaitTogether(t *testing.T, workers, rounds int) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := openSpread(t), t.Context()
		if _, err := s.Register(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		for round := range rounds {
			var had, came sync.WaitGroup
			began := time.Now().Add(time.Second)
			for i := range workers {
				had.Go(func() {
					id := fmt.Sprint("w", i)
					tasks, err := s.Await(ctx, id, []string{"a"}, action.Wait(time.Minute))
					if err != nil || len(tasks) != 1 {
						t.Errorf("round %d: %d tasks, %v", round, len(tasks), err)
						return
					}
					if late := time.Since(began); late > 0 {
						t.Errorf("round %d: had after %v", round, late)
					}
					if err := s.Complete(ctx, tasks[0].Run, id, nil); err != nil {
						t.Error(err)
					}
				})
			}
			<-time.After(time.Until(began))
			for range workers {
				came.Go(func() {
					if _, err := s.Invoke(ctx, "a", nil); err != nil {
						t.Error(err)
					}
				})
			}
			came.Wait()
			had.Wait()
		}
	})
}
