package stream

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// with returns the batch of a delivery that is with a consumer, nil if none exists.
func (g *group) with(ref Ref) *batch {
	if b := g.delivered(ref); b != nil && g.members[b.consumer].end == stays {
		return b
	}
	return nil
}

// delivered returns the batch of a delivery, nil if none exists. The delivery may be about to be
// taken back.
func (g *group) delivered(ref Ref) *batch {
	if ref.Partition >= len(g.parts) {
		return nil
	}
	b := g.parts[ref.Partition].batches[ref.Offset]
	if b == nil || ref.Attempt != 0 && b.attempt != uint64(ref.Attempt) || !g.current(ref) {
		return nil
	}
	return b
}

// current reports whether a delivery was made by this group since the last seek of its partition.
func (g *group) current(ref Ref) bool {
	return ref.Generation == 0 || ref.Generation == g.generation(ref.Partition)
}

// generation returns the generation of the deliveries of a partition.
func (g *group) generation(p int) uint64 { return cmp.Or(g.parts[p].sought, g.id) }

// undone returns the delivery that an acknowledgement refers to: a record with a consumer, or one
// that waits for redelivery and has not been redelivered.
func (g *group) undone(ref Ref) (*batch, *failure) {
	if b := g.with(ref); b != nil || ref.Partition >= len(g.parts) {
		return b, nil
	}
	p := &g.parts[ref.Partition]
	if b := g.delivered(ref); b != nil {
		at, _ := slices.BinarySearch(b.offsets, ref.Offset)
		if g.mode == KeyShared && p.keys[b.keys[at]].first() != ref.Offset {
			return nil, nil
		}
		return b, nil
	}
	f := p.failed[ref.Offset]
	if f == nil || ref.Attempt != 0 && f.attempts != uint64(ref.Attempt) || !g.current(ref) {
		return nil, nil
	}
	if g.mode == KeyShared && p.keys[f.hash].failed[0] != f.offset {
		return nil, nil // an earlier record of the key must be done first
	}
	return nil, f
}

// refs calls f for each record of the runs.
func (b *refsBody) refs(f func(Ref) error) error {
	for _, run := range b.runs {
		for i := range run.n {
			if err := f(Ref{run.Partition, run.Offset + i, run.Attempt, run.Generation}); err != nil {
				return err
			}
		}
	}
	return nil
}

