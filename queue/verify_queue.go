package queue

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// audited is a queue being checked.
type audited struct {
	*verifier
	record
	ns     uint32
	name   []byte
	memory *memory // nil: not in memory

	seen    record // counts so far
	fresh   int    // messages so far that the window should contain
	indexed int64  // messages in one of the indexes
	known   int64  // messages that have a row 'l' or 'o'
}

// problem reports a problem of the queue.
func (q *audited) problem(format string, args ...any) {
	q.Reportf("queue: namespace %s, queue %q: %s", q.verifier.name(q.ns), q.name, fmt.Sprintf(format, args...))
}

func (q *audited) check() error {
	q.row()
	keys := dedupKeys{verifier: q.verifier, id: q.id, who: fmt.Sprintf("%q", q.name), next: q.nextDedup}
	for _, step := range []func() error{q.messages, q.again, q.delays, q.dead, q.died, keys.check} {
		if err := step(); err != nil {
			return err
		}
	}
	q.compare()
	return q.timer()
}

// row checks the queue's row on its own.
func (q *audited) row() {
	if err := checkName(string(q.name)); err != nil {
		q.problem("%v", err)
	}
	if err := q.settings.check(); err != nil {
		q.problem("%v", err)
	}
	if last := uint64(q.Applied.LSN); q.id == 0 || q.gen < q.id || q.gen > last || q.createdAt > q.Applied.Stamp {
		q.problem("id %d, generation %d, created at %d; the shard is at %d and %d", q.id, q.gen, q.createdAt, last, q.Applied.Stamp)
	}
	if sum := q.held() + q.record.dead + q.acked + q.purged + q.discarded; sum != q.enqueued || uint64(q.enqueued) != q.seq {
		q.problem("%d messages were enqueued, the last is %d, and %d are accounted for", q.enqueued, q.seq, sum)
	}
	for _, n := range []int64{q.ready, q.delayed, q.inflight, q.record.dead, q.bytes, q.acked, q.purged, q.discarded, q.duplicates,
		q.expired} {
		if n < 0 {
			q.problem("a counter is %d", n)
		}
	}
	for i, l := range q.lanes {
		if l.first > q.seq+1 || q.held() == 0 || i > 0 && l.priority <= q.lanes[i-1].priority {
			q.problem("its lane %d begins at %d, the last message is %d", l.priority, l.first, q.seq)
		}
	}
	if q.memory != nil && q.memory.gen != q.gen {
		q.problem("is at generation %d, memory at %d", q.gen, q.memory.gen)
	}
}

