package action

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/rig"
)

// lateDoor is the way to a rig, on which answers to ends of one shard are late.
type lateDoor struct {
	*rig.Rig
	shard engine.ShardID
	late  chan struct{} // closed when they come
}

func (d *lateDoor) Propose(ctx context.Context, shard engine.ShardID, cmd engine.Command) ([]byte, error) {
	b, err := d.Rig.Propose(ctx, shard, cmd)
	if cmd.Kind == kindWork && shard == d.shard {
		<-d.late
	}
	return b, err
}

// TestReleasedRunComesBackBeforeItsAnswer: a worker with one slot is free for two shards. What comes from the second one while it is busy is given back, and is the worker's again by the next take
// before the process has the answer to that. It was thrown away then, as what the process had, until a census 10 s later.
func TestReleasedRunComesBackBeforeItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 2
		d := &lateDoor{Rig: rig.New(t, shards, table()), late: make(chan struct{})}
		router := engine.NewRouter(d)
		if err := engine.NewNamespaces(router).Create(t.Context(), "n", true); err != nil {
			t.Fatal(err)
		}
		store := engine.StoreOf(Primitive, router, "n", 1<<20)
		if _, err := store.Register(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		begun, done := make(chan RunID, 2), make(chan struct{})
		w := store.Worker(WorkerConfig{Concurrency: 1}).Handle("a", func(_ context.Context, task *Task) (any, error) {
			begun <- task.Run
			<-done
			return nil, nil
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		invoke := func(shard engine.ShardID) RunID {
			for n := 0; ; n++ {
				key := fmt.Sprint(n)
				if engine.NameShard("n", keyRoute("a", key), shards) != shard {
					continue
				}
				i, err := store.Invoke(t.Context(), "a", nil, IdempotencyKey(key))
				if err != nil {
					t.Fatal(err)
				}
				return i.Run
			}
		}
		synctest.Wait() // takes wait in both
		d.shard = 1
		first := invoke(0)
		synctest.Wait()
		second := invoke(1) // too much
		synctest.Wait()
		done <- struct{}{}
		synctest.Wait()
		if len(begun) != 2 {
			t.Errorf("%d runs have begun, want both: the second one came back", len(begun))
		} else if one, other := <-begun, <-begun; one != first || other != second {
			t.Errorf("runs %s and %s have begun, want %s and %s", one, other, first, second)
		}
		close(d.late)
		close(done)
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}
