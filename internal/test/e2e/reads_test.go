package e2e

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

var writesFlag = flag.Int("writes", 300, "how many writes the readers of TestReadsNeverGoBack see")

// TestReadsNeverGoBack increments a few counters while readers read them in every possible way, in
// turn: from memory, from the database, from a snapshot of it. A change seen by one read must be
// seen by all later ones.
func TestReadsNeverGoBack(t *testing.T) {
	ctx := context.Background()
	node, err := floe.Open(floe.Config{Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	}()
	store := node.KV("counters")
	const keys = 2
	writes := *writesFlag
	if testing.Short() {
		writes = 400
	}
	name := func(i int) string { return fmt.Sprint("counter/", i) }
	var seen [keys]atomic.Uint64 // the highest revision shown to a reader, or acknowledged to a writer
	for i := range keys {
		if _, err := store.Incr(ctx, name(i), 1); err != nil {
			t.Fatal(err)
		}
	}
	done, cancel := context.WithCancel(ctx)
	var readers, writers sync.WaitGroup
	for way, read := range readWays(store) {
		readers.Go(func() {
			for n := 0; done.Err() == nil; n++ {
				i := n % keys
				floor := seen[i].Load()
				got, err := read(ctx, name(i))
				if err != nil || got < floor {
					t.Errorf("%s of %s: revision %d, %v, after somebody had seen %d", way, name(i), got, err, floor)
					return
				}
				raise(&seen[i], got)
			}
		})
	}
	for i := range keys {
		writers.Go(func() {
			for range writes / keys {
				w, err := store.Put(ctx, name(i), []byte("value"))
				if err != nil {
					t.Error(err)
					return
				}
				raise(&seen[i], w.Revision)
			}
		})
	}
	writers.Wait()
	cancel()
	readers.Wait()
}

// readWays returns the ways to read a key's revision.
func readWays(store *kv.Store) map[string]func(context.Context, string) (uint64, error) {
	return map[string]func(context.Context, string) (uint64, error){
		"Get": func(ctx context.Context, key string) (uint64, error) {
			e, err := store.Get(ctx, key)
			return e.Revision, err
		},
		"GetInto": func(ctx context.Context, key string) (uint64, error) {
			e, err := store.GetInto(ctx, key, make([]byte, 0, 64))
			return e.Revision, err
		},
		"GetMany": func(ctx context.Context, key string) (uint64, error) {
			es, err := store.GetMany(ctx, key, "counter/0", "counter/1")
			return es[key].Revision, err
		},
		"All": func(ctx context.Context, key string) (uint64, error) {
			for item, err := range store.All(ctx, kv.Prefix(key)) {
				return item.Revision, err
			}
			return 0, nil
		},
		"History": func(ctx context.Context, key string) (uint64, error) {
			versions, err := engine.Collect(store.History(key).All(ctx))
			if err != nil {
				return 0, err
			}
			return versions[0].Revision, nil
		},
	}
}

func raise(a *atomic.Uint64, to uint64) {
	for old := a.Load(); old < to && !a.CompareAndSwap(old, to); old = a.Load() {
	}
}

// TestCachedReads: reads from memory return the same as reads from the state, are counted, and end
// with the node.
func TestCachedReads(t *testing.T) {
	ctx := context.Background()
	node, err := floe.Open(floe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	store := node.KV("default")
	if _, err := store.Put(ctx, "k", []byte("value")); err != nil {
		t.Fatal(err)
	}
	const reads = 1000
	buf := make([]byte, 0, 16)
	for range reads {
		e, err := store.GetInto(ctx, "k", buf)
		if err != nil || string(e.Value) != "value" || e.Key != "k" || e.Version != 1 || &e.Value[0] != &buf[:1][0] {
			t.Fatalf("GetInto: %+v, %v", e, err)
		}
	}
	info, err := node.Namespaces().Get(ctx, "default")
	if err != nil || info.Counts.KeyReads != reads {
		t.Errorf("%d reads are counted, want %d (%v)", info.Counts.KeyReads, reads, err)
	}
	if _, err := node.KV("expiring").Put(ctx, "k", []byte("value"), kv.TTL(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for range reads {
		if _, err := node.KV("expiring").Get(ctx, "k"); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := node.Namespaces().Get(ctx, "expiring"); err != nil || info.Counts.KeyReads != reads {
		t.Errorf("%d reads of a key that expires are counted, want %d (%v)", info.Counts.KeyReads, reads, err)
	}
	if st, err := node.Stats(ctx); err != nil || st.Commands < reads {
		t.Errorf("%d calls are counted, want at least %d (%v)", st.Commands, reads, err)
	}
	if n := testing.AllocsPerRun(runs, func() { _, _ = store.GetInto(ctx, "k", buf) }); n != 0 {
		t.Errorf("a read from memory into a buffer takes %v allocations, want 0", n)
	}
	mine, err := store.Get(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	mine.Value[0] = 'X'
	if e, err := store.Get(ctx, "k"); err != nil || string(e.Value) != "value" {
		t.Errorf("after the caller has changed its own bytes: %q, %v", e.Value, err)
	}
	if err := node.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(ctx, "k"); err == nil {
		t.Error("a closed node still answers")
	}
}

// runs is the number of calls in allocation tests. A node's own goroutines may make some hundreds
// of allocations at a time on a busy machine; only with many calls are those less than one per
// call.
const runs = 20_000

// TestFreshHandles: creating a handle for each call is as good as keeping one. A read from memory
// allocates only the value, and polling an empty queue writes nothing.
func TestFreshHandles(t *testing.T) {
	ctx := context.Background()
	node, err := floe.Open(floe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	}()
	const ns = "fresh"
	if _, err := node.KV(ns).Put(ctx, "k", []byte("value")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 0, 16)
	get := func() {
		if e, err := node.KV(ns).Get(ctx, "k"); err != nil || string(e.Value) != "value" {
			t.Fatalf("Get: %+v, %v", e, err)
		}
	}
	for range 4 { // the row gets cached
		get()
	}
	if n := testing.AllocsPerRun(runs, get); n > 1 {
		t.Errorf("node.KV(ns).Get takes %v allocations, want 1", n)
	}
	into := func() {
		if _, err := node.KV(ns).GetInto(ctx, "k", buf); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(runs, into); n != 0 {
		t.Errorf("node.KV(ns).GetInto takes %v allocations, want 0", n)
	}
	handles := func() { _, _, _ = node.KV(ns), node.Queue(ns), node.Stream(ns) }
	handles()
	if n := testing.AllocsPerRun(runs, handles); n != 0 {
		t.Errorf("taking handles takes %v allocations, want 0", n)
	}

	poll := func() {
		if got, err := node.Queue(ns).Dequeue(ctx, "q"); err != nil || len(got) != 0 {
			t.Fatalf("Dequeue: %v, %v", got, err)
		}
	}
	if _, err := node.Queue(ns).Enqueue(ctx, "q", nil); err != nil {
		t.Fatal(err)
	}
	if got, err := node.Queue(ns).Dequeue(ctx, "q"); err != nil || len(got) != 1 {
		t.Fatalf("Dequeue: %v, %v", got, err)
	}
	for range 4 {
		poll()
	}
	before, err := node.KV(ns).Put(ctx, "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		poll()
	}
	after, err := node.KV(ns).Put(ctx, "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	if after.Revision != before.Revision+1 {
		t.Errorf("100 empty polls through fresh handles wrote %d commands, want 0", after.Revision-before.Revision-1)
	}
}

// TestExpiredKeysStayAway: readers read keys while they expire and writers try to keep them alive
// at the last moment. A key that a read did not find must not be kept alive, and vice versa.
func TestExpiredKeysStayAway(t *testing.T) {
	ctx := context.Background()
	node, err := floe.Open(floe.Config{DataDir: t.TempDir(), Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	}()
	rounds := 200
	if testing.Short() {
		rounds = 40
	}
	const ttl = 4 * time.Millisecond
	var wait sync.WaitGroup
	kept := 0
	for i := range rounds {
		key := fmt.Sprint("k", i)
		if _, err := node.KV("default").Put(ctx, key, []byte("v"), kv.TTL(ttl)); err != nil {
			t.Fatal(err)
		}
		end := time.Now().Add(ttl)
		var gone, persisted atomic.Bool
		for range 2 {
			wait.Go(func() {
				for !gone.Load() && !persisted.Load() {
					if _, err := node.KV("default").Get(ctx, key); err != nil {
						gone.Store(true)
					}
				}
			})
		}
		wait.Go(func() {
			for time.Until(end) > time.Millisecond {
				runtime.Gosched()
			}
			for !gone.Load() && !persisted.Load() {
				if node.KV("default").Persist(ctx, key) == nil {
					persisted.Store(true)
				}
			}
		})
		wait.Wait()
		if persisted.Load() {
			kept++
		}
		_, err := node.KV("default").Get(ctx, key)
		if gone.Load() && (persisted.Load() || err == nil) || persisted.Load() && err != nil {
			t.Errorf("%s: a read did not find it: %t; it was kept alive: %t; in the end: %v", key, gone.Load(), persisted.Load(), err)
		}
	}
	t.Logf("%d of %d keys were kept alive", kept, rounds)
}
