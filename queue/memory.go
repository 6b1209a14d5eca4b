package queue

import (
	"encoding/binary"
	"fmt"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// memory is the applying goroutine's cache of a queue: the beginning of each of its indexes. It
// matches the rows, including those of the batch being applied, so no answer depends on whether a
// queue is cached.
type memory struct {
	id, gen uint64
	fresh   window  // of fresh messages
	again   window  // of rows 'r'
	leases  *leases // those of the machine, see machine.leases
}

// footprint is the approximate memory of a queue. It excludes leases, which stay in memory even if
// the queue does not and have their own bound, maxInflight.
func (q *memory) footprint() int {
	const fixed, perItem = 512, 40
	return fixed + q.fresh.bytes + perItem*(cap(q.fresh.items)+cap(q.again.items))
}

// change is a change of a queue's memory, with the data needed to undo it (see engine.Memory).
type change struct {
	kind  changeKind
	item  item
	lease lease
}

type changeKind uint8

const (
	putFresh changeKind = iota
	putAgain
	takenFresh
	takenAgain
	leased
	ended
	moved    // the lease was a different one before
	released // its leases no longer count
)

// undo undoes a change.
func (m *machine) undo(q *memory, c change) {
	switch c.kind {
	case putFresh:
		q.fresh.remove(c.item.at)
	case putAgain:
		q.again.remove(c.item.at)
	case takenFresh:
		if q.fresh.wants(c.item.at) {
			q.fresh.put(c.item)
		}
	case takenAgain:
		if q.again.wants(c.item.at) {
			q.again.put(c.item)
		}
	case leased:
		m.removeLease(q, q.leases.bySeq[c.lease.at.seq])
	case ended:
		m.addLease(q, c.lease)
	case moved:
		q.leases.move(q.leases.bySeq[c.lease.at.seq], c.lease.deadline)
	case released:
		if n := q.leases.len(); n > 0 {
			m.leases[q.gen] = q.leases
			m.inflight += int64(n)
		}
	}
}

// addLease adds a lease of a queue.
func (m *machine) addLease(q *memory, l lease) {
	if q.leases.len() == 0 {
		m.leases[q.gen] = q.leases
	}
	q.leases.add(l)
	m.inflight++
}

// removeLease removes a lease of a queue.
func (m *machine) removeLease(q *memory, l *lease) {
	q.leases.remove(l)
	m.inflight--
	if q.leases.len() == 0 {
		delete(m.leases, q.gen)
	}
}

// newMemory returns an empty cache that has only the starts of the indexes.
func (m *machine) newMemory(r *record) *memory {
	fresh := end
	if len(r.lanes) > 0 {
		fresh = r.lanes[0].start()
	}
	l := m.leases[r.gen]
	if l == nil {
		l = new(leases)
	}
	return &memory{id: r.id, gen: r.gen, fresh: window{rest: fresh, max: &m.limits}, again: window{rest: r.again, max: &m.limits},
		leases: l}
}

// load loads a queue into memory.
func (m *machine) load(r *record) *memory {
	q := m.newMemory(r)
	if n := int64(q.leases.len()); n != r.inflight {
		panic(fmt.Sprintf("queue %d: %d leases, its row counts %d", r.id, n, r.inflight))
	}
	m.queues.Load(q.id, q, q.footprint())
	return q
}

// restoreLeases reads the leases of all queues. Apply cannot do that: reading a million of them
// would stop the shard for too long. Rows that cannot be decoded are skipped; Verify reports them.
func (m *machine) restoreLeases(v *engine.View) error {
	m.leases = make(map[uint64]*leases)
	return v.Scan([]byte{'l'}, []byte{'l' + 1}, func(k, value []byte) (more bool, err error) {
		w, bad := decodeLease(value)
		p, ok := placeAt(k, numberAt)
		if bad != nil || !ok {
			return true, nil
		}
		gen := binary.BigEndian.Uint64(k[1:])
		of := m.leases[gen]
		if of == nil {
			of = new(leases)
			m.leases[gen] = of
		}
		of.add(w.lease(p))
		return true, nil
	})
}

// fillFresh fills the empty window of fresh messages from the state, with at least as many as are
// wanted.
func (q *memory) fillFresh(tx *engine.Tx, lanes []lane, want int) {
	w := &q.fresh
	w.widen(want)
	for i := range lanes {
		from := lanes[i].start()
		if from.less(w.rest) {
			from = w.rest
		}
		if from.priority != lanes[i].priority {
			continue // the window starts after this lane
		}
		if w.full() {
			w.rest = from
			return
		}
		it := tx.Iter(messageKey(nil, 'm', q.gen, from), key.PrefixEnd(append(numberKey(nil, 'm', q.gen), from.priority)))
		rest, more := w.fill(it, true)
		mustClose(it)
		if more {
			w.rest = rest
			return
		}
	}
	w.rest = end
}

// fillAgain fills the empty window of messages that are ready again from the state.
func (q *memory) fillAgain(tx *engine.Tx, want int) {
	w := &q.again
	w.widen(want)
	it := tx.Iter(messageKey(nil, 'r', q.gen, w.rest), key.PrefixEnd(numberKey(nil, 'r', q.gen)))
	rest, more := w.fill(it, false)
	mustClose(it)
	if w.rest = end; more {
		w.rest = rest
	}
}

// must returns the decoded value of a row that only the machine itself writes.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func mustClose(it *engine.Iter) {
	if err := it.Close(); err != nil {
		panic(err)
	}
}
