package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/primitive"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/internal/test/toy"
	"github.com/floedb/floe/kv"
)

// rigDir is the data directory of every rig.
const rigDir = "node"

// rigShards is more than one, so that there are messages between shards, and few, so that each gets
// many acts.
const rigShards = 3

// rigClock stands still unless the test advances it.
type rigClock struct{ ms int64 }

// Wall returns the time in ms since the epoch.
func (c *rigClock) Wall() int64 { return c.ms }

// Mono returns the same time as a duration.
func (c *rigClock) Mono() time.Duration { return time.Duration(c.ms) * time.Millisecond }

// rigConfig returns a configuration whose sizes let a node of a few KiB behave like a large one.
// Segments end after some dozen writes, and opening an almost empty directory takes no time.
func rigConfig(fsys vfs.FS, d shard.Durability, clock *rigClock) shard.Config {
	return shard.Config{
		Dir: rigDir, Shards: rigShards, Durability: d, FS: fsys, Clock: shard.Clock{Source: clock},
		CacheBytes: 2 << 20, MemTableBytes: 128 << 10, L0Tables: 2, SegmentBytes: 5 << 10,
		Primitives: append(primitive.All(), toy.Primitive(), toy.VaultPrimitive()),
	}
}

// rig is a single node whose steps are all taken by the test, behind the door that primitives use.
// A call returns when the rig has stepped the node until the outcome is known.
type rig struct {
	stepper *shard.Stepper
	clock   *rigClock
	disk    *pointFS    // may fail, and then calls may never return; nil: healthy
	parked  atomic.Bool // a call has not returned: no further calls are allowed
	router  *engine.Router
	broken  error // of a round

	turn func(engine.ShardID) error // continues a shard: one round, unless other nodes take part
}

var _ engine.Door = (*rig)(nil)

// errParked is returned by a call that is stuck in a failed file operation.
var errParked = errors.New("the call does not come back")

// patience is the number of polls for which a call is awaited, at most one per millisecond.
const patience = 1000

// openRig opens a node and brings it to the state in which Host.Open returns. A disk that may fail
// must be given.
func openRig(c shard.Config, disk *pointFS) (*rig, error) {
	r, err := openStill(c, disk)
	if err != nil {
		return nil, err
	}
	return r, r.comeUp()
}

// openStill opens a node that has not taken a step yet.
func openStill(c shard.Config, disk *pointFS) (*rig, error) {
	r := &rig{clock: c.Clock.Source.(*rigClock), disk: disk}
	r.router, r.turn = engine.NewRouter(r), r.round
	opened := make(chan *shard.Stepper, 1)
	err := r.call(func() error {
		s, err := shard.OpenStepper(c)
		opened <- s
		return err
	})
	if err != nil {
		return nil, err
	}
	r.stepper = <-opened
	return r, nil
}

// comeUp makes the node the leader of all its shards and applies its log.
func (r *rig) comeUp() error {
	for id := range engine.ShardID(rigShards) {
		r.stepper.Campaign(id)
		for n := 0; n < 20 && !r.stepper.State(id).Leads; n++ {
			if err := r.turn(id); err != nil {
				return err
			}
		}
		// When a command after everything in the log is applied, all of the log is.
		if _, err := r.Propose(context.Background(), id, engine.Skip(0)); err != nil {
			return fmt.Errorf("shard %d does not come up: %w", id, err)
		}
	}
	return nil
}

// call runs f, unless the node has failed. On a failed disk f may never return, because Pebble's
// operation is parked. call waits for it for about a second of polls, enough even on a busy
// machine.
func (r *rig) call(f func() error) error {
	if r.disk == nil {
		return f()
	}
	if r.parked.Load() {
		return errParked
	}
	if err := r.failure(); err != nil {
		return err
	}
	return r.attempt(f)
}

// failure returns the reason why the node has stopped, or nil.
func (r *rig) failure() error {
	if r.stepper == nil {
		return nil
	}
	return cmp.Or(r.stepper.Host().Err(), r.broken)
}

func (r *rig) attempt(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- rigGuarded(f) }()
	select {
	case err := <-done:
		return err
	case <-r.disk.struck:
	}
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for n := 0; n < patience; {
		select {
		case err := <-done:
			return err
		case <-poll.C:
			if r.disk.parks() || r.failure() != nil {
				n++
			}
		}
	}
	r.parked.Store(true)
	return errParked
}

// rigGuarded runs f as the goroutines of a Host do: a panic ends the node, not the process.
func rigGuarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// round runs one round of a shard: its input is logged, committed and applied. After an error the
// node is not stepped again, as the goroutines of a Host would have failed it.
func (r *rig) round(id engine.ShardID) error {
	err := r.call(func() error {
		r.stepper.Step(id, 0)
		if err := r.stepper.WriteLog(); err != nil {
			return err
		}
		r.stepper.Step(id, 0)
		if err := r.stepper.PrepareLog(); err != nil {
			return err
		}
		return r.stepper.Apply(id)
	})
	if err != nil && r.broken == nil {
		r.broken = err
	}
	return err
}

