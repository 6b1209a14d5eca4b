package engine_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/floedb/floe/internal/engine"
)

// cachingRig is a rig of one shard whose machine has rows that are cached: those of kind c.
type cachingRig struct {
	*rig
	m     *scripted
	two   *scripted // another machine
	x     *engine.Executor
	cache *engine.RowCache
}

func newCachingRig(t *testing.T, fs vfs.FS) *cachingRig {
	t.Helper()
	r := &cachingRig{m: newScripted(engine.MachineTest), two: newScripted(engine.MachineTest2), cache: engine.NewRowCache(4 << 20)}
	primitives := []engine.Primitive{r.m.primitive(), r.two.primitive()}
	r.rig = newRigWith(t, engine.Config{Shards: 1, RowCache: r.cache, Primitives: primitives}, fs)
	r.x = r.execs[0]
	r.apply(0, engine.CreateNamespace("n", false))
	return r
}

// cachedKey is the key of a cached row in the first namespace.
func cachedKey(name string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{'c'}, 0), name...)
}

func (r *cachingRig) put(name, value string) {
	r.t.Helper()
	r.run(r.m, "n", func(tx *engine.Tx) { tx.Set(cachedKey(name), []byte(value)) })
}

// applied returns a row as a command sees it.
func (r *cachingRig) applied(name string) (got string) {
	r.t.Helper()
	r.run(r.m, "n", func(tx *engine.Tx) { v, ok := tx.Get(cachedKey(name)); got = fmt.Sprintf("%s %t", v, ok) })
	return got
}

// queried returns a row as a query sees it.
func (r *cachingRig) queried(name string) (got string) {
	r.t.Helper()
	r.see(func(v *engine.View) {
		value, ok, err := v.Get(cachedKey(name))
		got = fmt.Sprintf("%s %t", value, ok)
		clear(value) // it is the query's own
		expect(r.t, "error", err, "<nil>")
	})
	return got
}

func (r *cachingRig) Cached(_ engine.ShardID, p *engine.Place, m engine.MachineID, kind byte, name string, hash uint64) ([]byte, bool) {
	return r.x.Cached(p, m, kind, name, hash)
}

