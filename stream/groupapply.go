package stream

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// tokenGroup is followed by gen, the group's id, and the names of stream and group.
const tokenGroup = 'g'

// maxExpire bounds the records that one command takes back from consumers.
const maxExpire = 1000

// applyGroup carries out a command for a group of a stream that exists, but for one that makes the group.
func (m *Machine) applyGroup(tx *engine.Tx, st *stream, cmd engine.Command, c *command) ([]byte, error) {
	m.groups.trim()
	gc := &c.group
	g, err := m.openGroup(tx, st, gc)
	if err != nil {
		return nil, err
	}
	switch cmd.Kind {
	case kindCreateGroup:
		if g != nil {
			return nil, engine.Errorf(ErrExists, "stream %q: consumer group %q already exists", c.name, gc.group)
		}
		_, err := m.foundGroup(tx, st, gc.group, gc.config)
		return nil, err
	case kindReadGroup:
		if g == nil {
			if g, err = m.foundGroup(tx, st, gc.group, gc.config); err != nil {
				return nil, err
			}
		}
	case kindAdoptGroup:
		return nil, nil // done on opening
	}
	if g == nil {
		if cmd.Kind == kindDropGroup {
			return nil, nil
		}
		return nil, groupNotFound(c.name, gc.group)
	}
	m.touchGroup(tx, g)
	switch cmd.Kind {
	case kindDeleteGroup:
		m.tellGroup(tx, st, g, kindDropGroup)
		m.dropGroup(tx, st, g)
		return nil, nil
	case kindDropGroup:
		m.dropGroup(tx, st, g)
		return nil, nil
	}
	m.expire(tx, st, g)
	result, err := m.applyMembers(tx, st, g, cmd.Kind, gc)
	m.flush(tx, g)
	return result, err
}

// applyMembers carries out the commands of consumers. It changes nothing when it returns an error, but what flush writes.
func (m *Machine) applyMembers(tx *engine.Tx, st *stream, g *group, kind uint8, c *groupCommand) ([]byte, error) {
	switch kind {
	case kindReadGroup:
		return m.readGroup(tx, st, g, c)
	case kindAck:
		return m.ack(tx, g, c)
	case kindNack:
		return m.nack(tx, st, g, c)
	case kindExtend:
		return m.extend(tx, g, c)
	case kindLeave:
		m.leave(tx, st, g, c.consumer)
		return nil, nil
	case kindSeek:
		m.seek(tx, st, g, c.config.start)
		return nil, nil
	case kindHold:
		if err := m.join(tx, g, c.consumer); err != nil {
			return nil, err
		}
		active := m.hold(tx, st, g, c.consumer)
		return (&claims{active: active, epoch: g.epoch, mode: g.mode, ackTimeout: g.ackTimeout, seen: g.ready}).encode(), nil
	}
	panic(fmt.Sprintf("stream: unknown command kind %d", kind))
}

func groupNotFound(stream, group string) error {
	return engine.Errorf(ErrNotFound, "stream %q: consumer group %q not found", stream, group)
}

// openGroup returns the group a command is for, nil if there is none. If the command carries a spec, the group is made, or
// replaced, as it says, but in the stream's home, which knows best.
func (m *Machine) openGroup(tx *engine.Tx, st *stream, c *groupCommand) (*group, error) {
	g := m.loadGroup(tx, st, c.group)
	if c.spec == nil || g != nil && g.home == c.spec.id {
		return g, nil
	}
	if g != nil && g.home > c.spec.id || here(tx, st.name, 0) {
		return nil, groupNotFound(st.name, c.group) // it has been deleted and made again since the sender looked
	}
	if g != nil {
		m.dropGroup(tx, st, g)
	}
	return m.makeGroup(tx, st, c.group, c.spec.config, c.spec.id), nil
}

