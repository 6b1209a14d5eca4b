package raftlog

import (
	"fmt"
	"io"

	"go.etcd.io/raft/v3/raftpb"
)

// keepBuffer is the largest write buffer kept for the next Write. It is enough for several full
// raft entries, but not for a single huge batch.
const keepBuffer = 8 << 20

// Position is a place in a shard's log: the index of an entry and its term.
type Position struct {
	Index, Term uint64
}

// Update is a write to the log of one shard. Its parts take effect, and reach the disk, in the
// order of the fields.
type Update struct {
	Shard uint16

	// Reset, if not nil, drops every entry. The log continues after this position. It is for an
	// installed snapshot, and for a state ahead of a log that has lost its unsynced tail.
	Reset *Position

	// HardState, if not nil, replaces term, vote and commit.
	HardState *raftpb.HardState

	// Entries are contiguous. They replace all entries at and after the index of the first, which
	// must be above the compacted position and leave no gap. The log retains the entries, so they
	// must not be modified afterwards.
	Entries []*raftpb.Entry

	// Reserve is the reserved LSN high-water mark. It only increases: 0, or less than before,
	// changes nothing.
	Reserve uint64
}

// Write appends the updates us in one file write. The updates are applied in order; several may be
// for the same shard. When Write returns nil the updates are readable, but durable only after the
// next Sync.
//
// After an error none of the updates is visible, though some may reappear if the node crashes
// before the next successful Write. Write can be called again; it continues in a new segment.
// Errors: an update that does not fit its shard's log (nothing written), those of FS, the first
// error of a failed Sync, ErrClosed.
func (l *Log) Write(us []Update) error {
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	size, err := l.plan(us)
	if err != nil || size == 0 {
		return err
	}
	if err := l.makeRoom(size); err != nil {
		return err
	}
	l.encode(us)
	if err := l.flushRecords(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.applyLocked(us)
	l.advanceLocked()
	l.evictLocked()
	return nil
}

// plan checks the updates us against the logs of their shards and returns the size of its records.
func (l *Log) plan(us []Update) (size int64, err error) {
	l.epoch++
	l.targets = l.targets[:0]
	for i := range us {
		s := l.Shard(us[i].Shard)
		l.targets = append(l.targets, s)
		n, err := s.planUpdate(&us[i], l.epoch)
		if err != nil {
			return 0, err
		}
		size += n
	}
	return size, nil
}

// plan is the extent of a shard's log after the updates of the current Write that have been checked
// so far.
type plan struct {
	epoch     uint64 // of the Write it belongs to
	compacted uint64
	last      uint64
}

func (s *Shard) planUpdate(u *Update, epoch uint64) (size int64, err error) {
	if s.plan.epoch != epoch {
		s.plan = plan{epoch: epoch, compacted: s.compacted.Index, last: s.lastIndex()}
	}
	if u.Reset != nil {
		if u.Reset.Index >= maxIndex {
			return 0, fmt.Errorf("ual: shard %d: reset to index %d, limit is %d", s.id, u.Reset.Index, uint64(maxIndex))
		}
		s.plan.compacted, s.plan.last = u.Reset.Index, u.Reset.Index
		size += recordSize(0)
	}
	if u.HardState != nil {
		size += recordSize(voteSize)
	}
	n, err := s.planEntries(u.Entries)
	if u.Reserve > s.reserved {
		size += recordSize(0)
	}
	return size + n, err
}

func (s *Shard) planEntries(es []*raftpb.Entry) (size int64, err error) {
	for k, e := range es {
		i, p := e.GetIndex(), &s.plan
		switch {
		case i <= p.compacted:
			return 0, fmt.Errorf("ual: shard %d: entry %d is not above the compacted position %d", s.id, i, p.compacted)
		case i > p.last+1 || k > 0 && i != p.last+1:
			return 0, fmt.Errorf("ual: shard %d: entry %d does not follow entry %d", s.id, i, p.last)
		case i >= maxIndex:
			return 0, fmt.Errorf("ual: shard %d: index %d of entry, limit is %d", s.id, i, uint64(maxIndex))
		case len(e.GetData()) > maxData:
			return 0, fmt.Errorf("ual: shard %d: entry %d has %d bytes, limit is %d", s.id, i, len(e.GetData()), maxData)
		}
		p.last = i
		size += recordSize(len(e.GetData()))
	}
	return size, nil
}

// encode writes the records of us into l.buf.
func (l *Log) encode(us []Update) {
	l.beginRecords()
	for i := range us {
		u, s := &us[i], l.targets[i]
		if r := u.Reset; r != nil {
			l.addRecord(header{kind: kindReset, shard: s.id, term: r.Term, index: r.Index}, nil)
		}
		if h := u.HardState; h != nil {
			l.addHardState(s.id, h)
		}
		for _, e := range u.Entries {
			l.addEntry(s.id, e)
		}
		if u.Reserve > s.reserved {
			l.addRecord(header{kind: kindReserve, shard: s.id, index: u.Reserve}, nil)
		}
	}
}

func (l *Log) beginRecords() {
	l.buf = l.buf[:0]
	l.slots = l.slots[:0]
	l.mu.RLock()
	l.stamp = uint64(l.tail.synced)
	l.mu.RUnlock()
}

// addRecord adds a record for the end of the tail to l.buf.
func (l *Log) addRecord(h header, data []byte) {
	begin := l.addHeader(h)
	l.buf = append(l.buf, data...)
	l.seal(begin)
}

func (l *Log) addHeader(h header) (begin int) {
	h.mark = l.mark
	h.synced = l.stamp
	begin = len(l.buf)
	l.buf = appendHeader(l.buf, h)
	return begin
}

// seal completes the record that begins at l.buf[begin].
func (l *Log) seal(begin int) {
	l.buf = sealRecord(l.buf, begin, place(l.tail.number, l.tail.end+int64(begin)))
}

func (l *Log) addHardState(shard uint16, h *raftpb.HardState) {
	begin := l.addHeader(header{kind: kindHardState, shard: shard, term: h.GetTerm(), index: h.GetCommit()})
	l.buf = le.AppendUint64(l.buf, h.GetVote())
	l.seal(begin)
}

func (l *Log) addEntry(shard uint16, e *raftpb.Entry) {
	l.slots = append(l.slots, slot{
		offset:  l.tail.end + int64(len(l.buf)),
		term:    e.GetTerm(),
		segment: l.tail.number,
		length:  uint32(len(e.GetData())),
	})
	h := header{kind: kindEntry, sub: uint8(e.GetType()), shard: shard, term: e.GetTerm(), index: e.GetIndex()}
	l.addRecord(h, e.GetData())
}

// flushRecords writes l.buf after the tail's records. After an error the content of the file is
// unknown, so nothing more is written to it.
func (l *Log) flushRecords() error {
	t := &l.tail
	if err := l.writeBlocks(t); err != nil {
		t.sealed = true
		return fmt.Errorf("ual: write %d bytes to %s at offset %d: %w", len(l.buf), l.path(t.number), t.end, err)
	}
	return nil
}

// writeBlocks writes l.buf at t.end, padded with zeros to whole blocks. Otherwise the kernel might
// have to read the rest of the last block.
func (l *Log) writeBlocks(t *tail) error {
	n := len(l.buf)
	end := alignBlock(t.end + int64(n))
	l.buf = append(l.buf, zeros[:end-t.end-int64(n)]...)
	err := writeAt(t.file, l.buf, t.end)
	l.buf = l.buf[:n]
	if err == nil && end > t.written {
		t.written = end
		l.writeAhead(t)
	}
	return err
}

func writeAt(w io.WriterAt, b []byte, off int64) error {
	n, err := w.WriteAt(b, off)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}

// advanceLocked moves the tail's end past the records in l.buf.
func (l *Log) advanceLocked() {
	n := int64(len(l.buf))
	l.tail.end += n
	l.segments[len(l.segments)-1].size += n
	if cap(l.buf) > keepBuffer {
		l.buf = nil
	}
}

// applyLocked makes us visible. l.slots has the places of its entries.
func (l *Log) applyLocked(us []Update) {
	slots := l.slots
	for i := range us {
		u, s := &us[i], l.targets[i]
		if u.Reset != nil {
			s.resetLocked(*u.Reset)
		}
		if h := u.HardState; h != nil {
			s.hard = hardState{term: h.GetTerm(), vote: h.GetVote(), commit: h.GetCommit()}
		}
		if n := len(u.Entries); n > 0 {
			s.appendLocked(u.Entries[0].GetIndex(), slots[:n], u.Entries)
			slots = slots[n:]
		}
		s.reserved = max(s.reserved, u.Reserve)
		if u.Reset != nil || u.HardState != nil || len(u.Entries) > 0 || u.Reserve > 0 {
			l.touchLocked(s)
		}
	}
}

// touchLocked records that s has records that the next Sync makes durable.
func (l *Log) touchLocked(s *Shard) {
	s.known = true
	if !s.dirty {
		s.dirty = true
		l.dirty = append(l.dirty, s)
	}
}

// evictLocked brings the cache back into its budget. It evicts from the shard with the most cached
// bytes first, so a busy shard cannot evict the entries of a quiet one. It frees an eighth more
// than needed, which amortizes the search for that shard over many Writes.
func (l *Log) evictLocked() {
	if l.inCache <= l.cacheBytes {
		return
	}
	target := max(0, l.cacheBytes-l.cacheBytes/8)
	for l.inCache > target {
		s := l.largestCacheLocked()
		s.evictLocked(max(s.cacheBytes/2, s.cacheBytes-(l.inCache-target)))
	}
}

func (l *Log) largestCacheLocked() *Shard {
	var largest *Shard
	for _, s := range l.shards {
		// The smaller id wins a tie, because a replayed run must evict the same entries.
		if largest == nil || s.cacheBytes > largest.cacheBytes || s.cacheBytes == largest.cacheBytes && s.id < largest.id {
			largest = s
		}
	}
	return largest
}