// TestRowsInMemory: a row is in memory after a write, a read of a command or two reads of queries,
// and read there with its read counted.
func TestRowsInMemory(t *testing.T) {
	r := newCachingRig(t, nil)
	router := engine.NewRouter(r)
	if _, err := router.Spread(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	scope := router.Scope("n", 1)
	memory := func(name string) string {
		v, ok := scope.Cached(engine.MachineTest, 'c', name)
		return fmt.Sprintf("%s %t", v, ok)
	}
	reads := func() int64 {
		info, err := engine.NewNamespaces(router).Get(t.Context(), "n")
		expect(t, "error", err, "<nil>")
		return info.Counts.KeyReads
	}
	expect(t, "missing", memory("x")+r.queried("x")+r.applied("x"), " false false false")
	r.put("x", "1")
	r.put("{tag}x", "2")
	expect(t, "written", memory("x")+memory("{tag}x"), "1 true2 true")
	expect(t, "reads", reads(), 2)
	expect(t, "queried", r.queried("x")+r.queried("x"), "1 true1 true")
	expect(t, "applied", r.applied("x"), "1 true")
	r.restart()
	expect(t, "after a restart", memory("x"), " false")
	expect(t, "queried", r.queried("x"), "1 true")
	expect(t, "after a query", memory("x"), " false")
	expect(t, "queried", r.queried("x"), "1 true")
	expect(t, "after two queries", memory("x"), "1 true")
	r.restart()
	expect(t, "applied", r.applied("x"), "1 true")
	expect(t, "after a command", memory("x"), "1 true")
	r.x.Suspend()
	expect(t, "suspended", memory("x"), " false")
	expect(t, "read from the state", r.queried("x"), "1 true")
	r.restart()
	r.put("x", "3")
	expect(t, "written again", memory("x"), "3 true")
	expect(t, "reads", reads(), 5)
	expect(t, "hits", r.cache.Hits(), 5)
	unknown := router.Scope("unknown", 1)
	_, ok := unknown.Cached(engine.MachineTest, 'c', "x")
	expect(t, "unknown namespace", ok, false)
	plain := engine.NewRouter(r.rig).Scope("n", 1)
	_, ok = plain.Cached(engine.MachineTest, 'c', "x")
	expect(t, "behind a door without memory", ok, false)
	r.apply(0, engine.CreateNamespace("m", false))
	if _, err := router.Spread(t.Context(), "m"); err != nil {
		t.Fatal(err)
	}
	other := router.Scope("m", 1)
	_, ok = other.Cached(engine.MachineTest, 'c', "x")
	expect(t, "another namespace", ok, false)
}

// TestFreshRowsAreReadFromTheState: a row that was written since the last flush is not read from
// the tables, which may have an older version. It is too large for the memory.
func TestFreshRowsAreReadFromTheState(t *testing.T) {
	r := newCachingRig(t, nil)
	row := func(of string) string { return strings.Repeat(of, 100<<10) }
	flush := func() {
		if err := r.db.Flush(); err != nil {
			t.Fatal(err)
		}
		r.x.Flushed()
		r.x.Merged()
	}
	want := func(name, of string) {
		t.Helper()
		if got, want := r.applied(name), fmt.Sprint(row(of), " ", of != ""); got != want {
			t.Errorf("row %s has %d bytes: %.3s...%s, want %.3s...", name, len(got), got, got[max(0, len(got)-6):], want)
		}
	}
	r.put("x", row("1"))
	flush()
	want("x", "1")
	r.put("x", row("2"))
	r.put("y", row("2"))
	want("x", "2")
	want("y", "2")
	want("z", "")
	flush()
	want("x", "2")
	r.run(r.m, "n", func(tx *engine.Tx) { tx.Delete(cachedKey("x")) })
	want("x", "")
	want("y", "2")
	// After the start of the program it is not known which rows are fresh.
	r.put("x", row("3"))
	if err := r.x.Release(); err != nil {
		t.Fatal(err)
	}
	r.x = engine.NewExecutor(engine.Config{Shards: 1, DB: r.db, Strict: true, RowCache: r.cache,
		Primitives: []engine.Primitive{r.m.primitive(), r.two.primitive()}})
	r.execs[0] = r.x
	r.restart()
	want("x", "3")
}

// TestReleaseOld: the tables are released if they were not used, or have been merged.
func TestReleaseOld(t *testing.T) {
	r := newCachingRig(t, nil)
	r.put("x", "1")
	if err := r.db.Flush(); err != nil {
		t.Fatal(err)
	}
	held := func(want bool) {
		t.Helper()
		if n := r.db.Metrics().TableIters; n > 0 != want {
			t.Errorf("%d iterators of tables are open, want some: %t", n, want)
		}
	}
	release := func(want bool) {
		t.Helper()
		expect(t, "error", r.x.ReleaseOld(), "<nil>")
		held(want)
	}
	held(false)
	r.restart()
	expect(t, "applied", r.applied("x"), "1 true")
	held(true)
	release(true)
	release(false)
	r.restart()
	expect(t, "applied", r.applied("x"), "1 true")
	held(true)
	r.x.Merged()
	release(false)
	expect(t, "error", r.x.Release(), "<nil>")
}

func TestVerifyMemory(t *testing.T) {
	large := string(make([]byte, 100<<10)) // too large for the memory
	key := append([]byte{0, 0, byte(engine.MachineTest)}, cachedKey("x")...)
	for name, c := range map[string]struct {
		value  string
		tamper func(r *cachingRig)
		want   string
	}{
		"good":          {"1", func(*cachingRig) {}, ""},
		"large":         {large, func(*cachingRig) {}, ""},
		"lost":          {"1", func(r *cachingRig) { r.delete(string(key)) }, "is in memory, but not in the state"},
		"changed":       {"1", func(r *cachingRig) { r.set(string(key), []byte("2")) }, "differs between memory and state"},
		"large changed": {large, func(r *cachingRig) { r.set(string(key), []byte("2")) }, "has changed since the last flush, but"},
		"large lost":    {large, func(r *cachingRig) { r.delete(string(key)) }, "has changed since the last flush, but memory does"},
		"new":           {large, func(r *cachingRig) { r.set(string(key)+"y", []byte("2")) }, "7879 has changed since the last flush, but"},
		"new at the front": {large, func(r *cachingRig) { r.set(string(key[:len(key)-1]), []byte("2")) },
			"row 00000f6300000000 has changed since the last flush, but"},
		"not cached": {large, func(r *cachingRig) { r.set("\x00\x00\x0fz", []byte("2")) }, ""},
	} {
		r := newCachingRig(t, nil)
		r.put("x", c.value)
		if err := r.db.Flush(); err != nil {
			t.Fatal(err)
		}
		r.restart()
		r.applied("x")
		r.tampered = true
		c.tamper(r)
		var found []string
		r.verify(r.x, func(p string) { found = append(found, p) })
		if got := strings.Join(found, "\n"); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: Verify reports %q, want %q", name, got, c.want)
		}
	}
}

