package e2e

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
)

// TestTakesOutliveLeaders: workers wait for runs at all nodes and at a client while the leading
// node is stopped, returns and leads again. Runs invoked then must reach them, each run one worker.
// Meanwhile no worker may receive an empty result or an error.
func TestTakesOutliveLeaders(t *testing.T) {
	t.Parallel()
	c := newThree(t)
	client := c.dial(0, 1, 2)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	if err := client.Namespaces().Create(ctx, "wide", floe.Spread()); err != nil {
		t.Fatal(err)
	}
	for _, ns := range []string{"narrow", "wide"} {
		ok[int](t)(client.Action(ns).Register(ctx, "a", action.Timeout(time.Hour)))
		old := c.homeOf(ns)
		var waiting sync.WaitGroup
		var mu sync.Mutex
		got := make(map[action.RunID]int)
		const takers = 6
		for i := range takers {
			store := client.Action(ns)
			if i > 0 {
				store = c.nodes[(old+1+i%2)%3].Action(ns)
			}
			waiting.Go(func() {
				tasks, err := store.Await(ctx, "worker "+string(rune('a'+i)), []string{"a"}, action.Wait(time.Hour))
				// on a busy machine, elections may take longer than a call waits
				for errors.Is(err, floe.ErrUnavailable) && !errors.Is(err, floe.ErrUnknownOutcome) {
					tasks, err = store.Await(ctx, "worker "+string(rune('a'+i)), []string{"a"}, action.Wait(time.Hour))
				}
				mu.Lock()
				defer mu.Unlock()
				if err != nil || len(tasks) != 1 {
					t.Errorf("%s: worker %d has got %d runs, %v", ns, i, len(tasks), err)
					return
				}
				got[tasks[0].Run]++
			})
		}
		await(t, "workers that wait", func() bool { return c.waiting() >= takers })
		c.stop(old)
		invoke := func(n int) {
			for range n {
				for key := time.Now().String(); ; {
					_, err := client.Action(ns).Invoke(ctx, "a", nil, action.IdempotencyKey(key))
					if err == nil {
						break
					}
					if !errors.Is(err, floe.ErrUnavailable) && !errors.Is(err, floe.ErrUnknownOutcome) {
						t.Fatal(err)
					}
				}
			}
		}
		served := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(got)
		}
		invoke(2)
		await(t, "the first two to be served", func() bool { return served() == 2 || t.Failed() })
		c.start(old)
		c.settle() // it leads again
		invoke(takers - 2)
		waiting.Wait()
		if served() != takers {
			t.Errorf("%s: %d runs were taken, want %d: %v", ns, served(), takers, got)
		}
	}
}

// homeOf returns the node that leads the home shard of a namespace.
func (c *three) homeOf(ns string) int {
	c.t.Helper()
	s := ok[floe.Stats](c.t)(c.nodes[0].Stats(c.t.Context()))
	return int(s.Shards[engine.HomeShard(ns, len(s.Shards))].Leader) - 1
}

// waiting returns how many queries and takes are waiting in the running nodes.
func (c *three) waiting() (n int) {
	for _, node := range c.nodes {
		if node == nil {
			continue
		}
		s, err := node.Stats(c.t.Context())
		if err == nil {
			n += s.Waiting
		}
	}
	return n
}
