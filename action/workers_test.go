package action_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// listed waits until ok accepts the list of workers, and returns the list.
func listed(t *testing.T, s *action.Store, ok func([]action.WorkerInfo) bool) []action.WorkerInfo {
	t.Helper()
	ctx, tick := short(t), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for {
		var all []action.WorkerInfo
		for w, err := range s.Workers().All(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, w)
		}
		if ok(all) {
			return all
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the workers are %+v", all)
		}
	}
}

// TestWorkersAreListed: workers of actions are listed with their activities, and so are the
// consumers of queues and streams.
func TestWorkersAreListed(t *testing.T) {
	node := floe.OpenMemory(t)
	s := node.Action("default")
	if _, err := s.Register(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	stop := working(t, s.Worker(action.WorkerConfig{ID: "w", Concurrency: 3, Labels: map[string]string{"gpu": "1"},
		Metadata: map[string]int{"build": 7}}).
		Handle("a", func(context.Context, *action.Task) (any, error) { return nil, nil }))
	for range 5 {
		if _, err := s.InvokeAndWait(short(t), "a", nil); err != nil {
			t.Fatal(err)
		}
	}
	w := listed(t, s, func(all []action.WorkerInfo) bool { return len(all) == 1 && all[0].Completed == 5 })[0]
	if w.ID != "w" || w.Type != "action" || w.Status != action.Active || w.MaxConcurrent != 3 || w.Failed != 0 || w.Machine == "" ||
		w.Labels["gpu"] != "1" ||
		string(w.Metadata) != `{"build":7}` || !slices.Equal(w.Actions, []string{"a"}) || len(w.Processes) != 1 ||
		w.Processes[0].Runs != 5 || w.Processes[0].Name != "a" {
		t.Errorf("the worker is %+v", w)
	}
	if i, err := s.Get(t.Context(), "a"); err != nil || i.Workers != 1 {
		t.Errorf("the action has %d workers, %v; want 1", i.Workers, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	if err := node.Stream("default").Create(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	go func() {
		ended <- node.Stream("default").Consume(ctx, "orders", "billing", func(context.Context, stream.Delivery) error { return nil })
	}()
	go func() {
		ended <- node.Queue("default").Consume(ctx, "mail", func(context.Context, queue.Message) error { return nil }, queue.Concurrency(4))
	}()
	all := listed(t, s, func(all []action.WorkerInfo) bool { return len(all) == 3 })
	var types []string
	for _, w := range all {
		types = append(types, w.Type)
	}
	if slices.Sort(types); !slices.Equal(types, []string{"action", "queue", "stream"}) {
		t.Errorf("the types are %v", types)
	}
	if page, err := s.Workers().Page(t.Context(), action.OfType("stream")); err != nil || len(page.Items) != 1 {
		t.Errorf("workers of type stream: %+v, %v", page, err)
	}
	cancel()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	listed(t, s, func(all []action.WorkerInfo) bool { return len(all) == 0 })
}

// TestOtherRuntime: a worker makes each call on its own, in a plain namespace and in a spread one.
func TestOtherRuntime(t *testing.T) {
	for _, spread := range []bool{false, true} {
		node, err := floe.Open(floe.Config{Shards: 3})
		if err != nil {
			t.Fatal(err)
		}
		defer node.Close()
		if spread {
			if err := node.Namespaces().Create(t.Context(), "n", floe.Spread()); err != nil {
				t.Fatal(err)
			}
		}
		s, ctx := node.Action("n"), short(t)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		_, err = s.Register(ctx, "a", action.Backoff(0, 0), action.MaxAttempts(2))
		must(err)
		must(s.RegisterWorker(ctx, action.NewWorker{ID: "py", Machine: "m", MaxConcurrent: 2, Actions: []string{"a"},
			Metadata: []byte(`{}`)}))
		if tasks, err := s.Await(ctx, "py", []string{"a"}); err != nil || len(tasks) != 0 {
			t.Fatalf("Await = %+v, %v; want none", tasks, err)
		}
		await := func() action.Task {
			t.Helper()
			tasks, err := s.Await(ctx, "py", []string{"a"}, action.Wait(20*time.Second))
			if err != nil || len(tasks) != 1 {
				t.Fatalf("Await = %+v, %v", tasks, err)
			}
			return tasks[0]
		}
		invoke := func() action.RunID {
			t.Helper()
			i, err := s.Invoke(ctx, "a", []byte("1"))
			must(err)
			return i.Run
		}
		time.AfterFunc(20*time.Millisecond, func() { invoke() })
		task := await()
		until, err := s.Extend(ctx, task.Run, "py", time.Hour)
		if must(err); time.Until(until) < 50*time.Minute {
			t.Errorf("touched until %v", until)
		}
		must(s.Complete(ctx, task.Run, "py", []byte(`"done"`), action.OutcomeName("fine")))
		if r, err := s.Runs().Get(ctx, task.Run); err != nil || r.Status != action.Completed || r.Outcome != "fine" ||
			string(r.Output) != `"done"` || r.WorkerID != "py" {
			t.Errorf("the run is %+v, %v", r, err)
		}
		if err := s.Complete(ctx, task.Run, "py", nil); !errors.Is(err, action.ErrConflict) {
			t.Errorf("a second Complete = %v, want ErrConflict", err)
		}
		id := invoke()
		must(s.Fail(ctx, await().Run, "py", "no luck", action.Retry(), action.ErrorCode("c")))
		task = await()
		if task.Run != id || task.Attempt != 2 || task.LastError != "no luck" || task.LastCode != "c" {
			t.Errorf("the second attempt is %+v", task)
		}
		if err := s.Fail(ctx, task.Run, "other", "x"); !errors.Is(err, action.ErrConflict) {
			t.Errorf("Fail of another worker = %v, want ErrConflict", err)
		}
		must(s.Fail(ctx, task.Run, "py", "never"))
		if r, err := s.Wait(ctx, id); err != nil || r.Status != action.Failed || r.Error != "never" || r.Attempt != 2 {
			t.Errorf("the run is %+v, %v", r, err)
		}
		rest := action.Process{Name: "mails", Kind: "thread", Runs: 30, Failures: 20, LastRun: time.UnixMilli(1e12)}
		// counts of actions come from the ends of their runs, not from heartbeats
		must(s.Heartbeat(ctx, "py", 1, action.Process{Name: "a", Kind: "action", Runs: 4, Failures: 4}, rest))
		w, err := s.Workers().Get(ctx, "py")
		if err != nil || w.Load != 1 || w.Completed != 11 || w.Failed != 22 || len(w.Processes) != 2 || w.Processes[1] != rest {
			t.Fatalf("the worker is %+v, %v", w, err)
		}
		if p := w.Processes[0]; p.Name != "a" || p.Kind != "action" || p.Runs != 3 || p.Failures != 2 ||
			time.Since(p.LastRun) > time.Minute {
			t.Errorf("of its runs is said %+v", p)
		}
		id = invoke()
		await()
		must(s.Drain(ctx, "py"))
		if w, err := s.Workers().Get(ctx, "py"); err != nil || w.Status != action.Draining {
			t.Errorf("the worker is %+v, %v", w, err)
		}
		must(s.Deregister(ctx, "py"))
		if r, err := s.Runs().Get(ctx, id); err != nil || r.Status != action.Pending || r.Attempt != 0 {
			t.Errorf("its worker has left, and the run is %+v, %v", r, err)
		}
		if _, err := s.Workers().Get(ctx, "py"); !errors.Is(err, action.ErrNotFound) {
			t.Errorf("it has left, and is found with %v", err)
		}
	}
}

// TestOfDelivery: a result of an attempt that was given back is not taken for one of the next
// attempt, which has the same number.
func TestOfDelivery(t *testing.T) {
	ctx := context.Background()
	node, err := floe.Open(floe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.Close() })
	s := node.Action("default")
	if _, err := s.Register(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if err := s.RegisterWorker(ctx, action.NewWorker{ID: "w"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Invoke(ctx, "a", nil); err != nil {
		t.Fatal(err)
	}
	take := func() action.Task {
		t.Helper()
		tasks, err := s.Await(ctx, "w", []string{"a"})
		if err != nil || len(tasks) != 1 {
			t.Fatalf("%d tasks, %v", len(tasks), err)
		}
		return tasks[0]
	}
	one := take()
	if err := s.Deregister(ctx, "w"); err != nil {
		t.Fatal(err)
	}
	other := take()
	if one.Attempt != 1 || other.Attempt != 1 || one.Delivery != 1 || other.Delivery != 2 {
		t.Errorf("attempts %d and %d, deliveries %d and %d", one.Attempt, other.Attempt, one.Delivery, other.Delivery)
	}
	for what, end := range map[string]func(*action.Task) error{
		"Complete": func(task *action.Task) error {
			return s.Complete(ctx, task.Run, "w", nil, action.OfDelivery(task.Delivery))
		},
		"Fail": func(task *action.Task) error {
			return s.Fail(ctx, task.Run, "w", "no", action.OfDelivery(task.Delivery))
		},
		"Finish": func(task *action.Task) error { return s.Finish(ctx, "w", task, nil, nil) },
	} {
		if err := end(&one); !errors.Is(err, floe.ErrConflict) {
			t.Errorf("%s of an attempt that was given back: %v", what, err)
		}
	}
	if err := s.Complete(ctx, other.Run, "w", nil, action.OfDelivery(other.Delivery)); err != nil {
		t.Error(err)
	}
}

// TestFailDelay: Delay replaces the back-off of the next attempt. Each task has the deadline of its
// attempt.
func TestFailDelay(t *testing.T) {
	ctx := t.Context()
	node, err := floe.Open(floe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.Close() })
	s := node.Action("default")
	_, err = s.Register(ctx, "a", action.Timeout(time.Minute), action.Backoff(time.Hour, time.Hour), action.MaxAttempts(3))
	if err != nil {
		t.Fatal(err)
	}
	invoked, err := s.Invoke(ctx, "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now().Truncate(time.Millisecond)
	for range 2 {
		tasks, err := s.Await(ctx, "w", []string{"a"})
		if err != nil || len(tasks) != 1 {
			t.Fatalf("%d tasks, %v", len(tasks), err)
		}
		if d := tasks[0].Deadline; d.Before(before.Add(time.Minute)) || d.After(time.Now().Add(time.Minute)) {
			t.Errorf("taken from %v to %v, with the deadline %v", before, time.Now(), d)
		}
		for _, opts := range [][]action.EndOption{{action.Delay(0)}, {action.Retry(), action.Delay(-1)},
			{action.Retry(), action.Delay(0), action.OutcomeName("x")}} {
			if err := s.Fail(ctx, invoked.Run, "w", "no", opts...); !errors.Is(err, floe.ErrInvalid) {
				t.Errorf("fail with %v: %v", opts, err)
			}
		}
		if err := s.Complete(ctx, invoked.Run, "w", nil, action.Delay(0)); !errors.Is(err, floe.ErrInvalid) {
			t.Errorf("complete with a delay: %v", err)
		}
		if err := s.Fail(ctx, invoked.Run, "w", "no", action.Retry(), action.Delay(0)); err != nil {
			t.Fatal(err)
		}
	}
	if tasks, err := s.Await(ctx, "w", []string{"a"}); err != nil || len(tasks) != 1 {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	second, err := s.Invoke(ctx, "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Await(ctx, "w", []string{"a"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Fail(ctx, second.Run, "w", "no", action.Retry(), action.Delay(24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	run, err := s.Runs().Get(ctx, second.Run)
	if wait := time.Until(run.AvailableAt); err != nil || run.Status != action.Pending || wait < 23*time.Hour || wait > 24*time.Hour {
		t.Errorf("%+v waits %v, %v", run, wait, err)
	}
}
