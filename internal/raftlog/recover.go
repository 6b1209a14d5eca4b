package raftlog

import (
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// recover reads the log from the directory. It changes no file before it has found all of the log
// valid.
func (l *Log) recover() error {
	numbers, spares, err := l.listFiles()
	if err != nil || len(numbers)+len(spares) == 0 {
		return err
	}
	if len(numbers) == 0 {
		return &CorruptionError{File: l.fs.PathJoin(l.dir, spares[0]), Reason: "all segments are missing"}
	}
	if err := l.learnMark(numbers); err != nil {
		return err
	}
	last, err := l.findLast(numbers)
	if err != nil || last.number == 0 {
		return err
	}
	if err := l.replayAll(last, numbers); err != nil {
		return err
	}
	if err := l.settle(last); err != nil {
		return err
	}
	for _, n := range numbers {
		if n < l.oldest {
			l.garbage = append(l.garbage, fileName(n))
		}
	}
	l.garbage = append(l.garbage, spares...)
	return l.removeSegments(l.oldest)
}

// learnMark takes the mark of the log from the newest segment with a readable start. Without the
// mark, a segment that has lost its start could not be checked.
func (l *Log) learnMark(numbers []uint32) error {
	for _, n := range slices.Backward(numbers) {
		err := l.withSegment(n, func(file vfs.File, size int64) error {
			sc := l.newScanner(file, n, size)
			if ok, err := sc.scan(); !ok || err != nil {
				return err
			}
			_, err := sc.startInfo()
			l.mark = sc.header.mark
			return err
		})
		if err != nil || l.mark != 0 {
			return err
		}
	}
	return nil
}

// survey is the result of inspecting the last segment.
type survey struct {
	number    uint32
	start     startInfo
	oldest    uint32 // oldest live segment
	end       int64  // of its valid records
	bad       string // why there is no record at end
	torn      bool   // a write was torn there or behind it
	successor bool   // there must be a further segment
}

// complete reports whether the segment was ever in use.
func (v *survey) complete() bool {
	return v.start.head > 0 && v.end >= v.start.head
}

// findLast surveys the last segment of the log. That is the newest file, or its predecessor if the
// creation of the newest was interrupted. The zero survey means an empty log.
func (l *Log) findLast(numbers []uint32) (survey, error) {
	newest := numbers[len(numbers)-1]
	v, err := l.survey(newest)
	if err != nil {
		return v, err
	}
	if !v.complete() {
		if newest == 1 {
			return survey{}, nil
		}
		if v, err = l.surveyBefore(newest, numbers); err != nil {
			return v, err
		}
	}
	if v.successor {
		return v, l.lost(v.number+1, numbers)
	}
	return v, nil
}

func (l *Log) surveyBefore(newest uint32, numbers []uint32) (survey, error) {
	if !slices.Contains(numbers, newest-1) {
		return survey{}, l.lost(newest-1, numbers)
	}
	v, err := l.survey(newest - 1)
	if err == nil && !v.complete() {
		err = l.lost(newest-1, numbers)
	}
	return v, err
}

// lost returns the error for a segment that must exist and is missing or cannot be recognised.
func (l *Log) lost(number uint32, numbers []uint32) error {
	reason := "segment is missing"
	if slices.Contains(numbers, number) {
		reason = "start of segment is damaged"
	}
	return &CorruptionError{File: l.path(number), Reason: reason}
}

func (l *Log) survey(number uint32) (survey, error) {
	v := survey{number: number}
	err := l.withSegment(number, func(file vfs.File, size int64) error {
		return v.read(l.newScanner(file, number, size))
	})
	return v, err
}

// withSegment calls fn with the open file of a segment and its size.
func (l *Log) withSegment(number uint32, fn func(file vfs.File, size int64) error) error {
	file, err := l.fs.Open(l.path(number), vfs.SequentialReadsOption)
	if err != nil {
		return fmt.Errorf("ual: open %s: %w", l.path(number), err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("ual: stat %s: %w", l.path(number), err)
	}
	return fn(file, info.Size())
}

func (v *survey) read(sc *scanner) error {
	for {
		ok, err := sc.scan()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if err := v.add(sc); err != nil {
			return err
		}
	}
	v.end = sc.next
	v.bad = sc.bad
	if sc.bad == "" || sc.header.kind == kindEnd {
		return nil // Nothing is written behind an end record.
	}
	behind, err := sc.lookAhead()
	if behind.proof && behind.record.kind != kindNext {
		return sc.corrupt()
	}
	v.torn = behind.torn || sc.bad != blank
	v.successor = v.successor || behind.proof
	return err
}

func (v *survey) add(sc *scanner) (err error) {
	if sc.offset == 0 {
		v.start, err = sc.startInfo()
		v.oldest = v.start.oldest
		return err
	}
	switch sc.header.kind {
	case kindOldest:
		v.oldest = max(v.oldest, uint32(sc.header.index))
	case kindNext:
		v.successor = true
	}
	return nil
}

// startInfo decodes the current record, which is the first of its segment.
func (s *scanner) startInfo() (startInfo, error) {
	if s.header.kind != kindStart {
		return startInfo{}, s.refuse("segment does not begin with a start record")
	}
	info, ok := parseStart(s.data)
	if !ok {
		return startInfo{}, s.refuse("start record is malformed")
	}
	if info.version != formatVersion {
		return startInfo{}, fmt.Errorf("ual: %s: format version %d, this version knows %d: %w",
			s.path, info.version, formatVersion, ErrNewer)
	}
	return info, nil
}

// refuse returns the error for the current record, which has a valid checksum but inconsistent
// contents.
func (s *scanner) refuse(format string, args ...any) error {
	return &CorruptionError{File: s.path, Offset: s.offset, Reason: fmt.Sprintf(format, args...)}
}

// replayAll rebuilds the state of all shards from the live segments.
func (l *Log) replayAll(last survey, numbers []uint32) error {
	l.oldest = last.oldest
	if last.oldest > last.number {
		return &CorruptionError{File: l.path(last.number), Reason: fmt.Sprintf("oldest live segment is %d", last.oldest)}
	}
	for n := last.oldest; n < last.number; n++ {
		if !slices.Contains(numbers, n) {
			return l.lost(n, numbers)
		}
	}
	for n := last.oldest; n <= last.number; n++ {
		end, err := l.endOf(n, last)
		if err != nil {
			return err
		}
		if err := l.replaySegment(n, end); err != nil {
			return err
		}
		l.segments = append(l.segments, segment{size: end})
	}
	return l.checkGaps()
}

// endOf returns where the valid records of segment n end, as recorded in its successor.
func (l *Log) endOf(n uint32, last survey) (end int64, err error) {
	if n == last.number {
		return last.end, nil
	}
	err = l.withSegment(n+1, func(file vfs.File, size int64) error {
		sc := l.newScanner(file, n+1, size)
		ok, err := sc.scan()
		if err != nil {
			return err
		}
		if !ok {
			return sc.corrupt()
		}
		start, err := sc.startInfo()
		end = start.prevEnd
		return err
	})
	return end, err
}

func (l *Log) replaySegment(number uint32, end int64) error {
	return l.withSegment(number, func(file vfs.File, size int64) error {
		if size < end {
			reason := fmt.Sprintf("file ends here, its records went on to %d", end)
			return &CorruptionError{File: l.path(number), Offset: size, Reason: reason}
		}
		r := replay{log: l, scanner: l.newScanner(file, number, end), first: number == l.oldest}
		return r.run()
	})
}

// replay applies the records of one segment to the shards.
//
// In the oldest live segment the checkpoint is the shards' initial state. In every later segment
// the shards are already rebuilt, and the checkpoint must agree, which proves that no segments were
// mixed up.
type replay struct {
	*scanner
	log   *Log
	first bool // this is the oldest live segment
	start startInfo
}

func (r *replay) run() error {
	for {
		ok, err := r.scan()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if err := r.apply(); err != nil {
			return err
		}
	}
	if r.bad != "" || r.start.head == 0 || r.next < r.start.head {
		return r.corrupt()
	}
	return nil
}

func (r *replay) apply() error {
	if r.offset == 0 {
		return r.applyStart()
	}
	h := r.header
	if (r.offset < r.start.head) != (h.kind == kindState) {
		return r.refuse("record of kind %d in the wrong place, checkpoint ends at %d", h.kind, r.start.head)
	}
	if h.index >= maxIndex && h.kind != kindReserve && h.kind != kindHardState {
		return r.refuse("index %d, limit is %d", h.index, uint64(maxIndex))
	}
	switch h.kind {
	case kindEnd, kindOldest:
		return nil
	case kindStart, kindNext:
		return r.refuse("record of kind %d in the wrong place", h.kind)
	}
	s := r.log.shardLocked(h.shard)
	known := s.known
	s.known = true
	switch h.kind {
	case kindState:
		return r.applyState(s, known)
	case kindEntry:
		return r.applyEntry(s)
	case kindHardState:
		return r.applyHardState(s)
	case kindCompact:
		return r.applyCompact(s)
	case kindReset:
		s.resetLocked(Position{Index: h.index, Term: h.term})
	case kindReserve:
		s.reserved = max(s.reserved, h.index)
	}
	return nil
}

func (r *replay) applyStart() (err error) {
	r.start, err = r.startInfo()
	if err != nil || r.first {
		return err
	}
	states := (r.start.head - recordSize(startSize)) / recordSize(checkpointSize)
	if known := len(r.log.Shards()); states != int64(known) {
		return r.refuse("checkpoint of %d shards, the segments before have %d", states, known)
	}
	return nil
}

func (r *replay) applyState(s *Shard, known bool) error {
	c, ok := parseCheckpoint(r.data)
	p := Position{Index: r.header.index, Term: r.header.term}
	if !ok || c.last < p.Index || c.last >= maxIndex {
		return r.refuse("checkpoint of shard %d is malformed", s.id)
	}
	if r.first {
		s.compacted = p
		s.first = c.last + 1
		s.hard, s.reserved = c.hard, c.reserved
		return nil
	}
	have := checkpoint{hard: c.hard, reserved: s.reserved, last: s.lastIndex()}
	if !known || s.compacted != p || have != c {
		return r.refuse("shard %d is at %v %v here, the segments before lead to %v %v", s.id, p, c, s.compacted, have)
	}
	s.hard = c.hard // An Open may have settled it since the last record.
	return nil
}

func (r *replay) applyEntry(s *Shard) error {
	h := r.header
	if h.index <= s.compacted.Index || h.index > s.lastIndex()+1 {
		return r.refuse("entry %d of shard %d, its log reaches from %d to %d", h.index, s.id, s.compacted.Index+1, s.lastIndex())
	}
	if h.index < s.first {
		s.cutLocked(s.first)
		s.first = h.index
	}
	at := slot{offset: r.offset, term: h.term, segment: r.number, length: h.length}
	s.appendLocked(h.index, []slot{at}, nil)
	return nil
}

func (r *replay) applyHardState(s *Shard) error {
	if len(r.data) != voteSize {
		return r.refuse("hard state of shard %d is malformed", s.id)
	}
	s.hard = hardState{term: r.header.term, vote: le.Uint64(r.data), commit: r.header.index}
	return nil
}

func (r *replay) applyCompact(s *Shard) error {
	p := Position{Index: r.header.index, Term: r.header.term}
	if p.Index <= s.compacted.Index || p.Index > s.lastIndex() {
		return r.refuse("shard %d compacted to %d, its log reaches from %d to %d", s.id, p.Index, s.compacted.Index+1, s.lastIndex())
	}
	s.compactLocked(p)
	return nil
}

// checkGaps checks that each shard's entries begin right after its compacted position.
func (l *Log) checkGaps() error {
	for _, id := range l.Shards() {
		if s := l.shards[id]; s.first != s.compacted.Index+1 {
			return &CorruptionError{
				File:   l.path(l.oldest),
				Reason: fmt.Sprintf("entries %d to %d of shard %d are missing", s.compacted.Index+1, s.first-1, id),
			}
		}
	}
	return nil
}

// settle makes the records read durable and adopts them as the state of the log. A killed process
// may have left them in the page cache, and a later power failure must not undo them once they have
// been used.
func (l *Log) settle(last survey) error {
	if last.torn {
		l.logger.Warn("log: torn tail cut", "file", l.path(last.number), "offset", last.end, "reason", last.bad)
	}
	file, err := l.fs.OpenReadWrite(l.path(last.number), writeCategory)
	if err != nil {
		return fmt.Errorf("ual: open %s: %w", l.path(last.number), err)
	}
	if err := closeAfter(file, file.SyncData()); err != nil {
		return fmt.Errorf("ual: sync %s: %w", l.path(last.number), err)
	}
	if err := l.syncNames(); err != nil {
		return err
	}
	for _, s := range l.shards {
		s.settle()
	}
	l.tail = tail{number: last.number, head: last.start.head, end: last.end, synced: last.end, sealed: true}
	return nil
}
