package shard

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/floedb/floe/internal/engine"
)

// verifyLog checks the shard's log entry by entry, and that its state matches the log.
func (s *shard) verifyLog(ctx context.Context, report func(problem string)) error {
	problemf := func(format string, args ...any) {
		report(fmt.Sprintf("shard %d: log: %s", s.id, fmt.Sprintf(format, args...)))
	}
	first, last, applied := s.log.FirstIndex(), s.log.LastIndex(), s.exec.Applied()
	term, err := s.log.Term(first - 1)
	if err != nil {
		return fmt.Errorf("shard %d: term of entry %d: %w", s.id, first-1, err)
	}
	if applied.Index+1 < first {
		problemf("begins at entry %d, but the state ends at %d", first, applied.Index)
	}
	if got, err := s.log.Term(applied.Index); err == nil && applied.Index > 0 && got != applied.Term {
		problemf("entry %d is of term %d, the state has applied it as of term %d", applied.Index, got, applied.Term)
	}
	err = s.eachEntry(ctx, first, last, func(e *raftpb.Entry) {
		if e.GetTerm() < term {
			problemf("entry %d is of term %d, the one before of term %d", e.GetIndex(), e.GetTerm(), term)
		}
		term = e.GetTerm()
		if err := s.verifyEntry(e); err != nil {
			problemf("entry %d: %v", e.GetIndex(), err)
		}
	})
	if err != nil {
		return err
	}
	hs := s.log.HardState()
	if hs.GetTerm() < term {
		problemf("its last entry is of term %d, its hard state of term %d", term, hs.GetTerm())
	}
	if hs.GetCommit() > max(last, applied.Index) {
		problemf("entry %d was committed, the last one is %d", hs.GetCommit(), last)
	}
	if vote := hs.GetVote(); vote != 0 && !slices.Contains(s.host.cfg.Voters, vote) {
		problemf("voted for node %d, which is not among the voters %v", vote, s.host.cfg.Voters)
	}
	return nil
}

// eachEntry calls f for the entries from first to last, a few MiB at a time.
func (s *shard) eachEntry(ctx context.Context, first, last uint64, f func(*raftpb.Entry)) error {
	for first <= last {
		if err := ctx.Err(); err != nil {
			return err
		}
		es, err := s.log.Entries(first, last+1, maxStepBytes)
		if err != nil {
			return fmt.Errorf("shard %d: read entry %d: %w", s.id, first, err)
		}
		for _, e := range es {
			if e.GetIndex() != first {
				return fmt.Errorf("shard %d: entry %d is stored as %d", s.id, e.GetIndex(), first)
			}
			f(e)
			first++
		}
	}
	return nil
}

// verifyEntry checks that an entry can be applied, because all its commands are known.
func (s *shard) verifyEntry(e *raftpb.Entry) error {
	if e.GetType() != raftpb.EntryNormal {
		return fmt.Errorf("is of type %v", e.GetType())
	}
	if len(e.GetData()) == 0 {
		return nil // a new leader's
	}
	var entry engine.Entry
	if err := entry.Decode(e.GetData()); err != nil {
		return err
	}
	for _, b := range entry.Commands {
		cmd, err := engine.DecodeCommand(b)
		if err == nil {
			err = s.exec.Check(cmd)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// verifyForeignRows reports rows that belong to no shard, except those left by installing a
// snapshot.
func (h *Host) verifyForeignRows(report func(problem string)) error {
	lower, _ := engine.Bounds(engine.ShardID(len(h.shards)))
	it, err := h.db.NewIter(&pebble.IterOptions{LowerBound: lower})
	if err != nil {
		return fmt.Errorf("read state: %w", err)
	}
	foreign := 0
	for ok := it.First(); ok; ok = it.Next() {
		k := it.Key()
		ours := len(k) == 5 && string(k[:3]) == "\xff\xffi" && int(binary.BigEndian.Uint16(k[3:])) < len(h.shards) && len(it.Value()) == 8
		if ours {
			continue
		}
		if foreign++; foreign <= 10 {
			report(fmt.Sprintf("row %x belongs to none of the %d shards", k, len(h.shards)))
		}
	}
	if foreign > 10 {
		report(fmt.Sprintf("%d more rows belong to none of the %d shards", foreign-10, len(h.shards)))
	}
	return errors.Join(it.Error(), it.Close())
}
