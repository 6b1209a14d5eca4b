package kv_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/kv"
)

// epoch is the time at which every rig starts, ms.
const epoch = 1_000_000_000_000

// rig is a Door to machines without raft, log or clock: each Propose is one entry, stamped with the rig's time, which
// only the test moves.
type rig struct {
	t        testing.TB
	db       *pebble.DB
	mu       sync.Mutex // guards everything below
	execs    []*engine.Executor
	now      int64
	term     uint64
	versions map[version]kv.Row // every version ever seen by verify
}

type version struct {
	shard    engine.ShardID
	ns       uint32
	revision uint64
}

type quiet struct{ t testing.TB }

func (quiet) Infof(string, ...any)           {}
func (q quiet) Errorf(f string, args ...any) { q.t.Logf(f, args...) }
func (q quiet) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }
func openPebble(t testing.TB) (db *pebble.DB) {
	db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), DisableWAL: true, Logger: quiet{t}})
	if err != nil {
		t.Fatalf("open pebble: %v", err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close pebble: %v", err)
		}
	})
	return db
}

func newRig(t testing.TB, shards int) *rig {
	r := &rig{t: t, db: openPebble(t), now: epoch, term: 1, versions: make(map[version]kv.Row)}
	r.execs = make([]*engine.Executor, shards)
	r.restart()
	return r
}

func newExecutor(t testing.TB, db *pebble.DB, shard, shards int) *engine.Executor {
	x := engine.NewExecutor(engine.Config{
		Shard: engine.ShardID(shard), Shards: shards, DB: db, Primitives: []engine.Primitive{kv.Primitive()}, Strict: true,
	})
	if err := x.Restore(); err != nil {
		t.Fatalf("Restore: %v", err)
	}
	t.Cleanup(func() {
		if err := x.Release(); err != nil {
			t.Errorf("Release: %v", err)
		}
	})
	return x
}

// restart gives all shards new executors on the same state.
func (r *rig) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.execs {
		r.execs[i] = newExecutor(r.t, r.db, i, len(r.execs))
	}
}

func (r *rig) store(namespace string) *kv.Store { return kv.New(engine.NewRouter(r), namespace, 0) }

func (r *rig) txn(namespace string) *engine.Txn {
	return engine.NewTxn(engine.NewRouter(r), namespace, kv.DefaultMaxValueBytes)
}

// Shards is of engine.Door.
func (r *rig) Shards() int { return len(r.execs) }

// Propose is of engine.Door.
func (r *rig) Propose(_ context.Context, shard engine.ShardID, cmd engine.Command) ([]byte, error) {
	out := r.entry(shard, cmd)
	return out[0].Result, out[0].Err
}

// entry applies one log entry of several commands.
func (r *rig) entry(shard engine.ShardID, cmds ...engine.Command) []engine.Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.execs[shard]
	e := engine.Entry{Stamp: r.now}
	for _, c := range cmds {
		if err := x.Check(c); err != nil {
			return []engine.Outcome{{Err: err}}
		}
		e.Commands = append(e.Commands, c.AppendTo(nil))
	}
	_, out := x.Apply(r.term, x.Applied().Index+1, e.AppendTo(nil), nil)
	if err := x.Commit(); err != nil {
		r.t.Fatalf("Commit: %v", err)
	}
	return out
}

// Take is of engine.Door.
func (r *rig) Take(ctx context.Context, shard engine.ShardID, t engine.Take) ([]byte, error) {
	r.mu.Lock()
	x := r.execs[shard]
	r.mu.Unlock()
	return x.TakeAlone(ctx, t, r.time, func(cmd engine.Command) ([]byte, error) { return r.Propose(ctx, shard, cmd) })
}

// Query is of engine.Door.
func (r *rig) Query(ctx context.Context, shard engine.ShardID, q engine.Query) error {
	r.mu.Lock()
	x := r.execs[shard]
	r.mu.Unlock()
	return x.Query(ctx, q, engine.Replica{Now: r.time})
}

func (r *rig) time() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *rig) advance(millis int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now += millis
}

// fire does what the leaders do: it proposes Fire while a timer is due. It returns how many timers were handed out.
func (r *rig) fire() (n uint64) {
	for shard, x := range r.execs {
		for x.NextDue() <= r.time() {
			before := x.NextDue()
			out := r.entry(engine.ShardID(shard), engine.Fire())
			if out[0].Err != nil {
				r.t.Fatalf("Fire: %v", out[0].Err)
			}
			fired, _ := binary.Uvarint(out[0].Result)
			if n += fired; fired == 0 && x.NextDue() <= before {
				r.t.Fatalf("Fire at %d handed out nothing and left the next due time at %d", r.time()-epoch, before-epoch)
			}
		}
	}
	return n
}

// problems asks an executor what is wrong with its rows.
func problems(t testing.TB, x *engine.Executor, report func(string)) {
	t.Helper()
	if _, err := x.Verify(t.Context(), report); err != nil {
		t.Errorf("Verify: %v", err)
	}
}

// stateRow is a row of the state without shard and machine.
type stateRow struct {
	machine    byte
	key, value []byte
}

