package action_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/test/machinetest"
)

// working runs a worker until the test ends or stop is called; stop returns the result of Run.
func working(t *testing.T, w *action.Worker) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	once := sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := once(); err != nil {
			t.Errorf("worker %s: Run = %v", w.ID(), err)
		}
	})
	return once
}

// openWith returns the actions of an in-memory node.
func openWith(t *testing.T, names ...string) *action.Store {
	t.Helper()
	s := floe.OpenMemory(t).Action("default")
	for _, name := range names {
		if _, err := s.Register(t.Context(), name, action.Backoff(0, 0), action.MaxAttempts(2)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func short(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

type sum struct{ A, B int }

func TestWorkerCarriesOut(t *testing.T) {
	s := openWith(t, "add", "echo")
	w := s.Worker(action.WorkerConfig{ID: "w", Metadata: map[string]any{"v": 1}})
	action.Handle(w, "add", func(ctx context.Context, in sum) (int, error) {
		if task := action.TaskOf(ctx); task == nil || task.Attempt != 1 || task.Action != "add" {
			t.Errorf("the task is %+v", task)
		}
		return in.A + in.B, nil
	})
	w.Handle("echo", func(_ context.Context, task *action.Task) (any, error) { return json.RawMessage(task.Input), nil })
	working(t, w)
	got, err := action.Invoke[int](short(t), s, "add", sum{2, 3})
	if err != nil || got != 5 {
		t.Errorf("add = %d, %v; want 5", got, err)
	}
	run, err := s.InvokeAndWait(short(t), "echo", []byte(`{"a": [1]}`))
	if err != nil || run.Status != action.Completed || string(run.Output) != `{"a":[1]}` || run.WorkerID != "w" ||
		run.Outcome != action.OutcomeSuccess {
		t.Errorf("echo = %+v, %v", run, err)
	}
}

// TestEnds: the handler's result decides what happens to the run.
func TestEnds(t *testing.T) {
	var attempts atomic.Int32
	for _, c := range []struct {
		name     string
		handler  func(task *action.Task) (any, error)
		status   action.Status
		attempts int
		outcome  string
		code     string
		message  string
		output   string
	}{
		{"nothing", func(*action.Task) (any, error) { return nil, nil }, action.Completed, 1, "success", "", "", ""},
		{"bytes", func(*action.Task) (any, error) { return []byte("\xff"), nil }, action.Completed, 1, "success", "", "", "\xff"},
		{"error", func(*action.Task) (any, error) { return nil, errors.New("no luck") }, action.Failed, 2, "failure", "", "no luck", ""},
		{"permanent", func(*action.Task) (any, error) { return nil, action.Permanent(errors.New("never")) }, action.Failed, 1, "failure",
			"", "never", ""},
		{"code", func(*action.Task) (any, error) {
			return nil, fmt.Errorf("x: %w", action.Permanent(action.Code("gone", errors.New("never"))))
		}, action.Failed, 1, "failure", "gone", "x: never", ""},
		{"panic", func(*action.Task) (any, error) { panic("oh") }, action.Failed, 2, "failure", action.CodePanic, "worker_test.go", ""},
		{"unencodable", func(*action.Task) (any, error) { return make(chan int), nil }, action.Failed, 1, "failure", action.CodeBadOutput,
			"chan", ""},
		{"huge", func(*action.Task) (any, error) { return make([]byte, 2<<20), nil }, action.Failed, 1, "failure",
			action.CodeOutputTooLarge, "2097152", ""},
		{"outcome", func(*action.Task) (any, error) { return nil, action.Outcome("approved", 7) }, action.Completed, 1, "approved", "", "",
			"7"},
		{"outcome as result", func(*action.Task) (any, error) { return action.Outcome("denied", "x"), nil }, action.Completed, 1, "denied",
			"", "", `"x"`},
		{"outcome that is not UTF-8", func(*action.Task) (any, error) { return action.Outcome("\xff", 1), nil }, action.Failed, 1,
			"failure", action.CodeBadOutput, "not UTF-8", ""},
		{"outcome in an outcome", func(*action.Task) (any, error) { return action.Outcome("a", action.Outcome("b", 2)), nil },
			action.Failed, 1, "failure", action.CodeBadOutput, "another outcome", ""},
		{"code that is not UTF-8", func(*action.Task) (any, error) {
			return nil, action.Permanent(action.Code(strings.Repeat("\xff", 400), errors.New("never")))
		}, action.Failed, 1, "failure", "?", "never", ""},
		{"second", func(task *action.Task) (any, error) {
			if task.Attempt == 1 {
				return nil, action.Code("first", errors.New("not yet"))
			}
			return task.LastError + "/" + task.LastCode, nil
		}, action.Completed, 2, "success", "", "", `"not yet/first"`},
		{"snooze", func(*action.Task) (any, error) {
			if attempts.Add(1) < 5 {
				return nil, action.Snooze(time.Millisecond)
			}
			return 1, nil
		}, action.Completed, 1, "success", "", "", "1"},
		{"snooze as result", func(task *action.Task) (any, error) {
			if task.Delivery < 3 {
				return action.Snooze(time.Millisecond), nil
			}
			return action.Permanent(action.Code("done", errors.New("over"))), nil
		}, action.Failed, 1, "failure", "done", "over", ""},
		{"bad input", func(task *action.Task) (any, error) { return nil, task.Decode(new(int)) }, action.Failed, 1, "failure",
			action.CodeBadInput, "unmarshal", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openWith(t, "a")
			w := s.Worker(action.WorkerConfig{}).Handle("a",
				func(_ context.Context, task *action.Task) (any, error) { return c.handler(task) })
			working(t, w)
			r, err := s.InvokeAndWait(short(t), "a", []byte(`"text"`))
			if err != nil {
				t.Fatal(err)
			}
			if r.Status != c.status || r.Attempt != c.attempts || r.Outcome != c.outcome || r.Code != c.code ||
				!strings.Contains(r.Error, c.message) || string(r.Output) != c.output {
				t.Errorf("the run is %+v, want %+v", r, c)
			}
		})
	}
}

// TestHostileResults: errors and results whose methods panic or end the goroutine make failed
// attempts, and so do the values of panics. The worker goes on.
func TestHostileResults(t *testing.T) {
	returns := map[string]func() (any, error){
		"MarshalJSON":             func() (any, error) { return hostileJSON(func() { panic("hostile") }), nil },
		"Goexit":                  func() (any, error) { return hostileJSON(runtime.Goexit), nil },
		"MarshalJSON of an error": func() (any, error) { return nil, action.Outcome("o", hostileJSON(func() { panic("hostile") })) },
	}
	for name, err := range machinetest.HostileErrors() {
		returns[name] = func() (any, error) { return nil, err }
		returns["permanent "+name] = func() (any, error) { return nil, action.Permanent(err) }
		returns["panic "+name] = func() (any, error) { panic(err) }
	}
	s := openWith(t, "a")
	w := s.Worker(action.WorkerConfig{OnError: func(*action.Task, error) { panic("in OnError") }})
	action.Handle(w, "a", func(_ context.Context, name string) (any, error) { return returns[name]() })
	working(t, w)
	for name := range returns {
		r, err := s.InvokeAndWait(short(t), "a", []byte(strconv.Quote(name)))
		if err != nil || r.Status != action.Failed {
			t.Errorf("%s: %+v, %v; want a failed run", name, r, err)
		}
		if panics := name != "Is" && name != "permanent Is"; panics && (r.Attempt != 2 || r.Code != action.CodePanic) { // Is is not called
			t.Errorf("%s: %+v, want two attempts that failed by a panic", name, r)
		}
	}
}

// TestTaskIsTheHandlers: changes that a handler or OnError makes to its Task do not affect the run.
// An emptied Task after an end in a transaction used to end the process.
func TestTaskIsTheHandlers(t *testing.T) {
	node := floe.OpenMemory(t)
	s := node.Action("default")
	if _, err := s.Register(t.Context(), "a", action.Backoff(0, 0)); err != nil {
		t.Fatal(err)
	}
	w := s.Worker(action.WorkerConfig{ID: "w", OnError: func(task *action.Task, _ error) { *task = action.Task{} }})
	working(t, w.Handle("a", func(ctx context.Context, task *action.Task) (any, error) {
		defer func() { *task = action.Task{Action: "other"} }()
		if task.Attempt == 1 {
			return nil, errors.New("once more")
		}
		_, err := node.Txn("default").Do(action.CompleteOp(task, []byte("7"))).Commit(ctx)
		return nil, err
	}))
	for range 3 {
		if run, err := s.InvokeAndWait(short(t), "a", nil); err != nil || run.Status != action.Completed || run.Attempt != 2 ||
			string(run.Output) != "7" {
			t.Fatalf("%+v, %v", run, err)
		}
	}
	all := listed(t, s, func(all []action.WorkerInfo) bool { return len(all) == 1 && all[0].Completed+all[0].Failed == 6 })
	if p := all[0].Processes; len(p) != 1 || p[0].Name != "a" {
		t.Errorf("the worker is listed with %+v", p)
	}
}

// hostileJSON is a result whose MarshalJSON runs a function of the test.
type hostileJSON func()

func (f hostileJSON) MarshalJSON() ([]byte, error) {
	f()
	return []byte("null"), nil
}

// TestCancelReachesTheHandler: cancelling a run cancels its handler, and the slot is free once the
// handler has returned.
func TestCancelReachesTheHandler(t *testing.T) {
	s := openWith(t, "a")
	began, cause := make(chan struct{}), make(chan error, 1)
	w := s.Worker(action.WorkerConfig{Concurrency: 1}).Handle("a", func(ctx context.Context, task *action.Task) (any, error) {
		if string(task.Input) == "1" {
			close(began)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil, ctx.Err()
		}
		return 2, nil
	})
	working(t, w)
	i, err := s.Invoke(short(t), "a", []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	<-began
	if err := s.Cancel(short(t), i.Run, "enough"); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-cause:
		if got != action.ErrCancelled {
			t.Errorf("the cause is %v, want ErrCancelled", got)
		}
	case <-short(t).Done():
		t.Fatal("the handler was not cancelled")
	}
	if _, err := s.InvokeAndWait(short(t), "a", []byte("2")); err != nil {
		t.Fatal(err)
	}
	r, err := s.Runs().Get(short(t), i.Run)
	if err != nil || r.Status != action.Cancelled || r.Error != "enough" || r.Cancelling {
		t.Errorf("the run is %+v, %v", r, err)
	}
}

// TestTimeLimit: a handler that ignores its time limit is overtaken; one that heeds it ends.
func TestTimeLimit(t *testing.T) {
	s := floe.OpenMemory(t).Action("default")
	if _, err := s.Register(short(t), "a", action.Timeout(50*time.Millisecond), action.MaxAttempts(1)); err != nil {
		t.Fatal(err)
	}
	causes := make(chan error, 1)
	working(t, s.Worker(action.WorkerConfig{Concurrency: 1}).Handle("a", func(ctx context.Context, task *action.Task) (any, error) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return "too late", nil
	}))
	r, err := s.InvokeAndWait(short(t), "a", nil)
	if err != nil || r.Status != action.TimedOut || r.Code != action.CodeTimeout || r.Output != nil {
		t.Errorf("the run is %+v, %v", r, err)
	}
	if cause := <-causes; !errors.Is(cause, action.ErrConflict) {
		t.Errorf("the cause is %v, want ErrConflict", cause)
	}
}

// TestExtend: an extended attempt lasts longer than the time limit.
func TestExtend(t *testing.T) {
	s := floe.OpenMemory(t).Action("default")
	if _, err := s.Register(short(t), "a", action.Timeout(200*time.Millisecond), action.MaxAttempts(1)); err != nil {
		t.Fatal(err)
	}
	working(t, s.Worker(action.WorkerConfig{}).Handle("a", func(ctx context.Context, task *action.Task) (any, error) {
		if _, err := task.Extend(ctx, time.Minute); err != nil {
			return nil, err
		}
		select {
		case <-time.After(400 * time.Millisecond):
			return "well", nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}))
	if r, err := s.InvokeAndWait(short(t), "a", nil); err != nil || r.Status != action.Completed {
		t.Errorf("the run is %+v, %v", r, err)
	}
}

// TestDrain: Run returns once the handlers have. Cancelled handlers give their runs back, and no
// run is lost.
func TestDrain(t *testing.T) {
	for _, grace := range []time.Duration{-1, time.Minute} {
		s := openWith(t, "a")
		began, finish := make(chan struct{}), make(chan struct{})
		stop := working(t, s.Worker(action.WorkerConfig{Concurrency: 1, Grace: grace}).Handle("a",
			func(ctx context.Context, task *action.Task) (any, error) {
				close(began)
				select {
				case <-finish:
					return "finished", nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}))
		i, err := s.Invoke(short(t), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		<-began
		if grace > 0 {
			time.AfterFunc(10*time.Millisecond, func() { close(finish) })
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		r, err := s.Runs().Get(short(t), i.Run)
		switch {
		case err != nil:
			t.Error(err)
		case grace > 0 && r.Status != action.Completed:
			t.Errorf("the handler had time, and the run is %+v", r)
		case grace < 0 && (r.Status != action.Pending || r.Attempt != 0):
			t.Errorf("the handler was cancelled, and the run is %+v", r)
		}
	}
}

// TestMany: workers with labels, in a spread namespace, carry out everything exactly once.
func TestMany(t *testing.T) {
	for _, spread := range []bool{false, true} {
		node, err := floe.Open(floe.Config{Shards: 4})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := node.Close(); err != nil {
				t.Error(err)
			}
		})
		if spread {
			err = node.Namespaces().Create(t.Context(), "n", floe.Spread())
		} else {
			err = node.Namespaces().Create(t.Context(), "n")
		}
		if err != nil {
			t.Fatal(err)
		}
		s := node.Action("n")
		for _, name := range []string{"a", "b"} {
			if _, err := s.Register(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		var ran sync.Map
		handler := func(_ context.Context, task *action.Task) (any, error) {
			if _, twice := ran.LoadOrStore(task.Run, true); twice {
				t.Errorf("run %s runs twice", task.Run)
			}
			return task.Labels["gpu"], nil
		}
		for i := range 20 {
			labels := map[string]string{"gpu": fmt.Sprint(i % 2)}
			w := s.Worker(action.WorkerConfig{ID: fmt.Sprint("w", i), Concurrency: 1 + i%3, Labels: labels}).Handle("a", handler)
			if i%4 == 0 {
				w.Handle("b", handler)
			}
			working(t, w)
		}
		var all sync.WaitGroup
		for i := range 300 {
			all.Go(func() {
				var opts []action.InvokeOption
				name := "a"
				switch i % 5 {
				case 0:
					opts = append(opts, action.Labels(map[string]string{"gpu": fmt.Sprint(i % 2)}))
				case 1:
					name = "b"
				}
				r, err := s.InvokeAndWait(short(t), name, []byte(fmt.Sprint(i)), opts...)
				if err != nil || r.Status != action.Completed || r.Attempt != 1 {
					t.Errorf("run %d is %+v, %v", i, r, err)
				}
			})
		}
		all.Wait()
	}
}

// TestWorkersThatCannotRun: Run returns the first thing that is wrong with a worker, and nil if ctx
// has ended.
func TestWorkersThatCannotRun(t *testing.T) {
	node := floe.OpenMemory(t)
	s := node.Action("default")
	f := func(context.Context, *action.Task) (any, error) { return nil, nil }
	worker := func(s *action.Store) *action.Worker { return s.Worker(action.WorkerConfig{ID: "w"}) }
	for want, w := range map[string]*action.Worker{
		`has no handlers`:           worker(s),
		`"a" has two handlers`:      worker(s).Handle("a", f).Handle("a", f),
		`the handler of "a" is nil`: worker(s).Handle("a", nil),
		`the handler of "b" is nil`: action.Handle[int, int](worker(s), "b", nil).Handle("b", f).Handle("a", nil),
		`action name "a\n"`:         worker(s).Handle("a\n", f).Handle("b", nil),
		`metadata of worker "w"`:    s.Worker(action.WorkerConfig{ID: "w", Metadata: map[string]any{"f": f}}).Handle("a", f),
	} {
		if err := w.Run(short(t)); !errors.Is(err, action.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("Run = %v, want ErrInvalid: %s", err, want)
		}
	}
	if err := worker(node.Action("_floe")).Handle("a", f).Run(short(t)); err == nil || !strings.Contains(err.Error(), "system namespace") {
		t.Errorf("Run in a system namespace = %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	w := worker(s).Handle("a", f)
	if err := w.Run(ended); err != nil {
		t.Errorf("Run with a ctx that has ended = %v", err)
	}
	if err := w.Run(ended); !errors.Is(err, action.ErrInvalid) || !strings.Contains(err.Error(), "has run already") {
		t.Errorf("the second Run = %v", err)
	}
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	if err := worker(s).Handle("a", f).Run(short(t)); !errors.Is(err, floe.ErrClosed) {
		t.Errorf("Run on a closed node = %v", err)
	}
}

// TestTypedErrors: what is not JSON of the handler's type fails the run; what cannot be JSON is not
// invoked.
func TestTypedErrors(t *testing.T) {
	s := openWith(t, "add")
	w := s.Worker(action.WorkerConfig{ID: "w"})
	called := false
	action.Handle(w, "add", func(context.Context, sum) (int, error) { called = true; return 1, nil })
	working(t, w)
	var failed *action.RunError
	if n, err := action.Invoke[int](short(t), s, "add", "text"); !errors.As(err, &failed) || failed.Run.Code != action.CodeBadInput ||
		called || n != 0 {
		t.Errorf("Invoke = %d, %v, handler called: %t", n, err, called)
	}
	for want, call := range map[string]func() (int, error){
		`input of "add"`: func() (int, error) { return action.Invoke[int](short(t), s, "add", make(chan int)) },
		`"none"`:         func() (int, error) { return action.Invoke[int](short(t), s, "none", 1) },
	} {
		if n, err := call(); err == nil || !strings.Contains(err.Error(), want) || n != 0 {
			t.Errorf("Invoke = %d, %v, want %s", n, err, want)
		}
	}
}

// TestExtendOfCancelled: the deadline of a cancelled run is not extended.
func TestExtendOfCancelled(t *testing.T) {
	s := openWith(t, "a")
	extended := make(chan error, 1)
	begun := make(chan action.RunID)
	working(t, s.Worker(action.WorkerConfig{ID: "w"}).Handle("a", func(ctx context.Context, task *action.Task) (any, error) {
		begun <- task.Run
		<-ctx.Done()
		until, err := task.Extend(context.WithoutCancel(ctx), time.Hour)
		if !until.IsZero() {
			t.Errorf("its deadline is %v", until)
		}
		extended <- err
		return nil, nil
	}))
	if _, err := s.Invoke(short(t), "a", nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Cancel(short(t), <-begun, ""); err != nil {
		t.Fatal(err)
	}
	if err := <-extended; !errors.Is(err, action.ErrConflict) {
		t.Errorf("Extend = %v, want ErrConflict", err)
	}
}
