package stream

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// Limits of groups.
const (
	MaxGroups  = 10_000  // of a stream
	MaxMembers = 1000    // of a group
	MaxPending = 100_000 // pending records of a group in one shard
)

// groupName identifies a group within a shard.
type groupName struct {
	streamName
	group string
}

// group is a group's state in the shard.
type group struct {
	groupName
	groupHeader
	gen     uint64 // of the stream
	parts   []groupPart
	members map[string]member
	owners  owners
	pending int             // delivered and unacknowledged records, and those waiting for redelivery
	due     dueHeap         // of batches and failures; obsolete entries stay until they are due
	dirty   []*batch        // rows to be written, in order
	counted map[string]bool // members whose pending count changed: rows to be written
	changed bool            // the group's row must be written
	ending  int             // members whose records are being taken back
	recalls []*batch        // batches of these members, in order; nil: not collected yet
	headsIn []int           // number of key heads in each slot; nil: none
}

// groupPart is a group's state in a partition.
type groupPart struct {
	groupCursor
	number  int
	batches map[uint64]*batch   // by offset
	failed  map[uint64]*failure // by offset
	again   []uint64            // offsets of announced failures, in order; some may be obsolete; not in KeyShared groups
	heads   [][]uint64          // by slot: the heads of keys (see group.recount), in order; KeyShared groups only; nil: none
	keys    map[uint64]*busyKey // by hash; KeyShared groups only
	free    [slots]freeSlot     // KeyShared groups only
	changed bool                // the cursor's row must be written
}

// deadline is the due time of a batch, or of the failure at an offset.
type deadline struct {
	at        int64
	partition int
	batch     *batch
	offset    uint64
}

// compare orders deadlines independently of the order of insertion, because they are processed, and
// their results written, in this order.
func (d *deadline) compare(e *deadline) int {
	return cmp.Or(cmp.Compare(d.at, e.at), cmp.Compare(d.partition, e.partition), cmp.Compare(d.place(), e.place()),
		cmp.Compare(d.lsn(), e.lsn()))
}

func (d *deadline) place() uint64 {
	if d.batch != nil {
		return d.batch.first
	}
	return d.offset
}

func (d *deadline) lsn() uint64 {
	if d.batch != nil {
		return d.batch.lsn
	}
	return 0
}

type dueHeap []deadline

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].compare(&h[j]) < 0 }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(deadline)) }
func (h *dueHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = deadline{}
	*h = old[:len(old)-1]
	return last
}

func (g *group) expect(d deadline) { heap.Push(&g.due, d) }

// holds reports whether a deadline is still valid.
func (g *group) holds(d deadline) bool {
	if d.batch != nil {
		return len(d.batch.offsets) > 0 && d.batch.deadline == d.at
	}
	f := g.parts[d.partition].failed[d.offset]
	return f != nil && f.due == d.at
}

// nextDue drops obsolete deadlines and returns the next due time, 0 if none exists.
func (g *group) nextDue() int64 {
	for len(g.due) > 0 {
		if g.holds(g.due[0]) {
			return g.due[0].at
		}
		heap.Pop(&g.due)
	}
	return 0
}

// overdue reports whether an item is due and has not been processed.
func (g *group) overdue(now int64) bool {
	next := g.nextDue()
	return next != 0 && next <= now
}

// loadGroup returns the state of a group from memory or from its rows, nil if it does not exist.
func (m *machine) loadGroup(tx *engine.Tx, st *stream, name string) *group {
	at := groupName{st.streamName, name}
	if g, ok := m.groups.Get(at); ok && g.gen == st.gen {
		return g
	}
	b, ok := tx.Get(groupKey(nil, st.gen, name))
	if !ok {
		return nil
	}
	g := newGroup(at, st, must(decodeGroup(b)))
	g.again, g.heads = 0, slotSet{} // recounted below
	each(tx, groupPrefix(nil, rowCursor, g.gen, g.id), func(k, v []byte) {
		p := &g.parts[partitionIn(k)]
		p.groupCursor = must(decodeCursor(v))
		p.pending = 0 // recounted below
	})
	each(tx, groupPrefix(nil, rowMember, g.gen, g.id), func(k, v []byte) {
		mem := must(decodeMember(v))
		mem.pending = 0 // recounted below
		g.setMember(consumerIn(k), mem)
	})
	each(tx, groupPrefix(nil, rowBatch, g.gen, g.id), func(k, v []byte) { g.addBatch(must(decodeBatch(k, v))) })
	each(tx, groupPrefix(nil, rowFailure, g.gen, g.id), func(k, v []byte) {
		g.addFailure(partitionIn(k), must(decodeFailure(k, v)))
	})
	g.changed, g.counted = false, nil
	for p := range g.parts {
		g.parts[p].changed = false
	}
	m.groups.Load(at, g, g.weight())
	return g
}

