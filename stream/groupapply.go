package stream

import (
	"container/heap"
	"fmt"
	"maps"
	"slices"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// tokenGroup is followed by gen, the group's id, and the names of stream and group.
const tokenGroup = 'g'

// maxExpire limits the number of due items that one command processes, in addition to
// engine.Tx.Full.
const maxExpire = 1000

func groupNotFound(stream, group string) error {
	return engine.Errorf(ErrNotFound, "stream %q: consumer group %q not found", stream, group)
}

// deleteGroup removes a group in the home of its stream, which notifies the other shards.
func (m *machine) deleteGroup(tx *engine.Tx, st *stream, g *group) {
	m.touchGroup(tx, g)
	b := dropGroupBody{g.target(st), uint64(tx.LSN())}
	m.tellAll(tx, st, func() engine.Command { return sent(tx, kindDropGroup, st.name, &b, (*dropGroupBody).code, groupRoom) })
	m.dropGroup(tx, st, g)
}

// configureGroup changes the settings of a group. Deadlines of pending records and redelivery times
// do not change.
func (m *machine) configureGroup(tx *engine.Tx, g *group, to groupConfig, version uint64) {
	to.mode, to.start = g.mode, g.start
	if to.ackTimeout < g.ackTimeout {
		m.spare(tx, g)
	}
	g.groupConfig, g.version, g.changed = to, version, true
	m.adaptAttendance(tx, g)
	m.membersChanged(tx, g)
}

// spare lets members keep the deadline from the old ack timeout until they are next seen: busy
// consumers rely on it. Repeated changes of settings do not extend that deadline.
func (m *machine) spare(tx *engine.Tx, g *group) {
	for _, consumer := range slices.Sorted(maps.Keys(g.members)) {
		if mem := g.members[consumer]; mem.there() && !mem.attended {
			mem.spared = mem.silentAt(&g.groupHeader)
			m.saveMember(tx, g, consumer, mem)
		}
	}
}

// foundGroup creates a group in the home of its stream.
func (m *machine) foundGroup(tx *engine.Tx, st *stream, name string, config groupConfig) (*group, error) {
	if st.groups < 0 {
		st.groups = 0
		each(tx, genKey(nil, rowGroup, st.gen), func(_, _ []byte) { st.groups++ })
	}
	if st.groups >= MaxGroups {
		return nil, engine.Errorf(engine.ErrBusy, "stream %q has %d consumer groups, the limit", st.name, MaxGroups)
	}
	g := m.makeGroup(tx, st, name, &groupSpec{uint64(tx.LSN()), 1, config})
	m.tellGroup(tx, st, g)
	return g, nil
}

// makeGroup adds a group to the shard.
func (m *machine) makeGroup(tx *engine.Tx, st *stream, name string, sp *groupSpec) *group {
	g := newGroup(groupName{st.streamName, name}, st, groupHeader{
		groupConfig: sp.config, id: uint64(tx.LSN()), home: sp.id, version: sp.version, createdAt: tx.Now(),
		membersChangedAt: uint64(tx.LSN()),
	})
	m.groups.Replace(tx, g.groupName, g, g.weight())
	m.touch(tx, st)
	if st.groups >= 0 {
		st.groups++
	}
	for p := range g.parts {
		m.placeCursor(tx, st, g, p, sp.config.start)
	}
	g.changed = true
	m.flush(tx, g)
	tx.Notify(groupTopic(tx.NamespaceName(), st.name, name), -1)
	return g
}

// placeCursor sets the cursor of a partition without pending records.
func (m *machine) placeCursor(tx *engine.Tx, st *stream, g *group, p int, from start) {
	next := must(from.offset(getterOf(tx), st.gen, p, &st.parts[p]))
	if g.parts[p].groupCursor = (groupCursor{next: next}); next > 1 {
		g.parts[p].changed = true
	}
}

// offset returns the offset at which a group begins in a partition.
func (s start) offset(get getter, gen uint64, p int, part *partition) (uint64, error) {
	switch s.kind {
	case startEnd:
		return part.last + 1, nil
	case startAt:
		return offsetOf(get, gen, p, part.first, part.last, s.id)
	}
	return part.first, nil
}

// touchGroup must be called before any change of the group.
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

// tellGroup sends the group's record to the other shards that may have a part of its stream.
func (m *machine) tellGroup(tx *engine.Tx, st *stream, g *group) {
	b := g.target(st)
	m.tellAll(tx, st, func() engine.Command { return sent(tx, kindAdoptGroup, st.name, &b, (*groupTarget).code, groupRoom) })
}

// groupRoom is enough for most bodies about a group.
const groupRoom = 128

// target returns the data about the group that other shards need.
func (g *group) target(st *stream) groupTarget {
	return groupTarget{target{&st.spec}, g.group, g.toSpec()}
}

// ready notifies the consumers that may receive up to n records (-1: any number). The records
// became ready otherwise than by an append.
func (m *machine) ready(tx *engine.Tx, g *group, n int) {
	topic := groupTopic(tx.NamespaceName(), g.name, g.group)
	switch {
	case g.mode == Exclusive && g.holder != "":
		topic = consumerTopic(tx.NamespaceName(), g.name, g.group, g.holder)
	case g.mode == Exclusive:
		n = 1 // one standby consumer takes over, and gets all records
	case g.mode == KeyShared:
		n = -1
	}
	tx.Notify(topic, n)
}

// readyOne notifies a consumer that may receive a record that is due for redelivery; hash is the
// hash of its key.
func (m *machine) readyOne(tx *engine.Tx, g *group, hash uint64) {
	if g.mode == KeyShared {
		m.readyFor(tx, g, slotOf(hash), 1)
		return
	}
	m.ready(tx, g, 1)
}

// expire processes due items in order: it takes back records that were not acknowledged in time,
// and makes waiting records ready for redelivery. The group's timer processes what exceeds one
// command.
func (m *machine) expire(tx *engine.Tx, st *stream, g *group) {
	ready, inSlot := 0, [slots]int{} // records that became ready, and their numbers by slot in a KeyShared group
	for done := 0; (done < maxExpire) && len(g.due) > 0 && g.due[0].at <= tx.Now() && !tx.Full(); {
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
		if f.spent {
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

// seek moves the cursor of a partition, or all cursors if it is -1, and drops the pending
// deliveries there.
func (m *machine) seek(tx *engine.Tx, st *stream, g *group, to start, only int) {
	for _, kind := range deliveryKinds {
		prefix := groupPrefix(nil, kind, g.gen, g.id)
		if only >= 0 {
			prefix = partPrefix(nil, kind, g.gen, g.id, only)
		}
		tx.DeleteRange(prefix, key.PrefixEnd(prefix))
	}
	moved := func(p int) bool { return only < 0 || p == only }
	for p := range g.parts {
		if moved(p) {
			g.forget(p)
			m.placeCursor(tx, st, g, p, to)
			g.parts[p].sought, g.parts[p].changed = uint64(tx.LSN()), true
		}
	}
	g.dirty = slices.DeleteFunc(g.dirty, func(b *batch) bool { return moved(b.partition) })
	g.due = slices.DeleteFunc(g.due, func(d deadline) bool { return moved(d.partition) })
	heap.Init(&g.due)
	g.recalls, g.changed = nil, true
	m.ready(tx, g, -1)
}

// schedule sets the timer to the next due time.
func (m *machine) schedule(tx *engine.Tx, g *group) {
	next := g.nextDue()
	if g.ending > 0 {
		next = tx.Now()
	}
	for _, mem := range g.members {
		if !mem.there() || mem.attended {
			continue
		}
		at := mem.goneAt(&g.groupHeader)
		if silent := mem.silentAt(&g.groupHeader); g.mode != Shared && silent > tx.Now() {
			at = silent
		}
		if next == 0 || at < next {
			next = at
		}
	}
	// A timer that fires early is set again. That is cheaper than resetting it whenever its first
	// item is done.
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
	m.recall(tx, st, g)
	m.expire(tx, st, g)
	m.flush(tx, g)
	m.refreshPushesOf(tx, st, g.group)
}

// groupTopic is notified when records of a group become ready, and when the group is created or
// deleted.
func groupTopic(namespace, stream, group string) engine.Topic {
	return engine.TopicOf(engine.MachineStream, namespace, []byte(stream+"\x00"+group))
}

// consumerTopic is the topic of a single consumer, for records that only this consumer may receive.
func consumerTopic(namespace, stream, group, consumer string) engine.Topic {
	return engine.TopicOf(engine.MachineStream, namespace, []byte(stream+"\x00"+group+"\x00"+consumer))
}
