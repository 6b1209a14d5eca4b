package queue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/queue"
)

// entries returns the number of entries in a node's logs.
func entries(t testing.TB, node *floe.Node) (n uint64) {
	t.Helper()
	for _, s := range must(node.Stats(t.Context())).Shards {
		n += s.Commit
	}
	return n
}

// handles is the part of Node and Client used here.
type handles interface {
	Queue(namespace string, opts ...floe.AccessOption) *queue.Store
}

// TestEmptyPollsWriteNothing: empty polls write no entry. Each of 100 polls through fresh handles
// used to write one, even in a namespace that does not exist.
func TestEmptyPollsWriteNothing(t *testing.T) {
	node := open(t, floe.Config{Shards: 2, Listen: "127.0.0.1:0"})
	ctx := within(t)
	client := must(floe.Dial(ctx, []string{node.Addr().String()}))
	defer client.Close()
	must(0, node.Queue("default").Configure(ctx, "empty", queue.Settings{}))
	for name, h := range map[string]handles{"node": node, "client": client} {
		before := entries(t, node)
		for i := range 100 {
			namespace := []string{"default", "nowhere"}[i%2]
			if got, err := h.Queue(namespace).Dequeue(ctx, []string{"empty", "missing"}[i/2%2]); len(got) > 0 || err != nil {
				t.Fatalf("%s: Dequeue = %v, %v", name, got, err)
			}
		}
		if wrote := entries(t, node) - before; wrote != 0 {
			t.Errorf("%s: 100 empty polls wrote %d entries", name, wrote)
		}
	}
}

// TestManyConsumersFewEntries has 100 consumers waiting for 7 messages: each message and its
// delivery take one entry.
func TestManyConsumersFewEntries(t *testing.T) {
	node := open(t, floe.Config{Shards: 1, Listen: "127.0.0.1:0"})
	ctx := within(t)
	client := must(floe.Dial(ctx, []string{node.Addr().String()}))
	defer client.Close()
	for name, h := range map[string]handles{"node": node, "client": client} {
		jobs := h.Queue("default")
		waiting, cancel := context.WithCancel(ctx)
		got := make(chan int, 100)
		for range 100 {
			go func() {
				messages, err := jobs.Dequeue(waiting, name, queue.Wait(time.Hour))
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				got <- len(messages)
			}()
		}
		awaitWaiting(ctx, t, node, 100)
		before := entries(t, node)
		for i := range 7 {
			must(jobs.Enqueue(ctx, name, fmt.Append(nil, i)))
			if n := <-got; n != 1 {
				t.Fatalf("%s: a consumer got %d messages", name, n)
			}
		}
		if wrote := entries(t, node) - before; wrote > 7 {
			t.Errorf("%s: 7 messages for 100 consumers took %d entries", name, wrote)
		}
		cancel()
		for range 93 {
			if n := <-got; n != 0 {
				t.Errorf("%s: a consumer got %d messages that are not there", name, n)
			}
		}
		awaitWaiting(ctx, t, node, 0)
	}
}

// awaitWaiting returns when the given number of calls wait at a node.
func awaitWaiting(ctx context.Context, t testing.TB, node *floe.Node, want int) {
	t.Helper()
	for {
		waiting := must(node.Stats(ctx)).Waiting
		if waiting == want {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%d calls wait, want %d", waiting, want)
		}
	}
}

// TestTakeOfALostCaller: a consumer that has gone neither gets a message nor keeps it from the next
// consumer.
func TestTakeOfALostCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := must(floe.Open(floe.Config{Shards: 1}))
		defer node.Close()
		jobs := node.Queue("default")
		got := make(chan string)
		wait := func(ctx context.Context, who string) context.CancelFunc {
			ctx, cancel := context.WithCancel(ctx)
			go func() {
				if messages, err := jobs.Dequeue(ctx, "q", queue.Wait(time.Hour)); err == nil && len(messages) > 0 {
					got <- who
				}
			}()
			synctest.Wait()
			<-time.After(time.Millisecond)
			return cancel
		}
		first := wait(t.Context(), "first")
		defer wait(t.Context(), "second")()
		first()
		must(jobs.Enqueue(t.Context(), "q", nil))
		if who := <-got; who != "second" {
			t.Errorf("the %s consumer got the message", who)
		}
	})
}

// TestTakeInTransaction: messages that a transaction enqueues are delivered by the same entry.
func TestTakeInTransaction(t *testing.T) {
	node := open(t, floe.Config{Shards: 1})
	ctx := within(t)
	jobs := node.Queue("default")
	got := make(chan int)
	go func() { got <- len(must(jobs.Dequeue(ctx, "q", queue.Wait(time.Hour), queue.Max(2)))) }()
	awaitWaiting(ctx, t, node, 1)
	before := entries(t, node)
	must(node.Txn("default").Do(queue.EnqueueOp("p", nil), queue.EnqueueOp("q", nil), queue.EnqueueOp("q", nil)).Commit(ctx))
	if n := <-got; n != 2 {
		t.Errorf("Dequeue returned %d messages, want 2", n)
	}
	if wrote := entries(t, node) - before; wrote != 1 {
		t.Errorf("a transaction and the delivery of its messages took %d entries", wrote)
	}
}

// TestPulledTakeMakesNoNamespace: a waiting take does not create its namespace. It used to be
// pulled behind a refused command, and its own empty outcome created the namespace.
func TestPulledTakeMakesNoNamespace(t *testing.T) {
	node := open(t, floe.Config{Shards: 1})
	ctx := within(t)
	jobs := node.Queue("new")
	got := make(chan int)
	go func() { got <- len(must(jobs.Dequeue(ctx, "q", queue.Wait(time.Hour)))) }()
	awaitWaiting(ctx, t, node, 1)
	if _, err := node.Txn("new").Do(queue.EnqueueOp("q", nil), queue.DeleteOp("missing")).Commit(ctx); !errors.Is(err, queue.ErrNotFound) {
		t.Fatalf("a transaction that deletes what there is not: %v", err)
	}
	for ns, err := range node.Namespaces().All(ctx) {
		if err != nil || ns.Name == "new" {
			t.Errorf("namespace %q, %v", ns.Name, err)
		}
	}
	must(jobs.Enqueue(ctx, "q", nil))
	if n := <-got; n != 1 {
		t.Errorf("Dequeue returned %d messages, want 1", n)
	}
}
