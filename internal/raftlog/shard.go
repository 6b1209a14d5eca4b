package raftlog

import (
	"math"
	"math/bits"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// entryOverhead is the memory of a cached entry besides its data: the message, its pointer fields
// and the pointer to it.
const entryOverhead = 128

// Shard is the log of one shard: the entries after a compacted position, raft's hard state and a
// reserved mark. Its reads follow the contract of raft.Storage and are safe at any time, even
// during writes to the log.
//
//	compacted   first                          last
//	    5         6    7    8    9   10   11   12
//	              |--------- slots -------------|    where each entry lies, in segment order
//	                             |-- cache -----|    the entries themselves, a suffix
//
// first is compacted.Index + 1, except while Open replays segments whose predecessors are gone.
// Entries in between were then in those segments, and a later record must compact them.
type Shard struct {
	log *Log
	id  uint16

	// All below is guarded by log.mu.

	known      bool // has any record
	hard       hardState
	compacted  Position
	first      uint64
	slots      []slot
	cache      []*raftpb.Entry
	cacheBytes int64
	reserved   uint64

	durable uint64 // highest index known durable
	pending uint64 // value of durable once the SyncData in flight returns
	dirty   bool   // is in log.dirty

	plan plan // guarded by log.writeMu
}

// slot is the place of an entry: the offset of its record in a segment and the length of its data.
type slot struct {
	offset  int64
	term    uint64
	segment uint32
	length  uint32
}

// HardState returns raft's hard state, with all fields set, or zero if none was written. The caller
// owns the result.
//
// After an Open its term is at least that of the last entry, and its commit index is within the
// log, even if a crash kept only some records of a Write.
func (s *Shard) HardState() *raftpb.HardState {
	s.log.mu.RLock()
	defer s.log.mu.RUnlock()
	return &raftpb.HardState{Term: new(s.hard.term), Vote: new(s.hard.vote), Commit: new(s.hard.commit)}
}

// FirstIndex returns the index after the compacted position, 1 for an empty log.
func (s *Shard) FirstIndex() uint64 {
	s.log.mu.RLock()
	defer s.log.mu.RUnlock()
	return s.compacted.Index + 1
}

// LastIndex returns the index of the last entry, or the compacted index if none exists.
func (s *Shard) LastIndex() uint64 {
	s.log.mu.RLock()
	defer s.log.mu.RUnlock()
	return s.lastIndex()
}

// Durable returns the highest index up to which all entries survive a crash. It decreases when
// entries are replaced, and increases again with the next Sync.
func (s *Shard) Durable() uint64 {
	s.log.mu.RLock()
	defer s.log.mu.RUnlock()
	return s.durable
}

// Reserved returns the reserved LSN high-water mark.
func (s *Shard) Reserved() uint64 {
	s.log.mu.RLock()
	defer s.log.mu.RUnlock()
	return s.reserved
}

// Term returns the term of entry i or of the compacted position.
//
// Errors: raft.ErrCompacted below the compacted position, raft.ErrUnavailable above the last entry.
func (s *Shard) Term(i uint64) (uint64, error) {
	s.log.mu.RLock()
	defer s.log.mu.RUnlock()
	switch {
	case i < s.compacted.Index:
		return 0, raft.ErrCompacted
	case i == s.compacted.Index:
		return s.compacted.Term, nil
	case i > s.lastIndex():
		return 0, raft.ErrUnavailable
	}
	return s.slots[i-s.first].term, nil
}

// Entries returns the entries from lo to hi-1. It stops where their encoded size would exceed
// maxSize, but returns at least one. The caller owns the slice, but must not modify the entries in
// it.
//
// Entries that are not cached are read from their segment and verified. Errors: raft.ErrCompacted,
// raft.ErrUnavailable, ErrCorrupt (a *CorruptionError) if an entry differs from the one written, an
// error of FS.
func (s *Shard) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	for {
		es, cold, err := s.lookUp(lo, hi, maxSize)
		if err != nil || len(cold) == 0 {
			return es, err
		}
		if err = s.readEntries(lo, cold, es); err == nil {
			return es, nil
		}
		if s.holds(lo, cold) {
			return nil, err
		}
	}
}

// holds reports whether the entries starting at index lo are still at slots. If they are not,
// reading them may have failed only because their segment was removed or reused.
func (s *Shard) holds(lo uint64, slots []slot) bool {
	s.log.mu.RLock()
	defer s.log.mu.RUnlock()
	if lo < s.first || lo+uint64(len(slots))-1 > s.lastIndex() {
		return false
	}
	return slices.Equal(s.slots[lo-s.first:][:len(slots)], slots)
}

