package shard

import (
	"context"
	"slices"
	"time"

	"go.etcd.io/raft/v3/tracker"

	"github.com/floedb/floe/internal/engine"
)

// Maximum lag in entries of a follower to which leadership may be transferred. It must catch up
// first, and no commands are proposed in the meantime. A follower that has just started is near
// long before it is abreast.
const (
	abreast    = 16 // the entries in flight to it
	nearEnough = 1024
)

// successors returns the voters that could lead the shard at once, in order of their ids; nil
// unless this node leads it. If none of them is abreast of this node, it returns the one with the
// least lag, unless that is large. Nodes with full disks are excluded, because they would refuse
// commands that take space.
func (s *shard) successors() []uint64 {
	s.loop.mu.Lock()
	defer s.loop.mu.Unlock()
	ids := s.successorsLocked(abreast)
	for behind := uint64(2 * abreast); ids == nil && behind <= nearEnough; behind *= 2 {
		ids = s.successorsLocked(behind)
	}
	return ids
}

// transferees returns the successors. Without successors it returns the nodes that are excluded
// only because their disks are full: when this node leaves, a leader that refuses writes is better
// than no leader.
func (s *shard) transferees() []uint64 {
	if ids := s.successors(); ids != nil {
		return ids
	}
	s.loop.mu.Lock()
	defer s.loop.mu.Unlock()
	return s.candidatesLocked(abreast)
}

// successorsLocked returns the voters that could lead the shard, have space, and lag by at most
// behind entries.
func (s *shard) successorsLocked(behind uint64) []uint64 {
	ids := slices.DeleteFunc(s.candidatesLocked(behind), s.host.isFull)
	if len(ids) == 0 {
		return nil
	}
	return ids
}

func (s *shard) candidatesLocked(behind uint64) []uint64 {
	if !s.loop.core.isLeader {
		return nil
	}
	var ids []uint64
	last := s.log.LastIndex()
	for id, p := range s.loop.core.rn.Status().Progress {
		// RecentActive is not used: a leader clears it for all nodes at each check of its quorum,
		// so for a moment there would be no successor.
		if id != s.host.cfg.NodeID && p.State == tracker.StateReplicate && s.host.isAlive(id) && s.host.clocks.offset(id) == 0 &&
			p.Match+behind >= last {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (s *shard) transfer(to uint64) {
	s.mail.put(func(in *input) { in.transfer = to })
}

// lead does the periodic work of a cluster member: it creates the default namespace and spreads
// leaders.
func (h *Host) lead() {
	defer h.running.Done()
	unmade := time.NewTicker(h.cfg.TickInterval)
	defer unmade.Stop()
	look := time.NewTicker(spreadTicks * h.cfg.TickInterval)
	defer look.Stop()
	for {
		select {
		case <-unmade.C:
			ctx, cancel := context.WithTimeout(h.ctx, spreadTicks*h.cfg.TickInterval)
			if h.createDefault(ctx) == nil {
				unmade.Stop()
			}
			cancel()
		case <-look.C:
			if !h.stepDown() {
				h.spread()
			}
		case <-h.ctx.Done():
			return
		}
	}
}

// stepDown transfers this node's leaderships if it should not lead, because its clock is off or its
// disk is full. It reports whether that is so. If most disks are full it does not transfer them,
// because a leader with space would accept writes that its followers cannot store, and no node
// would report why there is no progress.
func (h *Host) stepDown() bool {
	full := 0
	for _, id := range h.cfg.Voters {
		if h.isFull(id) {
			full++
		}
	}
	crammed := h.space.readOnly() && full <= (len(h.cfg.Voters)-1)/2
	if off := h.clocks.isOff(); !off && !crammed {
		return false
	}
	for _, s := range h.shards {
		if ids := s.successors(); len(ids) > 0 {
			to := ids[int(s.id)%len(ids)]
			if crammed {
				h.log.Info("the disk is full: the leadership goes to another node", "shard", s.id, "node", to)
			}
			s.transfer(to)
		}
	}
	return true
}

// spreadTicks is the interval of spreading leaders, which is as long as an election.
const spreadTicks = 2 * electionTicks

// preferred returns the node that should lead a shard. Leaders are spread evenly over the voters:
// shard i belongs to the i-th of them, modulo their number.
func (h *Host) preferred(id engine.ShardID) uint64 {
	voters := slices.Sorted(slices.Values(h.cfg.Voters))
	return voters[int(id)%len(voters)]
}

// spread transfers the leadership of one shard to its preferred node. It does nothing if this node
// leads no shard that another node could take over.
func (h *Host) spread() {
	for _, s := range h.shards {
		best := h.preferred(s.id)
		if best == h.cfg.NodeID || !s.role.leading.Load() {
			continue
		}
		if s.isAbreast(best) {
			s.transfer(best)
			return
		}
	}
}

// isAbreast reports whether a node could lead the shard without a pause, because this transfer is
// not urgent.
func (s *shard) isAbreast(node uint64) bool {
	s.loop.mu.Lock()
	defer s.loop.mu.Unlock()
	return slices.Contains(s.successorsLocked(abreast), node)
}

// settled is the number of consecutive checks in which a node that hands over must lead no shard,
// because another node may have been about to return a leadership.
const settled = 3

// TransferLeadership transfers all leaderships of this node. It returns when the node leads no
// shard, no other node is alive to take over, or ctx is done. Other nodes must be notified
// beforehand that this node leaves, or they may return leaderships.
func (h *Host) TransferLeadership(ctx context.Context) {
	poll := time.NewTicker(h.cfg.TickInterval / 10)
	defer poll.Stop()
	const again = 10 * electionTicks // raft gives up after an election timeout: then try another node
	asked := make([]int, len(h.shards))
	for turn, quiet := again, 0; quiet < settled && h.hasOthers(); turn++ {
		quiet++
		for i, s := range h.shards {
			if !s.role.leading.Load() {
				continue
			}
			quiet = 0
			// A shard without a transferee may have one at the next check.
			if ids := s.transferees(); len(ids) > 0 && turn-asked[i] >= again {
				s.transfer(ids[(i+turn/again)%len(ids)])
				asked[i] = turn
			}
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return
		case <-h.ctx.Done():
			return
		}
	}
}

// isFull reports whether the disk of a node is known to be full.
func (h *Host) isFull(id uint64) bool {
	if id == h.cfg.NodeID {
		return h.space.readOnly()
	}
	return h.cfg.Full != nil && h.cfg.Full(id)
}

// ReadOnly reports whether the disk of this node is full.
func (h *Host) ReadOnly() bool { return h.space.readOnly() }

func (h *Host) isAlive(id uint64) bool { return h.cfg.Alive == nil || h.cfg.Alive(id) }

// hasOthers reports whether another voter is alive.
func (h *Host) hasOthers() bool {
	return slices.ContainsFunc(h.cfg.Voters, func(id uint64) bool { return id != h.cfg.NodeID && h.isAlive(id) })
}

// Voters returns the members of every shard's raft group.
func (h *Host) Voters() []uint64 { return slices.Clone(h.cfg.Voters) }
