package action_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

// testDoor is a rig's door that counts calls and loses answers.
type testDoor struct {
	*machinetest.Rig
	mu      sync.Mutex
	waiting map[engine.ShardID]int // takes that wait now
	most    int                    // maximum of these in one shard
	lose    atomic.Int32           // number of answers to takes to lose
}

func newTestDoor(t *testing.T, shards int) (*testDoor, *action.Store) {
	t.Helper()
	d := &testDoor{Rig: machinetest.New(t, shards, engine.TableOf[action.Store]()), waiting: make(map[engine.ShardID]int)}
	router := engine.NewRouter(d)
	if err := engine.NewNamespaces(router).Create(t.Context(), "n", shards > 1); err != nil {
		t.Fatal(err)
	}
	return d, engine.StoreOf[action.Store](router, "n", 0)
}

func (d *testDoor) Take(ctx context.Context, shard engine.ShardID, t engine.Take) ([]byte, error) {
	d.mu.Lock()
	d.waiting[shard]++
	d.most = max(d.most, d.waiting[shard])
	d.mu.Unlock()
	b, err := d.Rig.Take(ctx, shard, t)
	d.mu.Lock()
	d.waiting[shard]--
	d.mu.Unlock()
	if err == nil && len(b) > 0 && d.lose.Add(-1) >= 0 {
		return nil, engine.Errorf(engine.ErrUnknownOutcome, "the answer got lost")
	}
	return b, err
}

// TestManyWorkersShareOneCall: any number of workers has one waiting call in each shard.
func TestManyWorkersShareOneCall(t *testing.T) {
	const shards = 3
	d, s := newTestDoor(t, shards)
	if _, err := s.Register(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	var ran sync.Map
	var all sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	workers := 10_000
	if testing.Short() {
		workers = 1000
	}
	for i := range workers {
		w := s.Worker(action.WorkerConfig{ID: fmt.Sprint("w", i), Concurrency: 1}).Handle("a",
			func(_ context.Context, task *action.Task) (any, error) {
				ran.Store(task.Run, true)
				return nil, nil
			})
		all.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for range 50 {
		if r, err := s.InvokeAndWait(short(t), "a", nil); err != nil || r.Status != action.Completed {
			t.Fatalf("run %+v, %v", r, err)
		}
	}
	stop()
	all.Wait()
	if d.most != 1 {
		t.Errorf("%d takes have waited in a shard at once, want 1", d.most)
	}
}

// TestSessionLost: a process without heartbeats for 30 s loses its runs. It goes on with another
// session.
func TestSessionLost(t *testing.T) { synctest.Test(t, testSessionLost) }

func testSessionLost(t *testing.T) {
	d, s := newTestDoor(t, 1)
	if _, err := s.Register(t.Context(), "a", action.Backoff(0, 0), action.Timeout(time.Hour)); err != nil {
		t.Fatal(err)
	}
	attempts, causes := make(chan int, 10), make(chan error, 10)
	working(t, s.Worker(action.WorkerConfig{Concurrency: 1}).Handle("a", func(ctx context.Context, task *action.Task) (any, error) {
		attempts <- task.Attempt
		if task.Attempt == 1 {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return "late", nil
		}
		return task.LastCode, nil
	}))
	i, err := s.Invoke(t.Context(), "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := <-attempts; n != 1 {
		t.Fatalf("attempt %d", n)
	}
	synctest.Wait() // the first heartbeat has arrived, and no other does before time passes
	d.Advance(0)    // the leader's term begins
	d.Advance(31_000)
	select {
	case cause := <-causes:
		if !errors.Is(cause, action.ErrConflict) {
			t.Errorf("the cause is %v, want ErrConflict", cause)
		}
	case <-short(t).Done():
		t.Fatal("the handler was not cancelled")
	}
	r, err := s.Wait(short(t), i.Run)
	if err != nil || r.Status != action.Completed || r.Attempt != 2 || string(r.Output) != `"`+action.CodeWorkerLost+`"` {
		t.Errorf("the run is %+v, %v", r, err)
	}
}

// TestLostAnswers: a take got runs, and its answer was lost. A reconciliation finds them, and their
// attempts do not count.
func TestLostAnswers(t *testing.T) { synctest.Test(t, testLostAnswers) }

func testLostAnswers(t *testing.T) {
	d, s := newTestDoor(t, 1)
	if _, err := s.Register(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	d.lose.Store(2)
	working(t, s.Worker(action.WorkerConfig{}).Handle("a", func(context.Context, *action.Task) (any, error) { return nil, nil }))
	r, err := s.InvokeAndWait(short(t), "a", nil)
	if err != nil || r.Status != action.Completed || r.Attempt != 1 {
		t.Errorf("the run is %+v, %v", r, err)
	}
}

// TestGroupsComeAndGo: groups join and leave while runs of all of them are carried out.
func TestGroupsComeAndGo(t *testing.T) {
	_, s := newTestDoor(t, 2)
	const names = 5
	for i := range names {
		if _, err := s.Register(t.Context(), fmt.Sprint("a", i)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var runs, workers sync.WaitGroup
	for i := range names {
		workers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				within, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
				w := s.Worker(action.WorkerConfig{Concurrency: 2, Labels: map[string]string{"n": fmt.Sprint(n % 2)}})
				w.Handle(fmt.Sprint("a", i), func(_ context.Context, task *action.Task) (any, error) {
					if task.Action != fmt.Sprint("a", i) {
						t.Errorf("a worker of a%d has got %s", i, task.Action)
					}
					return nil, nil
				})
				if err := w.Run(within); err != nil {
					t.Error(err)
				}
				cancel()
			}
		})
		runs.Go(func() {
			for range 20 {
				r, err := s.InvokeAndWait(short(t), fmt.Sprint("a", i), nil)
				if err != nil || r.Status != action.Completed || r.Attempt != 1 {
					t.Errorf("the run is %+v, %v", r, err)
				}
			}
		})
	}
	runs.Wait()
	stop()
	workers.Wait()
}

// TestOneOfTwoLeaves: a worker that leaves takes nothing from another one with the same labels and
// handlers.
func TestOneOfTwoLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := newTestDoor(t, 2)
		if _, err := s.Register(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		ended := make([]chan error, 3)
		stops := make([]context.CancelFunc, 3)
		for i := range ended {
			ctx, stop := context.WithCancel(t.Context())
			ended[i], stops[i] = make(chan error, 1), stop
			w := s.Worker(action.WorkerConfig{}).Handle("a", func(context.Context, *action.Task) (any, error) { return i, nil })
			go func() { ended[i] <- w.Run(ctx) }()
		}
		for i := range ended {
			for range 4 {
				r, err := s.InvokeAndWait(short(t), "a", nil)
				if err != nil || r.Status != action.Completed || r.Attempt != 1 {
					t.Errorf("with %d workers: %+v, %v", len(ended)-i, r, err)
				}
			}
			stops[i]()
			if err := <-ended[i]; err != nil {
				t.Errorf("Run = %v", err)
			}
		}
	})
}
