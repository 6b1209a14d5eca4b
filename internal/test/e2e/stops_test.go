package e2e

import (
	"context"
	"flag"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

var stopsFlag = flag.Int("stops", 1, "how many nodes TestStops stops")

// TestStops stops the nodes of a cluster one after the other, each while it leads the shards being
// written to. It logs how long writers got no acknowledgement: through a node that stays, a client
// of the one that stops, and a client of another. No write may fail.
func TestStops(t *testing.T) {
	t.Parallel()
	c := newThree(t)
	stops := *stopsFlag
	if testing.Short() {
		stops = 1
	}
	var pauses []time.Duration
	for stop := range stops {
		pauses = append(pauses, c.pause(stop%3))
	}
	slices.Sort(pauses)
	t.Logf("%d stops: writes paused for %v in the median, %v at least and %v at most", len(pauses), pauses[len(pauses)/2], pauses[0],
		pauses[len(pauses)-1])
}

// pause stops a node and starts it again, under load, and returns the longest time without an
// acknowledgement.
func (c *three) pause(i int) time.Duration {
	c.t.Helper()
	stays := (i + 1) % 3
	var all sync.WaitGroup
	ctx, end := context.WithCancel(c.t.Context())
	var writers []*ticking
	for _, db := range []floe.DB{c.nodes[stays], c.dial(i, stays, (i+2)%3), c.dial(stays)} {
		for _, ns := range namespaces() {
			w := &ticking{store: db.KV(ns)}
			writers = append(writers, w)
			all.Go(func() { w.write(ctx, c.t) })
		}
	}
	more := func() {
		for _, w := range writers {
			from := w.acked.Load()
			await(c.t, "acknowledgements", func() bool { return w.acked.Load() > from+10 })
		}
	}
	more()
	for _, w := range writers {
		w.longest.Store(0)
	}
	c.stop(i)
	more()
	longest := time.Duration(0)
	for _, w := range writers {
		longest = max(longest, time.Duration(w.longest.Load()))
	}
	end()
	all.Wait()
	c.start(i)
	c.settle()
	return longest.Round(time.Millisecond)
}

// ticking is a writer that records how long it waits.
type ticking struct {
	store          *kv.Store
	acked, longest atomic.Int64
}

func (w *ticking) write(ctx context.Context, t *testing.T) {
	for ctx.Err() == nil {
		begin := time.Now()
		if _, err := w.store.Put(context.WithoutCancel(ctx), "k", nil); err != nil {
			t.Errorf("a write failed: %v", err)
			return
		}
		w.longest.Store(max(w.longest.Load(), int64(time.Since(begin))))
		w.acked.Add(1)
	}
}
