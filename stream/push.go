package stream

import (
	"fmt"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/protocol"
)

// A push is another machine's subscription to a stream, see package push. Instead of being read by
// consumers, the records of its group are delivered to the subscriber. The subscriber settles them,
// regardless of the result. So a push acknowledges records in the command that delivers them, and
// they are not redelivered.
//
// A subscription may exist before the stream, and remains when the stream is deleted. Its row is in
// the stream's home. In a spread namespace it is in all other shards as well, and each shard
// delivers the records of its own partitions. An index contains the times when batches are due. A
// duty reads it (see pushduty.go), and Apply determines the batches.
//
//	'w' | ns u32 | stream, as key.AppendString | key of the subscriber            a push, see pushRow
//	'u' | due | ns u32 | stream, likewise | key                                   when a batch is due (ms, as key.AppendInt64) -> nothing
//	'x' | id u64 | number u64                                                     an unfinished batch, in the stream's home -> nothing
const (
	rowPush    = 'w'
	rowPushDue = 'u'
	rowPushEnd = 'x'
)

// pushKinds are the kinds of rows of pushes. They do not belong to an existing stream.
var pushKinds = [...]byte{rowPush, rowPushDue, rowPushEnd}

// maxSent limits the batches of a push in flight to another shard.
const maxSent = 64

// never is the due time of a push without a batch.
const never = engine.NoTimer

// pushRow is the value of a row 'w'.
type pushRow struct {
	protocol.Subscription
	id     uint64 // LSN at which the shard learned of it
	stream uint64 // id of the stream whose group it has, 0: none
	made   bool   // the group was created for it, and is deleted with it
	due    int64  // when a batch is due, or never

	// In the stream's home.
	active  int64 // unfinished batches
	numbers uint64
	waiting []uint64 // shards that wait to deliver a batch, in order

	credits []credit // for the next batches, if unfinished ones are limited
	asked   bool     // a credit has been requested
	sent    int64    // batches without a reply yet

	delivered, repeated, refused, records int64
	note                                  string // why a batch was last refused
}

// credit is the right to deliver a batch: a row 'x' in the stream's home, for the push with this id
// there.
type credit struct{ id, number uint64 }

func (r *pushRow) code(c *codec.Coder) {
	version := byte(rowVersion)
	if c.Byte(&version); version != rowVersion {
		c.Fail("unknown version")
	}
	r.Subscription.Code(c)
	c.Uvarint(&r.id)
	c.Uvarint(&r.stream)
	c.Bool(&r.made)
	for _, n := range [...]*int64{&r.due, &r.active, &r.sent, &r.delivered, &r.repeated, &r.refused, &r.records} {
		c.Varint(n)
	}
	c.Uvarint(&r.numbers)
	codec.List(c, &r.waiting, (*codec.Coder).Uvarint)
	codec.List(c, &r.credits, func(c *codec.Coder, v *credit) {
		c.Uvarint(&v.id)
		c.Uvarint(&v.number)
	})
	c.Bool(&r.asked)
	c.String(&r.note)
}

func decodePush(b []byte) (pushRow, error) {
	r, err := codec.Decode(b, (*pushRow).code)
	if err != nil {
		return r, fmt.Errorf("stream push row: %w", err)
	}
	return r, nil
}

func pushPrefix(dst []byte, ns uint32, stream string) []byte {
	return key.AppendString(key.AppendUint32(append(dst, rowPush), ns), []byte(stream))
}

func pushKey(dst []byte, ns uint32, stream, subscriber string) []byte {
	return append(pushPrefix(dst, ns, stream), subscriber...)
}

// pushDueKey is the key of a row 'u'.
func pushDueKey(due int64, ns uint32, stream, subscriber string) []byte {
	k := key.AppendUint32(key.AppendInt64([]byte{rowPushDue}, due), ns)
	return append(key.AppendString(k, []byte(stream)), subscriber...)
}

