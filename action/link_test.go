package action

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/test/machinetest"
)

// lateDoor is a rig's door on which the answers to one shard's ends are late.
type lateDoor struct {
	*machinetest.Rig
	shard engine.ShardID
	late  chan struct{} // closed when they arrive
	vain  bool          // ends do not arrive at all
	most  int           // a larger output or message is refused; 0: no limit
	hold  chan struct{} // nil, or closed when answers to takes arrive
	away  atomic.Bool   // nothing arrives

	denied atomic.Bool // the caller may not use the namespace any more

	heartbeats atomic.Pointer[chan struct{}] // nil, or closed when answers to heartbeats arrive
}

var (
	errAway   = engine.Errorf(engine.ErrUnavailable, "the node is away")
	errDenied = engine.Errorf(engine.ErrUnauthorized, "the key was revoked")
)

// refuses returns the error of all calls, or nil.
func (d *lateDoor) refuses() error {
	switch {
	case d.away.Load():
		return errAway
	case d.denied.Load():
		return errDenied
	}
	return nil
}

func (d *lateDoor) Query(ctx context.Context, shard engine.ShardID, q engine.Query) error {
	if err := d.refuses(); err != nil {
		return err
	}
	err := d.Rig.Query(ctx, shard, q)
	if _, ok := q.(*heartbeatQuery); ok {
		if late := d.heartbeats.Load(); late != nil {
			<-*late
		}
	}
	return err
}

func (d *lateDoor) Take(ctx context.Context, shard engine.ShardID, t engine.Take) ([]byte, error) {
	if err := d.refuses(); err != nil {
		return nil, err
	}
	b, err := d.Rig.Take(ctx, shard, t)
	if d.hold != nil {
		<-d.hold
	}
	return b, err
}

func (d *lateDoor) Propose(ctx context.Context, shard engine.ShardID, cmd engine.Command) ([]byte, error) {
	if err := d.refuses(); err != nil {
		return nil, err
	}
	if cmd.Kind == kindWork && shard == d.shard && d.vain {
		return nil, engine.Errorf(engine.ErrUnknownOutcome, "the node was killed")
	}
	if cmd.Kind == kindWork && d.most > 0 {
		for _, e := range must(read(takeRuns, cmd.Body)).ends {
			if err := engine.CheckPayload(max(len(e.output), len(e.message)), d.most); err != nil {
				return nil, err
			}
		}
	}
	b, err := d.Rig.Propose(ctx, shard, cmd)
	if cmd.Kind == kindWork && shard == d.shard {
		<-d.late
	}
	return b, err
}

// oneSlot is a worker with one slot for the action a, in a namespace spread over two shards.
type oneSlot struct {
	*lateDoor
	t     *testing.T
	store *Store
	begun chan RunID
	done  chan struct{} // a value ends a handler
	stop  func()
	ended chan error
}

func newOneSlot(t *testing.T) *oneSlot {
	w := &oneSlot{
		lateDoor: &lateDoor{Rig: machinetest.New(t, 2, table()), late: make(chan struct{})}, t: t, begun: make(chan RunID,
			2), done: make(chan struct{}), ended: make(chan error),
	}
	router := engine.NewRouter(w.lateDoor)
	if err := engine.NewNamespaces(router).Create(t.Context(), "n", true); err != nil {
		t.Fatal(err)
	}
	w.store = engine.StoreOf[Store](router, "n", 1<<20)
	if _, err := w.store.Register(t.Context(), "a", Timeout(time.Hour)); err != nil {
		t.Fatal(err)
	}
	worker := w.store.Worker(WorkerConfig{Concurrency: 1}).Handle("a", func(_ context.Context, task *Task) (any, error) {
		w.begun <- task.Run
		<-w.done
		return nil, nil
	})
	var ctx context.Context
	ctx, w.stop = context.WithCancel(t.Context())
	go func() { w.ended <- worker.Run(ctx) }()
	synctest.Wait() // takes wait in both shards
	return w
}

// invoke begins a run in a shard.
func (w *oneSlot) invoke(shard engine.ShardID) RunID {
	for n := 0; ; n++ {
		key := fmt.Sprint(n)
		if engine.NameShard("n", keyRoute("a", key), w.Shards()) != shard {
			continue
		}
		i, err := w.store.Invoke(w.t.Context(), "a", nil, IdempotencyKey(key))
		if err != nil {
			w.t.Fatal(err)
		}
		synctest.Wait()
		return i.Run
	}
}

