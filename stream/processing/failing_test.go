package processing_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
	"github.com/floedb/floe/ts"
)

// TestEachFailure: if any request of a call to a shard fails, the call returns that error.
func TestEachFailure(t *testing.T) {
	for _, spread := range []bool{false, true} {
		s, ctx := newRig(t, 3), t.Context()
		if err := engine.NewNamespaces(s.Router()).Create(ctx, "n", spread); err != nil {
			t.Fatal(err)
		}
		definition := func(name string) []byte { return []byte(strings.Replace(filtered, "name: big", "name: "+name, 1)) }
		s.append("orders", `{"a":1}`, `{"a":2}`)
		var jobs []processing.JobID
		for i := range 5 {
			jobs = append(jobs, s.submit(string(definition(fmt.Sprint("j", i)))))
		}
		s.run()
		savepoint, err := s.jobs.Savepoints(jobs[0]).Create(ctx)
		if err != nil {
			t.Fatal(err)
		}
		s.run()
		gone, err := s.jobs.Savepoints(jobs[0]).Create(ctx)
		if err != nil {
			t.Fatal(err)
		}
		s.run()
		if err := s.jobs.Savepoints(jobs[0]).Delete(ctx, gone); err != nil {
			t.Fatal(err)
		}
		running, ended := jobs[0], jobs[1]
		if _, err := s.jobs.Cancel(ctx, ended); err != nil {
			t.Fatal(err)
		}
		s.run()
		call := func(f func(s *processing.Store) error) func(engine.Door) error {
			return func(d engine.Door) error {
				return f(engine.StoreOf[processing.Store](engine.NewRouter(d), "n", 1<<20))
			}
		}
		// The requested object does not exist, unless the query itself fails.
		missing := func(err error) error { return machinetest.Except(err, processing.ErrNotFound) }
		over := func(err error) error { return machinetest.Except(err, processing.ErrConflict) } // or has ended, or is in progress
		s.EachFailure(map[string]func(engine.Door) error{
			"All":            call(func(s *processing.Store) error { return machinetest.LastError(s.All(ctx, processing.Limit(2))) }),
			"Page":           call(func(s *processing.Store) error { _, err := s.Page(ctx, processing.Limit(2)); return err }),
			"Get":            call(func(s *processing.Store) error { _, err := s.Get(ctx, running); return err }),
			"Locate":         call(func(s *processing.Store) error { _, err := s.Locate(ctx, running); return err }),
			"Savepoints":     call(func(s *processing.Store) error { _, err := s.Savepoints(running).Page(ctx); return err }),
			"AwaitSavepoint": call(func(s *processing.Store) error { _, err := s.AwaitSavepoint(ctx, running, savepoint); return err }),
			"DropSavepoint":  call(func(s *processing.Store) error { return missing(s.Savepoints(running).Delete(ctx, gone)) }),
			"Plan":           call(func(s *processing.Store) error { _, err := s.Plan(ctx, running); return err }),
			"Plan of change": call(func(s *processing.Store) error {
				_, err := s.Plan(ctx, running, processing.ReplaceDefinition(definition("j0")), processing.FromSavepoint(savepoint))
				return err
			}),
			"Savepoint": call(func(s *processing.Store) error {
				_, err := s.Savepoints(running).Create(ctx)
				return machinetest.Except(err, engine.ErrBusy)
			}),
			"Rescale": call(func(s *processing.Store) error { return over(s.Rescale(ctx, ended, 2)) }),
			"Restore": call(func(s *processing.Store) error { _, err := s.Restore(ctx, ended); return over(err) }),
			"Cancel":  call(func(s *processing.Store) error { _, err := s.Cancel(ctx, ended); return over(err) }),
			"Stop":    call(func(s *processing.Store) error { _, err := s.Stop(ctx, ended); return over(err) }),
			"Submit":  call(func(s *processing.Store) error { _, err := s.Submit(ctx, definition("j2")); return over(err) }),
			"Apply":   call(func(s *processing.Store) error { _, err := s.Apply(ctx, definition("j0")); return err }),
			"PlanApply": call(func(s *processing.Store) error {
				_, err := s.PlanApply(ctx, append(definition("j0"), "\n# other\n"...), processing.FromSavepoint(savepoint))
				return err
			}),
			"Apply new": call(func(s *processing.Store) error {
				a, err := s.Apply(ctx, definition("other"))
				if err == nil && a.Job == "" {
					err = errors.New("it has no id")
				}
				return err
			}),
		})
	}
}

// TestMalformedBodies: a command whose body does not decode is rejected.
func TestMalformedBodies(t *testing.T) {
	machinetest.RefusesMalformed(t, engine.MachineProcessing, func() *machinetest.Rig { return newRig(t, 1).Rig })
}

// TestFailingReadsOfSeries: a job that reads points continues correctly after each failed read.
func TestFailingReadsOfSeries(t *testing.T) {
	s, ctx := newRig(t, 1), t.Context()
	s.FailReads(s.held)
	id := s.submit(`
name: load
sources: [{name: cpu, ts: { measurement: cpu, field: load, poll_interval_ms: 1000, delay_ms: 0 }}]
sinks: [{name: out, stream: { name: out }}]
`)
	for i := range 3 {
		p := ts.Point{Measurement: "cpu", Fields: map[string]float64{"load": float64(i)}, Time: time.UnixMilli(s.Now() + 1)}
		if _, err := s.series.Write(ctx, p); err != nil {
			t.Fatal(err)
		}
		s.Advance(5000)
	}
	if m := s.job(id).Metrics; m.RecordsIn != 3 || m.RecordsOut != 3 || m.Errors != 0 {
		t.Errorf("metrics %+v", m)
	}
}

// TestDeleteNamespaceOfCancelledJobs: a namespace whose jobs are all cancelled can be deleted, with
// everything that is left of them.
func TestDeleteNamespaceOfCancelledJobs(t *testing.T) {
	s, ctx := newRig(t, 1), t.Context()
	for range 3 {
		id := s.submit(filtered)
		s.append("orders", amount(200))
		s.run()
		if _, err := s.jobs.Cancel(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	namespaces := engine.NewNamespaces(s.Router())
	for _, name := range []string{"orders", "large"} {
		if err := s.streams.Delete(ctx, name, stream.Force()); err != nil {
			t.Fatal(err)
		}
	}
	if err := namespaces.Delete(ctx, "n"); err != nil {
		t.Fatal(err)
	}
	for _, row := range s.Rows(0) {
		if row.Machine == engine.MachineProcessing {
			t.Errorf("row %q is left", row.Key)
		}
	}
}