// parsePushDue parses the key of a row 'u'.
func parsePushDue(k []byte) (due int64, ns uint32, stream, subscriber string, ok bool) {
	if len(k) < 13 {
		return 0, 0, "", "", false
	}
	name, rest, ok := key.CutString(k[13:])
	return key.Int64(k[1:]), uint32(k[9])<<24 | uint32(k[10])<<16 | uint32(k[11])<<8 | uint32(k[12]), string(name), string(rest), ok
}

func pushEndKey(id, number uint64) []byte {
	return key.AppendUint64(key.AppendUint64([]byte{rowPushEnd}, id), number)
}

// pushTopic is notified when a batch is due earlier than known before.
func pushTopic() engine.Topic { return engine.TopicOf(engine.MachineStream, "", []byte("pushes")) }

// pushing is a push during a command that changes it.
type pushing struct {
	pushRow
	m    *machine
	tx   *engine.Tx
	name string // of the stream
	key  string // of the subscriber
	was  int64  // due time in the index
}

// subscription identifies a push of a stream.
type subscription struct{ key, group string }

// loadSubscriptions loads the pushes of a stream.
func (m *machine) loadSubscriptions(tx *engine.Tx, st *stream) {
	st.subscriptions = nil
	prefix := pushPrefix(nil, st.ns, st.name)
	each(tx, prefix, func(k, v []byte) {
		st.subscriptions = append(st.subscriptions, subscription{string(k[len(prefix):]), must(decodePush(v)).Group})
	})
}

// push returns a push of a stream, nil if it does not exist.
func (m *machine) push(tx *engine.Tx, name, subscriber string) *pushing {
	b, ok := tx.Get(pushKey(nil, tx.Namespace(), name, subscriber))
	if !ok {
		return nil
	}
	f := &pushing{pushRow: must(decodePush(b)), m: m, tx: tx, name: name, key: subscriber}
	f.was = f.due
	return f
}

// save writes the push and updates the index of due times.
func (f *pushing) save() {
	ns := f.tx.Namespace()
	c := codec.NewEncoder(nil)
	f.pushRow.code(&c)
	f.tx.Set(pushKey(nil, ns, f.name, f.key), c.Encoded())
	f.keep()
}

func (f *pushing) keep() {
	if f.due == f.was {
		return
	}
	ns := f.tx.Namespace()
	if f.was != never {
		f.tx.Delete(pushDueKey(f.was, ns, f.name, f.key))
	}
	if f.was = f.due; f.due != never {
		f.tx.Set(pushDueKey(f.due, ns, f.name, f.key), nil)
		f.tx.Notify(pushTopic(), -1)
	}
}

// remove removes the push. Results of batches delivered before are ignored.
func (f *pushing) remove() {
	f.due = never
	f.keep()
	f.tx.Delete(pushKey(nil, f.tx.Namespace(), f.name, f.key))
	prefix := key.AppendUint64([]byte{rowPushEnd}, f.id)
	f.tx.DeleteRange(prefix, key.PrefixEnd(prefix))
}

// home reports whether the shard is the stream's home, even if the stream does not exist.
func (f *pushing) home() bool { return here(f.tx, f.name, 0) }

// subscriptionOf returns the key of a push of the group, "" if it has none.
func (st *stream) subscriptionOf(group string) string {
	if i := slices.IndexFunc(st.subscriptions, func(f subscription) bool { return f.group == group }); i >= 0 {
		return st.subscriptions[i].key
	}
	return ""
}

// refuseSubscribed rejects operations that consumers may not do on the group of a push.
func (st *stream) refuseSubscribed(kind uint8, group string) error {
	if len(st.subscriptions) == 0 || st.subscriptionOf(group) == "" {
		return nil
	}
	switch kind {
	case kindReadGroup, kindHold:
		return &ConflictError{Stream: st.name, Partition: -1,
			Reason: engine.Text("consumer group %q belongs to a workflow trigger, which is its only consumer", group)}
	case kindDeleteGroup:
		return &ConflictError{Stream: st.name, Partition: -1,
			Reason: engine.Text("consumer group %q belongs to a workflow trigger and is deleted with it", group)}
	}
	return nil
}
