package kv_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/check"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/kv"
)

// stepped is a Door to a node that takes its steps when it is asked for something, at a time that only the test moves. Between the
// calls it flushes, compacts, truncates and syncs at random; it may crash there, and then has everything that it has acknowledged.
type stepped struct {
	t       *testing.T
	rng     *rand.Rand
	config  shard.Config
	fs      *vfs.MemFS
	node    *shard.Stepper
	now     int64 // ms since the epoch
	crashes int
}

func newStepped(t *testing.T, rng *rand.Rand, shards int) *stepped {
	d := &stepped{t: t, rng: rng, fs: vfs.NewCrashableMem(), now: epoch}
	one := func(choices ...int) int { return choices[rng.IntN(len(choices))] }
	d.config = shard.Config{
		Dir: "node", Shards: shards, Durability: shard.Durability(rng.IntN(2)), Clock: shard.Clock{Source: d},
		L0Tables: 2, MemTableBytes: uint64(one(64<<10, 256<<10, 4<<20)), SegmentBytes: int64(one(4<<10, 64<<10, 4<<20)),
		CacheBytes: int64(one(1<<10, 1<<20)), KeepEntries: uint64(one(0, 1, 100)),
		Random: randomBytes{rng}, Primitives: []engine.Primitive{kv.Primitive()},
	}
	d.open()
	t.Cleanup(func() {
		if err := d.node.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return d
}

// randomBytes are what a node draws its numbers from.
type randomBytes struct{ rng *rand.Rand }

func (r randomBytes) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r.rng.Uint32())
	}
	return len(p), nil
}

// Wall and Mono make it a clock.
func (d *stepped) Wall() int64         { return d.now }
func (d *stepped) Mono() time.Duration { return time.Duration(d.now-epoch) * time.Millisecond }

// open opens the node and makes it lead its shards.
func (d *stepped) open() {
	d.t.Helper()
	d.config.FS = d.fs
	var err error
	if d.node, err = shard.OpenStepper(d.config); err != nil {
		d.t.Fatalf("OpenStepper: %v", err)
	}
	for id := range engine.ShardID(d.Shards()) {
		d.node.Campaign(id)
		d.until(id, "leads", func() bool { return d.node.State(id).Leads })
		// What is behind everything in the log has seen it applied.
		if _, err := d.Propose(context.Background(), id, engine.Skip(0)); err != nil {
			d.t.Fatalf("shard %d: %v", id, err)
		}
	}
}

// until takes steps until something holds.
func (d *stepped) until(id engine.ShardID, what string, holds func() bool) {
	d.t.Helper()
	for range 1000 {
		if holds() {
			return
		}
		d.node.Step(id, 0)
		if err := errors.Join(d.node.WriteLog(), d.node.Apply(id)); err != nil {
			d.t.Fatalf("shard %d: %v", id, err)
		}
	}
	d.t.Fatalf("shard %d never %s: %+v", id, what, d.node.State(id))
}

// Shards and the other methods make it an engine.Door.
func (d *stepped) Shards() int { return d.node.Shards() }

func (d *stepped) Propose(_ context.Context, id engine.ShardID, cmd engine.Command) ([]byte, error) {
	d.t.Helper()
	d.maintain()
	ticket, err := d.node.Submit(id, cmd)
	if err != nil {
		return nil, err
	}
	var outcome engine.Outcome
	d.until(id, "answers", func() (done bool) {
		outcome, done = ticket.Outcome()
		return done
	})
	return outcome.Result, outcome.Err
}

func (d *stepped) Take(_ context.Context, id engine.ShardID, t engine.Take) ([]byte, error) {
	d.t.Helper()
	d.maintain()
	ticket, err := d.node.Take(context.Background(), id, t)
	if err != nil || ticket == nil {
		return nil, err
	}
	var outcome engine.Outcome
	d.until(id, "answers", func() (done bool) {
		outcome, done = ticket.Outcome()
		return done
	})
	return outcome.Result, outcome.Err
}

func (d *stepped) Query(_ context.Context, id engine.ShardID, q engine.Query) error {
	return d.node.Query(id, q)
}

// maintain does what a node does in the background.
func (d *stepped) maintain() {
	d.t.Helper()
	var err error
	switch d.rng.IntN(100) {
	case 0:
		err = d.node.Flush()
	case 1:
		err = d.node.Compact()
	case 2, 3:
		err = d.node.Truncate()
	case 4, 5:
		err = d.node.SyncLog()
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// fire lets all timers fire that are due.
func (d *stepped) fire() {
	d.t.Helper()
	for id := range engine.ShardID(d.Shards()) {
		d.until(id, "ends to fire timers", func() bool { return d.node.State(id).NextDue > d.now })
	}
}

// restart closes the node, or crashes it: the power fails if it is Sync, and the process ends if it is Async.
func (d *stepped) restart() {
	d.t.Helper()
	if d.rng.IntN(3) == 0 {
		if err := d.node.Close(); err != nil {
			d.t.Fatalf("Close: %v", err)
		}
		d.open()
		return
	}
	kept := 100
	if d.config.Durability == shard.Sync {
		kept = 50 * d.rng.IntN(3)
	}
	left := d.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: d.rng})
	if err := d.node.Crash(); err != nil {
		d.t.Fatalf("Crash: %v", err)
	}
	d.fs = left
	d.crashes++
	d.open()
}

func newSteppedModel(t *testing.T, rng *rand.Rand, shards int, spread bool) *model {
	d := newStepped(t, rng, shards)
	router := engine.NewRouter(d)
	m := &model{spread: spread, store: kv.New(router, "n", 0), now: d.Wall, async: d.config.Durability == shard.Async}
	m.commit = commitThrough(router)
	m.counts = func() engine.Counts {
		if err := check.Replica(d.node); err != nil {
			m.errorf("%v", err)
		}
		info, err := engine.NewNamespaces(router).Get(t.Context(), "n")
		if err != nil {
			t.Fatalf("Get namespace: %v", err)
		}
		return info.Counts
	}
	m.pass = func() {
		step := int64(m.rng.IntN(2000))
		if m.rng.IntN(20) == 0 {
			step = int64(m.rng.IntN(13)) * 3_600_000
		}
		d.now += step
		d.fire()
		m.fired(d.now)
	}
	m.restart = func() {
		before := d.crashes
		d.restart()
		m.total.crashes += d.crashes - before
	}
	if spread {
		if err := engine.NewNamespaces(router).Create(t.Context(), "n", true); err != nil {
			t.Fatal(err)
		}
	}
	return m
}
