package raftlog

import "slices"

// Truncate drops the entries of each shard up to and including the given index, which is clamped to
// the shard's last. The compacted position never decreases. The caller ensures that the entries are
// no longer needed, because the resulting state is durable. When Truncate returns nil, the
// truncation is durable and segments that no shard needs are removed.
//
// Errors: those of FS, the first error of a failed Sync, ErrClosed. If only the removal fails, the
// entries are dropped, and the next Truncate or Open removes the files.
func (l *Log) Truncate(upTo map[uint16]uint64) error {
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	cuts := l.cuts(upTo)
	if len(cuts) == 0 && l.neededSegment(nil) == l.oldest {
		return l.removeSegments(l.oldest)
	}
	if err := l.makeRoom(recordSize(0) * int64(len(cuts)+1)); err != nil {
		return err
	}
	oldest := l.neededSegment(cuts)
	l.beginRecords()
	for _, c := range cuts {
		l.addRecord(header{kind: kindCompact, shard: c.shard.id, term: c.to.Term, index: c.to.Index}, nil)
	}
	if oldest > l.oldest {
		l.addRecord(header{kind: kindOldest, index: uint64(oldest)}, nil)
	}
	if err := l.flushRecords(); err != nil {
		return err
	}
	l.compact(cuts)
	if err := l.Sync(); err != nil {
		return err
	}
	return l.removeSegments(oldest)
}

// cut is the compaction of one shard.
type cut struct {
	shard *Shard
	to    Position
}

// cuts returns the compactions that upTo causes, ordered by shard.
func (l *Log) cuts(upTo map[uint16]uint64) []cut {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var cuts []cut
	for id, i := range upTo {
		s := l.shards[id]
		if s == nil {
			continue
		}
		i = min(i, s.lastIndex())
		if i > s.compacted.Index {
			cuts = append(cuts, cut{s, Position{Index: i, Term: s.slots[i-s.first].term}})
		}
	}
	slices.SortFunc(cuts, func(a, b cut) int { return int(a.shard.id) - int(b.shard.id) })
	return cuts
}

// neededSegment returns the oldest segment that has a live entry once cuts are applied, or the tail
// if there is no entry. Entries are in segments in the order of their indexes, so only the first of
// each shard matters.
func (l *Log) neededSegment(cuts []cut) uint32 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	firsts := make(map[*Shard]uint64, len(cuts))
	for _, c := range cuts {
		firsts[c.shard] = c.to.Index + 1
	}
	needed := max(l.tail.number, l.oldest)
	for _, s := range l.shards {
		first := max(s.first, firsts[s])
		if first <= s.lastIndex() {
			needed = min(needed, s.slots[first-s.first].segment)
		}
	}
	return needed
}

// compact applies cuts whose records are in l.buf.
func (l *Log) compact(cuts []cut) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range cuts {
		c.shard.compactLocked(c.to)
		l.touchLocked(c.shard)
	}
	l.advanceLocked()
}