// lookUp returns the cached entries, and for a prefix that is not cached the places to read from.
func (s *Shard) lookUp(lo, hi, maxSize uint64) (es []*raftpb.Entry, cold []slot, err error) {
	s.log.mu.RLock()
	defer s.log.mu.RUnlock()
	switch {
	case lo <= s.compacted.Index:
		return nil, nil, raft.ErrCompacted
	case hi > s.lastIndex()+1:
		return nil, nil, raft.ErrUnavailable
	case lo >= hi:
		return nil, nil, nil
	}
	from := int(lo - s.first)
	to := from + fit(lo, s.slots[from:hi-s.first], maxSize)
	es = make([]*raftpb.Entry, to-from)
	cached := len(s.slots) - len(s.cache)
	if to > cached {
		skip := max(0, from-cached)
		copy(es[max(0, cached-from):], s.cache[skip:to-cached])
	}
	return es, slices.Clone(s.slots[from:max(from, min(to, cached))]), nil
}

// fit returns how many entries starting at index lo have a total of at most maxSize bytes, at least
// one.
func fit(lo uint64, slots []slot, maxSize uint64) int {
	if maxSize == math.MaxUint64 {
		return len(slots)
	}
	size := uint64(0)
	for k, sl := range slots {
		size += sl.encodedSize(lo + uint64(k))
		if size > maxSize && k > 0 {
			return k
		}
	}
	return len(slots)
}

// encodedSize returns the size of entry i as a protobuf message with type, term, index and data:
// the measure of raft's limits.
func (sl slot) encodedSize(i uint64) uint64 {
	size := 2 + 1 + varintSize(sl.term) + 1 + varintSize(i)
	if sl.length > 0 {
		size += 1 + varintSize(uint64(sl.length)) + uint64(sl.length)
	}
	return size
}

func varintSize(n uint64) uint64 {
	return uint64(bits.Len64(n|1)+6) / 7
}

func (s *Shard) lastIndex() uint64 {
	return s.first + uint64(len(s.slots)) - 1
}

func (s *Shard) lastTerm() uint64 {
	if len(s.slots) == 0 {
		return s.compacted.Term
	}
	return s.slots[len(s.slots)-1].term
}

// resetLocked drops every entry. The log continues after p.
func (s *Shard) resetLocked(p Position) {
	s.cutLocked(s.first)
	s.compacted = p
	s.first = p.Index + 1
	s.durable = min(s.durable, p.Index)
	s.pending = min(s.pending, p.Index)
}

// appendLocked replaces all entries at and after index i. es are the entries at slots, or nil to
// cache none of them. The cache must stay a suffix, so with nil it must be empty.
func (s *Shard) appendLocked(i uint64, slots []slot, es []*raftpb.Entry) {
	s.cutLocked(i)
	s.slots = append(s.slots, slots...)
	s.cache = append(s.cache, es...)
	for _, e := range es {
		s.addCacheBytes(cost(e))
	}
}

// cutLocked drops the entries at and after index i.
func (s *Shard) cutLocked(i uint64) {
	s.durable = min(s.durable, i-1)
	s.pending = min(s.pending, i-1)
	if i > s.lastIndex() {
		return
	}
	drop := min(len(s.cache), int(s.lastIndex()-i)+1)
	keep := len(s.cache) - drop
	s.forgetCached(s.cache[keep:])
	s.cache = s.cache[:keep]
	s.slots = s.slots[:i-s.first]
}

// compactLocked drops the entries up to p, which is within the log.
func (s *Shard) compactLocked(p Position) {
	s.compacted = p
	if p.Index < s.first {
		return
	}
	n := int(p.Index - s.first + 1)
	if excess := len(s.cache) - (len(s.slots) - n); excess > 0 {
		s.evictFirst(excess)
	}
	s.first = p.Index + 1
	s.slots = s.slots[n:]
	if len(s.slots) <= n {
		s.slots = slices.Clone(s.slots) // Copies no more than was dropped, and frees that memory.
	}
}

// evictLocked drops the oldest cached entries until at most keep bytes are left, at least one
// entry.
func (s *Shard) evictLocked(keep int64) {
	n, left := 0, s.cacheBytes
	for left > keep || n == 0 {
		left -= cost(s.cache[n])
		n++
	}
	s.evictFirst(n)
}

func (s *Shard) evictFirst(n int) {
	s.forgetCached(s.cache[:n])
	s.cache = s.cache[n:]
}

// forgetCached clears es, a part of the cache that is about to be sliced off. The array stays in
// use, so the pointers would keep the entries alive.
func (s *Shard) forgetCached(es []*raftpb.Entry) {
	for _, e := range es {
		s.addCacheBytes(-cost(e))
	}
	clear(es)
}

func (s *Shard) addCacheBytes(n int64) {
	s.cacheBytes += n
	s.log.inCache += n
}

func cost(e *raftpb.Entry) int64 {
	return entryOverhead + int64(len(e.GetData()))
}

// settle repairs the results of a torn Write: a hard state with a vote or commit whose entries are
// lost, or entries of a term whose hard state is lost. A vote in such a term was never sent,
// because it was never durable.
func (s *Shard) settle() {
	if t := s.lastTerm(); s.hard.term < t {
		s.hard.term, s.hard.vote = t, 0
	}
	if s.hard != (hardState{}) {
		s.hard.commit = max(min(s.hard.commit, s.lastIndex()), s.compacted.Index)
	}
	s.durable = s.lastIndex()
}
