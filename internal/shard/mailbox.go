package shard

import (
	"sync"
	"sync/atomic"
)

// mailbox gathers input for the loop.
type mailbox struct {
	mu     sync.Mutex
	in     input
	filled atomic.Bool
	wake   chan struct{} // capacity 1
}

func (m *mailbox) put(f func(*input)) {
	m.leave(f)
	m.poke()
}

// leave adds input for the next step.
func (m *mailbox) leave(f func(*input)) {
	m.mu.Lock()
	f(&m.in)
	m.filled.Store(true)
	m.mu.Unlock()
}

func (m *mailbox) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// take returns the gathered input. The mailbox reuses the slices of spare.
func (m *mailbox) take(spare input) input {
	clear(spare.messages)
	clear(spare.responses)
	clear(spare.proposals)
	clear(spare.putOff)
	clear(spare.reads)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.filled.Store(false)
	in := m.in
	m.in = input{
		messages: spare.messages[:0], reads: spare.reads[:0], responses: spare.responses[:0], proposals: spare.proposals[:0],
		reports: spare.reports[:0],
		putOff:  spare.putOff[:0],
	}
	return in
}
