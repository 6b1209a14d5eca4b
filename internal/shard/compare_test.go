package shard

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// stray is a toy whose replica on one node applies commands for the counter "part" differently.
type stray struct{ engine.Machine }

func (m stray) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	if c, err := toy.Decode(cmd); err == nil && c.Name == "part" {
		c.Delta++
		spread := cmd.Spread
		cmd = c.In(cmd.Namespace)
		cmd.Spread = spread
	}
	return m.Machine.Apply(tx, cmd)
}

// straying makes the replicas of the given nodes stray.
func straying(nodes ...uint64) func(*Config) {
	return func(cfg *Config) {
		cfg.CompareInterval = 20 * time.Millisecond
		for _, id := range nodes {
			if cfg.NodeID == id {
				p := toy.Primitive()
				own := p.New
				p.New = func() engine.Machine { return stray{own()} }
				cfg.Primitives = []engine.Primitive{p}
			}
		}
	}
}

func (c *cluster) add(ctx context.Context, name string) {
	c.t.Helper()
	space := 0
	for engine.HomeShard(strconv.Itoa(space), c.Shards()) != 0 {
		space++
	}
	if _, err := c.Propose(ctx, 0, toy.Command{Kind: toy.Add, Name: name, Delta: 1}.In(strconv.Itoa(space))); err != nil {
		c.t.Fatalf("add to %q: %v", name, err)
	}
}

// awaitFailure waits until the node has failed.
func (c *cluster) awaitFailure(ctx context.Context, id uint64) error {
	c.t.Helper()
	select {
	case <-c.host(id).failed:
	case <-ctx.Done():
		c.t.Fatalf("node %d has not noticed that its replica has parted from the others", id)
	}
	return c.host(id).Err()
}

// awaitEqual waits until the node knows that its replica of shard 0 agreed with the majority after
// the entry at index or a later one.
func (c *cluster) awaitEqual(ctx context.Context, id, index uint64) {
	c.t.Helper()
	until(ctx, c.t, "replicas are found to be equal", func() bool { return c.host(id).shards[0].applier.comparer.equal.Load() >= index })
}

