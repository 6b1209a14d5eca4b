package engine_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a node without a log: executors over one in-memory database, whose entries the test
// creates. It is a Door that applies a command at once, at the rig's time.
type rig struct {
	t     *testing.T
	db    *pebble.DB
	execs []*engine.Executor
	now   int64
	index []uint64
	mu    sync.Mutex // held while an entry is applied and committed
	fail  error      // if set, Propose returns it instead of applying

	durable  uint64 // raft index that counts as durable, 0: all
	tampered bool   // rows changed behind the executors' backs
}

func newRig(t *testing.T, shards int) *rig {
	t.Helper()
	return newRigOf(t, shards, toy.Primitive())
}

func newRigOf(t *testing.T, shards int, primitives ...engine.Primitive) *rig {
	t.Helper()
	return newRigWith(t, engine.Config{Shards: shards, Primitives: primitives}, nil)
}

// newRigWith is newRigOf for executors with further settings. With a file system, every read of a
// flushed row reads a file.
func newRigWith(t *testing.T, c engine.Config, fs vfs.FS) *rig {
	t.Helper()
	opts := &pebble.Options{FS: vfs.NewMem(), DisableWAL: true, Logger: quiet{t}, FormatMajorVersion: pebble.FormatNewest}
	if fs != nil {
		opts.FS, opts.CacheSize = fs, 1
	}
	// Compressing the large values would take longer than the tests that use them.
	opts.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	db, err := pebble.Open("state", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &rig{t: t, db: db, now: 1000, index: make([]uint64, c.Shards)}
	for i := range c.Shards {
		c.Shard, c.DB, c.Strict = engine.ShardID(i), db, true
		r.execs = append(r.execs, engine.NewExecutor(c))
	}
	t.Cleanup(func() {
		for _, x := range r.execs {
			if err := x.Release(); err != nil {
				t.Error(err)
			}
		}
	})
	r.restart()
	t.Cleanup(func() {
		for _, x := range r.execs {
			if !t.Failed() && !r.tampered && x.Pending() == 0 {
				r.verify(x, func(p string) { t.Errorf("Verify reports: %s", p) })
			}
		}
	})
	return r
}

// verify reports inconsistent rows of a shard.
func (r *rig) verify(x *engine.Executor, report func(string)) {
	r.t.Helper()
	if _, err := x.Verify(context.Background(), report); err != nil {
		r.t.Errorf("Verify: %v", err)
	}
}

type quiet struct{ t *testing.T }

func (quiet) Infof(string, ...any)             {}
func (quiet) Errorf(string, ...any)            {}
func (q quiet) Fatalf(format string, a ...any) { q.t.Errorf(format, a...) }

// restart drops the in-memory state.
func (r *rig) restart() {
	r.t.Helper()
	for _, x := range r.execs {
		if err := x.Restore(); err != nil {
			r.t.Fatal(err)
		}
	}
}

// apply applies one entry with the commands, commits it and returns the outcomes. A take may call
// it as soon as another entry wakes it.
func (r *rig) apply(shard engine.ShardID, cmds ...engine.Command) []engine.Outcome {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.applyOnly(shard, cmds...)
	r.commit(shard)
	return out
}

func (r *rig) applyOnly(shard engine.ShardID, cmds ...engine.Command) []engine.Outcome {
	e := engine.Entry{Origin: 1, Sequence: 1, Stamp: r.now}
	for _, c := range cmds {
		e.Commands = append(e.Commands, c.AppendTo(nil))
	}
	x := r.execs[shard]
	_, out := x.Apply(1, x.Applied().Index+1, e.AppendTo(nil), nil)
	return out
}

func (r *rig) commit(shard engine.ShardID) {
	r.t.Helper()
	if err := r.execs[shard].Commit(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) Shards() int { return len(r.execs) }

func (r *rig) Propose(_ context.Context, shard engine.ShardID, cmd engine.Command) ([]byte, error) {
	if r.fail != nil {
		return nil, r.fail
	}
	if err := r.execs[shard].Check(cmd); err != nil {
		return nil, err
	}
	o := r.apply(shard, cmd)[0]
	return o.Result, o.Err
}

func (r *rig) Take(ctx context.Context, shard engine.ShardID, t engine.Take) ([]byte, error) {
	return r.execs[shard].TakeAlone(ctx, t, func() int64 { return r.now },
		func(cmd engine.Command) ([]byte, error) { return r.Propose(ctx, shard, cmd) })
}

func (r *rig) Query(ctx context.Context, shard engine.ShardID, q engine.Query) error {
	return r.execs[shard].Query(ctx, q, engine.Replica{Now: func() int64 { return r.now }})
}

// counter returns the value of a toy counter.
func (r *rig) counter(shard engine.ShardID, namespace, name string) int64 {
	r.t.Helper()
	q := toy.Counter{Namespace: namespace, Name: name}
	if err := r.Query(context.Background(), shard, &q); err != nil {
		r.t.Fatal(err)
	}
	return q.Value
}

// dump returns all rows of a shard, in order.
func (r *rig) dump(shard engine.ShardID) string {
	r.t.Helper()
	lower, upper := engine.Bounds(shard)
	it, err := r.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		r.t.Fatal(err)
	}
	var b bytes.Buffer
	for ok := it.First(); ok; ok = it.Next() {
		fmt.Fprintf(&b, "%x = %x\n", it.Key(), it.Value())
	}
	if err := it.Close(); err != nil {
		r.t.Fatal(err)
	}
	return b.String()
}

// deliver delivers a shard's messages for another until there are no more for now.
func (r *rig) deliver(from, to engine.ShardID) {
	r.t.Helper()
	r.dispatch(r.execs[from].NewDispatch(to), nil)
}

// deliverOnly does not notify the sender.
func (r *rig) deliverOnly(from, to engine.ShardID) {
	r.t.Helper()
	n := 0
	r.dispatch(r.execs[from].NewDispatch(to), func(engine.Step) bool { n++; return n < 4 })
}

// dispatch takes the steps of a Dispatch while goOn, which may be nil, returns true.
func (r *rig) dispatch(d *engine.Dispatch, goOn func(engine.Step) bool) {
	r.t.Helper()
	for {
		step, _, ok, err := d.Next(r.now, cmp.Or(r.durable, 1<<40))
		if err != nil {
			r.t.Fatal(err)
		}
		if !ok || goOn != nil && !goOn(step) {
			return
		}
		o := r.apply(step.Shard, step.Command)[0]
		d.Done(o.Result, o.Err, r.now)
	}
}

var errNothing = errors.New("no result")

// hookedDoor is a rig whose calls the test sees first. A hook that returns an error refuses the
// call. With errNothing, the call is not made and has no result.
type hookedDoor struct {
	*rig
	propose func(shard engine.ShardID, cmd engine.Command) error
	query   func(shard engine.ShardID, q engine.Query) error
}

// serialDoor is a hookedDoor of a simulation: its pauses take no time.
type serialDoor struct {
	hookedDoor
	pauses []time.Duration
	broken error // if set, Pause returns it
}

func (d *serialDoor) Pause(_ context.Context, pause time.Duration) error {
	d.pauses = append(d.pauses, pause)
	return d.broken
}

func (d *hookedDoor) Propose(ctx context.Context, shard engine.ShardID, cmd engine.Command) ([]byte, error) {
	if d.propose != nil {
		if err := d.propose(shard, cmd); errors.Is(err, errNothing) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
	return d.rig.Propose(ctx, shard, cmd)
}

func (d *hookedDoor) Query(ctx context.Context, shard engine.ShardID, q engine.Query) error {
	if d.query != nil {
		if err := d.query(shard, q); err != nil {
			return err
		}
	}
	return d.rig.Query(ctx, shard, q)
}
