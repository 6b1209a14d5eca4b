package kv_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
)

// newFilledRig has keys of every kind in two namespaces; "n" is number 0. They have one version or
// more than the history keeps, and some expire, are deleted, expired or forgotten.
func newFilledRig(t *testing.T) *recounted {
	t.Helper()
	r := newRig(t, 1)
	s, other, ctx := r.store("n"), r.store("other"), t.Context()
	must(s.Put(ctx, "forgotten", []byte("x")))
	must(s.Delete(ctx, "forgotten"))
	r.Pass(kv.TombstoneMillis)
	r.Fire()
	for i := range kv.MaxVersions + 10 {
		must(s.Put(ctx, "many", fmt.Append(nil, i)))
	}
	must(s.Put(ctx, "one", []byte("1")))
	must(s.Put(ctx, "ttl", []byte("short"), kv.TTL(time.Hour)))
	must(s.Put(ctx, "ended", []byte("short"), kv.TTL(time.Minute)))
	must(s.Put(ctx, "gone", []byte("x")))
	must(s.Delete(ctx, "gone"))
	must(s.Put(ctx, "back", []byte("x")))
	must(s.Delete(ctx, "back"))
	must(s.Put(ctx, "back\x00again", []byte("y")))
	must(s.Put(ctx, "back", []byte("y")))
	must(other.Incr(ctx, "n", 5))
	r.Pass(time.Minute.Milliseconds())
	r.Fire()
	r.sound("before anything is changed")
	return r
}

// tamperer changes rows without the machine.
type tamperer struct {
	t *testing.T
	r *recounted
}

func newTamperer(t *testing.T, r *recounted) tamperer {
	r.Distrust()
	return tamperer{t, r}
}

const (
	engineRow = "\x00\x00\x00"
	kvRow     = "\x00\x00\x01"
	inN       = "\x00\x00\x00\x00" // namespace 0
)

func (w tamperer) set(row string, value []byte) {
	w.t.Helper()
	if err := w.r.DB().Set([]byte(row), value, pebble.NoSync); err != nil {
		w.t.Fatal(err)
	}
}

func (w tamperer) delete(row string) {
	w.t.Helper()
	w.get(row)
	if err := w.r.DB().Delete([]byte(row), pebble.NoSync); err != nil {
		w.t.Fatal(err)
	}
}

// get returns a row that must exist.
func (w tamperer) get(row string) []byte {
	w.t.Helper()
	value, closer, err := w.r.DB().Get([]byte(row))
	if err != nil {
		w.t.Fatalf("row %q: %v", row, err)
	}
	defer closer.Close()
	return bytes.Clone(value)
}

func current(k string) string { return kvRow + "c" + inN + k }

func history(k string, version uint64) string {
	return kvRow + "h" + inN + string(key.AppendUint64(key.AppendString(nil, []byte(k)), ^version))
}

func (w tamperer) dead(k string) string {
	return kvRow + "d" + inN + string(key.AppendUint64(nil, w.version(current(k)).Revision))
}

func (w tamperer) expiryTimer(k string) string {
	due := key.AppendInt64(nil, w.version(current(k)).ExpiresAt)
	return engineRow + "t" + string(due) + "\x01" + inN + "e" + k
}

