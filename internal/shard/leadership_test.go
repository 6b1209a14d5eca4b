package shard

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/test/toy"
)

// TestSuccessorsAtQuorumCheck: with each check of its quorum a leader forgets which nodes were
// active lately. A node that was stopped at that moment used to find no successor and closed with
// its leaderships, so writes paused for an election timeout.
func TestSuccessorsAtQuorumCheck(t *testing.T) {
	noLeaks(t)
	c := newCluster(t, 1, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	until(ctx, t, "successors", func() bool {
		s := c.host(c.leaderOf(ctx, 0, 0)).shards[0]
		s.loop.mu.Lock()
		defer s.loop.mu.Unlock()
		if len(s.successorsLocked(abreast)) < 2 {
			return false
		}
		for range electionTicks {
			s.loop.core.rn.Tick()
		}
		if n := len(s.successorsLocked(abreast)); n != 2 {
			t.Errorf("after a check of the quorum there are %d successors, want 2", n)
		}
		return true
	})
}

// TestLeaderThatLeaves: a leader hands over while another node leaves too. That node gets no
// leadership, and none is returned to a node that has left.
func TestLeaderThatLeaves(t *testing.T) {
	noLeaks(t)
	var left [4]atomic.Bool
	c := newCluster(t, 1, func(c *Config) { c.Alive = func(id uint64) bool { return !left[id].Load() } })
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	c.settle(ctx)
	left[1].Store(true)
	left[2].Store(true)
	c.host(1).TransferLeadership(ctx)
	c.host(2).TransferLeadership(ctx)
	for id := uint64(1); id <= 2; id++ {
		if h := c.host(id); slices.ContainsFunc(h.shards, func(s *shard) bool { return s.role.leading.Load() }) {
			t.Errorf("node %d leads although it has handed over", id)
		}
	}
	for range 5 {
		c.host(3).spread()
	}
	until(ctx, t, "leaders", func() bool { return c.host(3).Leads(0) && c.host(3).Leads(1) })
}

// TestSuccessorsAreAbreast: a follower that is catching up is not a successor while another one has
// everything. When three nodes were restarted in turn and the last one stopped, writes used to
// pause until the successor had caught up.
func TestSuccessorsAreAbreast(t *testing.T) {
	noLeaks(t)
	c := newCluster(t, 1, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for tested := false; !tested; {
		leader := c.leaderOf(ctx, 0, 0)
		behind, other := leader%3+1, (leader+1)%3+1
		s := c.host(leader).shards[0]
		until(ctx, t, "two successors", func() bool { return len(s.successors()) == 2 || !s.role.leading.Load() })
		c.net.Cut(leader, behind)
		for range 2 * abreast {
			if _, err := c.Propose(ctx, 0, toy.Command{Kind: toy.Add, Name: "n", Delta: 1}.In("default")); err != nil {
				t.Fatal(err)
			}
		}
		until(ctx, t, "the other one is abreast", func() bool { return s.isAbreast(other) || !s.role.leading.Load() })
		ids, abreast := s.successors(), s.isAbreast(behind)
		if tested = s.role.leading.Load() && ids != nil; tested && (abreast || !slices.Equal(ids, []uint64{other})) {
			t.Errorf("node %d is cut off and misses entries, node %d has all: the successors are %v; that the first one is abreast: %v",
				behind, other, ids, abreast)
		}
		c.net.Heal()
	}
}

// TestFullNodesLeadNothing: a node with a full disk hands over its leaderships, and no node prefers
// it until there is space again. When most disks are full it keeps them, and refuses writes that
// take space. When the last node with space leaves, one without takes over.
func TestFullNodesLeadNothing(t *testing.T) {
	var full [4]atomic.Bool
	small := newSmallFS(vfs.NewMem(), 64<<20)
	c := newCluster(t, 1, func(c *Config) {
		if c.NodeID == 1 {
			c.FS = small
		}
		c.SegmentBytes, c.MaxLogBytes, c.MinFreeBytes, c.BallastBytes, c.DiskInterval = 64<<10, 512<<10, 1<<20, 512<<10, 20*time.Millisecond
		c.Full = func(id uint64) bool { return full[id].Load() }
	})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	until(ctx, t, "node 1 to lead", func() bool { return c.host(1).Leads(0) })
	full[2].Store(true)
	full[3].Store(true)
	small.eat(700 << 10)
	until(ctx, t, "the disk to be full", c.host(1).ReadOnly)
	if c.host(1).stepDown() {
		t.Error("a node gives up what it leads although all disks are full")
	}
	full[3].Store(false)
	if c.host(1).stepDown() {
		t.Error("a node gives up what it leads although most disks are full")
	}
	full[1].Store(true) // as the other nodes see it
	full[2].Store(false)
	until(ctx, t, "another leader", func() bool { return c.host(2).Leads(0) || c.host(3).Leads(0) })
	c.add(ctx, "sound")
	for range 5 {
		c.host(2).spread()
		c.host(3).spread()
	}
	c.settle(ctx)
	if c.host(1).Leads(0) {
		t.Error("the node with the full disk got the leadership back")
	}
	small.takenByOthers(0)
	until(ctx, t, "there to be space again", func() bool { return !c.host(1).ReadOnly() })
	full[1].Store(false)
	until(ctx, t, "node 1 to lead again", func() bool { return c.host(1).Leads(0) })
	full[2].Store(true)
	full[3].Store(true)
	before := c.host(1).shards[0].role.term.Load()
	c.host(1).TransferLeadership(ctx)
	// It may have got the leadership back from a node whose disk is full.
	if c.host(1).Leads(0) && c.host(1).shards[0].role.term.Load() == before {
		t.Error("a node that goes keeps what it leads because the others have no space")
	}
}

// TestSuccessorsNearby: if no follower has caught up, the nearest one is a successor, up to
// nearEnough entries behind.
func TestSuccessorsNearby(t *testing.T) {
	p := newSteppedPair(t)
	s := p.leader().host.shards[0]
	is := func(lag uint64, want ...uint64) {
		t.Helper()
		if got := s.successors(); !slices.Equal(got, want) {
			t.Errorf("%d entries behind: the successors are %v, want %v", lag, got, want)
		}
	}
	p.until("level replicas", func() bool { return p.steppers[1].State(0).Last == p.leader().State(0).Last && s.isAbreast(2) })
	is(0, 2)
	if got := s.candidatesLocked(0); !slices.Equal(got, []uint64{2}) {
		t.Errorf("a replica with all entries is no candidate: %v", got)
	}
	p.net.Cut(1, 2)
	matched := p.steppers[1].State(0).Last
	for lag := uint64(0); lag <= nearEnough; {
		must(t, s.loop.core.rn.Propose([]byte("never committed")))
		p.leader().Step(0, 0)
		must(t, p.leader().WriteLog())
		switch lag = s.log.LastIndex() - matched; lag {
		case 1, abreast, abreast + 1, 2*abreast + 1, 3 * abreast, nearEnough - 1, nearEnough:
			is(lag, 2)
		case nearEnough + 1:
			is(lag)
		}
	}
}

// TestStepDown: a node gives up its leaderships if its clock is off, or its disk is full and most
// others have space. Otherwise it returns those that another node should have.
func TestStepDown(t *testing.T) {
	p := newSteppedPair(t)
	h := p.leader().host
	s := h.shards[0]
	p.until("a successor", func() bool { return s.isAbreast(2) })
	full := map[uint64]bool{}
	h.cfg.Full = func(id uint64) bool { return full[id] }
	asked := func() uint64 { return s.mail.take(input{}).transfer }
	for _, c := range []struct {
		own   bool // its disk is full
		full  []uint64
		ahead time.Duration
		down  bool
		to    uint64
	}{
		{false, nil, 0, false, 0}, {true, nil, 0, true, 2}, {true, []uint64{3}, 0, false, 0}, {true, []uint64{2}, 0, false, 0},
		{false, []uint64{2, 3}, 0, false, 0}, {true, []uint64{2, 3}, 0, false, 0}, {false, nil, 999 * time.Millisecond, false, 0},
		{false, nil, time.Minute, true, 2}, {false, []uint64{2}, time.Minute, true, 0}, {true, []uint64{3}, time.Minute, true, 2},
	} {
		clear(full)
		for _, id := range c.full {
			full[id] = true
		}
		if h.space.level.Store(plenty); c.own {
			h.space.level.Store(low)
		}
		wall := p.clock.Wall()
		for id := uint64(2); id <= 3; id++ {
			h.clocks.observe(id, wall, 0)
		}
		p.clock.wall += c.ahead.Milliseconds()
		if down, to := h.stepDown(), asked(); down != c.down || to != c.to {
			t.Errorf("%+v: steps down %t, asks node %d", c, down, to)
		}
		p.clock.wall -= c.ahead.Milliseconds()
	}
	h.space.level.Store(plenty)
	clear(full)
	spread := func(what string, voters []uint64, want uint64) {
		t.Helper()
		h.cfg.Voters = voters
		if h.spread(); asked() != want {
			t.Errorf("%s: another node is asked, or none; want %d", what, want)
		}
		h.cfg.Voters = []uint64{1, 2, 3}
	}
	spread("its own shard", []uint64{3, 2, 1}, 0)
	spread("a shard of another", []uint64{3, 2}, 2)
	full[2] = true
	spread("of a full one", []uint64{3, 2}, 0)
	full[2] = false
	spread("of an absent one", []uint64{3}, 0)
	s.role.leading.Store(false)
	spread("led by another", []uint64{3, 2}, 0)
	s.role.leading.Store(true)
}
