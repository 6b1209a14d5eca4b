package stream

import (
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/protocol"
)

// isPushKind reports whether the command is about pushes.
func isPushKind(kind uint8) bool { return kind >= kindRelay && kind <= kindGrant }

// applyPush applies the commands of pushes.
func (m *machine) applyPush(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	switch cmd.Kind {
	case kindRelay, kindSubscribe:
		s, err := decodeBody(cmd.Body, (*protocol.Subscription).Code)
		if err != nil {
			return nil, err
		}
		return nil, m.subscribe(tx, &s, cmd.Kind == kindRelay)
	case kindPush:
		c, err := decodeBody(cmd.Body, (*pushCommand).code)
		if err != nil {
			return nil, err
		}
		return nil, m.deliverDue(tx, &c)
	case kindEnd:
		e, err := decodeBody(cmd.Body, (*protocol.End).Encode)
		if err != nil {
			return nil, err
		}
		t, err := decodeBody(e.Token, (*protocol.BatchToken).Code)
		if err != nil {
			return nil, err
		}
		m.ended(tx, &t, e.Status)
		return nil, nil
	case kindWant:
		c, err := decodeBody(cmd.Body, (*creditCommand).code)
		if err != nil {
			return nil, err
		}
		if f := m.push(tx, c.token.Stream, c.token.Key); f != nil {
			f.want(c.shard)
			f.look(true)
			f.save()
		}
		return nil, nil
	case kindGrant:
		c, err := decodeBody(cmd.Body, (*creditCommand).code)
		if err != nil {
			return nil, err
		}
		m.granted(tx, &c)
		return nil, nil
	}
	panic(fmt.Sprintf("stream: unknown command kind %d", cmd.Kind))
}

func decodeBody[T any](b []byte, code func(*T, *codec.Coder)) (v T, err error) {
	if v, err = codec.Decode(b, code); err != nil {
		err = engine.Errorf(engine.ErrMalformed, "stream: command: %v", err)
	}
	return v, err
}

func encodeBody[T any](v *T, code func(*T, *codec.Coder)) []byte {
	return codec.Encode(nil, v, code)
}

// creditCommand is the body of kindWant and kindGrant.
type creditCommand struct {
	token protocol.BatchToken
	shard uint64
}

func (v *creditCommand) code(c *codec.Coder) {
	v.token.Code(c)
	c.Uvarint(&v.shard)
}

// subscribe creates, changes or removes a subscription.
func (m *machine) subscribe(tx *engine.Tx, s *protocol.Subscription, relayed bool) error {
	if err := errors.Join(engine.CheckName("stream", s.Stream), engine.CheckName("consumer group", s.Group)); err != nil && !s.Gone {
		return engine.Errorf(ErrInvalid, "%v", err)
	}
	home := here(tx, s.Stream, 0)
	if relayed && !home {
		m.send(tx, s.Stream, s.Stream, protocol.KindSubscribe, encodeBody(s, (*protocol.Subscription).Code))
		return nil
	}
	key := s.Subscriber.Key()
	f := m.push(tx, s.Stream, key)
	if f != nil && f.Revision >= s.Revision {
		return nil
	}
	if home && tx.Spread() && !engine.Tagged(s.Stream) {
		for shard := range engine.ShardID(tx.Shards()) {
			if shard != tx.Shard() {
				m.send(tx, engine.RouteTo(tx.NamespaceName(), shard, tx.Shards()), s.Stream, protocol.KindSubscribe,
					encodeBody(s, (*protocol.Subscription).Code))
			}
		}
	}
	st := m.present(tx, s.Stream)
	switch {
	case f == nil && s.Gone:
		return nil
	case f == nil:
		f = &pushing{pushRow: pushRow{id: uint64(tx.LSN()), due: never}, m: m, tx: tx, name: s.Stream, key: key, was: never}
	case s.Gone || s.Group != f.Group:
		f.leave(st)
	}
	if s.Gone {
		f.remove()
		m.reloadSubscriptions(tx, st)
		return nil
	}
	f.Subscription = *s
	f.save()
	m.reloadSubscriptions(tx, st)
	if home && st != nil {
		f.attach(st, s.Latest)
	}
	f.pump()
	f.look(true)
	f.save()
	return nil
}

// present returns a stream that exists, nil if it does not.
func (m *machine) present(tx *engine.Tx, name string) *stream {
	st := m.load(tx, name)
	if st == nil || st.deleted() {
		return nil
	}
	return st
}

// reloadSubscriptions reloads the pushes of a stream after a change.
func (m *machine) reloadSubscriptions(tx *engine.Tx, st *stream) {
	if st != nil {
		m.touch(tx, st)
		m.loadSubscriptions(tx, st)
	}
}

