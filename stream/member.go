package stream

import (
	"fmt"

	"github.com/floedb/floe/internal/engine"
)

// join notes that a consumer was seen.
func (m *machine) join(tx *engine.Tx, g *group, consumer string) error {
	mem, known := g.members[consumer]
	if !known && len(g.members) >= MaxMembers {
		return engine.Errorf(engine.ErrBusy, "stream %q: consumer group %q has %d members, the limit", g.name, g.group, MaxMembers)
	}
	if known && mem.attended {
		m.noteHeard(tx, g, consumer)
		return nil
	}
	if known && tx.Now() < mem.seen+max(g.ackTimeout/8, 1) {
		return nil
	}
	silent := known && mem.silent(&g.groupHeader, tx.Now())
	if !known {
		mem.joined = tx.Now()
	}
	mem.seen, mem.spared = tx.Now(), 0
	m.saveMember(tx, g, consumer, mem)
	if !known || silent {
		m.membersChanged(tx, g)
	}
	return nil
}

// heard notes that the consumers of a command's batches are present.
func (m *machine) heard(tx *engine.Tx, g *group, runs []refRun) {
	last := ""
	for _, run := range runs {
		b := g.with(run.Ref)
		if b == nil || b.consumer == last {
			continue
		}
		last = b.consumer
		if err := m.join(tx, g, last); err != nil {
			panic(fmt.Sprintf("stream: consumer group %q: %q has records but is not a member", g.group, last))
		}
	}
}

// silence is the time without contact after which others may take over from a member. The stored
// time of its last contact is behind by up to an eighth of the ack timeout.
func (g *groupHeader) silence() int64 { return g.ackTimeout + g.ackTimeout/8 }

// silentAt returns when others may take over from the member, if it is not seen before.
func (m member) silentAt(g *groupHeader) int64 { return max(m.seen+g.silence(), m.spared) }

// goneAt returns when the member leaves the group because of its silence.
func (m member) goneAt(g *groupHeader) int64 { return max(m.seen+3*g.ackTimeout, m.spared) }

// silent reports whether others may take over from the member.
func (m member) silent(g *groupHeader, now int64) bool { return !m.attended && now >= m.silentAt(g) }

// gone reports whether the member has left the group because of its silence.
func (m member) gone(g *groupHeader, now int64) bool { return !m.attended && now >= m.goneAt(g) }

// markMembersChanged records that the group's members, or the set of active ones, may have changed.
func (m *machine) markMembersChanged(tx *engine.Tx, g *group) {
	g.owners = owners{}
	g.membersChangedAt, g.changed = uint64(tx.LSN()), true
}

// membersChanged calls markMembersChanged and notifies waiting consumers that may have got work.
func (m *machine) membersChanged(tx *engine.Tx, g *group) {
	m.markMembersChanged(tx, g)
	switch group := groupTopic(tx.NamespaceName(), g.name, g.group); g.mode {
	case Shared:
	case Exclusive:
		tx.Notify(group, 1) // one standby consumer
	case KeyShared:
		tx.Notify(group, -1)
	}
}

// hold reports whether the consumer is the holder of an exclusive group. It makes the consumer the
// holder if none exists, or if the current one is silent.
func (m *machine) hold(tx *engine.Tx, st *stream, g *group, consumer string) bool {
	if g.mode != Exclusive || g.holder == consumer {
		return true
	}
	if holder, known := g.members[g.holder]; known && !holder.silent(&g.groupHeader, tx.Now()) {
		return false
	}
	m.supersede(tx, g)
	g.holder, g.changed = consumer, true
	g.epoch++
	m.tellHolder(tx, st, g)
	return true
}

// tellHolder makes the other shards of the stream take back the last holder's records.
func (m *machine) tellHolder(tx *engine.Tx, st *stream, g *group) {
	b := followBody{g.target(st), g.holder, g.epoch}
	m.tellAll(tx, st, func() engine.Command { return sent(tx, kindFollow, st.name, &b, (*followBody).code, groupRoom) })
}

// follow is hold in a shard other than the stream's home. The command's epoch shows that the
// consumer became the holder at home.
func (m *machine) follow(tx *engine.Tx, g *group, consumer string, epoch uint64) bool {
	if epoch == 0 || epoch < g.epoch {
		return false
	}
	if epoch > g.epoch && g.holder != consumer {
		m.supersede(tx, g)
	}
	if epoch > g.epoch || g.holder != consumer { // in this shard it may have been silent for too long
		g.epoch, g.holder, g.changed = epoch, consumer, true
	}
	return true
}
