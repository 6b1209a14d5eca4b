package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
	"github.com/floedb/floe/ts"
	"github.com/floedb/floe/workflow"
)

// database is the interface for programs: a Node and a Client both implement it.
type database interface {
	floe.DB
	MaxValueSize() int
	StatsOf(ctx context.Context, node uint64) (floe.Stats, error)
}

var (
	_ database = (*floe.Node)(nil)
	_ database = (*floe.Client)(nil)
)

// databases opens one of each kind.
var databases = map[string]func(t *testing.T) database{
	"memory": func(t *testing.T) database { return openNode(t, floe.Config{}) },
	"disk":   func(t *testing.T) database { return openNode(t, floe.Config{DataDir: t.TempDir()}) },
	"client": func(t *testing.T) database {
		return dialNode(t, openNode(t, floe.Config{Listen: "127.0.0.1:0"}).Addr().String())
	},
	"cluster": func(t *testing.T) database { return newThree(t).nodes[1] },
	"client of a cluster": func(t *testing.T) database {
		return newThree(t).dial(2, 0, 1)
	},
	"client of one node of a cluster": func(t *testing.T) database {
		return newThree(t).dial(0)
	},
}

func openNode(t *testing.T, c floe.Config) *floe.Node {
	t.Helper()
	n, err := floe.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return n
}

