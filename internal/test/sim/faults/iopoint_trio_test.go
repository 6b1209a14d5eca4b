package faults

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"
	"testing/cryptotest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
)

// trio is a cluster of three rigs in one goroutine. Its network loses only messages from and to a
// node that is cut off or down. Its first node leads all shards, unless another one is made the
// leader.
type trio struct {
	clock  *rigClock
	nodes  [3]*trioNode
	leader *rig
	flight []trioMessage
}

type trioNode struct {
	*rig // nil: down
	mem  *vfs.MemFS
	disk *pointFS
	cut  bool

	stopped error // the reason of its failure when it was taken down
}

type trioMessage struct {
	from, to uint64
	shard    uint16
	msg      *raftpb.Message
	rows     []byte // of a snapshot
	done     func(error)
}

// trioTransport is the network as seen by one node.
type trioTransport struct {
	trio *trio
	node uint64
}

// Send queues messages; the trio delivers them in its next turn.
func (n trioTransport) Send(id uint16, msgs []*raftpb.Message) {
	for _, m := range msgs {
		n.trio.flight = append(n.trio.flight, trioMessage{from: n.node, to: m.GetTo(), shard: id, msg: proto.Clone(m).(*raftpb.Message)})
	}
}

// SendSnapshot reads the rows at once.
func (n trioTransport) SendSnapshot(id uint16, m *raftpb.Message, body io.ReadCloser, done func(error)) {
	rows, err := io.ReadAll(body)
	if err = errors.Join(err, body.Close()); err != nil {
		done(err)
		return
	}
	n.trio.flight = append(n.trio.flight, trioMessage{n.node, m.GetTo(), id, proto.Clone(m).(*raftpb.Message), rows, done})
}

// newTrio returns a cluster on three disks whose first node leads.
func newTrio(clock *rigClock, disks [3]*vfs.MemFS) (*trio, error) {
	t := &trio{clock: clock}
	for i, mem := range disks {
		t.nodes[i] = &trioNode{mem: mem, disk: newPointFS(mem)}
		if err := t.start(i); err != nil {
			return t, fmt.Errorf("node %d: open: %w", i+1, err)
		}
	}
	return t, t.lead(0)
}

// start opens a node.
func (t *trio) start(i int) (err error) {
	n := t.nodes[i]
	c := rigConfig(n.disk, shard.Sync, t.clock)
	c.NodeID, c.Voters, c.KeepEntries = uint64(i+1), []uint64{1, 2, 3}, 2
	c.Transport = trioTransport{t, c.NodeID}
	if n.rig, err = openStill(c, n.disk); err != nil {
		return err
	}
	n.turn = func(engine.ShardID) error { return t.turn() }
	return nil
}

// lead makes a node the leader of all shards.
func (t *trio) lead(i int) error {
	t.leader = t.nodes[i].rig
	return t.leader.comeUp()
}

// down ends a node like a kill.
func (t *trio) down(i int) error {
	n := t.nodes[i]
	if n.rig == nil {
		return nil
	}
	r := n.rig
	n.rig, n.stopped = nil, r.failure()
	return errors.Join(r.crash(), n.disk.unlock())
}

// turn runs a round of each shard on every node, and delivers all messages.
func (t *trio) turn() error {
	for range 4 {
		for _, n := range t.nodes {
			if err := t.rounds(n); err != nil && n.rig == t.leader {
				return err
			}
		}
		if len(t.flight) == 0 {
			return nil
		}
		flight := t.flight
		t.flight = nil
		for _, m := range flight {
			t.deliver(m)
		}
	}
	return nil
}

func (t *trio) rounds(n *trioNode) error {
	for id := range engine.ShardID(rigShards) {
		if n.rig == nil {
			return nil
		}
		if err := n.round(id); err != nil {
			return err
		}
	}
	return nil
}

func (t *trio) deliver(m trioMessage) {
	to := t.nodes[m.to-1]
	lost := to.rig == nil || to.cut || t.nodes[m.from-1].cut
	var err error
	switch {
	case lost:
		err = errors.New("the receiver cannot be reached")
	case m.rows == nil:
		err = to.call(func() error {
			to.stepper.Host().Receive(m.shard, []*raftpb.Message{m.msg})
			return nil
		})
	default:
		err = to.call(func() error { return to.stepper.Host().ReceiveSnapshot(m.shard, m.msg, bytes.NewReader(m.rows)) })
	}
	if m.done != nil {
		m.done(err)
	}
}

