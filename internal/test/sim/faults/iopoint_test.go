package faults

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
)

var (
	pointWorkloads = flag.Int("point-workloads", 1, "workloads whose file operations are points of failure")
	pointStep      = flag.Int("point-step", 30, "of so many file operations one is a point of failure; 1: each")
)

// pointSkip returns n if a test tries one of every n points.
func pointSkip(short int) int {
	if testing.Short() {
		return short
	}
	return max(*pointStep, 1)
}

// pointRun is a workload that uses files in every way a node does: creation, log segments that fill
// up, flushes of the state, truncation of the log, compaction, a clean end, a kill, and opening
// after each.
type pointRun struct {
	seed       uint64
	durability shard.Durability

	mem    *vfs.MemFS
	disk   *pointFS
	clock  *rigClock
	ledger *rigLedger
	load   *rigLoad
	rig    *rig
	closed bool

	after func() error // called after every step; may be nil
}

// newPointRun returns a run whose acts depend only on the seed. The order of Pebble's file
// operations does not: its own goroutines do some of them.
func newPointRun(seed uint64, d shard.Durability) *pointRun {
	p := &pointRun{
		seed: seed, durability: d, mem: vfs.NewCrashableMem(), clock: &rigClock{1_000_000}, ledger: newRigLedger(),
	}
	p.disk = newPointFS(p.mem)
	p.load = &rigLoad{rng: rand.New(rand.NewPCG(seed, 2)), ledger: p.ledger, clock: p.clock, faulty: true}
	return p
}

// script is the workload, one step after the other.
func (p *pointRun) script() []func() error {
	acts := func(n int) func() error {
		return func() error { return p.acts(n) }
	}
	flush := func() error { return p.rig.call(p.rig.stepper.Flush) }
	truncate := func() error { return p.rig.call(p.rig.stepper.Truncate) }
	compact := func() error { return p.rig.call(p.rig.stepper.Compact) }
	return []func() error{
		p.open, acts(14), p.sync, acts(6), flush, acts(6), truncate, acts(10),
		p.close, p.open, acts(8), flush, truncate, compact, acts(8), p.sync, acts(4),
		p.kill, p.open, acts(8), flush, truncate, acts(4), p.close,
	}
}

func (p *pointRun) run() error {
	for _, step := range p.script() {
		if err := p.settled(step()); err != nil {
			return err
		}
	}
	return nil
}

func (p *pointRun) settled(err error) error {
	if err == nil && p.after != nil {
		err = p.after()
	}
	return err
}

func (p *pointRun) open() (err error) {
	if p.rig, err = openRig(rigConfig(p.disk, p.durability, p.clock), p.disk); err != nil {
		return err
	}
	p.load.rig, p.closed = p.rig, false
	return p.load.setUp()
}

func (p *pointRun) acts(n int) error {
	for range n {
		if err := p.settled(p.load.step()); err != nil {
			return err
		}
	}
	return nil
}

func (p *pointRun) sync() error {
	if err := p.rig.call(p.rig.stepper.SyncLog); err != nil {
		return err
	}
	p.ledger.synced()
	return nil
}

func (p *pointRun) close() error {
	p.closed = true
	if err := p.rig.close(); err != nil {
		return err
	}
	p.ledger.synced()
	return nil
}

// kill ends the process: written data stays, and the lock is released.
func (p *pointRun) kill() error {
	if err := p.rig.crash(); err != nil {
		return err
	}
	p.closed = true
	return p.disk.unlock()
}

// end releases the node.
func (p *pointRun) end() {
	if p.rig != nil && !p.closed {
		_ = p.rig.crash()
	}
}

func (p *pointRun) floor() [rigShards]rigCut { return p.ledger.floor(p.durability == shard.Async) }

// config returns the configuration of a node that opens the remains of this one.
func (p *pointRun) config(fsys vfs.FS) shard.Config {
	clock := *p.clock
	return rigConfig(fsys, p.durability, &clock)
}

