package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
	"github.com/floedb/floe/ts"
	"github.com/floedb/floe/workflow"
)

// TestAtOnce: a call's changes in a spread namespace are visible in all its shards when it returns.
// Each case immediately makes a dependent call, in any shard.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	calls := map[string]func(ctx context.Context, db database, n int) error{
		"action deleted": atOnceDeleted, "action disabled": atOnceDisabled, "action in a transaction": atOnceInTxn,
		"workflow": atOnceWorkflow, "trigger": atOnceTrigger,
		"stream": atOnceStream, "group": atOnceGroup, "job": atOnceJob, "measurement": atOnceMeasurement,
	}
	for kind, tries := range map[string]int{"memory": 20, "client of a cluster": 6} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			db := databases[kind](t)
			for name, try := range calls {
				t.Run(name, func(t *testing.T) {
					if err := db.Namespaces().Create(t.Context(), wide, floe.Spread()); err != nil && !errors.Is(err, floe.ErrExists) {
						t.Fatal(err)
					}
					ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
					defer stop()
					for n := range tries {
						if err := try(ctx, db, n); err != nil {
							t.Fatalf("try %d: %v", n, err)
						}
					}
				})
			}
		})
	}
}

const wide = "wide"

// refusedAs reports that an error is not the one wanted.
func refusedAs(what string, err, want error) error {
	if errors.Is(err, want) {
		return nil
	}
	return fmt.Errorf("%s: %v, want %v", what, err, want)
}

func atOnceDeleted(ctx context.Context, db database, n int) error {
	s, name := db.Action(wide), fmt.Sprint("deleted ", n)
	if _, err := s.Register(ctx, name); err != nil {
		return err
	}
	key := action.IdempotencyKey("k")
	old, err := s.Invoke(ctx, name, nil, key)
	if err != nil {
		return err
	}
	for range 4 {
		if _, err := s.Invoke(ctx, name, nil); err != nil {
			return err
		}
	}
	if err := s.Delete(ctx, name, action.Force()); err != nil {
		return err
	}
	for range 4 {
		_, err := s.Invoke(ctx, name, nil)
		if err := refusedAs("Invoke of a deleted action", err, floe.ErrNotFound); err != nil {
			return err
		}
	}
	if _, err := s.Register(ctx, name); err != nil {
		return err
	}
	invoked, err := s.Invoke(ctx, name, nil, key)
	if err != nil || invoked.Duplicate {
		return fmt.Errorf("Invoke with the key of a deleted run, %s: %+v, %w", old.Run, invoked, err)
	}
	runs := []action.RunID{invoked.Run}
	for range 8 {
		i, err := s.Invoke(ctx, name, nil)
		if err != nil {
			return err
		}
		runs = append(runs, i.Run)
	}
	for _, id := range runs {
		if r, err := s.Runs().Get(ctx, id); err != nil || r.Status != action.Pending {
			return fmt.Errorf("run %s is gone: %+v, %w", id, r, err)
		}
	}
	return nil
}

func atOnceDisabled(ctx context.Context, db database, n int) error {
	s, name := db.Action(wide), fmt.Sprint("disabled ", n)
	if _, err := s.Register(ctx, name); err != nil {
		return err
	}
	if err := s.Disable(ctx, name); err != nil {
		return err
	}
	for range 4 {
		_, err := s.Invoke(ctx, name, nil)
		if err := refusedAs("Invoke of a disabled action", err, floe.ErrConflict); err != nil {
			return err
		}
	}
	if err := s.Enable(ctx, name); err != nil {
		return err
	}
	for range 4 {
		if _, err := s.Invoke(ctx, name, nil); err != nil {
			return err
		}
	}
	return nil
}

func atOnceInTxn(ctx context.Context, db database, n int) error {
	s := db.Action(wide)
	name := fmt.Sprint("in a transaction ", n)
	if _, err := s.Register(ctx, name); err != nil {
		return err
	}
	for k := range 4 {
		op := action.InvokeOp(name, nil, action.IdempotencyKey(fmt.Sprint("k", k)))
		if _, err := db.Txn(wide).Do(op).Commit(ctx); err != nil {
			return err
		}
	}
	return nil
}

