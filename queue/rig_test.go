package queue_test

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
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
)

// epoch is the time at which every rig starts, ms.
const epoch = 1_000_000_000_000

// rig is a Door to machines without raft, log or clock: each Propose is one entry, stamped with the rig's time, which only the test moves.
type rig struct {
	t       testing.TB
	db      *pebble.DB
	machine func() engine.Machine
	mu      sync.Mutex // guards everything below
	execs   []*engine.Executor
	now     int64
	log     [][]byte // entries of the first shard
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

func newRig(t testing.TB, shards int) *rig { return newRigOf(t, shards, queue.Primitive().New) }

func newRigOf(t testing.TB, shards int, machine func() engine.Machine) *rig {
	r := &rig{t: t, db: openPebble(t), machine: machine, now: epoch, execs: make([]*engine.Executor, shards)}
	r.restart()
	return r
}

func newExecutor(t testing.TB, db *pebble.DB, shard, shards int, machine func() engine.Machine) *engine.Executor {
	p := queue.Primitive()
	p.New = machine
	x := engine.NewExecutor(engine.Config{
		Shard: engine.ShardID(shard), Shards: shards, DB: db, Primitives: []engine.Primitive{kv.Primitive(), p}, RowCache: engine.NewRowCache(4 << 20), Strict: true,
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
		r.execs[i] = newExecutor(r.t, r.db, i, len(r.execs), r.machine)
	}
}

func (r *rig) store(namespace string) *queue.Store {
	return queue.New(engine.NewRouter(r), namespace, 0)
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
	encoded := e.AppendTo(nil)
	if shard == 0 {
		r.log = append(r.log, encoded)
	}
	_, out := x.Apply(1, x.Applied().Index+1, encoded, nil)
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

// problems returns what the shards report of their own rows.
func (r *rig) problems() (all []string) {
	r.t.Helper()
	for _, x := range r.execs {
		if _, err := x.Verify(context.Background(), func(p string) { all = append(all, p) }); err != nil {
			r.t.Errorf("Verify: %v", err)
		}
	}
	return all
}

// verify fails the test if the rows do not make sense.
func (r *rig) verify() {
	r.t.Helper()
	for _, p := range r.problems() {
		r.t.Errorf("Verify reports: %s", p)
	}
	if r.t.Failed() {
		r.t.FailNow()
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
