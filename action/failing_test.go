package action

import (
	"errors"
	"fmt"
	"iter"
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

// reads returns calls that read rows of the damageable rig: queries, and a look for runs to take.
func reads(t *testing.T, r *machinetest.Rig) map[string]func() (any, error) {
	s, ctx := engine.StoreOf[Store](r.Router(), "n", 1<<20), t.Context()
	session := uint64(0)
	for _, row := range r.Rows(0) {
		if row.Machine == engine.MachineAction && row.Key[0] == rowSession {
			if one, err := decode(row.Value, (*sessionRow).code); err == nil && !one.self {
				session = lastOf(row.Key)
			}
		}
	}
	all := group{names: []string{"a", "limited"}}
	gpu := group{labels: labels(map[string]string{"gpu": "yes"}), names: []string{"a"}}
	take := func(c workBody) func() (any, error) {
		return func() (any, error) {
			cmd := engine.Command{Machine: engine.MachineAction, Kind: kindWork, Namespace: "n", Body: body(takeRuns, "", c)}
			return r.Executor(0).TakeAlone(ctx, engine.Take{Command: cmd}, r.Now, func(engine.Command) ([]byte, error) {
				return []byte("proposed"), nil
			})
		}
	}
	query := func(q func() engine.Query) func() (any, error) {
		return func() (any, error) {
			one := q()
			err := r.Query(ctx, 0, one)
			return fmt.Sprintf("%+v", one), err
		}
	}
	calls := map[string]func() (any, error){
		"Get":                func() (any, error) { return s.Get(ctx, "a") },
		"All":                func() (any, error) { return collected(s.All(ctx)) },
		"Runs":               func() (any, error) { return collected(s.Runs().All(ctx, Of("a"))) },
		"Runs of all":        func() (any, error) { return collected(s.Runs().All(ctx)) },
		"Runs that":          func() (any, error) { return collected(s.Runs().All(ctx, Of("a"), InState(Pending))) },
		"Schedules":          func() (any, error) { return collected(s.Schedules("a").All(ctx)) },
		"Schedule":           func() (any, error) { return s.Schedules("a").Get(ctx, "s") },
		"Workers":            func() (any, error) { return collected(s.Workers().All(ctx)) },
		"take":               take(workBody{self: "x", group: all, wants: []want{{0, "x", 1}}}),
		"take with GPU":      take(workBody{self: "x", group: gpu, wants: []want{{0, "x", 1}}}),
		"take for a session": take(workBody{session: session, wants: []want{{0, "x", 1}, {1, "x", 1}}}),
		"ready":              query(func() engine.Query { return &readyQuery{namespace: "n", worker: "x", group: gpu} }),
		"heartbeat":          query(func() engine.Query { return &heartbeatQuery{namespace: "n", session: session, reconcile: true} }),
	}
	for run, err := range s.Runs().All(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		calls["run "+string(run.ID)] = func() (any, error) { return s.Runs().Get(ctx, run.ID) }
		if run.Status.Final() && !run.Cancelling {
			calls["wait for "+string(run.ID)] = func() (any, error) { return s.Wait(ctx, run.ID) }
		}
	}
	return calls
}

// collected returns the items of a listing, or its error.
func collected[T any](seq iter.Seq2[T, error]) (items []T, err error) {
	for item, err := range seq {
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// TestFailingReads: an operation returns the error of any read that fails.
func TestFailingReads(t *testing.T) {
	r := newDamageable(t)
	r.EachReadOfVerify()
	r.EachRead(reads(t, r))
	r.Pass(3 * 60 * 60_000) // a tick is due, and sessions are silent
	r.EachReadOfDuties()
}

// TestMalformedRows: an operation that reads a malformed row returns an error.
func TestMalformedRows(t *testing.T) {
	r := newDamageable(t)
	damage := func(calls map[string]func() (any, error)) {
		r.EachDamage(engine.MachineAction, func(row machinetest.Row) [][]byte {
			if k := row.Key[0]; len(row.Value) == 0 || k == rowWorker || k == rowSelf { // shorter ones are valid
				return nil
			}
			return [][]byte{row.Value[:len(row.Value)-1], row.Value[:len(row.Value)/2]}
		}, calls)
	}
	damage(reads(t, r))
	r.Pass(3 * 60 * 60_000)
	r.EachStep(damage)
}

// TestMalformedBodies: a command whose body does not decode is refused.
func TestMalformedBodies(t *testing.T) {
	machinetest.RefusesMalformed(t, engine.MachineAction, func() *machinetest.Rig { return machinetest.New(t, 1, table()) })
}

// TestMalformedTakes: a malformed take, and another command, take nothing.
func TestMalformedTakes(t *testing.T) {
	for _, cmd := range []engine.Command{{Kind: kindInvoke}, {Kind: kindWork, Body: []byte{0xff}}} {
		if _, _, err := new(machine).Takeable(nil, cmd, true); !errors.Is(err, ErrInvalid) {
			t.Errorf("Takeable of command %d: %v, want ErrInvalid", cmd.Kind, err)
		}
	}
}
