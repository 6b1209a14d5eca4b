package machinetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
)

// Stepped is an engine.Door to a node that takes its steps only when it is called, with a clock
// that only the test advances. Between the calls it flushes, compacts, truncates and syncs at
// random. It may crash there, and must then have everything that it acknowledged.
type Stepped struct {
	t      testing.TB
	rng    *rand.Rand
	config shard.Config
	fs     *vfs.MemFS
	node   *shard.Stepper
	now    int64 // ms since the epoch

	restarts, crashes int
}

// NewStepped returns a node of a random configuration with a number of shards, each with the
// primitives.
func NewStepped(t testing.TB, rng *rand.Rand, shards int, primitives ...engine.Primitive) *Stepped {
	t.Helper()
	d := &Stepped{t: t, rng: rng, fs: vfs.NewCrashableMem(), now: Epoch}
	one := func(choices ...int) int { return choices[rng.IntN(len(choices))] }
	d.config = shard.Config{
		Dir: "node", Shards: shards, Durability: shard.Durability(rng.IntN(2)), Clock: shard.Clock{Source: d},
		L0Tables: 2, MemTableBytes: uint64(one(64<<10, 256<<10, 4<<20)), SegmentBytes: int64(one(4<<10, 64<<10, 4<<20)),
		CacheBytes: int64(one(1<<10, 1<<20)), KeepEntries: uint64(one(0, 1, 100)),
		Random: randomBytes{rng}, Primitives: primitives,
	}
	d.open()
	t.Cleanup(func() {
		if err := d.node.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return d
}

// randomBytes is the random source of a node.
type randomBytes struct{ rng *rand.Rand }

func (r randomBytes) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r.rng.Uint32())
	}
	return len(p), nil
}

// Wall implements the clocks of package shard.
func (d *Stepped) Wall() int64 { return d.now }

// Mono implements the clocks of package shard.
func (d *Stepped) Mono() time.Duration { return time.Duration(d.now-Epoch) * time.Millisecond }

// Now returns the time, ms.
func (d *Stepped) Now() int64 { return d.now }

// Pass advances the time, and does nothing else.
func (d *Stepped) Pass(millis int64) { d.now += millis }

// Async reports whether the node acknowledges writes before they are durable.
func (d *Stepped) Async() bool { return d.config.Durability == shard.Async }

// Restarts returns the number of restarts.
func (d *Stepped) Restarts() int { return d.restarts }

// Crashes returns the number of restarts that were crashes.
func (d *Stepped) Crashes() int { return d.crashes }

// Verify reports errors in the log and the state.
func (d *Stepped) Verify() {
	d.t.Helper()
	if _, err := d.node.Verify(context.Background(), func(problem string) { d.t.Errorf("Verify reports: %s", problem) }); err != nil {
		d.t.Errorf("Verify: %v", err)
	}
}

// Node returns the node, until the next Restart.
func (d *Stepped) Node() *shard.Stepper { return d.node }

// Router returns a router to the node.
func (d *Stepped) Router() *engine.Router { return engine.NewRouter(d) }

// open opens the node and makes it the leader of its shards.
func (d *Stepped) open() {
	d.t.Helper()
	d.config.FS = d.fs
	var err error
	if d.node, err = shard.OpenStepper(d.config); err != nil {
		d.t.Fatalf("OpenStepper: %v", err)
	}
	for id := range engine.ShardID(d.Shards()) {
		d.node.Campaign(id)
		d.until(id, "leads", func() bool { return d.node.State(id).Leads })
		// An entry after everything in the log proves that all of it is applied.
		if _, err := d.propose(id, engine.Skip(0)); err != nil {
			d.t.Fatalf("shard %d: %v", id, err)
		}
	}
	d.deliver() // messages that had not arrived before
}

// until takes steps until a condition holds.
func (d *Stepped) until(id engine.ShardID, what string, holds func() bool) {
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

// Shards implements engine.Door, like Propose, Take and Query.
func (d *Stepped) Shards() int { return d.node.Shards() }

// Propose implements engine.Door. When it returns, the command's messages to other shards have
// arrived.
func (d *Stepped) Propose(_ context.Context, id engine.ShardID, cmd engine.Command) ([]byte, error) {
	d.t.Helper()
	d.maintain()
	result, err := d.propose(id, cmd)
	d.deliver()
	return result, err
}

func (d *Stepped) propose(id engine.ShardID, cmd engine.Command) ([]byte, error) {
	d.t.Helper()
	ticket, err := d.node.Submit(id, cmd)
	if err != nil {
		return nil, err
	}
	return d.await(id, ticket)
}

// deliver delivers the messages between shards.
func (d *Stepped) deliver() {
	d.t.Helper()
	for more := true; more; {
		more = false
		for id := range engine.ShardID(d.Shards()) {
			for _, target := range d.node.State(id).Targets {
				more = d.dispatch(id, target) || more
			}
		}
	}
}

// dispatch delivers a shard's messages for another, and reports whether there were any.
func (d *Stepped) dispatch(id, target engine.ShardID) bool {
	d.t.Helper()
	const begin = 2 // steps of every Dispatch
	for n, s := 0, d.node.NewDispatch(id, target); ; n++ {
		if err := d.node.SyncLog(); err != nil {
			d.t.Fatal(err)
		}
		step, _, ok, err := s.Next(d.now, d.node.State(id).Durable)
		if err != nil {
			d.t.Fatalf("deliver: %v", err)
		}
		if !ok {
			return n > begin
		}
		result, err := d.propose(step.Shard, step.Command)
		s.Done(result, err, d.now)
	}
}

// Take implements engine.Door.
func (d *Stepped) Take(_ context.Context, id engine.ShardID, t engine.Take) ([]byte, error) {
	d.t.Helper()
	d.maintain()
	ticket, _, err := d.node.Take(context.Background(), id, t)
	if err != nil || ticket == nil {
		return nil, err
	}
	return d.await(id, ticket)
}

// Query implements engine.Door.
func (d *Stepped) Query(_ context.Context, id engine.ShardID, q engine.Query) error {
	return d.node.Query(id, q)
}

func (d *Stepped) await(id engine.ShardID, ticket *shard.Ticket) ([]byte, error) {
	d.t.Helper()
	var outcome engine.Outcome
	d.until(id, "answers", func() (done bool) {
		outcome, done = ticket.Outcome()
		return done
	})
	return outcome.Result, outcome.Err
}

// maintain does the background work of a node.
func (d *Stepped) maintain() {
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

// Fire fires all timers that are due. It returns the number of shards that had some.
func (d *Stepped) Fire() (fired int) {
	d.t.Helper()
	for id := range engine.ShardID(d.Shards()) {
		before := d.node.State(id).NextDue
		d.until(id, "ends to fire timers", func() bool { return d.node.State(id).NextDue > d.now })
		if d.node.State(id).NextDue != before {
			fired++
		}
	}
	d.deliver()
	return fired
}

// Restart closes the node or crashes it: a power failure if durability is Sync, the end of the
// process if it is Async.
func (d *Stepped) Restart() {
	d.t.Helper()
	d.restarts++
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
