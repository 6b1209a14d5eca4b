package processing_test

import (
	"context"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream/processing"
)

// rowOf returns the first row of jobs whose key begins with the letter kind.
func (s *rig) rowOf(kind byte) machinetest.Row {
	s.t.Helper()
	for _, row := range s.Rows(0) {
		if row.Machine == engine.MachineProcessing && row.Key[0] == kind {
			return row
		}
	}
	s.t.Fatalf("there is no row %c", kind)
	return machinetest.Row{}
}

// inLaneOf submits jobs until one is in the same lane as another; its sink is the stream out.
func (s *rig) inLaneOf(id processing.JobID, definition string) processing.JobID {
	s.t.Helper()
	_, want := processing.Lane(id)
	for {
		other := s.submit(definition)
		if _, lane := processing.Lane(other); lane == want {
			return other
		}
		if _, err := s.jobs.Cancel(context.Background(), other); err != nil {
			s.t.Fatal(err)
		}
	}
}

// TestBrokenJobIsHeldAlone: a job with unreadable rows is held with the reason, and resumes when
// they are readable. Other jobs of its lane are not blocked; none of them used to proceed.
func TestBrokenJobIsHeldAlone(t *testing.T) {
	for _, kind := range []byte{'c', 's'} { // found when the job is looked up, and in a step
		t.Run(string(kind), func(t *testing.T) {
			s := newRig(t, 1)
			broken := s.submit(summing)
			s.append("in", `{"k":"a","n":1}`)
			s.run()
			row := s.rowOf(kind)
			other := s.inLaneOf(broken, filtered)
			s.Tamper(0, machinetest.Row{Machine: row.Machine, Key: row.Key, Value: []byte{0xff}})
			s.Restart()
			s.append("in", `{"k":"a","n":2}`)
			s.append("orders", amount(200))
			var held processing.Job
			s.lane(broken, bed{asleep: func(<-chan struct{}, int64) { held = s.job(broken) }})
			if !held.Held || held.Status != processing.Running || !strings.Contains(held.Reason, "malformed") ||
				held.Metrics.RecordsIn != 1 {
				t.Errorf("the broken job: %+v", held)
			}
			s.want("large", amount(200))
			s.Tamper(0, row)
			s.Advance(5000)
			s.Advance(5000)
			if j := s.job(broken); j.Metrics.RecordsIn != 2 || j.Metrics.Errors != 0 {
				t.Errorf("the job when its rows are mended: %+v", j)
			}
			if m := s.job(other).Metrics; m.RecordsIn != 1 {
				t.Errorf("the other job: %+v", m)
			}
		})
	}
}

// TestBrokenSavepointIsHeldAlone: a job that cannot be restored from its savepoint reports why, and
// savepoints of other jobs are still made.
func TestBrokenSavepointIsHeldAlone(t *testing.T) {
	s, ctx := newRig(t, 1), context.Background()
	broken := s.submit(summing)
	s.append("in", `{"k":"a","n":1}`)
	s.run()
	sp, err := s.jobs.Savepoints(broken).Create(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s.run()
	if _, err := s.jobs.Stop(ctx, broken); err != nil {
		t.Fatal(err)
	}
	row := s.rowOf('k')
	s.Tamper(0, machinetest.Row{Machine: row.Machine, Key: row.Key, Value: []byte{0xff}})
	if _, err := s.jobs.Restore(ctx, broken, processing.FromSavepoint(sp)); err != nil {
		t.Fatal(err)
	}
	other := s.submit(filtered)
	made, err := s.jobs.Savepoints(other).Create(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var held processing.Job
	s.duty(0, "savepoints", bed{asleep: func(<-chan struct{}, int64) { held = s.job(broken) }})
	if !held.Held || !strings.Contains(held.Reason, "chunk") {
		t.Errorf("the job that is restored: %+v", held)
	}
	if all, err := engine.Collect(s.jobs.Savepoints(other).All(ctx)); err != nil || len(all) != 1 || all[0].ID != made || !all[0].Complete {
		t.Errorf("the savepoint of the other job: %+v, %v", all, err)
	}
	s.Tamper(0, row)
	s.Advance(5000)
	if j := s.job(broken); j.Status != processing.Running || j.Held {
		t.Errorf("the job when its savepoint is mended: %+v", j)
	}
}
