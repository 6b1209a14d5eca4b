package stream

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// memory compares the machine's memory with the rows.
func (v *verifier) memory(m *machine) error {
	for at, st := range m.streams.All() {
		if err := v.compareStream(at, st); err != nil {
			return err
		}
	}
	for at, g := range m.groups.All() {
		if err := v.compareGroup(at, g); err != nil {
			return err
		}
	}
	return nil
}

// compareStream compares a stream in memory with its rows.
func (v *verifier) compareStream(at streamName, remembered *stream) error {
	problem := func(format string, args ...any) {
		v.Reportf("stream: namespace %s, stream %q: %s", v.name(at.ns), at.name, fmt.Sprintf(format, args...))
	}
	b, ok, err := v.Get(streamKey(nil, at.ns, at.name))
	if err != nil {
		return err
	}
	h, err := decodeHeader(b)
	if !ok || err != nil || h != remembered.header || remembered.streamName != at {
		problem("memory has %+v, its row %+v", remembered.header, h)
		return nil
	}
	st, err := v.readStream(at, h)
	if err != nil {
		return err
	}
	if !slices.Equal(st.subscriptions, remembered.subscriptions) {
		problem("memory has pushes %q, the rows %q", remembered.subscriptions, st.subscriptions)
	}
	if !slices.Equal(st.parts, remembered.parts) || st.newest != remembered.newest || st.turn != remembered.turn {
		problem("partitions in memory differ from the rows")
	}
	return nil
}

// readStream reads a stream's partitions and subscriptions from their rows.
func (v *verifier) readStream(at streamName, h header) (*stream, error) {
	st := newStream(at, h)
	for p := range st.parts {
		b, ok, err := v.Get(partKey(nil, h.gen, p))
		if err != nil {
			return nil, err
		}
		part, err := decodePartition(b)
		if ok && err == nil {
			st.setPartition(p, part)
		}
	}
	prefix := pushPrefix(nil, at.ns, at.name)
	return st, v.each(prefix, func(k, value []byte) {
		f, _ := decodePush(value) // a damaged one has been reported
		st.subscriptions = append(st.subscriptions, subscription{string(k[len(prefix):]), f.Group})
	})
}

// compareGroup compares a group in memory with its rows. A group without rows has been deleted with
// its stream, and will be forgotten.
func (v *verifier) compareGroup(at groupName, g *group) error {
	b, ok, err := v.Get(groupKey(nil, g.gen, g.group))
	if err != nil || !ok {
		return err
	}
	h, err := decodeGroup(b)
	if err != nil || h.id != g.id {
		return nil
	}
	if h != g.groupHeader {
		v.Reportf("stream: namespace %s, stream %q: consumer group %q: memory has %+v, its row %+v", v.name(at.ns), at.name, at.group,
			g.groupHeader, h)
	}
	a := groupMemory{v, g}
	for _, compare := range [...]func() error{a.comparePending, a.compareMembers, a.compareFreeKeys} {
		if err := compare(); err != nil {
			return err
		}
	}
	a.compareBusyKeys()
	return nil
}

// groupMemory is a group in memory that is compared with its rows.
type groupMemory struct {
	rows *verifier
	*group
}

func (a groupMemory) problem(format string, args ...any) {
	a.rows.Reportf("stream: consumer group %q: %s", a.group.group, fmt.Sprintf(format, args...))
}

// each calls f for the group's rows of a kind.
func (a groupMemory) each(kind byte, f func(k, value []byte)) error {
	return a.rows.each(groupPrefix(nil, kind, a.gen, a.id), f)
}

// comparePending compares the pending records.
func (a groupMemory) comparePending() error {
	remembered := a.describePending()
	if len(remembered) != a.pending {
		a.problem("counts %d pending records in memory, but has %d there", a.pending, len(remembered))
	}
	stored, err := a.describeStored()
	if err != nil || maps.Equal(remembered, stored) {
		return err
	}
	for _, ref := range slices.SortedFunc(maps.Keys(remembered), Ref.compare) {
		if stored[ref] != remembered[ref] {
			a.problem("offset %d of partition %d: memory has %q, the rows %q", ref.Offset, ref.Partition, remembered[ref], stored[ref])
		}
	}
	a.problem("memory has %d pending records, the rows %d", len(remembered), len(stored))
	return nil
}