// discard removes a failed node from the cluster.
func (c *cluster) discard(id uint64) {
	h := c.host(id)
	c.net.Join(id, nil)
	c.setHost(id, nil)
	if h.Close() == nil {
		c.t.Errorf("node %d has failed, but closes without an error", id)
	}
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestPartedReplica: the node whose replica differs from the two others stops, whether it follows
// or leads, and the others continue.
func TestPartedReplica(t *testing.T) {
	for _, test := range []struct {
		name  string
		leads bool
	}{{"follower", false}, {"leader", true}} {
		t.Run(test.name, func(t *testing.T) {
			ctx := testContext(t)
			wrong := uint64(3)
			if test.leads {
				wrong = 1 // leads shard 0
			}
			c := newCluster(t, seed(t), straying(wrong))
			c.add(ctx, "sound")
			c.awaitEqual(ctx, wrong, 1)
			c.add(ctx, "part")
			if err := c.awaitFailure(ctx, wrong); !strings.Contains(err.Error(), "differs from most others") {
				t.Errorf("node %d failed with %v", wrong, err)
			}
			c.discard(wrong)
			before := c.host(2).Applied(0)
			c.add(ctx, "sound")
			for id := uint64(1); id <= 3; id++ {
				if id != wrong {
					c.awaitEqual(ctx, id, before+1)
				}
			}
		})
	}
}

// heldClock is a clock with a monotonic time that stands still until it is released.
type heldClock struct {
	released atomic.Bool
	system   Clock
}

func (c *heldClock) Wall() int64 { return c.system.Source.Wall() }

func (c *heldClock) Mono() time.Duration {
	if c.released.Load() {
		return time.Hour + c.system.Source.Mono()
	}
	return 1
}

// TestUnsettledDifference: with one of three nodes down, neither of the two others can be found to
// be right. They used to continue, each healthy, and to answer differently. The shard stops on
// both, and they report it; other shards continue. Restarted together with the third node, they
// find a majority.
func TestUnsettledDifference(t *testing.T) {
	ctx := testContext(t)
	patience, clock := time.Millisecond, &heldClock{system: SystemClock()}
	c := newCluster(t, seed(t), func(cfg *Config) {
		straying(2)(cfg)
		cfg.Unsettled, cfg.Clock = patience, Clock{clock}
	})
	c.add(ctx, "sound")
	for id := uint64(1); id <= 3; id++ {
		c.awaitEqual(ctx, id, 1)
	}
	c.stop(3)
	c.add(ctx, "part")
	// The first to stop commits nothing any more. Both must know by then, as they do after the
	// seconds by which the clock is advanced.
	until(ctx, t, "both nodes to know", func() bool {
		known := true
		for id := uint64(1); id <= 2; id++ {
			s := c.host(id).shards[0]
			s.applier.mu.Lock()
			known = known && s.applier.comparer.since != 0
			s.applier.mu.Unlock()
		}
		return known
	})
	clock.released.Store(true)
	until(ctx, t, "the shard to be stopped", func() bool {
		return c.host(1).shards[0].role.halted.Load() != nil && c.host(2).shards[0].role.halted.Load() != nil
	})
	const why = "its replicas on the nodes [1 2] differ at entry "
	for id := uint64(1); id <= 2; id++ {
		h := c.host(id)
		_, err := h.Propose(ctx, 0, toy.Command{Kind: toy.Add, Name: "sound", Delta: 1}.In("default"))
		if !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), why) {
			t.Errorf("node %d writes: %v", id, err)
		}
		if err := h.Query(ctx, 0, &toy.Sum{}); !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), why) {
			t.Errorf("node %d reads: %v", id, err)
		}
		if err := h.QueryStale(ctx, 0, &toy.Sum{}); err != nil {
			t.Errorf("node %d reads what it has: %v", id, err)
		}
		var s Stats
		until(ctx, t, "it knows of no leader", func() bool {
			s, err = h.Stats()
			return err != nil || !h.Leads(0) && s.Shards[0].Leader == 0
		})
		if err != nil || s.State != "replicas differ" || !strings.Contains(s.Nodes[id-1].Problem, why) ||
			!strings.Contains(s.Shards[0].Problem, why) || s.Shards[1].Problem != "" {
			t.Errorf("node %d says %+v, %v", id, s, err)
		}
	}
	if _, err := c.Propose(ctx, 1, engine.Skip(0)); err != nil {
		t.Errorf("the other shard: %v", err)
	}
	patience = 0
	c.stop(1)
	c.stop(2)
	for id := uint64(1); id <= 3; id++ {
		c.start(id)
	}
	c.add(ctx, "sound")
	c.awaitFailure(ctx, 2)
	c.discard(2)
	c.add(ctx, "sound")
}

// TestComparisonAtBeginning: diverged replicas are found when a node begins to lead, without a
// change: they acknowledge nothing before.
func TestComparisonAtBeginning(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, seed(t), straying())
	c.add(ctx, "sound")
	c.settle(ctx)
	for id := uint64(1); id <= 3; id++ {
		c.stop(id)
	}
	c.config = func(cfg *Config) {
		straying()(cfg)
		cfg.CompareInterval = time.Hour
	}
	for id := uint64(1); id <= 3; id++ {
		c.start(id)
	}
	for id := uint64(1); id <= 3; id++ {
		c.awaitEqual(ctx, id, 1)
	}
}

// TestIdleComparison: replicas are compared after a change, and then not again.
func TestIdleComparison(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, seed(t), straying())
	at := c.host(1).Applied(0) + 1
	c.add(ctx, "sound")
	for id := uint64(1); id <= 3; id++ {
		c.awaitEqual(ctx, id, at)
	}
	until(ctx, t, "no comparison to be due any more", func() bool {
		s := c.host(1).shards[0]
		s.applier.mu.Lock()
		defer s.applier.mu.Unlock()
		_, ok := s.applier.comparer.due(s.applier.comparer.lsn)
		return !ok
	})
}

// steppedPair is two stepped nodes of a cluster of three. The first one leads.
type steppedPair struct {
	t        *testing.T
	net      *Network
	steppers [2]*Stepper
	clock    *fakeClock
}