// foundGroup makes a group in the home of its stream.
func (m *Machine) foundGroup(tx *engine.Tx, st *stream, name string, config groupConfig) (*group, error) {
	if st.groups < 0 {
		st.groups = 0
		each(tx, genKey(nil, rowGroup, st.gen), func(_, _ []byte) { st.groups++ })
	}
	if st.groups >= MaxGroups {
		return nil, engine.Errorf(engine.ErrBusy, "stream %q has %d consumer groups, the limit", st.name, MaxGroups)
	}
	g := m.makeGroup(tx, st, name, config, uint64(tx.LSN()))
	m.tellGroup(tx, st, g, kindAdoptGroup)
	return g, nil
}

// makeGroup adds a group to the shard.
func (m *Machine) makeGroup(tx *engine.Tx, st *stream, name string, config groupConfig, home uint64) *group {
	g := newGroup(groupName{st.streamName, name}, st, groupHeader{
		groupConfig: config, id: uint64(tx.LSN()), home: home, createdAt: tx.Now(), ready: uint64(tx.LSN()),
	})
	m.touchGroup(tx, g)
	m.touch(tx, st)
	if st.groups >= 0 {
		st.groups++
	}
	m.placeCursors(tx, st, g, config.start)
	m.saveGroup(tx, g)
	m.flush(tx, g)
	tx.Notify(groupTopic(tx.NamespaceName(), st.name, name), -1)
	return g
}

// placeCursors sets the cursors of a group under which nothing is under way.
func (m *Machine) placeCursors(tx *engine.Tx, st *stream, g *group, from start) {
	for p := range g.parts {
		part := &st.parts[p]
		next := part.first
		switch from.kind {
		case startEnd:
			next = part.last + 1
		case startAt:
			next = must(offsetOf(getterOf(tx), st.gen, p, part.first, part.last, from.id))
		}
		if g.parts[p].groupCursor = (groupCursor{next: next}); next > 1 {
			g.parts[p].changed = true
		}
	}
}

func (m *Machine) touchGroup(tx *engine.Tx, g *group) { m.touchedGroups.add(tx.LSN(), g.groupName) }

// dropGroup removes a group from the shard.
func (m *Machine) dropGroup(tx *engine.Tx, st *stream, g *group) {
	m.touchGroup(tx, g)
	m.touch(tx, st)
	if st.groups > 0 {
		st.groups--
	}
	for _, kind := range groupKinds {
		prefix := groupPrefix(nil, kind, g.gen, g.id)
		tx.DeleteRange(prefix, key.PrefixEnd(prefix))
	}
	if g.timer != 0 {
		tx.Unschedule(g.timer, groupToken(g))
	}
	tx.Delete(groupKey(nil, g.gen, g.group))
	m.groups.forget(g.groupName)
	tx.Notify(groupTopic(tx.NamespaceName(), g.name, g.group), -1)
}

// tellGroup sends a command about a group to the other shards that may have a part of its stream.
func (m *Machine) tellGroup(tx *engine.Tx, st *stream, g *group, kind uint8) {
	m.tellAll(tx, st, func() engine.Op {
		return groupOp(kind, place{st.name, g.group, &st.spec, &groupSpec{g.home, g.groupConfig}}, nil, nil)
	})
}

// join notes that a consumer has been heard of.
func (m *Machine) join(tx *engine.Tx, g *group, consumer string) error {
	mem, known := g.members[consumer]
	if !known && len(g.members) >= MaxMembers {
		return engine.Errorf(engine.ErrBusy, "stream %q: consumer group %q has %d members, the limit", g.name, g.group, MaxMembers)
	}
	if known && tx.Now() < mem.seen+max(g.ackTimeout/8, 1) {
		return nil
	}
	silent := known && mem.silent(g, tx.Now())
	if !known {
		mem.joined = tx.Now()
	}
	mem.seen = tx.Now()
	g.members[consumer] = mem
	tx.Set(memberKey(nil, g.gen, g.id, consumer), mem.encode(nil))
	if !known || silent {
		m.membersChanged(tx, g)
	}
	return nil
}

// silent reports whether others may take over from the member. What is stored of when it was heard of is behind by an eighth.
func (m member) silent(g *group, now int64) bool {
	return now >= m.seen+g.ackTimeout+g.ackTimeout/8
}