// ack acknowledges records. It returns the number that were pending.
func (s *session) ack(c *ackBody) (n int, err error) {
	m, tx, g := s.m, s.tx, s.g
	m.heard(tx, g, c.runs)
	if c.strict {
		seen := make(map[Ref]bool)
		err := c.refs(func(ref Ref) error {
			at := Ref{Partition: ref.Partition, Offset: ref.Offset}
			if g.with(ref) == nil || seen[at] {
				return &ConflictError{Stream: g.name, Partition: ref.Partition, Reason: fmt.Sprintf(
					"record %d of partition %d is not pending in consumer group %q as attempt %d", ref.Offset, ref.Partition, g.group,
					ref.Attempt)}
			}
			seen[at] = true
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	err = c.refs(func(ref Ref) error {
		b, f := g.undone(ref)
		switch {
		case b != nil:
			hash := g.release(&g.parts[ref.Partition], b, ref.Offset)
			m.freed(tx, g, ref.Partition, hash)
		case f != nil:
			m.unfail(tx, g, ref.Partition, f)
			m.freed(tx, g, ref.Partition, f.hash)
		default:
			return nil
		}
		n++
		return nil
	})
	return n, err
}

// nack returns records to the group. Its result is the number that were with a consumer.
func (s *session) nack(c *nackBody) (n int, err error) {
	g, reason := s.g, string(c.reason)
	s.m.heard(s.tx, g, c.runs)
	err = c.refs(func(ref Ref) error {
		if b := g.with(ref); b != nil {
			s.m.fail(s.tx, s.st, g, b, ref.Offset, c.delay, reason)
			n++
		}
		return nil
	})
	return n, err
}

// extend moves the deadlines of records that are with a consumer.
func (s *session) extend(c *extendBody) (e Extended, err error) {
	tx, g := s.tx, s.g
	s.m.heard(tx, g, c.runs)
	moved, made := make(map[*batch]*batch), make(map[*batch]bool)
	slices.SortFunc(c.runs, func(a, b refRun) int { return a.Ref.compare(b.Ref) }) // so the first record of a batch is the one in its row
	err = c.refs(func(ref Ref) error {
		b := g.with(ref)
		if b == nil || made[b] {
			return nil
		}
		e.Records++
		e.Until = time.UnixMilli(tx.Now() + c.lease)
		to := moved[b]
		if to == nil {
			to = &batch{
				partition: b.partition, first: ref.Offset, lsn: uint64(tx.LSN()), attempt: b.attempt, excused: b.excused,
				delivered: b.delivered,
				deadline:  tx.Now() + c.lease, consumer: b.consumer,
			}
			moved[b], made[to] = to, true
		}
		g.move(ref.Offset, b, to)
		return nil
	})
	return e, err
}

// move moves a record from one batch to another.
func (g *group) move(offset uint64, from, to *batch) {
	p := &g.parts[from.partition]
	hash := g.release(p, from, offset)
	to.offsets = insert(to.offsets, offset)
	if g.mode == KeyShared {
		to.keys = insertKey(to.keys, to.offsets, offset, hash)
		k := p.busy(hash)
		k.out = insert(k.out, offset)
		g.recount(p, hash)
	}
	if len(to.offsets) == 1 {
		g.expect(deadline{at: to.deadline, partition: to.partition, batch: to})
	}
	p.batches[offset] = to
	g.count(p, to.consumer, 1)
	g.touch(to)
}

// fail takes a record from its consumer. The record waits for redelivery, or goes to the dead
// letters. delay may be byBackoff or toDLQ.
//
// A dead letter is as large as the record. When the command is Full, the group's timer buries the
// record later, and until then it costs a small row.
func (m *machine) fail(tx *engine.Tx, st *stream, g *group, b *batch, offset uint64, delay int64, reason string) {
	spent := g.spent(b.attempt, b.excused)
	switch {
	case (spent || delay == toDLQ) && !tx.Full():
		hash := g.release(&g.parts[b.partition], b, offset)
		m.bury(tx, st, g, b.partition, offset, b.attempt, reason)
		m.freed(tx, g, b.partition, hash)
		return
	case spent:
		hash := g.release(&g.parts[b.partition], b, offset)
		m.wait(tx, g, b.partition, &failure{offset, b.attempt, b.excused, true, b.delivered, tx.Now(), hash, reason})
		return
	}
	if delay < 0 {
		delay = g.backoff(b.attempt - b.excused)
	}
	m.again(tx, g, b, offset, tx.Now()+delay, reason)
}

// returnDelivery makes a record that its consumer did not process ready for redelivery. The
// delivery does not count. The consumer's other records of the key are also returned before any is
// delivered.
func (m *machine) returnDelivery(tx *engine.Tx, g *group, b *batch, offset uint64) {
	hash := g.release(&g.parts[b.partition], b, offset)
	m.wait(tx, g, b.partition, &failure{offset, b.attempt, b.excused + 1, false, b.delivered, tx.Now(), hash, leaving.reason()})
}

// spent reports whether a record that failed at the given attempt has none left.
func (g *groupHeader) spent(attempt, excused uint64) bool {
	return g.maxAttempts > 0 && attempt-excused >= g.maxAttempts
}

// buryWaiting appends a record that waits for it to the dead letters.
func (m *machine) buryWaiting(tx *engine.Tx, st *stream, g *group, partition int, f *failure) {
	m.unfail(tx, g, partition, f)
	m.bury(tx, st, g, partition, f.offset, f.attempts, f.reason)
	m.freed(tx, g, partition, f.hash)
}

// again makes a record that was with a consumer wait for redelivery. The consumer's later records
// of that key wait with it.
func (m *machine) again(tx *engine.Tx, g *group, b *batch, offset uint64, due int64, reason string) {
	p := &g.parts[b.partition]
	hash := g.release(p, b, offset)
	m.wait(tx, g, b.partition, &failure{offset, b.attempt, b.excused, false, b.delivered, due, hash, reason})
	if g.mode != KeyShared {
		return
	}
	k := p.keys[hash]
	for len(k.out) > 0 && k.out[len(k.out)-1] > offset {
		later := k.out[len(k.out)-1]
		of := p.batches[later]
		g.release(p, of, later)
		m.wait(tx, g, b.partition, &failure{later, of.attempt, of.excused + 1, false, of.delivered, due, hash, ""})
	}
}

func (m *machine) wait(tx *engine.Tx, g *group, partition int, f *failure) {
	if g.addFailure(partition, f); g.isAnnounced(partition, f) {
		m.readyOne(tx, g, f.hash) // it comes after others that are due now
	}
	m.row = f.encode(m.row[:0])
	tx.Insert(failureKey(nil, g.gen, g.id, partition, f.offset), m.row)
}

// backoff returns the pause after a number of attempts, ms.
func (g *group) backoff(attempts uint64) int64 {
	pause := g.backoffMin
	for range attempts - 1 {
		if pause >= g.backoffMax {
			break
		}
		pause *= 2
	}
	return min(pause, g.backoffMax)
}