// tick advances the leader's election clock, so that it contacts silent followers.
func (t *trio) tick() error {
	for id := range engine.ShardID(rigShards) {
		if err := t.leader.call(func() error { t.leader.stepper.Step(id, 1); return nil }); err != nil {
			return err
		}
	}
	return t.turn()
}

// level runs turns until all nodes that are up have the same rows.
func (t *trio) level() error {
	for range 200 {
		if err := errors.Join(t.leader.settle(), t.tick()); err != nil {
			return err
		}
		same, err := t.same()
		if err != nil || same {
			return err
		}
	}
	return errors.New("the replicas do not become level")
}

// same compares the replicas. Only replicas at the same index must be equal.
func (t *trio) same() (bool, error) {
	for id := range engine.ShardID(rigShards) {
		want := t.leader.stepper.State(id)
		var rows bytes.Buffer
		if err := t.leader.stepper.WriteState(id, &rows); err != nil {
			return false, err
		}
		for i, n := range t.nodes {
			if n.rig == nil || n.rig == t.leader {
				continue
			}
			if err := n.failure(); err != nil {
				return false, fmt.Errorf("node %d: %w", i+1, err)
			}
			if n.stepper.State(id).Applied.Index != want.Applied.Index {
				return false, nil
			}
			var got bytes.Buffer
			if err := n.stepper.WriteState(id, &got); err != nil {
				return false, err
			}
			if !bytes.Equal(got.Bytes(), rows.Bytes()) {
				return false, fmt.Errorf("shard %d at index %d: node %d holds other rows than the leader", id, want.Applied.Index, i+1)
			}
		}
	}
	return true, nil
}

// end releases all nodes.
func (t *trio) end() {
	for _, n := range t.nodes {
		if n != nil && n.rig != nil {
			_ = n.crash()
		}
	}
}

// trioRun is a workload in which a node twice falls so far behind that it needs a snapshot.
type trioRun struct {
	*trio
	ledger *rigLedger
	load   *rigLoad
	after  func() error
}

func newTrioRun(seed uint64, before func(node int, op pointOp) *pointFault) (*trioRun, error) {
	r := &trioRun{ledger: newRigLedger()}
	clock := &rigClock{1_000_000}
	t, err := newTrio(clock, [3]*vfs.MemFS{vfs.NewCrashableMem(), vfs.NewCrashableMem(), vfs.NewCrashableMem()})
	if r.trio = t; err != nil {
		return r, err
	}
	r.load = &rigLoad{rng: rand.New(rand.NewPCG(seed, 5)), ledger: r.ledger, clock: clock, rig: t.leader,
		onAck: func() error { return r.after() }}
	r.after = func() error { return nil }
	for i, n := range t.nodes {
		n.disk.watch(func(op pointOp) *pointFault { return before(i, op) })
	}
	return r, nil
}

const trioVictim = 2

func (r *trioRun) run() error {
	if err := r.load.setUp(); err != nil {
		return err
	}
	for range 2 {
		if err := r.acts(6); err != nil {
			return err
		}
		r.nodes[trioVictim].cut = true
		if err := r.acts(8); err != nil {
			return err
		}
		for i, n := range r.nodes {
			if i != trioVictim {
				if err := errors.Join(n.stepper.Flush(), n.stepper.Truncate()); err != nil {
					return err
				}
			}
		}
		r.nodes[trioVictim].cut = false
		for range 12 {
			if err := errors.Join(r.tick(), r.after()); err != nil {
				return err
			}
		}
		if err := r.acts(3); err != nil {
			return err
		}
		if v := r.nodes[trioVictim]; v.failure() == nil {
			_ = v.call(v.stepper.Flush)
			_ = v.call(v.stepper.Truncate)
		}
	}
	return r.after()
}

func (r *trioRun) acts(n int) error {
	for range n {
		if err := r.load.step(); err != nil {
			return err
		}
	}
	return nil
}

// trioPoint is the state of the disks after a crash of all three nodes.
type trioPoint struct {
	k     int
	node  int
	op    pointOp
	disks [3]*vfs.MemFS
	cuts  [rigShards]rigCut
}

