package action_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
)

// TestDrainEndsAwait: draining a worker ends its Await, and the worker can end the runs that it
// has. It used to keep waiting and get more runs.
func TestDrainEndsAwait(t *testing.T) {
	for name, s := range map[string]*action.Store{"plain": openWith(t), "spread": openSpread(t)} {
		t.Run(name, func(t *testing.T) {
			if _, err := s.Register(short(t), "a"); err != nil {
				t.Fatal(err)
			}
			me := action.NewWorker{ID: "w", Actions: []string{"a"}, MaxConcurrent: 1}
			if err := s.RegisterWorker(short(t), me); err != nil {
				t.Fatal(err)
			}
			invoked, err := s.Invoke(short(t), "a", nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := s.Await(short(t), "w", []string{"a"}, action.Wait(time.Minute)); err != nil || len(got) != 1 {
				t.Fatalf("Await = %+v, %v", got, err)
			}
			waited := make(chan error, 1)
			go func() {
				_, err := s.Await(short(t), "w", []string{"a"}, action.Wait(time.Minute))
				waited <- err
			}()
			if err := s.Drain(short(t), "w"); err != nil {
				t.Fatal(err)
			}
			if err := <-waited; !errors.Is(err, floe.ErrConflict) {
				t.Errorf("Await that waits = %v", err)
			}
			for range 2 {
				if _, err := s.Invoke(short(t), "a", nil); err != nil {
					t.Fatal(err)
				}
				if got, err := s.Await(short(t), "w", []string{"a"}); !errors.Is(err, floe.ErrConflict) || len(got) > 0 {
					t.Errorf("Await of a worker that drains = %+v, %v", got, err)
				}
			}
			if err := s.Complete(short(t), invoked.Run, "w", nil); err != nil {
				t.Errorf("Complete = %v", err)
			}
			if err := s.RegisterWorker(short(t), me); err != nil {
				t.Fatal(err)
			}
			if got, err := s.Await(short(t), "w", []string{"a"}); err != nil || len(got) != 1 {
				t.Errorf("Await of one that has registered again = %+v, %v", got, err)
			}
		})
	}
}

// TestDrainOfAnother: draining a worker of a program is refused. Such a worker used to be listed as
// draining, and went on.
func TestDrainOfAnother(t *testing.T) {
	s := openWith(t, "a")
	working(t, s.Worker(action.WorkerConfig{ID: "w"}).Handle("a", nothing))
	listed(t, s, func(all []action.WorkerInfo) bool { return len(all) == 1 })
	if err := s.Drain(short(t), "w"); !errors.Is(err, floe.ErrConflict) {
		t.Errorf("Drain = %v", err)
	}
	if w, err := s.Workers().Get(short(t), "w"); err != nil || w.Status != action.Active {
		t.Errorf("the worker is %+v, %v", w, err)
	}
}

// TestAwaitLosesNothing: an Await that waits in several shards loses no run. When it got a run in
// one shard, runs it had just got in others used to be left to time out.
func TestAwaitLosesNothing(t *testing.T) {
	s := openSpread(t)
	if _, err := s.Register(short(t), "a", action.MaxAttempts(1), action.Timeout(time.Minute)); err != nil {
		t.Fatal(err)
	}
	const rounds, each = 20, 6
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range rounds {
		got := make(chan []action.Task, each)
		for range each / 2 {
			go func() {
				tasks, err := s.Await(ctx, "w", []string{"a"}, action.Wait(time.Minute))
				if err != nil {
					t.Errorf("Await = %v", err)
				}
				got <- tasks
			}()
		}
		var all sync.WaitGroup
		for range each {
			all.Go(func() {
				if _, err := s.Invoke(ctx, "a", nil); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		var tasks []action.Task
		for range each / 2 {
			tasks = append(tasks, <-got...)
		}
		for len(tasks) < each && !t.Failed() {
			more, err := s.Await(ctx, "w", []string{"a"}, action.Wait(time.Minute))
			if err != nil {
				t.Fatalf("%d of %d runs came, then %v", len(tasks), each, err)
			}
			tasks = append(tasks, more...)
		}
		for _, task := range tasks {
			if err := s.Complete(ctx, task.Run, "w", nil); err != nil {
				t.Errorf("Complete = %v", err)
			}
		}
	}
}
