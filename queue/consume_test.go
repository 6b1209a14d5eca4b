package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/internal/workloop"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
)

// consuming is a running Consume.
type consuming struct {
	stop  context.CancelCauseFunc
	ended chan error
}

// consume starts consuming a queue, in a bubble.
func consume(t *testing.T, s *queue.Store, name string, handle func(context.Context, queue.Message) error,
	opts ...queue.ConsumeOption) *consuming {
	return begun(t, func(ctx context.Context) error { return s.Consume(ctx, name, handle, opts...) })
}

// begun starts a consume function.
func begun(t *testing.T, consume func(ctx context.Context) error) *consuming {
	ctx, stop := context.WithCancelCause(t.Context())
	c := &consuming{stop, make(chan error, 1)}
	go func() { c.ended <- consume(ctx) }()
	return c
}

// end ends it and checks that it ends as it should.
func (c *consuming) end(t *testing.T) {
	t.Helper()
	c.stop(errEnough)
	if err := <-c.ended; err != nil {
		t.Errorf("Consume = %v, want nil", err)
	}
}

var errEnough = errors.New("that is enough")

// inBubble runs a test in a synctest bubble with its own node.
func inBubble(t *testing.T, f func(t *testing.T, node *floe.Node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		node := must(floe.Open(floe.Config{Shards: 2}))
		defer node.Close()
		f(t, node)
	})
}

// pass advances time and waits for the effects.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestConsumeOutcomes: the handler's result decides what happens to a message.
func TestConsumeOutcomes(t *testing.T) {
	inBubble(t, func(t *testing.T, node *floe.Node) {
		ctx, jobs := t.Context(), node.Queue("default")
		for _, body := range []string{"fine", "fails twice", "never works", "hopeless", "panics", "in a transaction"} {
			must(jobs.Enqueue(ctx, "q", []byte(body), queue.MaxAttempts(3)))
		}
		var mu sync.Mutex
		var seen, reported []string
		c := consume(t, jobs, "q", func(ctx context.Context, m queue.Message) error {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, fmt.Sprintf("%s %d", m.Payload, m.Attempts))
			switch body := string(m.Payload); {
			case body == "fails twice" && m.Attempts < 3, body == "never works":
				return fmt.Errorf("attempt %d failed", m.Attempts)
			case body == "hopeless":
				return fmt.Errorf("handle: %w", queue.Permanent(errors.New("no such address")))
			case body == "panics":
				panic("boom")
			case body == "in a transaction":
				_, err := node.Txn("default").Do(queue.AckOp("q", m.Receipt), kv.PutOp("done", m.Payload)).Commit(ctx)
				return errors.Join(err, queue.ErrSettled)
			}
			return nil
		}, queue.OnError(func(m *queue.Message, err error) {
			mu.Lock()
			defer mu.Unlock()
			reported = append(reported, string(m.Payload))
		}))
		pass(time.Minute)
		c.end(t)
		counts := make(map[string]int)
		for _, s := range seen {
			counts[s[:strings.LastIndex(s, " ")]]++
		}
		if got := fmt.Sprint(counts); got != "map[fails twice:3 fine:1 hopeless:1 in a transaction:1 never works:3 panics:3]" {
			t.Errorf("they were handled %s times", got)
		}
		var dead []string
		for m, err := range jobs.DeadLetters("q").All(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			reason, stack, _ := strings.Cut(m.LastError, "\n")
			dead = append(dead, fmt.Sprintf("%s after %d: %s", m.Payload, m.Attempts, reason))
			if string(m.Payload) == "panics" && !strings.Contains(stack, "TestConsumeOutcomes") {
				t.Errorf("the reason of a panic has no stack: %s", m.LastError)
			}
		}
		want := []string{"never works after 3: attempt 3 failed", "hopeless after 1: handle: no such address",
			"panics after 3: handler panicked: boom"}
		if !slices.Equal(dead, want) {
			t.Errorf("dead letters %q, want %q", dead, want)
		}
		if s := must(jobs.Get(ctx, "q")); s.Acked != 3 || s.Dead != 3 || s.Ready+s.Inflight+s.Delayed != 0 {
			t.Errorf("Stats = %+v", s)
		}
		if len(reported) != 9 {
			t.Errorf("reported %q, want each failure", reported)
		}
	})
}