// TestAudit: a machine that verifies its rows sees them, its counters and its timers.
func TestAudit(t *testing.T) {
	r := newCachingRig(t, nil)
	r.apply(0, engine.CreateNamespace("m", false))
	r.two.steps["timer"] = func(tx *engine.Tx) error { tx.Schedule(5500, []byte("other")); return nil }
	r.run(r.m, "m", func(tx *engine.Tx) {
		for _, k := range []string{"A", "a", "b", "b1", "d", "e"} {
			set(tx, k)
		}
		tx.Count(countSteps, 5)
		tx.Count(countMore, 6)
		tx.Schedule(5000, []byte("t1"))
		tx.Schedule(6000, []byte("t2"))
		tx.Then((&stage{}).cmd(r.two, "timer"))
	})
	audited := 0
	r.m.verify = func(a *engine.Audit) error {
		audited++
		expect(t, "names", a.Names(), "[n m]")
		for id, want := range []string{"0 true", "5 true", "0 false"} {
			n, known := a.Counted(uint32(id), countSteps)
			expect(t, fmt.Sprint("counted ", id), fmt.Sprint(n, " ", known), want)
			n, _ = a.Counted(uint32(id), countMore)
			expect(t, fmt.Sprint("more of ", id), n, []int{0, 6, 0}[id])
		}
		scan := func(lower, upper []byte) (all string) {
			err := a.Scan(lower, upper, func(k, value []byte) error { all += string(k) + string(value) + " "; return nil })
			expect(t, "error", err, "<nil>")
			return all
		}
		expect(t, "rows", scan(nil, nil), "Av av bv b1v dv ev ")
		expect(t, "some rows", scan([]byte("b"), []byte("d")), "bv b1v ")
		expect(t, "failed scan", a.Scan(nil, nil, func(_, _ []byte) error { return errNo }), errNo)
		var timers []string
		err := a.Timers(func(due int64, ns uint32, token []byte) error {
			timers = append(timers, fmt.Sprintf("%d %d %s", due, ns, token))
			return nil
		})
		expect(t, "timers", fmt.Sprint(strings.Join(timers, ", "), err), "5000 1 t1, 6000 1 t2<nil>")
		expect(t, "failed timers", a.Timers(func(int64, uint32, []byte) error { return errNo }), errNo)
		for token, want := range map[string]bool{"t1": true, "t2": false} {
			ok, err := a.HasTimer(5000, 1, []byte(token))
			expect(t, "timer "+token, fmt.Sprint(ok, " ", err), fmt.Sprint(want, " <nil>"))
		}
		return errors.Join(a.UnknownRows("books", "abe"), a.UnknownRows("all", "Aabde"), a.UnknownRows("", "Aabe"))
	}
	var found []string
	r.verify(r.x, func(p string) { found = append(found, p) })
	expect(t, "reports", strings.Join(found, "; "), "shard 0: books: row 41 is of an unknown kind; "+
		"shard 0: books: row 64 is of an unknown kind; shard 0: : row 64 is of an unknown kind")
	r.m.verify = func(*engine.Audit) error { return errNo }
	_, err := r.x.Verify(t.Context(), func(string) {})
	expect(t, "error of the machine", err, "shard 0: machine 15 (scripted 15): no")
	r.m.verify = func(a *engine.Audit) error { a.UnknownRows("", ""); return nil }
	found = nil
	r.verify(r.x, func(p string) { found = append(found, p) })
	expect(t, "without kinds", len(found), 6)
	r.m.verify = nil
	expect(t, "audited", audited, 1)
}