// crashPoint is the state of the disk after a crash right before a file operation.
type crashPoint struct {
	k    int
	op   pointOp
	left *vfs.MemFS
	cuts [rigShards]rigCut
}

func (c *crashPoint) String() string {
	return fmt.Sprintf("crash before file operation %d (%v)", c.k, c.op)
}

// TestCrashAtEveryPoint crashes a node before each file operation of the workload, losing a random
// part of the unsynced data, and again during the recovery. Each time the node must open, hold
// everything acknowledged, and work.
func TestCrashAtEveryPoint(t *testing.T) {
	for _, d := range []shard.Durability{shard.Sync, shard.Async} {
		t.Run(d.String(), func(t *testing.T) {
			seed := rigSeed(t)
			for n := range *pointWorkloads {
				c := crashPoints{pointRun: newPointRun(seed+uint64(n), d), every: 16, skip: pointSkip(20), kinds: make(map[string]int)}
				if err := c.run(); err != nil {
					t.Fatalf("seed %d: %v", seed+uint64(n), err)
				}
				t.Logf("crashes at %d points %v, and at %d points while opening; %d acts", c.checked, c.kinds, c.double, c.load.acks)
				if !testing.Short() && (c.checked*c.skip < 300 || c.double*c.skip < 600) {
					t.Error("too few points for this to prove anything")
				}
			}
		})
	}
}

// crashPoints runs the workload once and takes the state after a crash before each of its
// operations.
type crashPoints struct {
	*pointRun
	every int // one in this many points crashes all operations of its recovery, the others only some
	skip  int // check one in this many points

	k               int
	points          []*crashPoint
	checked, double int
	kinds           map[string]int
}

func (c *crashPoints) run() error {
	rng := rand.New(rand.NewPCG(c.seed, 3))
	c.disk.before = func(op pointOp) *pointFault {
		if op.read {
			return nil
		}
		c.k++
		c.kinds[op.kind]++
		if (c.k+int(c.seed%uint64(c.skip)))%c.skip != 0 {
			return nil
		}
		floor := c.floor()
		left := rigPowerCut(c.mem, rng, rigPercent(rng))
		c.points = append(c.points, &crashPoint{c.k, op, left, c.ledger.upToNow(floor)})
		return nil
	}
	c.after = func() error {
		for _, p := range c.disk.take(&c.points) {
			if err := c.check(p); err != nil {
				return fmt.Errorf("%v: %w", p, err)
			}
		}
		return nil
	}
	return c.pointRun.run()
}

// rigPercent chooses how much of the unsynced data survives: often all or nothing.
func rigPercent(rng *rand.Rand) int { return []int{0, 100, rng.IntN(101), rng.IntN(101)}[rng.IntN(4)] }

// check opens the remains, and crashes that as well.
func (c *crashPoints) check(p *crashPoint) error {
	c.checked++
	rng := rand.New(rand.NewPCG(c.seed, uint64(p.k)))
	chance := 4
	if c.checked%c.every == 0 {
		chance = 100
	}
	var again []*crashPoint
	disk, j := newPointFS(p.left), 0
	disk.before = func(op pointOp) *pointFault {
		if op.read {
			return nil
		}
		if j++; rng.IntN(100) < chance {
			again = append(again, &crashPoint{k: j, op: op, left: rigPowerCut(p.left, rng, rigPercent(rng))})
		}
		return nil
	}
	if _, err := c.ledger.reopen(c.config(disk), nil, p.cuts); err != nil {
		return err
	}
	for _, a := range disk.take(&again) {
		c.double++
		if _, err := c.ledger.reopen(c.config(a.left), nil, p.cuts); err != nil {
			return fmt.Errorf("opened again, and %v: %w", a, err)
		}
	}
	return nil
}

