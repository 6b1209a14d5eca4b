package sim

import (
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/primitive"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/internal/test/toy"
)

// tickInterval is the period of the nodes' election clocks: an election takes 10 to 20 ticks.
const tickInterval = 100 * time.Millisecond

// node is one node, with all its successive processes.
type node struct {
	sim   *sim
	id    uint64
	disk  *disk
	host  *shard.Stepper  // nil: down
	life  int             // counts the processes
	open  int             // commands passed to this process that have no outcome yet
	busy  []*shard.Ticket // of a single node, by shard: what must be applied before clients can reach it
	ready []bool          // by shard: clients can reach it

	skew     time.Duration // of the wall clock
	nextTick time.Duration
	upAt     time.Duration // start time, if it is down
	paused   time.Duration // end of the pause
	stalled  time.Duration // end of the time without log writes
	lagging  time.Duration // end of the time without applying entries
}

// epoch is the time of the wall clocks at the start of a run, in ms.
const epoch = 1_700_000_000_000

// Wall returns the node's time of day, ms.
func (n *node) Wall() int64 { return epoch + (n.sim.now + n.skew).Milliseconds() }

// Mono returns a time that never jumps.
func (n *node) Mono() time.Duration { return n.sim.now }

func newNode(s *sim, id uint64) *node {
	return &node{sim: s, id: id, disk: newDisk(vfs.NewCrashableMem())}
}

func (n *node) config() shard.Config {
	p := &n.sim.plan
	var voters []uint64
	for id := range p.nodes {
		voters = append(voters, uint64(id+1))
	}
	return shard.Config{
		Dir: "node", Shards: p.shards, Durability: p.durability, NodeID: n.id, Voters: voters, Transport: &endpoint{n.sim, n, n.life},
		FS: n.disk.FS(), Clock: shard.Clock{Source: n}, TickInterval: tickInterval, CacheBytes: 16 << 20, MemTableBytes: 4 << 20,
		L0Tables:     2,
		SegmentBytes: p.segmentBytes, MaxLogBytes: p.maxLogBytes, KeepEntries: p.keepEntries,
		Primitives: append(primitive.All(), toy.Primitive(), toy.VaultPrimitive()), Forgetful: n.id == p.forgetful,
		DutySpeedup: p.dutySpeedup,
	}
}

func (n *node) start() {
	n.life++
	host, err := shard.OpenStepper(n.config())
	if err != nil {
		n.sim.failf("node %d: open: %v", n.id, err)
		return
	}
	n.sweep()
	n.host, n.open, n.nextTick = host, 0, n.sim.now
	if n.disk.stopped() {
		n.losePower(tornStep)
		return
	}
	n.paused, n.stalled, n.lagging = 0, 0, 0
	n.sim.verdict.started(n)
	if n.alone() {
		n.busy, n.ready = make([]*shard.Ticket, host.Shards()), make([]bool, host.Shards())
		for id := range host.Shards() {
			host.Campaign(engine.ShardID(id))
		}
	}
	n.sim.trace.add(n.sim.now, "start", n.id, uint64(n.life))
}

// alone reports whether the node is the only one.
func (n *node) alone() bool { return n.sim.plan.nodes == 1 }

// serves reports whether clients can reach the node's shard. A single Host opens when it leads and
// a command after everything in the log has been applied. From then on it answers reads without
// contacting other nodes.
func (n *node) serves(id engine.ShardID) bool {
	switch {
	case n.host == nil:
		return false
	case !n.alone():
		return true
	case n.busy[id] == nil && n.host.State(id).Leads:
		n.busy[id], _ = n.host.Submit(id, engine.Skip(0))
	case n.busy[id] != nil && !n.ready[id]:
		_, n.ready[id] = n.busy[id].Outcome()
	}
	return n.ready[id]
}

// runs reports whether the node takes steps now.
func (n *node) runs() bool { return n.host != nil && n.paused <= n.sim.now }

// end ends the node's process. left is the contents of its disk afterwards, nil if unknown yet,
// because its power may fail in the meantime.
func (n *node) end(left *disk, why fault) {
	for _, d := range n.sim.duties {
		if d.node == n && d.host == n.host { // a duty that proposes while it reads a view has a snapshot open
			d.end()
		}
	}
	if err := n.host.Crash(); err != nil {
		n.sim.failf("node %d: %v", n.id, err)
	}
	n.ended(left, why, 2*time.Second)
}

