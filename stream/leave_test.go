package stream_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
)

// TestLeaveDoesNotCount: five clean stops used to dead-letter a record that no consumer had worked
// on. Records that a consumer leaves untouched lose no attempt. Records that it refuses, or loses
// by silence or a missed deadline, do.
func TestLeaveDoesNotCount(t *testing.T) {
	for mode := stream.Shared; mode <= stream.KeyShared; mode++ {
		for _, spread := range []bool{false, true} {
			t.Run(fmt.Sprint(mode, " spread ", spread), func(t *testing.T) {
				r, s := newStore(t)
				if spread {
					r, s = newSpread(t, 3)
				}
				create(t, s, "log", stream.Partitions(3))
				for i := range 6 {
					keyed(t, s, fmt.Sprintf("k%d:1", i))
				}
				a, b := consumers(t, s, mode, stream.Backoff(time.Second, time.Hour), stream.MaxAttempts(2))
				for i := range 8 {
					c := []consumer{a, b}[i%2]
					ds, got := c.read()
					if len(ds) != 6 || ds[0].Attempt != i+1 {
						t.Fatalf("read %d got %q, want all as attempt %d", i, got, i+1)
					}
					c.leave()
					c.leave()
					if n, err := s.Ack(t.Context(), "log", "g"); n != 0 || err != nil {
						t.Errorf("Ack of nothing = %d, %v", n, err)
					}
				}
				ds, _ := a.read()
				a.nack(ds, stream.Reason("no"))
				a.want("")
				r.Advance(1000) // the first attempt that counts: the shortest back-off
				ds, _ = a.read()
				if len(ds) != 6 || ds[0].Attempt != 10 {
					t.Fatalf("got %q, want all as attempt 10", deliveries(ds))
				}
				a.ack(1, ds[0])
				r.Advance(90_000)
				dead, err := s.Get(t.Context(), "log.dlq")
				if err != nil || dead.Records() != 5 {
					t.Errorf("%d dead letters, %v, want 5", dead.Records(), err)
				}
				replayed(r)
			})
		}
	}
}

// TestLeaveReturnsDeliveriesAtOnce: the other consumers can claim the records of a leaving consumer
// in the same order. Of its late calls only an acknowledgement has an effect.
func TestLeaveReturnsDeliveriesAtOnce(t *testing.T) {
	r, s := newStore(t)
	keyed(t, s, "x:1", "x:2", "y:1", "x:3")
	a, b := consumers(t, s, stream.KeyShared)
	had := a.want("x:1 x:2 y:1 x:3")
	a.leave()
	for _, d := range had {
		if n, err := s.Nack(t.Context(), "log", "g", []stream.Ref{d.Ref()}); n != 0 || err != nil {
			t.Errorf("Nack of %s by who has left = %d, %v", d.Payload, n, err)
		}
	}
	a.ack(0, had[1]) // x:1 is not acknowledged
	a.ack(1, had[2])
	if _, err := r.Txn("n").Do(stream.AckOp("log", "g", had[0].Ref())).Commit(t.Context()); err == nil {
		t.Error("a transaction acknowledged for one who has left")
	}
	b.ack(3, b.want("x:1#2 x:2#2 x:3#2")...)
}

// manyPending leaves the given number of records pending with consumer a of group g, in deliveries
// of several sizes.
func manyPending(t *testing.T, mode stream.Mode, pending int) (*machinetest.Rig, *stream.Store, consumer, consumer) {
	t.Helper()
	r, s := newStore(t)
	create(t, s, "log", stream.Partitions(2))
	msgs := make([]stream.Message, 500)
	for n := 0; n < pending; n += len(msgs) {
		for i := range msgs {
			msgs[i] = stream.Message{Key: fmt.Sprint("k", n+i), Payload: fmt.Append(nil, n+i)}
		}
		if _, err := s.AppendMany(t.Context(), "log", msgs); err != nil {
			t.Fatal(err)
		}
	}
	a, b := consumers(t, s, mode, stream.Backoff(0, 0), stream.AckTimeout(time.Hour))
	for n := 0; n < pending; {
		ds, _ := a.read(stream.Limit([]int{1, 7, 90, 900}[n%4]))
		if n += len(ds); len(ds) == 0 {
			t.Fatalf("a got %d of %d records", n, pending)
		}
	}
	return r, s, a, b
}