func newSteppedPair(t *testing.T) *steppedPair {
	t.Helper()
	net := NewNetwork(1)
	p := &steppedPair{t: t, net: net, clock: &fakeClock{wall: 1_000_000, mono: time.Hour}}
	for i := range p.steppers {
		c, node := config(vfs.NewMem()), uint64(i+1)
		c.Shards, c.NodeID, c.Voters, c.Clock, c.Transport = 1, node, []uint64{1, 2, 3}, Clock{p.clock}, net.Transport(node)
		s, err := OpenStepper(c)
		must(t, err)
		p.steppers[i] = s
		net.Join(node, s.Host())
		t.Cleanup(func() { must(t, s.Close()) })
	}
	p.leader().Campaign(0)
	p.until("a leader", func() bool { return p.leader().State(0).Leads })
	p.add()
	return p
}

func (p *steppedPair) leader() *Stepper { return p.steppers[0] }

// until steps both nodes until a condition holds.
func (p *steppedPair) until(what string, holds func() bool) {
	p.t.Helper()
	for range 100 {
		if holds() {
			return
		}
		for _, s := range p.steppers {
			s.Step(0, 0)
			must(p.t, errors.Join(s.WriteLog(), s.Apply(0)))
		}
	}
	p.t.Fatalf("%s: %+v", what, p.leader().State(0))
}

// propose applies a command at both nodes.
func (p *steppedPair) propose(cmd engine.Command) {
	p.t.Helper()
	ticket, err := p.leader().Submit(0, cmd)
	must(p.t, err)
	p.until("an outcome", func() bool {
		o, done := ticket.Outcome()
		must(p.t, o.Err)
		return done
	})
}

func (p *steppedPair) add() {
	p.t.Helper()
	p.propose(toy.Command{Kind: toy.Add, Name: "a", Delta: 1}.In("default"))
}

// claims returns the claims that the leader has requested since the last call.
func (p *steppedPair) claims() (all []engine.Comparison) {
	for h := p.leader().host; len(h.claims) > 0; {
		all = append(all, (<-h.claims).comparison)
	}
	return all
}

// TestClaims: a replica answers each claim about an entry that it has once, and keeps the latest
// maxCompared entries.
func TestClaims(t *testing.T) {
	p := newSteppedPair(t)
	s := p.leader().host.shards[0]
	for range maxCompared + 5 {
		p.add()
	}
	c, last := &s.applier.comparer, p.leader().State(0).Applied.Index
	p.claims()
	for i := last - maxCompared - 1; i <= last; i++ {
		own, _, ok := s.exec.HashAt(i)
		if !ok {
			t.Fatalf("no hash of entry %d", i)
		}
		for node := uint64(2); node <= 3; node++ {
			must(t, c.take(engine.Comparison{Node: node, Index: i, Hash: own}))
		}
		if got := p.claims(); len(got) != 1 || got[0] != (engine.Comparison{Node: 1, Index: i, Hash: own}) {
			t.Errorf("entry %d is answered by %v", i, got)
		}
	}
	if len(c.entries) != maxCompared || len(c.claims) != maxCompared || c.entries[0] != last-maxCompared+1 ||
		c.entries[maxCompared-1] != last {
		t.Errorf("the entries are %v, with claims for %d, want the last %d up to %d", c.entries, len(c.claims), maxCompared, last)
	}
	for _, i := range c.entries {
		if len(c.claims[i]) != 3 {
			t.Errorf("entry %d has the claims %v", i, c.claims[i])
		}
	}
	must(t, c.take(engine.Comparison{Node: 2, Index: last + 1, Hash: 1}))
	if got := p.claims(); len(got) > 0 || len(c.entries) != maxCompared {
		t.Errorf("an entry that is not applied is answered by %v", got)
	}
	p.add()
	own, _, _ := s.exec.HashAt(last + 1)
	must(t, c.take(engine.Comparison{Node: 1, Index: last + 1, Hash: own}))
	if got := p.claims(); len(got) > 0 {
		t.Errorf("its own claim is answered by %v", got)
	}
}

