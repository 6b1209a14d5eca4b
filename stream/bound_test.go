package stream_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
)

// Number and size of the records that have used up their attempts.
const usedUp, usedUpBytes = 100, 256 << 10

// usedUpRecords leaves records pending with one consumer, on their last attempt.
func usedUpRecords(t *testing.T, mode stream.Mode) (*machinetest.Rig, *stream.Store, []stream.Delivery) {
	t.Helper()
	r := machinetest.New(t, 1, engine.TableOf[stream.Store]())
	s := engine.StoreOf[stream.Store](r.Router(), "default", 1<<20)
	ctx := t.Context()
	for i := range usedUp {
		msg := stream.Message{Key: fmt.Sprint(i), Payload: bytes.Repeat([]byte{byte(i)}, usedUpBytes)}
		if _, err := s.Append(ctx, "jobs", msg); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Groups("jobs").Create(ctx, "workers", stream.MaxAttempts(1), stream.InMode(mode)); err != nil {
		t.Fatal(err)
	}
	var all []stream.Delivery
	for len(all) < usedUp {
		ds, err := s.ReadGroup(ctx, "jobs", "workers", "one")
		if err != nil || len(ds) == 0 {
			t.Fatalf("ReadGroup after %d records: %d records, %v", len(all), len(ds), err)
		}
		all = append(all, ds...)
	}
	return r, s, all
}

// TestUsedUpRecordsAreBuriedInParts: if many records become dead letters together, because their
// consumer returns them or was silent for too long, they are moved in parts. None is lost or moved
// twice.
func TestUsedUpRecordsAreBuriedInParts(t *testing.T) {
	// Each way of ending runs with another mode. Map order pairs them anew in each run; the names
	// show the pair.
	modes := []stream.Mode{stream.Shared, stream.KeyShared, stream.Exclusive}
	for name, end := range map[string]func(context.Context, *machinetest.Rig, *stream.Store, []stream.Delivery) error{
		"gone": func(ctx context.Context, r *machinetest.Rig, s *stream.Store, ds []stream.Delivery) error {
			_, err := s.ExtendMany(ctx, "jobs", "workers", stream.RefsOf(ds), time.Hour)
			r.Advance(600_000)
			return err
		},
		"nack": func(ctx context.Context, _ *machinetest.Rig, s *stream.Store, ds []stream.Delivery) error {
			_, err := s.Nack(ctx, "jobs", "workers", stream.RefsOf(ds))
			return err
		},
		"silence": func(_ context.Context, r *machinetest.Rig, _ *stream.Store, _ []stream.Delivery) error {
			r.Advance(3_600_000)
			return nil
		},
	} {
		mode := modes[0]
		modes = modes[1:]
		t.Run(name+" "+mode.String(), func(t *testing.T) {
			r, s, ds := usedUpRecords(t, mode)
			if err := end(t.Context(), r, s, ds); err != nil {
				t.Fatal(err)
			}
			if name == "nack" {
				first, err := s.Get(t.Context(), stream.DeadLetters("jobs"))
				if err != nil || first.Records() == 0 || first.Records() > 20 {
					t.Errorf("%d records were moved at once, %v", first.Records(), err)
				}
			}
			if fires := r.Fire(); name == "nack" && fires < 4 {
				t.Errorf("%d timers moved the others", fires)
			}
			last, err := s.Get(t.Context(), stream.DeadLetters("jobs"))
			if err != nil || last.Records() != usedUp {
				t.Errorf("%d dead letters, %v, want %d", last.Records(), err, usedUp)
			}
			pending, err := s.Groups("jobs").Get(t.Context(), "workers")
			if err != nil || pending.Pending() != 0 {
				t.Errorf("%d records are pending, %v", pending.Pending(), err)
			}
			paces := 0
			r.Replay(func() int { paces++; return paces % 5 }, func() bool { return paces%3 == 0 })
		})
	}
}

// TestSizeOfADelivery: a consumer receives records of up to 8 MiB together, and a larger one alone.
// The same applies to redeliveries.
func TestSizeOfADelivery(t *testing.T) {
	const mib = 1 << 20
	for i, c := range []struct {
		mode   stream.Mode
		sizes  []int // of the records of partition 0, then of partition 1
		second int   // number of records in partition 1
		want   int   // number of records in one delivery
	}{
		{stream.Shared, []int{4 * mib, 4 * mib, 2}, 0, 2},
		{stream.KeyShared, []int{4 * mib, 4 * mib, 2}, 0, 2},
		{stream.KeyShared, []int{4 * mib, 4*mib + 1, 2}, 0, 1},
		{stream.Shared, []int{4 * mib, 4*mib + 1, 2}, 0, 1},
		{stream.Shared, []int{4 * mib, 4*mib - 2, 2, 2}, 0, 3},
		{stream.KeyShared, []int{9 * mib, 2}, 1, 1},
		{stream.Shared, []int{9 * mib, 2}, 0, 1},
		{stream.Shared, []int{5 * mib, 2 * mib, 2}, 2, 3},
	} {
		r := machinetest.New(t, 1, engine.TableOf[stream.Store]())
		s := engine.StoreOf[stream.Store](r.Router(), "n", 16*mib)
		create(t, s, "log", stream.Partitions(2))
		for j, size := range c.sizes {
			p := stream.Partition(min(max(j-len(c.sizes)+c.second+1, 0), 1))
			// A record is its payload and two bytes.
			if _, err := s.Append(t.Context(), "log", stream.Message{Payload: make([]byte, size-2)}, p); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Groups("log").Create(t.Context(), "g", stream.InMode(c.mode), stream.Backoff(0, 0)); err != nil {
			t.Fatal(err)
		}
		for attempt := 1; attempt <= 2; attempt++ {
			res, err := r.Txn("n").Do(stream.ReadGroupOp("log", "g", "c")).Commit(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			refs := res.Values[0].([]stream.Ref)
			if len(refs) != c.want || refs[0].Attempt != attempt {
				t.Errorf("case %d: received %v, want %d as attempt %d", i, refs, c.want, attempt)
			}
			if n, err := s.Nack(t.Context(), "log", "g", refs); err != nil || n != len(refs) {
				t.Errorf("case %d: refused %d of %d records, %v", i, n, len(refs), err)
			}
		}
	}
}