// TestFaultAtEveryPoint makes each file operation of the workload fail: with EIO, as a write of
// which half reaches the file, and with a full disk from then on. The node may stop, and must then
// give the reason and do nothing more, or it may continue. On a healthy disk everything
// acknowledged must be there, and nothing refused.
func TestFaultAtEveryPoint(t *testing.T) {
	for _, d := range []shard.Durability{shard.Sync, shard.Async} {
		for _, kind := range []string{"EIO", "short", "ENOSPC"} {
			t.Run(d.String()+"/"+kind, func(t *testing.T) {
				seed := rigSeed(t)
				for n := range *pointWorkloads {
					f := faultPoints{seed: seed + uint64(n), durability: d, kind: kind, skip: pointSkip(40), kinds: make(map[string]int)}
					if err := f.run(); err != nil {
						t.Fatalf("seed %d: %v", f.seed, err)
					}
					t.Logf("%d points %v: %d times stopped, %d times gone on, %d times not opened; %d calls never came back",
						f.tried, f.kinds, f.stopped, f.wentOn, f.refused, f.parked)
					if !testing.Short() && (f.tried*f.skip < map[string]int{"EIO": 500, "short": 100, "ENOSPC": 150}[kind] ||
						f.stopped == 0) {
						t.Error("too few points for this to prove anything")
					}
				}
			})
		}
	}
}

// faultPoints runs the workload once for each operation, which fails.
type faultPoints struct {
	seed       uint64
	durability shard.Durability
	kind       string
	skip       int // try one in this many points

	tried, stopped, wentOn, refused, parked int
	kinds                                   map[string]int
}

func (f *faultPoints) run() error {
	for k := 1 + int(f.seed%uint64(f.skip)); ; k += f.skip {
		reached, err := f.at(k)
		if err != nil {
			return err
		}
		if !reached {
			return nil
		}
	}
}

// concerns reports whether the operation can fail in this way.
func (f *faultPoints) concerns(op pointOp) bool {
	switch f.kind {
	case "EIO":
		return true
	case "short":
		return op.kind == "write"
	}
	return slices.Contains([]string{"create", "write", "mkdir", "link", "preallocate", "reuse", "open-write", "lock"}, op.kind)
}

func (f *faultPoints) fault() *pointFault {
	switch f.kind {
	case "EIO":
		return &pointFault{err: syscall.EIO}
	case "short":
		return &pointFault{err: syscall.EIO, short: true}
	}
	return &pointFault{err: syscall.ENOSPC}
}

// at makes the k-th operation fail.
func (f *faultPoints) at(k int) (reached bool, err error) {
	p := newPointRun(f.seed, f.durability)
	defer p.end()
	n := 0
	p.disk.before = func(op pointOp) *pointFault {
		if !f.concerns(op) {
			return nil
		}
		if n++; n < k || n > k && f.kind != "ENOSPC" {
			return nil
		}
		if f.kind == "ENOSPC" {
			p.disk.usage.AvailBytes = 0
		}
		return f.fault()
	}
	outcome := p.run()
	op, reached := p.disk.first, p.disk.hasFailed()
	if !reached {
		return false, outcome
	}
	f.tried++
	f.kinds[op.kind]++
	if err := f.judge(p, outcome); err != nil {
		return true, fmt.Errorf("%s at file operation %d (%v): %w", f.kind, k, op, err)
	}
	return true, nil
}

// judge checks a node after a failed operation, and its remains.
func (f *faultPoints) judge(p *pointRun, outcome error) error {
	if wrong := (*wrongOutcome)(nil); errors.As(outcome, &wrong) {
		return outcome
	}
	switch {
	case p.rig == nil || p.rig.stepper == nil:
		f.refused++
		if outcome == nil || !f.explains(outcome) {
			return fmt.Errorf("open: %v, want the failure", outcome)
		}
	case f.stopsNode(p, outcome):
		f.stopped++
		if err := f.hasStopped(p, outcome); err != nil {
			return err
		}
	default:
		f.wentOn++
		if err := f.hasGoneOn(p, outcome); err != nil {
			return err
		}
	}
	if p.rig != nil && p.rig.parked.Load() {
		f.parked++
	}
	return f.heal(p)
}

