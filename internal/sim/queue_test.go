package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
)

// jobs is the queue that clients use, in one shard of the spread namespace. Its messages wait for little and die soon; its dedup keys stay for
// longer than a run lasts, because the end of a run is when nothing is due within an hour.
const jobs = "jobs"

var jobSettings = queue.Settings{
	MaxAttempts: 3, BackoffMin: 20 * time.Millisecond, BackoffMax: 200 * time.Millisecond, DedupWindow: 1000 * time.Hour,
}

func openQueue(c *client) {
	for {
		err := engine.StoreOf(queue.Primitive, c.router, spread, maxValue).Configure(ctx, jobs, jobSettings)
		if err == nil || !c.sleep(10*time.Millisecond) {
			return
		}
	}
}

// queueClient produces and consumes.
type queueClient struct {
	*client
	store  *queue.Store
	leased []queue.Message
	made   int
}

func queueWork(c *client) {
	q := &queueClient{client: c, store: engine.StoreOf(queue.Primitive, c.router, spread, maxValue)}
	rng := c.sim.rng
	for c.working() {
		c.sim.issued++
		var err error
		switch n := rng.IntN(20); {
		case n < 7:
			err = q.enqueue()
		case n < 13:
			err = q.dequeue()
		case n == 13:
			err = q.requeue()
		case n == 14:
			err = q.store.Configure(ctx, jobs, jobSettings)
		default:
			err = q.end()
		}
		c.sim.verdict.note(err)
	}
}

// enqueue adds a message, or does it again with its dedup key until the outcome is known; now and then it does it in a transaction that fails.
func (q *queueClient) enqueue() error {
	rng, ledger := q.sim.rng, q.sim.verdict.queue
	q.made++
	payload := fmt.Sprintf("%d.%d", q.id, q.made)
	opts := []queue.EnqueueOption{queue.Priority(rng.IntN(3))}
	if rng.IntN(4) == 0 {
		opts = append(opts, queue.Delay(q.sim.random(time.Second)))
	}
	if rng.IntN(8) == 0 {
		_, err := engine.NewTxn(q.router, spread, maxValue).
			Do(queue.EnqueueOp(jobs, []byte(payload), opts...), queue.DequeueOp(jobs, queue.Max(2)), kv.DeleteOp(jobs)).Commit(ctx)
		if err == nil {
			q.sim.failf("a transaction went through although key %q does not exist", jobs)
		}
		return err
	}
	again := rng.IntN(2) == 0 && q.sim.plan.durability != shard.Async // which may lose the settings
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
		case !again || !q.sleep(10*time.Millisecond):
			return err
		}
	}
}

// told fails the run if the checker found something. What a power failure may lose is not checked.
func (q *queueClient) told(err error) {
	if err != nil && !q.sim.verdict.lossy {
		q.sim.failf("queue: %w", err)
	}
}

func (q *queueClient) dequeue() error {
	asked := q.sim.verdict.queue.Dequeue()
	opts := []queue.DequeueOption{queue.Max(1 + q.sim.rng.IntN(3)), queue.Lease(q.sim.random(3*time.Second) + time.Millisecond)}
	if q.sim.rng.IntN(2) == 0 {
		opts = append(opts, queue.Wait(q.sim.random(3*time.Second)))
	}
	got, err := q.store.Dequeue(ctx, jobs, opts...)
	q.told(asked.Got(got))
	q.leased = append(q.leased, got...)
	return err
}

// end ends a lease, of which the time may be over.
func (q *queueClient) end() error {
	rng := q.sim.rng
	if len(q.leased) == 0 {
		return q.dequeue()
	}
	i := rng.IntN(len(q.leased))
	m := q.leased[i]
	switch rng.IntN(8) {
	case 0:
		_, err := q.store.Extend(ctx, jobs, m.Receipt, q.sim.random(time.Second)+time.Millisecond)
		return err
	case 1:
		return q.store.Nack(ctx, jobs, m.Receipt, queue.Reason("no"))
	case 2:
		return q.store.Nack(ctx, jobs, m.Receipt, queue.Delay(q.sim.random(100*time.Millisecond)))
	}
	q.leased = append(q.leased[:i], q.leased[i+1:]...)
	asked := q.sim.verdict.queue.Ack(m)
	err := q.store.Ack(ctx, jobs, m.Receipt)
	if err == nil {
		q.told(asked.Acked(m))
	}
	return err
}

// requeue brings a dead letter back.
func (q *queueClient) requeue() error {
	page, err := q.store.DeadLetters(jobs).Page(ctx, queue.Limit(1))
	if err != nil || len(page.Items) == 0 {
		return err
	}
	m := page.Items[0]
	q.sim.verdict.queue.Requeued(string(m.Payload))
	return q.store.Requeue(ctx, jobs, m.Seq)
}

// auditQueue reads what is left, once nobody works any more.
func (v *verdict) auditQueue(c *client) {
	store := engine.StoreOf(queue.Primitive, c.router, spread, maxValue)
	for {
		stats, left, err := wholeQueue(store)
		switch {
		case errors.Is(err, engine.ErrNotFound) && v.lossy:
			return
		case errors.Is(err, engine.ErrNotFound):
			err = v.queue.Check(queue.Stats{}, nil)
		case err != nil && c.sleep(10*time.Millisecond):
			continue
		case err == nil:
			err = v.queue.Check(stats, left)
		}
		if err != nil && !v.lossy && !c.ended {
			v.sim.failf("queue: %w", err)
		}
		return
	}
}

// wholeQueue reads a queue of which the messages stay. What becomes a dead letter meanwhile would be there twice: then it reads again.
func wholeQueue(store *queue.Store) (s queue.Stats, left []queue.Message, err error) {
	for {
		before, err := store.Stats(ctx, jobs)
		if err != nil {
			return s, nil, err
		}
		if s, left, err = readQueue(store); err != nil || s.Dead == before.Dead {
			return s, left, err
		}
	}
}

func readQueue(store *queue.Store) (s queue.Stats, left []queue.Message, err error) {
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
	s, err = store.Stats(ctx, jobs)
	return s, left, err
}
