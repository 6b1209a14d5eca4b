package kv_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
)

// follow is a watch that is stepped explicitly.
type follow struct {
	t    *testing.T
	next func() (kv.Event, error, bool)
	stop func()
}

func watch(t *testing.T, ctx context.Context, s *kv.Store, prefix string, opts ...kv.WatchOption) follow {
	next, stop := iter.Pull2(s.Watch(ctx, prefix, opts...))
	t.Cleanup(stop)
	return follow{t, next, stop}
}

// want reads as many events as are given and compares type, key and value.
func (f follow) want(events ...string) {
	f.t.Helper()
	for _, want := range events {
		e, err, ok := f.next()
		if got := fmt.Sprintf("%v %s=%s", e.Type, e.Key, e.Value); err != nil || !ok || got != want {
			f.t.Fatalf("watch: got %q, %v, %v, want %q", got, err, ok, want)
		}
	}
}

func TestWatch(t *testing.T) {
	ctx, s := within(t), openStore(t)
	must(s.Put(ctx, "a/2", []byte("2")))
	must(s.Put(ctx, "a/1", []byte("1")))
	must(s.Put(ctx, "b", []byte("b")))
	w := watch(t, ctx, s, "a/")
	w.want("put a/1=1", "put a/2=2")
	must(s.Put(ctx, "a/1", []byte("3")))
	must(s.Put(ctx, "b", []byte("4")))
	must(s.Delete(ctx, "a/2"))
	must(s.Put(ctx, "a/3", []byte("5"), kv.TTL(time.Millisecond)))
	must(s.Incr(ctx, "a/4", 7))
	must(s.JSONSet(ctx, "a/5", "x", []byte("1")))
	w.want("put a/1=3", "delete a/2=", "put a/3=5")
	seen := map[string]bool{}
	for range 3 {
		e, err, _ := w.next()
		seen[fmt.Sprintf("%v %s=%s %v", e.Type, e.Key, e.Value, err)] = true
	}
	for _, want := range []string{"put a/4=7 <nil>", `put a/5={"x":1} <nil>`, "expire a/3= <nil>"} {
		if !seen[want] {
			t.Errorf("watch: got %v, want %q among them", seen, want)
		}
	}
	// A touch is not a change.
	if err := s.Touch(ctx, "a/1", time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := s.Persist(ctx, "a/1"); err != nil {
		t.Fatal(err)
	}
	must(s.Delete(ctx, "a/1"))
	w.want("delete a/1=")
}

// TestWatchResume resumes at every revision of a history: from memory and, after a restart, from
// the keys.
func TestWatchResume(t *testing.T) {
	r := newRig(t, 1)
	s := r.store("n")
	rng := rand.New(rand.NewPCG(1, 2))
	var log []kv.Event
	writeRandom := func(keys, changes int) {
		for range changes {
			k := strconv.Itoa(rng.IntN(keys))
			switch rng.IntN(5) {
			case 0:
				s.Delete(t.Context(), k)
			case 1:
				r.store("other").Put(t.Context(), k, nil)
			case 2:
				s.Put(t.Context(), k, []byte(k), kv.TTL(time.Millisecond))
				r.Pass(1)
				if rng.IntN(2) == 0 {
					r.Fire()
				}
			default:
				s.Put(t.Context(), k, fmt.Append(nil, rng.IntN(100)))
			}
		}
		r.Fire()
	}
	writeRandom(20, 400)
	impatient := engine.StoreOf[kv.Store](engine.NewRouter(impatient{r.Rig}), "n", 0)
	collect := func(prefix string, from uint64) (events []kv.Event) {
		for e, err := range impatient.Watch(t.Context(), prefix, kv.FromRevision(from)) {
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Fatalf("Watch(%q, FromRevision(%d)): %v", prefix, from, err)
			}
			if err == nil {
				events = append(events, e)
			}
		}
		return events
	}
	for k := range 20 {
		versions, err := engine.Collect(s.History(strconv.Itoa(k)).All(t.Context()))
		if err != nil || versions[len(versions)-1].Version != 1 {
			t.Fatalf("History(%d) = %d versions, %v; the test needs all", k, len(versions), err)
		}
		for _, v := range versions {
			e := kv.Event{Type: kv.EventPut, Key: strconv.Itoa(k), Value: v.Value, Revision: v.Revision, Version: v.Version, Time: v.Time}
			if v.Tombstone {
				e.Type = kv.EventDelete
			}
			if v.Expired {
				e.Type = kv.EventExpire
			}
			log = append(log, e)
		}
	}
	slices.SortFunc(log, func(a, b kv.Event) int { return int(a.Revision) - int(b.Revision) })
	last := log[len(log)-1].Revision
	for _, how := range []string{"memory", "keys"} {
		if how == "keys" {
			r.Restart()
		}
		for from := uint64(0); from <= last; from++ {
			if testing.Short() && from%7 != 0 {
				continue
			}
			for _, prefix := range []string{"", "1", "19", "x"} {
				var want []kv.Event
				for _, e := range log {
					if e.Revision > from && len(e.Key) >= len(prefix) && e.Key[:len(prefix)] == prefix {
						want = append(want, e)
					}
				}
				if got := collect(prefix, from); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("from %s: Watch(%q, FromRevision(%d)) gives %d events, want %d:\n%.500v\n%.500v", how, prefix, from, len(got),
						len(want), got, want)
				}
			}
		}
	}
	for _, err := range s.Watch(t.Context(), "", kv.FromRevision(1<<40)) {
		wantErr(t, "Watch from a revision that does not exist", err, kv.ErrInvalid)
	}
}

