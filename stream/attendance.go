package stream

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/floedb/floe/internal/engine"
)

// attendance is the leader's state about consumers that requested records and received none. Their
// rows mark them as attended, which means present until a command changes that. So a consumer that
// waits, or polls repeatedly, writes nothing. The leader sees that the consumer is still there,
// because it waits here or its calls arrive. If a consumer has been silent for so long that others
// may take over, a duty reports it (kindMiss). From then on its silence counts as for any other
// consumer.
//
// A new leader has no such state yet, and treats all attended consumers as just seen.
type attendance struct {
	mu    sync.Mutex // guards all below; no calls under it except to the hub
	term  uint64     // in which this replica leads or last led
	leads bool       // newly attended consumers are noted
	heard map[attendee]*hearing
}

// attendee identifies a consumer within a shard.
type attendee struct {
	namespace, stream, group, consumer string
	spread                             bool // the namespace is spread
}

func (a *attendee) topic() engine.Topic {
	return consumerTopic(a.namespace, a.stream, a.group, a.consumer)
}

// compare orders attendees by group, so that the commands are the same in each run.
func (a *attendee) compare(b *attendee) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.stream, b.stream), cmp.Compare(a.group, b.group),
		cmp.Compare(a.consumer, b.consumer))
}

// hearing is the time an attendee was last seen, and related times, all in ms.
type hearing struct {
	at      int64
	silence int64 // how long it may be silent
	spared  int64 // until when it may be silent in any case, see member
	look    int64 // when to check whether it is waiting
}

// minAttendLook is the minimum interval between two checks of a waiting consumer, ms.
const minAttendLook = 100

func (h *hearing) hear(now int64) {
	h.at, h.spared = max(h.at, now), 0
	h.lookSoon()
}

func (h *hearing) lookSoon() { h.look = h.at + max(h.silence/8, minAttendLook) }

// attendanceTopic is notified when the duty has another consumer to watch.
func attendanceTopic() engine.Topic { return engine.TopicOf(engine.MachineStream, "", nil) }

// add notes an attendee if this replica leads.
func (a *attendance) add(who attendee, silence, now int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.leads {
		return
	}
	h := a.heard[who]
	if h == nil {
		h = new(hearing)
		a.heard[who] = h
	}
	h.silence = silence
	h.hear(now)
}

// end returns until when the attendee may be silent.
func (h *hearing) end() int64 { return max(h.at+h.silence, h.spared) }

// adapt changes how long an attendee may be silent, but not when it was last seen. If the limit
// becomes shorter, the attendee keeps its current deadline.
func (a *attendance) adapt(who attendee, silence int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h := a.heard[who]; h != nil {
		if silence < h.silence {
			h.spared = h.end()
		}
		h.silence = silence
		h.lookSoon()
	}
}

// hear notes that an attendee was seen.
func (a *attendance) hear(who attendee, now int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h := a.heard[who]; h != nil {
		h.hear(now)
	}
}

func (a *attendance) forget(who attendee) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.heard, who)
}

// lead starts noting attendees, in a term.
func (a *attendance) lead(term uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.leads = true; a.term != term || a.heard == nil {
		a.term, a.heard = term, make(map[attendee]*hearing)
	}
}

// rest stops noting attendees.
func (a *attendance) rest() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leads = false
}

// take notes the attendees found in the rows.
func (a *attendance) take(all map[attendee]int64, now int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for who, silence := range all {
		if a.heard[who] == nil {
			h := &hearing{silence: silence}
			h.hear(now)
			a.heard[who] = h
		}
	}
}

// missing returns the attendees that have been silent for too long, and when to check again:
// engine.NoTimer if no attendee is left.
func (a *attendance) missing(now int64, awaited func(engine.Topic) bool) (all []attendee, next int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	next = engine.NoTimer
	for who, h := range a.heard {
		if now >= h.look {
			if awaited(who.topic()) {
				h.hear(now)
			} else if now >= h.end() {
				all = append(all, who)
				continue
			} else {
				h.look = min(now+max(h.silence/8, minAttendLook), h.end())
			}
		}
		next = min(next, h.look)
	}
	slices.SortFunc(all, func(a, b attendee) int { return a.compare(&b) })
	return all, next
}

func (a *attendance) since(who attendee) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h := a.heard[who]; h != nil {
		return h.at
	}
	return 0
}

// Duties returns the duties of the leader of a shard.
func (m *machine) Duties() []engine.Duty {
	return []engine.Duty{{Name: "attend", Run: m.attend}, {Name: "push", Run: m.watchPushes}}
}

// attend is the duty that reports missing consumers.
func (m *machine) attend(ctx context.Context, lead *engine.Lead) error {
	m.attendance.lead(lead.Term()) // before the rows are read, so that consumers arriving in between are not missed
	defer m.attendance.rest()
	err := lead.View(ctx, func(v *engine.View) error {
		all, err := attended(v)
		m.attendance.take(all, v.Now())
		return err
	})
	for err == nil {
		var all []attendee
		err = lead.View(ctx, func(v *engine.View) (err error) {
			if err := v.WaitOn(attendanceTopic()); err != nil {
				return err
			}
			next := int64(0)
			if all, next = m.attendance.missing(v.Now(), lead.Awaited); len(all) > 0 {
				return nil
			}
			if next != engine.NoTimer {
				v.WakeAt(next)
			}
			return engine.ErrWait
		})
		for len(all) > 0 && err == nil {
			all, err = m.reportMissing(ctx, lead, all)
		}
	}
	return err
}

