package shard

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/toy"
)

var (
	simSeeds = flag.Int("sim-seeds", 40, "seeds that the simulation runs")
	simSteps = flag.Int("sim-steps", 1500, "steps of a seed before everything heals")
)

// TestSimulation runs clusters of one and of three nodes in one goroutine, without a real clock, network or disk: which
// step comes next, what is lost and who crashes follows from the seed. All nodes have to agree on the state hash of every index
// they apply, nothing acknowledged may be lost, credit is neither made nor destroyed, and once the faults end everything
// has to come to rest with equal replicas.
func TestSimulation(t *testing.T) {
	seeds := *simSeeds
	if testing.Short() {
		seeds = 6
	}
	first := *seedFlag
	if first == 0 {
		first = rand.Uint64() >> 20
	} else {
		seeds = 1
	}
	for s := first; s < first+uint64(seeds); s++ {
		for _, nodes := range []int{1, 3} {
			t.Run(fmt.Sprintf("nodes=%d/seed=%d", nodes, s), func(t *testing.T) {
				cryptotest.SetGlobalRandom(t, s)
				simulate(t, s, nodes)
				if t.Failed() {
					t.Logf("repeat with: go test ./internal/shard -run '^TestSimulation$/^nodes=%d$' -seed %d", nodes, s)
				}
			})
		}
	}
}

// sim is a cluster whose every step is taken by the test.
type sim struct {
	t   *testing.T
	rng *rand.Rand
	// Chances in 2000 of a crash or a cut, in 100 of a message being lost or repeated.
	crashes, cuts, losses, repeats int

	clock  *fakeClock
	size   int
	nodes  []*simNode
	flight []simMessage
	healed bool

	hashes  map[string]uint64 // shard and index -> state hash
	leaders map[string]int    // shard and term -> leader
	pending []simProposal
	added   int64 // credit of acknowledged adds
	unknown int64 // credit of adds whose outcome is unknown
	counts  map[string]int
}

type simNode struct {
	id    int
	fs    *vfs.MemFS
	host  *Host // nil: crashed
	cut   bool  // no message comes or goes
	after map[[2]engine.ShardID]engine.LSN
}

type simMessage struct {
	from, to int
	shard    uint16
	msg      *raftpb.Message
	snapshot []byte
	done     func(error)
}

// simProposal is a command under way; delivery and forget are the courier's.
type simProposal struct {
	node  *simNode
	host  *Host
	p     *proposal
	delta int64 // credit it adds
	then  func(engine.Outcome)
}

func simulate(t *testing.T, seed uint64, nodes int) {
	s := newSim(t, seed, nodes)
	s.crashes, s.cuts, s.losses, s.repeats = 2*s.rng.IntN(4), 2*s.rng.IntN(4), s.rng.IntN(6), s.rng.IntN(6)
	for range *simSteps {
		s.act()
		if t.Failed() {
			return
		}
	}
	s.heal()
	t.Logf("%v, added %d, unknown %d", s.counts, s.added, s.unknown)
}

// newSim returns a cluster that has elected leaders and created the spread namespace.
func newSim(t *testing.T, seed uint64, nodes int) *sim {
	t.Helper()
	s := &sim{
		t: t, size: nodes, rng: rand.New(rand.NewPCG(seed, 99)), clock: &fakeClock{wall: 1_000_000},
		hashes: map[string]uint64{}, leaders: map[string]int{}, counts: map[string]int{},
	}
	t.Cleanup(func() {
		for _, n := range s.nodes {
			if n.host != nil {
				n.host.exportsClose()
				must(t, n.host.db.Close())
			}
		}
	})
	for id := range nodes {
		n := &simNode{id: id + 1, fs: vfs.NewCrashableMem()}
		s.nodes = append(s.nodes, n)
		s.start(n)
	}
	s.awaitSetup()
	return s
}

// TestCrashBetweenSnapshotAndLog crashes a node when its state holds an installed snapshot and its log does not yet begin behind
// it: the node has to open again, and must not take this for a log that has lost its end.
func TestCrashBetweenSnapshotAndLog(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 1)
	s := newSim(t, 1, 3)
	lagging := s.nodes[2]
	lagging.cut = true
	for range 3000 {
		s.act()
	}
	for _, n := range s.nodes[:2] {
		s.flush(n)
	}
	lagging.cut = false
	for range 20000 {
		n := s.nodes[s.rng.IntN(3)]
		s.stepShard(n)
		s.apply(n)
		for _, sh := range lagging.host.shards {
			if sh.exec.Applied().Index > sh.log.LastIndex() {
				s.crash(lagging)
				s.heal()
				return
			}
		}
		s.round(n)
		s.deliver()
		s.tick(n)
	}
	t.Fatal("no snapshot was installed")
}

