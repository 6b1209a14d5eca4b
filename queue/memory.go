package queue

import (
	"fmt"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/plant"
)

// memory is what the applying goroutine remembers of a queue: where its indexes begin, and its leases. It says what the rows say, those of
// the batch being applied included, so that no answer depends on whether a queue is remembered.
type memory struct {
	id, gen uint64
	fresh   window // of rows 'm' that are neither indexed nor have a row 'l'
	again   window // of rows 'r'
	leases  leases
	counted int // what the machine has counted it as
}

// footprint is about what a queue takes in memory. Leases beyond the first few are left to their own bound, maxInflight.
func (q *memory) footprint() int {
	const fixed, perItem, perLease, fewLeases = 512, 40, 128, 1000
	return fixed + q.fresh.bytes + perItem*(cap(q.fresh.items)+cap(q.again.items)) + perLease*min(q.leases.len(), fewLeases)
}

// memories holds what is remembered of the queues of a shard, in two generations: when the young one is full it becomes the old one, whose
// queues return when they are used. Everything that changes it is noted, to be taken back (see Machine.Revert).
type memories struct {
	young, old map[uint64]*memory // by id
	bytes      int                // of young
	inflight   int64              // leases of all queues of the shard, also of those that are not remembered
	changes    []change
	settling   engine.LSN // of the command that registered settle with the batch; 0: none has
	settle     func()
	limits     limits
}

// change is something done to what is remembered, and what it takes to undo it.
type change struct {
	lsn   engine.LSN
	kind  changeKind
	queue *memory
	item  item
	lease lease
	id    uint64 // of replaced
}

type changeKind uint8

const (
	putFresh changeKind = iota
	putAgain
	takenFresh
	takenAgain
	leased
	ended
	moved    // the lease was another one before
	replaced // the queue was another one before, or none
)

func (s *memories) reset(inflight int64) {
	*s = memories{young: make(map[uint64]*memory), old: make(map[uint64]*memory), inflight: inflight, settle: s.settle, limits: s.limits}
	if s.settle == nil {
		s.settle = s.committed
	}
}

// committed ends the batch: nothing of it will be taken back.
func (s *memories) committed() {
	s.settling = 0
	clear(s.changes)
	s.changes = s.changes[:0]
	if s.bytes > s.limits.queues {
		s.young, s.old, s.bytes = make(map[uint64]*memory), s.young, 0
	}
}

// find returns what is remembered of a queue, or nil.
func (s *memories) find(tx *engine.Tx, id uint64) *memory {
	if q := s.young[id]; q != nil {
		return q
	}
	q := s.old[id]
	if q != nil {
		delete(s.old, id)
		s.keep(tx, q)
	}
	return q
}

// keep remembers a queue.
func (s *memories) keep(tx *engine.Tx, q *memory) {
	s.young[q.id] = q
	q.counted = 0
	s.count(q)
	s.atCommit(tx)
}

// count brings up to date how much memory a queue takes.
func (s *memories) count(q *memory) {
	n := q.footprint()
	s.bytes += n - q.counted
	q.counted = n
}

func (s *memories) atCommit(tx *engine.Tx) {
	if s.settling == 0 {
		s.settling = tx.LSN()
		tx.OnCommit(s.settle)
	}
}

func (s *memories) note(tx *engine.Tx, c change) {
	s.atCommit(tx)
	c.lsn = tx.LSN()
	s.changes = append(s.changes, c)
}

// revert undoes what was done after an LSN.
func (s *memories) revert(to engine.LSN) {
	if s.settling > to {
		s.settling = 0
	}
	n := len(s.changes)
	for ; n > 0 && s.changes[n-1].lsn > to; n-- {
		s.undo(&s.changes[n-1])
		s.changes[n-1] = change{}
	}
	s.changes = s.changes[:n]
}

func (s *memories) undo(c *change) {
	q := c.queue
	switch c.kind {
	case putFresh:
		q.fresh.remove(c.item.at)
	case putAgain:
		q.again.remove(c.item.at)
	case takenFresh:
		if q.fresh.wants(c.item.at) && !plant.On(plant.KeepTaken) {
			q.fresh.put(c.item)
		}
	case takenAgain:
		if q.again.wants(c.item.at) {
			q.again.put(c.item)
		}
	case leased:
		q.leases.remove(q.leases.bySeq[c.lease.at.seq])
		s.inflight--
	case ended:
		q.leases.add(c.lease)
		s.inflight++
	case moved:
		q.leases.move(q.leases.bySeq[c.lease.at.seq], c.lease.deadline)
	case replaced:
		s.undoReplace(c)
	}
}