// each calls f for all rows with a prefix.
func each(tx *engine.Tx, prefix []byte, f func(k, v []byte)) {
	it := tx.Iter(prefix, key.PrefixEnd(prefix))
	for ok := it.First(); ok; ok = it.Next() {
		f(it.Key(), it.Value())
	}
	if err := it.Close(); err != nil {
		panic(err)
	}
}

func newGroup(at groupName, st *stream, h groupHeader) *group {
	g := &group{groupName: at, groupHeader: h, gen: st.gen, parts: make([]groupPart, st.partitions), members: make(map[string]member)}
	for p := range g.parts {
		g.parts[p] = groupPart{groupCursor: groupCursor{next: 1}, number: p}
	}
	return g
}

// weight returns the group's share of maxRememberedGroups.
func (g *group) weight() int {
	n := 1 + len(g.members)/8 + len(g.parts)/4 + g.pending/4
	if g.mode == KeyShared {
		n += 16 * len(g.parts)
	}
	return n
}

// addBatch adds a batch.
func (g *group) addBatch(b *batch) {
	p := &g.parts[b.partition]
	if p.batches == nil {
		p.batches = make(map[uint64]*batch)
	}
	for i, o := range b.offsets {
		p.batches[o] = b
		if b.keys != nil {
			k := p.busy(b.keys[i])
			k.out = insert(k.out, o)
			g.recount(p, b.keys[i])
		}
	}
	g.count(p, b.consumer, len(b.offsets))
	g.expect(deadline{at: b.deadline, partition: b.partition, batch: b})
}

// count adds n to the pending records of a partition and of a consumer. A consumer "" stands for
// the records waiting for redelivery.
func (g *group) count(p *groupPart, consumer string, n int) {
	g.pending += n
	p.pending += uint64(n)
	p.changed = true
	if mem, known := g.members[consumer]; known {
		mem.pending += uint64(n)
		g.members[consumer] = mem
		g.countedAgain(consumer)
	}
}

// countedAgain notes that the row of a member must be written.
func (g *group) countedAgain(consumer string) {
	if g.counted == nil {
		g.counted = make(map[string]bool)
	}
	g.counted[consumer] = true
}

func (g *group) addFailure(partition int, f *failure) {
	p := &g.parts[partition]
	if p.failed == nil {
		p.failed = make(map[uint64]*failure)
	}
	p.failed[f.offset] = f
	if g.mode == KeyShared {
		k := p.busy(f.hash)
		k.failed = insert(k.failed, f.offset)
	}
	g.count(p, "", 1)
	if g.isAnnounced(partition, f) {
		g.announce(p, f)
	} else {
		g.expect(deadline{at: f.due, partition: partition, offset: f.offset})
		g.recount(p, f.hash)
	}
}

// isAnnounced reports whether a waiting record is ready for redelivery. It depends on rows alone,
// so reloaded memory gives the same result.
func (g *group) isAnnounced(partition int, f *failure) bool {
	return !f.spent && g.announced.covers(partition, f)
}

// announce marks a record as ready for redelivery.
func (g *group) announce(p *groupPart, f *failure) {
	if g.mode != KeyShared {
		p.again = insert(p.again, f.offset)
	}
	g.again++
	g.changed = true
	g.recount(p, f.hash)
}

// recount updates the head of a key after a change: its first record, if that is announced and no
// record of the key is with a consumer.
func (g *group) recount(p *groupPart, hash uint64) {
	k := p.keys[hash]
	if g.mode != KeyShared || k == nil {
		return
	}
	head := uint64(0)
	if len(k.out) == 0 && len(k.failed) > 0 {
		if f := p.failed[k.failed[0]]; f != nil && g.isAnnounced(p.number, f) {
			head = f.offset
		}
	}
	if head == k.head {
		return
	}
	if p.heads == nil {
		p.heads = make([][]uint64, slots)
	}
	slot := slotOf(hash)
	if k.head != 0 {
		p.heads[slot] = remove(p.heads[slot], k.head)
		g.countHeads(slot, -1)
	}
	if k.head = head; head != 0 {
		p.heads[slot] = insert(p.heads[slot], head)
		g.countHeads(slot, 1)
	}
}

// countHeads adds n to the number of heads in a slot.
func (g *group) countHeads(slot, n int) {
	if g.headsIn == nil {
		g.headsIn = make([]int, slots)
	}
	g.headsIn[slot] += n
	if in := g.headsIn[slot] > 0; in != g.heads.has(slot) {
		g.heads.set(slot, in)
		g.changed = true
	}
}

