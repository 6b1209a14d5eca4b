package stream

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/floedb/floe/internal/engine"
)

// join notes that a consumer has been heard of.
func (m *machine) join(tx *engine.Tx, g *group, consumer string) error {
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

// heard notes that the consumers of batches that a command is about are there.
func (m *machine) heard(tx *engine.Tx, g *group, c *groupCommand) {
	last := ""
	for _, run := range c.runs {
		b, _ := g.pendingAt(run.Ref)
		if b == nil || b.consumer == last {
			continue
		}
		last = b.consumer
		if err := m.join(tx, g, last); err != nil {
			panic(fmt.Sprintf("stream: consumer group %q: %q has records and is no member", g.group, last))
		}
	}
}

// silent reports whether others may take over from the member. What is stored of when it was heard of is behind by an eighth.
func (m member) silent(g *group, now int64) bool {
	return now >= m.seen+g.ackTimeout+g.ackTimeout/8
}

// gone reports whether the member has left the group by its silence.
func (m member) gone(g *group, now int64) bool { return now >= m.seen+3*g.ackTimeout }

// membersChanged makes those who wait look whether they have got something to do.
func (m *machine) membersChanged(tx *engine.Tx, g *group) {
	g.owners = owners{}
	if g.mode != Shared {
		m.ready(tx, g, -1)
	}
}

// leave removes a member; what it has goes to others at once.
func (m *machine) leave(tx *engine.Tx, st *stream, g *group, consumer string) {
	if _, known := g.members[consumer]; known {
		m.remove(tx, st, g, consumer)
	}
}

func (m *machine) remove(tx *engine.Tx, st *stream, g *group, consumer string) {
	m.dropMember(tx, g, consumer)
	m.giveBack(tx, st, g, "consumer left", func(b *batch) bool { return b.consumer == consumer })
	m.membersChanged(tx, g)
	m.saveGroup(tx, g)
}

func (m *machine) dropMember(tx *engine.Tx, g *group, consumer string) {
	delete(g.members, consumer)
	tx.Delete(memberKey(nil, g.gen, g.id, consumer))
	if g.holder == consumer {
		g.holder = ""
	}
}

// giveBack makes what is in some of the batches ready for delivery again at once.
func (m *machine) giveBack(tx *engine.Tx, st *stream, g *group, reason string, of func(*batch) bool) {
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
func (m *machine) hold(tx *engine.Tx, st *stream, g *group, consumer string) bool {
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

// follow is hold for a shard that is not the stream's home, where the holder is chosen.
func (m *machine) follow(tx *engine.Tx, st *stream, g *group, c *groupCommand) bool {
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

// expel removes the members that have left by their silence, and lets others take over from those who are silent.
func (m *machine) expel(tx *engine.Tx, st *stream, g *group) {
	changed, gone := false, make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(g.members)) {
		mem := g.members[name]
		if mem.gone(g, tx.Now()) {
			m.dropMember(tx, g, name)
			gone[name] = true
		}
		changed = changed || mem.silent(g, tx.Now())
	}
	if len(gone) > 0 {
		m.giveBack(tx, st, g, "consumer left", func(b *batch) bool { return gone[b.consumer] })
	}
	if changed {
		m.membersChanged(tx, g)
	}
}
