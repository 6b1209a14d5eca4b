package queue

import (
	"bytes"
	"fmt"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// expiredReason is the last error of a message whose lease expired.
const expiredReason = "lease expired"

// dequeue leases messages.
func (s *session) dequeue(b *dequeueBody) ([]byte, error) {
	if s.paused || s.ready == 0 {
		return nil, nil
	}
	free := s.m.maxInflight - s.m.inflight
	if free <= 0 {
		return nil, engine.Errorf(ErrBusy, "queue %q: %d messages are leased in the shard, the limit is %d", s.name, s.m.inflight,
			s.m.maxInflight)
	}
	s.changed = true
	limit := int(min(b.max, s.ready, free))
	deadline := s.tx.Now() + b.lease
	var result []byte
	for i := range limit {
		p, row, fresh := s.first(limit - i)
		d := s.read(p, row, fresh)
		switch {
		case result == nil:
			result = make([]byte, 0, 24+min(limit*d.size(), max(MaxBatchBytes, d.size())))
			result = codec.AppendVarint(codec.AppendUvarint(result, uint64(s.tx.LSN())), deadline)
		case len(result)+d.size() > MaxBatchBytes:
			s.scheduleEnd(deadline)
			return result, nil
		}
		result = d.append(result)
		s.leave(&d, fresh)
		s.lease(&d, deadline)
	}
	s.scheduleEnd(deadline)
	return result, nil
}

// scheduleEnd schedules the check for expired leases.
func (s *session) scheduleEnd(deadline int64) {
	s.schedule(deadline)
}

// first returns the next message to deliver, which must exist. want is the number of messages still
// wanted, this one included.
func (s *session) first(want int) (p position, row []byte, fresh bool) {
	q := s.memory
	if len(q.fresh.live()) == 0 && q.fresh.rest != end {
		q.fillFresh(s.tx, s.lanes, want)
	}
	if len(q.again.live()) == 0 && q.again.rest != end {
		q.fillAgain(s.tx, want)
	}
	fresh1, again1 := end, end
	if live := q.fresh.live(); len(live) > 0 {
		fresh1 = live[0].at
	}
	if live := q.again.live(); len(live) > 0 {
		again1 = live[0].at
	}
	switch {
	case fresh1 == end && again1 == end:
		panic(fmt.Sprintf("queue %q: %d messages are ready, none is found", s.name, s.ready))
	case again1.less(fresh1):
		return again1, nil, false
	}
	return fresh1, q.fresh.live()[0].row, true
}

// read returns the delivery of a message.
func (s *session) read(p position, row []byte, fresh bool) delivery {
	d := delivery{at: p, attempts: 1}
	kind := byte('m')
	if !fresh {
		l, delivered := s.leaseRow('o', p)
		d.attempts, d.lastError = l.attempts+1, l.lastError
		if d.again, d.indexed = delivered, !delivered || l.flags&flagIndexed != 0; d.indexed {
			kind = 'n'
		}
	}
	if row == nil {
		row = s.messageRow(kind, p)
	}
	w := must(decodeMessage(row))
	d.maxAttempts, d.enqueuedAt, d.headers, d.payload = w.maxAttempts, w.enqueuedAt, w.headers, w.payload
	return d
}

// messageRow reads the row of a message, which must exist.
func (s *session) messageRow(kind byte, p position) []byte {
	s.m.buf = messageKey(s.m.buf[:0], kind, s.gen, p)
	row, ok := s.tx.Get(s.m.buf)
	if !ok {
		panic(fmt.Sprintf("queue %q: message %d has no row", s.name, p.seq))
	}
	return row
}

func (s *session) leaseRow(kind byte, p position) (w leaseRow, ok bool) {
	s.m.buf = messageKey(s.m.buf[:0], kind, s.gen, p)
	b, ok := s.tx.Get(s.m.buf)
	if !ok {
		return leaseRow{}, false
	}
	return must(decodeLease(b)), true
}

func (s *session) setLease(kind byte, p position, w *leaseRow) {
	m := s.m
	m.buf, m.row = messageKey(m.buf[:0], kind, s.gen, p), w.encode(m.row[:0])
	s.tx.Set(m.buf, m.row)
}

func (s *session) deleteMessageRow(kind byte, p position) {
	s.m.buf = messageKey(s.m.buf[:0], kind, s.gen, p)
	s.tx.Delete(s.m.buf)
}

// leave removes the first message from its index.
func (s *session) leave(d *delivery, fresh bool) {
	s.ready--
	q, p := s.memory, d.at
	if fresh {
		s.lane(p.priority).first = p.seq + 1
		s.note(change{kind: takenFresh, item: q.fresh.take()})
		return
	}
	s.record.again = p.next()
	s.deleteMessageRow('r', p)
	s.note(change{kind: takenAgain, item: q.again.take()})
}

func (s *session) lease(d *delivery, deadline int64) {
	l := lease{
		at: d.at, lsn: uint64(s.tx.LSN()), deadline: deadline, attempts: d.attempts, maxAttempts: d.maxAttempts, size: d.bytes(),
		indexed: d.indexed,
	}
	w := l.row()
	w.lastError = d.lastError
	s.setLease('l', d.at, &w)
	if d.again {
		s.deleteMessageRow('o', d.at)
	}
	s.inflight++
	s.deliveries++
	s.m.addLease(s.memory, l)
	s.note(change{kind: leased, lease: l})
}

// leaseOf returns the lease of a receipt, or a ReceiptError if it has ended.
func (s *session) leaseOf(r receipt) (*lease, error) {
	l := s.memory.leases.bySeq[r.seq]
	reason := ""
	switch {
	case l == nil:
		reason = "its message is not leased"
	case l.lsn != r.lsn:
		reason = "its message is leased by another delivery"
	case l.deadline <= s.tx.Now():
		reason = expiredReason
	default:
		return l, nil
	}
	return nil, &ReceiptError{Queue: string(s.name), Receipt: r.public(), Reason: reason}
}

// end ends a lease; the caller decides what happens to the message.
func (s *session) end(l *lease) {
	s.changed = true
	s.inflight--
	s.m.removeLease(s.memory, l)
	s.note(change{kind: ended, lease: *l})
}

// ack removes messages. If a lease has ended, the command fails, which undoes the earlier removals.
func (s *session) ack(receipts []receipt) error {
	for _, r := range receipts {
		l, err := s.leaseOf(r)
		if err != nil {
			return err
		}
		s.end(l)
		s.acked++
		s.removeMessage(l)
	}
	return nil
}

// removeMessage removes the rows of a message whose lease has been ended.
func (s *session) removeMessage(l *lease) {
	s.bytes -= l.size
	s.deleteMessageRow(l.kind(), l.at)
	s.deleteMessageRow('l', l.at)
}

// nack ends leases without success.
func (s *session) nack(b *nackBody) error {
	if err := s.nackOne(b, b.receipt); err != nil {
		return err
	}
	for _, r := range b.further {
		if err := s.nackOne(b, r); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) nackOne(b *nackBody, r receipt) error {
	l, err := s.leaseOf(r)
	if err != nil {
		return err
	}
	switch {
	case b.has(nackBury):
		s.bury(l, s.tx.Now(), b.reason)
	case b.has(nackDelayed):
		s.giveBack(l, s.tx.Now(), b.delay, b.reason)
	default:
		s.giveBack(l, s.tx.Now(), s.settings.backoff(l.attempts), b.reason)
	}
	return nil
}

// giveBack ends a lease. The message becomes ready again at from plus delay, or a dead letter if
// that was its last attempt.
func (s *session) giveBack(l *lease, from, delay int64, reason []byte) {
	if l.attempts >= l.maxAttempts {
		s.bury(l, from, reason)
		return
	}
	s.end(l)
	w := l.row()
	w.at, w.lastError = 0, reason
	due := from + delay
	later := due > s.tx.Now()
	if later {
		w.at = due
	}
	s.setLease('o', l.at, &w)
	s.deleteMessageRow('l', l.at)
	if later {
		s.postpone(l.at, due)
		return
	}
	s.enter(l.at, nil)
}

// extend makes a lease expire millis from now.
func (s *session) extend(b *extendBody) (until time.Time, err error) {
	l, err := s.leaseOf(b.receipt)
	if err != nil {
		return until, err
	}
	s.prolong(l, b.lease)
	return time.UnixMilli(s.tx.Now() + b.lease), nil
}

// renewAll extends the leases that have not ended.
func (s *session) renewAll(b *renewBody) (renewed, error) {
	r := renewed{until: time.UnixMilli(s.tx.Now() + b.lease), held: make([]bool, len(b.receipts))}
	for i, receipt := range b.receipts {
		l, err := s.leaseOf(receipt)
		if r.held[i] = err == nil; err == nil {
			s.prolong(l, b.lease)
		}
	}
	return r, nil
}

// releaseAll releases messages whose leases have not ended, as if they had not been delivered, and
// returns their number.
func (s *session) releaseAll(receipts []receipt) (released int64) {
	for _, r := range receipts {
		l, err := s.leaseOf(r)
		if err != nil {
			continue
		}
		w := s.leaseRowOf(l)
		s.end(l)
		w.attempts, w.at, w.lastError = l.attempts-1, 0, bytes.Clone(w.lastError)
		s.setLease('o', l.at, &w)
		s.deleteMessageRow('l', l.at)
		s.enter(l.at, nil)
		released++
	}
	return released
}

// leaseRowOf reads the row of a lease.
func (s *session) leaseRowOf(l *lease) leaseRow {
	w, ok := s.leaseRow('l', l.at)
	if !ok {
		panic(fmt.Sprintf("queue %q: lease of message %d has no row", s.name, l.at.seq))
	}
	return w
}

// prolong makes a lease expire millis from now.
func (s *session) prolong(l *lease, millis int64) {
	w := s.leaseRowOf(l)
	s.changed = true
	before := *l
	w.at = s.tx.Now() + millis
	s.setLease('l', l.at, &w)
	s.memory.leases.move(l, w.at)
	s.note(change{kind: moved, lease: before})
	s.schedule(w.at)
}
