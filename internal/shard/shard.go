package shard

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/raftlog"
)

// shard is one replica: the goroutines around a core and an executor. Its parts are drawn in
// doc.go.
type shard struct {
	host  *Host
	id    engine.ShardID
	log   *raftlog.Shard
	exec  *engine.Executor
	clock shardClock

	mail      mailbox
	admission admission
	pending   pending
	loop      loop
	applier   applier
	reads     waitingReads
	role      role
	progress  progress

	exports    exports
	sender     sender
	dutyRunner dutyRunner
}

// progress is the replica's progress, for all goroutines.
type progress struct {
	visibleLSN   atomic.Uint64 // last LSN visible to queries
	committed    atomic.Uint64 // index of the last entry passed to the applier
	acknowledged atomic.Uint64 // last index that raft knows to be applied
}

// post adds input that may wait for the end of the current round. Fewer steps of the core make
// rounds larger, including those of followers, whose disks are equally busy. The wait ends at the
// next tick or message from another node, because either wakes the loop. A disk that hangs
// therefore does not prevent the other nodes from committing.
func (s *shard) post(f func(*input)) {
	s.mail.leave(f)
	if !s.host.writer.busy.Load() {
		s.mail.poke()
	}
}

// guard turns a panic into a failed host, because a bug in floe must neither skip a command nor end
// the host program.
func (s *shard) guard() {
	if r := recover(); r != nil {
		err, ok := r.(error)
		if !ok {
			if isGuarded() {
				panic(r)
			}
			err = fmt.Errorf("%v", r)
		}
		s.host.fail(fmt.Errorf("shard %d at index %d: %w\n%s", s.id, s.exec.Visible(), err, debug.Stack()))
	}
}

func (s *shard) send(msgs []*raftpb.Message) {
	if s.host.cfg.Transport == nil || len(msgs) == 0 {
		return
	}
	plain := msgs[:0]
	for _, m := range msgs {
		if m.GetType() == raftpb.MsgSnap {
			s.sendSnapshot(m)
			continue
		}
		plain = append(plain, m)
	}
	s.host.cfg.Transport.Send(uint16(s.id), plain)
}

func (s *shard) queuedAppend(t *appendTask) queuedAppend {
	a := queuedAppend{mustSync: t.mustSync, done: func() { s.appended(t) }}
	if t.update.HardState != nil || len(t.update.Entries) > 0 || t.update.Reset != nil {
		a.update = &t.update
	}
	return a
}

// appended delivers the responses of an append: to peers, and to the core itself.
func (s *shard) appended(t *appendTask) {
	own := t.responses
	if len(s.host.cfg.Voters) > 1 {
		var others []*raftpb.Message
		if own, others = s.sorted(t.responses); len(others) > 0 {
			s.send(others)
		}
	}
	s.post(func(in *input) {
		in.responses = append(in.responses, own...)
		if t.entries {
			in.appended++
		}
	})
}

// sorted separates messages to the core itself from those to peers.
func (s *shard) sorted(all []*raftpb.Message) (own, others []*raftpb.Message) {
	for _, m := range all {
		if m.GetTo() == s.host.cfg.NodeID {
			own = append(own, m)
		} else {
			others = append(others, m)
		}
	}
	return own, others
}
