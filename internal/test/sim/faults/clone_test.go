package faults

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/internal/test/check"
)

var (
	crashSeed = flag.Uint64("crash-seed", 0, "seed of the crash suites; 0: a random one")
	cloneAcks = flag.Int("clone-acks", 200, "acknowledgements after which a crash is tried, over both durabilities")
)

// TestMain collects garbage less often, which makes the suite a third faster: it opens thousands of
// nodes, each of which soon becomes garbage.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// rigSeed returns the seed of a test, and logs how to repeat it.
func rigSeed(t *testing.T) uint64 {
	s := *crashSeed
	if s == 0 {
		s = rand.Uint64()>>20 | 1
	}
	t.Logf("repeat with: go test ./internal/test/sim/faults -run '^%s$' -crash-seed %d", t.Name(), s)
	return s
}

// TestAckClone crashes a node at every acknowledgement, while clients use all of its operations. A
// power failure with none, half or all of the unsynced data kept, and a kill, must leave everything
// acknowledged and nothing refused. With Async a power failure may take a tail, but only what was
// written since the last sync. It must leave no gap: no revision is assigned twice.
func TestAckClone(t *testing.T) {
	acks := *cloneAcks
	if testing.Short() {
		acks = 100
	}
	for _, d := range []shard.Durability{shard.Sync, shard.Async} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			c := ackClone{seed: rigSeed(t), durability: d}
			if err := c.run(acks / 2); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d acknowledgements (%d refusals), %d crashes checked, %d lives; a power failure took up to %d acts", c.load.acks,
				c.load.refused, c.checked, c.lives, c.lost)
			if c.load.acks < acks/2 || c.checked < 4*c.load.acks || c.load.refused*20 < c.load.acks || c.lives < 1+acks/4000 {
				t.Error("too few of something for this to prove anything")
			}
		})
	}
}

// ackClone is one run.
type ackClone struct {
	seed       uint64
	durability shard.Durability

	fs     *vfs.MemFS
	rig    *rig
	load   *rigLoad
	ledger *rigLedger
	clock  *rigClock
	cuts   *rand.Rand // for power failures; apart from the acts, because they use a number of draws that depends on map order

	checked, lives, lost int
}

func (c *ackClone) run(acks int) error {
	rng := rand.New(rand.NewPCG(c.seed, 1))
	c.fs, c.clock, c.ledger = vfs.NewCrashableMem(), &rigClock{1_000_000}, newRigLedger()
	c.cuts = rand.New(rand.NewPCG(c.seed, 2))
	c.load = &rigLoad{rng: rng, ledger: c.ledger, clock: c.clock, onAck: c.everyClone}
	if err := c.start(); err != nil {
		return err
	}
	for c.load.acks < acks {
		if err := c.load.step(); err != nil {
			return fmt.Errorf("act %d: %w", c.load.number, err)
		}
		if err := c.maintain(rng.IntN(400)); err != nil {
			return fmt.Errorf("after act %d: %w", c.load.number, err)
		}
	}
	return c.rig.close()
}

func (c *ackClone) start() (err error) {
	if c.rig, err = openRig(rigConfig(c.fs, c.durability, c.clock), nil); err != nil {
		return err
	}
	c.load.rig = c.rig
	c.lives++
	return c.load.setUp()
}

// maintain sometimes does background work of a node, or ends it in one way or another.
func (c *ackClone) maintain(dice int) error {
	switch {
	case dice < 20:
		return c.sync()
	case dice < 30:
		return c.rig.stepper.Flush()
	case dice < 36:
		return c.rig.stepper.Truncate()
	case dice < 38:
		return c.rig.stepper.Compact()
	case dice < 40:
		if err := c.rig.close(); err != nil {
			return err
		}
		c.ledger.synced()
		return c.start()
	case dice < 42:
		return c.crash()
	}
	return nil
}

func (c *ackClone) sync() error {
	if err := c.rig.stepper.SyncLog(); err != nil {
		return err
	}
	c.ledger.synced()
	return nil
}

// crash continues with the state after a power failure.
func (c *ackClone) crash() error {
	floor := c.ledger.floor(c.durability == shard.Async)
	left := rigPowerCut(c.fs, c.cuts, c.cuts.IntN(101))
	if err := c.rig.crash(); err != nil {
		return err
	}
	c.fs = left
	if err := c.start(); err != nil {
		return err
	}
	upTo, err := c.ledger.verify(c.rig, c.ledger.upToNow(floor))
	if err != nil {
		return err
	}
	c.ledger.survive(upTo)
	return nil
}

// everyClone checks the state after every kind of crash.
func (c *ackClone) everyClone() error {
	for _, percent := range []int{0, 50, 100} {
		floor := c.ledger.floor(c.durability == shard.Async)
		if err := c.check(rigPowerCut(c.fs, c.cuts, percent), floor); err != nil {
			return fmt.Errorf("power failure that leaves %d %% of the unsynced data: %w", percent, err)
		}
	}
	left, err := rigKill(c.fs)
	if err == nil {
		err = c.check(left, c.ledger.floor(false))
	}
	if err != nil {
		return fmt.Errorf("killed process: %w", err)
	}
	return nil
}

func (c *ackClone) check(left *vfs.MemFS, floor [rigShards]rigCut) error {
	c.checked++
	clock := *c.clock
	upTo, err := c.ledger.reopen(rigConfig(left, c.durability, &clock), nil, c.ledger.upToNow(floor))
	for i, p := range upTo {
		c.lost = max(c.lost, len(c.ledger.shards[i].acts)-p)
	}
	return err
}

// reopen opens the remains of a node and checks that they match the ledger and that the node works.
func (l *rigLedger) reopen(config shard.Config, disk *pointFS, cuts [rigShards]rigCut) (upTo [rigShards]int, err error) {
	r, err := openRig(config, disk)
	if err != nil {
		return upTo, fmt.Errorf("open: %w", err)
	}
	if upTo, err = l.verify(r, cuts); err != nil {
		return upTo, err
	}
	if err := l.goesOn(r, cuts); err != nil {
		return upTo, err
	}
	return upTo, r.crash()
}

// verify waits until a newly opened node is idle and compares it with the ledger.
func (l *rigLedger) verify(r *rig, cuts [rigShards]rigCut) (upTo [rigShards]int, err error) {
	if err := r.settle(); err != nil {
		return upTo, err
	}
	if err := r.call(func() error { return check.Replica(r.stepper) }); err != nil {
		return upTo, err
	}
	if err := r.call(func() error { return checkOthers(r) }); err != nil {
		return upTo, err
	}
	o, err := observeRig(r, l)
	if err != nil {
		return upTo, err
	}
	return l.match(o, cuts, r.clock.ms)
}

// goesOn writes to every shard. The ledger ignores these writes: the node is discarded.
func (l *rigLedger) goesOn(r *rig, cuts [rigShards]rigCut) error {
	for i, c := range cuts {
		id := engine.ShardID(i)
		key := rigKeyIn(id)
		w, err := r.store(nsProbe).Put(context.Background(), key, []byte("probe"))
		if err != nil {
			return fmt.Errorf("shard %d does not go on: %w", id, err)
		}
		if w.Revision <= c.highest {
			return fmt.Errorf("shard %d gives out revision %d, and had given out %d before the crash", id, w.Revision, c.highest)
		}
	}
	return nil
}
