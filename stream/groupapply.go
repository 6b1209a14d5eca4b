package stream

import (
	"container/heap"
	"fmt"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/plant"
)

// tokenGroup is followed by gen, the group's id, and the names of stream and group.
const tokenGroup = 'g'

// maxExpire bounds how much of what is due one command does, as engine.Tx.Full does.
const maxExpire = 1000

// applyGroup carries out a command for a group of a stream that exists, but for one that makes the group.
func (m *machine) applyGroup(tx *engine.Tx, st *stream, cmd engine.Command, c *command) ([]byte, error) {
	gc := &c.group
	g, err := m.openGroup(tx, st, gc)
	if err == nil {
		err = st.refuseFed(cmd.Kind, gc.group)
	}
	if err != nil {
		return nil, err
	}
	switch cmd.Kind {
	case kindCreateGroup:
		if g != nil {
			return nil, engine.Errorf(ErrExists, "stream %q: consumer group %q already exists", c.name, gc.group)
		}
		if _, err = m.foundGroup(tx, st, gc.group, gc.config); err == nil {
			m.noteFed(tx, st, gc.group)
		}
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
	m.takeBack(tx, st, g)
	m.heard(tx, g, gc)
	result, err := m.applyMembers(tx, st, g, cmd.Kind, gc)
	m.expire(tx, st, g) // what was handed back for now is ready
	m.flush(tx, g)
	m.noteFed(tx, st, gc.group)
	return result, err
}

// applyMembers carries out the commands of consumers. It changes nothing when it returns an error, but what flush writes.
func (m *machine) applyMembers(tx *engine.Tx, st *stream, g *group, kind uint8, c *groupCommand) ([]byte, error) {
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
		out, err := m.claim(tx, st, g, c)
		if err != nil {
			return nil, err
		}
		if !out.more {
			m.asked(tx, g, c.consumer, false) // what it gets in other shards is not told here
		}
		return out.encode(), nil
	case kindFollow:
		m.follow(tx, g, c)
		m.takeBack(tx, st, g)
		return nil, nil
	case kindMiss:
		m.miss(tx, g, c)
		return nil, nil
	}
	panic(fmt.Sprintf("stream: unknown command kind %d", kind))
}

func groupNotFound(stream, group string) error {
	return engine.Errorf(ErrNotFound, "stream %q: consumer group %q not found", stream, group)
}

// openGroup returns the group a command is for, nil if there is none. If the command carries a spec, the group is made, or
// replaced, as it says, but in the stream's home, which knows best.
func (m *machine) openGroup(tx *engine.Tx, st *stream, c *groupCommand) (*group, error) {
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
	g = m.makeGroup(tx, st, c.group, c.spec.config, c.spec.id)
	m.noteFed(tx, st, c.group)
	return g, nil
}