// TestConsumeHostileErrors: an error whose methods panic counts as an ordinary failure, and so does
// a panic in OnError.
func TestConsumeHostileErrors(t *testing.T) {
	inBubble(t, func(t *testing.T, node *floe.Node) {
		jobs, hostile := node.Queue("default"), machinetest.HostileErrors()
		for name := range hostile {
			must(jobs.Enqueue(t.Context(), "q", []byte(name), queue.MaxAttempts(1)))
		}
		c := consume(t, jobs, "q", func(_ context.Context, m queue.Message) error { return hostile[string(m.Payload)] },
			queue.OnError(func(m *queue.Message, _ error) {
				*m = queue.Message{}
				panic("in OnError")
			}))
		pass(time.Minute)
		c.end(t)
		dead := 0
		for m, err := range jobs.DeadLetters("q").All(t.Context()) {
			if dead++; err != nil || !strings.Contains(m.LastError, "panicked") {
				t.Errorf("dead letter %s: %q, %v; want a panic", m.Payload, m.LastError, err)
			}
		}
		if dead != len(hostile) {
			t.Errorf("%d dead letters, want %d", dead, len(hostile))
		}
	})
}

// TestConsumeHoldsLeases: a handler that runs longer than its lease keeps its message.
func TestConsumeHoldsLeases(t *testing.T) {
	inBubble(t, func(t *testing.T, node *floe.Node) {
		ctx, jobs := t.Context(), node.Queue("default")
		for range 20 {
			must(jobs.Enqueue(ctx, "q", nil))
		}
		var runs atomic.Int32
		slow := func(ctx context.Context, m queue.Message) error {
			runs.Add(1)
			<-time.After(5 * time.Minute)
			return ctx.Err()
		}
		c := consume(t, jobs, "q", slow, queue.Concurrency(20), queue.Lease(3*time.Second))
		pass(time.Minute)
		other := consume(t, jobs, "q", slow)
		pass(10 * time.Minute)
		c.end(t)
		other.end(t)
		if s := must(jobs.Get(ctx, "q")); runs.Load() != 20 || s.Acked != 20 || s.Expired != 0 {
			t.Errorf("%d runs, %+v", runs.Load(), s)
		}
	})
}

// TestConsumeLosesLease: a handler whose message is gone is notified.
func TestConsumeLosesLease(t *testing.T) {
	for name, lose := range map[string]func(ctx context.Context, s *queue.Store) error{
		"purge":  func(ctx context.Context, s *queue.Store) error { _, err := s.Purge(ctx, "q"); return err },
		"delete": func(ctx context.Context, s *queue.Store) error { return s.Delete(ctx, "q") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, node *floe.Node) {
				ctx, jobs := t.Context(), node.Queue("default")
				must(jobs.Enqueue(ctx, "q", nil))
				cause := make(chan error, 1)
				var reported error
				c := consume(t, jobs, "q", func(ctx context.Context, m queue.Message) error {
					<-ctx.Done()
					cause <- context.Cause(ctx)
					return nil
				}, queue.OnError(func(m *queue.Message, err error) { reported = err }))
				pass(time.Second)
				if err := lose(ctx, jobs); err != nil {
					t.Fatal(err)
				}
				if err := <-cause; !errors.Is(err, queue.ErrConflict) {
					t.Errorf("the cause is %v, want ErrConflict", err)
				}
				pass(time.Second)
				c.end(t)
				if !errors.Is(reported, queue.ErrConflict) {
					t.Errorf("reported %v, want ErrConflict", reported)
				}
			})
		})
	}
}

// TestConsumeDrains: a message whose handler does not finish in time counts as not delivered.
func TestConsumeDrains(t *testing.T) {
	inBubble(t, func(t *testing.T, node *floe.Node) {
		ctx, jobs := t.Context(), node.Queue("default")
		for i := range 5 {
			must(jobs.Enqueue(ctx, "q", fmt.Append(nil, i), queue.MaxAttempts(1)))
		}
		c := consume(t, jobs, "q", func(ctx context.Context, m queue.Message) error {
			if string(m.Payload) == "0" {
				<-time.After(9 * time.Second)
				return ctx.Err()
			}
			<-ctx.Done()
			if context.Cause(ctx) != errEnough {
				t.Errorf("the cause is %v, want that of the context of Consume", context.Cause(ctx))
			}
			return ctx.Err()
		}, queue.Concurrency(4))
		pass(time.Second)
		began := time.Now()
		c.end(t)
		if d := time.Since(began); d < 10*time.Second || d > 11*time.Second {
			t.Errorf("the end took %v, want the grace of 10s", d)
		}
		if s := must(jobs.Get(ctx, "q")); s.Acked != 1 || s.Ready != 4 || s.Dead != 0 {
			t.Errorf("Stats = %+v, want 1 acked and 4 ready", s)
		}
		for m, err := range jobs.Messages("q").All(ctx) {
			if err != nil || m.Attempts != 0 || m.LastError != "" {
				t.Errorf("%+v, %v, want a message that was never delivered", m, err)
			}
		}
	})
}