// TestTrioCrashAtEveryPoint crashes a whole cluster before each file operation of any node, while
// one of them has fallen behind and receives a snapshot. The cluster must restart and hold
// everything acknowledged, and its replicas must become equal.
func TestTrioCrashAtEveryPoint(t *testing.T) {
	seed := rigSeed(t)
	cryptotest.SetGlobalRandom(t, seed)
	rng := rand.New(rand.NewPCG(seed, 6))
	var points []*trioPoint
	var r *trioRun
	k, skip, checked, kinds := 0, pointSkip(40), 0, make(map[string]int)
	r, err := newTrioRun(seed, func(node int, op pointOp) *pointFault {
		if op.read {
			return nil
		}
		if k++; (k+int(seed%uint64(skip)))%skip != 0 {
			return nil
		}
		if node == trioVictim {
			kinds[op.kind]++
		}
		p := &trioPoint{k: k, node: node, op: op, cuts: r.ledger.floor(false)}
		for i, n := range r.nodes {
			p.disks[i] = rigPowerCut(n.mem, rng, rigPercent(rng))
		}
		p.cuts = r.ledger.upToNow(p.cuts)
		points = append(points, p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.end()
	r.after = func() error {
		taken := points
		points = nil
		for _, p := range taken {
			checked++
			if err := r.reopenAll(p); err != nil {
				return fmt.Errorf("crash before file operation %d (node %d: %v): %w", p.k, p.node+1, p.op, err)
			}
		}
		return nil
	}
	if err := r.run(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	t.Logf("crashes of the cluster at %d points, of the node that needs snapshots %v; %d acts", checked, kinds, r.load.acks)
	if !testing.Short() && (checked*skip < 300 || skip == 1 && kinds["link"] < 2) {
		t.Error("too few points for this to prove anything, or no snapshot was installed")
	}
}

// reopenAll starts the remains of the cluster.
func (r *trioRun) reopenAll(p *trioPoint) error {
	clock := *r.clock
	t, err := newTrio(&clock, p.disks)
	defer t.end()
	if err != nil {
		return err
	}
	return r.rightAndLevel(t, p.cuts)
}

func (r *trioRun) rightAndLevel(t *trio, cuts [rigShards]rigCut) error {
	if err := t.level(); err != nil {
		return err
	}
	if _, err := r.ledger.verify(t.leader, cuts); err != nil {
		return err
	}
	return r.ledger.goesOn(t.leader, cuts)
}

// TestTrioFaultAtEveryPoint makes each file operation of a follower fail while it has fallen behind
// and receives a snapshot. The others must continue, and the node must become equal to them when it
// returns on a healthy disk.
func TestTrioFaultAtEveryPoint(t *testing.T) {
	seed := rigSeed(t)
	cryptotest.SetGlobalRandom(t, seed)
	tried, failed, kinds := 0, 0, make(map[string]int)
	step := pointSkip(60)
	for k := 1 + int(seed%uint64(step)); ; k += step {
		n := 0
		var op pointOp
		r, err := newTrioRun(seed, func(node int, o pointOp) *pointFault {
			if node != trioVictim {
				return nil
			}
			if n++; n != k {
				return nil
			}
			op = o
			return &pointFault{err: syscall.EIO, short: k%2 == 0}
		})
		if err == nil {
			err = r.run()
		}
		victim := r.nodes[trioVictim]
		reached := victim.disk.hasFailed()
		if err == nil && reached {
			tried++
			kinds[op.kind]++
			if victim.failure() != nil {
				failed++
			} else if !op.read && !victim.awaitFailure() {
				err = errors.New("the node goes on")
			}
			if err == nil {
				err = r.replace(rand.New(rand.NewPCG(seed, uint64(k))))
			}
		}
		r.end()
		if err != nil {
			t.Fatalf("seed %d: failure of file operation %d (%v): %v", seed, k, op, err)
		}
		if !reached {
			break
		}
	}
	t.Logf("failures at %d points %v, %d of which have stopped the node", tried, kinds, failed)
	if !testing.Short() && (tried*step < 150 || failed*step < 100) {
		t.Error("too few points for this to prove anything")
	}
}

// replace restarts the victim from the contents of its disk.
func (r *trioRun) replace(rng *rand.Rand) error {
	victim := r.nodes[trioVictim]
	left := rigPowerCut(victim.mem, rng, rigPercent(rng))
	_ = r.down(trioVictim) // perhaps stuck
	victim.mem, victim.disk = left, newPointFS(left)
	if err := r.start(trioVictim); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	floor := r.ledger.floor(false)
	return r.rightAndLevel(r.trio, r.ledger.upToNow(floor))
}
