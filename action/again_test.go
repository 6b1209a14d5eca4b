package action_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/kv"
)

// TestHandOver: a caller that waits for a run gets it, however few runs its action keeps, and
// whichever other callers invoked it with the same key.
func TestHandOver(t *testing.T) {
	s := openWith(t)
	if _, err := s.Register(short(t), "a", action.Retain(time.Millisecond, 0)); err != nil {
		t.Fatal(err)
	}
	begin := make(chan struct{})
	working(t, s.Worker(action.WorkerConfig{Concurrency: 20}).Handle("a", func(_ context.Context, task *action.Task) (any, error) {
		<-begin
		return task.Input, nil
	}))
	const callers = 40
	got := make(chan error, callers)
	for i := range callers {
		go func() {
			run, err := s.InvokeAndWait(short(t), "a", fmt.Appendf(nil, "%d", i/2), action.IdempotencyKey(fmt.Sprint(i/2)))
			if err == nil && (run.Status != action.Completed || string(run.Output) != fmt.Sprint(i/2)) {
				err = fmt.Errorf("%+v", run)
			}
			got <- err
		}()
	}
	for pending := int64(0); pending < callers/2; {
		i, err := s.Get(short(t), "a")
		if err != nil {
			t.Fatal(err)
		}
		pending = i.Runs.Pending + i.Runs.Running
	}
	close(begin)
	for range callers {
		if err := <-got; err != nil {
			t.Errorf("InvokeAndWait: %v", err)
		}
	}
}

