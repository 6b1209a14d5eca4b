package queue

import "github.com/floedb/floe/internal/engine"

// What the tests, which are users of the package, need to see of its inside.

// Numbers of the machine.
const (
	NumKinds    = numKinds
	KindEnqueue = kindEnqueue
	KindDequeue = kindDequeue
	KindAck     = kindAck
	MaxDue      = maxDue
	MaxInflight = maxInflight
)

// NewForgetful returns a machine that remembers next to nothing, so that it has to look into the state often.
func NewForgetful() engine.Machine {
	m := &Machine{memories: memories{limits: limits{items: 3, bytes: 1000, row: 300, queues: 2000}}}
	m.memories.reset(0)
	return m
}

// DecodeBody decodes a command's body and says whether that worked.
func DecodeBody(kind uint8, b []byte) error { return new(command).decode(kind, b) }