func (s *sim) start(n *simNode) {
	var voters []uint64
	for id := range s.size {
		voters = append(voters, uint64(id+1))
	}
	c := config(n.fs)
	c.NodeID, c.Voters, c.Transport, c.Clock = uint64(n.id), voters, simTransport{s, n}, Clock{s.clock}
	c.SegmentBytes, c.KeepEntries, c.manual = 16<<10, 3, true
	if len(voters) == 1 {
		c.KeepEntries = 0
	}
	h, err := Open(c)
	if err != nil {
		s.t.Fatalf("node %d: open: %v", n.id, err)
	}
	n.host, n.after = h, make(map[[2]engine.ShardID]engine.LSN)
	if len(voters) == 1 {
		for _, sh := range h.shards {
			sh.mail.put(func(in *input) { in.campaign = true })
		}
	}
}

type simTransport struct {
	sim  *sim
	node *simNode
}

func (tr simTransport) Send(shard uint16, msgs []*raftpb.Message) {
	for _, m := range msgs {
		tr.sim.flight = append(tr.sim.flight, simMessage{
			from: tr.node.id, to: int(m.GetTo()), shard: shard, msg: proto.Clone(m).(*raftpb.Message),
		})
	}
}

func (tr simTransport) SendSnapshot(shard uint16, msg *raftpb.Message, body io.ReadCloser, done func(error)) {
	b, err := io.ReadAll(body)
	if err != nil {
		tr.sim.t.Errorf("read snapshot: %v", err)
	}
	must(tr.sim.t, body.Close())
	tr.sim.counts["snapshot"]++
	tr.sim.flight = append(tr.sim.flight, simMessage{
		from: tr.node.id, to: int(msg.GetTo()), shard: shard, msg: proto.Clone(msg).(*raftpb.Message), snapshot: b, done: done,
	})
}

// act takes one random step. How often faults come is the seed's own choice: some seeds have none of a kind, so that others can
// go far.
func (s *sim) act() {
	n := s.nodes[s.rng.IntN(len(s.nodes))]
	fault := s.rng.IntN(2000)
	switch r := s.rng.IntN(100); {
	case n.host == nil:
		if r < 5 {
			s.start(n)
			s.counts["restart"]++
		}
	case fault < s.crashes:
		s.crash(n)
	case fault < s.crashes+s.cuts || s.cuts > 0 && n.cut && r < 5:
		n.cut = !n.cut
		s.counts["cut"]++
	case fault < s.crashes+s.cuts+20:
		s.flush(n)
	case r < 25:
		s.stepShard(n)
	case r < 40:
		s.apply(n)
	case r < 55:
		s.round(n)
	case r < 80:
		s.deliver()
	case r < 84:
		s.tick(n)
	case r < 95:
		s.propose(n)
	case r < 98:
		s.courier(n)
	default:
		s.clock.advance(time.Duration(s.rng.IntN(300)) * time.Millisecond)
	}
	s.collect()
}

func (s *sim) shardOf(n *simNode) *shard { return n.host.shards[s.rng.IntN(len(n.host.shards))] }

func (s *sim) stepShard(n *simNode) {
	sh := s.shardOf(n)
	sh.step(0)
	s.observe(n, sh)
}

func (s *sim) tick(n *simNode) {
	s.clock.advance(time.Duration(s.rng.IntN(20)) * time.Millisecond)
	for _, sh := range n.host.shards {
		sh.step(1)
		s.observe(n, sh)
	}
}

// observe checks that no term has two leaders.
func (s *sim) observe(n *simNode, sh *shard) {
	if !sh.core.isLeader {
		return
	}
	key := fmt.Sprint(sh.id, " ", sh.core.term)
	if other, ok := s.leaders[key]; ok && other != n.id {
		s.t.Errorf("shard %d: nodes %d and %d both lead term %d", sh.id, other, n.id, sh.core.term)
	}
	s.leaders[key] = n.id
}