// TestRetryRuns: a run that ended without success is carried out again with as many attempts as
// before, and a waiting run begins now.
func TestRetryRuns(t *testing.T) {
	for name, s := range map[string]*action.Store{"plain": openWith(t), "spread": openSpread(t)} {
		t.Run(name, func(t *testing.T) {
			ctx := short(t)
			if _, err := s.Register(ctx, "a", action.MaxAttempts(2), action.Backoff(time.Hour, time.Hour)); err != nil {
				t.Fatal(err)
			}
			i, err := s.Invoke(ctx, "a", []byte(`1`), action.Delay(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			step := func(attempt, most int, end func(id action.RunID) error) {
				t.Helper()
				if err := s.RunNow(ctx, i.Run); err != nil {
					t.Fatalf("RunNow = %v", err)
				}
				got, err := s.Await(ctx, "w", []string{"a"}, action.Wait(time.Minute))
				if err != nil || len(got) != 1 || got[0].Attempt != attempt || got[0].MaxAttempts != most || got[0].Run != i.Run {
					t.Fatalf("Await = %+v, %v", got, err)
				}
				if err := s.RunNow(ctx, i.Run); !errors.Is(err, action.ErrConflict) {
					t.Errorf("RunNow of one that is under way = %v", err)
				}
				if err := s.Retry(ctx, i.Run); !errors.Is(err, action.ErrConflict) {
					t.Errorf("Retry of one that is under way = %v", err)
				}
				if err := end(i.Run); err != nil {
					t.Fatal(err)
				}
			}
			fail := func(id action.RunID) error { return s.Fail(ctx, id, "w", "no luck", action.Retry()) }
			step(1, 2, fail)
			step(2, 2, fail)
			if run, err := s.Runs().Get(ctx, i.Run); err != nil || run.Status != action.Failed {
				t.Fatalf("%+v, %v", run, err)
			}
			if err := s.Retry(ctx, i.Run); err != nil {
				t.Fatalf("Retry = %v", err)
			}
			step(3, 4, fail)
			if err := s.Cancel(ctx, i.Run, "enough"); err != nil {
				t.Fatal(err)
			}
			if err := s.Retry(ctx, i.Run); err != nil {
				t.Fatalf("Retry = %v", err)
			}
			step(4, 5, func(id action.RunID) error { return s.Complete(ctx, id, "w", []byte(`2`)) })
			if err := s.Retry(ctx, i.Run); !errors.Is(err, action.ErrConflict) {
				t.Errorf("Retry of a completed run = %v", err)
			}
			info, err := s.Get(ctx, "a")
			if want := (action.RunCounts{Total: 1, Completed: 1}); err != nil || info.Runs != want {
				t.Errorf("%+v, %v", info.Runs, err)
			}
			if err := s.Retry(ctx, "run-0"); !errors.Is(err, action.ErrInvalid) {
				t.Errorf("Retry of no run = %v", err)
			}
		})
	}
}

// TestOptionsOfARun: a run may have its own timeout, attempts, and time within which it must begin.
func TestOptionsOfARun(t *testing.T) {
	s, ctx := openWith(t, "a"), short(t)
	i, err := s.Invoke(ctx, "a", nil, action.MaxAttempts(1), action.Timeout(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Await(ctx, "w", []string{"a"}); err != nil || len(got) != 1 || got[0].MaxAttempts != 1 {
		t.Fatalf("Await = %+v, %v", got, err)
	}
	if run, err := s.Wait(ctx, i.Run); err != nil || run.Status != action.TimedOut {
		t.Errorf("%+v, %v", run, err)
	}
	for _, delay := range []time.Duration{0, time.Hour} {
		run, err := s.InvokeAndWait(ctx, "a", nil, action.Expire(30*time.Millisecond), action.Delay(delay))
		if err != nil || run.Status != action.Failed || run.Code != action.CodeExpired || run.Attempt != 0 {
			t.Errorf("a run that nobody begins: %+v, %v", run, err)
		}
	}
	i, err = s.Invoke(ctx, "a", nil, action.Expire(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Await(ctx, "w", []string{"a"}); err != nil || len(got) != 1 {
		t.Fatalf("Await = %+v, %v", got, err)
	}
	if err := s.Complete(ctx, i.Run, "w", nil); err != nil {
		t.Error(err)
	}
	for _, bad := range []action.InvokeOption{action.Expire(0), action.Timeout(-1), action.MaxAttempts(0),
		action.MaxAttempts(action.MaxAttemptsLimit + 1), action.AttemptOption{}} {
		if _, err := s.Invoke(ctx, "a", nil, bad); !errors.Is(err, action.ErrInvalid) {
			t.Errorf("Invoke = %v", err)
		}
	}
}

// TestEndInATransaction: a handler's writes and the end of its attempt are one transaction. Its
// result after that has no effect, and an attempt that is over writes nothing.
func TestEndInATransaction(t *testing.T) {
	node := floe.OpenMemory(t)
	s, values := node.Action("n"), node.KV("n")
	ctx := short(t)
	if _, err := s.Register(ctx, "a", action.Backoff(0, 0)); err != nil {
		t.Fatal(err)
	}
	var problems []error
	w := s.Worker(action.WorkerConfig{OnError: func(_ *action.Task, err error) { problems = append(problems, err) }, Concurrency: 1})
	working(t, w.Handle("a", func(ctx context.Context, task *action.Task) (any, error) {
		txn := func(op action.Op) error {
			_, err := node.Txn("n").If(action.Held(task)).Do(kv.IncrOp("sum", 1), op).Commit(ctx)
			return err
		}
		if task.Attempt == 1 {
			if err := txn(action.FailOp(task, "once more", action.ErrorCode("again"), action.Retry())); err != nil {
				return nil, err
			}
			if err := txn(action.CompleteOp(task, nil)); !errors.Is(err, floe.ErrConflict) {
				return nil, fmt.Errorf("an attempt that is over: %w", err)
			}
			return "of no effect", nil
		}
		if task.LastCode != "again" {
			t.Errorf("the second attempt is %+v", task)
		}
		return nil, txn(action.CompleteOp(task, []byte(`"done"`), action.OutcomeName("paid")))
	}))
	for n := 1; n <= 3; n++ {
		run, err := s.InvokeAndWait(ctx, "a", nil)
		if err != nil || run.Status != action.Completed || run.Attempt != 2 || run.Outcome != "paid" || string(run.Output) != `"done"` {
			t.Errorf("%+v, %v", run, err)
		}
		if sum, err := values.Get(ctx, "sum"); err != nil || string(sum.Value) != fmt.Sprint(2*n) {
			t.Errorf("%s was written, %v", sum.Value, err)
		}
	}
	for _, err := range problems {
		if !strings.Contains(err.Error(), "once more") {
			t.Errorf("reported: %v", err)
		}
	}

	// The same for tasks of Await, and with a cancelled run.
	if _, err := s.Register(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	for _, cancelled := range []bool{false, true} {
		i, err := s.Invoke(ctx, "b", nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Await(ctx, "w", []string{"b"})
		if err != nil || len(got) != 1 {
			t.Fatalf("Await = %+v, %v", got, err)
		}
		if cancelled {
			if err := s.Cancel(ctx, i.Run, ""); err != nil {
				t.Fatal(err)
			}
		}
		_, err = node.Txn("n").If(action.Held(&got[0])).Do(kv.IncrOp("b", 1)).Commit(ctx)
		if errors.Is(err, floe.ErrConflict) != cancelled || (err != nil) != cancelled {
			t.Errorf("cancelled %t: the condition is %v", cancelled, err)
		}
		_, err = node.Txn("n").Do(kv.IncrOp("b", 1), action.CompleteOp(&got[0], nil)).Commit(ctx)
		if errors.Is(err, floe.ErrConflict) != cancelled || (err != nil) != cancelled {
			t.Errorf("cancelled %t: the end is %v", cancelled, err)
		}
		if sum, err := values.Get(ctx, "b"); err != nil || string(sum.Value) != "2" {
			t.Errorf("%s was written, %v", sum.Value, err)
		}
	}
	for _, op := range []action.Op{action.CompleteOp(nil, nil), action.FailOp(nil, ""), action.CompleteOp(&action.Task{Run: "x"}, nil)} {
		if _, err := node.Txn("n").Do(op).Commit(ctx); !errors.Is(err, floe.ErrInvalid) {
			t.Errorf("the end of no task: %v", err)
		}
	}
	if _, err := node.Txn("n").If(action.Held(nil)).Do(kv.IncrOp("b", 1)).Commit(ctx); !errors.Is(err, floe.ErrInvalid) {
		t.Errorf("no task is held: %v", err)
	}
}

// TestAssigned ends attempts by the names of their run and worker, as other processes do.
func TestAssigned(t *testing.T) {
	ctx, node := short(t), floe.OpenMemory(t)
	s := node.Action("n")
	if _, err := s.Register(ctx, "a", action.MaxAttempts(3)); err != nil {
		t.Fatal(err)
	}
	i, err := s.Invoke(ctx, "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	end := func(want error, op floe.Op, held ...*action.Task) {
		t.Helper()
		txn := node.Txn("n").Do(op)
		for _, h := range held {
			txn.If(action.Held(h))
		}
		if _, err := txn.Commit(ctx); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("Commit = %v, want %v", err, want)
		}
	}
	take := func(attempt int) {
		t.Helper()
		got, err := s.Await(ctx, "w", []string{"a"}, action.Wait(time.Minute))
		if err != nil || len(got) != 1 || got[0].Delivery != attempt {
			t.Fatalf("Await = %+v, %v", got, err)
		}
	}
	take(1)
	put := kv.PutOp("k", nil)
	end(nil, put, action.Assigned(i.Run, "w", 0), action.Assigned(i.Run, "w", 1))
	end(floe.ErrConflict, put, action.Assigned(i.Run, "w", 2))
	end(floe.ErrConflict, put, action.Assigned(i.Run, "v", 1))
	end(floe.ErrInvalid, put, action.Assigned(i.Run, "", 1))
	end(floe.ErrInvalid, put, action.Assigned("x", "w", 1))
	end(nil, action.FailOp(action.Assigned(i.Run, "w", 1), "no", action.Retry(), action.Delay(0)))
	take(2)
	end(floe.ErrConflict, action.CompleteOp(action.Assigned(i.Run, "w", 1), nil))
	end(nil, action.CompleteOp(action.Assigned(i.Run, "w", 2), []byte(`"yes"`)))
	end(floe.ErrConflict, action.CompleteOp(action.Assigned(i.Run, "w", 0), nil))
	if run, err := s.Runs().Get(ctx, i.Run); err != nil || run.Status != action.Completed || string(run.Output) != `"yes"` {
		t.Errorf("Get = %+v, %v", run, err)
	}
}

// TestRunsWith: runs are listed by their properties and by invocation time.
func TestRunsWith(t *testing.T) {
	for name, s := range map[string]*action.Store{"plain": openWith(t), "spread": openSpread(t)} {
		t.Run(name, func(t *testing.T) {
			ctx := short(t)
			if _, err := s.Register(ctx, "a"); err != nil {
				t.Fatal(err)
			}
			var middle time.Time
			var all []time.Time
			for i := range 12 {
				opts := []action.InvokeOption{action.ConcurrencyKey(fmt.Sprint(i % 3)), action.IdempotencyKey(fmt.Sprint(i))}
				if i%2 == 0 {
					opts = append(opts, action.Labels(map[string]string{"gpu": "yes"}))
				}
				made, err := s.Invoke(ctx, "a", nil, opts...)
				if err != nil {
					t.Fatal(err)
				}
				run, err := s.Runs().Get(ctx, made.Run)
				if err != nil {
					t.Fatal(err)
				}
				if all = append(all, run.CreatedAt); i == 6 {
					middle = run.CreatedAt
				}
			}
			before := 0
			for _, at := range all {
				if at.Before(middle) {
					before++
				}
			}
			for _, c := range []struct {
				want int
				opts []action.RunOption
			}{
				{12, nil},
				{4, []action.RunOption{action.Has(action.AttributeConcurrencyKey, "1")}},
				{6, []action.RunOption{action.Has(action.Label("gpu"), "yes")}},
				{2, []action.RunOption{action.Has(action.Label("gpu"), "yes"), action.Has(action.AttributeConcurrencyKey, "1"),
					action.InState(action.Pending)}},
				{1, []action.RunOption{action.Has(action.AttributeIdempotencyKey, "7")}},
				{12, []action.RunOption{action.Has(action.AttributeSource, "api")}},
				{0, []action.RunOption{action.Has(action.AttributeWorker, "w")}},
				{0, []action.RunOption{action.Has(action.AttributeCode, "c"), action.Has(action.AttributeOutcome, "o")}},
				{12 - before, []action.RunOption{action.InvokedBetween(middle, time.Time{})}},
				{before, []action.RunOption{action.InvokedBetween(time.Time{}, middle)}},
				{0, []action.RunOption{action.InvokedBetween(middle, middle)}},
				{12, []action.RunOption{action.InvokedBetween(time.UnixMilli(0), slices.MaxFunc(all, time.Time.Compare).Add(1))}},
				{12, []action.RunOption{action.InvokedBetween(time.Unix(-1<<60, 0), time.Unix(1<<60, 0))}},
				{0, []action.RunOption{action.InvokedBetween(time.Time{}, time.UnixMilli(0))}},
				{0, []action.RunOption{action.InvokedBetween(time.Time{}, time.UnixMilli(-1))}},
				{0, []action.RunOption{action.InvokedBetween(time.Unix(1<<60, 0), time.Time{})}},
			} {
				n := 0
				for _, err := range s.Runs().All(ctx, append([]action.RunOption{action.Of("a")}, append(c.opts, action.Limit(2))...)...) {
					if err != nil {
						t.Fatal(err)
					}
					n++
				}
				if n != c.want {
					t.Errorf("%d runs are listed, want %d", n, c.want)
				}
			}
			for _, unknown := range []action.Attribute{"color", action.Label("")} {
				if _, err := s.Runs().Page(ctx, action.Of("a"), action.Has(unknown, "red")); !errors.Is(err, action.ErrInvalid) {
					t.Errorf("Page with %q = %v", unknown, err)
				}
			}
		})
	}
}
