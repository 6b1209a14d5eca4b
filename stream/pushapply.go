package stream

import (
	"errors"
	"fmt"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

// The life of a push:
//
//  1. The subscriber's machine sends a subscription to the stream's home, which sends it to the
//     other shards of a spread namespace (subscribe).
//  2. The home gives the push a consumer group as soon as the stream exists (attach).
//  3. Appends and changes of the group determine when a batch is due in a shard (pushdue.go). The
//     leader then proposes kindPush (pushduty.go).
//  4. kindPush claims batches, which acknowledges their records, and runs the subscriber's command.
//     A batch that is refused goes to the dead letters (pushdeliver.go).
//  5. If the subscription limits unfinished batches, each needs a credit of the home, from kindWant
//     and kindGrant until the subscriber's kindEnd (pushcredit.go).
//  6. A later revision of the subscription changes or removes the push. When the stream is deleted,
//     the push remains and waits for a new one (detachAll).

// isPushKind reports whether the command is about pushes.
func isPushKind(kind uint8) bool { return kind >= kindRelay && kind <= kindGrant }

// applyPush applies the commands of pushes.
func (m *machine) applyPush(tx *engine.Tx, cmd engine.Command) error {
	switch cmd.Kind {
	case kindRelay, kindSubscribe:
		return m.applySubscription(tx, cmd)
	case kindPush:
		return m.deliverDue(tx, cmd.Body)
	case kindEnd:
		return m.batchEnded(tx, cmd.Body)
	case kindWant:
		return m.creditWanted(tx, cmd.Body)
	case kindGrant:
		return m.creditGranted(tx, cmd.Body)
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

// send sends a command about a stream to the shard of a route in the command's namespace.
func (m *machine) send(tx *engine.Tx, route, stream string, kind uint8, body []byte) {
	tx.Send(engine.Message{
		Command: engine.Command{Machine: engine.MachineStream, Kind: kind, Namespace: tx.NamespaceName(), Spread: tx.Spread(), Body: body},
		Name:    route, Lane: laneOf(stream),
	})
}

// applySubscription checks a subscription, and relays it to the stream's home if necessary.
func (m *machine) applySubscription(tx *engine.Tx, cmd engine.Command) error {
	s, err := decodeBody(cmd.Body, (*protocol.Subscription).Code)
	if err != nil {
		return err
	}
	if err := errors.Join(engine.CheckName("stream", s.Stream), engine.CheckName("consumer group", s.Group)); err != nil && !s.Gone {
		return engine.Errorf(ErrInvalid, "%v", err)
	}
	if cmd.Kind == kindRelay && !here(tx, s.Stream, 0) {
		m.send(tx, s.Stream, s.Stream, protocol.KindSubscribe, encodeBody(&s, (*protocol.Subscription).Code))
		return nil
	}
	m.subscribe(tx, &s)
	return nil
}

// subscribe creates, changes or removes a push.
func (m *machine) subscribe(tx *engine.Tx, s *protocol.Subscription) {
	key := s.Subscriber.Key()
	f := m.push(tx, s.Stream, key)
	if f != nil && f.Revision >= s.Revision {
		return
	}
	m.sendToOthers(tx, s)
	st := m.present(tx, s.Stream)
	switch {
	case f == nil && s.Gone:
		return
	case f == nil:
		f = &pushing{pushRow: pushRow{id: uint64(tx.LSN()), due: never}, m: m, tx: tx, name: s.Stream, key: key, was: never}
	case s.Gone || s.Group != f.Group:
		f.leave(st)
	}
	if s.Gone {
		f.remove()
		m.reloadSubscriptions(tx, st)
		return
	}
	f.Subscription = *s
	f.save()
	m.reloadSubscriptions(tx, st)
	if st != nil && f.home() {
		f.attach(st, s.Latest)
	}
	f.grantCredits()
	f.refresh()
}

// sendToOthers sends a subscription from the stream's home to the other shards that may have
// partitions.
func (m *machine) sendToOthers(tx *engine.Tx, s *protocol.Subscription) {
	if !here(tx, s.Stream, 0) || !tx.Spread() || engine.Tagged(s.Stream) {
		return
	}
	for shard := range engine.ShardID(tx.Shards()) {
		if shard != tx.Shard() {
			m.send(tx, engine.RouteTo(tx.NamespaceName(), shard, tx.Shards()), s.Stream, protocol.KindSubscribe,
				encodeBody(s, (*protocol.Subscription).Code))
		}
	}
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
		f.refresh()
	}
}

// detachAll detaches the pushes of a deleted stream; they wait for a new one.
func (m *machine) detachAll(tx *engine.Tx, st *stream) {
	for _, of := range st.subscriptions {
		f := m.push(tx, st.name, of.key)
		f.stream, f.made, f.due = 0, false, never
		f.returnCredits()
		f.save()
	}
}
