package workflow_test

import (
	"fmt"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/workflow"
)

// TestEachFailure: if any request of a call to a shard fails, the call returns that error.
func TestEachFailure(t *testing.T) {
	for _, spread := range []bool{false, true} {
		r, ctx := newRig(t, 3), t.Context()
		if err := engine.NewNamespaces(r.Router()).Create(ctx, "n", spread); err != nil {
			t.Fatal(err)
		}
		definition := func(name, version string) []byte {
			return fmt.Appendf(nil, `
kind: Workflow
name: %s
version: %q
schedule: { every: 24h }
start: { waitForSignal: { type: go }, transitions: { success: flo.Completed } }
`, name, version)
		}
		flows := flowsOf(r, "n")
		for _, version := range []string{"1", "2"} {
			for _, name := range []string{"w", "idle"} {
				if _, err := flows.Create(ctx, definition(name, version)); err != nil {
					t.Fatal(err)
				}
			}
		}
		start := func(key string) workflow.RunID {
			t.Helper()
			started, err := flows.Start(ctx, "w", nil, workflow.IdempotencyKey(key))
			if err != nil {
				t.Fatal(err)
			}
			return started.Run
		}
		for i := range 5 {
			start(fmt.Sprint(i))
		}
		waiting, ended := start("waiting"), start("ended")
		if _, err := flows.Cancel(ctx, ended, "it is not needed"); err != nil {
			t.Fatal(err)
		}
		call := func(f func(s *workflow.Store) error) func(engine.Door) error {
			return func(d engine.Door) error {
				return f(engine.StoreOf[workflow.Store](engine.NewRouter(d), "n", 1<<20))
			}
		}
		// The requested object does not exist, unless the query itself fails.
		missing := func(err error) error { return machinetest.Except(err, workflow.ErrNotFound) }
		over := func(err error) error { return machinetest.Except(err, workflow.ErrConflict) } // or has ended
		r.EachFailure(map[string]func(engine.Door) error{
			"Workflow":        call(func(s *workflow.Store) error { _, err := s.Get(ctx, "w"); return err }),
			"All":             call(func(s *workflow.Store) error { return machinetest.LastError(s.All(ctx)) }),
			"Page":            call(func(s *workflow.Store) error { _, err := s.Page(ctx, workflow.Limit(1)); return err }),
			"Definition":      call(func(s *workflow.Store) error { _, err := s.Versions("w").Get(ctx, ""); return err }),
			"Definition of 1": call(func(s *workflow.Store) error { _, err := s.Versions("w").Get(ctx, "1"); return err }),
			"Versions":        call(func(s *workflow.Store) error { _, err := s.Versions("w").Page(ctx); return err }),
			"RemoveVersion":   call(func(s *workflow.Store) error { return missing(s.Versions("w").Delete(ctx, "none")) }),
			"SetDefault":      call(func(s *workflow.Store) error { return missing(s.Versions("w").SetDefault(ctx, "none")) }),
			"Delete":          call(func(s *workflow.Store) error { return missing(s.Delete(ctx, "none")) }),
			"Cancel":          call(func(s *workflow.Store) error { _, err := s.Cancel(ctx, ended, ""); return over(err) }),
			"Retry":           call(func(s *workflow.Store) error { _, err := s.Retry(ctx, waiting); return over(err) }),
			"Signal":          call(func(s *workflow.Store) error { _, err := s.Signal(ctx, waiting, "other", nil); return err }),
			"Signal too late": call(func(s *workflow.Store) error { _, err := s.Signal(ctx, ended, "go", nil); return over(err) }),
			"Run":             call(func(s *workflow.Store) error { _, err := s.Runs().Get(ctx, waiting); return err }),
			"Wait":            call(func(s *workflow.Store) error { _, err := s.Wait(ctx, ended); return err }),
			"Runs.All":        call(func(s *workflow.Store) error { return machinetest.LastError(s.Runs().All(ctx, workflow.Limit(2))) }),
			"Runs.Page":       call(func(s *workflow.Store) error { _, err := s.Runs().Page(ctx, workflow.Of("w")); return err }),
			"History.All":     call(func(s *workflow.Store) error { return machinetest.LastError(s.History(waiting).All(ctx)) }),
			"History.Page": call(func(s *workflow.Store) error {
				_,
					err := s.History(waiting).Page(ctx, workflow.Limit(1))
				return err
			}),
			"StartAndWait": call(func(s *workflow.Store) error {
				_, err := s.StartAndWait(ctx, "w", nil, workflow.IdempotencyKey("ended"))
				return err
			}),
			"Start once": call(func(s *workflow.Store) error {
				_, err := s.Start(ctx, "w", nil, workflow.IdempotencyKey("k"))
				return err
			}),
			"Start":            call(func(s *workflow.Store) error { _, err := s.Start(ctx, "w", nil); return err }),
			"Start of version": call(func(s *workflow.Store) error { _, err := s.Start(ctx, "w", nil, workflow.Version("1")); return err }),
			"Start as": call(func(s *workflow.Store) error {
				_, err := s.Start(ctx, "w", nil, workflow.UseID("chosen"))
				return over(err)
			}),
			"Create":         call(func(s *workflow.Store) error { _, err := s.Create(ctx, definition("w", "2")); return err }),
			"Disable":        call(func(s *workflow.Store) error { return s.Disable(ctx, "idle") }),
			"Enable":         call(func(s *workflow.Store) error { return s.Enable(ctx, "idle") }),
			"InvalidatePlan": call(func(s *workflow.Store) error { return missing(s.InvalidatePlan(ctx, "w", "none")) }),
			"PauseSchedule":  call(func(s *workflow.Store) error { return s.Schedule("idle").Pause(ctx) }),
			"ResumeSchedule": call(func(s *workflow.Store) error { return s.Schedule("idle").Resume(ctx) }),
		}, "Create", "Disable", "Enable")
	}
}

// TestMalformedBodies: a command whose body does not decode is rejected.
func TestMalformedBodies(t *testing.T) {
	machinetest.RefusesMalformed(t, engine.MachineWorkflow, func() *machinetest.Rig { return newRig(t, 1) })
}
