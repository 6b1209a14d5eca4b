package stream

import "github.com/floedb/floe/internal/engine"

// readGroup gives a consumer what is next. Its result is claims.
func (m *machine) readGroup(tx *engine.Tx, st *stream, g *group, c *groupCommand) ([]byte, error) {
	out, err := m.claim(tx, st, g, c)
	if err != nil || !out.active || out.more {
		return out.encode(), err
	}
	d := delivery{m: m, tx: tx, st: st, g: g, c: c, limit: c.limit, claims: out}
	for i := range g.parts {
		p := (i + int(tx.LSN()%engine.LSN(len(g.parts)))) % len(g.parts)
		if here(tx, st.name, p) && d.limit > 0 {
			d.partition(p)
		}
	}
	if len(out.claims) == 0 && d.full {
		return nil, engine.Errorf(engine.ErrBusy, "stream %q: consumer group %q has %d records that are not acknowledged, the limit is %d",
			g.name, g.group, g.pending, MaxPending)
	}
	out.seen = g.ready // what this look has found for others is nothing to look for again
	return out.encode(), nil
}

// claim notes that a consumer is there, and finds out whether it may get records now. While the records of others are taken back nobody does, so that none
// overtakes them: there is more then, and whoever asks again gets on with that.
func (m *machine) claim(tx *engine.Tx, st *stream, g *group, c *groupCommand) (*claims, error) {
	out := &claims{active: true, mode: g.mode, ackTimeout: g.ackTimeout, seen: g.ready, more: true}
	if g.ending > 0 {
		return out, nil
	}
	if err := m.join(tx, g, c.consumer); err != nil {
		return out, err
	}
	if g.mode == Exclusive && (c.epoch > 0 || !here(tx, st.name, 0)) {
		out.active = m.follow(tx, g, c)
	} else {
		out.active = m.hold(tx, g, c.consumer)
	}
	m.takeBack(tx, st, g)
	out.epoch, out.more = g.epoch, g.ending > 0
	return out, nil
}

// delivery is what one ReadGroup hands out.
type delivery struct {
	m      *machine
	tx     *engine.Tx
	st     *stream
	g      *group
	c      *groupCommand
	limit  int // how many more
	full   bool
	claims *claims
	mine   map[uint64]bool // keys of the partition, by hash, of which the consumer gets records now
}

func (d *delivery) partition(p int) {
	if d.g.mode == KeyShared {
		d.keyShared(p)
		return
	}
	d.redeliver(p, nil)
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

// maxClaimBytes is about how much one ReadGroup hands out.
const maxClaimBytes = 8 << 20

// fitting returns how many of n records are not too much to hand out at once. It looks at them only if records of the partition are large in the mean.
func (d *delivery) fitting(p int, next, n uint64) uint64 {
	part := &d.st.parts[p]
	if n <= 1 || part.bytes/part.last*n < maxClaimBytes/4 {
		return n
	}
	get := getterOf(d.tx)
	start := must(storedAt(get, d.st.gen, p, next)).before
	lo, hi := uint64(1), n
	for lo < hi {
		mid := lo + (hi-lo+1)/2
		if must(storedAt(get, d.st.gen, p, next+mid-1)).before-start > maxClaimBytes {
			hi = mid - 1
		} else {
			lo = mid
		}
	}
	return lo
}

// redeliver hands out records of a partition whose time has come again; those for which may is false are left, nil means all.
func (d *delivery) redeliver(p int, may func(f *failure) bool) {
	part := &d.g.parts[p]
	var left, offsets, keys []uint64
	attempt, excused := uint64(0), uint64(0)
	flush := func() {
		if len(offsets) > 0 {
			d.give(p, attempt+1, excused, offsets, keys)
		}
		if d.c.noAck {
			for _, hash := range keys {
				d.m.freed(d.tx, d.g, p, hash) // nobody is going to acknowledge it
			}
		}
		offsets, keys = nil, nil
	}
	for i, o := range part.again {
		f := part.failed[o]
		if f == nil || f.due > d.tx.Now() {
			continue
		}
		if len(offsets) >= d.limit || d.stopped() {
			left = append(left, part.again[i:]...)
			break
		}
		if o < d.st.parts[p].first {
			d.m.unfail(d.tx, d.g, p, f)
			d.m.freed(d.tx, d.g, p, f.hash)
			continue
		}
		if may != nil && !may(f) {
			left = append(left, o)
			continue
		}
		if f.attempts != attempt || f.excused != excused {
			flush()
			attempt, excused = f.attempts, f.excused
			if d.limit == 0 {
				left = append(left, part.again[i:]...)
				break
			}
		}
		d.m.unfail(d.tx, d.g, p, f)
		offsets = append(offsets, o)
		if d.g.mode == KeyShared {
			keys = append(keys, f.hash)
		}
	}
	flush()
	part.again = left
}

// give makes records the consumer's.
func (d *delivery) give(p int, attempt, excused uint64, offsets, keys []uint64) {
	d.limit -= len(offsets)
	cl := claim{partition: p, attempt: attempt, deadline: d.tx.Now() + d.g.ackTimeout, offsets: offsets}
	d.claims.claims = append(d.claims.claims, cl)
	if d.c.noAck {
		return
	}
	b := &batch{
		partition: p, first: offsets[0], lsn: uint64(d.tx.LSN()), attempt: attempt, excused: excused, delivered: d.tx.Now(), deadline: cl.deadline,
		consumer: d.c.consumer, offsets: append([]uint64(nil), offsets...), keys: keys,
	}
	d.g.addBatch(b)
	d.g.touch(b)
}