// explains reports whether an error names the failure.
func (f *faultPoints) explains(err error) bool {
	return strings.Contains(err.Error(), f.fault().err.Error())
}

// stopsNode reports whether the failure has ended the node. A modified file in an unknown state
// must end it.
func (f *faultPoints) stopsNode(p *pointRun, outcome error) bool {
	if p.rig.parked.Load() || errors.Is(outcome, engine.ErrUnknownOutcome) || p.rig.stepper.Host().Err() != nil {
		return true
	}
	if p.disk.first.read || f.kind == "ENOSPC" {
		return false
	}
	return p.rig.awaitFailure()
}

// awaitFailure waits until the node reports failure. The caller of the file operation may see the
// error a little earlier.
func (r *rig) awaitFailure() bool {
	deadline, poll := time.NewTimer(5*time.Second), time.NewTicker(time.Millisecond)
	defer deadline.Stop()
	defer poll.Stop()
	for r.stepper.Host().Err() == nil {
		select {
		case <-poll.C:
		case <-deadline.C:
			return false
		}
	}
	return true
}

// hasStopped checks that the node gives the reason for stopping and does nothing more.
func (f *faultPoints) hasStopped(p *pointRun, outcome error) error {
	h := p.rig.stepper.Host()
	if h.Err() == nil && errors.Is(outcome, engine.ErrUnknownOutcome) && f.explains(outcome) {
		return nil // the failed step returned the error to its caller, who would have failed the host
	}
	if !p.rig.awaitFailure() || !f.explains(h.Err()) {
		return fmt.Errorf("the node's failure is %v, after %v", h.Err(), outcome)
	}
	if _, err := h.Propose(context.Background(), 0, engine.Skip(0)); !errors.Is(err, engine.ErrUnavailable) || !f.explains(err) {
		return fmt.Errorf("a write after the failure: %v, want ErrUnavailable and the reason", err)
	}
	q := engine.NamespaceQuery{Name: nsWide}
	if err := h.Query(context.Background(), 0, &q); !errors.Is(err, engine.ErrUnavailable) || !f.explains(err) {
		return fmt.Errorf("a read after the failure: %v, want ErrUnavailable and the reason", err)
	}
	return nil
}

// hasGoneOn continues with a node that has survived the failure, now without faults.
func (f *faultPoints) hasGoneOn(p *pointRun, outcome error) error {
	if outcome != nil && !f.explains(outcome) {
		return fmt.Errorf("outcome %w, want the failure", outcome)
	}
	p.disk.calm()
	if p.closed {
		return nil
	}
	if err := p.acts(4); err != nil {
		return fmt.Errorf("after the failure: %w", err)
	}
	floor := p.ledger.floor(false)
	_, err := p.ledger.verify(p.rig, p.ledger.upToNow(floor))
	return err
}

// heal opens the node's remains on a healthy disk.
func (f *faultPoints) heal(p *pointRun) error {
	p.disk.calm()
	rng := rand.New(rand.NewPCG(f.seed, 4))
	floor := p.floor()
	left := rigPowerCut(p.mem, rng, rigPercent(rng))
	if _, err := p.ledger.reopen(p.config(left), nil, p.ledger.upToNow(floor)); err != nil {
		return fmt.Errorf("after a power failure: %w", err)
	}
	floor = p.ledger.floor(false)
	left, err := rigKill(p.mem)
	if err == nil {
		_, err = p.ledger.reopen(p.config(left), nil, p.ledger.upToNow(floor))
	}
	if err != nil {
		return fmt.Errorf("after a kill: %w", err)
	}
	return nil
}
