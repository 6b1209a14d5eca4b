package stream

import (
	"fmt"

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
	m.saveMember(tx, g, consumer, mem)
	if !known || silent {
		m.membersChanged(tx, g)
	}
	return nil
}

// heard notes that the consumers of batches that a command is about are there.
func (m *machine) heard(tx *engine.Tx, g *group, c *groupCommand) {
	last := ""
	for _, run := range c.runs {
		b := g.with(run.Ref)
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

// hold reports whether the consumer is the one who gets records of an exclusive group, and makes it that if there is none or he is silent.
func (m *machine) hold(tx *engine.Tx, g *group, consumer string) bool {
	if g.mode != Exclusive || g.holder == consumer {
		return true
	}
	if holder, known := g.members[g.holder]; known && !holder.silent(g, tx.Now()) {
		return false
	}
	m.supersede(tx, g)
	g.holder, g.changed = consumer, true
	g.epoch++
	return true
}

// follow is hold for who has been made the holder in the stream's home, as the epoch of the command says, and now goes round the shards.
func (m *machine) follow(tx *engine.Tx, g *group, c *groupCommand) bool {
	if c.epoch == 0 || c.epoch < g.epoch {
		return false
	}
	if c.epoch > g.epoch && g.holder != c.consumer {
		m.supersede(tx, g)
	}
	if c.epoch > g.epoch || g.holder != c.consumer { // here it may have been silent for too long
		g.epoch, g.holder, g.changed = c.epoch, c.consumer, true
	}
	return true
}
