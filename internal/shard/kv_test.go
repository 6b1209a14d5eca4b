package shard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// TestKVReplicasAreEqual runs every command of the key-value machine on three nodes and compares
// the replicas byte for byte. Messages are lost, repeated, delayed and reordered, and there are
// restarts and a snapshot.
func TestKVReplicasAreEqual(t *testing.T) {
	noLeaks(t)
	s := seed(t)
	c := newCluster(t, s, func(c *Config) {
		c.MemTableBytes, c.SegmentBytes, c.KeepEntries = 256<<10, 64<<10, 20
		c.Primitives = []engine.Primitive{engine.TableOf[kv.Store]()}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	c.net.SetFaults(Faults{Lose: 0.02, Repeat: 0.05, Delay: 0.1, MaxDelay: 20 * time.Millisecond})
	w := kvWorkload{t: t, rng: rand.New(rand.NewPCG(s, 7)), router: engine.NewRouter(c), done: make(map[string]int)}
	if err := engine.NewNamespaces(w.router).Create(ctx, toySpread, true); err != nil && !errors.Is(err, engine.ErrUnknownOutcome) {
		t.Fatal(err)
	}
	w.run(ctx, 300)
	c.stop(2)
	w.run(ctx, 300)
	c.start(2)
	w.run(ctx, 100)
	c.stop(3)
	w.run(ctx, 300)
	c.flushAll()
	c.start(3)
	w.run(ctx, 200)
	c.net.SetFaults(Faults{})
	c.settle(ctx)
	first := max(c.host(3).shards[0].log.FirstIndex(), c.host(3).shards[1].log.FirstIndex())
	if first < 10 {
		t.Errorf("node 3's logs begin at %d at the latest: it was not given a snapshot", first)
	}
	for _, kind := range []string{"put", "delete", "touch", "persist", "incr", "json set", "json delete", "txn", "lock"} {
		if w.done[kind] == 0 {
			t.Errorf("no %s has succeeded: the test has not tested it", kind)
		}
	}
	t.Logf("succeeded: %v", w.done)
}

// kvWorkload runs random operations on a few keys. Their results do not matter, only that all
// replicas are the same.
type kvWorkload struct {
	t      *testing.T
	rng    *rand.Rand
	router *engine.Router
	done   map[string]int
}

func (w *kvWorkload) run(ctx context.Context, steps int) {
	w.t.Helper()
	stores := []*kv.Store{engine.StoreOf[kv.Store](w.router, "default", 0), engine.StoreOf[kv.Store](w.router, toySpread, 0),
		engine.StoreOf[kv.Store](w.router, "other", 0)}
	for range steps {
		kind, err := w.step(ctx, stores[w.rng.IntN(len(stores))])
		switch {
		case err == nil:
			w.done[kind]++
		case errors.Is(err, engine.ErrUnknownOutcome), errors.Is(err, engine.ErrConflict), errors.Is(err, engine.ErrNotFound),
			errors.Is(err, engine.ErrInvalid):
		default:
			w.t.Fatalf("%s: %v", kind, err)
		}
	}
}

func (w *kvWorkload) step(ctx context.Context, s *kv.Store) (kind string, err error) {
	key := fmt.Sprintf("{t}key-%d", w.rng.IntN(12))
	value := []byte(strings.Repeat("v", w.rng.IntN(2000)))
	ttl := time.Duration(1+w.rng.IntN(300)) * time.Millisecond
	switch w.rng.IntN(12) {
	case 0, 1:
		_, err = s.Put(ctx, key, value)
		return "put", err
	case 2:
		_, err = s.Put(ctx, key, value, kv.TTL(ttl))
		return "put", err
	case 3:
		_, err = s.Put(ctx, key, value, kv.IfAbsent())
		return "put", err
	case 4:
		_, err = s.Delete(ctx, key)
		return "delete", err
	case 5:
		return "touch", s.Touch(ctx, key, ttl)
	case 6:
		return "persist", s.Persist(ctx, key)
	case 7:
		_, err = s.Incr(ctx, key+"-n", w.rng.Int64N(100)-20, kv.Min(0))
		return "incr", err
	case 8:
		_, err = s.JSONSet(ctx, key+"-j", fmt.Sprintf("a.%c", 'a'+w.rng.IntN(4)), []byte(`{"n":1}`))
		return "json set", err
	case 9:
		_, err = s.JSONDelete(ctx, key+"-j", fmt.Sprintf("a.%c", 'a'+w.rng.IntN(4)))
		return "json delete", err
	case 10:
		_, err = s.TryLock(ctx, key+"-l", ttl)
		return "lock", err
	}
	_, err = engine.NewTxn(w.router, s.Namespace(), 1<<20).
		Do(kv.PutOp(key, value), kv.IncrOp(key+"-n", 1, kv.Max(50)), kv.DeleteOp(key+"-l")).Commit(ctx)
	return "txn", err
}