// check checks that both runs have begun, and stops the worker.
func (w *oneSlot) check(first, second RunID) {
	if len(w.begun) != 2 {
		w.t.Errorf("%d runs have begun, want both: the second one came back", len(w.begun))
	} else if one, other := <-w.begun, <-w.begun; one != first || other != second {
		w.t.Errorf("runs %s and %s have begun, want %s and %s", one, other, first, second)
	}
	close(w.late)
	close(w.done)
	w.stop()
	if err := <-w.ended; err != nil {
		w.t.Errorf("Run = %v", err)
	}
}

// TestReleasedRunComesBackBeforeItsAnswer: a worker offers its only slot to two shards. A run of
// the second shard that arrives while the worker is busy is released. The next take may assign it
// again before the answer to the release arrives. It used to be discarded as already held, until a
// reconciliation 10 s later.
func TestReleasedRunComesBackBeforeItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOneSlot(t)
		w.shard = 1
		first := w.invoke(0)
		second := w.invoke(1) // one too many
		w.done <- struct{}{}
		synctest.Wait()
		w.check(first, second)
	})
}

// TestGivenBackInVain: likewise, but the release of the second run is lost because the node is
// killed. The process used to count as its owner until the attempt timed out, an hour later. Now a
// reconciliation finds it.
func TestGivenBackInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOneSlot(t)
		w.shard, w.vain = 1, true
		first := w.invoke(0)
		second := w.invoke(1) // one too many
		w.shard, w.vain = 99, false
		<-time.After(time.Minute) // for reconciliations
		w.done <- struct{}{}
		<-time.After(time.Minute)
		w.check(first, second)
	})
}

// TestRefusedEnd: a result that the node refuses, because its limit has become smaller, fails its
// own run only. It used to fail all workers of the process, with everything sent in the same batch.
func TestRefusedEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const runs = 20
		d := &lateDoor{Rig: machinetest.New(t, 1, table()), shard: 99, most: 100}
		router := engine.NewRouter(d)
		if err := engine.NewNamespaces(router).Create(t.Context(), "n", false); err != nil {
			t.Fatal(err)
		}
		store := engine.StoreOf[Store](router, "n", 1<<20)
		if _, err := store.Register(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		start := make(chan struct{})
		worker := store.Worker(WorkerConfig{Concurrency: runs})
		Handle(worker, "a", func(_ context.Context, n int) (string, error) {
			<-start
			return strings.Repeat("x", map[bool]int{true: 1000, false: 10}[n%7 == 3]), nil
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- worker.Run(ctx) }()
		var ids []RunID
		for n := range runs {
			i, err := store.Invoke(t.Context(), "a", []byte(strconv.Itoa(n)))
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, i.Run)
		}
		synctest.Wait()
		close(start) // all end together
		bounded, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for n, id := range ids {
			r, err := store.Wait(bounded, id)
			if err != nil {
				t.Fatal(err)
			}
			if n%7 == 3 && (r.Status != Failed || r.Code != CodeOutputTooLarge || r.Attempt != 1) || n%7 != 3 && r.Status != Completed {
				t.Errorf("run %d is %+v", n, r)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	})
}

// TestTwoReconciliationsAtOnce: a run just taken is not given back because two reconciliations in
// quick succession do not find it in this process. The answer of the take is on its way.
func TestTwoReconciliationsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOneSlot(t)
		w.shard, w.hold = 99, make(chan struct{})
		first := w.invoke(0)
		all := engine.Shared(&w.store.scope, func() *pools { return nil }).all["n"]
		for range 3 {
			all.mu.Lock()
			l := all.links[0]
			s := l.session
			all.mu.Unlock()
			if err := l.reconcile(s); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		close(w.hold)
		synctest.Wait()
		if r, err := w.store.Runs().Get(t.Context(), first); err != nil || r.Status != Running {
			t.Errorf("the run is %+v, %v; want it to be running", r, err)
		}
		w.done <- struct{}{}
		second := w.invoke(1)
		w.check(first, second)
	})
}

