package action_test

import (
	"errors"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
)

// TestDrainEndsAwait: a worker that was drained went on to wait, and got runs. It can end what it has.
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
