package check

import (
	"strings"
	"testing"

	"github.com/floedb/floe/queue"
)

func handed(payload string, seq uint64, attempt int) queue.Message {
	return queue.Message{Payload: []byte(payload), Seq: seq, Attempts: attempt, MaxAttempts: 5,
		Receipt: queue.Receipt(payload + string(rune('0'+attempt)))}
}

// TestQueue feeds the checker with valid histories, and with histories that it must refuse.
func TestQueue(t *testing.T) {
	accept := func(q *Queue, payload string, seq uint64) error {
		q.Enqueue(payload)
		return q.Enqueued(payload, seq)
	}
	deliver := func(q *Queue, m queue.Message) error { return q.Dequeue().Got([]queue.Message{m}) }
	ack := func(q *Queue, m queue.Message) error { return q.Ack(m).Acked(m) }
	one := queue.Stats{Enqueued: 1, Ready: 1}
	for _, c := range []struct {
		name  string
		steps func(q *Queue) []error
		want  string // "": valid
	}{
		{"delivered, given up, delivered and acked", func(q *Queue) []error {
			return []error{
				accept(q, "a", 1), deliver(q, handed("a", 1, 1)), deliver(q, handed("a", 1, 2)), ack(q, handed("a", 1, 2)),
				q.Check(queue.Stats{Enqueued: 1, Acked: 1}, nil),
			}
		}, ""},
		{"accepted without an answer, and there", func(q *Queue) []error {
			q.Enqueue("a")
			return []error{q.Check(one, []queue.Message{handed("a", 1, 1)})}
		}, ""},
		{"refused", func(q *Queue) []error {
			q.Enqueue("a")
			q.Refused("a")
			return []error{q.Check(queue.Stats{}, nil)}
		}, ""},
		{"asked before the ack was told, answered after it", func(q *Queue) []error {
			err := accept(q, "a", 1)
			first, second := q.Dequeue(), q.Dequeue()
			return []error{err, first.Got([]queue.Message{handed("a", 1, 1)}), ack(q, handed("a", 1, 1)),
				second.Got([]queue.Message{handed("a", 1, 2)})}
		}, ""},
		{"acked without an answer", func(q *Queue) []error {
			err := accept(q, "a", 1)
			bad := deliver(q, handed("a", 1, 1))
			q.Ack(handed("a", 1, 1))
			return []error{err, bad, q.Check(queue.Stats{Enqueued: 1, Acked: 1}, nil)}
		}, ""},
		{"requeued", func(q *Queue) []error {
			err := accept(q, "a", 1)
			bad := deliver(q, handed("a", 1, 1))
			q.Requeued("a")
			return []error{err, bad, deliver(q, handed("a", 1, 1)), q.Check(one, []queue.Message{handed("a", 1, 1)})}
		}, ""},

		{"lost", func(q *Queue) []error { return []error{accept(q, "a", 1), q.Check(queue.Stats{}, nil)} }, "lost"},
		{"unexpected", func(q *Queue) []error { return []error{deliver(q, handed("a", 1, 1))} }, "nobody enqueued"},
		{"left over", func(q *Queue) []error { return []error{q.Check(one, []queue.Message{handed("a", 1, 1)})} }, "nobody enqueued"},
		{"two numbers", func(q *Queue) []error { return []error{accept(q, "a", 1), deliver(q, handed("a", 2, 1))} },
			"number 1 and number 2"},
		{"delivered after the ack", func(q *Queue) []error {
			return []error{accept(q, "a", 1), deliver(q, handed("a", 1, 1)), ack(q, handed("a", 1, 1)), deliver(q, handed("a", 1, 2))}
		}, "after it was acked"},
		{"there after the ack", func(q *Queue) []error {
			return []error{accept(q, "a", 1), deliver(q, handed("a", 1, 1)), ack(q, handed("a", 1, 1)),
				q.Check(one, []queue.Message{handed("a", 1, 1)})}
		}, "but was acked"},
		{"the same attempt", func(q *Queue) []error {
			return []error{accept(q, "a", 1), deliver(q, handed("a", 1, 1)), deliver(q, handed("a", 1, 1))}
		}, "twice as attempt 1"},
		{"too many attempts", func(q *Queue) []error { return []error{accept(q, "a", 1), deliver(q, handed("a", 1, 6))} },
			"attempt 6 of 5"},
		{"a stale receipt", func(q *Queue) []error {
			return []error{accept(q, "a", 1), deliver(q, handed("a", 1, 1)), deliver(q, handed("a", 1, 2)), ack(q, handed("a", 1, 1))}
		}, "was good after a later one"},
		{"counters", func(q *Queue) []error {
			return []error{accept(q, "a", 1), q.Check(queue.Stats{Enqueued: 2, Ready: 1}, []queue.Message{handed("a", 1, 1)})}
		}, "accounted for"},
		{"counted", func(q *Queue) []error {
			return []error{accept(q, "a", 1), q.Check(queue.Stats{Enqueued: 2, Ready: 2}, []queue.Message{handed("a", 1, 1)})}
		}, "counts 2 messages, 1 are there"},
		{"twice", func(q *Queue) []error {
			return []error{accept(q, "a", 1),
				q.Check(queue.Stats{Enqueued: 2, Ready: 2}, []queue.Message{handed("a", 1, 1), handed("a", 1, 1)})}
		}, "there twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var said []string
			for _, err := range c.steps(NewQueue()) {
				if err != nil {
					said = append(said, err.Error())
				}
			}
			if text := strings.Join(said, "\n"); (c.want == "") != (text == "") || !strings.Contains(text, c.want) {
				t.Errorf("the checker says %q, want %q", text, c.want)
			}
		})
	}
}