// TestUnknownRunComesLate: a reconciliation found a run unknown here and is about to give it back.
// The run is kept when the answer that assigns it arrives.
func TestUnknownRunComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOneSlot(t)
		w.shard, w.hold = 99, make(chan struct{})
		first := w.invoke(0)
		all := engine.Shared(&w.store.scope, func() *pools { return nil }).all["n"]
		at, err := first.parse()
		if err != nil {
			t.Fatal(err)
		}
		all.mu.Lock()
		l := all.links[0]
		l.ends = append(l.ends, &ending{end: end{ref: at.Ref, how: released}, src: noWorker})
		all.mu.Unlock()
		close(w.hold)
		synctest.Wait()
		signal(l.send)
		synctest.Wait()
		if r, err := w.store.Runs().Get(t.Context(), first); err != nil || r.Status != Running {
			t.Errorf("the run is %+v, %v; want it to be running", r, err)
		}
		w.done <- struct{}{}
		second := w.invoke(1)
		w.check(first, second)
	})
}

// lateStore returns the store of a namespace behind a lateDoor, with an action "a" with long
// attempts.
func lateStore(t *testing.T) (*lateDoor, *Store) {
	t.Helper()
	d := &lateDoor{Rig: machinetest.New(t, 1, table()), shard: 99}
	router := engine.NewRouter(d)
	if err := engine.NewNamespaces(router).Create(t.Context(), "n", false); err != nil {
		t.Fatal(err)
	}
	store := engine.StoreOf[Store](router, "n", 1<<20)
	if _, err := store.Register(t.Context(), "a", Timeout(time.Hour)); err != nil {
		t.Fatal(err)
	}
	return d, store
}

// TestOutage: a process that cannot reach the shard for longer than a lease, unnoticed there, goes
// on with its runs. A handler that fails because its ctx has ended gives its run back: the attempt
// does not count. An OnError of another worker that does not return blocks nothing. It used to stop
// heartbeats and notifications of cancelled runs.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := lateStore(t)
		ctx, stop := context.WithCancel(t.Context())
		blocked := make(chan struct{})
		causes := make(chan error, 10)
		workers := []*Worker{
			store.Worker(WorkerConfig{OnError: func(task *Task, _ error) { <-blocked }}).Handle("b",
				func(context.Context, *Task) (any, error) { return nil, nil }),
			store.Worker(WorkerConfig{Concurrency: 1}).Handle("a", func(ctx context.Context, task *Task) (any, error) {
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return Permanent(ctx.Err()), nil // intended as an error
			}),
		}
		ended := make(chan error, len(workers))
		for _, w := range workers {
			go func() { ended <- w.Run(ctx) }()
		}
		i, err := store.Invoke(ctx, "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		d.away.Store(true)
		<-time.After(50 * time.Second)
		d.away.Store(false)
		<-time.After(20 * time.Second)
		if r, err := store.Runs().Get(ctx, i.Run); err != nil || r.Status != Running || r.Attempt != 1 || r.Error != "" {
			t.Errorf("behind the outage: %+v, %v; want the first attempt again", r, err)
		}
		if cause := <-causes; !errors.Is(cause, errSilent) {
			t.Errorf("the cause is %v", cause)
		}
		if err := store.Cancel(ctx, i.Run, ""); err != nil {
			t.Fatal(err)
		}
		select {
		case cause := <-causes:
			if cause != ErrCancelled {
				t.Errorf("the cause is %v", cause)
			}
		case <-time.After(time.Minute):
			t.Error("the handler has not heard that its run is cancelled")
		}
		close(blocked)
		stop()
		for range workers {
			if err := <-ended; err != nil {
				t.Errorf("Run = %v, want nil", err)
			}
		}
	})
}

// TestErrorBeforeOutage: an error that a handler returned before its ctx ended counts, however long
// it takes to reach the shard.
func TestErrorBeforeOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := lateStore(t)
		ctx, stop := context.WithCancel(t.Context())
		var calls atomic.Int64
		fail := make(chan struct{})
		w := store.Worker(WorkerConfig{Concurrency: 1}).Handle("a", func(ctx context.Context, task *Task) (any, error) {
			calls.Add(1)
			<-fail
			return nil, Permanent(errors.New("it is broken"))
		})
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		i, err := store.Invoke(ctx, "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		d.away.Store(true)
		close(fail)
		<-time.After(50 * time.Second)
		d.away.Store(false)
		<-time.After(20 * time.Second)
		if r, err := store.Runs().Get(ctx, i.Run); err != nil || r.Status != Failed || r.Attempt != 1 || r.Error != "it is broken" ||
			calls.Load() != 1 {
			t.Errorf("behind the outage: %+v, %v, and the handler was called %d times", r, err, calls.Load())
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	})
}

