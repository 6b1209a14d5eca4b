package processing_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/stream/processing"
)

// TestIdleJobs: idle jobs write nothing, however long they are idle.
func TestIdleJobs(t *testing.T) {
	s := newRig(t, 1)
	for i := range 100 {
		s.append(fmt.Sprint("in", i), amount(500))
		s.submit(strings.NewReplacer("name: orders }", fmt.Sprint("name: in", i, " }"), "name: big", fmt.Sprint("name: big", i),
			"name: large }", fmt.Sprint("name: out", i, " }")).Replace(filtered))
	}
	s.run()
	s.run()
	before := len(s.Log(0))
	for range 20 {
		s.Advance(60_000)
	}
	if n := len(s.Log(0)) - before; n > 0 {
		t.Errorf("idle jobs have written %d entries", n)
	}
	s.want("out42", amount(500))
}

// TestEdited: a job continues with another definition: operators with the same name and key keep
// their state, and a loss of state must be allowed explicitly.
func TestEdited(t *testing.T) {
	s, ctx := newRig(t, 1), context.Background()
	id := s.submit(filtered)
	s.append("orders", amount(200), amount(20))
	s.run()
	if _, err := s.jobs.Stop(ctx, id); err != nil {
		t.Fatal(err)
	}
	s.append("orders", amount(30), amount(5))
	edited := processing.ReplaceDefinition([]byte(strings.Replace(filtered, "amount>100", "amount>10", 1)))
	if p, err := s.jobs.Plan(ctx, id, edited); err != nil || p.Drops() || fmt.Sprint(p.Kept) != "[source orders]" {
		t.Errorf("Plan = %+v, %v", p, err)
	}
	if _, err := s.jobs.Restore(ctx, id, edited); err != nil {
		t.Fatal(err)
	}
	s.run()
	s.want("large", amount(200)+" "+amount(30))
	if d, err := s.jobs.Get(ctx, id); err != nil || !strings.Contains(string(d.Definition), "amount>10\"") {
		t.Errorf("Definition = %s, %v", d.Definition, err)
	}
	if _, err := s.jobs.Stop(ctx, id); err != nil {
		t.Fatal(err)
	}
	renamed := processing.ReplaceDefinition([]byte(strings.Replace(filtered, "- name: orders", "- name: others", 1)))
	if _, err := s.jobs.Restore(ctx, id, renamed); !errors.Is(err, processing.ErrConflict) {
		t.Errorf("a restore that loses state: %v", err)
	}
	other := processing.ReplaceDefinition([]byte(strings.Replace(filtered, "name: big", "name: small", 1)))
	if _, err := s.jobs.Restore(ctx, id, other); !errors.Is(err, processing.ErrInvalid) {
		t.Errorf("a restore with the definition of another job: %v", err)
	}
	if _, err := s.jobs.Plan(ctx, id, other); !errors.Is(err, processing.ErrInvalid) {
		t.Errorf("the plan of a definition of another job: %v", err)
	}
	if _, err := s.jobs.Restore(ctx, id, renamed, processing.DropState()); err != nil {
		t.Fatal(err)
	}
	s.run()
	s.want("large", amount(200)+" "+amount(30)+" "+amount(200))
}

// TestOtherSource: a job that keeps none of its sources restarts event time. Records of the new
// source are therefore not late because the old one was further ahead.
func TestOtherSource(t *testing.T) {
	for _, from := range []string{"as it stands", "savepoint"} {
		t.Run(from, func(t *testing.T) {
			s, ctx := newRig(t, 1), context.Background()
			id := s.submit(countedOnce)
			s.keyed(3, 1000)
			s.keyed(1, 50_000)
			s.run()
			opts := []processing.RestoreOption{
				processing.ReplaceDefinition([]byte(strings.Replace(countedOnce, "{name: in, stream", "{name: other, stream", 1))),
				processing.DropState(),
			}
			if from == "savepoint" {
				sp, err := s.jobs.Savepoints(id).Create(ctx)
				if err != nil {
					t.Fatal(err)
				}
				s.run()
				opts = append(opts, processing.FromSavepoint(sp))
			}
			if _, err := s.jobs.Stop(ctx, id); err != nil {
				t.Fatal(err)
			}
			before := s.read("out")
			if _, err := s.jobs.Restore(ctx, id, opts...); err != nil {
				t.Fatal(err)
			}
			s.run()
			s.run()
			s.want("out", before+" "+before)
			if m := s.job(id).Metrics; m.Late != 0 || m.RecordsIn != 8 {
				t.Errorf("metrics %+v", m)
			}
		})
	}
}