// send sends a command about a stream to the shard of a route in the command's namespace.
func (m *machine) send(tx *engine.Tx, route, stream string, kind uint8, body []byte) {
	tx.Send(engine.Message{
		Command: engine.Command{Machine: engine.MachineStream, Kind: kind, Namespace: tx.NamespaceName(), Spread: tx.Spread(), Body: body},
		Name:    route, Lane: laneOf(stream),
	})
}

// attach gives the push its group, at the stream's home. An existing group continues at its
// cursors.
func (f *pushing) attach(st *stream, latest bool) {
	f.stream = st.id
	if f.m.loadGroup(f.tx, st, f.Group) != nil {
		return
	}
	config := defaultGroup().groupConfig
	config.mode = Mode(f.Mode)
	if latest {
		config.start = start{kind: startEnd}
	}
	f.tx.Step() // a command may create several groups, and each is identified by its LSN
	if _, err := f.m.foundGroup(f.tx, st, f.Group, config); err != nil {
		f.note = err.Error()
		return
	}
	f.made = true
}

// leave detaches the push from its group, at the stream's home. A group that was created for the
// push is deleted, unless another push uses it.
func (f *pushing) leave(st *stream) {
	made := f.made
	f.made, f.stream = false, 0
	if st == nil || !made || !f.home() {
		return
	}
	for _, other := range st.subscriptions {
		if other.key != f.key && other.group == f.Group {
			o := f.m.push(f.tx, f.name, other.key)
			o.made = true
			o.save()
			return
		}
	}
	if g := f.m.loadGroup(f.tx, st, f.Group); g != nil {
		f.m.deleteGroup(f.tx, st, g)
	}
}

// attachAll gives the pushes of a new stream their groups, beginning with the stream's first
// record.
func (m *machine) attachAll(tx *engine.Tx, st *stream) {
	m.loadSubscriptions(tx, st)
	for _, of := range st.subscriptions {
		f := m.push(tx, st.name, of.key)
		if f.home() {
			f.made = false
			f.attach(st, false)
		}
		f.look(true)
		f.save()
	}
}

// detachAll detaches the pushes of a deleted stream; they wait for a new one.
func (m *machine) detachAll(tx *engine.Tx, st *stream) {
	for _, of := range st.subscriptions {
		f := m.push(tx, st.name, of.key)
		f.stream, f.made, f.due = 0, false, never
		f.giveBack()
		f.save()
	}
}

// refreshPushesOf recomputes when the pushes of a group are due, after a change of the group.
func (m *machine) refreshPushesOf(tx *engine.Tx, st *stream, group string) {
	for _, of := range st.subscriptions {
		if of.group == group {
			f := m.push(tx, st.name, of.key)
			f.look(true)
			f.save()
		}
	}
}

// noteAppended updates due times after records have been appended to a partition, from an offset
// on.
func (m *machine) noteAppended(tx *engine.Tx, st *stream, p int, from uint64) {
	for _, of := range st.subscriptions {
		f := m.push(tx, st.name, of.key)
		g := m.loadGroup(tx, st, of.group)
		if g == nil || f.suspended() {
			continue
		}
		part := &st.parts[p]
		next := max(g.parts[p].next, part.first)
		due := int64(never)
		switch n := part.last + 1 - next; {
		case n >= uint64(f.Batch):
			due = tx.Now()
		case next >= from && n > 0:
			due = tx.Now() + f.Wait
		}
		if due < f.due {
			f.due = due
			f.save()
		}
	}
}

// suspended reports whether no batch may be delivered now, even if there are records.
func (f *pushing) suspended() bool {
	return f.Paused || f.sent >= maxSent || f.Most > 0 && f.asked && len(f.credits) == 0
}

// look determines when a batch is due. With busy set, it assumes a batch where only a check of the
// group's busy keys could tell.
func (f *pushing) look(busy bool) {
	f.due = never
	if st := f.m.present(f.tx, f.name); st != nil && !f.suspended() {
		if g := f.m.loadGroup(f.tx, st, f.Group); g != nil {
			for p := range g.parts {
				f.due = min(f.due, f.dueOf(st, g, p, busy))
			}
		}
	}
	if f.due > f.tx.Now() {
		f.giveBack()
	}
}

// dueOf returns when a batch of a partition is due.
func (f *pushing) dueOf(st *stream, g *group, p int, busy bool) int64 {
	if !here(f.tx, f.name, p) {
		return never
	}
	part, cursor := &st.parts[p], &g.parts[p]
	if busy && cursor.special(g) {
		return f.tx.Now()
	}
	next := max(cursor.next, part.first)
	switch n := part.last + 1 - next; {
	case n == 0 || part.records() == 0 || cursor.keyed(g):
		return never
	case n >= uint64(f.Batch):
		return f.tx.Now()
	}
	return max(must(idAt(getterOf(f.tx), st.gen, p, next)).Millis+f.waits(), 0)
}

// waits returns how long a record may wait for a batch to fill.
func (f *pushing) waits() int64 {
	return f.Wait
}