func atOnceWorkflow(ctx context.Context, db database, n int) error {
	s, name := db.Workflow(wide), fmt.Sprint("flow-", n)
	definition := fmt.Sprintf(waitingFlow, name, "")
	for _, force := range []bool{false, true} {
		if _, err := s.Create(ctx, []byte(definition)); err != nil {
			return err
		}
		var runs []workflow.RunID
		for k := range 4 {
			r, err := s.Start(ctx, name, nil, workflow.IdempotencyKey(fmt.Sprint(k)))
			if err != nil || r.Duplicate {
				return fmt.Errorf("Start: %+v, %w", r, err)
			}
			runs = append(runs, r.Run)
		}
		if force {
			return nil
		}
		if err := s.Disable(ctx, name); err != nil {
			return err
		}
		for range 4 {
			_, err := s.Start(ctx, name, nil)
			if err := refusedAs("Start of a disabled workflow", err, floe.ErrConflict); err != nil {
				return err
			}
		}
		if err := s.Enable(ctx, name); err != nil {
			return err
		}
		if _, err := s.Start(ctx, name, nil); err != nil {
			return err
		}
		if err := s.Delete(ctx, name, workflow.Force()); err != nil {
			return err
		}
		for range 4 {
			_, err := s.Start(ctx, name, nil)
			if err := refusedAs("Start of a deleted workflow", err, floe.ErrNotFound); err != nil {
				return err
			}
		}
		for _, id := range runs {
			if r, err := s.Runs().Get(ctx, id); err != nil || r.Status.Final() {
				return fmt.Errorf("run %s of a workflow that was deleted by force: %+v, %w", id, r, err)
			}
		}
	}
	return nil
}

// waitingFlow is a workflow that waits, with placeholders for its name and more lines.
const waitingFlow = `name: %s
%s
start: { wait_for_signal: never, transitions: { success: flo.Completed } }
`

func atOnceTrigger(ctx context.Context, db database, n int) error {
	records, s := db.Stream(wide), db.Workflow(wide)
	from, name := fmt.Sprint("triggering ", n), fmt.Sprint("triggered-", n)
	if err := records.Create(ctx, from, stream.Partitions(8)); err != nil {
		return err
	}
	trigger := fmt.Sprintf("trigger: { stream: %q, start: latest, batch_size: 1 }", from)
	for range 2 { // the second time it is created anew
		if _, err := s.Create(ctx, fmt.Appendf(nil, waitingFlow, name, trigger)); err != nil {
			return err
		}
		const most = 16
		for k := range most {
			if _, err := records.Append(ctx, from, stream.Message{Key: fmt.Sprint(k), Payload: []byte("{}")}); err != nil {
				return err
			}
		}
		for {
			info, err := s.Get(ctx, name)
			if err != nil {
				return fmt.Errorf("%d records have started %+v: %w", most, info.Trigger, err)
			}
			if info.Trigger.Started == most {
				break
			}
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
				return fmt.Errorf("%d records have started %+v: %w", most, info.Trigger, ctx.Err())
			}
		}
		if err := s.Delete(ctx, name, workflow.Force()); err != nil {
			return err
		}
	}
	return nil
}

func atOnceStream(ctx context.Context, db database, n int) error {
	s, name := db.Stream(wide), fmt.Sprint("stream ", n)
	for partitions := 8; partitions > 0; partitions -= 4 {
		if err := s.Create(ctx, name, stream.Partitions(partitions)); err != nil {
			return err
		}
		for k := range 8 {
			a, err := s.Append(ctx, name, stream.Message{Key: fmt.Sprint(k)})
			if err != nil || a.Partition >= partitions {
				return fmt.Errorf("Append: %+v, %w", a, err)
			}
		}
		for p := range partitions {
			if _, err := s.Append(ctx, name, stream.Message{}, stream.Partition(p)); err != nil {
				return err
			}
		}
		recs, err := s.Read(ctx, name, stream.Limit(100))
		if err != nil || len(recs) != 8+partitions {
			return fmt.Errorf("Read returned %d of %d records: %w", len(recs), 8+partitions, err)
		}
		if err := s.Delete(ctx, name, stream.Force()); err != nil {
			return err
		}
		_, err = s.Read(ctx, name)
		if err := refusedAs("Read of a deleted stream", err, floe.ErrNotFound); err != nil {
			return err
		}
	}
	return nil
}

