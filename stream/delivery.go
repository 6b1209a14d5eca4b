package stream

import (
	"slices"

	"github.com/floedb/floe/internal/engine"
)

// readGroup delivers the next records to a consumer.
func (s *session) readGroup(b *readGroupBody) (claims, error) {
	m, tx, st, g := s.m, s.tx, s.st, s.g
	out, err := s.claim(b.consumer, b.epoch)
	if err != nil || out.more {
		return out, err
	}
	if !out.active {
		m.asked(tx, g, b.consumer, false)
		return out, nil
	}
	d := delivery{m: m, tx: tx, st: st, g: g, c: b, limit: b.limit, bytes: maxClaimBytes, claims: &out}
	for i := range g.parts {
		p := (i + int(tx.LSN()%engine.LSN(len(g.parts)))) % len(g.parts)
		if here(tx, st.name, p) && d.limit > 0 {
			d.partition(p)
		}
	}
	if len(out.claims) == 0 && d.full {
		return out, engine.Errorf(engine.ErrBusy, "stream %q: consumer group %q has %d unacknowledged records, the limit is %d",
			g.name, g.group, g.pending, MaxPending)
	}
	m.asked(tx, g, b.consumer, len(out.claims) > 0)
	return out, nil
}

// claim notes that a consumer is present, and decides whether it may receive records now. While
// records of other members are being taken back, no consumer may, so that no record overtakes them.
// Then more is set, and the next call continues. The same applies if more is due than one command
// can process.
func (s *session) claim(consumer string, epoch uint64) (claims, error) {
	m, tx, st, g := s.m, s.tx, s.st, s.g
	out := claims{active: true, more: true, mode: g.mode, ackTimeout: g.ackTimeout}
	if g.ending > 0 || g.overdue(tx.Now()) {
		return out, nil
	}
	if err := m.join(tx, g, consumer); err != nil {
		return out, err
	}
	if g.mode == Exclusive && (epoch > 0 || !here(tx, st.name, 0)) {
		out.active = m.follow(tx, g, consumer, epoch)
	} else {
		out.active = m.hold(tx, st, g, consumer)
	}
	m.recall(tx, st, g)
	out.epoch, out.more = g.epoch, g.ending > 0
	return out, nil
}

// delivery is the work of one ReadGroup command.
type delivery struct {
	m      *machine
	tx     *engine.Tx
	st     *stream
	g      *group
	c      *readGroupBody
	limit  int // records that may still be delivered
	bytes  int // bytes likewise, except for the first record
	full   bool
	claims *claims
	mine   map[uint64]bool // key hashes of the partition whose records this command delivers
}

func (d *delivery) partition(p int) {
	if d.g.mode == KeyShared {
		d.keyShared(p)
		return
	}
	d.redeliver(p)
	part, cursor := &d.st.parts[p], &d.g.parts[p]
	next := max(cursor.next, part.first)
	n := min(uint64(d.limit), part.last+1-next)
	if d.g.pending+int(n) > MaxPending && !d.c.noAck {
		n, d.full = uint64(max(MaxPending-d.g.pending, 0)), n > 0
	}
	if n = d.fitting(p, next, n); n == 0 {
		return
	}
	cursor.next, cursor.changed = next+n, true
	offsets := make([]uint64, n)
	for i := range offsets {
		offsets[i] = next + uint64(i)
	}
	d.give(p, 1, 0, offsets, nil)
}

// maxClaimBytes is about the maximum size of one ReadGroup's records.
const maxClaimBytes = 8 << 20

// fitting returns how many of the n records starting at next still fit into the delivery, and
// counts them.
func (d *delivery) fitting(p int, next, n uint64) uint64 {
	part := &d.st.parts[p]
	switch {
	case n == 0 || d.bytes <= 0:
		return 0
	case d.light(p):
		d.bytes -= int(part.bytes / part.last * n)
		return n
	}
	get := getterOf(d.tx)
	start := must(storedAt(get, d.st.gen, p, next)).before
	size := func(n uint64) int {
		if next+n > part.last {
			return int(part.bytes - start)
		}
		return int(must(storedAt(get, d.st.gen, p, next+n)).before - start)
	}
	lo, hi := uint64(0), n
	for lo < hi {
		mid := lo + (hi-lo+1)/2
		if size(mid) > d.bytes {
			hi = mid - 1
		} else {
			lo = mid
		}
	}
	if lo == 0 && d.bytes == maxClaimBytes {
		lo = 1
	}
	if d.bytes -= size(lo); lo < n {
		d.bytes = 0
	}
	return lo
}