func (s *sim) apply(n *simNode) {
	sh := s.shardOf(n)
	if err := sh.applyQueued(); err != nil {
		s.t.Errorf("node %d: %v", n.id, err)
		return
	}
	a := sh.exec.Applied()
	key := fmt.Sprint(sh.id, " ", a.Index)
	if want, ok := s.hashes[key]; ok && want != a.Hash {
		s.t.Errorf("shard %d: node %d has state hash %x at index %d, another had %x", sh.id, n.id, a.Hash, a.Index, want)
	}
	s.hashes[key] = a.Hash
}

func (s *sim) round(n *simNode) {
	if _, err := n.host.writer.round(); err != nil {
		s.t.Errorf("node %d: write log: %v", n.id, err)
	}
}

// deliver takes a random message, so they are reordered, and loses or repeats some.
func (s *sim) deliver() {
	if len(s.flight) == 0 {
		return
	}
	i := s.rng.IntN(len(s.flight))
	repeat, lost := s.rng.IntN(100) < s.repeats, s.rng.IntN(100) < s.losses
	if s.healed {
		i, repeat, lost = 0, false, false
	}
	m := s.flight[i]
	if !repeat || m.snapshot != nil { // else it stays and comes again
		s.flight = append(s.flight[:i], s.flight[i+1:]...)
	}
	to := s.nodes[m.to-1]
	lost = lost || to.host == nil || to.cut || s.nodes[m.from-1].cut
	switch {
	case m.snapshot != nil && lost:
		m.done(errNotDelivered)
	case m.snapshot != nil:
		m.done(to.host.ReceiveSnapshot(m.shard, m.msg, bytes.NewReader(m.snapshot)))
	case !lost:
		to.host.Receive(m.shard, []*raftpb.Message{proto.Clone(m.msg).(*raftpb.Message)})
	}
}

func (s *sim) flush(n *simNode) {
	must(s.t, n.host.db.Flush())
	must(s.t, n.host.truncate())
	s.counts["flush"]++
}

// crash loses everything that was not synced, and part of the rest; callers never hear of their proposals again.
func (s *sim) crash(n *simNode) {
	left := n.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: s.rng.IntN(101), RNG: s.rng})
	n.host.exportsClose()
	must(s.t, n.host.db.Close())
	n.host, n.fs = nil, left
	s.counts["crash"]++
}

func (h *Host) exportsClose() {
	for _, s := range h.shards {
		s.exports.close()
	}
}

func (s *sim) submit(n *simNode, id engine.ShardID, cmd engine.Command, delta int64, then func(engine.Outcome)) bool {
	if !n.host.shards[id].core.isLeader {
		return false
	}
	p, err := n.host.shards[id].submit(context.Background(), cmd)
	if err != nil {
		s.t.Errorf("submit: %v", err)
		return false
	}
	s.pending = append(s.pending, simProposal{n, n.host, p, delta, then})
	return true
}

// propose sends a random command of a client.
func (s *sim) propose(n *simNode) {
	c := toy.Command{Name: name(s.rng.IntN(5)), Target: name(s.rng.IntN(5)), Delta: s.rng.Int64N(50)}
	delta := int64(0)
	switch s.rng.IntN(4) {
	case 0:
		c.Kind, delta = toy.Add, c.Delta
	case 1:
		c.Kind, delta, c.Delay = toy.Later, c.Delta, s.rng.Int64N(500)
	default:
		c.Kind = toy.Send
	}
	cmd := c.In(toySpread)
	cmd.Spread = true
	s.submit(n, engine.NameShard(toySpread, c.Name, 2), cmd, delta, nil)
}

// courier hands one delivery to the target's leader, wherever that is, and forgets it afterwards.
func (s *sim) courier(n *simNode) {
	sh := s.shardOf(n)
	if !sh.core.isLeader {
		return
	}
	for _, target := range sh.exec.PendingTargets() {
		d, ok, err := sh.exec.NextDelivery(target, 0, sh.log.Durable())
		must(s.t, err)
		if !ok {
			continue
		}
		for _, to := range s.nodes {
			if to.host != nil && s.submit(to, target, d.Command, 0, func(o engine.Outcome) {
				if o.Err == nil && n.host == sh.host {
					s.submit(n, sh.id, engine.Forget(target, d.Last), 0, nil)
				}
			}) {
				s.counts["delivery"]++
				break
			}
		}
	}
}

