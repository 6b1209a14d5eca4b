package queue

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

func (s *session) configure(settings *settings) error {
	s.changed = true
	s.settings = *settings
	s.tellRoom()
	s.schedule(s.nextDue())
	return nil
}

func (s *session) pause(b *pauseBody) error {
	if s.paused != b.paused {
		s.changed, s.paused = true, b.paused
		s.woken = s.ready
	}
	return nil
}

// remove removes a message that is not leased.
func (s *session) remove(seq uint64) error {
	if l := s.memory.leases.bySeq[seq]; l != nil {
		return engine.Errorf(ErrConflict, "queue %q: message %d is leased until %s", s.name, seq,
			time.UnixMilli(l.deadline).UTC().Format(time.RFC3339))
	}
	p, row, ok := s.find(seq, s.tx.Get)
	if !ok {
		if err := s.discard(seq); err != nil {
			return noMessage(string(s.name), seq)
		}
		return nil
	}
	s.changed = true
	w := must(decodeMessage(row))
	s.bytes -= w.bytes()
	s.purged++
	kind, available := kindOf(w.flags), w.availableAt
	if kind == 'm' && s.isFresh(p) {
		s.ready--
		s.note(change{kind: takenFresh, item: s.memory.fresh.remove(p)})
		s.deleteMessageRow(kind, p)
		return nil
	}
	if l, delivered := s.leaseRow('o', p); delivered {
		available = l.at
		s.deleteMessageRow('o', p)
	}
	s.deleteMessageRow(kind, p)
	if _, ready := s.tx.Get(messageKey(nil, 'r', s.gen, p)); ready {
		s.ready--
		s.note(change{kind: takenAgain, item: s.memory.again.remove(p)})
		s.deleteMessageRow('r', p)
		return nil
	}
	s.delayed--
	s.tx.Delete(delayedKey(nil, s.gen, available, p))
	return nil
}

// purge removes all messages except dead letters, by starting a new generation, and returns their
// number.
func (s *session) purge() int64 {
	n := s.held()
	if n == 0 {
		return 0
	}
	s.changed = true
	s.removeMessages()
	s.purged += n
	s.ready, s.delayed, s.inflight, s.bytes = 0, 0, 0, 0
	s.renew(uint64(s.tx.LSN()))
	return n
}

// fewRows is the maximum number of messages or dead letters that are removed one by one with their
// queue. Until compaction, a deleted range costs each new iterator as much as dozens of deleted
// rows. With few rows it costs more than it saves.
const fewRows = 128

func (s *session) removeMessages() {
	if s.held() > fewRows {
		s.deleteRanges(s.gen, "dlmnor")
		return
	}
	leases := slices.Clone(s.memory.leases.heap)
	// the order of the heap depends on when it was loaded
	slices.SortFunc(leases, func(a, b *lease) int { return cmp.Compare(a.at.seq, b.at.seq) })
	for _, l := range leases {
		s.deleteMessageRow('l', l.at)
		s.deleteMessageRow(l.kind(), l.at)
	}
	for _, l := range s.lanes {
		s.eachKey(messageKey(nil, 'm', s.gen, l.start()), append(numberKey(nil, 'm', s.gen), l.priority), s.tx.Delete)
	}
	notFresh := func(k []byte) {
		p, _ := placeAt(k, len(k)-placeBytes)
		s.tx.Delete(k)
		for _, kind := range []byte("mno") {
			s.deleteMessageRow(kind, p)
		}
	}
	if s.record.again != end {
		s.eachKey(messageKey(nil, 'r', s.gen, s.record.again), numberKey(nil, 'r', s.gen), notFresh)
	}
	if s.nextDelayed != never {
		s.eachKey(dueKey(nil, 'd', s.gen, s.nextDelayed), numberKey(nil, 'd', s.gen), notFresh)
	}
}

func (s *session) removeDeadLetters() {
	switch {
	case s.dead > fewRows:
		s.deleteRanges(s.id, "xy")
	case s.dead > 0:
		s.eachKey(dueKey(nil, 'y', s.id, s.nextDead), numberKey(nil, 'y', s.id), func(k []byte) {
			s.tx.Delete(k)
			s.tx.Delete(deadKey(nil, s.id, binary.BigEndian.Uint64(k[dueAt:])))
		})
	}
}

// eachKey calls f for the keys of the rows with a prefix, starting at from.
func (s *session) eachKey(from, prefix []byte, f func(k []byte)) {
	it := s.tx.Iter(from, key.PrefixEnd(prefix))
	for ok := it.First(); ok; ok = it.Next() {
		f(bytes.Clone(it.Key()))
	}
	mustClose(it)
}

func (s *session) deleteRanges(number uint64, kinds string) {
	for _, kind := range []byte(kinds) {
		prefix := numberKey(nil, kind, number)
		s.tx.DeleteMany(prefix, key.PrefixEnd(prefix))
	}
}

// delete removes the queue. Its dedup keys are removed one by one, in the background, because they
// may be in the row cache.
func (s *session) delete(*engine.Nothing) error {
	s.tellRoom()
	s.removeMessages()
	s.removeDeadLetters()
	s.unschedule()
	if s.nextDedup != never {
		s.tx.Set(numberKey(nil, 'g', s.id), nil)
		s.tx.Schedule(s.tx.Now(), graveToken(s.id))
	}
	s.tx.Delete(queueKey(nil, s.tx.Namespace(), s.name))
	s.tx.Count(countQueues, -1)
	s.release()
	s.m.queues.Remove(s.tx, s.id)
	s.saveLeases()
	return nil
}
