package queue

import (
	"math"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

// ReadRoom implements protocol.RoomReader, for duties of other machines that enqueue messages and
// wait while a queue is full.
func (m *machine) ReadRoom(v *engine.View, namespace, name string) (protocol.QueueRoom, error) {
	room := protocol.QueueRoom{Messages: math.MaxInt64, Bytes: math.MaxInt64, MaxMessages: math.MaxInt64, MaxBytes: math.MaxInt64}
	ns, ok := v.Namespace(namespace)
	if !ok {
		return room, nil
	}
	b, ok, err := v.Get(queueKey(nil, ns, []byte(name)))
	if err != nil || !ok {
		return room, err
	}
	r, err := decodeRecord(b)
	if err != nil {
		return protocol.QueueRoom{}, err
	}
	if limit := r.settings.maxLen; limit > 0 {
		room.Messages, room.MaxMessages = max(limit-r.held(), 0), limit
	}
	if limit := r.settings.maxBytes; limit > 0 {
		room.Bytes, room.MaxBytes = max(limit-r.bytes, 0), limit
	}
	return room, nil
}

// tellRoom wakes waiters for room in a queue.
func (s *session) tellRoom() {
	s.tx.Notify(protocol.QueueRoomTopic(s.tx.NamespaceName(), string(s.name)), -1)
}