// reportMissing proposes a command for the missing consumers of the first group, and returns the
// others.
func (m *machine) reportMissing(ctx context.Context, lead *engine.Lead, all []attendee) ([]attendee, error) {
	n := 1
	for n < len(all) && n < MaxMembers && all[n].namespace == all[0].namespace && all[n].stream == all[0].stream &&
		all[n].group == all[0].group {
		n++
	}
	b := missBody{groupTarget: groupTarget{group: all[0].group}}
	for _, who := range all[:n] {
		b.missed = append(b.missed, missed{who.consumer, m.attendance.since(who)})
	}
	cmd := miss.Op(all[0].stream, b, nil).Command
	cmd.Namespace, cmd.Spread = all[0].namespace, all[0].spread
	_, err := lead.Propose(ctx, cmd)
	var refused *engine.Error
	if errors.As(err, &refused) && (errors.Is(err, ErrNotFound) || errors.Is(err, ErrInvalid)) {
		err = nil // the group no longer exists
	}
	if err != nil {
		return nil, err
	}
	for _, who := range all[:n] {
		m.attendance.forget(who)
	}
	return all[n:], nil
}

// attended returns the members whose rows mark them as attended, with the silence limits of their
// groups.
func attended(v *engine.View) (map[attendee]int64, error) {
	all := make(map[attendee]int64)
	return all, scanRows(v, []byte{rowStream}, func(k, value []byte) error {
		h, err := decodeHeader(value)
		if err != nil || h.deleted() {
			return err
		}
		ns, stream := streamIn(k)
		namespace, ok := v.NamespaceName(ns)
		if !ok {
			return nil
		}
		spread := v.Spread(namespace)
		return scanRows(v, genKey(nil, rowGroup, h.gen), func(k, value []byte) error {
			g, err := decodeGroup(value)
			if err != nil {
				return err
			}
			group := string(k[9:])
			return scanRows(v, groupPrefix(nil, rowMember, h.gen, g.id), func(k, value []byte) error {
				mem, err := decodeMember(value)
				if err == nil && mem.attended {
					all[attendee{namespace, stream, group, consumerIn(k), spread}] = g.silence()
				}
				return err
			})
		})
	})
}

// asked notes that a consumer requested records, and whether it received any. If not, it is
// attended from now on, because it will probably try again.
func (m *machine) asked(tx *engine.Tx, g *group, consumer string, served bool) {
	mem, known := g.members[consumer]
	if !known || !mem.there() {
		return
	}
	who := attendee{tx.NamespaceName(), g.name, g.group, consumer, tx.Spread()}
	switch {
	case served && mem.attended:
		mem.attended, mem.seen, mem.spared = false, tx.Now(), 0
		tx.OnCommit(func() { m.attendance.forget(who) })
	case !served && !mem.attended:
		mem.attended, mem.spared = true, 0
		silence, now := g.silence(), tx.Now()
		tx.OnCommit(func() { m.attendance.add(who, silence, now) })
		tx.Notify(attendanceTopic(), -1)
	default:
		return
	}
	m.saveMember(tx, g, consumer, mem)
	m.markMembersChanged(tx, g)
}

// adaptAttendance applies a group's new ack timeout to its attended consumers. The time they were
// last seen does not change: repeated changes of settings must not keep a dead consumer in the
// group.
func (m *machine) adaptAttendance(tx *engine.Tx, g *group) {
	silence := g.silence()
	for _, consumer := range slices.Sorted(maps.Keys(g.members)) {
		if g.members[consumer].attended {
			who := attendee{tx.NamespaceName(), g.name, g.group, consumer, tx.Spread()}
			tx.OnCommit(func() { m.attendance.adapt(who, silence) })
			tx.Notify(attendanceTopic(), -1)
		}
	}
}

// noteHeard notes that an attended consumer was seen.
func (m *machine) noteHeard(tx *engine.Tx, g *group, consumer string) {
	who, now := attendee{tx.NamespaceName(), g.name, g.group, consumer, tx.Spread()}, tx.Now()
	tx.OnCommit(func() { m.attendance.hear(who, now) })
}

// miss ends the attendance of consumers. Their silence counts again, starting when they were last
// seen.
func (s *session) miss(b *missBody) (none engine.Nothing, err error) {
	m, tx, g, changed := s.m, s.tx, s.g, false
	for _, missed := range b.missed {
		mem, known := g.members[missed.consumer]
		if !known || !mem.attended {
			continue
		}
		mem.attended, mem.seen, changed = false, max(mem.seen, min(missed.since, tx.Now())), true
		m.saveMember(tx, g, missed.consumer, mem)
	}
	if changed {
		m.membersChanged(tx, g)
	}
	return none, nil
}