var errDisk = errors.New("disk failed")

// TestReadsFail: an error of the disk reaches the caller of each read, whatever it reads.
func TestReadsFail(t *testing.T) {
	query := func(f func(v *engine.View) error) func(r *cachingRig) error {
		return func(r *cachingRig) error { return r.answer(engine.Replica{}, f) }
	}
	get := func(k []byte) func(v *engine.View) error {
		return func(v *engine.View) error {
			value, ok, err := v.Get(k)
			if value != nil || ok {
				t.Errorf("a row that cannot be read is %q, %t", value, ok)
			}
			return err
		}
	}
	command := func(f func(tx *engine.Tx)) func(r *cachingRig) error {
		return func(r *cachingRig) error {
			r.m.steps["read"] = func(tx *engine.Tx) error { f(tx); return nil }
			r.applyOnly(0, (&stage{}).cmd(r.m, "read"))
			return errors.New("the command goes on")
		}
	}
	audit := func(f func(a *engine.Audit) error) func(r *cachingRig) error {
		return func(r *cachingRig) error {
			var err error
			r.m.verify = func(a *engine.Audit) error { failing.Store(true); err = f(a); failing.Store(false); return nil }
			failing.Store(false)
			if _, err := r.x.Verify(context.Background(), func(string) {}); err != nil {
				t.Error(err)
			}
			return err
		}
	}
	for name, read := range map[string]func(r *cachingRig) error{
		"Get":                query(get([]byte("k"))),
		"Get of a cached":    query(get(cachedKey("x"))),
		"Get when frozen":    query(func(v *engine.View) error { v.Freeze(); return get([]byte("k"))(v) }),
		"LSN":                query(func(v *engine.View) error { _, err := v.LSN(); return err }),
		"Counted":            query(func(v *engine.View) error { _, err := v.Counted("n", countSteps); return err }),
		"Scan":               query(func(v *engine.View) error { return v.Scan([]byte("a"), []byte("z"), nil) }),
		"namespace":          func(r *cachingRig) error { return r.Query(context.Background(), 0, &engine.NamespaceQuery{Name: "n"}) },
		"namespaces":         func(r *cachingRig) error { return r.Query(context.Background(), 0, &engine.NamespacesQuery{Limit: 9}) },
		"Restore":            func(r *cachingRig) error { return r.x.Restore() },
		"Dispatch":           func(r *cachingRig) error { _, _, _, err := nextDelivery(r.x); return err },
		"VerifyPairs":        func(r *cachingRig) error { return engine.VerifyPairs(r.execs, func(string) {}) },
		"Verify":             func(r *cachingRig) error { _, err := r.x.Verify(context.Background(), func(string) {}); return err },
		"Audit.Scan":         audit(func(a *engine.Audit) error { return a.Scan(nil, nil, func(_, _ []byte) error { return nil }) }),
		"Audit.UnknownRows":  audit(func(a *engine.Audit) error { return a.UnknownRows("", "") }),
		"Audit.HasTimer":     audit(func(a *engine.Audit) error { _, err := a.HasTimer(5000, 0, []byte("t")); return err }),
		"Tx.Get":             command(func(tx *engine.Tx) { tx.Get([]byte("k")) }),
		"Tx.Get of a cached": command(func(tx *engine.Tx) { tx.Get(cachedKey("x")) }),
		"Tx.Get of a cached, again": func(r *cachingRig) error {
			failing.Store(false)
			r.applied("a") // opens the tables
			failing.Store(true)
			return command(func(tx *engine.Tx) { tx.Get(cachedKey("x")) })(r)
		},
		"Tx.First":       command(func(tx *engine.Tx) { tx.First([]byte("a"), []byte("z")) }),
		"Tx.Insert":      command(func(tx *engine.Tx) { tx.Insert([]byte("k"), nil) }),
		"Tx.DeleteRange": command(func(tx *engine.Tx) { tx.DeleteRange([]byte("a"), []byte("z")) }),
		"Fire":           func(r *cachingRig) error { r.now = 5000; r.applyOnly(0, engine.Fire()); return errNo },
		"settle": func(r *cachingRig) error {
			r.applyOnly(0, engine.Command{Kind: 4, Body: []byte{0, 1, byte(engine.MachineTest), 0, 'l', 99, 0}})
			return errNo
		},
		"Commit after a read": func(r *cachingRig) error {
			func() {
				defer func() { _ = recover() }()
				_ = command(func(tx *engine.Tx) { tx.Get([]byte("k")) })(r)
			}()
			return r.x.Commit()
		},
	} {
		fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if failing.Load() && op.Kind == errorfs.OpFileReadAt {
				return errDisk
			}
			return nil
		}))
		r := newCachingRig(t, fs)
		r.tampered = true                              // it is not verified at the end
		for _, name := range []string{"a", "m", "x"} { // each in a block of its own
			r.put(name, string(make([]byte, 100<<10)))
		}
		r.run(r.m, "n", func(tx *engine.Tx) {
			set(tx, "k")
			tx.Schedule(5000, []byte("t"))
			tx.Send(engine.Message{Command: (&stage{}).cmd(newScripted(engine.MachineTest2), "y"), Lane: 'l'})
		})
		if err := r.db.Flush(); err != nil {
			t.Fatal(err)
		}
		r.restart()
		failing.Store(true)
		err := func() (err error) {
			defer func() {
				if p := recover(); p != nil {
					err, _ = p.(error)
				}
			}()
			return read(r)
		}()
		failing.Store(false)
		if !errors.Is(err, errDisk) {
			t.Errorf("%s: %v, want the error of the disk", name, err)
		}
		_ = r.x.Release() // its iterators return the error again
	}
}

