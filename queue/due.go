package queue

import (
	"encoding/binary"
	"fmt"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// maxDue limits how many due items are processed at once, in addition to engine.Tx.Full. So a
// million leases that expire together do not block everything else.
const maxDue = 1000

// OnTimer processes the due items of a queue.
func (m *machine) OnTimer(tx *engine.Tx, token []byte) {
	switch token[0] {
	case tokenQueue:
		if s, _ := m.open(tx, token[1:], false); s != nil {
			s.save()
		}
	case tokenGrave:
		m.forgetKeys(tx, binary.BigEndian.Uint64(token[1:]))
	default:
		panic(fmt.Sprintf("queue: unknown timer token %q", token))
	}
}

// catchUp processes due items and sets the timer for the next one. Each takes effect as of its due
// time, so the time of processing makes no difference.
func (s *session) catchUp() {
	s.changed = true
	s.unschedule()
	left := maxDue
	left = s.expireLeases(left)
	left = s.endDelays(left)
	left = s.discardOld(left)
	s.forgetOld(left)
	s.schedule(s.nextDue())
}

// nextDue returns when the next item is due.
func (s *session) nextDue() int64 {
	next := min(s.nextDelayed, s.nextDedup)
	if s.settings.deadRetention > 0 && s.nextDead != never {
		next = min(next, s.nextDead+s.settings.deadRetention)
	}
	if l := s.memory.leases.first(); l != nil {
		next = min(next, l.deadline)
	}
	return next
}

func (s *session) expireLeases(left int) int {
	for ; left > 0 && !s.tx.Full(); left-- {
		l := s.memory.leases.first()
		if l == nil || l.deadline > s.tx.Now() {
			break
		}
		s.expired++
		s.giveBack(l, l.deadline, s.settings.backoff(l.attempts), []byte(expiredReason))
	}
	return left
}

func (s *session) endDelays(left int) int {
	if s.nextDelayed > s.tx.Now() {
		return left
	}
	next, left := s.scanDue('d', s.gen, s.nextDelayed, s.tx.Now(), left, func(k []byte, due int64) {
		p, _ := placeAt(k, dueAt)
		s.delayed--
		s.tx.Delete(k)
		s.enter(p, nil)
	})
	s.nextDelayed = next
	return left
}

func (s *session) discardOld(left int) int {
	retention := s.settings.deadRetention
	if retention == 0 || s.nextDead == never || s.nextDead+retention > s.tx.Now() {
		return left
	}
	next, left := s.scanDue('y', s.id, s.nextDead, s.tx.Now()-retention, left, func(k []byte, died int64) {
		s.dead--
		s.discarded++
		s.tx.Delete(k)
		s.tx.Delete(deadKey(nil, s.id, binary.BigEndian.Uint64(k[dueAt:])))
	})
	s.nextDead = next
	return left
}

func (s *session) forgetOld(left int) {
	if s.nextDedup <= s.tx.Now() {
		s.nextDedup, _ = s.scanDue('j', s.id, s.nextDedup, s.tx.Now(), left, func(k []byte, until int64) { s.forgetKey(until, k[dueAt:]) })
	}
}

// scanDue calls f for up to left rows of an index by time within a range of times. It returns the
// time of the first row not processed, and the rest of left.
func (s *session) scanDue(kind byte, number uint64, from, to int64, left int, f func(k []byte, due int64)) (next int64, more int) {
	return scanDue(s.tx, dueKey(nil, kind, number, from), numberKey(nil, kind, number), to, left, f)
}

func scanDue(tx *engine.Tx, lower, prefix []byte, to int64, left int, f func(k []byte, due int64)) (next int64, more int) {
	it := tx.Iter(lower, key.PrefixEnd(prefix))
	next = never
	var k []byte
	for ok := it.First(); ok; ok = it.Next() {
		k = append(k[:0], it.Key()...)
		due := key.Int64(k[numberAt:])
		if due > to || left == 0 || tx.Full() {
			next = due
			break
		}
		f(k, due)
		left--
	}
	mustClose(it)
	return next, left
}

// forgetKeys removes the dedup keys of a deleted queue.
func (m *machine) forgetKeys(tx *engine.Tx, id uint64) {
	prefix := numberKey(nil, 'j', id)
	next, _ := scanDue(tx, prefix, prefix, never-1, maxDue, func(k []byte, _ int64) {
		tx.Delete(k)
		tx.Delete(dedupKey(nil, id, k[dueAt:]))
	})
	if next == never {
		tx.Delete(numberKey(nil, 'g', id))
		return
	}
	tx.Schedule(tx.Now(), graveToken(id))
}

func graveToken(id uint64) []byte { return key.AppendUint64([]byte{tokenGrave}, id) }
