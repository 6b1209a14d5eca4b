package engine

import (
	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/wait"
)

// Topic identifies an event for which queries and takes wait, and which Apply notifies; see
// TopicOf.
type Topic = wait.Topic

// Slots is a set of 256 kinds of items. The zero value contains all kinds.
type Slots = wait.Slots

// NoSlots returns the empty set.
func NoSlots() Slots { return wait.NoSlots() }

// MaxWaiters is the maximum number of queries and takes that wait in one shard.
const MaxWaiters = wait.MaxWaiters

// TopicOf returns the topic of a name within a machine and namespace, a hash of the three.
func TopicOf(machine MachineID, namespace string, name []byte) Topic {
	var d xxhash.Digest
	d.ResetWithSeed(uint64(machine))
	d.WriteString(namespace)
	d.Write([]byte{0})
	d.Write(name)
	return Topic(d.Sum64())
}

// subscribed converts the error of the hub's Subscribe to one that callers can match.
func subscribed(err error) error {
	if err != nil {
		return Errorf(ErrBusy, "%v", err)
	}
	return nil
}
