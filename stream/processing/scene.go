package processing

import (
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

// scene is the environment in which a task computes a step: a view of the shard, or its replacement
// in Test.
type scene interface {
	Now() int64
	WakeAt(ms int64)
	Get(k []byte) (v []byte, ok bool, err error)
	iter(lower, upper []byte) (rows, error)
	values(namespace string, keys []string) ([][]byte, error)
	room(namespace, queue string) (protocol.QueueRoom, error)
	awaitRoom(namespace, queue string) error
}

// rows is an engine.Iter.
type rows interface {
	First() bool
	Next() bool
	Key() []byte
	Value() []byte
	Close() error
}

// shown is the scene of a view.
type shown struct{ *engine.View }

func (s shown) iter(lower, upper []byte) (rows, error) { return s.Iter(lower, upper) }

func (s shown) values(namespace string, keys []string) ([][]byte, error) {
	return protocol.ReadValues(s.View, namespace, keys)
}

func (s shown) room(namespace, queue string) (protocol.QueueRoom, error) {
	return protocol.ReadRoom(s.View, namespace, queue)
}

func (s shown) awaitRoom(namespace, queue string) error {
	return s.WaitOn(protocol.QueueRoomTopic(namespace, queue))
}
