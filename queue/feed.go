package queue

import (
	"math"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/feed"
)

// RoomOf is of feed.Roomer: duties of other machines enqueue messages, and wait while a queue is full.
func (m *machine) RoomOf(v *engine.View, namespace, name string) (messages, bytes int64, err error) {
	messages, bytes = math.MaxInt64, math.MaxInt64
	ns, ok := v.Namespace(namespace)
	if !ok {
		return messages, bytes, nil
	}
	b, ok, err := v.Get(queueKey(nil, ns, []byte(name)))
	if err != nil || !ok {
		return messages, bytes, err
	}
	r, err := decodeRecord(b)
	if err != nil {
		return 0, 0, err
	}
	if limit := r.settings.maxLen; limit > 0 {
		messages = max(limit-r.held(), 0)
	}
	if limit := r.settings.maxBytes; limit > 0 {
		bytes = max(limit-r.bytes, 0)
	}
	return messages, bytes, nil
}

// tellRoom wakes who waits for room in a queue.
func (s *session) tellRoom() {
	s.tx.Notify(feed.RoomTopic(s.tx.NamespaceName(), string(s.name)), -1)
}
