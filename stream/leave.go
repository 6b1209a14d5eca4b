package stream

import (
	"cmp"
	"maps"
	"slices"

	"github.com/floedb/floe/internal/engine"
)

// ending says that what a member has is being taken back. That may take several commands, since
// there may be very much of it; until it is done nobody gets records of the group, and the member
// can do no more with its own than acknowledge what it has done.
type ending uint8

const (
	stays      ending = iota
	leaving           // it said that it leaves: its deliveries do not count, and then it is no member any more
	expelled          // it has been silent for too long: likewise, but they count
	superseded        // another consumer took over from it, which was silent: they count, and it stays a member
	numEndings
)

// reason says why what a member has is taken back, "" if it is not.
func (e ending) reason() string {
	switch e {
	case stays:
		return ""
	case superseded:
		return "another consumer took over"
	}
	return "consumer left"
}

// there reports whether the member has not left.
func (m member) there() bool { return m.end == stays || m.end == superseded }

// setMember notes a member as it is now.
func (g *group) setMember(name string, mem member) {
	g.forgetMember(name)
	g.members[name] = mem
	if mem.end != stays {
		g.ending++
		g.recalls = nil
	}
}

func (g *group) forgetMember(name string) {
	if g.members[name].end != stays {
		g.ending--
	}
	delete(g.members, name)
}

func (m *machine) saveMember(tx *engine.Tx, g *group, name string, mem member) {
	g.setMember(name, mem)
	tx.Set(memberKey(nil, g.gen, g.id, name), mem.encode(nil))
}

// leave lets a member go; what it has goes to others.
func (m *machine) leave(tx *engine.Tx, st *stream, g *group, consumer string) {
	mem, known := g.members[consumer]
	if !known || !mem.there() {
		return
	}
	if mem.end == superseded {
		mem.end = expelled
	} else {
		mem.end = leaving
	}
	m.letGo(tx, g, consumer, mem)
	m.recall(tx, st, g)
}

// letGo ends a membership.
func (m *machine) letGo(tx *engine.Tx, g *group, consumer string, mem member) {
	m.saveMember(tx, g, consumer, mem)
	if g.holder == consumer {
		g.holder, g.changed = "", true
	}
	m.membersChanged(tx, g)
}

// expel lets the members go that have left by their silence, and others take over from those who
// are silent.
func (m *machine) expel(tx *engine.Tx, g *group) {
	silent := false
	for _, name := range slices.Sorted(maps.Keys(g.members)) {
		mem := g.members[name]
		switch {
		case !mem.there():
		case mem.gone(&g.groupHeader, tx.Now()):
			mem.end = expelled
			m.letGo(tx, g, name, mem)
		default:
			silent = silent || mem.silent(&g.groupHeader, tx.Now())
		}
	}
	if silent {
		m.membersChanged(tx, g)
	}
}

// supersede takes what the holder of an exclusive group has from it.
func (m *machine) supersede(tx *engine.Tx, g *group) {
	if mem, known := g.members[g.holder]; known && mem.end == stays {
		mem.end = superseded
		m.saveMember(tx, g, g.holder, mem)
	}
}

// recall makes the records of members whose deliveries have ended ready for delivery again, until
// the command is Full. The group's timer continues from there.
func (m *machine) recall(tx *engine.Tx, st *stream, g *group) {
	if g.ending == 0 {
		return
	}
	if g.recalls == nil {
		g.recalls = g.batchesOf(func(b *batch) bool { return g.members[b.consumer].end != stays })
	}
	for len(g.recalls) > 0 {
		b := g.recalls[0]
		for len(b.offsets) > 0 {
			if tx.Full() {
				return
			}
			if end := g.members[b.consumer].end; end == leaving {
				m.returnDelivery(tx, g, b, b.offsets[0])
			} else {
				m.fail(tx, st, g, b, b.offsets[0], 0, end.reason())
			}
		}
		g.recalls = g.recalls[1:]
	}
	m.endAll(tx, g)
}

// endAll makes those who have nothing left what they are to be.
func (m *machine) endAll(tx *engine.Tx, g *group) {
	for _, name := range slices.Sorted(maps.Keys(g.members)) {
		mem := g.members[name]
		switch mem.end {
		case stays:
		case superseded:
			mem.end = stays
			m.saveMember(tx, g, name, mem)
		default:
			g.forgetMember(name)
			tx.Delete(memberKey(nil, g.gen, g.id, name))
		}
	}
	g.recalls = nil
	m.membersChanged(tx, g)
	m.ready(tx, g, -1)
}

// batchesOf returns some of the batches in an order that does not depend on anything but what they
// are.
func (g *group) batchesOf(of func(*batch) bool) (all []*batch) {
	for p := range g.parts {
		for o, b := range g.parts[p].batches {
			if b.offsets[0] == o && of(b) {
				all = append(all, b)
			}
		}
	}
	slices.SortFunc(all, func(a, b *batch) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.first, b.first), cmp.Compare(a.lsn, b.lsn))
	})
	return all
}