// TestRetriedAfterCancel: a run that was cancelled and retried is another attempt, even in the same
// process. It used to be taken for the cancelled one if the process learned late of the
// cancellation. A second cancellation was then reported only by the next reconciliation, 10 s
// later.
func TestRetriedAfterCancel(t *testing.T) {
	for _, c := range []struct {
		name string
		late bool // the first attempt's cancellation arrives when the second has begun
	}{{"in time", false}, {"late", true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, store := lateStore(t)
				ctx, stop := context.WithCancel(t.Context())
				begun, causes, end := make(chan int, 10), make(chan error, 10), make(chan struct{}, 1)
				w := store.Worker(WorkerConfig{Concurrency: 1, OnError: func(_ *Task, err error) { t.Errorf("reported: %v", err) }})
				w.Handle("a", func(ctx context.Context, task *Task) (any, error) {
					begun <- task.Delivery
					select {
					case <-ctx.Done():
						causes <- context.Cause(ctx)
					case <-end:
					}
					return nil, nil
				})
				ended := make(chan error)
				go func() { ended <- w.Run(ctx) }()
				i, err := store.Invoke(ctx, "a", nil)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				answers := make(chan struct{})
				if c.late {
					d.heartbeats.Store(&answers)
				}
				if err := store.Cancel(ctx, i.Run, ""); err != nil {
					t.Fatal(err)
				}
				if synctest.Wait(); c.late {
					end <- struct{}{}
				} else if cause := <-causes; cause != ErrCancelled {
					t.Errorf("the cause is %v", cause)
				}
				synctest.Wait()
				if err := store.Retry(ctx, i.Run); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				d.heartbeats.Store(nil)
				close(answers)
				<-time.After(time.Second)
				if n := len(begun); n != 2 {
					t.Fatalf("the run was begun %d times", n)
				}
				if first, second := <-begun, <-begun; first != 1 || second != 2 {
					t.Errorf("deliveries %d and %d", first, second)
				}
				if len(causes) > 0 {
					t.Fatalf("the second attempt ends: %v", <-causes)
				}
				if err := store.Cancel(ctx, i.Run, ""); err != nil {
					t.Fatal(err)
				}
				<-time.After(time.Second)
				if len(causes) != 1 {
					t.Errorf("the second attempt does not learn that it is cancelled")
					end <- struct{}{}
				}
				stop()
				if err := <-ended; err != nil {
					t.Errorf("Run = %v, want nil", err)
				}
			})
		})
	}
}

// TestNextAttemptBesideTheLast: the next attempt of a run may reach a process whose handler of the
// last one has not returned. A transaction ended that attempt, or it timed out first by the shard's
// clock. The next attempt used to be taken for the last one. It began only after a reconciliation,
// up to 10 s after the handler returned.
func TestNextAttemptBesideTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &lateDoor{Rig: machinetest.New(t, 1, table()), shard: 99}
		router := engine.NewRouter(d)
		if err := engine.NewNamespaces(router).Create(t.Context(), "n", false); err != nil {
			t.Fatal(err)
		}
		store := engine.StoreOf[Store](router, "n", 1<<20)
		if _, err := store.Register(t.Context(), "a", Timeout(time.Hour), Backoff(0, 0)); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		begun, end := make(chan *Task, 10), make(chan struct{})
		w := store.Worker(WorkerConfig{Concurrency: 3, OnError: func(_ *Task, err error) { t.Errorf("reported: %v", err) }})
		w.Handle("a", func(_ context.Context, task *Task) (any, error) {
			begun <- task
			<-end
			return task.Attempt, nil
		})
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		i, err := store.Invoke(ctx, "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		for attempt := 1; attempt <= 3; attempt++ {
			synctest.Wait()
			if len(begun) != 1 {
				t.Fatalf("attempt %d is not begun beside the one before", attempt)
			}
			task := <-begun
			if task.Attempt != attempt || task.Delivery != attempt {
				t.Errorf("attempt %d, delivery %d; want %d", task.Attempt, task.Delivery, attempt)
			}
			if attempt < 3 {
				if _, err := engine.NewTxn(router, "n", 1<<20).Do(FailOp(task, "once more", Retry())).Commit(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		close(end)
		synctest.Wait()
		if r, err := store.Runs().Get(ctx, i.Run); err != nil || r.Status != Completed || string(r.Output) != "3" {
			t.Errorf("%+v, %v", r, err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	})
}

// TestAccessRevoked: a worker whose access was revoked ends with that error, as do its handlers.
func TestAccessRevoked(t *testing.T) {
	for _, busy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d, store := lateStore(t)
			cause := make(chan error, 1)
			w := store.Worker(WorkerConfig{Concurrency: 1}).Handle("a", func(ctx context.Context, _ *Task) (any, error) {
				<-ctx.Done()
				cause <- context.Cause(ctx)
				return nil, ctx.Err()
			})
			ended := make(chan error, 1)
			go func() { ended <- w.Run(t.Context()) }()
			if busy {
				if _, err := store.Invoke(t.Context(), "a", nil); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			d.denied.Store(true)
			if _, err := store.Register(t.Context(), "other"); !errors.Is(err, engine.ErrUnauthorized) {
				t.Fatalf("Register = %v", err)
			}
			d.Rig.Executor(0).WakeAll() // calls that wait return when the connection ends
			select {
			case err := <-ended:
				if !errors.Is(err, engine.ErrUnauthorized) {
					t.Errorf("busy %t: Run = %v, want ErrUnauthorized", busy, err)
				}
			case <-time.After(time.Hour):
				t.Fatal("Run does not end")
			}
			if busy {
				if err := <-cause; !errors.Is(err, engine.ErrUnauthorized) {
					t.Errorf("the handler ends because of %v", err)
				}
			}
		})
	}
}