// gone reports whether the member has left the group by its silence.
func (m member) gone(g *group, now int64) bool { return now >= m.seen+3*g.ackTimeout }

// membersChanged makes those who wait look whether they have got something to do.
func (m *Machine) membersChanged(tx *engine.Tx, g *group) {
	g.owners = owners{}
	if g.mode != Shared {
		m.ready(tx, g, -1)
	}
}

// ready notes that up to n records (-1: any number) have become ready for delivery otherwise than by being appended.
func (m *Machine) ready(tx *engine.Tx, g *group, n int) {
	g.ready = uint64(tx.LSN())
	m.saveGroup(tx, g)
	if g.mode != Shared {
		n = -1
	}
	tx.Notify(groupTopic(tx.NamespaceName(), g.name, g.group), n)
}

// leave removes a member; what it has goes to others at once.
func (m *Machine) leave(tx *engine.Tx, st *stream, g *group, consumer string) {
	if _, known := g.members[consumer]; known {
		m.remove(tx, st, g, consumer)
	}
}

func (m *Machine) remove(tx *engine.Tx, st *stream, g *group, consumer string) {
	delete(g.members, consumer)
	tx.Delete(memberKey(nil, g.gen, g.id, consumer))
	if g.holder == consumer {
		g.holder = ""
	}
	m.giveBack(tx, st, g, "consumer left", func(b *batch) bool { return b.consumer == consumer })
	m.membersChanged(tx, g)
	m.saveGroup(tx, g)
}

// giveBack makes what is in some of the batches ready for delivery again at once.
func (m *Machine) giveBack(tx *engine.Tx, st *stream, g *group, reason string, of func(*batch) bool) {
	for _, b := range g.allBatches() {
		for of(b) && len(b.offsets) > 0 {
			m.fail(tx, st, g, b, b.offsets[0], 0, reason)
		}
	}
}

// allBatches returns the batches in an order that does not depend on anything but what they are.
func (g *group) allBatches() (all []*batch) {
	for p := range g.parts {
		known := make(map[*batch]bool)
		for _, b := range g.parts[p].batches {
			if !known[b] {
				known[b] = true
				all = append(all, b)
			}
		}
	}
	slices.SortFunc(all, func(a, b *batch) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.first, b.first), cmp.Compare(a.lsn, b.lsn))
	})
	return all
}

// hold reports whether the consumer is the one who gets records of an exclusive group, and makes it that if there is none or he is silent.
func (m *Machine) hold(tx *engine.Tx, st *stream, g *group, consumer string) bool {
	if g.mode != Exclusive || g.holder == consumer {
		return true
	}
	if holder, known := g.members[g.holder]; known && !holder.silent(g, tx.Now()) {
		return false
	}
	m.giveBack(tx, st, g, "another consumer took over", func(*batch) bool { return true })
	g.holder = consumer
	g.epoch++
	m.saveGroup(tx, g)
	return true
}

