package kv_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
)

// manyKeys is more keys than one query scans.
const manyKeys = 25_000

// putMany puts keys, many per entry; they expire after ttl unless it is 0.
func putMany(t *testing.T, r *machinetest.Rig, format string, n int, ttl time.Duration) {
	t.Helper()
	for at := 0; at < n; at += 1000 {
		txn := r.Txn("default")
		for i := at; i < min(at+1000, n); i++ {
			var opts []kv.PutOption
			if ttl > 0 {
				opts = append(opts, kv.TTL(ttl))
			}
			txn.Do(kv.PutOp(fmt.Sprintf(format, i), nil, opts...))
		}
		if _, err := txn.Commit(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestListingPassesOverManyExpiredKeys: a page that skips more expired keys than one query may scan
// takes several queries. Callers do not notice.
func TestListingPassesOverManyExpiredKeys(t *testing.T) {
	r, s := newAsked(t)
	putMany(t, r.Rig, "a%05d", manyKeys, time.Minute)
	putMany(t, r.Rig, "b%d", 3, 0)
	r.Pass(60_000) // no Fire runs
	before := r.queries.Load()
	page, err := s.Page(t.Context(), kv.Limit(2))
	if err != nil || len(page.Items) != 2 || page.Items[1].Key != "b1" || page.Cursor == "" {
		t.Fatalf("Page = %d items, %v", len(page.Items), err)
	}
	if n := r.queries.Load() - before; n != 3 {
		t.Errorf("%d queries for %d keys", n, manyKeys)
	}
	n := 0
	for it, err := range s.All(t.Context(), kv.Limit(2)) {
		if want := fmt.Sprint("b", n); err != nil || it.Key != want {
			t.Fatalf("All gives %q, %v, want %q", it.Key, err, want)
		}
		n++
	}
	if n != 3 {
		t.Errorf("All has given %d items, want 3", n)
	}
}

// TestWatchLooksAtVersionsOnce: a watch that returns many changes of a key reads each version once,
// and the current version once per change.
func TestWatchLooksAtVersionsOnce(t *testing.T) {
	r, s := newAsked(t)
	put := func() { must(s.Put(t.Context(), "a", nil)) }
	put()
	resume := uint64(r.Executor(0).Applied().LSN)
	for range kv.MaxVersions {
		put()
	}
	r.Restart() // the changes are no longer in memory
	before, told := r.Executor(0).Scanned(), 0
	for e, err := range s.Watch(t.Context(), "a", kv.FromRevision(resume)) {
		if err != nil || e.Type != kv.EventPut || e.Version != uint64(told+2) {
			t.Fatalf("after %d changes: %+v, %v", told, e, err)
		}
		if told++; told == kv.MaxVersions {
			break
		}
	}
	if n, most := r.Executor(0).Scanned()-before, int64(4*kv.MaxVersions+10); n > most {
		t.Errorf("%d rows were looked at for %d changes, want %d at most", n, told, most)
	}
}

// TestWatchFindsChangesInParts: a watch resumed from long ago scans all keys, in several queries,
// while keys change.
func TestWatchFindsChangesInParts(t *testing.T) {
	r, s := newAsked(t)
	putMany(t, r.Rig, "a%05d", manyKeys, 0)
	resume := uint64(r.Executor(0).Applied().LSN)
	want := make(map[string]string)
	put := func(i int, value string) {
		key := fmt.Sprintf("a%05d", i)
		want[key] = value
		must(s.Put(t.Context(), key, []byte(value)))
	}
	for i := 0; i < manyKeys; i += 10 {
		put(i, "one")
	}
	putMany(t, r.Rig, "other%05d", manyKeys, 0) // the changes are no longer in memory
	const busy = 40                             // queries that are each preceded by changes
	r.between = func(n int64) {
		if n <= busy {
			put(int(n)*1000%manyKeys, fmt.Sprint("two ", n))
			put(int(n)*3000%manyKeys+1, fmt.Sprint("three ", n))
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := make(map[string]string)
	last := resume
	for e, err := range s.Watch(ctx, "a", kv.FromRevision(resume)) {
		if err != nil || e.Type != kv.EventPut || e.Revision <= last {
			t.Fatalf("after revision %d: %+v, %v", last, e, err)
		}
		last = e.Revision
		got[e.Key] = string(e.Value)
		if uint64(r.Executor(0).Applied().LSN) == last && r.queries.Load() >= busy {
			break
		}
	}
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s is %q, the watch has told %q", key, value, got[key])
		}
	}
}

// TestRareChangesAreFoundInMemory: only changes of watched keys wake a watch. When they are rare,
// memory no longer reaches back to the watch's last query; the watch used to scan all keys then.
func TestRareChangesAreFoundInMemory(t *testing.T) {
	r, s := newAsked(t)
	putMany(t, r.Rig, "rare%05d", manyKeys, 0)
	w := watch(t, t.Context(), s, "rare", kv.FromRevision(uint64(r.Executor(0).Applied().LSN)))
	next := make(chan string)
	go func() {
		defer close(next)
		for range 2 {
			e, err, _ := w.next()
			next <- fmt.Sprint(e.Key, err)
		}
	}()
	for n := range 2 {
		r.awaitWaiting(1, 2+3*int64(n))
		before := r.queries.Load()
		putMany(t, r.Rig, "other%05d", manyKeys, 0)
		if got := r.queries.Load() - before; got != 0 {
			t.Errorf("%d queries because of other keys", got)
		}
		must(s.Put(t.Context(), "rare00007", nil))
		if got := <-next; got != "rare00007<nil>" {
			t.Fatalf("the watch has told %s", got)
		}
		if got := r.queries.Load() - before; got > 1 {
			t.Errorf("%d queries for one change", got)
		}
	}
	<-next
}

// TestWritesWakeWhoWatchesThem has 1,000 watches, each of its own prefix: a write wakes only one of
// them.
func TestWritesWakeWhoWatchesThem(t *testing.T) {
	const watchers = 1000
	r, s := newAsked(t)
	must(s.Put(t.Context(), "first", nil))
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan string)
	for i := range watchers {
		go func() {
			for e, err := range s.Watch(ctx, fmt.Sprintf("user/%04d/", i)) {
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					break
				}
				told <- e.Key
			}
			told <- ""
		}()
	}
	r.awaitWaiting(watchers, 3*watchers) // one look for the current keys, and two before it waits
	for i := range 20 {
		key := fmt.Sprintf("user/%04d/name", 7*i)
		must(s.Put(ctx, key, nil))
		if got := <-told; got != key {
			t.Fatalf("%q has changed, %q was told", key, got)
		}
	}
	// A woken watch looks once and queries again, which takes two looks before it waits.
	r.awaitWaiting(watchers, 3*watchers+3*20)
	cancel()
	for range watchers {
		<-told
	}
}

// asked is a rig's door that counts queries of the store, and how often they look.
type asked struct {
	*machinetest.Rig
	t              *testing.T
	queries, looks atomic.Int64
	between        func(n int64) // called before each query
}

func newAsked(t *testing.T) (*asked, *kv.Store) {
	a := &asked{Rig: newRig(t, 1).Rig, t: t}
	return a, engine.StoreOf[kv.Store](engine.NewRouter(a), "default", 0)
}

func (a *asked) Query(ctx context.Context, shard engine.ShardID, q engine.Query) error {
	if q.Machine() != engine.MachineKV {
		return a.Rig.Query(ctx, shard, q)
	}
	if n := a.queries.Add(1); a.between != nil {
		a.between(n)
	}
	return a.Executor(shard).Query(ctx, q, engine.Replica{Now: a.Now, May: func() error { a.looks.Add(1); return nil }})
}

// awaitWaiting returns when n queries wait after the given number of looks, and fails the test if
// there were more looks.
func (a *asked) awaitWaiting(n int, looks int64) {
	a.t.Helper()
	for a.Executor(0).Waiting() != n || a.looks.Load() < looks {
		runtime.Gosched()
	}
	if got := a.looks.Load(); got != looks {
		a.t.Errorf("%d looks, want %d", got, looks)
	}
}
