package stream_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
)

// TestNothingOvertakesWhatIsTakenBack: no consumer gets newer records while the records of a
// consumer that has left are being returned.
func TestNothingOvertakesWhatIsTakenBack(t *testing.T) {
	const pending = 6000
	for _, mode := range []stream.Mode{stream.Shared, stream.Exclusive} {
		t.Run(mode.String(), func(t *testing.T) {
			r, s, _, b := manyPending(t, mode, pending)
			for p := range 2 {
				_, err := s.Append(t.Context(), "log", text("new"), stream.Partition(p))
				must(t, err)
			}
			_, err := r.Txn("n").Do(stream.LeaveOp("log", "g", "a")).Commit(t.Context())
			must(t, err)
			again := 0
			for again < pending {
				ds, _ := b.read(stream.Limit(1000))
				if len(ds) == 0 {
					t.Fatalf("%d records were delivered again, want %d", again, pending)
				}
				for _, d := range ds {
					if d.Attempt > 1 {
						again++
					} else if again < pending/3 {
						t.Fatalf("a new record is delivered behind %d of %d that are taken back", again, pending)
					}
				}
			}
		})
	}
}

// TestSeekForgetsWhatWasDue: records delivered before a seek do not come back when their deadline
// passes.
func TestSeekForgetsWhatWasDue(t *testing.T) {
	for mode := stream.Shared; mode <= stream.KeyShared; mode++ {
		t.Run(mode.String(), func(t *testing.T) {
			r, s := newStore(t)
			keyed(t, s, "x:1", "x:2", "y:1", "x:3")
			a, _ := consumers(t, s, mode, stream.AckTimeout(time.Minute), stream.Backoff(0, 0), stream.MaxAttempts(2))
			a.want("x:1 x:2 y:1 x:3")
			must(t, s.Seek(t.Context(), "log", "g", stream.FromBeginning()))
			r.Advance(30_000)
			again := a.want("x:1 x:2 y:1 x:3")
			r.Advance(40_000)
			info, err := s.Groups("log").Get(t.Context(), "g")
			if err != nil || info.Pending() != 4 {
				t.Errorf("%d records are pending, %v, want the 4 that were delivered last", info.Pending(), err)
			}
			r.Verify()
			a.ack(4, again...)
			r.Advance(120_000)
		})
	}
}

// TestRefusedRecordsAreThereAtOnce: records refused without a delay are redelivered without any
// other event in between.
func TestRefusedRecordsAreThereAtOnce(t *testing.T) {
	for mode := stream.Shared; mode <= stream.KeyShared; mode++ {
		t.Run(mode.String(), func(t *testing.T) {
			r, s := newStore(t)
			keyed(t, s, "x:1", "y:1")
			a, _ := consumers(t, s, mode)
			ds := a.want("x:1 y:1")
			if n, err := s.Nack(t.Context(), "log", "g", stream.RefsOf(ds), stream.Delay(0)); n != 2 || err != nil {
				t.Fatalf("Nack = %d, %v", n, err)
			}
			r.Verify()
			a.want("x:1#2 y:1#2")
		})
	}
}

// TestWhatIsDueTogetherIsDoneInParts: one command used to process all failures that were due
// together, however many there were.
func TestWhatIsDueTogetherIsDoneInParts(t *testing.T) {
	const pending = 6000
	for mode := stream.Shared; mode <= stream.KeyShared; mode++ {
		t.Run(mode.String(), func(t *testing.T) {
			r, s, a, _ := manyPending(t, mode, pending)
			var refs []stream.Ref
			for p, err := range s.Pending("log", "g").All(t.Context(), stream.Limit(1000)) {
				must(t, err)
				refs = append(refs, p.Ref)
			}
			if n, err := s.Nack(t.Context(), "log", "g", refs, stream.Delay(time.Second)); n != pending || err != nil {
				t.Fatalf("Nack = %d, %v", n, err)
			}
			if fired := r.Advance(1000); fired < 3 {
				t.Errorf("%d timers made %d records ready", fired, pending)
			}
			r.Verify()
			got := 0
			for got < pending {
				ds, _ := a.read(stream.Limit(1000))
				if got += len(ds); len(ds) == 0 {
					t.Fatalf("%d of %d records were delivered again", got, pending)
				}
			}
			restarts := 0
			r.Replay(func() int { return 3 }, func() bool { restarts++; return restarts%4 == 0 })
		})
	}
}

// oneNode runs a test in a bubble, with the streams of a node that has one shard.
func oneNode(t *testing.T, test func(t *testing.T, node *floe.Node, s *stream.Store)) {
	synctest.Test(t, func(t *testing.T) {
		node, err := floe.Open(floe.Config{Shards: 1})
		must(t, err)
		defer node.Close()
		test(t, node, node.Stream("default"))
	})
}

// TestConsumeIsServedOverAndOver: a waiting call is served at once, again and again, as long as
// there are records.
func TestConsumeIsServedOverAndOver(t *testing.T) {
	oneNode(t, func(t *testing.T, _ *floe.Node, s *stream.Store) {
		_, err := s.AppendMany(t.Context(), "log", []stream.Message{text("1"), text("2"), text("3"), text("4")})
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		handled := 0
		must(t, s.Consume(ctx, "log", "g", func(context.Context, stream.Delivery) error {
			if handled++; handled == 4 {
				cancel()
			}
			return nil
		}))
		if handled != 4 {
			t.Errorf("%d of 4 records were handled in a second", handled)
		}
	})
}

// TestReadGroupPulledInVain: a reader that was woken for an append which was then refused keeps
// waiting.
func TestReadGroupPulledInVain(t *testing.T) {
	oneNode(t, func(t *testing.T, node *floe.Node, s *stream.Store) {
		must(t, s.Create(t.Context(), "log"))
		w := startWaiter(t, s, "c")
		<-time.After(time.Second)
		_, err := node.Txn("default").Do(stream.AppendOp("log", text("never")), stream.DeleteOp("missing")).Commit(t.Context())
		if !errors.Is(err, stream.ErrNotFound) {
			t.Fatalf("a transaction that deletes what there is not: %v", err)
		}
		<-time.After(time.Second)
		_, err = s.Append(t.Context(), "log", text("1"))
		must(t, err)
		if ds := <-w.got; len(ds) != 1 || string(ds[0].Payload) != "1" {
			t.Errorf("got %v, want one record", ds)
		}
	})
}