// collect looks which proposals have their outcome, or never will.
func (s *sim) collect() {
	var open []simProposal
	for _, p := range s.pending {
		select {
		case o := <-p.p.done:
			s.outcome(p, o)
			continue
		default:
		}
		if p.node.host != p.host { // its node has crashed
			s.unknown += p.delta
			continue
		}
		open = append(open, p)
	}
	s.pending = append(open, s.pending[len(s.pending):]...)
}

func (s *sim) outcome(p simProposal, o engine.Outcome) {
	switch {
	case o.Err == nil:
		s.added += p.delta
		s.counts["done"]++
	case errors.Is(o.Err, engine.ErrUnknownOutcome):
		s.unknown += p.delta
	case errors.Is(o.Err, engine.ErrConflict), errors.Is(o.Err, engine.ErrUnavailable):
	default:
		s.t.Errorf("outcome: %v", o.Err)
	}
	if p.then != nil {
		p.then(o)
	}
}

// settle runs everything in turn, without faults, until done or too many rounds.
func (s *sim) settle(what string, done func() bool) {
	s.healed = true
	for range 4000 {
		for _, n := range s.nodes {
			s.tick(n)
			s.round(n)
			for range 4 {
				s.apply(n)
			}
			s.courier(n)
		}
		for len(s.flight) > 0 && !s.t.Failed() {
			s.deliver()
		}
		s.collect()
		if s.t.Failed() {
			return
		}
		if done() {
			s.healed = false
			return
		}
	}
	s.t.Errorf("%s: not reached after 4000 rounds without faults", what)
	for _, n := range s.nodes {
		for _, sh := range n.host.shards {
			s.t.Logf("node %d shard %d: leader %v of term %d, applied %+v, log %d to %d, due %d (now %d), targets %v", n.id, sh.id,
				sh.core.isLeader, sh.core.term, sh.exec.Applied(), sh.log.FirstIndex(), sh.log.LastIndex(), sh.exec.NextDue(), s.clock.wall,
				sh.exec.PendingTargets())
		}
	}
}

func (s *sim) led() bool {
	for id := range 2 {
		led := false
		for _, n := range s.nodes {
			led = led || n.host.shards[id].core.isLeader
		}
		if !led {
			return false
		}
	}
	return true
}

// awaitSetup elects leaders and creates the spread namespace.
func (s *sim) awaitSetup() {
	s.settle("leaders", s.led)
	home := engine.HomeShard(toySpread, 2)
	for _, n := range s.nodes {
		if s.submit(n, home, engine.CreateNamespace(toySpread, true), 0, nil) {
			break
		}
	}
	s.settle("the namespace", func() bool { return len(s.pending) == 0 })
}

// heal ends all faults and checks that everything comes to rest as it should.
func (s *sim) heal() {
	for _, n := range s.nodes {
		n.cut = false
		if n.host == nil {
			s.start(n)
		}
	}
	s.settle("rest", func() bool { return len(s.pending) == 0 && s.led() && s.level() && s.sumIsRight() })
}

// level reports whether every node has applied all of its log, and holds the same rows as the others.
func (s *sim) level() bool {
	for _, n := range s.nodes {
		for _, sh := range n.host.shards {
			if sh.exec.Visible() != sh.log.LastIndex() {
				return false
			}
		}
	}
	for id := range engine.ShardID(2) {
		at, want := dump(s.t, s.nodes[0].host.db, id)
		for _, n := range s.nodes[1:] {
			if index, got := dump(s.t, n.host.db, id); index != at {
				return false
			} else if !slices.Equal(got, want) {
				s.t.Errorf("shard %d at index %d: nodes 1 and %d hold different rows", id, at, n.id)
			}
		}
	}
	return true
}

// sumIsRight compares the credit of all counters with what clients were told.
func (s *sim) sumIsRight() bool {
	sum := int64(0)
	h := s.nodes[0].host
	for id, sh := range h.shards {
		if sh.exec.NextDue() != engine.NoTimer || len(sh.exec.PendingTargets()) > 0 {
			return false
		}
		q := toy.Sum{Namespace: toySpread}
		must(s.t, sh.exec.Query(context.Background(), &q, engine.Replica{Now: h.shards[id].clock.now}))
		sum += q.Sum
	}
	if sum < s.added || sum > s.added+s.unknown {
		s.t.Errorf("the counters add up to %d, want %d to %d", sum, s.added, s.added+s.unknown)
	}
	return true
}