func rows(t testing.TB, db *pebble.DB, shard engine.ShardID) []stateRow {
	lower, upper := engine.Bounds(shard)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		t.Fatalf("iterate over the state: %v", err)
	}
	var all []stateRow
	for ok := it.First(); ok; ok = it.Next() {
		all = append(all, stateRow{it.Key()[2], bytes.Clone(it.Key()[3:]), bytes.Clone(it.Value())})
	}
	if err := it.Close(); err != nil {
		t.Fatalf("iterate over the state: %v", err)
	}
	return all
}

type keyOf struct {
	ns  uint32
	key string
}

// census is what the rows of a shard say when they are counted one by one.
type census struct {
	present map[keyOf]kv.Row
	history map[keyOf][]kv.Row
	dead    map[keyOf]uint64 // revision in the row 'd'
	forget  map[uint32]bool  // row 'q'
	timers  map[string]bool  // "e ns due key" and "f ns"
	counts  map[uint32]*engine.Counts
	errs    []error
}

func (c *census) errorf(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

func (c *census) of(ns uint32) *engine.Counts {
	if c.counts[ns] == nil {
		c.counts[ns] = new(engine.Counts)
	}
	return c.counts[ns]
}

func expiryTimer(ns uint32, due int64, k string) string { return fmt.Sprintf("e %d %d %q", ns, due, k) }

func takeCensus(all []stateRow) *census {
	c := &census{
		present: make(map[keyOf]kv.Row), history: make(map[keyOf][]kv.Row), dead: make(map[keyOf]uint64),
		forget: make(map[uint32]bool), timers: make(map[string]bool), counts: make(map[uint32]*engine.Counts),
	}
	for _, r := range all {
		if r.machine == 0 && r.key[0] == 't' {
			due, ns, token := key.Int64(r.key[1:]), binary.BigEndian.Uint32(r.key[10:]), r.key[14:]
			if token[0] == 'e' {
				c.timers[expiryTimer(ns, due, string(token[1:]))] = true
			} else {
				c.timers[fmt.Sprintf("f %d", ns)] = true
			}
		}
		if r.machine == byte(engine.MachineKV) {
			c.add(r)
		}
	}
	c.check()
	return c
}

func (c *census) add(r stateRow) {
	ns := binary.BigEndian.Uint32(r.key[1:])
	switch r.key[0] {
	case 'c', 'h':
		w, err := kv.DecodeRow(r.value)
		if err != nil {
			c.errorf("row %q: %v", r.key, err)
		}
		if r.key[0] == 'c' {
			c.present[keyOf{ns, string(r.key[5:])}] = w
			return
		}
		k, rest, ok := key.CutString(r.key[5:])
		if !ok || len(rest) != 8 || ^binary.BigEndian.Uint64(rest) != w.Version {
			c.errorf("history row %q holds version %d", r.key, w.Version)
		}
		of := keyOf{ns, string(k)}
		c.history[of] = append(c.history[of], w) // newest first
	case 'd':
		_, n := binary.Varint(r.value)
		c.dead[keyOf{ns, string(r.value[n:])}] = binary.BigEndian.Uint64(r.key[5:])
	case 'q':
		c.forget[ns] = true
	case 'w':
	default:
		c.errorf("unknown row %q", r.key)
	}
}

// check compares the kinds of rows with one another.
func (c *census) check() {
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

// checkHistory says whether the versions of a key are a chain without gaps that ends with the first or with the 64th.
func (c *census) checkHistory(k keyOf, w kv.Row) {
	older := c.history[k]
	if want := min(w.Version, kv.MaxVersions) - 1; uint64(len(older)) != want {
		c.errorf("key %q at version %d has %d earlier ones, want %d", k.key, w.Version, len(older), want)
	}
	for _, h := range older {
		if h.Version != w.Version-1 || h.Revision != w.Previous || h.Revision >= w.Revision || h.UpdatedAt > w.UpdatedAt {
			c.errorf("key %q: version %d at revision %d does not follow version %d at revision %d", k.key, w.Version, w.Revision, h.Version, h.Revision)
		}
		w = h
	}
}

// verify compares the counts of every shard with a recount. Sets and deletes are recounted from the versions that verify
// has seen, so it has to be called before any version leaves the history.
func (r *rig) verify() {
	r.t.Helper()
	for shard := range r.execs {
		id := engine.ShardID(shard)
		c := takeCensus(rows(r.t, r.db, id))
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
		problems(r.t, r.execs[shard], func(p string) { r.t.Errorf("Verify reports: %s", p) })
		for _, err := range c.errs {
			r.t.Errorf("shard %d: %v", shard, err)
		}
		if r.t.Failed() {
			r.t.FailNow()
		}
	}
}

func (r *rig) compareCounts(shard engine.ShardID, c *census) {
	r.t.Helper()
	q := engine.NamespacesQuery{Limit: 1000}
	if err := r.Query(context.Background(), shard, &q); err != nil {
		r.t.Fatalf("query namespaces: %v", err)
	}
	byName := make(map[string]uint32)
	for _, row := range rows(r.t, r.db, shard) {
		if row.machine == 0 && row.key[0] == 'n' {
			n, _ := binary.Uvarint(row.value[1:])
			byName[string(row.value[2:2+n])] = binary.BigEndian.Uint32(row.key[1:])
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