// Shards returns the number of shards.
func (r *rig) Shards() int { return rigShards }

// Take steps the shard until the outcome of the take is known. It does not wait.
func (r *rig) Take(ctx context.Context, id engine.ShardID, t engine.Take) ([]byte, error) {
	t.Wait = 0
	var ticket *shard.Ticket
	err := r.call(func() (err error) {
		ticket, _, err = r.stepper.Take(ctx, id, t)
		return err
	})
	if ticket == nil || err != nil {
		return nil, err
	}
	return r.outcome(id, ticket)
}

// Propose steps the shard until the outcome of the command is known.
func (r *rig) Propose(_ context.Context, id engine.ShardID, cmd engine.Command) ([]byte, error) {
	ticket, err := r.stepper.Submit(id, cmd)
	if err != nil {
		return nil, err
	}
	return r.outcome(id, ticket)
}

func (r *rig) outcome(id engine.ShardID, ticket *shard.Ticket) (result []byte, err error) {
	for range 20 {
		if err = r.turn(id); err != nil {
			break
		}
		if o, ok := ticket.Outcome(); ok {
			return o.Result, o.Err
		}
	}
	return nil, engine.Errorf(engine.ErrUnknownOutcome, "outcome unknown: shard %d: %v", id, err)
}

// Query answers from the state.
func (r *rig) Query(_ context.Context, id engine.ShardID, q engine.Query) error {
	return r.call(func() error { return r.stepper.Query(id, q) })
}

func (r *rig) store(namespace string) *kv.Store {
	return engine.StoreOf[kv.Store](r.router, namespace, 0)
}

// settle fires all due timers and delivers all messages between shards.
func (r *rig) settle() error {
	for range 1000 {
		again, err := r.fire()
		if err != nil {
			return err
		}
		delivered, err := r.deliver()
		if err != nil {
			return err
		}
		if !again && !delivered {
			return nil
		}
	}
	return errors.New("the node does not come to rest: timers or messages without end")
}

// fire runs a turn of every shard that has a due timer.
func (r *rig) fire() (any bool, err error) {
	for id := range engine.ShardID(rigShards) {
		if r.stepper.State(id).NextDue <= r.clock.ms {
			any = true
			if err := r.turn(id); err != nil {
				return any, err
			}
		}
	}
	return any, nil
}

// deliver sends the messages between shards and settles their outcomes. Messages that a power
// failure could take back are not delivered. It reports whether anything changed: messages for a
// full vault keep waiting.
func (r *rig) deliver() (any bool, err error) {
	for id := range engine.ShardID(rigShards) {
		for _, target := range r.stepper.State(id).Targets {
			if err := r.call(r.stepper.SyncLog); err != nil {
				return any, err
			}
			before := r.changes()
			if err := r.dispatch(id, target); err != nil {
				return any, err
			}
			any = any || r.changes() != before
		}
	}
	return any, nil
}

func (r *rig) dispatch(id, target engine.ShardID) error {
	d := r.stepper.NewDispatch(id, target)
	for {
		step, _, ok, err := d.Next(r.clock.ms, r.stepper.State(id).Durable)
		if err != nil || !ok {
			return err
		}
		result, err := r.Propose(context.Background(), step.Shard, step.Command)
		if err != nil {
			return err
		}
		d.Done(result, nil, r.clock.ms)
		if err := r.call(r.stepper.SyncLog); err != nil {
			return err
		}
	}
}

// changes returns the number of changes of all shards. Temporary refusals make none.
func (r *rig) changes() (n engine.LSN) {
	for id := range engine.ShardID(rigShards) {
		n += r.stepper.State(id).Applied.LSN
	}
	return n
}

// crash ends the node without writing to its directory.
func (r *rig) crash() error {
	if r.stepper == nil || r.parked.Load() {
		return nil
	}
	if r.disk == nil {
		return r.stepper.Crash()
	}
	return r.attempt(r.stepper.Crash)
}

// close ends the node as its user would.
func (r *rig) close() error { return r.call(r.stepper.Close) }

// rigPowerCut returns a possible state of a file system after a power failure now.
func rigPowerCut(fsys *vfs.MemFS, rng *rand.Rand, unsyncedPercent int) *vfs.MemFS {
	return fsys.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsyncedPercent, RNG: rng})
}

// rigKill returns the state after a kill: all written data, since the operating system survives.
func rigKill(fsys *vfs.MemFS) (*vfs.MemFS, error) {
	left := vfs.NewCrashableMem()
	if err := left.MkdirAll(rigDir, 0o700); err != nil {
		return nil, err
	}
	_, err := vfs.Clone(fsys, left, rigDir, rigDir)
	return left, err
}