func (w tamperer) version(row string) kv.Row {
	w.t.Helper()
	v, err := kv.DecodeRow(w.get(row))
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

func (w tamperer) change(row string, f func(*kv.Row)) {
	w.t.Helper()
	v := w.version(row)
	f(&v)
	w.set(row, v.Encode())
}

// timer returns the only timer row whose key has this suffix.
func (w tamperer) timer(end string) string {
	w.t.Helper()
	for _, r := range w.r.Rows(0) {
		if r.Machine == 0 && r.Key[0] == 't' && strings.HasSuffix(string(r.Key), end) {
			return engineRow + string(r.Key)
		}
	}
	w.t.Fatalf("no timer ends with %q", end)
	return ""
}

func TestVerifyReports(t *testing.T) {
	counter := func(w tamperer, from, to string) {
		row := engineRow + "n" + inN
		changed := bytes.Replace(w.get(row), []byte(from), []byte(to), 1)
		if bytes.Equal(changed, w.get(row)) {
			w.t.Fatalf("namespace row %x lacks %x", changed, from)
		}
		w.set(row, changed)
	}
	for name, c := range map[string]struct {
		tamper func(tamperer)
		want   string
	}{
		"lost key":           {func(w tamperer) { w.delete(current("one")) }, `namespace "n": its row counts 5 keys, found 4`},
		"key of nobody":      {func(w tamperer) { w.set(current("two"), w.get(current("one"))) }, `revision`},
		"lost value":         {func(w tamperer) { w.change(current("one"), func(v *kv.Row) { v.Value = nil }) }, "bytes, found"},
		"key counter":        {func(w tamperer) { counter(w, "\x0a\x44", "\x0c\x44") }, `its row counts 6 keys, found 5`},
		"byte counter":       {func(w tamperer) { counter(w, "\x0a\x44", "\x0a\x46") }, `its row counts 35 bytes, found 34`},
		"no row but garbage": {func(w tamperer) { w.set(current("one"), []byte("garbage")) }, `key "one": kv row`},
		"cut row":            {func(w tamperer) { w.set(current("one"), w.get(current("one"))[:4]) }, `key "one": kv row`},
		"flags":              {func(w tamperer) { w.change(current("one"), func(v *kv.Row) { v.Flags = 8 }) }, "has flags 0x8"},
		"tombstone with a value": {func(w tamperer) { w.change(current("one"), func(v *kv.Row) { v.Flags = 1 }) },
			"has flags 0x1 and 1 bytes"},
		"expired without a grave": {func(w tamperer) { w.change(current("one"), func(v *kv.Row) { v.Flags = 4 }) }, "has flags 0x4"},
		"version 0":               {func(w tamperer) { w.change(current("one"), func(v *kv.Row) { v.Version = 0 }) }, "has version 0"},
		"revision ahead": {func(w tamperer) { w.change(current("one"), func(v *kv.Row) { v.Revision = 1 << 40 }) },
			"has revision 1099511627776, the shard's last LSN is"},
		"revision twice": {func(w tamperer) {
			w.change(current("one"), func(v *kv.Row) { v.Revision = w.version(current("many")).Revision })
		}, "two versions have revision"},
		"term ahead": {func(w tamperer) { w.change(current("one"), func(v *kv.Row) { v.Term = 9 }) }, "is of term 9"},
		"time ahead": {func(w tamperer) { w.change(current("one"), func(v *kv.Row) { v.UpdatedAt = 1 << 60 }) },
			"after all there is"},
		"predecessor":    {func(w tamperer) { w.change(current("one"), func(v *kv.Row) { v.Previous = 3 }) }, "follows revision 3"},
		"gap in history": {func(w tamperer) { w.delete(history("many", 50)) }, "version 49 comes before version 51"},
		"history too short": {func(w tamperer) { w.delete(history("many", 11)) },
			"version 12 is the oldest of its history, which has to reach back to 11"},
		"history too long": {func(w tamperer) { w.set(history("many", 10), w.get(history("many", 11))) },
			"the row of version 10 holds version 11"},
		"history lost": {func(w tamperer) { w.delete(history("gone", 1)) }, `key "gone": version 2 is the oldest`},
		"history mixed up": {func(w tamperer) { w.set(history("many", 50), w.get(history("many", 49))) },
			"the row of version 50 holds version 49"},
		"history rewritten": {func(w tamperer) { w.change(history("many", 50), func(v *kv.Row) { v.Revision += 100 }) },
			"but the next one follows revision"},
		"history garbage": {func(w tamperer) { w.set(history("many", 50), []byte{7}) }, "version 50: kv row"},
		"history of nobody": {func(w tamperer) { w.set(history("nobody", 1), w.get(history("many", 50))) },
			"is an earlier version of a key that does not exist"},
		"history of the last": {func(w tamperer) { w.set(history("zzz", 1), w.get(history("many", 50))) },
			"is an earlier version of a key that does not exist"},
		"history behind all keys": {func(w tamperer) {
			w.set(strings.Replace(history("a", 1), inN, "\x00\x00\x00\x09", 1), w.get(history("many", 50)))
		}, "is an earlier version of a key that does not exist"},
		"version beyond the limit": {func(w tamperer) {
			v := w.version(history("many", 11))
			v.Version, v.Revision, v.Previous = 10, v.Previous, v.Previous-1
			w.set(history("many", 10), v.Encode())
		}, "still has version 10"},
		"history with a long key": {func(w tamperer) { w.set(history("many", 50)+"x", w.get(history("many", 50))) },
			`has an earlier version with a row key that ends with`},
		"history written later": {func(w tamperer) {
			w.change(history("many", 50), func(v *kv.Row) { v.UpdatedAt++ })
		}, "version 50 was written at"},
		"tombstone with a short key": {func(w tamperer) { w.set(kvRow+"d"+inN+"x", []byte("\x00one")) }, "invalid tombstone row"},
		"expiry without a timer":     {func(w tamperer) { w.delete(w.expiryTimer("ttl")) }, `key "ttl": expires at`},
		"expiry changed": {func(w tamperer) { w.change(current("ttl"), func(v *kv.Row) { v.ExpiresAt++ }) },
			"but has no timer"},
		"timer without expiry": {func(w tamperer) { w.set(w.expiryTimer("ttl")+"x", nil) }, `key "ttlx": has a timer to expire at`},
		"timer at another time": {func(w tamperer) {
			k := []byte(w.expiryTimer("ttl"))
			k[len(engineRow)+8]++ // the last byte of the time
			w.set(string(k), nil)
		}, `key "ttl": has a timer to expire at`},
		"timer of no meaning": {func(w tamperer) { w.set(engineRow+"t\xff\xff\xff\xff\xff\xff\xff\xff\x01"+inN+"z", nil) },
			`token "z"`},
		"tombstone not queued": {func(w tamperer) { w.delete(w.dead("gone")) }, "is not queued to be forgotten"},
		"tombstone queued twice": {func(w tamperer) {
			w.set(kvRow+"d"+inN+"\x00\x00\x00\x00\x00\x00\x00\x63", w.get(w.dead("gone")))
		}, "is queued to be forgotten as deleted at revision 99"},
		"living key queued": {func(w tamperer) {
			w.set(kvRow+"d"+inN+string(key.AppendUint64(nil, w.version(current("one")).Revision)), []byte("\x00one"))
		}, `key "one": is queued to be forgotten`},
		"no timer to forget":    {func(w tamperer) { w.delete(w.timer("\x01" + inN + "f")) }, "0 timers to forget its 2 deleted keys"},
		"no mark of that timer": {func(w tamperer) { w.delete(kvRow + "q" + inN) }, "timer row: false"},
		"mark with a value":     {func(w tamperer) { w.set(kvRow+"q"+inN, []byte("x")) }, "invalid timer row"},
		"forgotten out of order": {func(w tamperer) { w.set(kvRow+"w"+inN, binary.AppendUvarint(nil, 95)) },
			"was left when those up to 95 were forgotten"},
		"forgotten ahead": {func(w tamperer) { w.set(kvRow+"w"+inN, binary.AppendUvarint(nil, 1<<40)) },
			"tombstones up to revision 1099511627776"},
		"forgotten garbage":    {func(w tamperer) { w.set(kvRow+"w"+inN, []byte{0x80}) }, "of forgotten tombstones"},
		"unknown kind":         {func(w tamperer) { w.set(kvRow+"e"+inN+"x", nil) }, "is of an unknown kind"},
		"unknown kind at last": {func(w tamperer) { w.set(kvRow+"\xff\xff\xff", nil) }, "is of an unknown kind"},
		"unknown namespace": {func(w tamperer) { w.set(kvRow+"c\x00\x00\x00\x09k", w.get(current("one"))) },
			`namespace 9, key "k": the shard has 2 namespaces`},
		"empty key": {func(w tamperer) { w.set(current(""), w.get(current("one"))) }, "has a missing or too long key"},
		"long key": {func(w tamperer) { w.set(current(strings.Repeat("k", 4097)), w.get(current("one"))) },
			"has a missing or too long key"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFilledRig(t)
			c.tamper(newTamperer(t, r))
			found := r.Problems(0)
			if !strings.Contains(strings.Join(found, "\n"), c.want) {
				t.Errorf("Verify reports\n%s\nwant %q", strings.Join(found, "\n"), c.want)
			}
		})
	}
}