// foundGroup makes a group in the home of its stream.
func (m *machine) foundGroup(tx *engine.Tx, st *stream, name string, config groupConfig) (*group, error) {
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
func (m *machine) makeGroup(tx *engine.Tx, st *stream, name string, config groupConfig, home uint64) *group {
	g := newGroup(groupName{st.streamName, name}, st, groupHeader{
		groupConfig: config, id: uint64(tx.LSN()), home: home, createdAt: tx.Now(), roster: uint64(tx.LSN()),
	})
	m.groups.Replace(tx, g.groupName, g, g.weight())
	m.touch(tx, st)
	if st.groups >= 0 {
		st.groups++
	}
	m.placeCursors(tx, st, g, config.start)
	g.changed = true
	m.flush(tx, g)
	tx.Notify(groupTopic(tx.NamespaceName(), st.name, name), -1)
	return g
}

// placeCursors sets the cursors of a group under which nothing is under way.
func (m *machine) placeCursors(tx *engine.Tx, st *stream, g *group, from start) {
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

// touchGroup has to be called before anything about the group changes.
func (m *machine) touchGroup(tx *engine.Tx, g *group) {
	m.groups.Change(tx, g.groupName, g, struct{}{})
}

// dropGroup removes a group from the shard.
func (m *machine) dropGroup(tx *engine.Tx, st *stream, g *group) {
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
	m.groups.Remove(tx, g.groupName)
	tx.Notify(groupTopic(tx.NamespaceName(), g.name, g.group), -1)
	tx.NotifyWithin(streamTopic(tx.NamespaceName(), g.name), -1, engine.Slots{})
}

// tellGroup sends a command about a group to the other shards that may have a part of its stream.
func (m *machine) tellGroup(tx *engine.Tx, st *stream, g *group, kind uint8) {
	m.tellAll(tx, st, func() engine.Op {
		return groupOp(kind, place{st.name, g.group, &st.spec, &groupSpec{g.home, g.groupConfig}}, nil, nil)
	})
}

// ready wakes those who may have up to n records (-1: any number) that have become ready for delivery otherwise than by being appended.
func (m *machine) ready(tx *engine.Tx, g *group, n int) {
	topic := groupTopic(tx.NamespaceName(), g.name, g.group)
	switch {
	case g.mode == Exclusive && g.holder != "":
		topic = consumerTopic(tx.NamespaceName(), g.name, g.group, g.holder)
	case g.mode == Exclusive:
		n = 1 // one of those who stand by takes over, and gets all
	case g.mode == KeyShared:
		n = -1
	}
	tx.Notify(topic, n)
}

// readyOne wakes somebody who may have a record that is to be delivered again; hash stands for its key.
func (m *machine) readyOne(tx *engine.Tx, g *group, hash uint64) {
	if g.mode == KeyShared {
		m.readyFor(tx, g, slotOf(hash), 1)
		return
	}
	m.ready(tx, g, 1)
}

// expire does what is due, in its order: takes back what was not acknowledged in time, and lets be delivered again what has waited. The group's timer does
// what is too much for one command.
func (m *machine) expire(tx *engine.Tx, st *stream, g *group) {
	ready, inSlot := 0, [slots]int{} // records that are ready now, and how many of those of a KeyShared group are in which slot
	for done := 0; (done < maxExpire || plant.On(plant.UnboundedExpire)) && len(g.due) > 0 && g.due[0].at <= tx.Now() && !tx.Full(); {
		d := g.due[0]
		if !g.holds(d) {
			heap.Pop(&g.due)
			continue
		}
		if d.batch != nil {
			m.fail(tx, st, g, d.batch, d.batch.offsets[0], -1, "ack timeout")
			done++
			continue
		}
		heap.Pop(&g.due)
		done++
		p := &g.parts[d.partition]
		f := p.failed[d.offset]
		if g.spent(f.attempts, f.excused) {
			m.buryWaiting(tx, st, g, d.partition, f)
			continue
		}
		g.announced = mark{d.at, d.partition, d.offset}
		g.announce(p, f)
		tx.Worked(1)
		ready++
		inSlot[slotOf(f.hash)]++
	}
	if ready == 0 {
		return
	}
	if g.mode != KeyShared {
		m.ready(tx, g, ready)
		return
	}
	for slot, n := range inSlot {
		if n > 0 {
			m.readyFor(tx, g, slot, n)
		}
	}
}

// seek moves the cursors; nothing is under way any more.
func (m *machine) seek(tx *engine.Tx, st *stream, g *group, to start) {
	for _, kind := range deliveryKinds {
		prefix := groupPrefix(nil, kind, g.gen, g.id)
		tx.DeleteRange(prefix, key.PrefixEnd(prefix))
	}
	for p := range g.parts {
		g.parts[p] = groupPart{number: p}
	}
	g.pending, g.dirty, g.recalls = 0, nil, nil
	for consumer, mem := range g.members {
		if mem.pending > 0 {
			mem.pending = 0
			g.members[consumer] = mem
			g.countedAgain(consumer)
		}
	}
	if !plant.On(plant.SeekKeepsDue) {
		g.due = nil
	}
	g.again, g.heads, g.headsIn, g.changed = 0, slotSet{}, nil, true
	m.placeCursors(tx, st, g, to)
	for p := range g.parts {
		g.parts[p].changed = true
	}
	m.ready(tx, g, -1)
}

// schedule sets the timer to when something is due next.
func (m *machine) schedule(tx *engine.Tx, g *group) {
	next := g.nextDue()
	if g.ending > 0 {
		next = tx.Now()
	}
	for _, mem := range g.members {
		if !mem.there() || mem.attended {
			continue
		}
		at := mem.seen + 3*g.ackTimeout
		if silent := mem.seen + g.silence(); g.mode != Shared && silent > tx.Now() {
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
	g.timer, g.changed = max(next, tx.Now()), true
	tx.Schedule(g.timer, groupToken(g))
}

func (m *machine) onGroup(tx *engine.Tx, token []byte) {
	gen, id, name, groupName, ok := parseGroupToken(token)
	if !ok {
		panic(fmt.Sprintf("stream: timer token %q", token))
	}
	st := m.load(tx, name)
	if st == nil || st.gen != gen {
		return
	}
	g := m.loadGroup(tx, st, groupName)
	if g == nil || g.id != id || g.timer == 0 {
		return
	}
	m.touchGroup(tx, g)
	g.timer, g.changed = 0, true
	m.expire(tx, st, g)
	m.expel(tx, g)
	m.takeBack(tx, st, g)
	m.expire(tx, st, g)
	m.flush(tx, g)
	m.noteFed(tx, st, g.group)
}

// groupTopic is woken when something of a group becomes ready, and when it is made or deleted.
func groupTopic(namespace, stream, group string) engine.Topic {
	return engine.TopicOf(engine.MachineStream, namespace, []byte(stream+"\x00"+group))
}

// consumerTopic is that of a consumer, where it matters who looks.
func consumerTopic(namespace, stream, group, consumer string) engine.Topic {
	return engine.TopicOf(engine.MachineStream, namespace, []byte(stream+"\x00"+group+"\x00"+consumer))
}
