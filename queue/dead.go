package queue

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/floedb/floe/internal/key"
)

// bury ends a lease and makes the message a dead letter.
func (s *session) bury(l *lease, now int64, reason []byte) {
	w := must(decodeMessage(s.messageRow(l.kind(), l.at)))
	s.end(l)
	s.removeMessage(l)
	m, seq := s.m, l.at.seq
	dead := deadRow{
		priority: l.at.priority, enqueuedAt: w.enqueuedAt, diedAt: now, attempts: l.attempts, maxAttempts: l.maxAttempts, lastError: reason,
		headers: w.headers,
		payload: w.payload,
	}
	m.buf, m.row = deadKey(m.buf[:0], s.id, seq), dead.encode(m.row[:0])
	s.tx.Insert(m.buf, m.row)
	m.buf = diedKey(m.buf[:0], s.id, now, seq)
	s.tx.Insert(m.buf, nil)
	s.dead++
	s.nextDead = min(s.nextDead, now)
	if s.settings.deadRetention > 0 {
		s.schedule(now + s.settings.deadRetention)
	}
}

// deadLetter reads a dead letter.
func (s *session) deadLetter(seq uint64) (w deadRow, err error) {
	s.m.buf = deadKey(s.m.buf[:0], s.id, seq)
	b, ok := s.tx.Get(s.m.buf)
	if !ok {
		return w, noDeadLetter(string(s.name), seq)
	}
	return must(decodeDead(b)), nil
}

// removeDead removes a dead letter.
func (s *session) removeDead(seq uint64, w *deadRow) {
	s.changed = true
	s.dead--
	s.m.buf = deadKey(s.m.buf[:0], s.id, seq)
	s.tx.Delete(s.m.buf)
	s.m.buf = diedKey(s.m.buf[:0], s.id, w.diedAt, seq)
	s.tx.Delete(s.m.buf)
}

// discard deletes a dead letter.
func (s *session) discard(seq uint64) error {
	w, err := s.deadLetter(seq)
	if err != nil {
		return err
	}
	s.removeDead(seq, &w)
	s.discarded++
	return nil
}

// requeue makes a dead letter ready, with no attempts counted.
func (s *session) requeue(seq uint64) error {
	w, err := s.deadLetter(seq)
	if err != nil {
		return err
	}
	row := messageRow{flags: flagIndexed, enqueuedAt: w.enqueuedAt, maxAttempts: w.maxAttempts, headers: w.headers, payload: w.payload}
	if err := s.checkRoom(1, row.bytes()); err != nil {
		return err
	}
	s.removeDead(seq, &w)
	p := position{w.priority, seq}
	s.addLane(p.priority)
	s.setMessage(p, &row)
	s.bytes += row.bytes()
	s.enter(p, nil)
	return nil
}

// Limits of one redrive step.
const (
	maxRedrive      = 1000
	maxRedriveBytes = 4 << 20
)

// redrive requeues the dead letters between two seqs that contain a text. It stops at its own limit
// or the queue's. A full queue is an error only if nothing was requeued.
func (s *session) redrive(b *redriveBody) (redriven, error) {
	until := b.until
	if until == 0 {
		until = s.seq
	}
	found, d := s.search(b.after, until, b.filter)
	for _, seq := range found {
		if err := s.requeue(seq); err != nil {
			if d.requeued == 0 {
				return d, err
			}
			d.seen, d.more = seq-1, true
			break
		}
		d.requeued++
	}
	return d, nil
}

// search returns the dead letters that contain a text. It examines at most as many as one redrive
// may.
func (s *session) search(after, until uint64, text []byte) (found []uint64, d redriven) {
	d = redriven{seen: after, until: until}
	it := s.tx.Iter(append(deadKey(nil, s.id, after), 0), key.PrefixEnd(numberKey(nil, 'x', s.id)))
	seen, size := 0, 0
	for ok := it.First(); ok; ok = it.Next() {
		seq, w := seqAt(it.Key()), must(decodeDead(it.Value()))
		if seq > until {
			break
		}
		if seen == maxRedrive || size > maxRedriveBytes {
			d.more = true
			break
		}
		d.seen = seq
		if w.holds(text) {
			found = append(found, seq)
		}
		seen++
		size += len(it.Value())
	}
	mustClose(it)
	return found, d
}

// holds reports whether the payload or the last error contains a text.
func (w *deadRow) holds(text []byte) bool {
	return len(text) == 0 || bytes.Contains(w.payload, text) || bytes.Contains(w.lastError, text)
}

// seqAt reads the seq from the key of a dead letter.
func seqAt(k []byte) uint64 {
	if len(k) != numberAt+8 {
		panic(fmt.Sprintf("queue: dead letter row %x", k))
	}
	return binary.BigEndian.Uint64(k[numberAt:])
}