// TestApply: Apply submits a job, changes the existing one or leaves it unchanged, and never drops
// state unless asked to.
func TestApply(t *testing.T) {
	s, ctx := newRig(t, 1), context.Background()
	apply := func(definition string, opts ...processing.RestoreOption) processing.Applied {
		t.Helper()
		done, err := s.jobs.Apply(ctx, []byte(definition), opts...)
		if err != nil {
			t.Fatalf("Apply: %v", err)
		}
		return done
	}
	plan := func(definition string) processing.Applied {
		t.Helper()
		would, err := s.jobs.PlanApply(ctx, []byte(definition))
		if err != nil {
			t.Fatalf("PlanApply: %v", err)
		}
		return would
	}
	if would := plan(filtered); !would.Made || would.Changed || would.Job != "" {
		t.Errorf("PlanApply without a job = %+v", would)
	}
	if _, err := s.jobs.Apply(ctx, []byte(filtered), processing.FromSavepoint("x")); !errors.Is(err, processing.ErrInvalid) {
		t.Errorf("Apply of a new job from a savepoint: %v", err)
	}
	first := apply(filtered)
	if !first.Made || first.Status != processing.Running {
		t.Errorf("Apply = %+v", first)
	}
	s.append("orders", amount(200), amount(20))
	s.run()
	if again := apply(filtered); again.Made || again.Changed || again.Job != first.Job {
		t.Errorf("Apply again = %+v", again)
	}
	if _, err := s.jobs.Apply(ctx, []byte(filtered), processing.FromSavepoint("x")); !errors.Is(err, processing.ErrConflict) {
		t.Errorf("Apply of the same definition from a savepoint: %v", err)
	}
	if would := plan(filtered); would.Made || would.Changed || would.Job != first.Job {
		t.Errorf("PlanApply of the same definition = %+v", would)
	}
	lower := strings.Replace(filtered, "amount>100", "amount>10", 1)
	if would := plan(lower); would.Made || !would.Changed || fmt.Sprint(would.Plan.Kept) != "[source orders]" {
		t.Errorf("PlanApply of another definition = %+v", would)
	}
	if done := apply(lower); done.Made || !done.Changed || done.Job != first.Job || fmt.Sprint(done.Plan.Kept) != "[source orders]" {
		t.Errorf("Apply of another definition = %+v", done)
	}
	s.append("orders", amount(30))
	s.run()
	s.want("large", amount(200)+" "+amount(30))
	renamed := strings.Replace(lower, "- name: orders", "- name: others", 1)
	if _, err := s.jobs.Apply(ctx, []byte(renamed)); !errors.Is(err, processing.ErrConflict) {
		t.Errorf("Apply that loses state: %v", err)
	}
	if j := s.job(first.Job); j.Status != processing.Running {
		t.Errorf("job %+v", j)
	}
	if would := plan(renamed); would.Made || !would.Changed || !would.Plan.Drops() {
		t.Errorf("PlanApply of a definition that loses state = %+v", would)
	}
	apply(renamed, processing.DropState())
	s.run()
	s.want("large", amount(200)+" "+amount(30)+" "+amount(200)+" "+amount(20)+" "+amount(30))
	s.submit(filtered)
	if _, err := s.jobs.Apply(ctx, []byte(filtered)); !errors.Is(err, processing.ErrConflict) {
		t.Errorf("Apply to one of two jobs: %v", err)
	}
}

// TestLatest: a source that begins at the latest gets all records appended after the submission,
// also those that arrive before the leader has looked.
func TestLatest(t *testing.T) {
	s := newRig(t, 1)
	s.append("orders", amount(200))
	s.submit(strings.Replace(filtered, "{ name: orders }", "{ name: orders, start: latest }", 1))
	s.append("orders", amount(300))
	s.run()
	s.append("orders", amount(400))
	s.run()
	s.want("large", amount(300)+" "+amount(400))
}

// TestStopAtEnd: a bounded job is completed when it has read the records that existed when it was
// submitted.
func TestStopAtEnd(t *testing.T) {
	s, ctx := newRig(t, 1), context.Background()
	s.append("orders", amount(200), amount(300))
	id := s.submit(strings.Replace(filtered, "name: big\n", "name: big\nstop_at: latest\n", 1))
	s.append("orders", amount(400))
	s.run()
	s.want("large", amount(200)+" "+amount(300))
	if j := s.job(id); j.Status != processing.Completed || j.Metrics.RecordsIn != 2 || j.EndedAt.IsZero() {
		t.Errorf("job %+v", j)
	}
	if _, err := s.jobs.Stop(ctx, id); !errors.Is(err, processing.ErrConflict) {
		t.Errorf("Stop of a job that is completed: %v", err)
	}
}

// together is a door that holds back submissions until all calls have reached theirs: each has seen
// no job.
type together struct {
	engine.Door
	calls sync.WaitGroup
}