func atOnceGroup(ctx context.Context, db database, n int) error {
	s, name := db.Stream(wide), fmt.Sprint("grouped ", n)
	if err := s.Create(ctx, name, stream.Partitions(8)); err != nil {
		return err
	}
	for range 2 {
		for k := range 16 {
			if _, err := s.Append(ctx, name, stream.Message{Key: fmt.Sprint("before", k)}); err != nil {
				return err
			}
		}
		if err := s.Groups(name).Create(ctx, "g", stream.FromEnd()); err != nil {
			return err
		}
		for k := range 16 {
			if _, err := s.Append(ctx, name, stream.Message{Key: fmt.Sprint("after", k)}); err != nil {
				return err
			}
		}
		read := func() (int, error) {
			all := 0
			for {
				got, err := s.ReadGroup(ctx, name, "g", "c", stream.Limit(100))
				if err != nil || len(got) == 0 {
					return all, err
				}
				all += len(got)
			}
		}
		if got, err := read(); err != nil || got != 16 {
			return fmt.Errorf("a group from the end on read %d of 16 records: %w", got, err)
		}
		if err := s.Seek(ctx, name, "g", stream.FromBeginning()); err != nil {
			return err
		}
		if got, err := read(); err != nil || got < 32 {
			return fmt.Errorf("a group that was moved to the beginning read %d of 32 records: %w", got, err)
		}
		if err := s.Groups(name).Delete(ctx, "g"); err != nil {
			return err
		}
		_, err := s.Groups(name).Get(ctx, "g")
		if err := refusedAs("GroupStats of a deleted group", err, floe.ErrNotFound); err != nil {
			return err
		}
	}
	return nil
}

func atOnceJob(ctx context.Context, db database, n int) error {
	records, jobs := db.Stream(wide), db.Processing(wide)
	from, to := fmt.Sprint("in ", n), fmt.Sprint("out ", n)
	for _, name := range []string{from, to} {
		if err := records.Create(ctx, name, stream.Partitions(8)); err != nil {
			return err
		}
	}
	definition := fmt.Sprintf(`
kind: Processing
name: job-%d
sources:
  - { name: in, stream: { name: %q, start: latest } }
sinks:
  - { name: out, stream: { name: %q } }
`, n, from, to)
	for k := range 16 {
		if _, err := records.Append(ctx, from, stream.Message{Key: fmt.Sprint("before", k), Payload: []byte("{}")}); err != nil {
			return err
		}
	}
	j, err := jobs.Submit(ctx, []byte(definition))
	if err != nil {
		return err
	}
	for k := range 16 {
		if _, err := records.Append(ctx, from, stream.Message{Key: fmt.Sprint(k), Payload: []byte("{}")}); err != nil {
			return err
		}
	}
	for {
		job, err := jobs.Get(ctx, j.Job)
		if err != nil {
			return err
		}
		if job.Metrics.RecordsIn == 16 {
			break
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("a job that begins at the end has read %d of 16 records", job.Metrics.RecordsIn)
		}
	}
	status, err := jobs.Cancel(ctx, j.Job)
	if err != nil || status != processing.Cancelled {
		return fmt.Errorf("Cancel: %s, %w", status, err)
	}
	return nil
}

func atOnceMeasurement(ctx context.Context, db database, n int) error {
	s, name, now := db.TS(wide), fmt.Sprint("measured ", n), time.Now()
	write := func(at time.Time) error {
		for k := range 8 {
			if _, err := s.Write(ctx, ts.Point{Measurement: name, Tags: map[string]string{"k": fmt.Sprint(k)},
				Fields: map[string]float64{"v": 1}, Time: at}); err != nil {
				return err
			}
		}
		return nil
	}
	count := func() (all int, err error) {
		for _, err := range s.Read(ctx, name, "v") {
			if err != nil {
				return all, err
			}
			all++
		}
		return all, nil
	}
	for range 2 {
		if err := write(now); err != nil {
			return err
		}
		if got, err := count(); err != nil || got != 8 {
			return fmt.Errorf("%d of 8 points: %w", got, err)
		}
		if err := s.Delete(ctx, name); err != nil {
			return err
		}
		if got, err := count(); got != 0 || err != nil && !errors.Is(err, floe.ErrNotFound) {
			return fmt.Errorf("%d points of a deleted measurement: %w", got, err)
		}
	}
	if err := s.SetRetention(ctx, name, ts.Retention{RawTTL: time.Hour}); err != nil {
		return err
	}
	_ = write(now.Add(-2 * time.Hour))
	if got, err := count(); got != 0 || err != nil && !errors.Is(err, floe.ErrNotFound) {
		return fmt.Errorf("%d points that are older than the retention: %w", got, err)
	}
	return nil
}
