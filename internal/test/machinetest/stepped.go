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

// Stepped is an engine.Door to a node that takes its steps when it is asked for something, at a
// time that only the test moves. Between the calls it flushes, compacts, truncates and syncs at
// random; it may crash there, and then has everything that it has acknowledged.
type Stepped struct {
	t      testing.TB
	rng    *rand.Rand
	config shard.Config
	fs     *vfs.MemFS
	node   *shard.Stepper
	now    int64 // ms since the epoch

	restarts, crashes int
}

// NewStepped returns a node of a random configuration with so many shards, each with the
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

// randomBytes are what a node draws its numbers from.
type randomBytes struct{ rng *rand.Rand }

func (r randomBytes) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r.rng.Uint32())
	}
	return len(p), nil
}

// Wall is of shard's clocks.
func (d *Stepped) Wall() int64 { return d.now }

// Mono is of shard's clocks.
func (d *Stepped) Mono() time.Duration { return time.Duration(d.now-Epoch) * time.Millisecond }

// Now returns the time, ms.
func (d *Stepped) Now() int64 { return d.now }

// Pass moves the time, and nothing more.
func (d *Stepped) Pass(millis int64) { d.now += millis }

// Async reports whether it acknowledges what is not durable.
func (d *Stepped) Async() bool { return d.config.Durability == shard.Async }

// Restarts returns how often it was restarted.
func (d *Stepped) Restarts() int { return d.restarts }

// Crashes returns how many of the restarts were crashes.
func (d *Stepped) Crashes() int { return d.crashes }

// Verify reports what is wrong with the log and the state.
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

// open opens the node and makes it lead its shards.
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
		// What is behind everything in the log has seen it applied.
		if _, err := d.propose(id, engine.Skip(0)); err != nil {
			d.t.Fatalf("shard %d: %v", id, err)
		}
	}
	d.deliver() // what had not got there before
}

// until takes steps until something holds.
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

// Shards is of engine.Door, like Propose, Take and Query.
func (d *Stepped) Shards() int { return d.node.Shards() }

// Propose is of engine.Door. What the command sends to other shards has got there when it returns.
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

// deliver hands over the messages between shards.
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

// dispatch hands over what a shard has for another, and reports whether that was anything.
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

// Take is of engine.Door.
func (d *Stepped) Take(_ context.Context, id engine.ShardID, t engine.Take) ([]byte, error) {
	d.t.Helper()
	d.maintain()
	ticket, _, err := d.node.Take(context.Background(), id, t)
	if err != nil || ticket == nil {
		return nil, err
	}
	return d.await(id, ticket)
}

// Query is of engine.Door.
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

// maintain does what a node does in the background.
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

// Fire lets all timers fire that are due. It returns how many shards had some.
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

// Restart closes the node, or crashes it: the power fails if it is Sync, and the process ends if it
// is Async.
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
