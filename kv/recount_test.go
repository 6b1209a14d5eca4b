package kv_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
)

// recounted is a rig whose rows are recounted one by one.
type recounted struct {
	*machinetest.Rig
	t        testing.TB
	versions map[version]kv.Row // every version ever seen by verify
}

type version struct {
	shard    engine.ShardID
	ns       uint32
	revision uint64
}

var primitives = []engine.Primitive{engine.TableOf[kv.Store]()}

func newRig(t testing.TB, shards int) *recounted {
	return &recounted{machinetest.New(t, shards, primitives...), t, make(map[version]kv.Row)}
}

func (r *recounted) store(namespace string) *kv.Store {
	return engine.StoreOf[kv.Store](r.Router(), namespace, 0)
}

// sound fails the test if the only shard's rows are inconsistent.
func (r *recounted) sound(when string) {
	r.t.Helper()
	for _, p := range r.Problems(0) {
		r.t.Errorf("%s: %s", when, p)
	}
}

type keyOf struct {
	ns  uint32
	key string
}

// recount is the state of a shard, counted row by row.
type recount struct {
	present map[keyOf]kv.Row
	history map[keyOf][]kv.Row
	dead    map[keyOf]uint64 // revision in row 'd'
	forget  map[uint32]bool  // row 'q'
	timers  map[string]bool  // "e ns due key" and "f ns"
	counts  map[uint32]*engine.Counts
	errs    []error
}

