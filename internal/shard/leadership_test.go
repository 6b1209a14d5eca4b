package shard

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// TestSuccessorsAtQuorumCheck: a leader forgets with each check of its quorum who was active lately. A node that was stopped at that moment found nobody to
// hand over to, closed with what it led, and writes paused for an election timeout.
func TestSuccessorsAtQuorumCheck(t *testing.T) {
	noLeaks(t)
	c := newCluster(t, 1, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	until(ctx, t, "successors", func() bool {
		s := c.host(c.leaderOf(ctx, 0, 0)).shards[0]
		s.stepMu.Lock()
		defer s.stepMu.Unlock()
		if len(s.successorsLocked()) < 2 {
			return false
		}
		for range electionTicks {
			s.core.rn.Tick()
		}
		if n := len(s.successorsLocked()); n != 2 {
			t.Errorf("after a check of the quorum there are %d successors, want 2", n)
		}
		return true
	})
}

// TestLeaderThatLeaves hands over while another node says that it leaves, too: that gets nothing, and nothing is given back to who has left.
func TestLeaderThatLeaves(t *testing.T) {
	noLeaks(t)
	var left [4]atomic.Bool
	c := newCluster(t, 1, func(c *Config) { c.Alive = func(id uint64) bool { return !left[id].Load() } })
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	c.settle(ctx)
	left[1].Store(true)
	left[2].Store(true)
	c.host(1).HandOver(ctx)
	c.host(2).HandOver(ctx)
	for id := uint64(1); id <= 2; id++ {
		if h := c.host(id); slices.ContainsFunc(h.shards, func(s *shard) bool { return s.leading.Load() }) {
			t.Errorf("node %d leads although it has handed over", id)
		}
	}
	for range 5 {
		c.host(3).spread()
	}
	until(ctx, t, "leaders", func() bool { return c.host(3).Leads(0) && c.host(3).Leads(1) })
}
