package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// TestRestartUnderLoad stops a node under load and starts it again at the same address. Calls that
// it did not accept are retried, so none fails and none has an unknown outcome; a watch resumes
// where it was.
func TestRestartUnderLoad(t *testing.T) {
	fsys := vfs.NewMem()
	r := openRig(t, "127.0.0.1:0", fsys)
	defer func() { r.close() }()
	c := r.dial()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	const writers, restarts = 16, 3
	store := engine.StoreOf[kv.Store](engine.NewRouter(c), "drained", 0)
	acked := make([]atomic.Int64, writers)
	var load, watch sync.WaitGroup
	for i := range writers {
		load.Go(func() {
			for ctx.Err() == nil {
				n, err := store.Incr(context.WithoutCancel(ctx), fmt.Sprint("counter/", i), 1)
				if want := acked[i].Load() + 1; err != nil || n.Value != want {
					t.Errorf("incr: %d, %v, want %d", n.Value, err, want)
					return
				}
				acked[i].Add(1)
			}
		})
	}
	watched := make([]atomic.Int64, writers)
	watching, unwatch := context.WithCancel(t.Context())
	defer unwatch()
	watch.Go(func() {
		// While the watch reconnects, a key may change more often than its history is long. The
		// watch then gets an EventCompacted and starts over.
		told := make([]bool, writers)
		for e, err := range store.Watch(watching, "counter/") {
			if watching.Err() != nil {
				return
			}
			if err == nil && e.Type == kv.EventCompacted {
				clear(told)
				continue
			}
			var i int
			var n int64
			fmt.Sscanf(e.Key, "counter/%d", &i)
			fmt.Sscan(string(e.Value), &n)
			if last := watched[i].Load(); err != nil || e.Type != kv.EventPut || n < last || told[i] && n != last+1 {
				t.Errorf("watch shows %v of %s = %d, %v, after %d", e.Type, e.Key, n, err, last)
				return
			}
			watched[i].Store(n)
			told[i] = true
		}
	})
	more := func() {
		before := acked[0].Load()
		await(t, "writes", func() bool { return acked[0].Load() > before+20 || t.Failed() })
	}
	more()
	for range restarts {
		r.close()
		r = openRig(t, r.addr, fsys)
		more()
	}
	stop()
	load.Wait()
	for i := range writers {
		await(t, "the watch", func() bool { return watched[i].Load() == acked[i].Load() || t.Failed() })
	}
	unwatch()
	watch.Wait()
	t.Logf("%d increments by one of %d writers, through %d restarts", acked[0].Load(), writers, restarts)
}

// TestStoppedUnderLoad: calls that a permanently stopped node has not accepted, or refuses, did not
// happen. Callers retry until their ctx ends.
func TestStoppedUnderLoad(t *testing.T) {
	t.Parallel()
	fsys := vfs.NewMem()
	r := openRig(t, "127.0.0.1:0", fsys)
	c := r.dial()
	store := engine.StoreOf[kv.Store](engine.NewRouter(c), "stopped", 0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var acked atomic.Int64
	var load sync.WaitGroup
	for range 16 {
		load.Go(func() {
			for {
				_, err := store.Incr(ctx, "n", 1)
				if err == nil {
					acked.Add(1)
					continue
				}
				if !errors.Is(err, context.Canceled) || errors.Is(err, engine.ErrUnavailable) {
					t.Errorf("incr at a node that has stopped: %v, want only that its ctx has ended", err)
				}
				return
			}
		})
	}
	await(t, "writes", func() bool { return acked.Load() > 100 })
	r.close()
	cancel()
	load.Wait()
	r = openRig(t, r.addr, fsys)
	defer r.close()
	if e, err := store.Get(t.Context(), "n"); err != nil || string(e.Value) != fmt.Sprint(acked.Load()) {
		t.Errorf("the counter is %q, %v, %d increments were acknowledged", e.Value, err, acked.Load())
	}
}

// TestStreamOpenedWhileDraining: a stream opened while the node drains is refused before a call can
// be sent on it. It used to be accepted and then notified, and could be cut off in between.
func TestStreamOpenedWhileDraining(t *testing.T) {
	r := newRig(t)
	r.peer.Drain()
	s := r.stream(r.http(), pathDoor)
	b, err := io.ReadAll(s.r)
	if string(b) != "closing\n" || err != nil {
		t.Errorf("the stream says %q, %v", b, err)
	}
}

// await polls until done.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for tick := time.Tick(time.Millisecond); !done(); {
		select {
		case <-tick:
		case <-deadline:
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}