func dialNode(t *testing.T, addr string) *floe.Client {
	t.Helper()
	c, err := floe.Dial(t.Context(), []string{addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestSuite uses all features of each primitive, with each kind of database.
func TestSuite(t *testing.T) {
	t.Parallel()
	suite := map[string]func(t *testing.T, db database){
		"kv": suiteKV, "kv pages": suitePages, "kv watch": suiteWatch, "kv wait": suiteWait, "lock": suiteLock, "txn": suiteTxn,
		"namespaces": suiteNamespaces, "deleted namespaces": suiteDeletedNamespaces, "listings": suiteListings,
		"impossible names": suiteImpossibleNames, "limits": suiteLimits, "errors": suiteErrors, "queue": suiteQueue,
		"queue listings": suiteQueueListings, "queue wait": suiteQueueWait, "consume": suiteConsume,
		"stream": suiteStream, "stream follow": suiteFollow, "stream retention": suiteRetention, "stream limits": suiteStreamLimits,
		"groups": suiteGroups, "group wait": suiteGroupWait, "group stops": suiteGroupStops, "mixed": suiteMixed,
		"failed job": suiteFailedJob,
	}
	for kind, open := range databases {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			db := open(t)
			for name, test := range suite {
				t.Run(name, func(t *testing.T) { test(t, db) })
			}
			t.Run("close", func(t *testing.T) { suiteClose(t, db) })
		})
	}
}

// ok fails the test unless err is nil, and returns v.
func ok[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func suiteKV(t *testing.T, db database) {
	ctx, s := t.Context(), db.KV("suite")
	w := ok[kv.Written](t)(s.Put(ctx, "a", []byte("1"), kv.IfAbsent()))
	e := ok[kv.Entry](t)(s.Get(ctx, "a"))
	if string(e.Value) != "1" || e.Revision != w.Revision || e.Version != 1 || e.UpdatedAt.IsZero() || !e.ExpiresAt.IsZero() {
		t.Errorf("Get = %+v after %+v", e, w)
	}
	w = ok[kv.Written](t)(s.Put(ctx, "a", []byte{}, kv.IfRevision(w.Revision), kv.TTL(time.Hour)))
	if e = ok[kv.Entry](t)(s.Get(ctx, "a")); e.Value == nil || len(e.Value) > 0 || e.Version != 2 ||
		time.Until(e.ExpiresAt) < 50*time.Minute {
		t.Errorf("Get = %+v, want an empty value that lives for an hour", e)
	}
	if n := ok[kv.Counted](t)(s.Incr(ctx, "n", -5)); n.Value != -5 {
		t.Errorf("Incr = %+v", n)
	}
	var bound *kv.BoundError
	if _, err := s.Incr(ctx, "n", 10, kv.Min(-9), kv.Max(4)); !errors.As(err, &bound) ||
		*bound != (kv.BoundError{Key: "n", Value: -5, Delta: 10, Min: -9, Max: 4}) ||
		!errors.Is(err, floe.ErrConflict) || errors.Is(err, floe.ErrInvalid) {
		t.Errorf("Incr beyond a bound: %v, want a BoundError, which is ErrConflict", err)
	}
	for range 2 {
		ok[kv.Counted](t)(s.Incr(ctx, "window", 1, kv.TTL(time.Hour)))
		ok[kv.Counted](t)(s.Incr(ctx, "n", 0, kv.TTL(time.Hour)))
	}
	if e := ok[kv.Entry](t)(s.Get(ctx, "window")); string(e.Value) != "2" || e.ExpiresAt.Sub(e.UpdatedAt) > time.Hour ||
		e.ExpiresAt.IsZero() {
		t.Errorf("Get = %+v, want a counter that lives for an hour from its first increment on", e)
	}
	if e := ok[kv.Entry](t)(s.Get(ctx, "n")); !e.ExpiresAt.IsZero() {
		t.Errorf("Get = %+v, want a counter that was there before its TTL, and so has none", e)
	}
	ok[kv.Written](t)(s.Put(ctx, "expires", []byte("x"), kv.TTL(time.Millisecond)))
	await(t, "expiry", func() bool { _, err := s.Get(ctx, "expires"); return errors.Is(err, floe.ErrNotFound) })
	ok[kv.Written](t)(s.Delete(ctx, "a"))
	if _, err := s.Get(ctx, "a"); !errors.Is(err, floe.ErrNotFound) {
		t.Errorf("Get of a deleted key: %v", err)
	}
	versions := ok[[]kv.Version](t)(engine.Collect(s.History("a").All(ctx)))
	if len(versions) != 3 || !versions[0].Tombstone || versions[2].Version != 1 || string(versions[2].Value) != "1" ||
		versions[1].Value == nil {
		t.Errorf("History = %+v", versions)
	}
	all := ok[map[string]kv.Entry](t)(s.GetMany(ctx, "a", "n", "missing"))
	if len(all) != 1 || string(all["n"].Value) != "-5" {
		t.Errorf("GetMany = %+v", all)
	}
}

func suitePages(t *testing.T, db database) {
	ctx := t.Context()
	if err := db.Namespaces().Create(ctx, "spread pages", floe.Spread()); err != nil {
		t.Fatal(err)
	}
	for _, ns := range []string{"pages", "spread pages"} {
		s := db.KV(ns)
		var want []string
		for i := range 250 {
			key := fmt.Sprintf("key/%03d", i)
			ok[kv.Written](t)(s.Put(ctx, key, []byte(strings.Repeat("v", i))))
			want = append(want, key)
		}
		var got []string
		for it, err := range s.All(ctx, kv.Prefix("key/"), kv.Limit(40)) {
			if err != nil {
				t.Fatal(err)
			}
			if it.Size != len(got) || len(it.Value) != it.Size {
				t.Errorf("%s: %s has %d bytes, size %d", ns, it.Key, len(it.Value), it.Size)
			}
			got = append(got, it.Key)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: All returns %d keys, want %d", ns, len(got), len(want))
		}
		p := ok[kv.Page[kv.Item]](t)(s.Page(ctx, kv.Prefix("key/"), kv.NoValues(), kv.Limit(3), kv.After("key/100")))
		if len(p.Items) != 3 || p.Items[0].Key != "key/101" || p.Items[0].Value != nil || p.Items[0].Size != 101 || p.Cursor == "" {
			t.Errorf("%s: Page = %+v", ns, p)
		}
	}
}

func suiteWatch(t *testing.T, db database) {
	ctx, cancel := context.WithCancel(t.Context())
	s := db.KV("watched")
	ok[kv.Written](t)(s.Put(ctx, "k/0", []byte("0")))
	var events []string
	more := make(chan struct{}, 100)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for e, err := range s.Watch(ctx, "k/") {
			if err != nil {
				if ctx.Err() == nil {
					t.Errorf("watch: %v", err)
				}
				return
			}
			events = append(events, fmt.Sprint(e.Type, e.Key, string(e.Value)))
			more <- struct{}{}
		}
	})
	next := func() {
		select {
		case <-more:
		case <-time.After(time.Minute):
			t.Error("no event within a minute")
		}
	}
	next()
	want := []string{fmt.Sprint(kv.EventPut, "k/0", "0")}
	for i := range 10 {
		key := fmt.Sprint("k/", i%3)
		if i%4 == 3 {
			ok[kv.Written](t)(s.Delete(ctx, key))
			want = append(want, fmt.Sprint(kv.EventDelete, key, ""))
		} else {
			ok[kv.Written](t)(s.Put(ctx, key, fmt.Append(nil, i)))
			want = append(want, fmt.Sprint(kv.EventPut, key, i))
		}
		ok[kv.Written](t)(s.Put(ctx, "other", nil))
		next()
	}
	cancel()
	watcher.Wait()
	if !slices.Equal(events, want) {
		t.Errorf("watched %q, want %q", events, want)
	}
}

