package shard

import (
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/floedb/floe/internal/raftlog"
)

// storage is raft's view of a shard: entries from the log, membership and snapshots from the state.
type storage struct {
	*raftlog.Shard
	conf    *raftpb.ConfState
	applied uint64 // when the shard was opened
	export  func() (*raftpb.Snapshot, error)
}

var _ raft.Storage = (*storage)(nil)

// InitialState returns term and vote from the log. Applied entries were committed, even if the log
// does not show that, because the commit index is rarely written.
func (s *storage) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	hs := s.HardState()
	hs.Commit = new(max(hs.GetCommit(), s.applied))
	return hs, s.conf, nil
}

// FirstIndex returns the index of the first entry in the log.
func (s *storage) FirstIndex() (uint64, error) { return s.Shard.FirstIndex(), nil }

// LastIndex returns the index of the last entry in the log.
func (s *storage) LastIndex() (uint64, error) { return s.Shard.LastIndex(), nil }

// Snapshot prepares a snapshot of the state for a follower that needs entries the log no longer
// has.
func (s *storage) Snapshot() (*raftpb.Snapshot, error) { return s.export() }