func (c *recount) errorf(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

func (c *recount) of(ns uint32) *engine.Counts {
	if c.counts[ns] == nil {
		c.counts[ns] = new(engine.Counts)
	}
	return c.counts[ns]
}

func expiryTimer(ns uint32, due int64, k string) string { return fmt.Sprintf("e %d %d %q", ns, due, k) }

func recountRows(all []machinetest.Row) *recount {
	c := &recount{
		present: make(map[keyOf]kv.Row), history: make(map[keyOf][]kv.Row), dead: make(map[keyOf]uint64),
		forget: make(map[uint32]bool), timers: make(map[string]bool), counts: make(map[uint32]*engine.Counts),
	}
	for _, r := range all {
		if r.Machine == 0 && r.Key[0] == 't' {
			due, ns, token := key.Int64(r.Key[1:]), binary.BigEndian.Uint32(r.Key[10:]), r.Key[14:]
			if token[0] == 'e' {
				c.timers[expiryTimer(ns, due, string(token[1:]))] = true
			} else {
				c.timers[fmt.Sprintf("f %d", ns)] = true
			}
		}
		if r.Machine == engine.MachineKV {
			c.add(r)
		}
	}
	c.check()
	return c
}

func (c *recount) add(r machinetest.Row) {
	ns := binary.BigEndian.Uint32(r.Key[1:])
	switch r.Key[0] {
	case 'c', 'h':
		w, err := kv.DecodeRow(r.Value)
		if err != nil {
			c.errorf("row %q: %v", r.Key, err)
		}
		if r.Key[0] == 'c' {
			c.present[keyOf{ns, string(r.Key[5:])}] = w
			return
		}
		k, rest, ok := key.CutString(r.Key[5:])
		if !ok || len(rest) != 8 || ^binary.BigEndian.Uint64(rest) != w.Version {
			c.errorf("history row %q holds version %d", r.Key, w.Version)
		}
		of := keyOf{ns, string(k)}
		c.history[of] = append(c.history[of], w) // newest first
	case 'd':
		_, n := binary.Varint(r.Value)
		c.dead[keyOf{ns, string(r.Value[n:])}] = binary.BigEndian.Uint64(r.Key[5:])
	case 'q':
		c.forget[ns] = true
	case 'w':
	default:
		c.errorf("unknown row %q", r.Key)
	}
}

// check compares the kinds of rows with each other.
func (c *recount) check() {
	timers := 0
	for k, w := range c.present {
		counts := c.of(k.ns)
		if w.Tombstone() {
			counts.DeadKeys++
			if c.dead[k] != w.Revision {
				c.errorf("tombstone of %q has revision %d, its row 'd' %d", k.key, w.Revision, c.dead[k])
			}
		} else {
			counts.Keys++
			counts.KeyBytes += int64(len(k.key) + len(w.Value))
		}
		if w.Expires() {
			timers++
			if !c.timers[expiryTimer(k.ns, w.ExpiresAt, k.key)] {
				c.errorf("key %q expires at %d without a timer", k.key, w.ExpiresAt)
			}
		}
		c.checkHistory(k, w)
	}
	for k := range c.history {
		if _, ok := c.present[k]; !ok {
			c.errorf("history of %q without a present row", k.key)
		}
	}
	for k := range c.dead {
		if !c.present[k].Tombstone() {
			c.errorf("row 'd' of %q, which is no tombstone", k.key)
		}
	}
	for ns := range c.counts {
		if c.counts[ns].DeadKeys > 0 && !c.forget[ns] {
			c.errorf("namespace %d has tombstones and no row 'q'", ns)
		}
	}
	for ns := range c.forget {
		timers++
		if !c.timers[fmt.Sprintf("f %d", ns)] {
			c.errorf("namespace %d has a row 'q' and no timer", ns)
		}
	}
	if timers != len(c.timers) {
		c.errorf("there are %d timers, the keys need %d: %v", len(c.timers), timers, c.timers)
	}
}

// checkHistory checks that a key's versions form a chain without gaps that ends with the first or
// with the 64th.
func (c *recount) checkHistory(k keyOf, w kv.Row) {
	older := c.history[k]
	if want := min(w.Version, kv.MaxVersions) - 1; uint64(len(older)) != want {
		c.errorf("key %q at version %d has %d earlier ones, want %d", k.key, w.Version, len(older), want)
	}
	for _, h := range older {
		if h.Version != w.Version-1 || h.Revision != w.Previous || h.Revision >= w.Revision || h.UpdatedAt > w.UpdatedAt {
			c.errorf("key %q: version %d at revision %d does not follow version %d at revision %d", k.key, w.Version, w.Revision, h.Version,
				h.Revision)
		}
		w = h
	}
}

// verify compares the counts of every shard with a recount. It recounts sets and deletes from the
// versions it has seen, so call it before any version leaves the history.
func (r *recounted) verify() {
	r.t.Helper()
	for shard := range r.Shards() {
		id := engine.ShardID(shard)
		c := recountRows(r.Rows(id))
		for k, w := range c.present {
			r.versions[version{id, k.ns, w.Revision}] = w
			for _, h := range c.history[k] {
				r.versions[version{id, k.ns, h.Revision}] = h
			}
		}
		for v, w := range r.versions {
			switch {
			case v.shard != id:
			case !w.Tombstone():
				c.of(v.ns).KeySets++
			case !w.Expired():
				c.of(v.ns).KeyDeletes++
			}
		}
		r.compareCounts(id, c)
		for _, p := range r.Problems(id) {
			r.t.Errorf("Verify reports: %s", p)
		}
		for _, err := range c.errs {
			r.t.Errorf("shard %d: %v", shard, err)
		}
		if r.t.Failed() {
			r.t.FailNow()
		}
	}
}

func (r *recounted) compareCounts(shard engine.ShardID, c *recount) {
	r.t.Helper()
	q := engine.NamespacesQuery{Limit: 1000}
	if err := r.Query(context.Background(), shard, &q); err != nil {
		r.t.Fatalf("query namespaces: %v", err)
	}
	byName := make(map[string]uint32)
	for _, row := range r.Rows(shard) {
		if row.Machine == 0 && row.Key[0] == 'n' {
			n, _ := binary.Uvarint(row.Value[1:])
			byName[string(row.Value[2:2+n])] = binary.BigEndian.Uint32(row.Key[1:])
		}
	}
	for _, info := range q.Infos {
		want := c.of(byName[info.Name])
		got := info.Counts
		if got.KeyReads = 0; got != *want {
			r.t.Errorf("shard %d, namespace %q: counts are %+v, a recount gives %+v", shard, info.Name, got, *want)
		}
	}
}