// ended notes that the process has ended. It restarts within a certain time.
func (n *node) ended(left *disk, why fault, within time.Duration) {
	n.sweep()
	if left == nil {
		left = n.disk
		if left.stopped() {
			left, why = n.powerless(), tornStep
		}
	}
	if left != nil {
		n.gone(left, why.String(), within)
	}
}

func (n *node) gone(left *disk, why string, within time.Duration) {
	s := n.sim
	s.verdict.ended(n)
	n.host, n.disk = nil, left
	n.upAt = s.now + s.random(within)
	s.counts[why]++
	s.trace.add(s.now, why, n.id)
}

// kill ends the process. Its writes remain, synced or not.
func (n *node) kill() {
	n.brace()
	n.end(nil, kill)
}

// sweep ends every step that may remove files.
func (n *node) sweep() {
	if err := n.disk.sweep(); err != nil {
		n.sim.failf("node %d: remove files: %v", n.id, err)
	}
}

func (n *node) losePower(why fault) {
	if left := n.powerless(); left != nil {
		n.end(left, why)
	}
}

// powerless returns the disk after a power failure, nil if the run has failed.
func (n *node) powerless() *disk {
	percent := []int{0, 100, n.sim.rng.IntN(101)}[n.sim.rng.IntN(3)]
	n.sim.verdict.powerLost(n)
	left, err := n.disk.afterPowerLoss(n.sim.rng, percent)
	if err != nil {
		n.sim.failf("node %d: %v", n.id, err)
		return nil
	}
	return left
}

// close closes the node properly, unless commands are pending: it would wait for those in real
// time.
func (n *node) close() {
	if n.open > 0 {
		return
	}
	n.brace()
	if err := n.host.Close(); err != nil {
		n.sim.failf("node %d: close: %v", n.id, err)
	}
	n.ended(nil, restart, time.Second)
}

func (n *node) step(id engine.ShardID, ticks int) {
	n.host.Step(id, ticks)
	n.sim.verdict.stepped(n, id)
}

func (n *node) tick() {
	n.nextTick = n.sim.now + tickInterval
	for id := range n.host.Shards() {
		n.step(engine.ShardID(id), 1)
	}
}

func (n *node) apply(id engine.ShardID) {
	n.file("apply", func() error {
		if err := n.host.Apply(id); err != nil {
			return err
		}
		n.sim.verdict.applied(n, id)
		return nil
	})
	// An installed snapshot and the log that begins after it are two steps, between which power
	// rarely fails by chance.
	if n.host != nil && n.sim.faulty(tornStep) && n.host.State(id).Installing && n.sim.rng.IntN(3) == 0 {
		n.losePower(tornStep)
	}
}

// file takes a step that changes files; the power may fail in the middle.
func (n *node) file(what string, step func() error) {
	n.brace()
	if err := step(); err != nil {
		n.sim.failf("node %d: %s: %v", n.id, what, err)
	}
	n.sweep()
	if n.disk.stopped() {
		n.losePower(tornStep)
	}
}

// brace runs before a step in which the power failure set for the disk may happen.
func (n *node) brace() {
	if n.disk.stopAt > 0 {
		n.sim.verdict.promise(n)
	}
}

func (n *node) writeLog()   { n.file("write log", n.host.WriteLog) }
func (n *node) syncLog()    { n.file("sync log", n.host.SyncLog) }
func (n *node) prepareLog() { n.file("prepare log", n.host.PrepareLog) }
func (n *node) flush() {
	n.sim.trace.add(n.sim.now, "flush", n.id)
	n.file("flush", n.host.Flush)
	if n.host != nil {
		n.truncate()
	}
}

func (n *node) truncate() { n.file("truncate", n.host.Truncate) }

func (n *node) compact() {
	n.sim.trace.add(n.sim.now, "compact", n.id)
	n.file("compact", n.host.Compact)
}

func (n *node) String() string {
	if n.host == nil {
		return fmt.Sprintf("node %d is down", n.id)
	}
	text := fmt.Sprintf("node %d, process %d:", n.id, n.life)
	for id := range n.host.Shards() {
		text += fmt.Sprintf("\n  shard %d: %+v", id, n.host.State(engine.ShardID(id)))
	}
	return text
}