// TestComparisonsAreDue: a leader requests comparisons when it begins to lead and after many
// changes; a single node and a follower request none.
func TestComparisonsAreDue(t *testing.T) {
	p := newSteppedPair(t)
	s := p.leader().host.shards[0]
	c, a := &s.applier.comparer, p.leader().State(0).Applied
	own := engine.Comparison{Node: 1, Index: a.Index, Hash: a.Hash}
	if ask, ok := c.due(a.LSN - 1); !ok || ask != own {
		t.Errorf("after a change: %v, %t, want %v", ask, ok, own)
	}
	if _, ok := c.due(a.LSN); ok {
		t.Error("due without a change")
	}
	c.term = 0
	if ask, ok := c.begins(); !ok || ask != own {
		t.Errorf("at the beginning: %v, %t, want %v", ask, ok, own)
	}
	if _, ok := c.begins(); ok {
		t.Error("it begins twice")
	}
	for what, change := range map[string]func(undo bool){
		"a single node": func(undo bool) { s.host.cfg.Voters = map[bool][]uint64{true: {1, 2, 3}, false: {1}}[undo] },
		"a follower":    func(undo bool) { s.role.leading.Store(undo) },
	} {
		change(false)
		c.term = 0
		_, due := c.due(0)
		if _, begins := c.begins(); due || begins {
			t.Errorf("%s: due %t, begins %t", what, due, begins)
		}
		change(true)
	}
	c.term = a.Term
	p.propose(engine.Skip(3 * compareEvery))
	now := p.leader().State(0).Applied.LSN
	for _, behind := range []engine.LSN{0, 1} {
		p.claims()
		c.lsn, c.asked = now-compareEvery-behind, 0
		for range 2 { // it is requested once
			must(t, c.applied())
		}
		if got := p.claims(); len(got) != int(behind) || behind > 0 && c.asked != now {
			t.Errorf("%d changes after the last comparison: %v, noted %d", compareEvery+behind, got, c.asked)
		}
	}
}

// TestJudge: the majority decides, and a difference without one stops the shard in the end.
func TestJudge(t *testing.T) {
	p := newSteppedPair(t)
	s, clock := p.leader().host.shards[0], p.clock
	c := &s.applier.comparer
	c.equal.Store(0)
	hashes := func(all ...uint64) map[uint64]uint64 {
		m := make(map[uint64]uint64)
		for i, h := range all {
			m[uint64(i+1)] = h
		}
		return m
	}
	for i, step := range []struct {
		index       uint64
		claims      []uint64 // of the nodes from 1
		err         string
		equal, told uint64
		since       time.Duration
	}{
		{5, []uint64{1}, "", 0, 0, 0},
		{5, []uint64{1, 1}, "", 5, 0, 0},
		{4, []uint64{1, 1, 2}, "", 5, 0, 0},
		{6, []uint64{1, 2}, "", 5, 6, time.Hour},
		{7, []uint64{1, 2}, "", 5, 7, time.Hour},
		{6, []uint64{1, 2}, "", 5, 7, time.Hour},
		{6, []uint64{1, 2, 1}, "", 6, 7, time.Hour}, // of an earlier entry
		{7, []uint64{1, 2, 1}, "", 7, 7, 0},
		{8, []uint64{1, 2, 3}, "", 7, 8, time.Hour + 5*time.Second},
		{9, []uint64{1, 2, 2}, "differs from most others: its hash is 0000000000000001, theirs 0000000000000002", 7, 8,
			time.Hour + 5*time.Second},
	} {
		said := ""
		if err := c.judge(step.index, 1, hashes(step.claims...)); err != nil {
			said = err.Error()
		}
		if (said == "") != (step.err == "") || !strings.Contains(said, step.err) || c.equal.Load() != step.equal || c.told != step.told ||
			c.since != step.since {
			t.Errorf("step %d: %q, equal at %d, told %d since %v, want %+v", i, said, c.equal.Load(), c.told, c.since, step)
		}
		if i >= 3 {
			clock.advance(time.Second)
		}
	}
	s.host.cfg.Unsettled = time.Minute
	c.claims[c.told] = hashes(1, 2, 3)
	c.since = clock.Mono() - time.Minute + 1
	if c.settle(); s.role.halted.Load() != nil {
		t.Error("the shard is stopped too early")
	}
	c.since--
	if c.settle(); s.role.halted.Load() == nil ||
		!strings.Contains(s.role.halted.Load().Error(), "its replicas on the nodes [1 2 3] differ at entry 8, and no majority agrees") {
		t.Errorf("the shard is stopped with %v", s.role.halted.Load())
	}
	s.role.halted.Store(nil)
}