// special reports whether a partition has records that come before new ones: consumers left them
// before the push got the group.
func (p *groupPart) special(g *group) bool {
	return len(p.again) > 0 || p.held > 0 || p.keyed(g)
}

// keyed reports whether new records have to wait for busy keys.
func (p *groupPart) keyed(g *group) bool { return g.mode == KeyShared && p.pending+p.held > 0 }

// want notes, at the stream's home, that a shard requests to deliver a batch.
func (f *pushing) want(shard uint64) {
	for _, s := range f.waiting {
		if s == shard {
			return
		}
	}
	f.waiting = append(f.waiting, shard)
	f.pump()
}

// ask requests the right to deliver a batch.
func (f *pushing) ask() {
	f.asked = true
	if f.home() {
		f.want(uint64(f.tx.Shard()))
		return
	}
	c := creditCommand{f.token(credit{}), uint64(f.tx.Shard())}
	f.m.send(f.tx, f.name, f.name, kindWant, encodeBody(&c, (*creditCommand).code))
}

// pump grants rights to waiting shards, in order.
func (f *pushing) pump() {
	for len(f.waiting) > 0 && (f.Most == 0 || f.active < f.Most) {
		shard := engine.ShardID(f.waiting[0])
		f.waiting = f.waiting[1:]
		f.numbers++
		f.active++
		right := credit{f.id, f.numbers}
		f.tx.Insert(pushEndKey(right.id, right.number), nil)
		if shard == f.tx.Shard() {
			f.credits, f.asked = append(f.credits, right), false
			continue
		}
		c := creditCommand{f.token(right), uint64(shard)}
		f.m.send(f.tx, engine.RouteTo(f.tx.NamespaceName(), shard, f.tx.Shards()), f.name, kindGrant, encodeBody(&c, (*creditCommand).code))
	}
}

func (f *pushing) token(c credit) protocol.BatchToken {
	return protocol.BatchToken{Namespace: f.tx.NamespaceName(), Spread: f.tx.Spread(), Stream: f.name, Key: f.key, ID: c.id,
		Number: c.number}
}

// granted stores a right to deliver a batch.
func (m *machine) granted(tx *engine.Tx, c *creditCommand) {
	right := credit{c.token.ID, c.token.Number}
	f := m.push(tx, c.token.Stream, c.token.Key)
	if f == nil {
		return // the push has been removed, at home as well
	}
	f.credits, f.asked = append(f.credits, right), false
	f.look(true)
	f.save()
}

// giveBack returns the rights that cannot be used now.
func (f *pushing) giveBack() {
	for len(f.credits) > 0 {
		right := f.credits[0]
		f.credits = f.credits[1:]
		f.over(right)
	}
}

// over ends a batch, or returns the right to deliver one.
func (f *pushing) over(right credit) {
	switch {
	case right == credit{}:
	case f.home():
		f.release(right)
	default:
		t := f.token(right)
		f.m.sendEnd(f.tx, &t, 0)
	}
}

func (m *machine) sendEnd(tx *engine.Tx, t *protocol.BatchToken, status uint8) {
	e := protocol.End{Token: encodeBody(t, (*protocol.BatchToken).Code), Status: status}
	tx.Send(engine.Message{
		Command: engine.Command{Machine: engine.MachineStream, Kind: protocol.KindBatchEnd, Namespace: t.Namespace, Spread: t.Spread,
			Body: encodeBody(&e, (*protocol.End).Encode)},
		Name: t.Stream, Lane: laneOf(t.Stream),
	})
}

// ended handles the message that the result of a batch has ended, or has resumed.
func (m *machine) ended(tx *engine.Tx, t *protocol.BatchToken, status uint8) {
	if t.Namespace != tx.NamespaceName() || !here(tx, t.Stream, 0) {
		m.sendEnd(tx, t, status)
		return
	}
	if f := m.push(tx, t.Stream, t.Key); f != nil {
		if right := (credit{t.ID, t.Number}); status == protocol.StatusAgain {
			f.resume(right)
		} else {
			f.release(right)
		}
		f.look(true)
		f.save()
	}
}

// resume counts a batch again whose end was reported before, even beyond the limit.
func (f *pushing) resume(right credit) {
	k := pushEndKey(right.id, right.number)
	if _, ok := f.tx.Get(k); ok || right.id != f.id {
		return
	}
	f.tx.Insert(k, nil)
	f.active++
}

// release makes room for another batch. A repeated report of an end has no effect.
func (f *pushing) release(right credit) {
	k := pushEndKey(right.id, right.number)
	if _, ok := f.tx.Get(k); !ok || right.id != f.id {
		return
	}
	f.tx.Delete(k)
	f.active--
	f.pump()
}

// laneOfPush returns the lane of batches that are sent to a subscriber.
func laneOfPush(stream, subscriber string) uint64 {
	return xxhash.Sum64(append(key.AppendString(nil, []byte(stream)), subscriber...))
}
