package shard

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of clocks, ms.
const (
	clockTolerance = 1000   // maximum difference of a clock from the others
	clockUncertain = 500    // a comparison with more only counts if there is no other
	clockOld       = 30_000 // or only one this old
)

// clocks holds the known clocks of the cluster, whose nodes exchange their time about once a
// second. Each clock is stored as an offset from this node's monotonic time, so that the next check
// detects a jump of the node's own wall clock.
//
// The time with which a leader stamps entries is never more than a second ahead of the median of
// all known clocks, its own included. A node whose clock is further from the median, in either
// direction, gives up its leaderships. With an even number of clocks there are two medians. The
// earlier one limits a leader's time, and a node is compared with the nearer one. So if two nodes
// differ, neither gives up, and the slower clock sets the time.
type clocks struct {
	own    uint64
	quorum int // of clocks, including this node's
	clock  Clock
	log    *slog.Logger

	bound atomic.Int64 // of the wall clock, less this node's monotonic time
	known atomic.Bool  // a quorum of clocks

	mu     sync.Mutex // guards what follows
	others map[uint64]otherClock
	before int64 // wall clock less monotonic time at the last look
	looked bool
	off    bool // this node's clock is off, and that was logged
}

// otherClock is the clock of another node.
type otherClock struct {
	base      int64 // its wall clock, less this node's monotonic time
	uncertain int64
	at        int64 // this node's monotonic time when that was known
}

func newClocks(c *Config) *clocks {
	k := &clocks{own: c.NodeID, quorum: len(c.Voters)/2 + 1, clock: c.Clock, log: c.Logger, others: make(map[uint64]otherClock)}
	k.bound.Store(math.MaxInt64)
	k.known.Store(!c.Clocks)
	return k
}

// limit returns a wall clock's time, or an earlier one if that is ahead of the other clocks.
func (k *clocks) limit(wall int64, mono time.Duration) int64 {
	if bound := k.bound.Load(); bound != math.MaxInt64 {
		return min(wall, bound+mono.Milliseconds())
	}
	return wall
}

// observe notes the current wall clock of another node, with its uncertainty.
func (k *clocks) observe(node uint64, wall, uncertain int64) {
	mono := k.clock.Source.Mono().Milliseconds()
	k.mu.Lock()
	defer k.mu.Unlock()
	if had, ok := k.others[node]; ok && uncertain > clockUncertain && uncertain >= had.uncertain && mono-had.at < clockOld {
		return
	}
	k.others[node] = otherClock{wall - mono, uncertain, mono}
	// If this node's clock is behind this one, this is the earlier of the medians. Otherwise no
	// limit is needed.
	bases, uncertainty := k.withoutLocked(k.own)
	k.bound.Store(bases[len(bases)/2] + clockTolerance + uncertainty)
	k.known.Store(k.known.Load() || len(bases)+1 >= k.quorum)
}

// withoutLocked returns the known clocks except that of one node, in order, and their uncertainty.
func (k *clocks) withoutLocked(node uint64) (bases []int64, uncertain int64) {
	for id, o := range k.others {
		if id != node {
			bases, uncertain = append(bases, o.base), max(uncertain, o.uncertain)
		}
	}
	if node != k.own {
		bases = append(bases, k.clock.Source.Wall()-k.clock.Source.Mono().Milliseconds())
	}
	slices.Sort(bases)
	return bases, uncertain
}

// offset returns how far a node's clock is ahead of most others, or behind (negative), in ms. It
// returns 0 if that is within the tolerance or unknown.
func (k *clocks) offset(node uint64) int64 {
	mono := k.clock.Source.Mono().Milliseconds()
	k.mu.Lock()
	defer k.mu.Unlock()
	base := k.clock.Source.Wall() - mono
	if node != k.own {
		o, ok := k.others[node]
		if !ok {
			return 0
		}
		base = o.base
	}
	bases, uncertain := k.withoutLocked(node)
	n := len(bases)
	off := int64(0)
	if lo := n/2 - 1; lo >= 0 && base < bases[lo] {
		off = base - bases[lo]
	} else if hi := (n + 1) / 2; hi < n && base > bases[hi] {
		off = base - bases[hi]
	}
	if max(off, -off) <= clockTolerance+uncertain {
		return 0
	}
	return off
}

// problem describes how far a node's clock is off. It returns "" if the clock is right.
func (k *clocks) problem(node uint64) string {
	switch off := k.offset(node); {
	case off > 0:
		return fmt.Sprintf("its clock is %v ahead of those of most nodes", time.Duration(off)*time.Millisecond)
	case off < 0:
		return fmt.Sprintf("its clock is %v behind those of most nodes", -time.Duration(off)*time.Millisecond)
	}
	return ""
}

// look logs a jump of this node's clock since the last call.
func (k *clocks) look() {
	base := k.clock.Source.Wall() - k.clock.Source.Mono().Milliseconds()
	k.mu.Lock()
	jump := base - k.before
	told := k.looked && max(jump, -jump) > clockTolerance
	k.before, k.looked = base, true
	k.mu.Unlock()
	if told {
		k.log.Warn("the clock of this machine has jumped", "by", time.Duration(jump)*time.Millisecond)
	}
}

// isOff reports whether this node's clock is too far from the others' to lead, and logs when that
// changes.
func (k *clocks) isOff() bool {
	why := k.problem(k.own)
	k.mu.Lock()
	changed := k.off != (why != "")
	k.off = why != ""
	k.mu.Unlock()
	switch {
	case changed && why != "":
		k.log.Warn("this node gives up its leaderships: " + why)
	case changed:
		k.log.Info("the clock of this node agrees with the others again: it may lead")
	}
	return why != ""
}

// inFuture describes how far a single node's shard time is ahead of its clock, or returns "". Shard
// time never goes back: once the node has run with a clock that was ahead, schedules run early by
// as much, and writes are stamped with that time. In a cluster the other clocks hold it back.
func (h *Host) inFuture() string {
	if len(h.cfg.Voters) > 1 {
		return ""
	}
	ahead := int64(0)
	for _, s := range h.shards {
		ahead = max(ahead, s.exec.Stamp()-h.Wall())
	}
	if ahead <= clockTolerance {
		return ""
	}
	until := "timeouts take twice as long until the clock has caught up"
	if most := h.cfg.CatchUp; ahead > most.Milliseconds() {
		until = fmt.Sprintf("it stays ahead, because at most %v are caught up by running at half speed: see clock.catch_up "+
			"(Config.ClockCatchUp)", most)
	}
	return fmt.Sprintf("its data is %v ahead of its clock, because it once ran with a clock that was ahead: schedules run early and "+
		"timestamps are ahead by that; %s",
		time.Duration(ahead)*time.Millisecond, until)
}

// Wall returns this node's wall clock in ms since the epoch.
func (h *Host) Wall() int64 { return h.cfg.Clock.Source.Wall() }

// ObserveClock notes the current wall clock of another node in ms since the epoch, with its
// uncertainty.
func (h *Host) ObserveClock(node uint64, wall, uncertain int64) {
	if h.cfg.Clocks && slices.Contains(h.cfg.Voters, node) {
		h.clocks.observe(node, wall, max(uncertain, 0))
	}
}
