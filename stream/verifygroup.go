package stream

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// groups checks the consumer groups of a stream.
func (s *streamAudit) groups() error {
	known := make(map[uint64]bool)
	prefix := genKey(nil, rowGroup, s.gen)
	err := s.Scan(prefix, key.PrefixEnd(prefix), func(k, value []byte) error {
		g := &groupAudit{streamAudit: s, name: string(k[len(prefix):])}
		var err error
		if g.groupHeader, err = decodeGroup(value); err == nil {
			err = engine.CheckName("consumer group", g.name)
		}
		if err != nil {
			g.problem("%v", err)
			return nil
		}
		if known[g.id] {
			g.problem("has the id of another group, %d", g.id)
		}
		known[g.id] = true
		return g.check()
	})
	if err != nil {
		return err
	}
	for _, kind := range groupKinds {
		prefix := genKey(nil, kind, s.gen)
		err := s.Scan(prefix, key.PrefixEnd(prefix), func(k, _ []byte) error {
			if len(k) < groupAt+8 || !known[binary.BigEndian.Uint64(k[groupAt:])] {
				s.problem("row %x is of no consumer group", k)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// groupAt is the position of the group's id in the keys of its rows.
const groupAt = partAt

// groupAudit is the state collected about a group: its pending records and the keys that are held.
type groupAudit struct {
	*streamAudit
	groupHeader
	name    string
	cursors []groupCursor
	members map[string]member
	ending  bool              // records of some members are being taken back
	under   map[Ref]uint64    // key hashes of pending records, by position
	busy    map[keyAt]bool    // keys with pending records
	held    []uint64          // records held, by partition
	due     int64             // earliest due time of the pending records that the timer still has to process, 0: none
	first   map[keyAt]keyed   // held records by key
	found   uint64            // announced records
	counts  []uint64          // pending records, by partition
	has     map[string]uint64 // pending records of members
	waits   map[keyAt]bool    // keys of waiting records: whether the first of them is announced
	out     map[keyAt]bool    // keys of records with consumers
}

// keyAt is the key hash of a partition.
type keyAt struct {
	partition int
	hash      uint64
}

// keyed is the held records found of a key.
type keyed struct {
	n, first uint64
	counted  bool // it has a row 'k' with their number
	free     bool // it has a row 'y'
}

func (g *groupAudit) problem(format string, args ...any) {
	g.streamAudit.problem("consumer group %q: %s", g.name, fmt.Sprintf(format, args...))
}

func (g *groupAudit) check() error {
	g.cursors, g.held = make([]groupCursor, g.partitions), make([]uint64, g.partitions)
	for p := range g.cursors {
		g.cursors[p] = groupCursor{next: 1}
	}
	g.members, g.under = make(map[string]member), make(map[Ref]uint64)
	g.busy, g.first = make(map[keyAt]bool), make(map[keyAt]keyed)
	g.waits, g.out = make(map[keyAt]bool), make(map[keyAt]bool)
	g.counts, g.has = make([]uint64, g.partitions), make(map[string]uint64)
	if last := uint64(g.Applied.LSN); g.groupHeader.id == 0 || g.groupHeader.id > last || g.membersChangedAt > last ||
		g.announced.at > g.Applied.Stamp {
		g.problem("was made at LSN %d, has other members since %d and announced what was due at %d; the shard's last LSN is %d, its "+
			"stamp %d",
			g.groupHeader.id, g.membersChangedAt, g.announced.at, last, g.Applied.Stamp)
	}
	for _, step := range []struct {
		kind byte
		row  func(k, value []byte) error
	}{
		{rowCursor, g.cursor}, {rowMember, g.member}, {rowBatch, g.batch}, {rowFailure, g.failure}, {rowHeld, g.heldRecord}, {rowKey,
			g.heldKey}, {rowFree, g.freeKey},
	} {
		prefix := groupPrefix(nil, step.kind, g.gen, g.groupHeader.id)
		err := g.Scan(prefix, key.PrefixEnd(prefix), func(k, value []byte) error {
			if step.kind != rowMember && (len(k) < behindPart || partitionIn(k) >= g.partitions) {
				g.problem("row %x is of none of the stream's %d partitions", k, g.partitions)
				return nil
			}
			if err := step.row(k, value); err != nil {
				g.problem("row %x: %v", k, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	g.keys()
	g.announcements()
	for p, c := range g.cursors {
		if c.pending != g.counts[p] {
			g.problem("counts %d records under way in partition %d, there are %d", c.pending, p, g.counts[p])
		}
	}
	for consumer, mem := range g.members {
		if mem.pending != g.has[consumer] {
			g.problem("counts %d records with %q, there are %d", mem.pending, consumer, g.has[consumer])
		}
	}
	return g.groupTimer()
}

func (g *groupAudit) cursor(k, value []byte) (err error) {
	p := partitionIn(k)
	if g.cursors[p], err = decodeCursor(value); err != nil {
		g.cursors[p] = groupCursor{next: 1}
		return err
	}
	if g.cursors[p].next > g.parts[p].last+1 {
		g.problem("has looked at the records of partition %d before offset %d, the last one is %d", p, g.cursors[p].next, g.parts[p].last)
	}
	return nil
}

func (g *groupAudit) member(k, value []byte) error {
	consumer := string(k[groupAt+8:])
	mem, err := decodeMember(value)
	if err == nil {
		err = engine.CheckName("consumer", consumer)
	}
	if err == nil && (mem.joined > mem.seen || mem.seen > g.Applied.Stamp) {
		g.problem("member %q joined at %d and was seen at %d; all there is ends at %d", consumer, mem.joined, mem.seen, g.Applied.Stamp)
	}
	g.members[consumer] = mem
	g.ending = g.ending || mem.end != stays
	return err
}

// goesOn adds a pending record. due is 0 if it does not depend on the timer.
func (g *groupAudit) goesOn(p int, offset, hash uint64, due int64) {
	ref := Ref{Partition: p, Offset: offset}
	if _, twice := g.under[ref]; twice {
		g.problem("has offset %d of partition %d under way twice", offset, p)
	}
	if offset == 0 || offset >= g.cursors[p].next {
		g.problem("has offset %d of partition %d under way, and has looked at what is before %d", offset, p, g.cursors[p].next)
	}
	g.under[ref] = hash
	g.counts[p]++
	if g.mode == KeyShared {
		g.busy[keyAt{p, hash}] = true
	}
	if due != 0 && (g.due == 0 || due < g.due) {
		g.due = due
	}
}

func (g *groupAudit) batch(k, value []byte) error {
	b, err := decodeBatch(k, value)
	if err != nil {
		return err
	}
	mem, known := g.members[b.consumer]
	g.has[b.consumer] += uint64(len(b.offsets))
	if !known {
		g.problem("%q has %d records and is no member", b.consumer, len(b.offsets))
	}
	if g.mode == Exclusive && mem.end == stays && g.holder != b.consumer {
		g.problem("%q has %d records, which are for %q alone", b.consumer, len(b.offsets), g.holder)
	}
	if b.attempt == 0 || b.lsn > uint64(g.Applied.LSN) || b.delivered > g.Applied.Stamp || (b.keys != nil) != (g.mode == KeyShared) {
		g.problem("a delivery makes no sense: %+v", *b)
	}
	if last := b.offsets[len(b.offsets)-1]; b.offsets[0] < b.first || last-b.first >= batchSpan || !slices.IsSorted(b.offsets) {
		g.problem("a delivery from %d on has records from %d to %d", b.first, b.offsets[0], last)
	}
	for i, o := range b.offsets {
		hash := uint64(0)
		if b.keys != nil {
			hash = b.keys[i]
			g.out[keyAt{b.partition, hash}] = true
		}
		g.goesOn(b.partition, o, hash, b.deadline)
	}
	return nil
}

func (g *groupAudit) failure(k, value []byte) error {
	f, err := decodeFailure(k, value)
	if err != nil {
		return err
	}
	if f.attempts == 0 || f.delivered > g.Applied.Stamp {
		g.problem("a failure makes no sense: %+v", *f)
	}
	p, due := partitionIn(k), f.due
	announced := !f.spent && g.announced.covers(p, f)
	if announced {
		g.found++
		due = 0
	}
	if g.mode == KeyShared {
		// Rows come in the order of offsets: the first row of a key is its first waiting record.
		at := keyAt{p, f.hash}
		if _, had := g.waits[at]; !had {
			g.waits[at] = announced
		}
	}
	g.goesOn(p, f.offset, f.hash, due)
	return nil
}

func (g *groupAudit) heldRecord(k, _ []byte) error {
	if len(k) != behindPart+16 || g.mode != KeyShared {
		return fmt.Errorf("a record that is held")
	}
	p, hash, offset := partitionIn(k), binary.BigEndian.Uint64(k[behindPart:]), binary.BigEndian.Uint64(k[behindPart+8:])
	if _, under := g.under[Ref{Partition: p, Offset: offset}]; under || offset >= g.cursors[p].next {
		g.problem("holds offset %d of partition %d, which is under way or was not looked at", offset, p)
	}
	g.held[p]++
	at := keyAt{p, hash}
	of := g.first[at]
	if of.n++; of.n == 1 {
		of.first = offset
	}
	g.first[at] = of
	return nil
}

func (g *groupAudit) heldKey(k, value []byte) error {
	h, err := decodeHeldCount(value)
	if err != nil || len(k) != behindPart+8 {
		return fmt.Errorf("a key that is held: %w", err)
	}
	at := keyAt{partitionIn(k), binary.BigEndian.Uint64(k[behindPart:])}
	of, ok := g.first[at]
	if of.n != h.n || of.first != h.first || h.n == 0 {
		g.problem("says that it holds %d records of key %x of partition %d from offset %d, and holds %d from %d", h.n, at.hash,
			at.partition, h.first, of.n, of.first)
	}
	if ok {
		of.counted = true
		g.first[at] = of
	}
	return nil
}

func (g *groupAudit) freeKey(k, value []byte) error {
	if len(k) != behindPart+9 || len(value) != 8 {
		return fmt.Errorf("a key that is free")
	}
	at := keyAt{partitionIn(k), binary.BigEndian.Uint64(value)}
	of, ok := g.first[at]
	if !ok || of.free || int(k[behindPart]) != slotOf(at.hash) || of.first != binary.BigEndian.Uint64(k[behindPart+1:]) {
		g.problem("row %x does not name the first held record of a key once", k)
	}
	of.free = true
	g.first[at] = of
	return nil
}

// keys checks the counts of held keys, and that they are free unless they have pending records.
func (g *groupAudit) keys() {
	for at, of := range g.first {
		if !of.counted {
			g.problem("key %x of partition %d is held, and no row counts its records", at.hash, at.partition)
		}
		if of.free == g.busy[at] {
			g.problem("key %x of partition %d is held, free: %v, under way: %v", at.hash, at.partition, of.free, g.busy[at])
		}
	}
	for p, n := range g.held {
		if g.cursors[p].held != n {
			g.problem("says that it holds %d records of partition %d, and holds %d", g.cursors[p].held, p, n)
		}
	}
}

// announcements checks what the group's row says of waiting records and of members: look relies on
// it.
func (g *groupAudit) announcements() {
	heads := slotSet{}
	for at, announced := range g.waits {
		if announced && !g.out[at] {
			heads.set(slotOf(at.hash), true)
		}
	}
	if g.again != g.found || g.heads != heads || g.recalling != g.ending {
		g.problem("says that %d records are ready again, in slots %x, and that some are taken back: %v; it is %d, %x, %v",
			g.again, g.heads, g.recalling, g.found, heads, g.ending)
	}
}

// waitsFor reports whether the group has members that need the timer.
func (g *groupAudit) waitsFor() bool {
	for _, mem := range g.members {
		if !mem.attended || !mem.there() {
			return true
		}
	}
	return false
}

// groupTimer checks that the timer is set for pending records.
func (g *groupAudit) groupTimer() error {
	timer := g.groupHeader.timer
	if timer == 0 {
		if g.due != 0 || g.waitsFor() {
			g.problem("has %d members and %d records under way, and no timer is set", len(g.members), len(g.under))
		}
		return nil
	}
	if g.ending && timer > g.Applied.Stamp {
		g.problem("has records to take back, and its timer is set at %d", timer)
	}
	if g.due != 0 && timer > max(g.due, g.Applied.Stamp) {
		// Items due when a command checked have been processed by then.
		g.problem("has something due at %d, and its timer is set at %d", g.due, timer)
	}
	set, err := g.HasTimer(timer, g.ns, groupTokenOf(g.gen, g.groupHeader.id, g.streamAudit.name, g.name))
	if err == nil && !set {
		g.problem("has no timer at %d", timer)
	}
	return err
}

// groupTimers checks a timer of a group. A timer of a deleted stream or group may be left.
func (v *verifier) groupTimers(due int64, ns uint32, token []byte) error {
	gen, id, name, group, ok := parseGroupToken(token)
	if !ok {
		v.Reportf("stream: namespace %s: timer with token %q, which means nothing", v.name(ns), token)
		return nil
	}
	b, there, err := v.Get(groupKey(nil, gen, group))
	if err != nil || !there {
		return err
	}
	if g, err := decodeGroup(b); err == nil && g.id == id && g.timer != due {
		v.Reportf("stream: namespace %s, stream %q: consumer group %q has a timer at %d that it does not know", v.name(ns), name, group,
			due)
	}
	return nil
}

// groupMemory compares the machine's memory of groups with the rows.
func (v *verifier) groupMemory(m *machine) error {
	for at, g := range m.groups.All() {
		b, ok, err := v.Get(groupKey(nil, g.gen, g.group))
		if err != nil {
			return err
		}
		if !ok {
			if _, there, err := v.Get(streamKey(nil, at.ns, at.name)); err != nil || !there {
				return err // it was deleted with its stream, and will be forgotten
			}
			continue
		}
		h, err := decodeGroup(b)
		if err != nil || h.id != g.id {
			continue // likewise
		}
		if h != g.groupHeader {
			v.Reportf("stream: namespace %s, stream %q: of consumer group %q memory has %+v, its row %+v", v.name(at.ns), at.name, at.group,
				g.groupHeader, h)
		}
		if err := v.compareGroup(g); err != nil {
			return err
		}
	}
	return nil
}

// compareGroup compares the pending records of a group in memory with its rows.
func (v *verifier) compareGroup(g *group) error {
	remembered := make(map[string]string)
	for p := range g.parts {
		part := &g.parts[p]
		for o, b := range part.batches {
			remembered[fmt.Sprint(p, " ", o)] = describeBatch(b)
		}
		for o, f := range part.failed {
			remembered[fmt.Sprint(p, " ", o)] = fmt.Sprintf("waits %+v", *f)
		}
	}
	if len(remembered) != g.pending {
		v.Reportf("stream: consumer group %q counts %d records under way in memory, and has %d there", g.group, g.pending, len(remembered))
	}
	stored := make(map[string]string)
	prefix := groupPrefix(nil, rowBatch, g.gen, g.id)
	err := v.Scan(prefix, key.PrefixEnd(prefix), func(k, value []byte) error {
		b, err := decodeBatch(k, value)
		if err == nil {
			for _, o := range b.offsets {
				stored[fmt.Sprint(b.partition, " ", o)] = describeBatch(b)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	prefix = groupPrefix(nil, rowFailure, g.gen, g.id)
	err = v.Scan(prefix, key.PrefixEnd(prefix), func(k, value []byte) error {
		if f, err := decodeFailure(k, value); err == nil {
			stored[fmt.Sprint(partitionIn(k), " ", f.offset)] = fmt.Sprintf("waits %+v", *f)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !maps.Equal(remembered, stored) {
		for _, at := range slices.Sorted(maps.Keys(remembered)) {
			if stored[at] != remembered[at] {
				v.Reportf("stream: consumer group %q: of %s memory has %q, the rows %q", g.group, at, remembered[at], stored[at])
			}
		}
		v.Reportf("stream: consumer group %q: memory has %d records under way, the rows %d", g.group, len(remembered), len(stored))
	}
	if err := v.compareMembers(g); err != nil {
		return err
	}
	return v.compareKeys(g)
}

func describeBatch(b *batch) string {
	return fmt.Sprint(b.consumer, " ", b.attempt, " ", b.excused, " ", b.delivered, " ", b.deadline, " ", b.first, " ", b.lsn)
}

func (v *verifier) compareMembers(g *group) error {
	stored, ending := make(map[string]member), 0
	prefix := groupPrefix(nil, rowMember, g.gen, g.id)
	err := v.Scan(prefix, key.PrefixEnd(prefix), func(k, value []byte) error {
		mem, err := decodeMember(value)
		if err == nil {
			stored[string(k[groupAt+8:])] = mem
		}
		if mem.end != stays {
			ending++
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !maps.Equal(g.members, stored) || g.ending != ending {
		v.Reportf("stream: consumer group %q: of members memory has %+v, %d of them ending, the rows %+v", g.group, g.members, g.ending,
			stored)
	}
	return nil
}

// compareKeys checks that the busy and free keys in memory are exactly those that follow from the
// rows.
func (v *verifier) compareKeys(g *group) error {
	for p := range g.parts {
		part := &g.parts[p]
		for hash, k := range part.keys {
			if len(k.out)+len(k.failed) == 0 {
				v.Reportf("stream: consumer group %q: key %x of partition %d is busy in memory, with nothing under way", g.group, hash, p)
			}
			for _, o := range k.out {
				b := part.batches[o]
				if b != nil {
					if at, found := slices.BinarySearch(b.offsets, o); found && b.keys[at] == hash {
						continue
					}
				}
				v.Reportf("stream: consumer group %q: in memory offset %d of partition %d of key %x is with a consumer", g.group, o, p,
					hash)
			}
			for _, o := range k.failed {
				if f := part.failed[o]; f == nil || f.hash != hash {
					v.Reportf("stream: consumer group %q: in memory offset %d of partition %d of key %x waits", g.group, o, p, hash)
				}
			}
		}
	}
	prefix := groupPrefix(nil, rowFree, g.gen, g.id)
	return v.Scan(prefix, key.PrefixEnd(prefix), func(k, _ []byte) error {
		if len(k) != behindPart+9 || partitionIn(k) >= len(g.parts) {
			return nil // reported by the check of the rows
		}
		slot, offset := int(k[behindPart]), binary.BigEndian.Uint64(k[behindPart+1:])
		if s := g.parts[partitionIn(k)].free[slot]; s.empty || offset < s.from {
			v.Reportf("stream: consumer group %q: memory finds nothing free in slot %d of partition %d before %d (empty: %v), there is %d",
				g.group, slot, partitionIn(k), s.from, s.empty, offset)
		}
		return nil
	})
}