// TestVerifyFarApart has revisions that do not fit into one window of the search for duplicates.
func TestVerifyFarApart(t *testing.T) {
	r := newFilledRig(t)
	r.Entry(0, engine.Skip(3<<30))
	must(r.store("n").Put(t.Context(), "far", []byte("1")))
	must(r.store("n").Put(t.Context(), "further", []byte("2")))
	r.sound("before anything is changed")
	w := newTamperer(t, r)
	w.change(current("further"), func(v *kv.Row) { v.Revision = w.version(current("far")).Revision })
	found := r.Problems(0)
	if want := "shard 0: kv: two versions have revision 3221225473"; !slices.Contains(found, want) {
		t.Errorf("Verify reports %q, want %q", found, want)
	}
}

// TestVerifyReportsWhatMemoryMissed changes a row that Apply would look up in the tables only.
func TestVerifyReportsWhatMemoryMissed(t *testing.T) {
	r := newFilledRig(t)
	if err := r.DB().Flush(); err != nil {
		t.Fatal(err)
	}
	r.Executor(0).Flushed()
	r.sound("where it looks is older than the flush")
	r.Executor(0).Merged()
	r.sound("before anything is changed")
	w := newTamperer(t, r)
	w.change(current("one"), func(v *kv.Row) { v.Value = []byte("2") })
	w.delete(current("many"))
	found := r.Problems(0)
	for _, k := range []string{"one", "many"} {
		if want := fmt.Sprintf("shard 0: row %x has changed since the last flush, but memory does not record that",
			current(k)); !slices.Contains(found, want) {
			t.Errorf("Verify reports %q, want %q", found, want)
		}
	}
}

