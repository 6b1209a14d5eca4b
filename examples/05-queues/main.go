// Command queues gives jobs to two workers: urgent ones first, one for later, and one that fails
// until the program is mended.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/queue"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// office has a queue of jobs.
type office struct {
	*queue.Store
	mu     sync.Mutex // guards out
	out    io.Writer
	mended atomic.Bool // the printer works
}

func (o *office) say(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(o.out, format+"\n", args...)
}

func run(ctx context.Context, out io.Writer) error {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		return err
	}
	defer node.Close()
	o := &office{Store: node.Queue("office"), out: out}
	for _, part := range []func(context.Context) error{o.fill, o.work, o.lookAtDead, o.redrive, o.work, o.figures} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// fill enqueues jobs. The first payment is enqueued twice, since its customer was impatient.
func (o *office) fill(ctx context.Context) error {
	settings := queue.Settings{MaxAttempts: 3, BackoffMin: 20 * time.Millisecond, MaxLen: 1000}
	if err := o.Configure(ctx, "jobs", settings); err != nil {
		return err
	}
	for _, job := range []struct {
		name string
		opts []queue.EnqueueOption
	}{
		{"report", []queue.EnqueueOption{queue.Priority(200)}},
		{"letter", nil},
		{"payment 1", []queue.EnqueueOption{queue.Priority(10), queue.DedupKey("payment 1")}},
		{"payment 1", []queue.EnqueueOption{queue.Priority(10), queue.DedupKey("payment 1")}},
		{"payment 2", []queue.EnqueueOption{queue.Priority(10)}},
		{"reminder", []queue.EnqueueOption{queue.Delay(100 * time.Millisecond)}},
	} {
		added, err := o.Enqueue(ctx, "jobs", []byte(job.name), job.opts...)
		if err != nil {
			return err
		}
		if added.Duplicate {
			o.say("%s is there already, as number %d", job.name, added.Seq)
		}
	}
	for m, err := range o.Messages("jobs").All(ctx) {
		if err != nil {
			return err
		}
		o.say("number %d, priority %d, %s: %s", m.Seq, m.Priority, m.State, m.Payload)
	}
	return nil
}

// work has two workers until there is nothing more to do.
func (o *office) work(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 2)
	for _, name := range []string{"ann", "bob"} {
		go func() { ended <- o.worker(ctx, name) }()
	}
	err := o.awaitEnd(ctx)
	stop()
	return errors.Join(err, <-ended, <-ended)
}

// worker does one job after the other, until ctx ends. A job that fails is delivered again, after a
// back-off, until it is a dead letter.
func (o *office) worker(ctx context.Context, name string) error {
	return o.Consume(ctx, "jobs", func(ctx context.Context, job queue.Message) error {
		if err := o.do(job); err != nil {
			o.say("%s: attempt %d of %s: %v", name, job.Attempts, job.Payload, err)
			return err
		}
		o.say("%s: %s is done", name, job.Payload)
		return nil
	}, queue.Lease(10*time.Second))
}

// awaitEnd waits until nothing is left to do.
func (o *office) awaitEnd(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		stats, err := o.Get(ctx, "jobs")
		if err != nil || stats.Ready+stats.Delayed+stats.Inflight == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (o *office) do(job queue.Message) error {
	if string(job.Payload) == "letter" && !o.mended.Load() {
		return errors.New("the printer is out of order")
	}
	return nil
}

// lookAtDead prints the dead letters.
func (o *office) lookAtDead(ctx context.Context) error {
	for m, err := range o.DeadLetters("jobs").All(ctx) {
		if err != nil {
			return err
		}
		o.say("dead after %d attempts: %s: %s", m.Attempts, m.Payload, m.LastError)
	}
	return nil
}

// redrive makes those ready again that failed for a reason that is gone.
func (o *office) redrive(ctx context.Context) error {
	o.mended.Store(true)
	n, err := o.DeadLetters("jobs").RequeueAll(ctx, queue.Contains("printer"))
	o.say("the printer is mended: %d requeued", n)
	return err
}

func (o *office) figures(ctx context.Context) error {
	s, err := o.Get(ctx, "jobs")
	o.say("%d enqueued, %d delivered, %d done, %d dead", s.Enqueued, s.Dequeued, s.Acked, s.Dead)
	return err
}