// readGroup gives a consumer what is next. Its result is claims.
func (m *Machine) readGroup(tx *engine.Tx, st *stream, g *group, c *groupCommand) ([]byte, error) {
	if err := m.join(tx, g, c.consumer); err != nil {
		return nil, err
	}
	out := claims{mode: g.mode, ackTimeout: g.ackTimeout, seen: g.ready}
	if c.spec != nil && g.mode == Exclusive {
		out.active = m.follow(tx, st, g, c)
	} else {
		out.active = m.hold(tx, st, g, c.consumer)
	}
	out.epoch = g.epoch
	if !out.active {
		return out.encode(), nil
	}
	d := delivery{m: m, tx: tx, st: st, g: g, c: c, limit: c.limit, claims: &out}
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

// follow is hold for a shard that is not the stream's home, where the holder is chosen.
func (m *Machine) follow(tx *engine.Tx, st *stream, g *group, c *groupCommand) bool {
	if c.epoch < g.epoch {
		return false
	}
	if c.epoch > g.epoch {
		m.giveBack(tx, st, g, "another consumer took over", func(*batch) bool { return true })
		g.epoch, g.holder = c.epoch, c.consumer
		m.saveGroup(tx, g)
	}
	return true
}

// delivery is what one ReadGroup hands out.
type delivery struct {
	m      *Machine
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
	d.give(p, 1, offsets, nil)
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
	attempt := uint64(0)
	flush := func() {
		if len(offsets) > 0 {
			d.give(p, attempt+1, offsets, keys)
		}
		offsets, keys = nil, nil
	}
	for i, o := range part.again {
		f := part.failed[o]
		if f == nil || f.due > d.tx.Now() {
			continue
		}
		if len(offsets) >= d.limit {
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
		if f.attempts != attempt {
			flush()
			attempt = f.attempts
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
func (d *delivery) give(p int, attempt uint64, offsets, keys []uint64) {
	d.limit -= len(offsets)
	cl := claim{partition: p, attempt: attempt, deadline: d.tx.Now() + d.g.ackTimeout, offsets: offsets}
	d.claims.claims = append(d.claims.claims, cl)
	if d.c.noAck {
		return
	}
	b := &batch{
		partition: p, first: offsets[0], lsn: uint64(d.tx.LSN()), attempt: attempt, delivered: d.tx.Now(), deadline: cl.deadline,
		consumer: d.c.consumer, offsets: append([]uint64(nil), offsets...), keys: keys,
	}
	d.g.addBatch(b)
	d.g.touch(b)
}

// pendingAt finds the delivery of a record that an acknowledgement means.
func (g *group) pendingAt(ref Ref) (*batch, *failure) {
	if ref.Partition >= len(g.parts) {
		return nil, nil
	}
	p := &g.parts[ref.Partition]
	if b := p.batches[ref.Offset]; b != nil && (ref.Attempt == 0 || b.attempt == uint64(ref.Attempt)) {
		return b, nil
	}
	if f := p.failed[ref.Offset]; f != nil && (ref.Attempt == 0 || f.attempts == uint64(ref.Attempt)) {
		return nil, f
	}
	return nil, nil
}

// refs calls f for each record of the runs.
func (c *groupCommand) refs(f func(Ref) error) error {
	for _, run := range c.runs {
		for i := range run.n {
			if err := f(Ref{run.Partition, run.Offset + i, run.Attempt}); err != nil {
				return err
			}
		}
	}
	return nil
}

// ack takes records as done. Its result is how many were pending.
func (m *Machine) ack(tx *engine.Tx, g *group, c *groupCommand) ([]byte, error) {
	if c.strict {
		seen := make(map[Ref]bool)
		err := c.refs(func(ref Ref) error {
			at := Ref{Partition: ref.Partition, Offset: ref.Offset}
			if b, _ := g.pendingAt(ref); b == nil || seen[at] {
				return &ConflictError{Stream: g.name, Partition: ref.Partition, Reason: fmt.Sprintf(
					"record %d of partition %d is not pending in consumer group %q as attempt %d", ref.Offset, ref.Partition, g.group, ref.Attempt)}
			}
			seen[at] = true
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	n := int64(0)
	err := c.refs(func(ref Ref) error {
		b, f := g.pendingAt(ref)
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
	return codec.AppendVarint(nil, n), err
}

// nack gives records back. Its result is how many were with a consumer.
func (m *Machine) nack(tx *engine.Tx, st *stream, g *group, c *groupCommand) ([]byte, error) {
	n := int64(0)
	err := c.refs(func(ref Ref) error {
		if b, _ := g.pendingAt(ref); b != nil {
			m.fail(tx, st, g, b, ref.Offset, c.delay, c.reason)
			n++
		}
		return nil
	})
	return codec.AppendVarint(nil, n), err
}

// extend gives records more time. Its result is how many were with a consumer.
func (m *Machine) extend(tx *engine.Tx, g *group, c *groupCommand) ([]byte, error) {
	n := int64(0)
	moved, made := make(map[*batch]*batch), make(map[*batch]bool)
	err := c.refs(func(ref Ref) error {
		b, _ := g.pendingAt(ref)
		if b == nil || made[b] {
			return nil
		}
		n++
		to := moved[b]
		if to == nil {
			to = &batch{
				partition: b.partition, first: ref.Offset, lsn: uint64(tx.LSN()), attempt: b.attempt, delivered: b.delivered,
				deadline: tx.Now() + c.delay, consumer: b.consumer,
			}
			moved[b], made[to] = to, true
		}
		g.move(ref.Offset, b, to)
		return nil
	})
	return codec.AppendVarint(nil, n), err
}

// move takes a record from one batch into another.
func (g *group) move(offset uint64, from, to *batch) {
	p := &g.parts[from.partition]
	hash := g.release(p, from, offset)
	to.offsets = insert(to.offsets, offset)
	if g.mode == KeyShared {
		to.keys = insertKey(to.keys, to.offsets, offset, hash)
		k := p.busy(hash)
		k.out = insert(k.out, offset)
	}
	if len(to.offsets) == 1 {
		g.expect(deadline{at: to.deadline, partition: to.partition, batch: to})
	}
	p.batches[offset] = to
	g.pending++
	g.touch(to)
}

// fail takes a record from its consumer: it waits to be delivered again, or goes to the dead letters. delay -1 means the group's back-off.
func (m *Machine) fail(tx *engine.Tx, st *stream, g *group, b *batch, offset uint64, delay int64, reason string) {
	if g.maxDeliver > 0 && b.attempt >= g.maxDeliver {
		hash := g.release(&g.parts[b.partition], b, offset)
		m.bury(tx, st, g, b.partition, offset, b.attempt, reason)
		m.freed(tx, g, b.partition, hash)
		return
	}
	if delay < 0 {
		delay = g.backoff(b.attempt)
	}
	hash := m.again(tx, g, b, offset, b.attempt, tx.Now()+delay, reason)
	if delay == 0 {
		m.readyAgain(tx, g, hash)
	}
}

// readyAgain wakes somebody who may have a record that is to be delivered again.
func (m *Machine) readyAgain(tx *engine.Tx, g *group, hash uint64) {
	switch {
	case g.mode == KeyShared:
		m.readyFor(tx, g, slotOf(hash))
	case g.mode == Exclusive && g.holder != "":
		g.ready = uint64(tx.LSN())
		m.saveGroup(tx, g)
		tx.Notify(consumerTopic(tx.NamespaceName(), g.name, g.group, g.holder), 1)
	default:
		m.ready(tx, g, 1)
	}
}

// again makes a record that was with a consumer wait to be delivered again. Later ones of its key, which the consumer got too, wait with it. It returns
// what stands for its key.
func (m *Machine) again(tx *engine.Tx, g *group, b *batch, offset, attempts uint64, due int64, reason string) (hash uint64) {
	p := &g.parts[b.partition]
	hash = g.release(p, b, offset)
	m.wait(tx, g, b.partition, &failure{offset, attempts, due, hash, reason})
	if g.mode != KeyShared {
		return hash
	}
	k := p.keys[hash]
	for len(k.out) > 0 && k.out[len(k.out)-1] > offset {
		later := k.out[len(k.out)-1]
		of := p.batches[later]
		g.release(p, of, later)
		m.wait(tx, g, b.partition, &failure{later, of.attempt - 1, due, hash, ""})
	}
	return hash
}

func (m *Machine) wait(tx *engine.Tx, g *group, partition int, f *failure) {
	g.addFailure(partition, f)
	m.row = f.encode(m.row[:0])
	tx.Set(failureKey(nil, g.gen, g.id, partition, f.offset), m.row)
}

// backoff returns the pause after so many attempts, ms.
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

// expire does what is due: takes back what was not acknowledged in time, and lets be delivered again what has waited. Whether that has been announced already
// is for the row to say: memory that was made anew finds it due once more.
func (m *Machine) expire(tx *engine.Tx, st *stream, g *group) {
	var ready []uint64 // what stands for the keys of records that are due
	taken, until := 0, g.expired
	for len(g.due) > 0 && g.due[0].at <= tx.Now() && (taken < maxExpire || g.due[0].at == until) {
		d := heap.Pop(&g.due).(deadline)
		if !g.holds(d) {
			continue
		}
		until = max(until, d.at)
		switch {
		case d.batch == nil:
			p := &g.parts[d.partition]
			p.again = insert(p.again, d.offset)
			if d.at > g.expired {
				ready = append(ready, p.failed[d.offset].hash)
			}
		default:
			for len(d.batch.offsets) > 0 {
				m.fail(tx, st, g, d.batch, d.batch.offsets[0], -1, "ack timeout")
				taken++
			}
		}
	}
	if len(ready) > 0 {
		g.expired = until
	}
	if g.mode == Shared && len(ready) > 0 {
		m.ready(tx, g, len(ready))
		return
	}
	for _, hash := range ready {
		m.readyAgain(tx, g, hash)
	}
}

// seek moves the cursors; nothing is under way any more.
func (m *Machine) seek(tx *engine.Tx, st *stream, g *group, to start) {
	for _, kind := range deliveryKinds {
		prefix := groupPrefix(nil, kind, g.gen, g.id)
		tx.DeleteRange(prefix, key.PrefixEnd(prefix))
	}
	for p := range g.parts {
		g.parts[p] = groupPart{}
	}
	g.pending, g.due, g.dirty = 0, nil, nil
	m.placeCursors(tx, st, g, to)
	for p := range g.parts {
		g.parts[p].changed = true
	}
	m.ready(tx, g, -1)
}

// schedule sets the timer to when something is due next.
func (m *Machine) schedule(tx *engine.Tx, g *group) {
	next := g.nextDue()
	for _, mem := range g.members {
		at := mem.seen + 3*g.ackTimeout
		if silent := mem.seen + g.ackTimeout + g.ackTimeout/8; g.mode != Shared && silent > tx.Now() {
			at = silent
		}
		if next == 0 || at < next {
			next = at
		}
	}
	// A timer that goes off early is set again; setting it anew whenever what it is for is done would cost more.
	if next == 0 || g.timer != 0 && g.timer <= next {
		return
	}
	if g.timer != 0 {
		tx.Unschedule(g.timer, groupToken(g))
	}
	g.timer = max(next, tx.Now())
	tx.Schedule(g.timer, groupToken(g))
	m.saveGroup(tx, g)
}

func (m *Machine) onGroup(tx *engine.Tx, token []byte) {
	gen, id, name, groupName, ok := parseGroupToken(token)
	if !ok {
		panic(fmt.Sprintf("stream: timer token %q", token))
	}
	st := m.load(tx, name)
	if st == nil || st.gen != gen {
		return
	}
	m.groups.trim()
	g := m.loadGroup(tx, st, groupName)
	if g == nil || g.id != id || g.timer == 0 {
		return
	}
	m.touchGroup(tx, g)
	g.timer = 0
	m.expire(tx, st, g)
	m.expel(tx, st, g)
	m.saveGroup(tx, g)
	m.flush(tx, g)
}

// expel removes the members that have left by their silence, and lets others take over from those who are silent.
func (m *Machine) expel(tx *engine.Tx, st *stream, g *group) {
	changed := false
	for _, name := range slices.Sorted(maps.Keys(g.members)) {
		mem := g.members[name]
		if mem.gone(g, tx.Now()) {
			m.remove(tx, st, g, name)
		}
		changed = changed || mem.silent(g, tx.Now())
	}
	if changed {
		m.membersChanged(tx, g)
	}
}

// groupTopic is woken when something of a group becomes ready, and when it is made or deleted.
func groupTopic(namespace, stream, group string) engine.Topic {
	return engine.TopicOf(engine.MachineStream, namespace, []byte(stream+"\x00"+group))
}

// newTopic is for one who looks at new records of a KeyShared group.
func newTopic(namespace, stream, group string) engine.Topic {
	return consumerTopic(namespace, stream, group, "")
}

// consumerTopic is that of a consumer, where it matters who looks.
func consumerTopic(namespace, stream, group, consumer string) engine.Topic {
	return engine.TopicOf(engine.MachineStream, namespace, []byte(stream+"\x00"+group+"\x00"+consumer))
}