// messages walks over the messages. Each row 'l' and 'o' belongs to one if their numbers match.
func (q *audited) messages() error {
	for _, kind := range []byte("mn") {
		prefix := numberKey(nil, kind, q.gen)
		if err := q.Scan(prefix, key.PrefixEnd(prefix), q.message); err != nil {
			return err
		}
	}
	for _, kind := range []byte("lo") {
		prefix := numberKey(nil, kind, q.gen)
		err := q.Scan(prefix, key.PrefixEnd(prefix), func(k, _ []byte) error {
			q.known--
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (q *audited) message(k, value []byte) error {
	p, ok := placeAt(k, numberAt)
	w, err := decodeMessage(value)
	if err != nil || !ok || p.seq == 0 || p.seq > q.seq || w.enqueuedAt > q.Applied.Stamp || kindOf(w.flags) != k[0] {
		q.problem("message row %x: flags %#x, enqueued at %d, the last message is %d: %v", k, w.flags, w.enqueuedAt, q.seq, err)
		return nil
	}
	if _, found := slices.BinarySearchFunc(q.lanes, p.priority, byPriority); !found {
		q.problem("message %s has a priority that its row does not know", p.cursor())
	}
	q.seen.bytes += w.bytes()
	q.headers(p.seq, w.headers)
	if k[0] == 'm' && q.isFresh(p) {
		q.freshMessage(p, value)
		return nil
	}
	rows := 0
	for _, kind := range []byte("lo") {
		b, found, err := q.Get(messageKey(nil, kind, q.gen, p))
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		rows++
		q.known++
		l, err := decodeLease(b)
		if err != nil {
			q.problem("message %d: %v", p.seq, err)
			continue
		}
		if err := q.deliveredMessage(p, &w, &l, kind); err != nil {
			return err
		}
	}
	if rows == 0 && k[0] == 'n' {
		return q.inOneIndex(p, w.availableAt)
	}
	if rows != 1 {
		q.problem("message %s was delivered, and has %d rows that tell of it", p.cursor(), rows)
	}
	return nil
}

// headers checks that headers can be decoded.
func (q *audited) headers(seq uint64, b []byte) {
	if _, err := engine.DecodeHeaders(b); err != nil {
		q.problem("message %d: %v", seq, err)
	}
}

// freshMessage checks that deliveries will find a fresh message.
func (q *audited) freshMessage(p position, row []byte) {
	q.seen.ready++
	if q.memory == nil || !p.less(q.memory.fresh.rest) {
		return
	}
	live := q.memory.fresh.live()
	if q.fresh >= len(live) || live[q.fresh].at != p || live[q.fresh].row != nil && !bytes.Equal(live[q.fresh].row, row) {
		q.problem("memory does not have message %s among the fresh ones", p.cursor())
	}
	q.fresh++
}

func (q *audited) deliveredMessage(p position, w *messageRow, l *leaseRow, kind byte) error {
	if l.size != w.bytes() || l.flags != w.flags&flagIndexed || l.maxAttempts != w.maxAttempts || l.attempts > l.maxAttempts ||
		l.lsn > uint64(q.Applied.LSN) {
		q.problem("message %d: %d bytes, %d attempts at most; its delivery %d says %d, %d of %d", p.seq, w.bytes(), w.maxAttempts, l.lsn,
			l.size, l.attempts, l.maxAttempts)
	}
	if kind == 'o' {
		if l.attempts == l.maxAttempts {
			q.problem("message %d is not dead after %d attempts", p.seq, l.attempts)
		}
		return q.inOneIndex(p, l.at)
	}
	q.seen.inflight++
	if l.at < q.record.timer {
		q.problem("the lease of message %d ends at %d, the timer is at %d", p.seq, l.at, q.record.timer)
	}
	if known := q.leases().bySeq[p.seq]; known == nil || !known.same(l.lease(p)) {
		q.problem("memory differs from the lease of message %d", p.seq)
	}
	return nil
}

// leases returns the leases of the queue in memory.
func (q *audited) leases() *leases {
	if l := q.m.leases[q.gen]; l != nil {
		return l
	}
	return new(leases)
}

func (l lease) same(o lease) bool {
	l.heap, o.heap = 0, 0
	return l == o
}

// inOneIndex checks that a message is either ready or delayed until a time.
func (q *audited) inOneIndex(p position, at int64) error {
	q.indexed++
	_, ready, err := q.Get(messageKey(nil, 'r', q.gen, p))
	if err != nil {
		return err
	}
	_, delayed, err := q.Get(delayedKey(nil, q.gen, at, p))
	if err == nil && ready == delayed {
		q.problem("message %d, available at %d, is ready: %v, delayed: %v", p.seq, at, ready, delayed)
	}
	return err
}

// again checks the index of messages that are ready again. Each row belongs to one if their numbers
// match.
func (q *audited) again() error {
	prefix := numberKey(nil, 'r', q.gen)
	at := 0
	err := q.Scan(prefix, key.PrefixEnd(prefix), func(k, value []byte) error {
		q.seen.ready++
		q.indexed--
		p, ok := placeAt(k, numberAt)
		if !ok || p.less(q.record.again) || len(value) > 0 {
			q.problem("row %x is before the mark %s", k, q.record.again.cursor())
		}
		if q.memory != nil && p.less(q.memory.again.rest) {
			if live := q.memory.again.live(); at >= len(live) || live[at].at != p {
				q.problem("memory does not have message %s among those that are ready again", p.cursor())
			}
			at++
		}
		return nil
	})
	if q.memory != nil && at != len(q.memory.again.live()) {
		q.problem("memory has %d messages that are ready again, the state %d of them", len(q.memory.again.live()), at)
	}
	return err
}

func (q *audited) delays() error {
	prefix := numberKey(nil, 'd', q.gen)
	return q.Scan(prefix, key.PrefixEnd(prefix), func(k, value []byte) error {
		q.seen.delayed++
		q.indexed--
		if _, ok := placeAt(k, dueAt); !ok || key.Int64(k[numberAt:]) < q.nextDelayed || len(value) > 0 {
			q.problem("row %x is before the mark %d", k, q.nextDelayed)
		}
		return nil
	})
}

func (q *audited) dead() error {
	prefix := numberKey(nil, 'x', q.id)
	return q.Scan(prefix, key.PrefixEnd(prefix), func(k, value []byte) error {
		q.seen.dead++
		w, err := decodeDead(value)
		if err != nil || len(k) != numberAt+8 {
			q.problem("dead letter row %x: %v", k, err)
			return nil
		}
		seq := seqAt(k)
		q.headers(seq, w.headers)
		if seq == 0 || seq > q.seq || w.attempts < 1 || w.attempts > w.maxAttempts || w.diedAt > q.Applied.Stamp || w.diedAt < q.nextDead ||
			w.enqueuedAt > w.diedAt {
			q.problem("dead letter %d: %d attempts of %d, enqueued at %d, died at %d", seq, w.attempts, w.maxAttempts, w.enqueuedAt,
				w.diedAt)
		}
		_, ok, err := q.Get(diedKey(nil, q.id, w.diedAt, seq))
		if err == nil && !ok {
			q.problem("dead letter %d died at %d, but is not in the index", seq, w.diedAt)
		}
		for _, kind := range []byte("mn") {
			_, alive, getErr := q.Get(messageKey(nil, kind, q.gen, position{w.priority, seq}))
			if err == nil {
				err = getErr
			}
			if alive {
				q.problem("message %d is dead and alive", seq)
			}
		}
		return err
	})
}

// died counts the index of dead letters by time. Each row belongs to one if their numbers match.
func (q *audited) died() error {
	n := int64(0)
	prefix := numberKey(nil, 'y', q.id)
	err := q.Scan(prefix, key.PrefixEnd(prefix), func(k, _ []byte) error {
		n++
		return nil
	})
	if n != q.seen.dead {
		q.problem("%d dead letters, %d in the index by time", q.seen.dead, n)
	}
	return err
}

// compare compares the counts with the row and with memory.
func (q *audited) compare() {
	for _, c := range []struct {
		what       string
		says, seen int64
	}{
		{"ready", q.ready, q.seen.ready}, {"delayed", q.delayed, q.seen.delayed}, {"leased", q.inflight, q.seen.inflight},
		{"dead", q.record.dead, q.seen.dead}, {"bytes", q.bytes, q.seen.bytes}, {"in more or fewer than one index", 0,
			q.indexed}, {"rows of deliveries that are of no message", 0, -q.known},
	} {
		if c.says != c.seen {
			q.problem("%s: its row counts %d, there are %d", c.what, c.says, c.seen)
		}
	}
	l := q.leases()
	if n := int64(l.len()); n != q.inflight || len(l.bySeq) != int(n) || n > 0 && q.memory != nil && q.memory.leases != l {
		q.problem("memory has %d leases, the row counts %d", n, q.inflight)
	}
	if q.memory == nil {
		return
	}
	if live := len(q.memory.fresh.live()); live != q.fresh {
		q.problem("memory has %d fresh messages, the state %d of them", live, q.fresh)
	}
}

// timer checks that the timer fires no later than the next due item.
func (q *audited) timer() error {
	next := min(q.nextDelayed, q.nextDedup)
	if q.settings.deadRetention > 0 && q.nextDead != never {
		next = min(next, q.nextDead+q.settings.deadRetention)
	}
	if next < q.record.timer {
		q.problem("something is due at %d, its timer is at %d", next, q.record.timer)
	}
	if q.record.timer == never {
		return nil
	}
	set, err := q.HasTimer(q.record.timer, q.ns, append([]byte{tokenQueue}, q.name...))
	if err == nil && !set {
		q.problem("has no timer at %d", q.record.timer)
	}
	return err
}
