package stream

import (
	"sync"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// Takeable returns how many records are available for a consumer.
func (m *machine) Takeable(v *engine.View, cmd engine.Command, waits bool) (n, most int, err error) {
	if cmd.Kind != kindReadGroup {
		return 0, 0, engine.Errorf(ErrInvalid, "stream: command %d reads no records", cmd.Kind)
	}
	name, b, err := readGroup.Read(cmd)
	if err != nil {
		return 0, 0, err
	}
	l := look{
		m: m, v: v, namespace: cmd.Namespace, name: string(name), spec: b.spec, group: b.group, consumer: b.consumer, epoch: b.epoch,
		limit: b.limit, waits: waits, existing: !b.create, home: b.spec == nil,
	}
	if b.groupSpec != nil {
		l.id = b.groupSpec.id
	}
	n, err = l.look()
	return n, b.limit, err
}

// Took reports whether a consumer received records, or got an error.
func (m *machine) Took(_ uint8, result []byte, err error) bool {
	if err != nil {
		return true
	}
	c, err := readGroup.Decode(result)
	return err != nil || len(c.claims) > 0
}

// Makes reports the commands that make records ready. An append makes them ready in all groups of
// the stream.
func (m *machine) Makes(cmd engine.Command, made func(engine.Made)) {
	if cmd.Kind != kindAppend {
		return
	}
	name, b, err := appendMessages.Read(cmd)
	if err != nil {
		return
	}
	of := engine.NoSlots() // for messages without a key it depends on the offsets
	for _, msg := range b.messages {
		if k, _, err := split(msg); err == nil && len(k) > 0 {
			of.Add(uint8(slotOf(keyHash(msg, 0))))
		}
	}
	made(engine.Made{Topic: streamTopic(cmd.Namespace, string(name)), N: len(b.messages), Within: true, Of: of})
}

// look determines the records available for a consumer of a group, without a command, and the
// topics to wait on.
//
// It may report records where the command will find none, provided that the command changes the
// next result: the consumer becomes known or present again, records of others become held, or
// trimmed records are dropped.
type look struct {
	m         *machine
	v         *engine.View
	namespace string
	name      string
	group     string
	consumer  string
	spec      *spec
	id        uint64 // of the group at home; 0: any
	home      bool   // the shard has the stream's record
	existing  bool   // do not create the group
	epoch     uint64
	limit     int
	waits     bool
	since     int64 // of a query: when the wait began

	turn engine.Topic // the topic on which others wait for the same records
	w    *view
	g    *groupHeader
}

// wait waits on the first topic in turn, and on the others.
func (l *look) wait(within engine.Topic, topics ...engine.Topic) error {
	l.turn = topics[0]
	if err := l.v.WaitTurnWithin(within, topics[0], l.since); err != nil {
		return err
	}
	for _, t := range topics[1:] {
		if err := l.v.WaitOn(t); err != nil {
			return err
		}
	}
	return nil
}

// look returns the number of available records.
func (l *look) look() (n int, err error) {
	around := streamTopic(l.namespace, l.name)
	if l.w, err = viewOf(l.v, l.namespace, l.name); err != nil {
		return 0, err
	}
	if l.w == nil {
		if l.home {
			return 0, notFound(l.name)
		}
		return 0, l.wait(0, around)
	}
	if l.g, err = l.w.group(l.group); err != nil {
		return 0, err
	}
	if other := l.g == nil || l.id != 0 && l.id != l.g.home; other && l.home && (l.existing || l.id != 0) {
		return 0, groupNotFound(l.name, l.group)
	} else if other || l.spec != nil && l.spec.id != l.w.id {
		return engine.Any, l.wait(0, around) // the command decides, and creates what is missing
	}
	there, err := l.member()
	if err != nil {
		return 0, err
	}
	switch l.g.mode {
	case Exclusive:
		n, err = l.exclusive()
	case KeyShared:
		n, err = l.keyShared()
	default:
		if err = l.wait(around, l.groupTopic(), l.consumerTopic()); err == nil {
			n, err = l.records()
		}
	}
	switch {
	case err != nil:
		return 0, err
	case l.g.recalling && l.waits:
		return 0, nil // no consumer receives records until that is done
	case l.g.recalling || !there || !l.waits && l.g.timer <= l.v.Now() && l.g.timer > 0:
		return engine.Any, nil
	}
	return n, nil
}

func (l *look) groupTopic() engine.Topic { return groupTopic(l.namespace, l.name, l.group) }

func (l *look) consumerTopic() engine.Topic {
	return consumerTopic(l.namespace, l.name, l.group, l.consumer)
}

func (l *look) row(consumer string) (mem member, known bool, err error) {
	b, ok, err := l.v.Get(memberKey(nil, l.w.gen, l.g.id, consumer))
	if err != nil || !ok {
		return mem, false, err
	}
	mem, err = decodeMember(b)
	return mem, mem.there(), err
}

// member reports whether the consumer is known to be present; otherwise a command is needed.
func (l *look) member() (there bool, err error) {
	mem, known, err := l.row(l.consumer)
	if err != nil || !known {
		return false, err
	}
	if mem.attended {
		l.m.attendance.hear(attendee{l.namespace, l.name, l.group, l.consumer, l.v.Spread(l.namespace)}, l.v.Now())
		return true, nil
	}
	// The consumer becomes attended long before it would count as silent.
	at := mem.seen + l.g.ackTimeout/2
	if at > l.v.Now() {
		l.v.WakeAt(at)
	}
	return at > l.v.Now(), nil
}

// records returns the number of records available to a consumer that may receive any.
func (l *look) records() (int, error) {
	parts, err := l.w.all()
	if err != nil {
		return 0, err
	}
	n := l.g.again
	for p := range parts {
		next, err := l.next(p, &parts[p])
		if err != nil {
			return 0, err
		}
		n += parts[p].last + 1 - next
	}
	return int(min(n, uint64(1<<30))), nil
}

// next returns the offset of the first new record of a partition, or the offset after its last
// record if none exists.
func (l *look) next(p int, part *partition) (uint64, error) {
	if part.records() == 0 {
		return part.last + 1, nil
	}
	c, err := l.w.cursor(l.g, p)
	return min(max(c.next, part.first), part.last+1), err
}

// exclusive is look for an exclusive group.
func (l *look) exclusive() (int, error) {
	mine, change, err := l.rights()
	switch {
	case err != nil:
		return 0, err
	case mine || change:
		err = l.wait(streamTopic(l.namespace, l.name), l.consumerTopic())
	default:
		err = l.wait(0, l.groupTopic(), l.consumerTopic())
	}
	switch {
	case err != nil || !mine && !change:
		return 0, err
	case change:
		return engine.Any, nil
	}
	return l.records()
}

// rights reports whether the consumer has the right to consume, and whether a command could change
// that.
func (l *look) rights() (mine, change bool, err error) {
	if l.epoch > 0 || l.spec != nil {
		mine = l.epoch > 0 && l.epoch == l.g.epoch && l.g.holder == l.consumer
		return mine, !mine && l.epoch > 0 && l.epoch >= l.g.epoch, nil
	}
	if l.g.holder == l.consumer {
		return true, false, nil
	}
	holder, known, err := l.row(l.g.holder)
	return false, !known || holder.silent(l.g, l.v.Now()), err
}

// right is rights for a caller that needs nothing else, in the stream's home.
func (l *look) right() (held, error) {
	there, err := l.member()
	if err != nil || !there {
		return held{}, err
	}
	mine, change, err := l.rights()
	return held{known: !change, held: mine, epoch: l.g.epoch}, err
}

// keyShared is look for a KeyShared group.
func (l *look) keyShared() (n int, err error) {
	own, err := l.m.dealt.owners(l.w, l.g, l.v.Now())
	if err != nil {
		return 0, err
	}
	mine, all := engine.NoSlots(), slotSet{}
	within := engine.Topic(0) // of a consumer without slots
	for slot, o := range own.of {
		if o == l.consumer {
			mine.Add(uint8(slot))
			all.set(slot, true)
			within = streamTopic(l.namespace, l.name)
		}
	}
	l.v.Only(mine)
	if err := l.wait(within, l.consumerTopic(), l.groupTopic()); err != nil || within == 0 {
		return 0, err
	}
	for i := range all {
		if l.g.heads[i]&all[i] != 0 {
			return engine.Any, nil
		}
	}
	return l.keys(&all)
}

// keys looks for records of a consumer's slots.
func (l *look) keys(mine *slotSet) (n int, err error) {
	parts, err := l.w.all()
	for p := 0; p < len(parts) && err == nil && n < l.limit; p++ {
		var c groupCursor
		if parts[p].records() == 0 {
			continue
		}
		if c, err = l.w.cursor(l.g, p); err != nil {
			break
		}
		if c.held > 0 {
			free := false
			if free, err = l.free(p, mine); free || err != nil {
				return engine.Any, err
			}
		}
		var more int
		if more, err = l.scan(p, max(c.next, parts[p].first), parts[p].last, mine); more == engine.Any || err != nil {
			return more, err
		}
		n += more
	}
	return n, err
}

// free reports whether a key of the slots is free and has held records.
func (l *look) free(p int, mine *slotSet) (bool, error) {
	prefix := partPrefix(nil, rowFree, l.w.gen, l.g.id, p)
	for slot := 0; slot < slots; slot++ {
		it, err := l.v.Iter(append(prefix[:len(prefix):len(prefix)], byte(slot)), key.PrefixEnd(prefix))
		if err != nil {
			return false, err
		}
		found := it.First()
		if found {
			slot = int(it.Key()[behindPart])
		}
		if err := it.Close(); err != nil || !found || mine.has(slot) {
			return found && mine.has(slot), err
		}
	}
	return false, nil
}

// scan returns how many of a partition's new records are in the slots, up to the number that one
// command scans.
func (l *look) scan(p int, next, last uint64, mine *slotSet) (n int, err error) {
	if next > last {
		return 0, nil
	}
	it, err := l.v.Iter(recordKey(nil, l.w.gen, p, next), recordKey(nil, l.w.gen, p, min(last+1, next+maxScan)))
	if err != nil {
		return 0, err
	}
	for ok := it.First(); ok && n < l.limit; ok = it.Next() {
		s, err := decodeStored(it.Value())
		if err != nil {
			it.Close()
			return 0, err
		}
		if mine.has(slotOf(keyHash(s.message, offsetIn(it.Key())))) {
			n++
		}
	}
	if n == 0 && last-next >= maxScan {
		n = engine.Any // the command makes progress with those of others
	}
	return n, it.Close()
}

// deals caches the key owners of groups for look.
type deals struct {
	mu sync.Mutex // guards all below
	of map[uint64]deal
}

// deal is the assignment of key owners of a group since its members last changed.
type deal struct {
	owners
	gen, membersChangedAt uint64
}

// maxDeals limits the cache, which takes four kilobytes per group.
const maxDeals = 1024

func (d *deals) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.of = nil
}

func (d *deals) owners(w *view, g *groupHeader, now int64) (owners, error) {
	d.mu.Lock()
	known, ok := d.of[g.id]
	d.mu.Unlock()
	if ok && known.gen == w.gen && known.membersChangedAt == g.membersChangedAt && now < known.until {
		return known.owners, nil
	}
	members, err := w.members(g)
	if err != nil {
		return owners{}, err
	}
	all := g.ownersOf(members, now)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.of) >= maxDeals || d.of == nil {
		d.of = make(map[uint64]deal)
	}
	d.of[g.id] = deal{all, w.gen, g.membersChangedAt}
	return all, nil
}