// TestOldTablesGo: tables in which Apply looks up rows are kept after a merge until Merged is
// called, or until there are no more lookups.
func TestOldTablesGo(t *testing.T) {
	r := newFilledRig(t)
	x := r.Executor(0)
	put := func(k string) {
		t.Helper()
		must(r.store("n").Put(t.Context(), k, []byte("1")))
		if err := r.DB().Flush(); err != nil {
			t.Fatal(err)
		}
		x.Flushed()
	}
	merge := func() {
		t.Helper()
		if err := r.DB().Compact(t.Context(), []byte{0}, []byte{0xff}, false); err != nil {
			t.Fatal(err)
		}
	}
	kept := func(want bool) {
		t.Helper()
		again := time.NewTicker(time.Millisecond)
		defer again.Stop()
		patience := time.After(10 * time.Second)
		for {
			n := r.DB().Metrics().Table.ZombieCount
			if n > 0 == want {
				return
			}
			select {
			case <-again.C: // Pebble reads tables too, for its statistics
			case <-patience:
				t.Fatalf("%d old tables are kept, want some: %v", n, want)
			}
		}
	}
	release := func() {
		t.Helper()
		if err := x.ReleaseOld(); err != nil {
			t.Fatal(err)
		}
	}
	put("a")
	x.Merged()
	put("b")
	merge()
	release()
	kept(true) // in use, and not yet reported as old
	x.Merged()
	release()
	kept(false)
	put("c")
	put("d")
	merge()
	release()
	kept(true)
	release()
	kept(false) // unused since then
	for _, k := range []string{"a", "b", "c", "d"} {
		if w := must(r.store("n").Put(t.Context(), k, []byte("2"))); w.Version != 2 {
			t.Errorf("%s has version %d after the second put, want 2", k, w.Version)
		}
	}
}