// TestRefusedMessage: an end that the node refuses even alone is dropped with its error. The worker
// is free again, and the run is released.
func TestRefusedMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, store := lateStore(t)
		d.most = 100
		failed := make(chan error, 10)
		var calls atomic.Int64
		w := store.Worker(WorkerConfig{Concurrency: 1, OnError: func(_ *Task, err error) { failed <- err }}).Handle("a",
			func(context.Context, *Task) (any, error) {
				if calls.Add(1) == 1 {
					return nil, errors.New(strings.Repeat("x", 200))
				}
				return 1, nil
			})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		var ids []RunID
		for range 2 {
			i, err := store.Invoke(ctx, "a", nil)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, i.Run)
		}
		<-time.After(time.Second)
		if r, err := store.Runs().Get(ctx, ids[1]); err != nil || r.Status != Completed {
			t.Errorf("the second run is %+v, %v, want it completed: the worker is free", r, err)
		}
		<-time.After(time.Minute) // a reconciliation
		if r, err := store.Runs().Get(ctx, ids[0]); err != nil || r.Status != Completed || r.Attempt != 1 {
			t.Errorf("the first run is %+v, %v, want it completed in its first attempt", r, err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
		var refused bool
		for len(failed) > 0 {
			refused = errors.Is(<-failed, ErrInvalid) || refused
		}
		if !refused {
			t.Error("the refusal is not reported")
		}
	})
}

// TestPause: each wait is twice as long as the one before, up to 5 s, and ends with ctx.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pause
		for _, want := range []time.Duration{50, 100, 200, 400, 800, 1600, 3200, 5000, 5000} {
			start := time.Now()
			if ok := p.wait(t.Context()); !ok || time.Since(start) != want*time.Millisecond {
				t.Errorf("wait = %t after %v, want %v ms", ok, time.Since(start), want)
			}
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		start := time.Now()
		if p.wait(ctx) || time.Since(start) != time.Second {
			t.Errorf("wait does not end with ctx: %v", time.Since(start))
		}
	})
}

// TestResultTooLate: a worker whose attempt has ended elsewhere reports that its result came too
// late, and takes the next run.
func TestResultTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, store := lateStore(t)
		ctx, stop := context.WithCancel(t.Context())
		begun, done, reported := make(chan Task), make(chan struct{}), make(chan error, 1)
		worker := store.Worker(WorkerConfig{Concurrency: 1, OnError: func(_ *Task, err error) { reported <- err }}).Handle("a",
			func(_ context.Context, task *Task) (any, error) {
				begun <- *task
				<-done
				return nil, nil
			})
		ended := make(chan error)
		go func() { ended <- worker.Run(ctx) }()
		for round := range 2 {
			i, err := store.Invoke(t.Context(), "a", nil)
			if err != nil {
				t.Fatal(err)
			}
			task := <-begun
			if round == 0 {
				c := workBody{session: task.session, ends: []end{{ref: must(task.Run.parse()).Ref, attempt: 1, how: completed}}}
				res, err := engine.Propose(t.Context(), &store.scope, at(0, takeRuns.Op("", c, nil)), takeRuns.Decode)
				if err != nil || res.verdicts[0] != accepted {
					t.Fatalf("the end of another call: %+v, %v", res, err)
				}
			}
			done <- struct{}{}
			if round == 0 {
				if err := <-reported; !errors.Is(err, errOver) {
					t.Errorf("OnError: %v, want %v", err, errOver)
				}
			}
			if r, err := store.Wait(t.Context(), i.Run); err != nil || r.Status != Completed {
				t.Errorf("run %d: %+v, %v", round, r, err)
			}
		}
		stop()
		if err := <-ended; err != nil || len(reported) > 0 {
			t.Errorf("Run = %v, and %d more errors are reported", err, len(reported))
		}
	})
}

