package kv_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// aheadDoor is a rig whose queries use a time that the log has not reached yet, as a leader's clock
// does while an entry is in flight.
type aheadDoor struct {
	*recounted
	ahead   int64
	settled int
	arrive  func() // applies the entry in flight
}

func (d *aheadDoor) Query(ctx context.Context, shard engine.ShardID, q engine.Query) error {
	return d.Executor(shard).Query(ctx, q, engine.Replica{
		Now: func() int64 { return d.ahead },
		Settle: func(_ context.Context, at int64) error {
			d.settled++
			d.arrive()
			d.Pass(max(at-d.Now(), 0))
			d.Fire()
			return nil
		},
	})
}

// TestExpiredKeyStaysAway: once a read after a key's expiry has returned ErrNotFound, the value
// stays gone. It used to come back if an entry in flight, stamped before the expiry, removed the
// expiry. Every kind of read waits until the log has reached the expiry, then returns the log's
// result.
func TestExpiredKeyStaysAway(t *testing.T) {
	ctx := t.Context()
	reads := map[string]func(*kv.Store) bool{
		"Get": func(s *kv.Store) bool {
			_, err := s.Get(ctx, "k")
			if err != nil && !errors.Is(err, kv.ErrNotFound) {
				t.Fatal(err)
			}
			return err == nil
		},
		"GetMany": func(s *kv.Store) bool {
			got, err := s.GetMany(ctx, "a", "k", "z")
			if err != nil || len(got) < 2 {
				t.Fatalf("GetMany: %d entries, %v", len(got), err)
			}
			return len(got) == 3
		},
		"Exists": func(s *kv.Store) bool {
			ok, err := s.Exists(ctx, "k")
			if err != nil {
				t.Fatal(err)
			}
			return ok
		},
		"PageInto": func(s *kv.Store) bool {
			p, err := s.PageInto(ctx, new(kv.PageBuffer))
			if err != nil || len(p.Items) < 2 {
				t.Fatalf("PageInto: %d items, %v", len(p.Items), err)
			}
			return len(p.Items) == 3
		},
	}
	for name, read := range reads {
		for _, persist := range []bool{true, false} {
			r := newRig(t, 1)
			d := &aheadDoor{recounted: r}
			s := engine.StoreOf[kv.Store](engine.NewRouter(d), "default", 0)
			for _, k := range []string{"a", "k", "z"} {
				var opts []kv.PutOption
				if k == "k" {
					opts = append(opts, kv.TTL(time.Second))
				}
				if _, err := s.Put(ctx, k, nil, opts...); err != nil {
					t.Fatal(err)
				}
			}
			r.Pass(999) // stamp of the entry in flight
			d.ahead = r.Now() + 5
			d.arrive = func() {
				if persist {
					if err := s.Persist(ctx, "k"); err != nil {
						t.Errorf("Persist, stamped before the end: %v", err)
					}
				}
			}
			if found := read(s); found != persist {
				t.Errorf("%s = found %t, with a Persist under way: %t", name, found, persist)
			}
			if d.settled != 1 {
				t.Errorf("%s waited for the log %d times, want 1", name, d.settled)
			}
			if found := read(s); found != persist || d.settled != 1 {
				t.Errorf("%s once more = found %t after waiting %d times, want %t and 1", name, found, d.settled, persist)
			}
		}
	}
}
