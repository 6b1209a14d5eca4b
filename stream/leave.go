package stream

import (
	"cmp"
	"maps"
	"slices"

	"github.com/floedb/floe/internal/engine"
)

// ending is the state of a member whose records are being taken back. That may take several
// commands if there are many. Until it is done, no consumer receives records of the group, and the
// member can only acknowledge records.
type ending uint8

const (
	stays      ending = iota
	leaving           // it called Leave: its deliveries do not count, and it is removed afterwards
	expelled          // it has been silent for too long: its deliveries count, and it is removed afterwards
	superseded        // another consumer took over while it was silent: its deliveries count, and it stays a member
	numEndings
)

// reason returns why the member's records are taken back, "" if they are not.
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

// setMember stores the state of a member in memory.
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

// leave removes a member. Its records go to other members.
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

// expel removes the members that have been silent for too long, and lets others take over from
// silent ones.
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

// supersede takes back the records of an exclusive group's holder.
func (m *machine) supersede(tx *engine.Tx, g *group) {
	if mem, known := g.members[g.holder]; known && mem.end == stays {
		mem.end = superseded
		m.saveMember(tx, g, g.holder, mem)
	}
}

// recall makes the records of ending members ready for delivery again, until the command is Full.
// The group's timer continues from there.
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

// endAll completes the ending of members: superseded ones stay, the others are removed.
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

// batchesOf returns the matching batches in an order that depends only on their contents.
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