func suiteWait(t *testing.T, db database) {
	s := db.KV("waited for")
	got := make(chan error, 2)
	go func() {
		e, err := s.Wait(t.Context(), "k")
		if err == nil && string(e.Value) != "v" {
			err = fmt.Errorf("Wait = %+v", e)
		}
		got <- err
	}()
	await(t, "a waiter", func() bool {
		st, err := db.Stats(t.Context())
		return err != nil || st.Waiting > 0 || len(st.Nodes) > 1 // in a cluster another node may report it
	})
	w := ok[kv.Written](t)(s.Put(t.Context(), "k", []byte("v")))
	if err := <-got; err != nil {
		t.Error(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.WaitChange(short, "k", w.Revision); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("WaitChange without a change: %v, want the deadline", err)
	}
}

func suiteLock(t *testing.T, db database) {
	s := db.KV("locks")
	held, sum := 0, 0
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 5 {
				l, err := s.Lock(t.Context(), "lock", time.Minute)
				if err != nil {
					t.Errorf("Lock: %v", err)
					return
				}
				if held++; held > 1 {
					t.Errorf("%d hold the lock", held)
				}
				sum++
				held--
				if err := l.Unlock(t.Context()); err != nil {
					t.Errorf("Unlock: %v", err)
				}
			}
		})
	}
	callers.Wait()
	if sum != 20 && !t.Failed() {
		t.Errorf("locked %d times, want 20", sum)
	}
}