// Propose forwards a command.
func (d *together) Propose(ctx context.Context, shard engine.ShardID, cmd engine.Command) ([]byte, error) {
	if cmd.Machine == engine.MachineProcessing && cmd.Kind == processing.KindSubmit {
		d.calls.Done()
		d.calls.Wait()
	}
	return d.Door.Propose(ctx, shard, cmd)
}

// TestApplyAtOnce: of several concurrent calls that have all seen no job, one submits it, and the
// others find it. The same holds when they change a job.
func TestApplyAtOnce(t *testing.T) {
	s, ctx := newSpread(t, 3), context.Background()
	door := &together{Door: s.Rig}
	door.calls.Add(20)
	s.jobs = engine.StoreOf[processing.Store](engine.NewRouter(door), "n", 1<<20)
	for _, definition := range []string{filtered, strings.Replace(filtered, "amount>100", "amount>10", 1)} {
		var calls sync.WaitGroup
		made, changed := atomic.Int32{}, atomic.Int32{}
		jobs := sync.Map{}
		for range 20 {
			calls.Go(func() {
				done, err := s.jobs.Apply(ctx, []byte(definition))
				if err != nil || done.Status != processing.Running {
					t.Errorf("Apply = %+v, %v", done, err)
				}
				if jobs.Store(done.Job, true); done.Made {
					made.Add(1)
				}
				if done.Changed {
					changed.Add(1)
				}
			})
		}
		calls.Wait()
		n := 0
		jobs.Range(func(any, any) bool { n++; return true })
		if n != 1 || made.Load()+changed.Load() < 1 || made.Load() > 1 {
			t.Errorf("%d jobs, made %d times, changed %d times", n, made.Load(), changed.Load())
		}
	}
}

// TestPlanNotes: a plan notes when a kept source has a different event time.
func TestPlanNotes(t *testing.T) {
	s, ctx := newRig(t, 1), context.Background()
	id := s.submit(filtered)
	timed := strings.Replace(filtered, "stream: { name: orders }", "stream: { name: orders }\n    event_time: $.at", 1)
	p, err := s.jobs.Plan(ctx, id, processing.ReplaceDefinition([]byte(timed)))
	if err != nil || len(p.Notes) != 1 || !strings.Contains(p.Notes[0],
		"source orders: event_time was the time of the append and is $.at") {
		t.Errorf("Plan = %+v, %v", p, err)
	}
	if p, err = s.jobs.Plan(ctx, id, processing.ReplaceDefinition([]byte(filtered))); err != nil || len(p.Notes) != 0 {
		t.Errorf("Plan = %+v, %v", p, err)
	}
}

// TestBackfillInParts: old records that arrive in parts, with pauses in between, are late only for
// windows that have fired, however far the clock advances meanwhile.
func TestBackfillInParts(t *testing.T) {
	s, ctx := newRig(t, 1), context.Background()
	s.append("in", `{"t":1000}`, `{"t":11000}`)
	s.Advance(3_600_000) // they were appended long before they are read
	id := s.submit(`
name: back
sources: [{ name: in, event_time: $.t, stream: { name: in }, watermark: { max_out_of_orderness_ms: 0, idle_timeout_ms: 1000 } }]
operators: [{ name: w, type: aggregate, function: count, window: tumbling, window_size: 10 }]
sinks: [{ name: out, stream: { name: out } }]
`)
	s.run()
	s.Advance(60_000)
	s.append("in", `{"t":21000}`, `{"t":29000}`)
	s.run()
	if _, err := s.jobs.Stop(ctx, id); err != nil {
		t.Fatal(err)
	}
	s.Advance(3_600_000)
	if _, err := s.jobs.Restore(ctx, id); err != nil {
		t.Fatal(err)
	}
	s.run()
	s.append("in", `{"t":31000}`)
	s.Advance(60_000)
	if m := s.job(id).Metrics; m.Late != 0 || strings.Count(s.read("out"), `"count"`) != 4 {
		t.Errorf("late %d, windows %s", m.Late, s.read("out"))
	}
}

// TestSubmitUnlessThere: the submission of Apply is refused if another call has submitted a job of
// the name since Apply looked. Cancelled jobs do not count.
func TestSubmitUnlessThere(t *testing.T) {
	s, ctx := newSpread(t, 3), context.Background()
	for range 2 {
		made, err := s.jobs.SubmitOnly(ctx, []byte(filtered))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.jobs.SubmitOnly(ctx, []byte(filtered)); !errors.Is(err, processing.ErrConflict) ||
			!strings.Contains(err.Error(), string(made.Job)) {
			t.Errorf("a second job of the name: %v", err)
		}
		if done, err := s.jobs.Apply(ctx, []byte(filtered)); err != nil || done.Made || done.Job != made.Job {
			t.Errorf("Apply = %+v, %v", done, err)
		}
		if _, err := s.jobs.Cancel(ctx, made.Job); err != nil {
			t.Fatal(err)
		}
	}
}