// impatient is a door whose queries end when they have found nothing and would wait.
type impatient struct{ *machinetest.Rig }

func (d impatient) Query(ctx context.Context, shard engine.ShardID, q engine.Query) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	looks := 0
	return d.Executor(shard).Query(ctx, q, engine.Replica{Now: d.Now, May: func() error {
		if looks++; looks == 2 { // the first look found nothing
			cancel()
		}
		return nil
	}})
}

// TestWatchSlow: a consumer that stalls during more changes than memory holds makes the watch scan
// the keys.
func TestWatchSlow(t *testing.T) {
	r := newRig(t, 1)
	s, ctx := r.store("n"), within(t)
	must(s.Put(ctx, "first", nil))
	w := watch(t, ctx, s, "k")
	must(s.Put(ctx, "k0", nil))
	w.want("put k0=")
	keys, rounds, padding := 1000, 20, "" // 20,000 changes; the ring holds 16,384
	if testing.Short() {
		keys, rounds, padding = 300, 2, strings.Repeat("x", 4000) // 2.4 MB of keys; the ring holds 1 MiB
	} else if keys*rounds <= kv.MaxRecent {
		t.Fatalf("%d changes do not overflow the ring of %d", keys*rounds, kv.MaxRecent)
	}
	for round := range rounds {
		txn := r.Txn("n")
		for i := range keys {
			txn.Do(kv.PutOp(fmt.Sprintf("k%04d%s", i, padding), fmt.Append(nil, round)))
		}
		if _, err := txn.Commit(ctx); err != nil {
			t.Fatalf("Commit: %v", err)
		}
	}
	for round := range rounds {
		for i := range keys {
			w.want(fmt.Sprintf("put k%04d%s=%d", i, padding, round))
		}
	}
	// 65 changes of one key exceed its history: the watch sends the current state anew.
	for i := range kv.MaxVersions + 1 {
		must(s.Put(ctx, "k0", fmt.Append(nil, 100+i)))
	}
	w.want("compacted =", "put k0=164", fmt.Sprintf("put k0000%s=%d", padding, rounds-1))
}

// TestWatchLongKeys has keys whose bytes wrap around the memory of recent changes more than once.
func TestWatchLongKeys(t *testing.T) {
	r := newRig(t, 1)
	s, ctx := r.store("n"), within(t)
	must(s.Put(ctx, "first", nil))
	long := func(i int) string { return fmt.Sprintf("k%04d%s", i, strings.Repeat("x", 700+i%13)) }
	all, one := watch(t, ctx, s, "k"), watch(t, ctx, s, long(7)[:500])
	must(s.Put(ctx, long(7), nil))
	all.want("put " + long(7) + "=")
	one.want("put " + long(7) + "=")
	const step = 100
	for i := step; i < 4000; i += step {
		for j := i; j < i+step; j++ {
			must(s.Put(ctx, long(j), nil))
		}
		must(s.Put(ctx, long(7), fmt.Append(nil, i)))
		for j := i; j < i+step; j++ {
			all.want("put " + long(j) + "=")
		}
		all.want(fmt.Sprintf("put %s=%d", long(7), i))
		one.want(fmt.Sprintf("put %s=%d", long(7), i))
	}
}