// forget drops the in-memory state of a partition. It keeps the rows and the deadlines.
func (g *group) forget(p int) {
	part := &g.parts[p]
	for _, b := range part.batches {
		g.count(part, b.consumer, -1)
	}
	for _, f := range part.failed {
		if g.isAnnounced(p, f) {
			g.again--
		}
		g.count(part, "", -1)
	}
	for slot, heads := range part.heads {
		if len(heads) > 0 {
			g.countHeads(slot, -len(heads))
		}
	}
	*part = groupPart{number: p}
	g.changed = true
}

// insert inserts an offset into a sorted slice.
func insert(offsets []uint64, o uint64) []uint64 {
	if n := len(offsets); n == 0 || offsets[n-1] < o {
		return append(offsets, o)
	}
	at, found := slices.BinarySearch(offsets, o)
	if found {
		return offsets
	}
	return slices.Insert(offsets, at, o)
}

// remove removes an offset from a sorted slice.
func remove(offsets []uint64, o uint64) []uint64 {
	at, found := slices.BinarySearch(offsets, o)
	switch {
	case !found:
		return offsets
	case at == 0:
		return offsets[1:] // the first offset is usually removed first, and the others need not move
	}
	return slices.Delete(offsets, at, at+1)
}

// release takes a record out of its batch; the caller decides what happens to it.
func (g *group) release(p *groupPart, b *batch, offset uint64) (hash uint64) {
	at, _ := slices.BinarySearch(b.offsets, offset)
	b.offsets = slices.Delete(b.offsets, at, at+1)
	if b.keys != nil {
		hash = b.keys[at]
		b.keys = slices.Delete(b.keys, at, at+1)
		k := p.keys[hash]
		k.out = remove(k.out, offset)
		g.recount(p, hash)
		p.dropIdle(hash)
	}
	delete(p.batches, offset)
	g.count(p, b.consumer, -1)
	g.touch(b)
	return hash
}

// touch marks the row of a batch to be written.
func (g *group) touch(b *batch) {
	if !b.dirty {
		b.dirty = true
		g.dirty = append(g.dirty, b)
	}
}

// unfail removes a record from those waiting for redelivery.
func (m *machine) unfail(tx *engine.Tx, g *group, partition int, f *failure) {
	p := &g.parts[partition]
	delete(p.failed, f.offset)
	if g.isAnnounced(partition, f) {
		g.again--
		g.changed = true
	}
	if g.mode == KeyShared {
		k := p.keys[f.hash]
		k.failed = remove(k.failed, f.offset)
		g.recount(p, f.hash)
		p.dropIdle(f.hash)
	}
	g.count(p, "", -1)
	tx.Delete(failureKey(nil, g.gen, g.id, partition, f.offset))
}

// flush writes the changed rows and sets the timer.
func (m *machine) flush(tx *engine.Tx, g *group) {
	for _, b := range g.dirty {
		b.dirty = false
		m.buf = b.key(m.buf[:0], g.gen, g.id)
		if len(b.offsets) == 0 {
			tx.Delete(m.buf)
			continue
		}
		m.row = b.encode(m.row[:0])
		tx.Set(m.buf, m.row)
	}
	clear(g.dirty)
	g.dirty = g.dirty[:0]
	for p := range g.parts {
		if part := &g.parts[p]; part.changed {
			part.changed = false
			m.buf, m.row = cursorKey(m.buf[:0], g.gen, g.id, p), part.groupCursor.encode(m.row[:0])
			tx.Set(m.buf, m.row)
		}
	}
	for _, consumer := range slices.Sorted(maps.Keys(g.counted)) {
		if mem, known := g.members[consumer]; known {
			tx.Set(memberKey(nil, g.gen, g.id, consumer), mem.encode(nil))
		}
	}
	clear(g.counted)
	m.schedule(tx, g)
	if ending := g.ending > 0; ending != g.recalling {
		g.recalling, g.changed = ending, true
	}
	if g.changed {
		g.changed = false
		m.buf, m.row = groupKey(m.buf[:0], g.gen, g.group), g.groupHeader.encode(m.row[:0])
		tx.Set(m.buf, m.row)
	}
	m.groups.Weigh(g.groupName, g.weight())
}

// groupToken is the token of a group's timer.
func groupToken(g *group) []byte { return groupTokenOf(g.gen, g.id, g.name, g.group) }

func groupTokenOf(gen, id uint64, stream, group string) []byte {
	token := key.AppendUint64(key.AppendUint64([]byte{tokenGroup}, gen), id)
	return append(key.AppendString(token, []byte(stream)), group...)
}

func parseGroupToken(token []byte) (gen, id uint64, stream, group string, ok bool) {
	if len(token) < 17 {
		return 0, 0, "", "", false
	}
	name, rest, ok := key.CutString(token[17:])
	return binary.BigEndian.Uint64(token[1:]), binary.BigEndian.Uint64(token[9:]), string(name), string(rest), ok
}
