package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
)

const wide = 8 // partitions of a stream spread over several shards

// wideGroup appends a record to each partition of a stream in a spread namespace.
func wideGroup(t *testing.T) (*machinetest.Rig, *stream.Store) {
	t.Helper()
	r, s := newSpread(t, 4)
	create(t, s, "log", stream.Partitions(wide))
	for p := range wide {
		_, err := s.Append(t.Context(), "log", text("%d", p), stream.Partition(p))
		must(t, err)
	}
	return r, s
}

// readAll reads until a read is empty, and returns how often each partition's record was delivered,
// and as which attempt.
func readAll(c consumer) (attempts [wide]int) {
	c.t.Helper()
	for {
		ds, _ := c.read(stream.Limit(3))
		if len(ds) == 0 {
			return attempts
		}
		for _, d := range ds {
			if attempts[d.Partition] != 0 {
				c.t.Errorf("%s got the record of partition %d twice", c.name, d.Partition)
			}
			attempts[d.Partition] = d.Attempt
		}
	}
}

// TestTakeoverInASpreadNamespace: a consumer takes over an exclusive group, with partitions in
// several shards, from a silent one. All shards learn of it, at once or at the new consumer's first
// read there. The new consumer gets all records of the old one. The old one gets no more, whichever
// shard it reads, and its calls come too late.
func TestTakeoverInASpreadNamespace(t *testing.T) {
	for _, hold := range []bool{false, true} {
		t.Run(fmt.Sprint("hold=", hold), func(t *testing.T) {
			r, s := wideGroup(t)
			a, b := consumers(t, s, stream.Exclusive, stream.Backoff(0, 0), stream.AckTimeout(10*time.Second))
			var had []stream.Delivery
			for len(had) < wide {
				ds, _ := a.read(stream.Limit(3))
				had = append(had, ds...)
			}
			_, err := s.ExtendMany(t.Context(), "log", "g", stream.RefsOf(had), time.Hour) // so nothing comes back on its own
			must(t, err)
			b.want("")
			r.Advance(11_249)
			b.want("")
			r.Hold(hold) // the shards receive nothing from each other
			r.Advance(1)
			first, _ := b.read(stream.Limit(1))
			if len(first) != 1 || first[0].Attempt != 2 {
				t.Fatalf("b took over and got %q", deliveries(first))
			}
			a.want("")
			if hold {
				for range wide { // it reads from each shard
					b.read(stream.Limit(1))
				}
			}
			if n, err := s.Nack(t.Context(), "log", "g", stream.RefsOf(had)); n != 0 || err != nil {
				t.Errorf("Nack of what a had = %d, %v", n, err)
			}
			r.Hold(false)
			r.Deliver()
			a.want("")
			got := readAll(b)
			info, err := s.Groups("log").Get(t.Context(), "g")
			if err != nil || info.Pending() != wide || info.Holder != "b" {
				t.Errorf("%+v, %v", info, err)
			}
			for _, m := range info.Members {
				if want := map[string]int{"a": 0, "b": wide}[m.Consumer]; m.Pending != want {
					t.Errorf("%s has %d records, want %d", m.Consumer, m.Pending, want)
				}
			}
			for p, attempt := range got {
				if attempt > 2 {
					t.Errorf("b got the record of partition %d as attempt %d", p, attempt)
				}
			}
			replayed(r)
		})
	}
}

// failingDoor fails the take in one shard as if its response had been lost.
type failingDoor struct {
	*machinetest.Rig
	shard engine.ShardID
	err   error
}

func (d *failingDoor) Take(ctx context.Context, shard engine.ShardID, t engine.Take) ([]byte, error) {
	result, err := d.Rig.Take(ctx, shard, t)
	if shard == d.shard && len(result) > 0 && d.err != nil {
		return nil, d.err // it was applied all the same
	}
	return result, err
}

// TestALaterShardWithAnUnknownOutcome: a group read over several shards, with an unknown outcome in
// one, returns the records of the others and reports the error. With acknowledgement the lost
// records are redelivered; without it, the error shows that some are lost. A definite refusal loses
// nothing.
func TestALaterShardWithAnUnknownOutcome(t *testing.T) {
	for _, c := range []struct {
		err   error
		noAck bool
	}{{engine.ErrUnknownOutcome, false}, {engine.ErrUnknownOutcome, true}, {engine.ErrUnavailable, false}} {
		t.Run(fmt.Sprint(c.err, " ", c.noAck), func(t *testing.T) {
			r, s := wideGroup(t)
			in := make(map[engine.ShardID][]int)
			info, err := s.Get(t.Context(), "log")
			must(t, err)
			for _, p := range info.Partitions {
				in[engine.ShardID(p.Shard)] = append(in[engine.ShardID(p.Shard)], p.Partition)
			}
			must(t, s.Groups("log").Create(t.Context(), "g", stream.Backoff(0, 0), stream.AckTimeout(10*time.Second)))
			late := engine.NameShard("wide", "log/3", 4)
			d := &failingDoor{r, late, engine.Errorf(c.err, "lost")}
			opts := []stream.GroupReadOption{stream.Limit(100)}
			if c.noAck {
				opts = append(opts, stream.NoAck())
			}
			lossy := engine.StoreOf[stream.Store](engine.NewRouter(d), "wide", 0)
			seen := make(map[int]bool)
			failed := 0
			for range 8 { // it begins with another shard each time
				ds, err := lossy.ReadGroup(t.Context(), "log", "g", "a", opts...)
				for _, rec := range ds {
					if seen[rec.Partition] || slices.Contains(in[late], rec.Partition) {
						t.Errorf("got the record of partition %d", rec.Partition)
					}
					seen[rec.Partition] = true
				}
				switch {
				case err == nil && len(ds) == 0:
				case errors.Is(err, c.err):
					failed++
				case err != nil:
					t.Fatal(err)
				case c.err == engine.ErrUnknownOutcome && len(ds) > 0 && len(seen) == wide-len(in[late]) && failed == 0:
					t.Errorf("nobody was told that an outcome is not known")
				}
			}
			if len(seen) != wide-len(in[late]) || c.err == engine.ErrUnknownOutcome && failed != 1 {
				t.Errorf("%d records, %d errors, want %d and one", len(seen), failed, wide-len(in[late]))
			}
			d.err = nil
			r.Advance(10_000)
			again, err := s.ReadGroup(t.Context(), "log", "g", "b", stream.Limit(100))
			must(t, err)
			lost := 0
			for _, rec := range again {
				if slices.Contains(in[late], rec.Partition) {
					lost++
				}
			}
			if want := len(in[late]); !c.noAck && lost != want || c.noAck && len(again) != 0 {
				t.Errorf("%d records come again, %d of the shard that did not answer, want %d", len(again), lost, want)
			}
		})
	}
}