func suiteTxn(t *testing.T, db database) {
	ctx, s := t.Context(), db.KV("txn")
	incr := kv.IncrOp("n", 2)
	res, err := db.Txn("txn").If(kv.Absent("a")).Do(kv.PutOp("a", []byte("1")), incr).Commit(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := incr.Result(res); err != nil || n.Value != 2 {
		t.Errorf("Result = %d, %v", n.Value, err)
	}
	var bound *kv.BoundError
	if _, err = db.Txn("txn").Do(kv.IncrOp("n", 1, kv.Max(2))).Commit(ctx); !errors.As(err, &bound) || bound.Value != 2 || bound.Max != 2 ||
		!errors.Is(err, floe.ErrConflict) {
		t.Errorf("Commit = %v, want a BoundError", err)
	}
	_, err = db.Txn("txn").If(kv.Present("a"), kv.Absent("n")).Do(kv.PutOp("a", []byte("2"))).Commit(ctx)
	var refused *floe.TxnError
	var conflict *kv.ConflictError
	if !errors.As(err, &refused) || refused.Index != 1 || !refused.Condition || !errors.As(err, &conflict) || conflict.Key != "n" ||
		conflict.Want != "absent" {
		t.Errorf("Commit = %v, want the second condition refused", err)
	}
	if e := ok[kv.Entry](t)(s.Get(ctx, "a")); string(e.Value) != "1" {
		t.Errorf("a is %q after a refused transaction", e.Value)
	}
}

func suiteNamespaces(t *testing.T, db database) {
	ctx := t.Context()
	for _, name := range []string{"listed/a", "listed/b"} {
		if err := db.Namespaces().Create(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Namespaces().Create(ctx, "listed/a"); !errors.Is(err, floe.ErrExists) {
		t.Errorf("second Create: %v, want ErrExists", err)
	}
	ok[kv.Written](t)(db.KV("listed/a").Put(ctx, "k", []byte("value")))
	var names []string
	for info, err := range db.Namespaces().All(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if info.Name == "listed/a" && (info.Counts.Keys != 1 || info.Counts.KeySets != 1 || info.CreatedAt.IsZero()) {
			t.Errorf("%+v, want one key", info)
		}
		if strings.HasPrefix(info.Name, "listed/") {
			names = append(names, info.Name)
		}
	}
	if !slices.Equal(names, []string{"listed/a", "listed/b"}) {
		t.Errorf("All = %q", names)
	}
	await(t, "the default namespace", func() bool { _, err := db.Namespaces().Get(ctx, "default"); return err == nil })
	if _, err := db.Namespaces().Get(ctx, "missing"); !errors.Is(err, floe.ErrNotFound) {
		t.Errorf("Stats of a missing namespace: %v", err)
	}
}

// suiteDeletedNamespaces deletes namespaces with data of every kind, and creates them again: they
// must be empty.
func suiteDeletedNamespaces(t *testing.T, db database) {
	ctx, all := t.Context(), db.Namespaces()
	for _, spread := range []bool{false, true} {
		name, create := fmt.Sprint("deleted/", spread), func() error { return all.Create(ctx, fmt.Sprint("deleted/", spread)) }
		if spread {
			create = func() error { return all.Create(ctx, name, floe.Spread()) }
		}
		if err := all.Delete(ctx, name); !errors.Is(err, floe.ErrNotFound) {
			t.Errorf("Delete of a namespace that there is not: %v", err)
		}
		keys, records, jobs, points := db.KV(name), db.Stream(name), db.Processing(name), db.TS(name)
		for life := range 2 {
			if err := create(); err != nil {
				t.Fatal(err)
			}
			if err := create(); !errors.Is(err, floe.ErrExists) {
				t.Errorf("second Create: %v, want ErrExists", err)
			}
			fill := map[string]func() error{
				"12 keys": func() error {
					for i := range 12 {
						if _, err := keys.Put(ctx, fmt.Sprint("k", i), nil); err != nil {
							return err
						}
					}
					return nil
				},
				"1 stream": func() error { return records.Create(ctx, "s", stream.Partitions(4)) },
				"1 queue":  func() error { _, err := db.Queue(name).Enqueue(ctx, "q", nil); return err },
				"1 measurement": func() error {
					_, err := points.Write(ctx, ts.Point{Measurement: "m", Fields: map[string]float64{"v": 1}})
					return errors.Join(err, points.SetRetention(ctx, "other", ts.Retention{RawTTL: time.Hour}))
				},
				"1 action": func() error { _, err := db.Action(name).Register(ctx, "a"); return err },
				"1 workflow": func() error {
					_, err := db.Workflow(name).Create(ctx, fmt.Appendf(nil, waitingFlow, "w", ""))
					return err
				},
				"1 processing job": func() error {
					_, err := jobs.Submit(ctx,
						[]byte("name: j\nsources:\n  - { name: in, stream: { name: s } }\nsinks:\n  - { name: out, stream: { name: t } }\n"))
					return err
				},
			}
			for what, f := range fill {
				if err := f(); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			started := ok[workflow.Started](t)(db.Workflow(name).Start(ctx, "w", nil))
			err := all.Delete(ctx, name)
			if !errors.Is(err, floe.ErrConflict) {
				t.Errorf("Delete of a namespace with something of everything: %v", err)
			}
			for what := range fill {
				if !strings.Contains(err.Error(), what) {
					t.Errorf("Delete: %v, want that there are %s", err, what)
				}
			}
			if !slices.ContainsFunc(ok[[]kv.Version](t)(engine.Collect(keys.History("k1").All(ctx))),
				func(v kv.Version) bool { return v.Version == 1 }) {
				t.Error("key k1 has no first version")
			}
			ok[kv.Written](t)(keys.Put(ctx, "k1", nil)) // in whatever shard: the refusal has changed nothing
			job := ok[floe.Page[processing.Job]](t)(jobs.Page(ctx)).Items[0]
			ok[processing.Status](t)(jobs.Cancel(ctx, job.ID))
			for i := range 12 {
				ok[kv.Written](t)(keys.Delete(ctx, fmt.Sprint("k", i)))
			}
			for what, err := range map[string]error{
				"stream": records.Delete(ctx, "s", stream.Force()), "queue": db.Queue(name).Delete(ctx,
					"q"), "measurement": points.Delete(ctx, "m"),
				"action": db.Action(name).Delete(ctx, "a"), "workflow": db.Workflow(name).Delete(ctx, "w", workflow.Force()),
			} {
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			if err := all.Delete(ctx, name); !errors.Is(err, floe.ErrConflict) || !strings.Contains(err.Error(), "1 active workflow run") {
				t.Errorf("Delete of a namespace with an active run: %v", err)
			}
			ok[workflow.Status](t)(db.Workflow(name).Cancel(ctx, started.Run, ""))
			if err := all.Delete(ctx, name); err != nil {
				t.Fatalf("life %d: Delete: %v", life, err)
			}
			suiteGone(t, db, name, spread)
		}
		if err := all.Create(ctx, name, map[bool][]floe.NamespaceOption{false: {floe.Spread()}}[spread]...); !errors.Is(err,
			floe.ErrConflict) {
			t.Errorf("Create with another placement: %v, want ErrConflict", err)
		}
	}
	for _, name := range []string{"default", "_system", ""} {
		if err := all.Delete(ctx, name); !errors.Is(err, floe.ErrInvalid) {
			t.Errorf("Delete of %q: %v, want ErrInvalid", name, err)
		}
	}
}

// suiteGone checks that nothing is left of a deleted namespace, and leaves it deleted.
func suiteGone(t *testing.T, db database, name string, spread bool) {
	t.Helper()
	ctx, all, keys := t.Context(), db.Namespaces(), db.KV(name)
	if _, err := all.Get(ctx, name); !errors.Is(err, floe.ErrNotFound) {
		t.Errorf("Stats: %v, want ErrNotFound", err)
	}
	if page := ok[floe.Page[floe.NamespaceStats]](t)(all.Page(ctx, floe.Prefix(name))); len(page.Items) > 0 {
		t.Errorf("Page lists %+v", page.Items)
	}
	if err := all.Delete(ctx, name); !errors.Is(err, floe.ErrNotFound) {
		t.Errorf("Delete again: %v, want ErrNotFound", err)
	}
	if versions, err := engine.Collect(keys.History("k1").All(ctx)); err == nil && len(versions) > 0 ||
		err != nil && !errors.Is(err, floe.ErrNotFound) {
		t.Errorf("History = %v, %v", versions, err)
	}
	if page := ok[floe.Page[workflow.RunInfo]](t)(db.Workflow(name).Runs().Page(ctx)); len(page.Items) > 0 {
		t.Errorf("runs are listed: %+v", page.Items)
	}
	if page := ok[floe.Page[processing.Job]](t)(db.Processing(name).Page(ctx)); len(page.Items) > 0 {
		t.Errorf("jobs are listed: %+v", page.Items)
	}
	if spread {
		for i := range 12 {
			if _, err := keys.Put(ctx, fmt.Sprint("k", i), nil); !errors.Is(err, floe.ErrNotFound) {
				t.Errorf("Put into a spread namespace that was deleted: %v, want ErrNotFound", err)
			}
		}
		return
	}
	w := ok[kv.Written](t)(keys.Put(ctx, "k1", nil))
	stats := ok[floe.NamespaceStats](t)(all.Get(ctx, name))
	if c := stats.Counts; w.Version != 1 || c.Keys != 1 || c.KeySets != 1 || c.KeyDeletes != 0 || c.DeadKeys != 0 || c.RunsStarted != 0 {
		t.Errorf("after a first write of version %d: %+v", w.Version, stats)
	}
	ok[kv.Written](t)(keys.Delete(ctx, "k1"))
	if err := all.Delete(ctx, name); err != nil {
		t.Error(err)
	}
}

func suiteLimits(t *testing.T, db database) {
	ctx, s := t.Context(), db.KV("limits")
	largest := make([]byte, db.MaxValueSize())
	ok[kv.Written](t)(s.Put(ctx, strings.Repeat("k", kv.MaxKeyBytes), largest))
	if e := ok[kv.Entry](t)(s.Get(ctx, strings.Repeat("k", kv.MaxKeyBytes))); len(e.Value) != len(largest) {
		t.Errorf("Get = %d bytes, want %d", len(e.Value), len(largest))
	}
	if _, err := s.Put(ctx, "k", append(largest, 0)); !errors.Is(err, floe.ErrInvalid) {
		t.Errorf("Put of a byte too many: %v, want ErrInvalid", err)
	}
	for range 8 {
		ok[kv.Written](t)(s.Put(ctx, "large", largest))
	}
	if versions := ok[[]kv.Version](t)(engine.Collect(s.History("large").All(ctx))); len(versions) != 8 ||
		len(versions[7].Value) != len(largest) {
		t.Errorf("History = %d versions", len(versions))
	}
}

func suiteErrors(t *testing.T, db database) {
	ctx, s := t.Context(), db.KV("errors")
	w := ok[kv.Written](t)(s.Put(ctx, "k", nil))
	_, err := s.Put(ctx, "k", nil, kv.IfRevision(w.Revision+1))
	var conflict *kv.ConflictError
	if !errors.As(err, &conflict) || conflict.Revision != w.Revision || !errors.Is(err, floe.ErrConflict) {
		t.Errorf("Put at another revision: %v", err)
	}
	if _, err := db.KV("_system").Put(ctx, "k", nil); !errors.Is(err, floe.ErrInvalid) {
		t.Errorf("Put into a system namespace: %v, want ErrInvalid", err)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Get(done, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("Get with a ctx that is done: %v", err)
	}
	if _, err := s.Put(done, "k", nil); !errors.Is(err, context.Canceled) || errors.Is(err, floe.ErrUnknownOutcome) {
		t.Errorf("Put with a ctx that is done: %v, want a definite one", err)
	}
}

func suiteClose(t *testing.T, db database) {
	s := db.KV("closed")
	got := make(chan error, 1)
	go func() { _, err := s.Wait(t.Context(), "never"); got <- err }()
	if err := db.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := <-got; !errors.Is(err, floe.ErrClosed) {
		t.Errorf("Wait ended with %v, want ErrClosed", err)
	}
	if _, err := s.Get(t.Context(), "k"); !errors.Is(err, floe.ErrClosed) {
		t.Errorf("Get after Close: %v, want ErrClosed", err)
	}
	if _, err := s.Put(t.Context(), "k", nil); !errors.Is(err, floe.ErrClosed) {
		t.Errorf("Put after Close: %v, want ErrClosed", err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}
