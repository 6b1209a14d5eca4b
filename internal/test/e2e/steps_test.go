package e2e

import (
	"fmt"
	"strings"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// The writers of a child write into a namespace spread over all shards. Each writer has its own
// tag, and so writes to one of the shards.
const (
	writers    = 8
	writerKeys = 20
	leaseKeys  = 10
	space      = "written"
	shards     = 4
)

// stepKind is the kind of a writer's step.
type stepKind uint8

const (
	putStep stepKind = iota
	deleteStep
	incrStep
	expiringStep // a put that expires in an hour
	leaseStep    // a put that expires soon
	enqueueStep
	takeStep  // leases a message for an hour
	purgeStep // removes all messages
	appendStep
	readStep // delivers records to a consumer of a group for an hour
	trimStep // leaves trimmedTo records
)

const trimmedTo = 5

// kindOf returns the kind of a writer's n-th step, which is always the same for the same exists. A
// step is committed together with the writer's position. So after a crash the state must be that of
// exactly the steps up to the position.
func kindOf(n int, exists bool) stepKind {
	switch {
	case n%7 == 3 && exists:
		return deleteStep
	case n%5 == 2:
		return incrStep
	case n%11 == 4:
		return expiringStep
	case n%13 == 6:
		return leaseStep
	case n%101 == 50:
		return purgeStep
	case n%9 == 5:
		return appendStep
	case n%19 == 8 && n > 19: // the stream exists since the fifth step
		return readStep
	case n%97 == 33:
		return trimStep
	case n%17 == 9:
		return takeStep
	case n%3 == 1:
		return enqueueStep
	}
	return putStep
}

// step returns the operation of a step, beside the new position.
func step(w, n int, exists bool) floe.Op {
	key, value := stepKey(w, n), stepValue(w, n)
	switch kindOf(n, exists) {
	case deleteStep:
		return kv.DeleteOp(key)
	case incrStep:
		return kv.IncrOp(counterKey(w), int64(n))
	case expiringStep:
		return kv.PutOp(key, value, kv.TTL(time.Hour))
	case leaseStep:
		return kv.PutOp(leaseKey(w, n), value, kv.TTL(leaseTime(n)))
	case enqueueStep:
		return queue.EnqueueOp(queueName(w), value, queue.Priority(n%2), queue.DedupKey(fmt.Sprint(n)))
	case takeStep:
		return queue.DequeueOp(queueName(w), queue.Max(2), queue.Lease(time.Hour))
	case purgeStep:
		return queue.PurgeOp(queueName(w))
	case appendStep:
		return stream.AppendOp(streamName(w), stream.Message{Payload: value}, stream.Dedup("steps", uint64(n)))
	case readStep:
		return stream.ReadGroupOp(streamName(w), "g", "c", stream.Limit(2), stream.AckTimeout(time.Hour))
	case trimStep:
		return stream.TrimOp(streamName(w), stream.MaxLen(trimmedTo))
	}
	return kv.PutOp(key, value)
}

func dataPrefix(w int) string          { return fmt.Sprintf("data/{%d}/", w) }
func stepKey(w, n int) string          { return fmt.Sprint(dataPrefix(w), n%writerKeys) }
func leaseKey(w, n int) string         { return fmt.Sprintf("lease/{%d}/%d", w, n/13%leaseKeys) }
func leaseTime(n int) time.Duration    { return time.Duration(5+n*37%200) * time.Millisecond }
func queueName(w int) string           { return fmt.Sprintf("jobs/{%d}", w) }
func streamName(w int) string          { return fmt.Sprintf("log/{%d}", w) }
func counterKey(w int) string          { return fmt.Sprintf("counter/{%d}", w) }
func positionKey(w int) string         { return positionPrefix + fmt.Sprintf("{%d}", w) }
func writerShard(w int) engine.ShardID { return engine.NameShard(space, positionKey(w), shards) }

const positionPrefix = "position/"

// stepValue is usually short, and sometimes long enough that the state has data to flush.
func stepValue(w, n int) []byte {
	times := n * n % 300
	if n%61 == 0 {
		times = 8000
	}
	return []byte(strings.Repeat(fmt.Sprintf("%d.%d ", w, n), times))
}

// fold is the expected state after a writer's steps up to its position.
type fold struct {
	position int
	data     map[string]int // the step that wrote the key
	leases   map[string]int
	counter  int64
	queue    foldedQueue
	stream   foldedStream
}

// foldedStream is a writer's stream: the steps that appended to it, how far it was trimmed, and the
// records delivered to a group.
type foldedStream struct {
	steps       []int
	first, next int   // positions in steps: of the first record that is left, and of the group's next one
	pending     []int // positions of a consumer's pending records
}

// foldedQueue is a writer's queue: the steps that enqueued its messages, by priority, in order; the
// first of them are leased.
type foldedQueue struct {
	held            [2][]int
	leased          [2]int
	enqueued, taken int64
}

// take leases up to n messages.
func (q *foldedQueue) take(n int) {
	for priority := range q.held {
		for ; n > 0 && q.leased[priority] < len(q.held[priority]); n-- {
			q.leased[priority]++
			q.taken++
		}
	}
}

// read delivers up to n records to the consumer.
func (s *foldedStream) read(n int) {
	s.next = max(s.next, s.first)
	for ; n > 0 && s.next < len(s.steps); n-- {
		s.pending = append(s.pending, s.next)
		s.next++
	}
}

// to returns the state at a position. It continues from f, or starts over if f is ahead.
func (f fold) to(w, position int) fold {
	if f.data == nil || position < f.position {
		f = fold{data: make(map[string]int), leases: make(map[string]int)}
	}
	for f.position < position {
		f.position++
		f.advance(w, f.position)
	}
	return f
}

// advance is the model of step.
func (f *fold) advance(w, n int) {
	key := stepKey(w, n)
	_, exists := f.data[key]
	switch kindOf(n, exists) {
	case deleteStep:
		delete(f.data, key)
	case incrStep:
		f.counter += int64(n)
	case leaseStep:
		f.leases[leaseKey(w, n)] = n
	case enqueueStep:
		f.queue.held[n%2] = append(f.queue.held[n%2], n)
		f.queue.enqueued++
	case takeStep:
		f.queue.take(2)
	case purgeStep:
		f.queue.held, f.queue.leased = [2][]int{}, [2]int{}
	case appendStep:
		f.stream.steps = append(f.stream.steps, n)
	case readStep:
		f.stream.read(2)
	case trimStep:
		f.stream.first = max(f.stream.first, len(f.stream.steps)-trimmedTo)
	default:
		f.data[key] = n
	}
}
