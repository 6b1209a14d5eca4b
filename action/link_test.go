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
	"github.com/floedb/floe/internal/test/machinetest"
)

// lateDoor is the way to a rig, on which answers to ends of one shard are late.
type lateDoor struct {
	*machinetest.Rig
	shard engine.ShardID
	late  chan struct{} // closed when they come
	vain  bool          // ends do not get there at all
	most  int           // an output larger than that is refused; 0: none is
	hold  chan struct{} // nil, or closed when answers to takes come
	away  atomic.Bool   // nothing gets there

	heartbeats atomic.Pointer[chan struct{}] // nil, or closed when answers to heartbeats arrive
}

var errAway = engine.Errorf(engine.ErrUnavailable, "the node is away")

func (d *lateDoor) Query(ctx context.Context, shard engine.ShardID, q engine.Query) error {
	if d.away.Load() {
		return errAway
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
	if d.away.Load() {
		return nil, errAway
	}
	b, err := d.Rig.Take(ctx, shard, t)
	if d.hold != nil {
		<-d.hold
	}
	return b, err
}

func (d *lateDoor) Propose(ctx context.Context, shard engine.ShardID, cmd engine.Command) ([]byte, error) {
	if d.away.Load() {
		return nil, errAway
	}
	if cmd.Kind == kindWork && shard == d.shard && d.vain {
		return nil, engine.Errorf(engine.ErrUnknownOutcome, "the node was killed")
	}
	if cmd.Kind == kindWork && d.most > 0 {
		for _, e := range must(read(takeRuns, cmd.Body)).ends {
			if err := engine.CheckPayload(len(e.output), d.most); err != nil {
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

// oneSlot is a worker with one slot for the action a, in a namespace that is spread over two
// shards.
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

// TestReleasedRunComesBackBeforeItsAnswer: a worker with one slot is free for two shards. What
// comes from the second one while it is busy is given back, and is the worker's again by the next
// take before the process has the answer to that. It was thrown away then, as what the process had,
// until a reconciliation 10 s later.
func TestReleasedRunComesBackBeforeItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOneSlot(t)
		w.shard = 1
		first := w.invoke(0)
		second := w.invoke(1) // too much
		w.done <- struct{}{}
		synctest.Wait()
		w.check(first, second)
	})
}

// TestGivenBackInVain: likewise, but nobody hears that the second run is given back, as the node is
// killed. The process was said to have it until the attempt's time was over, an hour later; now a
// reconciliation finds it.
func TestGivenBackInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOneSlot(t)
		w.shard, w.vain = 1, true
		first := w.invoke(0)
		second := w.invoke(1) // too much
		w.shard, w.vain = 99, false
		<-time.After(time.Minute) // for reconciliations
		w.done <- struct{}{}
		<-time.After(time.Minute)
		w.check(first, second)
	})
}

// TestRefusedEnd: one result that the node no longer takes, because its limit has become smaller,
// fails its own run. It failed all workers of the process, with what was sent in the same batch.
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
		close(start) // all of them end together
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

// TestTwoReconciliationsAtOnce: what a take has got is not given back because two reconciliations,
// one right after the other, do not find it in this process: the answer of the take is on its way.
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

// TestUnknownRunComesLate: a run that a reconciliation found to be unknown here, and that is about
// to be given back, is kept when the answer comes by which the process has it.
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

// lateStore returns the store of a namespace behind a lateDoor, with an action "a" of long
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

// TestOutage: a process that can not reach the shard for longer than a lease, which nobody has
// noticed there, goes on with what it has. A handler that fails because its ctx has ended is given
// back: the attempt does not count. An OnError of another worker that does not return is in
// nobody's way: the process was not heard of any more, and heard of no cancelled runs.
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
				return Permanent(ctx.Err()), nil // an error, as which it is meant
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

// TestErrorBeforeOutage: an error that a handler has returned before its ctx ended counts, however
// long the shard can not be told of it.
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

// TestRetriedAfterCancel: a run that was cancelled and retried is another attempt, also when the
// same process gets it. It was taken for the one that was cancelled when the process learned late
// of that, and that it was cancelled again was said only by the next reconciliation, 10 s later.
func TestRetriedAfterCancel(t *testing.T) {
	for _, c := range []struct {
		name string
		late bool // that the first attempt is cancelled becomes known when the second one has begun
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

// TestNextAttemptBesideTheLast: the next attempt of a run may come to the process whose handler of
// the last one has not returned: a transaction has ended that, or its time has passed by the clock
// of the shard first. It was taken for what the process had, and was begun when a reconciliation
// had found that it was not, up to 10 s after that handler returned.
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
