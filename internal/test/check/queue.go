package check

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/floedb/floe/queue"
)

// Queue records the calls of producers and consumers of one queue, and their results. An accepted
// message is delivered until it is acked. No message is delivered that was never enqueued, or whose
// Ack was acknowledged before the request for it. Each delivery of a message is a new attempt, and
// a receipt is invalid once there is a later one. It is safe for concurrent use. Payloads must be
// unique.
type Queue struct {
	mu       sync.Mutex // guards what follows
	messages map[string]*queued
	calls    int64 // counts all recorded events
}

// queued is the known state of a message.
type queued struct {
	seq      uint64
	accepted bool
	attempts []int // of its deliveries, in the order in which they were reported
	requeued bool  // so its attempts no longer count
	ackAsked bool
	acked    int64 // when the Ack was acknowledged; 0: it was not
}

// NewQueue returns the check of an empty queue.
func NewQueue() *Queue { return &Queue{messages: make(map[string]*queued)} }

// Enqueue notes that a message is about to be enqueued.
func (q *Queue) Enqueue(payload string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.messages[payload] == nil {
		q.messages[payload] = new(queued)
	}
}

// Enqueued notes that a message was accepted. It returns an error if another Seq was reported
// before.
func (q *Queue) Enqueued(payload string, seq uint64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	m := q.messages[payload]
	m.accepted = true
	return m.number(payload, seq)
}

func (m *queued) number(payload string, seq uint64) error {
	if m.seq == 0 {
		m.seq = seq
	}
	if m.seq != seq || seq == 0 {
		return fmt.Errorf("message %q is number %d and number %d", payload, m.seq, seq)
	}
	return nil
}

// Refused notes that a message was definitely not accepted.
func (q *Queue) Refused(payload string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.messages, payload)
}

// Asked is a call without an answer yet.
type Asked struct {
	queue *Queue
	at    int64
	stale map[queue.Receipt]bool
}

// Dequeue notes that a consumer requests messages.
func (q *Queue) Dequeue() *Asked {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls++
	return &Asked{queue: q, at: q.calls}
}

// Got notes the result of a Dequeue.
func (a *Asked) Got(messages []queue.Message) error {
	q := a.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	var bad []error
	for _, got := range messages {
		m := q.messages[string(got.Payload)]
		switch {
		case m == nil:
			bad = append(bad, fmt.Errorf("message %d, %q, is delivered, which nobody enqueued", got.Seq, got.Payload))
			continue
		case m.acked != 0 && m.acked < a.at:
			bad = append(bad, fmt.Errorf("message %d, %q, is delivered after it was acked", got.Seq, got.Payload))
		case slices.Contains(m.attempts, got.Attempts) && !m.requeued:
			bad = append(bad, fmt.Errorf("message %d, %q, is delivered twice as attempt %d", got.Seq, got.Payload, got.Attempts))
		case got.Attempts < 1 || got.Attempts > got.MaxAttempts:
			bad = append(bad, fmt.Errorf("message %d, %q, is delivered as attempt %d of %d", got.Seq, got.Payload, got.Attempts,
				got.MaxAttempts))
		}
		bad = append(bad, m.number(string(got.Payload), got.Seq))
		m.attempts = append(m.attempts, got.Attempts)
	}
	return errors.Join(bad...)
}

// Ack notes that a consumer acks messages.
func (q *Queue) Ack(messages ...queue.Message) *Asked {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls++
	a := &Asked{queue: q, at: q.calls, stale: make(map[queue.Receipt]bool)}
	for _, got := range messages {
		m := q.messages[string(got.Payload)]
		m.ackAsked = true
		a.stale[got.Receipt] = m.acked != 0 || slices.Max(m.attempts) > got.Attempts && !m.requeued
	}
	return a
}

// Acked notes that an Ack was acknowledged.
func (a *Asked) Acked(messages ...queue.Message) error {
	q := a.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls++
	for _, got := range messages {
		if a.stale[got.Receipt] {
			return fmt.Errorf("message %d, %q: the receipt of attempt %d was good after a later one", got.Seq, got.Payload, got.Attempts)
		}
		if m := q.messages[string(got.Payload)]; m.acked == 0 {
			m.acked = q.calls
		}
	}
	return nil
}

// Requeued notes that a dead letter was, or may have been, requeued: its attempts start over.
func (q *Queue) Requeued(payload string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if m := q.messages[payload]; m != nil {
		m.requeued = true
	}
}

// Check compares the remaining messages, dead letters included, with the expected ones, and the
// counters of the queue with each other. Call it when all clients have stopped.
func (q *Queue) Check(s queue.Stats, left []queue.Message) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var bad []error
	there := make(map[string]bool)
	for _, l := range left {
		m := q.messages[string(l.Payload)]
		switch {
		case m == nil:
			bad = append(bad, fmt.Errorf("message %d, %q, is there, which nobody enqueued", l.Seq, l.Payload))
		case m.acked != 0:
			bad = append(bad, fmt.Errorf("message %d, %q, is there, but was acked", l.Seq, l.Payload))
		case there[string(l.Payload)]:
			bad = append(bad, fmt.Errorf("message %d, %q, is there twice", l.Seq, l.Payload))
		}
		there[string(l.Payload)] = true
	}
	for payload, m := range q.messages {
		if m.accepted && !m.ackAsked && !there[payload] {
			bad = append(bad, fmt.Errorf("message %d, %q, is lost", m.seq, payload))
		}
	}
	if sum := s.Ready + s.Delayed + s.Inflight + s.Dead + s.Acked + s.Purged + s.Discarded; sum != s.Enqueued || s.Purged+s.Discarded > 0 {
		bad = append(bad, fmt.Errorf("of %d messages %d are accounted for: %+v", s.Enqueued, sum, s))
	}
	if n := s.Ready + s.Delayed + s.Inflight + s.Dead; n != int64(len(left)) {
		bad = append(bad, fmt.Errorf("the queue counts %d messages, %d are there", n, len(left)))
	}
	return errors.Join(bad...)
}