func (a groupMemory) describePending() map[Ref]string {
	all := make(map[Ref]string)
	for p := range a.parts {
		for o, b := range a.parts[p].batches {
			all[Ref{Partition: p, Offset: o}] = b.describe()
		}
		for o, f := range a.parts[p].failed {
			all[Ref{Partition: p, Offset: o}] = f.describe()
		}
	}
	return all
}

// describeStored describes the pending records of the rows, without damaged ones.
func (a groupMemory) describeStored() (map[Ref]string, error) {
	all := make(map[Ref]string)
	err := a.each(rowBatch, func(k, value []byte) {
		b, err := decodeBatch(k, value)
		if err != nil {
			return
		}
		for _, o := range b.offsets {
			all[Ref{Partition: b.partition, Offset: o}] = b.describe()
		}
	})
	if err != nil {
		return nil, err
	}
	return all, a.each(rowFailure, func(k, value []byte) {
		if f, err := decodeFailure(k, value); err == nil {
			all[Ref{Partition: partitionIn(k), Offset: f.offset}] = f.describe()
		}
	})
}

func (b *batch) describe() string {
	return fmt.Sprint(b.consumer, " ", b.attempt, " ", b.excused, " ", b.delivered, " ", b.deadline, " ", b.first, " ", b.lsn)
}

func (f *failure) describe() string { return fmt.Sprintf("waits %+v", *f) }

func (a groupMemory) compareMembers() error {
	stored, ending := make(map[string]member), 0
	err := a.each(rowMember, func(k, value []byte) {
		mem, err := decodeMember(value)
		if err == nil {
			stored[consumerIn(k)] = mem
		}
		if mem.end != stays {
			ending++
		}
	})
	if err == nil && (!maps.Equal(a.members, stored) || a.ending != ending) {
		a.problem("memory has members %+v, %d of them ending, the rows %+v", a.members, a.ending, stored)
	}
	return err
}

// compareBusyKeys checks that each busy key has pending records, and only its own.
func (a groupMemory) compareBusyKeys() {
	for p := range a.parts {
		for hash, k := range a.parts[p].keys {
			if !a.parts[p].pendingOf(hash, k) {
				a.problem("in memory key %x of partition %d is busy with offsets %d and %d, which are not its pending records", hash, p,
					k.out, k.failed)
			}
		}
	}
}

// pendingOf reports whether the offsets of a busy key are those of pending records with the hash.
func (p *groupPart) pendingOf(hash uint64, k *busyKey) bool {
	for _, o := range k.out {
		b := p.batches[o]
		if b == nil {
			return false
		}
		if at, found := slices.BinarySearch(b.offsets, o); !found || b.keys[at] != hash {
			return false
		}
	}
	for _, o := range k.failed {
		if f := p.failed[o]; f == nil || f.hash != hash {
			return false
		}
	}
	return len(k.out)+len(k.failed) > 0
}

// compareFreeKeys checks that the bounds for scans of free keys exclude no free key.
func (a groupMemory) compareFreeKeys() error {
	return a.each(rowFree, func(k, _ []byte) {
		if len(k) != behindPart+9 || partitionIn(k) >= len(a.parts) {
			return // reported by the check of the rows
		}
		p, slot, offset := partitionIn(k), int(k[behindPart]), binary.BigEndian.Uint64(k[behindPart+1:])
		if s := a.parts[p].free[slot]; s.empty || offset < s.from {
			a.problem("memory has no free key in slot %d of partition %d before %d (empty: %v), the rows have %d", slot, p, s.from, s.empty,
				offset)
		}
	})
}