func (s *memories) undoReplace(c *change) {
	if q := s.young[c.id]; q != nil {
		s.bytes -= q.counted
		s.inflight -= int64(q.leases.len())
		delete(s.young, c.id)
	}
	if c.queue != nil {
		s.young[c.id] = c.queue
		s.bytes += c.queue.counted
		s.inflight += int64(c.queue.leases.len())
	}
}

// replace remembers another queue, or none, in the place of one, or of none.
func (s *memories) replace(tx *engine.Tx, id uint64, q *memory) {
	before := s.young[id]
	if before != nil {
		s.bytes -= before.counted
		s.inflight -= int64(before.leases.len())
		delete(s.young, id)
	}
	s.note(tx, change{kind: replaced, id: id, queue: before})
	if q != nil {
		s.keep(tx, q)
	}
}

// newMemory remembers nothing of a queue yet but where its indexes begin.
func (s *memories) newMemory(r *record) *memory {
	return &memory{id: r.id, gen: r.gen, fresh: window{rest: r.fresh, max: &s.limits}, again: window{rest: r.again, max: &s.limits}}
}

// load reads a queue into memory.
func (s *memories) load(tx *engine.Tx, r *record) *memory {
	q := s.newMemory(r)
	if r.inflight > 0 {
		q.loadLeases(tx)
	}
	if n := int64(q.leases.len()); n != r.inflight {
		panic(fmt.Sprintf("queue %d: %d leases, its row counts %d", r.id, n, r.inflight))
	}
	s.keep(tx, q)
	return q
}

func (q *memory) loadLeases(tx *engine.Tx) {
	prefix := numberKey(nil, 'l', q.gen)
	it := tx.Iter(prefix, key.PrefixEnd(prefix))
	for ok := it.First(); ok; ok = it.Next() {
		w := must(decodeLease(it.Value()))
		if w.flags&flagLeased == 0 {
			continue
		}
		p, _ := placeAt(it.Key(), numberAt)
		q.leases.add(lease{at: p, lsn: w.lsn, deadline: w.at, attempts: w.attempts, maxAttempts: w.maxAttempts, size: w.size})
	}
	mustClose(it)
}

// fillFresh fills the window of fresh messages, which is empty, from the state.
func (q *memory) fillFresh(tx *engine.Tx) {
	upper := key.PrefixEnd(numberKey(nil, 'm', q.gen))
	it := tx.Iter(messageKey(nil, 'm', q.gen, q.fresh.rest), upper)
	delivered := tx.Iter(messageKey(nil, 'l', q.gen, q.fresh.rest), key.PrefixEnd(numberKey(nil, 'l', q.gen)))
	known := delivered.First()
	rest := end
	for ok := it.First(); ok; ok = it.Next() {
		p, _ := placeAt(it.Key(), numberAt)
		if q.fresh.full() {
			rest = p
			break
		}
		for known {
			if l, _ := placeAt(delivered.Key(), numberAt); !l.less(p) {
				break
			}
			known = delivered.Next()
		}
		if known {
			if l, _ := placeAt(delivered.Key(), numberAt); l == p {
				continue
			}
		}
		row := it.Value()
		if must(decodeMessage(row)).flags&flagIndexed == 0 {
			q.fresh.append(p, row)
		}
	}
	q.fresh.rest = rest
	mustClose(delivered)
	mustClose(it)
}

// fillAgain fills the window of messages that are ready again, which is empty, from the state.
func (q *memory) fillAgain(tx *engine.Tx) {
	it := tx.Iter(messageKey(nil, 'r', q.gen, q.again.rest), key.PrefixEnd(numberKey(nil, 'r', q.gen)))
	rest := end
	for ok := it.First(); ok; ok = it.Next() {
		p, _ := placeAt(it.Key(), numberAt)
		if q.again.full() {
			rest = p
			break
		}
		q.again.append(p, nil)
	}
	q.again.rest = rest
	mustClose(it)
}

// must returns the value of a row that only the machine itself can have written.
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
