package shard

import (
	"fmt"
	"sync/atomic"

	"github.com/floedb/floe/internal/engine"
)

// role is the replica's role in the raft group, for all goroutines: a copy of the core's.
type role struct {
	leader  atomic.Uint64 // 0: unknown
	term    atomic.Uint64
	leading atomic.Bool
	halted  atomic.Pointer[haltedError] // why the shard has stopped on this node; nil: not stopped

	hasLed bool          // for the loop
	led    chan struct{} // closed when this node leads for the first time
}

// set is called by the loop when the core has another leader or term.
func (r *role) set(c *core) {
	r.leader.Store(c.leader)
	r.term.Store(c.term)
	r.leading.Store(c.isLeader)
	if c.isLeader && !r.hasLed {
		r.hasLed = true
		close(r.led)
	}
}

// haltedError is why a shard has stopped.
type haltedError struct {
	shard engine.ShardID
	why   string
}

func (e *haltedError) Error() string { return fmt.Sprintf("shard %d is stopped: %s", e.shard, e.why) }
func (e *haltedError) Unwrap() error { return engine.ErrUnavailable }

// halt stops the shard on this node until the node is reopened: it neither leads nor follows, and
// answers only stale reads. The other shards continue.
func (s *shard) halt(why string) {
	if s.role.halted.CompareAndSwap(nil, &haltedError{s.id, why}) {
		s.host.log.Error("a shard is stopped", "shard", s.id, "reason", why)
		s.mail.poke()
	}
}