// TestWatchConcurrently starts watches during writes, at random moments and with different
// prefixes. Each watch must return every key's changes in order, including the last one.
func TestWatchConcurrently(t *testing.T) {
	for _, spread := range []bool{false, true} {
		t.Run(fmt.Sprintf("spread=%v", spread), func(t *testing.T) {
			ctx := within(t)
			node := open(t, floe.Config{Shards: 3})
			if spread {
				if err := node.Namespaces().Create(ctx, "n", floe.Spread()); err != nil {
					t.Fatal(err)
				}
			}
			s := node.KV("n")
			const keys = 700 // more than two snapshot pages
			for i := range keys {
				must(s.Put(ctx, fmt.Sprint("k", i), []byte("0")))
			}
			var writers, watchers sync.WaitGroup
			for n := range 3 {
				writers.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(n), 0))
					for range 400 {
						k := fmt.Sprint("k", rng.IntN(keys))
						if rng.IntN(4) == 0 {
							s.Delete(ctx, k)
						} else if _, err := s.Incr(ctx, k, 1); err != nil {
							t.Errorf("Incr: %v", err)
						}
					}
				})
			}
			for range 6 {
				watchers.Go(func() { checkWatch(t, ctx, s, keys) })
			}
			writers.Wait()
			for i := range keys {
				must(s.Put(ctx, fmt.Sprint("k", i), []byte("end")))
			}
			watchers.Wait()
		})
	}
}

// checkWatch watches until every key has reached its end.
func checkWatch(t *testing.T, ctx context.Context, s *kv.Store, keys int) {
	type state struct{ revision, version uint64 }
	last := make(map[string]state)
	ended := 0
	for e, err := range s.Watch(ctx, "k") {
		if err != nil || e.Type == kv.EventCompacted {
			t.Errorf("watch: %v, %v", e, err)
			return
		}
		prev, seen := last[e.Key]
		if seen && e.Version != prev.version+1 || e.Revision <= prev.revision {
			t.Errorf("watch: %v of %q at version %d, revision %d comes after version %d, revision %d", e.Type, e.Key, e.Version, e.Revision,
				prev.version, prev.revision)
			return
		}
		last[e.Key] = state{e.Revision, e.Version}
		if string(e.Value) == "end" {
			if ended++; ended == keys {
				return
			}
		}
	}
}

