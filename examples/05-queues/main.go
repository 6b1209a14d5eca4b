// Command 05-queues sends jobs through a queue: by priority and delay, under leases, and with
// retries that end in a dead letter.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/queue"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		return err
	}
	defer node.Close()
	q := node.Queue("office")
	for _, part := range []func(context.Context, *queue.Store, io.Writer) error{fill, lease, work, requeue} {
		if err := part(ctx, q, out); err != nil {
			return err
		}
	}
	return nil
}

// fill enqueues jobs. The dedup key makes the repeated payment one message.
func fill(ctx context.Context, q *queue.Store, out io.Writer) error {
	settings := queue.Settings{MaxAttempts: 3, BackoffMin: queue.NoBackoff, MaxLen: 1000}
	if err := q.Configure(ctx, "jobs", settings); err != nil {
		return err
	}
	for _, job := range []struct {
		name string
		opts []queue.EnqueueOption
	}{
		{"letter", nil}, // priority 100
		{"payment", []queue.EnqueueOption{queue.Priority(10), queue.DedupKey("payment-7")}},
		{"payment", []queue.EnqueueOption{queue.Priority(10), queue.DedupKey("payment-7")}},
		{"reminder", []queue.EnqueueOption{queue.Priority(200), queue.Delay(50 * time.Millisecond)}},
	} {
		added, err := q.Enqueue(ctx, "jobs", []byte(job.name), job.opts...)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "enqueued %s as number %d, duplicate %t\n", job.name, added.Seq, added.Duplicate)
	}
	return nil
}

// lease shows what happens when a worker crashes: the lease of its job expires, and another worker
// gets the job. The receipt of the first delivery is no longer valid.
func lease(ctx context.Context, q *queue.Store, out io.Writer) error {
	if _, err := q.Enqueue(ctx, "backups", []byte("disk 1")); err != nil {
		return err
	}
	crashed, err := q.Dequeue(ctx, "backups", queue.Lease(50*time.Millisecond))
	if err != nil {
		return err
	}
	next, err := q.Dequeue(ctx, "backups", queue.Wait(time.Minute))
	if err != nil {
		return err
	}
	_, err = q.Ack(ctx, "backups", crashed[0].Receipt)
	fmt.Fprintf(out, "%s: attempt %d, late ack is a conflict: %t\n", next[0].Payload, next[0].Attempts, errors.Is(err, floe.ErrConflict))
	_, err = q.Ack(ctx, "backups", next[0].Receipt)
	return err
}

// work processes the jobs until the reminder, which is the last one. The printer fails every time.
func work(ctx context.Context, q *queue.Store, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	return q.Consume(ctx, "jobs", func(_ context.Context, job queue.Message) error {
		fmt.Fprintf(out, "%s, attempt %d\n", job.Payload, job.Attempts)
		switch string(job.Payload) {
		case "letter":
			return errors.New("printer out of order")
		case "reminder":
			stop()
		}
		return nil
	}, queue.Lease(10*time.Second))
}

// requeue lists the dead letters and makes them ready again.
func requeue(ctx context.Context, q *queue.Store, out io.Writer) error {
	for m, err := range q.DeadLetters("jobs").All(ctx) {
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "dead after %d attempts: %s: %s\n", m.Attempts, m.Payload, m.LastError)
	}
	n, err := q.DeadLetters("jobs").RequeueAll(ctx, queue.Contains("printer"))
	fmt.Fprintf(out, "requeued %d\n", n)
	return err
}
