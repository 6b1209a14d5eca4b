package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/check"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
)

// jobs is the queue that clients use, in one shard of the spread namespace. Its delays are short
// and its messages soon become dead letters. Its dedup keys outlast a run, because a run ends when
// nothing is due within an hour.
const jobs = "jobs"

var jobSettings = queue.Settings{
	MaxAttempts: 3, BackoffMin: 20 * time.Millisecond, BackoffMax: 200 * time.Millisecond, DedupWindow: 1000 * time.Hour,
}

// queueJob runs a queue with many producers and consumers.
type queueJob struct{ ledger *check.Queue }

func newQueueJob() Job { return &queueJob{check.NewQueue()} }

func queues(w World) *queue.Store {
	return engine.StoreOf[queue.Store](w.Router(), Spread, MaxValue)
}

func (j *queueJob) Open(w World) bool {
	return insist(w, func() error { return queues(w).Configure(context.Background(), jobs, jobSettings) })
}

// queueClient enqueues and dequeues.
type queueClient struct {
	World
	ledger *check.Queue
	store  *queue.Store
	leased []queue.Message
	made   int
}

func (j *queueJob) Do(w World) {
	q := &queueClient{World: w, ledger: j.ledger, store: queues(w)}
	for w.Working() {
		var err error
		switch n := w.Rand().IntN(20); {
		case n < 7:
			err = q.enqueue()
		case n < 13:
			err = q.dequeue()
		case n == 13:
			err = q.requeue()
		case n == 14:
			err = q.store.Configure(context.Background(), jobs, jobSettings)
		default:
			err = q.end()
		}
		w.Note(err)
	}
}

// enqueue adds a message, repeating the call with its dedup key until the outcome is known.
// Sometimes it does so in a transaction that fails.
func (q *queueClient) enqueue() error {
	ctx, rng, ledger := context.Background(), q.Rand(), q.ledger
	q.made++
	payload := fmt.Sprintf("%d.%d", q.Client(), q.made)
	opts := []queue.EnqueueOption{queue.Priority(rng.IntN(3))}
	if rng.IntN(4) == 0 {
		opts = append(opts, queue.Delay(upTo(q, time.Second)))
	}
	if rng.IntN(8) == 0 {
		_, err := engine.NewTxn(q.Router(), Spread, MaxValue).
			Do(queue.EnqueueOp(jobs, []byte(payload), opts...), queue.DequeueOp(jobs, queue.Max(2)), kv.DeleteOp(jobs)).Commit(ctx)
		if err == nil {
			q.Failf("a transaction went through although key %q does not exist", jobs)
		}
		return err
	}
	again := rng.IntN(2) == 0 && !q.Async() // an async node may lose the settings
	if again {
		opts = append(opts, queue.DedupKey(payload))
	}
	ledger.Enqueue(payload)
	for {
		e, err := q.store.Enqueue(ctx, jobs, []byte(payload), opts...)
		switch {
		case err == nil:
			q.told(ledger.Enqueued(payload, e.Seq))
			return nil
		case !errors.Is(err, engine.ErrUnknownOutcome) && !again:
			ledger.Refused(payload)
			return err
		case !again || !q.Sleep(10*time.Millisecond):
			return err
		}
	}
}

// told fails the run if the checker found an error. Effects of a lossy power failure are not
// checked.
func (q *queueClient) told(err error) {
	if err != nil && !q.Lossy() {
		q.Failf("queue: %w", err)
	}
}

func (q *queueClient) dequeue() error {
	ctx, asked := context.Background(), q.ledger.Dequeue()
	opts := []queue.DequeueOption{queue.Max(1 + q.Rand().IntN(3)), queue.Lease(upTo(q, 3*time.Second) + time.Millisecond)}
	if q.Rand().IntN(2) == 0 {
		opts = append(opts, queue.Wait(upTo(q, 3*time.Second)))
	}
	got, err := q.store.Dequeue(ctx, jobs, opts...)
	q.told(asked.Got(got))
	q.leased = append(q.leased, got...)
	return err
}

// end ends a lease, which may have expired.
func (q *queueClient) end() error {
	ctx, rng := context.Background(), q.Rand()
	if len(q.leased) == 0 {
		return q.dequeue()
	}
	i := rng.IntN(len(q.leased))
	m := q.leased[i]
	switch rng.IntN(8) {
	case 0:
		_, err := q.store.Extend(ctx, jobs, m.Receipt, upTo(q, time.Second)+time.Millisecond)
		return err
	case 1:
		_, err := q.store.Nack(ctx, jobs, []queue.Receipt{m.Receipt}, queue.Reason("no"))
		return err
	case 2:
		_, err := q.store.Nack(ctx, jobs, []queue.Receipt{m.Receipt}, queue.Delay(upTo(q, 100*time.Millisecond)))
		return err
	}
	q.leased = append(q.leased[:i], q.leased[i+1:]...)
	asked := q.ledger.Ack(m)
	_, err := q.store.Ack(ctx, jobs, m.Receipt)
	if err == nil {
		q.told(asked.Acked(m))
	}
	return err
}

// requeue requeues a dead letter.
func (q *queueClient) requeue() error {
	ctx := context.Background()
	page, err := q.store.DeadLetters(jobs).Page(ctx, queue.Limit(1))
	if err != nil || len(page.Items) == 0 {
		return err
	}
	m := page.Items[0]
	q.ledger.Requeued(string(m.Payload))
	return q.store.DeadLetters(jobs).Requeue(ctx, m.Seq)
}

// Audit reads the remaining messages.
func (j *queueJob) Audit(w World) {
	store := queues(w)
	for {
		stats, left, err := wholeQueue(store)
		switch {
		case errors.Is(err, engine.ErrNotFound) && w.Lossy():
			return
		case errors.Is(err, engine.ErrNotFound):
			err = j.ledger.Check(queue.Stats{}, nil)
		case err != nil && w.Sleep(10*time.Millisecond):
			continue
		case err == nil:
			err = j.ledger.Check(stats, left)
		default:
			return
		}
		if err != nil && !w.Lossy() {
			w.Failf("queue: %w", err)
		}
		return
	}
}

// wholeQueue reads a queue and leaves its messages there. A message that becomes a dead letter in
// the meantime would appear twice; in that case it reads again.
func wholeQueue(store *queue.Store) (s queue.Stats, left []queue.Message, err error) {
	for {
		before, err := store.Get(context.Background(), jobs)
		if err != nil {
			return s, nil, err
		}
		if s, left, err = readQueue(store); err != nil || s.Dead == before.Dead {
			return s, left, err
		}
	}
}

func readQueue(store *queue.Store) (s queue.Stats, left []queue.Message, err error) {
	ctx := context.Background()
	for m, err := range store.Messages(jobs).All(ctx) {
		if err != nil {
			return s, nil, err
		}
		left = append(left, m)
	}
	for m, err := range store.DeadLetters(jobs).All(ctx) {
		if err != nil {
			return s, nil, err
		}
		left = append(left, m)
	}
	s, err = store.Get(ctx, jobs)
	return s, left, err
}
