package shard

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// TestLargeEntriesOpenAgain: concurrent transactions of a few KB write tens of MiB each.
// Transactions that do not fit into an entry are put off to the next ones and applied there once;
// those that fit into none are refused. The log holds all of it and is replayed after a crash with
// the same outcome. An entry that wrote gigabytes used to end the node whenever it was opened.
func TestLargeEntriesOpenAgain(t *testing.T) {
	noLeaks(t)
	rng := rand.New(rand.NewPCG(seed(t), 17))
	fsys := vfs.NewCrashableMem()
	c := kvConfig(fsys, Sync)
	c.MemTableBytes, c.SegmentBytes, c.Shards = 16<<20, 8<<20, 1
	h := open(t, c)
	const workers, each, huge = 4, 3, 66
	router := engine.NewRouter(h)
	s := engine.StoreOf[kv.Store](router, "default", 0)
	value := bytes.Repeat([]byte("v"), 1<<20-100)
	refused := engine.NewTxn(router, "default", 1<<20)
	for i := range huge + workers*each {
		key := fmt.Sprint("k", i)
		if _, err := s.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
		if i < huge {
			refused.Do(kv.DeleteOp(key))
		}
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			txn := engine.NewTxn(router, "default", 1<<20)
			for i := range each {
				txn.Do(kv.DeleteOp(fmt.Sprint("k", huge+w*each+i)))
			}
			if _, err := txn.Commit(t.Context()); err != nil {
				t.Errorf("transaction %d: %v", w, err)
			}
		})
	}
	wg.Wait()
	var which *engine.TxnError
	if _, err := refused.Commit(t.Context()); !errors.As(err, &which) || !errors.Is(err, engine.ErrInvalid) || which.Index < 55 {
		t.Errorf("%d deletes of a megabyte each: %v, want a refusal of the 64th or so", huge, err)
	}
	check := func(s *kv.Store, when string) {
		t.Helper()
		for i := range huge + workers*each {
			e, err := s.Get(t.Context(), fmt.Sprint("k", i))
			if there := i < huge; there && (err != nil || len(e.Value) != len(value)) || !there && !errors.Is(err, kv.ErrNotFound) {
				t.Fatalf("%s: key %d: %d bytes, %v", when, i, len(e.Value), err)
			}
		}
	}
	check(s, "before")
	clone := crash(fsys, rng, 0)
	closeHost(t, h)
	c.FS = clone
	again := open(t, c)
	check(engine.StoreOf[kv.Store](engine.NewRouter(again), "default", 0), "after a crash")
	closeHost(t, again)
}
