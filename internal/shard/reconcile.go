package shard

import (
	"fmt"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/raftlog"
)

// reconcile makes the log and the state of all shards agree. It checks all of them before it
// writes, so if it refuses, the log is unchanged.
func (h *Host) reconcile() error {
	var updates []raftlog.Update
	for _, s := range h.shards {
		u, err := s.reconcile(s.exec.Applied())
		if err != nil {
			return err
		}
		if u != nil {
			updates = append(updates, *u)
		}
	}
	if len(updates) == 0 {
		return nil
	}
	if err := h.writeLog(updates...); err != nil {
		return fmt.Errorf("continue the log behind the state of %d shards: %w", len(updates), err)
	}
	return nil
}

// reconcile returns the update that makes log and state agree, or nil. The state may be ahead of
// the log: with Async, if a flush has made it durable beyond the surviving log, and after a crash
// while installing a snapshot. The log then continues after the state. Any other gap means that
// durable data was lost.
func (s *shard) reconcile(applied engine.Applied) (*raftlog.Update, error) {
	first, last := s.log.FirstIndex(), s.log.LastIndex()
	if applied.Index+1 < first {
		return nil, fmt.Errorf("shard %d: the state in %s ends at index %d, but the log begins at %d: part of the state has been lost",
			s.id, s.host.stateDir, applied.Index, first)
	}
	// A tail that was never committed may extend past an installed snapshot. The terms reveal that.
	if term, err := s.log.Term(applied.Index); applied.Index == 0 || err == nil && term == applied.Term {
		return nil, nil
	}
	installed, err := s.installed(applied.Index)
	if err != nil {
		return nil, err
	}
	lostTail := s.log.Reserved() > 0 && len(s.host.cfg.Voters) == 1
	if !lostTail && !installed {
		return nil, fmt.Errorf("shard %d: the log in %s ends at index %d, but the state is at %d of term %d: part of the log has been lost",
			s.id, s.host.fs.PathJoin(s.host.cfg.Dir, "log"), last, applied.Index, applied.Term)
	}
	hs := s.log.HardState()
	hs.Term = new(max(hs.GetTerm(), applied.Term))
	hs.Commit = new(applied.Index)
	return &raftlog.Update{Shard: uint16(s.id), Reset: &raftlog.Position{Index: applied.Index, Term: applied.Term}, HardState: hs}, nil
}