// TestConsumeLeavesBlockedHandlers: a handler that ignores its context does not block Consume, and
// its message is released.
func TestConsumeLeavesBlockedHandlers(t *testing.T) {
	inBubble(t, func(t *testing.T, node *floe.Node) {
		ctx, jobs := t.Context(), node.Queue("default")
		must(jobs.Enqueue(ctx, "q", nil))
		forever := make(chan struct{})
		c := consume(t, jobs, "q", func(context.Context, queue.Message) error {
			<-forever
			return nil
		}, queue.Grace(0))
		pass(time.Second)
		c.stop(errEnough)
		if err := <-c.ended; err == nil || !strings.Contains(err.Error(), "1 handlers have not returned") {
			t.Errorf("Consume = %v", err)
		}
		if m := must(jobs.Dequeue(ctx, "q")); len(m) != 1 || m[0].Attempts != 1 {
			t.Errorf("Dequeue = %+v, want the message as if for the first time", m)
		}
		close(forever)
	})
}

// TestConsumeTenThousand: ten thousand messages become ready at the same time, in plain and spread
// namespaces, with several consumers.
func TestConsumeTenThousand(t *testing.T) {
	for name, opts := range map[string][]floe.NamespaceOption{"plain": nil, "spread": {floe.Spread()}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, node *floe.Node) {
				ctx := t.Context()
				if err := node.Namespaces().Create(ctx, "work", opts...); err != nil {
					t.Fatal(err)
				}
				jobs := node.Queue("work")
				for range 10 {
					all := make([]queue.NewMessage, 1000)
					for i := range all {
						all[i].Options = []queue.EnqueueOption{queue.Delay(time.Minute)}
					}
					must(jobs.EnqueueMany(ctx, "q", all))
				}
				var mu sync.Mutex
				runs := make(map[uint64]int)
				var all []*consuming
				for range 3 {
					all = append(all, consume(t, jobs, "q", func(ctx context.Context, m queue.Message) error {
						mu.Lock()
						defer mu.Unlock()
						runs[m.Seq]++
						return nil
					}, queue.Concurrency(500)))
				}
				pass(2 * time.Minute)
				for _, c := range all {
					c.end(t)
				}
				if s := must(jobs.Get(ctx, "q")); len(runs) != 10_000 || s.Acked != 10_000 || s.Dequeued != 10_000 {
					t.Errorf("%d messages were handled: %+v", len(runs), s)
				}
			})
		})
	}
}

func TestConsumeRefuses(t *testing.T) {
	jobs, none := openStore(t), func(context.Context, queue.Message) error { return nil }
	for _, opts := range [][]queue.ConsumeOption{
		{queue.Concurrency(0)}, {queue.Concurrency(queue.MaxConcurrency + 1)}, {queue.Lease(0)}, {queue.Grace(-1)},
	} {
		if err := jobs.Consume(t.Context(), "q", none, opts...); !errors.Is(err, queue.ErrInvalid) {
			t.Errorf("Consume = %v, want ErrInvalid", err)
		}
	}
	if err := jobs.Consume(t.Context(), "", none); !errors.Is(err, queue.ErrInvalid) {
		t.Errorf("Consume of a queue without a name: %v", err)
	}
	node := must(floe.Open(floe.Config{Shards: 1}))
	jobs = node.Queue("default")
	node.Close()
	if err := jobs.Consume(t.Context(), "q", none); !errors.Is(err, floe.ErrClosed) {
		t.Errorf("Consume of a closed node: %v, want ErrClosed", err)
	}
}

// TestConsumeIsObserved: an observer of a process's work loops sees this one.
func TestConsumeIsObserved(t *testing.T) {
	router := newRig(t, 1).Router()
	seen := &observer{joined: make(chan func() workloop.Status, 1)}
	router.Attach(seen)
	jobs := engine.StoreOf[queue.Store](router, "shop", 0)
	must(jobs.Enqueue(within(t), "mail", nil))
	ctx, cancel := context.WithCancel(within(t))
	err := jobs.Consume(ctx, "mail", func(context.Context, queue.Message) error {
		s := (<-seen.joined)()
		if s.Kind != "queue" || s.Namespace != "shop" || s.Name != "mail" || s.Load != 1 || s.Max != 3 {
			t.Errorf("Status = %+v", s)
		}
		cancel()
		return nil
	}, queue.Concurrency(3))
	if err != nil || !seen.left.Load() {
		t.Errorf("Consume = %v, left: %v", err, seen.left.Load())
	}
}

type observer struct {
	joined chan func() workloop.Status
	left   atomic.Bool
}

func (o *observer) Join(status func() workloop.Status) (leave func()) {
	o.joined <- status
	return func() { o.left.Store(true) }
}