// failing makes reads of TestReadsFail fail.
var failing atomic.Bool

// nextDelivery returns the first step of a dispatch that reads messages.
func nextDelivery(x *engine.Executor) (engine.Step, int64, bool, error) {
	d := x.NewDispatch(0)
	d.Done([]byte{0, 0, 0}, nil, 0)
	d.Done([]byte{1}, nil, 0)
	return d.Next(1000, 1<<40)
}

// TestDispatchOfDamagedMessages: a message that cannot be decoded is an error of the dispatch.
func TestDispatchOfDamagedMessages(t *testing.T) {
	for name, damage := range map[string]func(k, value []byte) (string, []byte){
		"value": func(k, _ []byte) (string, []byte) { return string(k), []byte{0x80} },
		"key":   func(k, value []byte) (string, []byte) { return string(k) + "x", value },
	} {
		s := newStage(t)
		lanes(s, false, "a1")
		k, v := s.row(own + "o")
		damaged, value := damage(k, bytes.Clone(v))
		s.set(damaged, value)
		_, _, ok, err := nextDelivery(s.execs[0])
		if ok || err == nil || !strings.Contains(err.Error(), map[string]string{"value": "malformed record", "key": "outbox row"}[name]) {
			t.Errorf("%s: a step: %t, %v", name, ok, err)
		}
	}
}

// TestFaultsOfQueries: a read that a test makes fail returns its error and nothing else.
func TestFaultsOfQueries(t *testing.T) {
	r := newCachingRig(t, nil)
	r.put("x", "1")
	err := r.answer(engine.Replica{Fault: func() error { return errDisk }}, func(v *engine.View) error {
		value, ok, err := v.Get(cachedKey("x"))
		expect(t, "Get", fmt.Sprintf("%s %t %v", value, ok, err), " false disk failed")
		it, err := v.Iter(nil, []byte("z"))
		if it != nil {
			t.Error("there is an iterator")
		}
		return err
	})
	expect(t, "Iter", err, errDisk)
}
