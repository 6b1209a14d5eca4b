package stream

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// groups checks the consumer groups of a stream.
func (s *streamAudit) groups() error {
	ids := make(map[uint64]bool)
	prefix := genKey(nil, rowGroup, s.gen)
	err := s.Scan(prefix, key.PrefixEnd(prefix), func(k, value []byte) error {
		g := newGroupAudit(s, string(k[len(prefix):]))
		var err error
		if g.groupHeader, err = decodeGroup(value); err == nil {
			err = engine.CheckName("consumer group", g.name)
		}
		if err != nil {
			g.problem("%v", err)
			return nil
		}
		if ids[g.id] {
			g.problem("has the id of another group, %d", g.id)
		}
		ids[g.id] = true
		return g.check()
	})
	if err != nil {
		return err
	}
	return s.rowsOfNoGroup(ids)
}

// rowsOfNoGroup reports rows whose id belongs to no group.
func (s *streamAudit) rowsOfNoGroup(ids map[uint64]bool) error {
	for _, kind := range groupKinds {
		err := s.each(genKey(nil, kind, s.gen), func(k, _ []byte) {
			if len(k) < behindGroup || !ids[binary.BigEndian.Uint64(k[groupAt:])] {
				s.problem("row %x belongs to no consumer group", k)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// groupAudit is the state collected from the rows of a group.
type groupAudit struct {
	groupHeader
	stream  *streamAudit
	name    string
	parts   []groupPartAudit
	members map[string]member
	with    map[string]uint64 // number of pending records, by consumer
	pending map[Ref]bool
	ready   uint64 // announced records
	ending  bool   // records of some members are being taken back
	watched bool   // some members need the timer
	due     int64  // earliest due time of the pending records that the timer must still process, 0: none
}

// groupPartAudit is the state collected about a partition.
type groupPartAudit struct {
	cursor  groupCursor
	pending uint64
	held    uint64
	keys    map[uint64]*keyAudit // by hash; KeyShared groups only
}

// keyAudit is the state collected about a key with pending or held records.
type keyAudit struct {
	delivered bool // it has records with consumers
	waiting   bool // it has records that wait for redelivery
	ready     bool // the first of them is announced
	held      uint64
	first     uint64 // offset of the first held record
	counted   bool   // it has a row 'k'
	free      bool   // it has a row 'y'
}

func newGroupAudit(s *streamAudit, name string) *groupAudit {
	g := &groupAudit{
		stream: s, name: name, parts: make([]groupPartAudit, s.partitions),
		members: make(map[string]member), with: make(map[string]uint64), pending: make(map[Ref]bool),
	}
	for p := range g.parts {
		g.parts[p] = groupPartAudit{cursor: groupCursor{next: 1}, keys: make(map[uint64]*keyAudit)}
	}
	return g
}

func (g *groupAudit) problem(format string, args ...any) {
	g.stream.problem("consumer group %q: %s", g.name, fmt.Sprintf(format, args...))
}

// check checks the rows of the group. The order matters: cursors and members before pending
// records, these before held ones, and those before the rows about their keys.
func (g *groupAudit) check() error {
	g.checkHeader()
	for _, rows := range [...]struct {
		kind  byte
		check func(k, value []byte) error
	}{
		{rowCursor, g.cursorRow}, {rowMember, g.memberRow}, {rowBatch, g.batchRow}, {rowFailure, g.failureRow}, {rowHeld, g.heldRow},
		{rowKey, g.keyRow}, {rowFree, g.freeRow},
	} {
		if err := g.checkRows(rows.kind, rows.check); err != nil {
			return err
		}
	}
	g.checkCounts()
	g.checkKeys()
	g.checkAnnouncements()
	return g.checkTimer()
}

func (g *groupAudit) checkHeader() {
	last := g.stream.Applied
	if g.id == 0 || max(g.id, g.membersChangedAt) > uint64(last.LSN) || g.announced.at > last.Stamp {
		g.problem("was created at LSN %d, its members changed at LSN %d, and it announced records due at %d; "+
			"the shard's last LSN is %d, its stamp %d", g.id, g.membersChangedAt, g.announced.at, last.LSN, last.Stamp)
	}
}

// checkRows checks the rows of a kind.
func (g *groupAudit) checkRows(kind byte, check func(k, value []byte) error) error {
	return g.stream.each(groupPrefix(nil, kind, g.stream.gen, g.id), func(k, value []byte) {
		if kind != rowMember && (len(k) < behindPart || partitionIn(k) >= len(g.parts)) {
			g.problem("row %x belongs to none of the stream's %d partitions", k, len(g.parts))
			return
		}
		if err := check(k, value); err != nil {
			g.problem("row %x: %v", k, err)
		}
	})
}

func (g *groupAudit) cursorRow(k, value []byte) error {
	p := partitionIn(k)
	c, err := decodeCursor(value)
	if err != nil {
		return err
	}
	if g.parts[p].cursor = c; c.sought > uint64(g.stream.Applied.LSN) {
		g.problem("was sought in partition %d at LSN %d, after the last one", p, c.sought)
	}
	if last := g.stream.parts[p].last; c.next > last+1 {
		g.problem("has read partition %d before offset %d, but the last offset is %d", p, c.next, last)
	}
	return nil
}

func (g *groupAudit) memberRow(k, value []byte) error {
	consumer := consumerIn(k)
	mem, err := decodeMember(value)
	g.members[consumer] = mem
	g.ending = g.ending || mem.end != stays
	g.watched = g.watched || !mem.attended || !mem.there()
	if err != nil {
		return err
	}
	if stamp := g.stream.Applied.Stamp; mem.joined > mem.seen || mem.seen > stamp {
		g.problem("member %q joined at %d and was seen at %d; the shard's stamp is %d", consumer, mem.joined, mem.seen, stamp)
	}
	return engine.CheckName("consumer", consumer)
}

func (g *groupAudit) batchRow(k, value []byte) error {
	b, err := decodeBatch(k, value)
	if err != nil {
		return err
	}
	mem, known := g.members[b.consumer]
	if !known {
		g.problem("%q has %d records but is not a member", b.consumer, len(b.offsets))
	}
	g.with[b.consumer] += uint64(len(b.offsets))
	if g.mode == Exclusive && mem.end == stays && g.holder != b.consumer {
		g.problem("%q has %d records, but %q is the exclusive consumer", b.consumer, len(b.offsets), g.holder)
	}
	last := g.stream.Applied
	if b.attempt == 0 || b.lsn > uint64(last.LSN) || b.delivered > last.Stamp || (b.keys != nil) != (g.mode == KeyShared) {
		g.problem("invalid delivery: %+v", *b)
	}
	if end := b.offsets[len(b.offsets)-1]; b.offsets[0] < b.first || end-b.first >= batchSpan || !slices.IsSorted(b.offsets) {
		g.problem("a delivery that starts at %d has records from %d to %d", b.first, b.offsets[0], end)
	}
	for _, o := range b.offsets {
		g.addPending(b.partition, o, b.deadline)
	}
	for _, hash := range b.keys {
		g.key(b.partition, hash).delivered = true
	}
	return nil
}

func (g *groupAudit) failureRow(k, value []byte) error {
	f, err := decodeFailure(k, value)
	if err != nil {
		return err
	}
	if f.attempts == 0 || f.delivered > g.stream.Applied.Stamp {
		g.problem("invalid failure: %+v", *f)
	}
	p, due := partitionIn(k), f.due
	announced := !f.spent && g.announced.covers(p, f)
	if announced {
		g.ready++
		due = 0
	}
	g.addPending(p, f.offset, due)
	if g.mode == KeyShared {
		// Rows come in the order of offsets: the first row of a key is its first waiting record.
		if of := g.key(p, f.hash); !of.waiting {
			of.waiting, of.ready = true, announced
		}
	}
	return nil
}

// addPending adds a pending record. due is 0 if it does not depend on the timer.
func (g *groupAudit) addPending(p int, offset uint64, due int64) {
	ref, part := Ref{Partition: p, Offset: offset}, &g.parts[p]
	if g.pending[ref] {
		g.problem("offset %d of partition %d is pending twice", offset, p)
	}
	if offset == 0 || offset >= part.cursor.next {
		g.problem("offset %d of partition %d is pending, but only offsets before %d were read", offset, p, part.cursor.next)
	}
	g.pending[ref] = true
	part.pending++
	if due != 0 && (g.due == 0 || due < g.due) {
		g.due = due
	}
}

// key returns the state of a key.
func (g *groupAudit) key(p int, hash uint64) *keyAudit {
	keys := g.parts[p].keys
	if keys[hash] == nil {
		keys[hash] = new(keyAudit)
	}
	return keys[hash]
}

func (g *groupAudit) heldRow(k, _ []byte) error {
	if len(k) != behindPart+16 || g.mode != KeyShared {
		return fmt.Errorf("invalid row of a held record")
	}
	p, hash, offset := partitionIn(k), binary.BigEndian.Uint64(k[behindPart:]), binary.BigEndian.Uint64(k[behindPart+8:])
	if part := &g.parts[p]; g.pending[Ref{Partition: p, Offset: offset}] || offset >= part.cursor.next {
		g.problem("holds offset %d of partition %d, which is pending or was not read", offset, p)
	}
	g.parts[p].held++
	of := g.key(p, hash)
	if of.held++; of.held == 1 {
		of.first = offset
	}
	return nil
}

func (g *groupAudit) keyRow(k, value []byte) error {
	h, err := decodeHeldCount(value)
	if err != nil || len(k) != behindPart+8 {
		return fmt.Errorf("invalid row of a held key: %w", err)
	}
	p, hash := partitionIn(k), binary.BigEndian.Uint64(k[behindPart:])
	of := g.key(p, hash)
	if h != (heldKeyCount{of.held, of.first}) || h.n == 0 {
		g.problem("counts %d held records of key %x of partition %d from offset %d, found %d from %d", h.n, hash, p, h.first,
			of.held, of.first)
	}
	of.counted = true
	return nil
}

func (g *groupAudit) freeRow(k, value []byte) error {
	if len(k) != behindPart+9 || len(value) != 8 {
		return fmt.Errorf("invalid row of a free key")
	}
	hash := binary.BigEndian.Uint64(value)
	of := g.key(partitionIn(k), hash)
	if of.held == 0 || of.free || int(k[behindPart]) != slotOf(hash) || of.first != binary.BigEndian.Uint64(k[behindPart+1:]) {
		g.problem("row %x does not name the first held record of a key exactly once", k)
	}
	of.free = true
	return nil
}

// checkCounts checks the record counts in the rows of partitions and members.
func (g *groupAudit) checkCounts() {
	for p := range g.parts {
		part := &g.parts[p]
		if part.cursor.pending != part.pending {
			g.problem("counts %d pending records in partition %d, found %d", part.cursor.pending, p, part.pending)
		}
		if part.cursor.held != part.held {
			g.problem("counts %d held records of partition %d, found %d", part.cursor.held, p, part.held)
		}
	}
	for consumer, mem := range g.members {
		if n := g.with[consumer]; mem.pending != n {
			g.problem("counts %d records of %q, found %d", mem.pending, consumer, n)
		}
	}
}

// checkKeys checks that held keys are counted, and that they are free unless they have pending
// records.
func (g *groupAudit) checkKeys() {
	for p := range g.parts {
		for hash, of := range g.parts[p].keys {
			if of.held == 0 && !of.free {
				continue
			}
			if !of.counted {
				g.problem("key %x of partition %d is held, but no row counts its records", hash, p)
			}
			if busy := of.delivered || of.waiting; of.free == busy {
				g.problem("key %x of partition %d is held, free: %v, pending: %v", hash, p, of.free, busy)
			}
		}
	}
}

// checkAnnouncements checks the fields of the group's row about waiting records and members,
// because look relies on them.
func (g *groupAudit) checkAnnouncements() {
	heads := slotSet{}
	for p := range g.parts {
		for hash, of := range g.parts[p].keys {
			if of.ready && !of.delivered {
				heads.set(slotOf(hash), true)
			}
		}
	}
	if g.again != g.ready || g.heads != heads || g.recalling != g.ending {
		g.problem("counts %d records ready for redelivery in slots %x, recalling %v; found %d, %x, %v",
			g.again, g.heads, g.recalling, g.ready, heads, g.ending)
	}
}

// checkTimer checks that the timer is set for pending records.
func (g *groupAudit) checkTimer() error {
	if g.timer == 0 {
		if g.due != 0 || g.watched {
			g.problem("has %d members and %d pending records, but no timer", len(g.members), len(g.pending))
		}
		return nil
	}
	stamp := g.stream.Applied.Stamp
	if g.ending && g.timer > stamp {
		g.problem("has records to recall, but its timer is set at %d", g.timer)
	}
	if g.due != 0 && g.timer > max(g.due, stamp) {
		// A command has already processed the items that were due when it ran.
		g.problem("has records due at %d, but its timer is set at %d", g.due, g.timer)
	}
	set, err := g.stream.HasTimer(g.timer, g.stream.ns, groupTokenOf(g.stream.gen, g.id, g.stream.name, g.name))
	if err == nil && !set {
		g.problem("has no timer at %d", g.timer)
	}
	return err
}

// groupTimer checks a timer of a group. A timer of a deleted stream or group may be left.
func (v *verifier) groupTimer(due int64, ns uint32, token []byte) error {
	gen, id, name, group, ok := parseGroupToken(token)
	if !ok {
		v.Reportf("stream: namespace %s: timer with unknown token %q", v.name(ns), token)
		return nil
	}
	b, there, err := v.Get(groupKey(nil, gen, group))
	if err != nil || !there {
		return err
	}
	if g, err := decodeGroup(b); err == nil && g.id == id && g.timer != due {
		v.Reportf("stream: namespace %s, stream %q: consumer group %q has a timer at %d that is not in its row", v.name(ns), name, group,
			due)
	}
	return nil
}
