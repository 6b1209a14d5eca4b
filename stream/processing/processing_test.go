package processing_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
)

// TestPipeline: records go from a stream through a filter to another stream, once; a stopped job
// reads nothing, and resumes where it was.
func TestPipeline(t *testing.T) {
	s, ctx := newRig(t, 1), context.Background()
	s.append("orders", amount(5), amount(500))
	id := s.submit(filtered)
	s.run()
	s.want("large", amount(500))
	s.append("orders", amount(7), amount(101), amount(100))
	s.run()
	s.want("large", amount(500)+" "+amount(101))
	j := s.job(id)
	if m := j.Metrics; j.Status != processing.Running || m.RecordsIn != 5 || m.RecordsOut != 2 || m.Errors != 0 {
		t.Errorf("job %+v", j)
	}
	if status, err := s.jobs.Stop(ctx, id); status != processing.Stopped || err != nil {
		t.Fatalf("Stop = %v, %v", status, err)
	}
	s.append("orders", amount(1000))
	s.run()
	s.want("large", amount(500)+" "+amount(101))
	if status, err := s.jobs.Stop(ctx, id); status != processing.Stopped || err != nil {
		t.Errorf("Stop again = %v, %v", status, err)
	}
	if _, err := s.jobs.Restore(ctx, id); err != nil {
		t.Fatalf("Restore: %v", err)
	}
	s.run()
	s.want("large", amount(500)+" "+amount(101)+" "+amount(1000))
	s.Restart()
	s.append("orders", amount(2000))
	s.run()
	s.want("large", amount(500)+" "+amount(101)+" "+amount(1000)+" "+amount(2000))
	if status, err := s.jobs.Cancel(ctx, id); status != processing.Cancelled || err != nil {
		t.Fatalf("Cancel = %v, %v", status, err)
	}
	if _, err := s.jobs.Stop(ctx, id); !errors.Is(err, processing.ErrConflict) {
		t.Errorf("Stop of a cancelled job: %v", err)
	}
	if _, err := s.jobs.Restore(ctx, id); !errors.Is(err, processing.ErrConflict) {
		t.Errorf("Restore of a cancelled job: %v", err)
	}
	s.append("orders", amount(3000))
	s.run()
	if got := s.read("large"); strings.Contains(got, "3000") {
		t.Errorf("a cancelled job writes: %q", got)
	}
	s.Advance(8 * 24 * 3600 * 1000)
	if _, err := s.jobs.Get(ctx, id); !errors.Is(err, processing.ErrNotFound) {
		t.Errorf("Job after a week: %v", err)
	}
}

// TestSavepoint: a job restored from a savepoint continues from there, and writes the later output
// again.
func TestSavepoint(t *testing.T) {
	s, ctx := newRig(t, 1), context.Background()
	id := s.submit(filtered)
	s.append("orders", amount(200))
	s.run()
	sp, err := s.jobs.Savepoints(id).Create(ctx)
	if err != nil {
		t.Fatalf("Savepoint: %v", err)
	}
	s.run()
	got, err := s.jobs.AwaitSavepoint(ctx, id, sp)
	if err != nil || !got.Complete || got.RecordsProcessed != 1 {
		t.Fatalf("AwaitSavepoint = %+v, %v", got, err)
	}
	s.append("orders", amount(300))
	s.run()
	if _, err := s.jobs.Restore(ctx, id, processing.FromSavepoint(sp)); !errors.Is(err, processing.ErrConflict) {
		t.Errorf("Restore of a job that runs: %v", err)
	}
	if _, err := s.jobs.Stop(ctx, id); err != nil {
		t.Fatal(err)
	}
	if _, err := s.jobs.Restore(ctx, id, processing.FromSavepoint(sp)); err != nil {
		t.Fatalf("Restore: %v", err)
	}
	s.run()
	s.run()
	s.want("large", amount(200)+" "+amount(300)+" "+amount(300))
	if j := s.job(id); j.Status != processing.Running || j.Metrics.RecordsIn != 3 {
		t.Errorf("job %+v", j)
	}
}