// light reports whether a partition's records are so small on average that their sizes need not be
// read.
func (d *delivery) light(p int) bool {
	part := &d.st.parts[p]
	return part.bytes/part.last*uint64(d.c.limit) < maxClaimBytes/4
}

// fits reports whether a record still fits into the delivery, and counts it.
func (d *delivery) fits(p int, offset uint64) bool {
	part := &d.st.parts[p]
	if d.light(p) {
		return d.fit(int(part.bytes / part.last))
	}
	return d.fit(len(must(storedAt(getterOf(d.tx), d.st.gen, p, offset)).message))
}

func (d *delivery) fit(size int) bool {
	if d.bytes <= 0 || d.bytes < maxClaimBytes && size > d.bytes {
		d.bytes = 0
		return false
	}
	d.bytes -= size
	return true
}

// redeliver delivers the records of a partition that are due for redelivery.
func (d *delivery) redeliver(p int) {
	part := &d.g.parts[p]
	var claimed []*failure
	for len(part.again) > 0 && len(claimed) < d.limit && d.bytes > 0 && !d.stopped() {
		d.tx.Worked(1)
		f := part.failed[part.again[0]]
		gone := f == nil || !d.g.isAnnounced(p, f)
		if !gone && f.offset >= d.st.parts[p].first {
			if !d.fits(p, f.offset) {
				break
			}
			claimed = append(claimed, f)
		}
		if part.again = part.again[1:]; !gone {
			d.m.unfail(d.tx, d.g, p, f)
		}
	}
	d.giveAgain(p, claimed)
}

// giveAgain assigns redelivered records to the consumer, in the order of their offsets.
func (d *delivery) giveAgain(p int, claimed []*failure) {
	for len(claimed) > 0 {
		first, n := claimed[0], 1
		for n < len(claimed) && claimed[n].attempts == first.attempts && claimed[n].excused == first.excused {
			n++
		}
		var offsets, keys []uint64
		for _, f := range claimed[:n] {
			offsets = append(offsets, f.offset)
			if d.g.mode == KeyShared {
				keys = append(keys, f.hash)
			}
		}
		claimed = claimed[n:]
		d.give(p, first.attempts+1, first.excused, offsets, keys)
		if d.c.noAck {
			for _, hash := range keys {
				d.m.freed(d.tx, d.g, p, hash) // no acknowledgement will follow
			}
		}
	}
}

// batchSpan limits the distance between the offsets of a batch, so that a scan for the batches
// around an offset can start shortly before it.
const batchSpan = 4096

// give assigns records to the consumer, in as few batches as possible.
func (d *delivery) give(p int, attempt, excused uint64, offsets, keys []uint64) {
	for len(offsets) > 0 {
		n, _ := slices.BinarySearch(offsets, offsets[0]+batchSpan)
		of := keys
		if keys != nil {
			of, keys = keys[:n:n], keys[n:]
		}
		d.giveBatch(p, attempt, excused, offsets[:n:n], of)
		offsets = offsets[n:]
	}
}

func (d *delivery) giveBatch(p int, attempt, excused uint64, offsets, keys []uint64) {
	d.limit -= len(offsets)
	cl := claim{p, attempt, d.tx.Now() + d.g.ackTimeout, offsets, d.g.generation(p)}
	d.claims.claims = append(d.claims.claims, cl)
	if d.c.noAck {
		return
	}
	b := &batch{
		partition: p, first: offsets[0], lsn: uint64(d.tx.LSN()), attempt: attempt, excused: excused, delivered: d.tx.Now(),
		deadline: cl.deadline,
		consumer: d.c.consumer, offsets: append([]uint64(nil), offsets...), keys: keys,
	}
	d.g.addBatch(b)
	d.g.touch(b)
}
