package action

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestEachFailure: a call returns the error of any request to a shard that fails.
func TestEachFailure(t *testing.T) {
	for _, spread := range []bool{false, true} {
		r, ctx := machinetest.New(t, 3, table()), t.Context()
		if err := engine.NewNamespaces(r.Router()).Create(ctx, "n", spread); err != nil {
			t.Fatal(err)
		}
		s := engine.StoreOf[Store](r.Router(), "n", 1<<20)
		take := func(name string) RunID {
			t.Helper()
			if _, err := s.Invoke(ctx, name, nil); err != nil {
				t.Fatal(err)
			}
			tasks, err := s.Await(ctx, "w", []string{name})
			if err != nil || len(tasks) != 1 {
				t.Fatalf("Await = %v, %v", tasks, err)
			}
			return tasks[0].Run
		}
		for _, name := range []string{"a", "b", "idle"} {
			if _, err := s.Register(ctx, name, Timeout(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.RegisterWorker(ctx, NewWorker{ID: "w", Actions: []string{"a", "b"}}); err != nil {
			t.Fatal(err)
		}
		ended, held := take("a"), take("b")
		if err := s.Complete(ctx, ended, "w", nil); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			if _, err := s.Invoke(ctx, "b", nil); err != nil {
				t.Fatal(err)
			}
			if err := s.Schedules("b").Set(ctx, fmt.Sprint(i), ScheduleSpec{Every: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		call := func(f func(s *Store) error) func(engine.Door) error {
			return func(d engine.Door) error { return f(engine.StoreOf[Store](engine.NewRouter(d), "n", 1<<20)) }
		}
		// the thing does not exist, unless the request fails
		missing := func(err error) error { return machinetest.Except(err, ErrNotFound) }
		over := func(err error) error { return machinetest.Except(err, ErrConflict) } // or has ended
		r.EachFailure(map[string]func(engine.Door) error{
			"Action":     call(func(s *Store) error { _, err := s.Get(ctx, "a"); return err }),
			"All":        call(func(s *Store) error { return machinetest.LastError(s.All(ctx)) }),
			"Page":       call(func(s *Store) error { _, err := s.Page(ctx, Limit(2)); return err }),
			"Await":      call(func(s *Store) error { _, err := s.Await(ctx, "w", []string{"idle"}); return err }),
			"Await some": call(func(s *Store) error { _, err := s.Await(ctx, "w", []string{"idle", "a"}); return err }),
			"Cancel":     call(func(s *Store) error { return over(s.Cancel(ctx, ended, "")) }),
			"Complete":   call(func(s *Store) error { return over(s.Complete(ctx, ended, "w", nil)) }),
			"Fail":       call(func(s *Store) error { return over(s.Fail(ctx, ended, "w", "it failed")) }),
			"Extend":     call(func(s *Store) error { _, err := s.Extend(ctx, held, "w", time.Minute); return err }),
			"Retry":      call(func(s *Store) error { return over(s.Retry(ctx, held)) }),
			"RunNow":     call(func(s *Store) error { return over(s.RunNow(ctx, ended)) }),
			"Run":        call(func(s *Store) error { _, err := s.Runs().Get(ctx, ended); return err }),
			"Wait":       call(func(s *Store) error { _, err := s.Wait(ctx, ended); return err }),
			"Delete":     call(func(s *Store) error { return missing(s.Delete(ctx, "none")) }),
			"Invoke":     call(func(s *Store) error { _, err := s.Invoke(ctx, "a", nil); return err }),
			"Invoke once": call(func(s *Store) error {
				_, err := s.Invoke(ctx, "a", nil, IdempotencyKey("k"))
				return err
			}),
			"RegisterWorker": call(func(s *Store) error {
				return s.RegisterWorker(ctx,
					NewWorker{ID: "v", Actions: []string{"a", "b"}})
			}),
			"Heartbeat":           call(func(s *Store) error { return s.Heartbeat(ctx, "w", 1, Process{Name: "a", Runs: 1}) }),
			"Drain":               call(func(s *Store) error { return missing(s.Drain(ctx, "none")) }),
			"Deregister":          call(func(s *Store) error { return missing(s.Deregister(ctx, "none")) }),
			"Runs.All":            call(func(s *Store) error { return machinetest.LastError(s.Runs().All(ctx, Of("b"))) }),
			"Runs.Page":           call(func(s *Store) error { _, err := s.Runs().Page(ctx, Of("b"), Limit(2)); return err }),
			"Workers.All":         call(func(s *Store) error { return machinetest.LastError(s.Workers().All(ctx)) }),
			"Workers.Page":        call(func(s *Store) error { _, err := s.Workers().Page(ctx); return err }),
			"Workers.Find":        call(func(s *Store) error { _, err := s.Workers().Get(ctx, "w"); return err }),
			"Workers.Find no one": call(func(s *Store) error { _, err := s.Workers().Get(ctx, "none"); return missing(err) }),
			"Schedules.All":       call(func(s *Store) error { return machinetest.LastError(s.Schedules("b").All(ctx)) }),
			"Schedules.All of all": call(func(s *Store) error {
				return machinetest.LastError(s.Schedules("").All(ctx, Limit(2)))
			}),
			"Schedules.Page":    call(func(s *Store) error { _, err := s.Schedules("b").Page(ctx, Limit(2)); return err }),
			"Schedules.Get":     call(func(s *Store) error { _, err := s.Schedules("b").Get(ctx, "1"); return err }),
			"Schedules.Set":     call(func(s *Store) error { return s.Schedules("b").Set(ctx, "1", ScheduleSpec{Every: time.Hour}) }),
			"Schedules.Pause":   call(func(s *Store) error { return s.Schedules("b").Pause(ctx, "1") }),
			"Schedules.Resume":  call(func(s *Store) error { return s.Schedules("b").Resume(ctx, "1") }),
			"Schedules.Delete":  call(func(s *Store) error { return missing(s.Schedules("b").Delete(ctx, "none")) }),
			"Schedules.Trigger": call(func(s *Store) error { _, err := s.Schedules("b").Trigger(ctx, "1"); return err }),
			"take and fail": call(func(s *Store) error {
				if _, err := s.Invoke(ctx, "b", nil); err != nil {
					return err
				}
				tasks, err := s.Await(ctx, "w", []string{"b"})
				if err != nil || len(tasks) == 0 {
					return err
				}
				return s.Finish(ctx, "w", &tasks[0], nil, errors.New("it failed"))
			}),
			"InvokeAndWait": call(func(s *Store) error {
				_, err := s.InvokeAndWait(ctx, "none", nil)
				return missing(err)
			}),
			"Disable":  call(func(s *Store) error { return s.Disable(ctx, "idle") }),
			"Enable":   call(func(s *Store) error { return s.Enable(ctx, "idle") }),
			"Register": call(func(s *Store) error { _, err := s.Register(ctx, "a", Timeout(time.Hour)); return err }),
		}, "Disable", "Enable", "Register")
	}
}

// TestMalformedBodies: a command whose body does not decode is refused.
func TestMalformedBodies(t *testing.T) {
	machinetest.RefusesMalformed(t, engine.MachineAction, func() *machinetest.Rig { return machinetest.New(t, 1, table()) })
}