// TestSourceAgain: a source that is deleted and recreated ends the job; a trimmed one is read from
// its oldest record on, and the gap is reported.
func TestSourceAgain(t *testing.T) {
	s, ctx := newRig(t, 1), context.Background()
	id := s.submit(filtered)
	s.append("orders", amount(200))
	s.run()
	if _, err := s.jobs.Stop(ctx, id); err != nil {
		t.Fatal(err)
	}
	s.append("orders", amount(201), amount(202), amount(203))
	if _, err := s.streams.Trim(ctx, "orders", stream.MaxLen(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.jobs.Restore(ctx, id); err != nil {
		t.Fatal(err)
	}
	s.run()
	s.want("large", amount(200)+" "+amount(203))
	if m := s.job(id).Metrics; m.Missed != 2 || m.Errors != 1 {
		t.Errorf("missed %d, errors %d", m.Missed, m.Errors)
	}
	recs, err := s.streams.Read(ctx, processing.ErrorStream("big"))
	if err != nil || len(recs) != 1 || !strings.Contains(recs[0].Headers["floe-error"], "2 records") {
		t.Errorf("errors: %+v, %v", recs, err)
	}
	if err := s.streams.Delete(ctx, "orders", stream.Force()); err != nil {
		t.Fatal(err)
	}
	s.append("orders", amount(999))
	s.run()
	if j := s.job(id); j.Status != processing.Failed || !strings.Contains(j.Reason, "made again") {
		t.Errorf("job %v: %s", j.Status, j.Reason)
	}
	s.want("large", amount(200)+" "+amount(203))
	if _, err := s.jobs.Restore(ctx, id, processing.RestartSource("other")); !errors.Is(err, processing.ErrInvalid) {
		t.Errorf("RestartSource of none: %v", err)
	}
	if p, err := s.jobs.Plan(ctx, id, processing.RestartSource("orders")); err != nil || p.Drops() ||
		fmt.Sprint(p.New) != "[source orders]" {
		t.Errorf("Plan = %+v, %v", p, err)
	}
	if status, err := s.jobs.Restore(ctx, id, processing.RestartSource("orders")); err != nil || status != processing.Running {
		t.Fatalf("Restore = %v, %v", status, err)
	}
	s.append("orders", amount(300))
	s.run()
	s.want("large", amount(200)+" "+amount(203)+" "+amount(999)+" "+amount(300))
	if j := s.job(id); j.Status != processing.Running || j.Metrics.RecordsIn != 4 {
		t.Errorf("job %+v", j)
	}
}

// TestStartOfASource: a new job reads a stream from its beginning, from its end, or after the
// record of an id, which need not exist.
func TestStartOfASource(t *testing.T) {
	s, ctx := newRig(t, 1), t.Context()
	var all []string
	for i := range 3 {
		all = append(all, amount(200+i))
		s.append("orders", all[i])
		s.Pass(10)
	}
	recs, err := s.streams.Read(ctx, "orders")
	if err != nil || len(recs) != 3 {
		t.Fatalf("%d records, %v", len(recs), err)
	}
	second := recs[1].ID
	starts := map[string]int{ // the first record that is read
		"earliest": 0, "latest": 3, second.String(): 2, stream.ID{Millis: second.Millis - 1}.String(): 1, "1-0": 0,
		stream.ID{Millis: second.Millis, Seq: second.Seq + 1}.String(): 2, recs[2].ID.String(): 3, fmt.Sprint(s.Now(), "-0"): 3,
	}
	for start := range starts {
		s.submit(strings.NewReplacer("name: big", "name: x", "{ name: orders }", "{ name: orders, start: "+start+" }",
			"name: large", "name: out"+start).Replace(filtered))
	}
	s.run()
	all = append(all, amount(300))
	s.append("orders", all[3])
	s.run()
	for start, first := range starts {
		s.want("out"+start, strings.Join(all[first:], " "))
	}
}
