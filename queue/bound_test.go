package queue_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/rig"
	"github.com/floedb/floe/queue"
)

// largest returns the most that commands of a kind have taken.
func largest(t *testing.T, r *rig.Rig, command string) engine.Effort {
	t.Helper()
	for _, e := range r.Efforts() {
		if e.Command == command {
			return e
		}
	}
	t.Fatalf("there was no %s", command)
	return engine.Effort{}
}

// TestLargeLeasesThatEndTogether: messages of a megabyte that become dead letters together are moved a few at a time; 600 of them wrote 2.2 GB in one command.
func TestLargeLeasesThatEndTogether(t *testing.T) {
	const n, size = 30, 1 << 20
	r := newRig(t, 1)
	s, ctx := storeOf(r, "n"), t.Context()
	must(0, s.Configure(ctx, "q", queue.Settings{MaxAttempts: 1}))
	for range n {
		must(s.Enqueue(ctx, "q", bytes.Repeat([]byte("x"), size-100)))
	}
	for left := n; left > 0; {
		left -= len(must(s.Dequeue(ctx, "q", queue.Max(n), queue.Lease(time.Second))))
	}
	r.Advance(1000)
	if st := must(s.Stats(ctx, "q")); st.Dead != n || st.Inflight != 0 {
		t.Errorf("%d dead letters, %d leased, want %d dead", st.Dead, st.Inflight, n)
	}
	if e := largest(t, r, "engine fire"); e.Bytes > 6*size || e.Count < n/6 {
		t.Errorf("too much at once: %v", e)
	}
}

// TestManyQueuesAreDueTogether: each Fire ends when it has written enough, whichever queues it is about, and what it looks at grows with what it writes. Every
// iterator used to sort all that had been written before it: N queues with 1,000 due messages each took 0.15, 0.58, 1.8, 7.0 s for N = 25, 50, 100, 200.
func TestManyQueuesAreDueTogether(t *testing.T) {
	const queues, messages = 40, 250
	r := newRig(t, 1)
	s, ctx := storeOf(r, "n"), t.Context()
	for i := range queues {
		name := fmt.Sprint("q", i)
		must(0, s.Configure(ctx, name, queue.Settings{MaxAttempts: 2, BackoffMin: queue.NoBackoff}))
		must(s.EnqueueMany(ctx, name, make([]queue.NewMessage, messages)))
		must(s.Dequeue(ctx, name, queue.Max(messages), queue.Lease(time.Hour-time.Duration(r.Now()-rig.Epoch)*time.Millisecond)))
	}
	r.Advance(3_600_000)
	for i := range queues {
		if st := must(s.Stats(ctx, fmt.Sprint("q", i))); st.Ready != messages || st.Expired != messages {
			t.Fatalf("queue %d: %+v, want %d messages ready again", i, st, messages)
		}
	}
	e := largest(t, r, "engine fire")
	if e.Count < 2 || e.Rows > 1<<13 || e.Looks > 4*e.Rows {
		t.Errorf("%v, want few rows in many Fires, and no more looks than a few for each", e)
	}
}
