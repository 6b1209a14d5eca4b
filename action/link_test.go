package action

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/rig"
)

// lateDoor is the way to a rig, on which answers to ends of one shard are late.
type lateDoor struct {
	*rig.Rig
	shard engine.ShardID
	late  chan struct{} // closed when they come
	vain  bool          // ends do not get there at all
}

func (d *lateDoor) Propose(ctx context.Context, shard engine.ShardID, cmd engine.Command) ([]byte, error) {
	if cmd.Kind == kindWork && shard == d.shard && d.vain {
		return nil, engine.Errorf(engine.ErrUnknownOutcome, "the node was killed")
	}
	b, err := d.Rig.Propose(ctx, shard, cmd)
	if cmd.Kind == kindWork && shard == d.shard {
		<-d.late
	}
	return b, err
}

// oneSlot is a worker with one slot for the action a, in a namespace that is spread over two shards.
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
		lateDoor: &lateDoor{Rig: rig.New(t, 2, table()), late: make(chan struct{})}, t: t, begun: make(chan RunID, 2), done: make(chan struct{}), ended: make(chan error),
	}
	router := engine.NewRouter(w.lateDoor)
	if err := engine.NewNamespaces(router).Create(t.Context(), "n", true); err != nil {
		t.Fatal(err)
	}
	w.store = engine.StoreOf(Primitive, router, "n", 1<<20)
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

// TestReleasedRunComesBackBeforeItsAnswer: a worker with one slot is free for two shards. What comes from the second one while it is busy is given back, and is the worker's again by the next take
// before the process has the answer to that. It was thrown away then, as what the process had, until a census 10 s later.
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

// TestGivenBackInVain: likewise, but nobody hears that the second run is given back, as the node is killed. The process was said to have it until the attempt's time
// was over, an hour later; now the census finds it.
func TestGivenBackInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOneSlot(t)
		w.shard, w.vain = 1, true
		first := w.invoke(0)
		second := w.invoke(1) // too much
		w.shard, w.vain = 99, false
		<-time.After(time.Minute) // of censuses
		w.done <- struct{}{}
		<-time.After(time.Minute)
		w.check(first, second)
	})
}