// heldBy returns the number of records that consumers hold.
func heldBy(t *testing.T, s *stream.Store) (n int) {
	t.Helper()
	for p, err := range s.Pending("log", "g").All(t.Context(), stream.Limit(1000)) {
		if err != nil {
			t.Fatal(err)
		}
		if p.Consumer != "" {
			n++
		}
	}
	return n
}

// TestLeaveWithVeryMuchIsDoneInParts: a consumer that leaves or is gone with more records than a
// command should write does not block its shard for long. Every command in between sees it gone.
func TestLeaveWithVeryMuchIsDoneInParts(t *testing.T) {
	const pending = 6000
	for mode := stream.Shared; mode <= stream.KeyShared; mode++ {
		t.Run(mode.String(), func(t *testing.T) {
			r, s, a, b := manyPending(t, mode, pending)
			if n := heldBy(t, s); n != pending {
				t.Fatalf("a has %d records, want %d", n, pending)
			}
			more := 0
			if mode == stream.Shared {
				keyed(t, s, "x:1", "x:2", "x:3")
				ds, _ := b.read()
				more = len(ds)
			}
			// Records not returned at once no longer belong to the leaver. Another consumer that
			// leaves meanwhile returns its records as well.
			last := stream.Ref{Partition: 1, Offset: pending/2 - 3}
			rows := len(r.Rows(0))
			res, err := r.Txn("n").Do(
				stream.LeaveOp("log", "g", "a"), stream.NackOp("log", "g", []stream.Ref{last}), stream.ExtendOp("log", "g",
					[]stream.Ref{last}, time.Hour), stream.LeaveOp("log", "g", "b"),
			).Commit(t.Context())
			if err != nil || res.Values[1] != 0 || res.Values[2] != (stream.Extended{}) {
				t.Fatalf("who has left nacks or extends: %+v, %v", res, err)
			}
			if written := len(r.Rows(0)) - rows; written > 4200 {
				t.Errorf("one command made %d rows", written)
			}
			r.Verify()
			r.Restart()
			info, err := s.Groups("log").Get(t.Context(), "g")
			if err != nil || len(info.Members) != 0 || info.Pending() != pending+more || heldBy(t, s) != 0 {
				t.Errorf("after Leave: %d members, %d pending, %d of them with consumers, %v", len(info.Members), info.Pending(),
					heldBy(t, s), err)
			}
			a.leave()
			ds, _ := b.read(stream.Limit(10))
			if len(ds) != 10 || ds[0].Attempt != 2 {
				t.Fatalf("b got %q", deliveries(ds))
			}
			b.leave()
			r.Fire()
			r.Verify()
			got := 0
			for got < pending+more {
				ds, _ := a.read(stream.Limit(1000))
				if got += len(ds); len(ds) == 0 {
					break
				}
				a.ack(len(ds), ds...)
			}
			if got != pending+more {
				t.Errorf("%d of %d records were delivered again", got, pending+more)
			}
			restarts := 0
			r.Replay(func() int { return 3 }, func() bool { restarts++; return restarts%4 == 0 })
		})
	}
}

// TestGoneOrOvertakenWithVeryMuch: the same for a consumer that is silent for too long, or that
// loses an exclusive group to another consumer.
func TestGoneOrOvertakenWithVeryMuch(t *testing.T) {
	const pending = 5000
	for mode := stream.Shared; mode <= stream.Exclusive; mode++ {
		t.Run(mode.String(), func(t *testing.T) {
			r, s, _, b := manyPending(t, mode, pending)
			ahead := int64(72 * time.Minute / time.Millisecond) // a is silent and its records overdue
			ds, err := s.Pending("log", "g").Page(t.Context(), stream.Limit(1000))
			if err != nil || len(ds.Items) != 1000 {
				t.Fatal(err)
			}
			if mode == stream.Shared {
				ahead *= 4
			}
			r.Advance(ahead)
			got, text := b.read(stream.Limit(1))
			if len(got) != 1 || got[0].Attempt != 2 {
				t.Errorf("b got %q, want one of the records as attempt 2", text)
			}
			b.ack(1, got...)
			if n := heldBy(t, s); n != 0 {
				t.Errorf("%d records are with somebody", n)
			}
			restarts := 0
			r.Replay(func() int { return 3 }, func() bool { restarts++; return restarts%4 == 0 })
		})
	}
}