// TestWatchEnds: break, a done ctx and Close release everything, with one shard and with many.
func TestWatchEnds(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	node, err := floe.Open(floe.Config{Shards: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	if err := node.Namespaces().Create(t.Context(), "spread", floe.Spread()); err != nil {
		t.Fatal(err)
	}
	before := goleak.IgnoreCurrent()
	for _, ns := range []string{"plain", "spread"} {
		s := node.KV(ns)
		for i := range 600 {
			must(s.Put(t.Context(), fmt.Sprint(i), nil))
		}
		for n := range 3 {
			for range s.Watch(t.Context(), "") {
				if n--; n < 0 {
					break
				}
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n, last := 0, error(nil)
		for _, err := range s.Watch(ctx, "") {
			if last != nil {
				t.Errorf("%s: a pair after the error %v", ns, last)
			}
			if n++; n == 600 {
				time.AfterFunc(time.Millisecond, cancel)
			}
			last = err
		}
		wantErr(t, ns+": a watch whose ctx is cancelled", last, context.Canceled)
		// Nothing runs before the first step.
		_ = s.Watch(t.Context(), "")
		// A leader may start its duties at any time.
		if err := goleak.Find(before, goleak.IgnoreAnyFunction("github.com/floedb/floe/internal/shard.(*dutyRunner).do")); err != nil {
			t.Errorf("%s: %v", ns, err)
		}
	}
	plain, spread := watch(t, t.Context(), node.KV("plain"), "none"), watch(t, t.Context(), node.KV("spread"), "none")
	time.AfterFunc(time.Millisecond, func() { node.Close() })
	for _, w := range []follow{plain, spread} {
		_, err, _ := w.next()
		wantErr(t, "a watch whose node is closed", err, floe.ErrClosed)
		w.stop()
	}
}

func TestWatchOfSpreadCannotResume(t *testing.T) {
	node := open(t, floe.Config{Shards: 2})
	if err := node.Namespaces().Create(t.Context(), "spread", floe.Spread()); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range node.KV("spread").Watch(t.Context(), "", kv.FromRevision(1)) {
		n++
		wantErr(t, "Watch of a spread namespace from a revision", err, kv.ErrInvalid)
	}
	if n != 1 {
		t.Errorf("Watch of a spread namespace from a revision yields %d pairs, want 1", n)
	}
}

// TestWatchBeforeNamespace: a watch of a namespace that does not exist yet receives its changes,
// wherever the namespace is created.
func TestWatchBeforeNamespace(t *testing.T) {
	for _, spread := range []bool{false, true} {
		t.Run(fmt.Sprintf("spread=%v", spread), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			node := open(t, floe.Config{Shards: 4})
			s := node.KV("later")
			const keys = 16
			var waiting sync.WaitGroup
			ready := make(chan struct{}, keys+1)
			waiting.Go(func() {
				n := 0
				ready <- struct{}{}
				for _, err := range s.Watch(ctx, "") {
					if err != nil {
						t.Errorf("Watch: %v after %d events, want %d", err, n, keys)
						return
					}
					if n++; n == keys {
						return
					}
				}
			})
			for i := range keys {
				waiting.Go(func() {
					ready <- struct{}{}
					if _, err := s.Wait(ctx, fmt.Sprint("k", i)); err != nil {
						t.Errorf("Wait(k%d): %v", i, err)
					}
				})
			}
			for range keys + 1 {
				<-ready
			}
			awaitWaiters(t, node, keys+1)
			if spread {
				if err := node.Namespaces().Create(ctx, "later", floe.Spread()); err != nil {
					t.Fatal(err)
				}
			}
			for i := range keys {
				must(s.Put(ctx, fmt.Sprint("k", i), nil))
			}
			waiting.Wait()
		})
	}
}

func TestWait(t *testing.T) {
	ctx := within(t)
	node := open(t, floe.Config{Shards: 1})
	s := node.KV("n")
	got := make(chan kv.Entry)
	go func() { got <- must(s.Wait(ctx, "k")) }()
	awaitWaiters(t, node, 1)
	must(s.Put(ctx, "other", nil))
	w := must(s.Put(ctx, "k", []byte("v"), kv.TTL(time.Hour)))
	if e := <-got; e.Revision != w.Revision || string(e.Value) != "v" || e.ExpiresAt.IsZero() {
		t.Errorf("Wait = %+v, want revision %d with an expiry", e, w.Revision)
	}
	if e, err := s.Wait(ctx, "k"); err != nil || e.Revision != w.Revision {
		t.Errorf("Wait for a key that exists = %+v, %v", e, err)
	}
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	_, err := s.Wait(short, "none")
	wantErr(t, "Wait with a short ctx", err, context.DeadlineExceeded)
	_, err = s.WaitChange(short, "k", w.Revision)
	wantErr(t, "WaitChange with a short ctx", err, context.DeadlineExceeded)
}

func TestWaitChange(t *testing.T) {
	ctx, s := within(t), openStore(t)
	put := must(s.Put(ctx, "k", []byte("1")))
	e, err := s.WaitChange(ctx, "k", 0)
	if err != nil || e.Revision != put.Revision || e.Type != kv.EventPut || string(e.Value) != "1" {
		t.Errorf("WaitChange(0) = %v, %v, want the put at %d", e, err, put.Revision)
	}
	deleted := must(s.Delete(ctx, "k"))
	if e, err = s.WaitChange(ctx, "k", put.Revision); err != nil || e.Revision != deleted.Revision || e.Type != kv.EventDelete {
		t.Errorf("WaitChange(%d) = %v, %v, want the delete at %d", put.Revision, e, err, deleted.Revision)
	}
	put = must(s.Put(ctx, "k", []byte("2"), kv.TTL(5*time.Millisecond)))
	if e, err = s.WaitChange(ctx, "k", put.Revision); err != nil || e.Type != kv.EventExpire || e.Version != put.Version+1 {
		t.Errorf("WaitChange(%d) = %v, %v, want the expiry", put.Revision, e, err)
	}
}

// TestWaitChangeAhead: a revision that the shard has not reached is refused, as in Watch.
// WaitChange used to wait forever.
func TestWaitChangeAhead(t *testing.T) {
	ctx, s := within(t), openStore(t)
	put := must(s.Put(ctx, "k", []byte("1")))
	for _, after := range []uint64{put.Revision + 1000, math.MaxUint64} {
		if e, err := s.WaitChange(ctx, "k", after); !errors.Is(err, kv.ErrInvalid) {
			t.Errorf("WaitChange behind revision %d, after %d: %+v, %v, want ErrInvalid", after, put.Revision, e, err)
		}
	}
}

// TestWaitChangeOfForgotten: a change is returned once. A key that never existed, or whose
// tombstone is forgotten, does not appear to change repeatedly.
func TestWaitChangeOfForgotten(t *testing.T) {
	r := newRig(t, 1)
	s, ctx := r.store("n"), within(t)
	done, cancel := context.WithCancel(ctx)
	cancel()
	put := must(s.Put(ctx, "k", nil))
	must(s.Delete(ctx, "k"))
	must(s.Put(ctx, "other", nil))
	r.Pass(kv.TombstoneMillis)
	r.Fire()
	e, err := s.WaitChange(done, "k", put.Revision)
	if err != nil || e.Type != kv.EventDelete || e.Revision <= put.Revision {
		t.Errorf("WaitChange(k, %d) = %v, %v, want a delete that is later", put.Revision, e, err)
	}
	if e, err := s.WaitChange(done, "k", e.Revision); !errors.Is(err, context.Canceled) {
		t.Errorf("WaitChange(k, %d), the revision that it returned before, = %v, %v, want it to wait", e.Revision, e, err)
	}
	r2 := newRig(t, 1)
	s = r2.store("n")
	w := must(s.Put(ctx, "k", nil))
	if e, err := s.WaitChange(done, "never", w.Revision); !errors.Is(err, context.Canceled) {
		t.Errorf("WaitChange of a key that never was, where nothing was ever deleted = %v, %v, want it to wait", e, err)
	}
}

// awaitWaiters returns once n queries wait, so that later writes find them waiting.
func awaitWaiters(t *testing.T, node *floe.Node, n int) {
	t.Helper()
	for ctx := within(t); ctx.Err() == nil; {
		stats, err := node.Stats(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if stats.Waiting >= n {
			return
		}
		runtime.Gosched()
	}
	t.Fatalf("there are never %d queries that wait", n)
}

// behind reads from replicas that may lag.
type behind struct{ *recounted }

func (b behind) Query(ctx context.Context, shard engine.ShardID, q engine.Query) error {
	return b.Executor(shard).Query(ctx, q, engine.Replica{Now: b.Now, Stale: true})
}

// TestWatchOfAReplicaBehind: a watch resumed on a replica that has not reached its revision yet
// waits for it. It used to end with ErrInvalid.
func TestWatchOfAReplicaBehind(t *testing.T) {
	ctx, r := within(t), newRig(t, 1)
	s := r.store("n")
	from := must(s.Put(ctx, "k", []byte("0"))).Revision + 1 // as returned by a replica ahead
	got := make(chan string, 1)
	go func() {
		for e, err := range engine.StoreOf[kv.Store](engine.NewRouter(behind{r}), "n", 0).Watch(ctx, "", kv.FromRevision(from)) {
			got <- fmt.Sprintf("%s %v", e.Value, err)
			return
		}
	}()
	for r.Executor(0).Waiting() == 0 && len(got) == 0 {
		runtime.Gosched()
	}
	must(s.Put(ctx, "k", []byte("1")))
	must(s.Put(ctx, "k", []byte("2")))
	if e := <-got; e != "2 <nil>" {
		t.Errorf("the watch gives %s, want the change after revision %d", e, from)
	}
}