// TestVerifyReportsStaleMemory changes rows that are cached in memory.
func TestVerifyReportsStaleMemory(t *testing.T) {
	r := newRig(t, 1)
	r.Rig = machinetest.Open(t, machinetest.Config{Shards: 1, Primitives: primitives, CacheBytes: 16 << 20})
	s := r.store("n")
	for _, k := range []string{"changed", "removed"} {
		for i := range 3 {
			must(s.Put(t.Context(), k, fmt.Append(nil, i)))
			must(s.Get(t.Context(), k))
		}
	}
	r.sound("before anything is changed")
	w := newTamperer(t, r)
	w.change(current("changed"), func(v *kv.Row) { v.Value = []byte("x") })
	w.delete(current("removed"))
	found := r.Problems(0)
	for _, want := range []string{
		fmt.Sprintf("shard 0: row %x differs between memory and state", current("changed")),
		fmt.Sprintf("shard 0: row %x is in memory, but not in the state", current("removed")),
	} {
		if !slices.Contains(found, want) {
			t.Errorf("Verify reports %q, want %q", found, want)
		}
	}
}

// TestDamageIsReported: a row that does not decode makes every read of it fail, instead of looking
// like a missing key.
func TestDamageIsReported(t *testing.T) {
	second := func(_ any, err error) error { return err }
	for name, c := range map[string]struct {
		row  string
		read func(ctx context.Context, s *kv.Store) error
	}{
		"Get":     {current("one"), func(ctx context.Context, s *kv.Store) error { return second(s.Get(ctx, "one")) }},
		"GetMany": {current("one"), func(ctx context.Context, s *kv.Store) error { return second(s.GetMany(ctx, "one")) }},
		"Exists":  {current("one"), func(ctx context.Context, s *kv.Store) error { return second(s.Exists(ctx, "one")) }},
		"Page":    {current("one"), func(ctx context.Context, s *kv.Store) error { return second(s.Page(ctx)) }},
		"History": {current("many"), func(ctx context.Context, s *kv.Store) error {
			return second(engine.Collect(s.History("many").All(ctx)))
		}},
		"earlier versions": {history("many", 50), func(ctx context.Context, s *kv.Store) error {
			return second(engine.Collect(s.History("many").All(ctx)))
		}},
		"WaitChange": {current("one"),
			func(ctx context.Context, s *kv.Store) error { return second(s.WaitChange(ctx, "one", 0)) }},
		"Watch": {current("many"),
			func(ctx context.Context, s *kv.Store) error { return machinetest.LastError(s.Watch(ctx, "many")) }},
		"Watch of earlier versions": {history("many", 50), nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFilledRig(t)
			w := newTamperer(t, r)
			w.set(c.row, []byte{7})
			if c.read == nil {
				from := w.version(history("many", 45)).Revision
				c.read = func(ctx context.Context, s *kv.Store) error {
					return machinetest.LastError(s.Watch(ctx, "many", kv.FromRevision(from)))
				}
			}
			if err := c.read(t.Context(), r.store("n")); err == nil || !strings.Contains(err.Error(), "kv row") {
				t.Errorf("%s of a damaged row: %v", name, err)
			}
		})
	}
}

// TestPageOfTwoShards: a page has the keys of all shards in order, even with only two shards.
func TestPageOfTwoShards(t *testing.T) {
	for shards := 1; shards <= 3; shards++ {
		r := newRig(t, shards)
		if err := engine.NewNamespaces(r.Router()).Create(t.Context(), "n", true); err != nil {
			t.Fatal(err)
		}
		var want, got []string
		for i := range 30 {
			want = append(want, fmt.Sprintf("k%02d", i))
			must(r.store("n").Put(t.Context(), want[i], []byte("x")))
		}
		for _, limit := range []int{100, 7} {
			got = got[:0]
			for it, err := range r.store("n").All(t.Context(), kv.Limit(limit)) {
				got = append(got, must(it, err).Key)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d shards, %d keys a page: %q, want %q", shards, limit, got, want)
			}
		}
	}
}
