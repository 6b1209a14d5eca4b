package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// Sizes of TestHerd.
const (
	herdSize = 100
	herdMeal = 7
)

// TestHerd lets many consumers wait for few messages. As many consumers as there are messages get
// one, those that have waited longest, and the others keep waiting. The shard executes one command
// per message.
func TestHerd(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]*herd{
		"queue":      {send: sendMany, one: dequeueOne},
		"shared":     {send: appendMany, one: readOne(stream.Shared)},
		"exclusive":  {send: appendMany, one: readOne(stream.Exclusive), back: true, holder: true},
		"key_shared": {send: appendMany, one: readOne(stream.KeyShared), back: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h.t, h.node = t, openNode(t, floe.Config{Shards: 1})
			h.run()
		})
	}
}

// herd is a set of waiting consumers that take one item each.
type herd struct {
	t    *testing.T
	node *floe.Node
	send func(ctx context.Context, n *floe.Node, count int) error
	one  func(ctx context.Context, n *floe.Node, consumer int) (bool, error)

	back   bool // consumers return after each item: it matters which ones get them
	holder bool // the first one gets all

	mu  sync.Mutex // guards fed
	fed []int      // numbers of consumers, in the order in which they joined
}

// shard returns the LSN of the only shard, and the number of waiters.
func (h *herd) shard() (lsn uint64, waiting int) {
	s, err := h.node.Stats(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return s.Shards[0].LSN, s.Shards[0].Waiting
}

func (h *herd) isWaiting(want int) bool {
	_, n := h.shard()
	return n == want
}

func (h *herd) run() {
	t := h.t
	ctx, cancel := context.WithCancel(t.Context())
	if err := h.send(ctx, h.node, 1); err != nil {
		t.Fatal(err)
	}
	if got, err := h.one(ctx, h.node, 0); err != nil || !got {
		t.Fatalf("the first one is not delivered: %v, %v", got, err)
	}
	var consumers sync.WaitGroup
	for i := range herdSize {
		consumers.Go(func() { h.consume(ctx, i) })
		await(t, "a consumer that waits", func() bool { return h.isWaiting(i + 1) })
	}
	before, _ := h.shard()
	if err := h.send(ctx, h.node, herdMeal); err != nil {
		t.Fatal(err)
	}
	await(t, "all to be delivered", func() bool { return h.count() == herdMeal && h.isWaiting(h.waiting()) })
	after, _ := h.shard()
	cancel()
	consumers.Wait()
	h.check(int(after - before))
}

func (h *herd) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.fed)
}

// waiting returns the number of consumers that must be waiting after all deliveries.
func (h *herd) waiting() int {
	if h.back {
		return herdSize
	}
	return herdSize - herdMeal
}

func (h *herd) consume(ctx context.Context, i int) {
	for {
		got, err := h.one(ctx, h.node, i)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			h.t.Errorf("consumer %d: %v", i, err)
			return
		}
		if !got {
			continue
		}
		h.mu.Lock()
		h.fed = append(h.fed, i)
		h.mu.Unlock()
		if !h.back {
			return
		}
	}
}

func (h *herd) check(commands int) {
	t := h.t
	slices.Sort(h.fed)
	t.Logf("%d of %d consumers were fed, the shard saw %d commands: %v", len(h.fed), herdSize, commands, h.fed)
	if commands != 1+herdMeal {
		t.Errorf("the shard saw %d commands, want 1 that sends and %d that take", commands, herdMeal)
	}
	for n, i := range h.fed {
		if h.holder && i != 0 || !h.back && i != n {
			t.Errorf("consumer %d was fed, want those who came first", i)
		}
	}
}

func sendMany(ctx context.Context, n *floe.Node, count int) error {
	_, err := n.Queue("default").EnqueueMany(ctx, "q", make([]queue.NewMessage, count))
	return err
}

func dequeueOne(ctx context.Context, n *floe.Node, _ int) (bool, error) {
	got, err := n.Queue("default").Dequeue(ctx, "q", queue.Wait(time.Minute))
	return len(got) > 0, err
}

func appendMany(ctx context.Context, n *floe.Node, count int) error {
	messages := make([]stream.Message, count)
	for i := range messages {
		messages[i].Key = fmt.Sprint("key ", count, i) // different from that of the first record, which is not acknowledged
	}
	_, err := n.Stream("default").AppendMany(ctx, "s", messages)
	return err
}

func readOne(mode stream.Mode) func(ctx context.Context, n *floe.Node, consumer int) (bool, error) {
	return func(ctx context.Context, n *floe.Node, consumer int) (bool, error) {
		got, err := n.Stream("default").ReadGroup(ctx, "s", "g", strconv.Itoa(consumer), stream.InMode(mode), stream.Limit(1),
			stream.Wait(time.Minute))
		return len(got) > 0, err
	}
}