// TestAccept: a process accepts each attempt once, and only while its session lasts.
func TestAccept(t *testing.T) {
	p := new(pool)
	l := &link{pool: p}
	s := &clientSession{held: make(map[protocol.Ref]*piece), cancelled: make(map[protocol.Ref]bool),
		unknown: make(map[protocol.Ref]time.Time)}
	s.ctx, s.lose = context.WithCancelCause(t.Context())
	src := &source{pool: p, ready: make(chan struct{}, 1), free: 3}
	for i, step := range []struct {
		taken  taken
		before func()
		want   int // pieces in the buffer
	}{
		{taken{ref: protocol.Ref{Run: 1}, begun: 1}, nil, 1},
		{taken{ref: protocol.Ref{Run: 1, Tag: 7}, begun: 1}, nil, 1},
		{taken{ref: protocol.Ref{Run: 1}, begun: 2}, nil, 2},
		{taken{ref: protocol.Ref{Run: 2}, begun: 1, want: -1}, nil, 2},
		{taken{ref: protocol.Ref{Run: 2}, begun: 1, want: 1}, nil, 2},
		{taken{ref: protocol.Ref{Run: 1}, begun: 2}, func() { src.buffer[1].sent = true }, 3},
		{taken{ref: protocol.Ref{Run: 2}, begun: 1}, nil, 3}, // no slot is free
		{taken{ref: protocol.Ref{Run: 4}, begun: 1}, func() { src.closed, src.free = true, 1 }, 3},
		{taken{ref: protocol.Ref{Run: 3}, begun: 1}, func() { src.closed = false; s.lose(nil) }, 3},
	} {
		if step.before != nil {
			step.before()
		}
		step.taken.timeout = 3_600_000
		l.accept(s, []wanted{{src: src, slots: 1}}, []taken{step.taken})
		if len(src.buffer) != step.want {
			t.Errorf("step %d: %d attempts are in the buffer, want %d", i, len(src.buffer), step.want)
		}
	}
	for _, one := range src.buffer {
		one.stopTimer()
	}
}

// TestGroupsChangeBesideBatches: a link changes the groups of its session only after the batches
// that name them by number.
func TestGroupsChangeBesideBatches(t *testing.T) {
	p := &pool{epoch: 1}
	l := &link{pool: p, wanting: 2, reserved: make(map[*source]int), take: make(chan struct{}, 1)}
	s := new(clientSession)
	s.ctx, s.lose = context.WithCancelCause(t.Context())
	for wanting := 2; wanting > 0; wanting-- {
		signal(l.take)
		if l.wanting != wanting || l.current(s) || !l.changing || len(l.take) > 0 { // it would panic if it opened the session
			t.Errorf("%d batches, changing %v", l.wanting, l.changing)
		}
		p.mu.Lock()
		l.unwantLocked(nil) // a batch that wants nothing
		if l.wanting != wanting || len(l.take) > 0 {
			t.Errorf("%d batches want runs, want %d", l.wanting, wanting)
		}
		l.unwantLocked([]wanted{{src: new(source), slots: 1}})
		p.mu.Unlock()
		if woken := len(l.take) > 0; woken != (wanting == 1) {
			t.Errorf("after all but %d batches: takeAll is woken: %v", wanting-1, woken)
		}
	}
	p.epoch, l.wanting = 0, 1
	if !l.current(s) || l.changing {
		t.Errorf("without a change: changing %v", l.changing)
	}
	<-l.take
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.unwantLocked([]wanted{{src: new(source), slots: 1}}); len(l.take) > 0 {
		t.Error("without a change takeAll is woken")
	}
}
