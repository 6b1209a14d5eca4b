package shard

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// comparer detects that the replicas of a shard have diverged, which only a bug in floe or faulty
// memory can cause.
//
// From time to time the leader claims its state hash at an entry in the log, and each replica that
// applies the claim adds its own, once. All see the same claims in the same order, so they agree on
// the majority's hash, and the node of a replica with another hash fails. If no majority agrees
// within Config.Unsettled, because nodes are down or there are only two, the shard stops on all of
// them, because they would give different answers. After a restart with more nodes they find a
// majority.
//
// It belongs to the applying goroutine. It is not part of the state: a replica that was opened or
// installed a snapshot since the entry has no hash for it, and makes no claim.
type comparer struct {
	shard   *shard
	claims  map[uint64]map[uint64]uint64 // by entry index: hashes by node
	entries []uint64                     // the keys of claims, the oldest first
	lsn     engine.LSN                   // of the last comparison
	asked   engine.LSN                   // of this node's last request because of many changes
	told    uint64                       // last entry for which a difference was logged
	since   time.Duration                // when that was, by the monotonic clock; 0: settled
	term    uint64                       // of the last comparison requested because this node began to lead
	equal   atomic.Uint64                // last entry at which most replicas, including this one, were equal
}

// Bounds of comparisons.
const (
	compareEvery    = 10_000           // changes of a busy shard between two
	compareInterval = 30 * time.Second // between two of a shard with any changes
	maxCompared     = 16               // entries being compared
	maxClaims       = 1024             // claims on their way into the log
	claimWithin     = 10 * time.Second
	unsettledFor    = 10 * time.Second // a slow node with the deciding third claim has made it by then
)

// due returns the comparison that this node should request, if it leads and there were changes
// after an LSN.
func (c *comparer) due(after engine.LSN) (engine.Comparison, bool) {
	s := c.shard
	applied := s.exec.Applied()
	if len(s.host.cfg.Voters) < 2 || !s.role.leading.Load() || applied.LSN <= after {
		return engine.Comparison{}, false
	}
	return engine.Comparison{Node: s.host.cfg.NodeID, Index: applied.Index, Hash: applied.Hash}, true
}

// applied processes the entries applied since the last call.
func (c *comparer) applied() error {
	for _, claim := range c.shard.exec.Compared() {
		if err := c.take(claim); err != nil {
			return err
		}
	}
	if ask, ok := c.begins(); ok {
		c.shard.host.claim(c.shard, ask)
	}
	if ask, ok := c.due(max(c.lsn, c.asked) + compareEvery); ok {
		c.asked = c.shard.exec.Applied().LSN
		c.shard.host.claim(c.shard, ask)
	}
	return nil
}

// begins returns the comparison that this node requests when it begins to lead, even without
// changes. Replicas that have already diverged must not acknowledge more.
func (c *comparer) begins() (engine.Comparison, bool) {
	s := c.shard
	applied := s.exec.Applied()
	if len(s.host.cfg.Voters) < 2 || !s.role.leading.Load() || applied.Term != s.role.term.Load() || applied.Term == c.term {
		return engine.Comparison{}, false
	}
	c.term = applied.Term
	return engine.Comparison{Node: s.host.cfg.NodeID, Index: applied.Index, Hash: applied.Hash}, true
}

func (c *comparer) take(claim engine.Comparison) error {
	s := c.shard
	own, lsn, known := s.exec.HashAt(claim.Index)
	if !known {
		return nil
	}
	c.lsn = max(c.lsn, lsn)
	claims, ok := c.claims[claim.Index]
	if !ok {
		if len(c.entries) == maxCompared {
			delete(c.claims, c.entries[0])
			c.entries = slices.Delete(c.entries, 0, 1)
		}
		claims = make(map[uint64]uint64)
		c.claims[claim.Index] = claims
		c.entries = append(c.entries, claim.Index)
		if claim.Node != s.host.cfg.NodeID {
			s.host.claim(s, engine.Comparison{Node: s.host.cfg.NodeID, Index: claim.Index, Hash: own})
		}
	}
	claims[claim.Node] = claim.Hash
	claims[s.host.cfg.NodeID] = own
	return c.judge(claim.Index, own, claims)
}

// judge returns an error if most replicas had another state.
func (c *comparer) judge(index, own uint64, claims map[uint64]uint64) error {
	s := c.shard
	votes := make(map[uint64]int)
	for _, hash := range claims {
		votes[hash]++
	}
	majority := len(s.host.cfg.Voters)/2 + 1
	for hash, n := range votes {
		switch {
		case n < majority:
		case hash != own:
			return fmt.Errorf("shard %d: the state of this replica at entry %d differs from most others: its hash is %016x, theirs %016x",
				s.id, index, own, hash)
		default:
			c.equal.Store(max(c.equal.Load(), index))
			if index >= c.told {
				c.since = 0
			}
			return nil
		}
	}
	if len(votes) > 1 && c.told < index {
		if c.told = index; c.since == 0 {
			c.since = s.host.cfg.Clock.Source.Mono()
		}
		s.host.log.Error("replicas of a shard differ, and no majority agrees", "shard", s.id, "entry", index, "nodes",
			slices.Sorted(maps.Keys(claims)))
	}
	return nil
}

// settle stops the shard if its replicas have differed for too long without a majority.
func (c *comparer) settle() {
	s := c.shard
	if c.since != 0 && s.host.cfg.Clock.Source.Mono()-c.since >= s.host.cfg.Unsettled {
		s.halt(fmt.Sprintf("its replicas on the nodes %v differ at entry %d, and no majority agrees",
			slices.Sorted(maps.Keys(c.claims[c.told])), c.told))
	}
}

// claimed is a comparison to be proposed to its shard.
type claimed struct {
	shard      *shard
	comparison engine.Comparison
}

// claim proposes a comparison without waiting. If too many are in flight it is skipped, because
// others will follow.
func (h *Host) claim(s *shard, c engine.Comparison) {
	select {
	case h.claims <- claimed{s, c}:
	default:
	}
}

// compare proposes comparisons, including those due by time.
func (h *Host) compare() {
	defer h.running.Done()
	tick := time.NewTicker(h.cfg.CompareInterval)
	defer tick.Stop()
	look := time.NewTicker(h.cfg.Unsettled)
	defer look.Stop()
	for {
		select {
		case c := <-h.claims:
			h.proposeClaim(c)
		case <-look.C:
			for _, s := range h.shards {
				s.applier.mu.Lock()
				s.applier.comparer.settle()
				s.applier.mu.Unlock()
			}
		case <-tick.C:
			for _, s := range h.shards {
				s.applier.mu.Lock()
				c, ok := s.applier.comparer.due(s.applier.comparer.lsn)
				s.applier.mu.Unlock()
				if ok {
					h.claim(s, c)
				}
			}
		case <-h.ctx.Done():
			return
		}
	}
}

// proposeClaim need not succeed, because other comparisons will follow.
func (h *Host) proposeClaim(c claimed) {
	ctx, cancel := context.WithTimeout(h.ctx, claimWithin)
	defer cancel()
	if _, err := h.door().Propose(ctx, c.shard.id, engine.Compare(c.comparison)); err != nil {
		h.log.Debug("replicas were not compared", "shard", c.shard.id, "error", err)
	}
}
