package peer

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// TestSlowFollower: a follower is far behind, on a way that takes longer for one message of entries than many heartbeats. It gets each entry about
// once, and heartbeats meanwhile. The leader sent it the same entries with the answer to each heartbeat, and nothing else got through.
func TestSlowFollower(t *testing.T) {
	t.Parallel()
	c := &trio{t: t, keep: 1000}
	c.open()
	store := c.dial()
	if _, err := store.Put(t.Context(), "begin", nil); err != nil {
		t.Fatal(err)
	}
	c.stop(2)
	const values, size = 48, 32 << 10
	for i := range values {
		if _, err := store.Put(t.Context(), fmt.Sprint("large/", i), make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex // guards passed
	passed := 0
	c.proxy.change(func(int) tamper {
		slow := throttle(256 << 10)
		return func(ctx context.Context, up bool, b []byte) ([]byte, bool) {
			if up {
				mu.Lock()
				passed += len(b)
				mu.Unlock()
			}
			return slow(ctx, up, b)
		}
	})
	l, err := net.Listen("tcp", c.addrs[2])
	if err != nil {
		t.Fatal(err)
	}
	c.start(2, l)
	stale := engine.StoreOf(kv.Primitive, engine.NewRouter(c.rigs[2].peer.StaleDoor()), "trio", 0)
	await(t, "node 3", func() bool {
		_, err := stale.Get(t.Context(), fmt.Sprint("large/", values-1))
		return err == nil
	})
	mu.Lock()
	defer mu.Unlock()
	c.seen.mu.Lock()
	defer c.seen.mu.Unlock()
	t.Logf("%d bytes for %d bytes of values, %d messages with entries and %d heartbeats", passed, values*size, c.seen.kinds[raftpb.MsgApp], c.seen.kinds[raftpb.MsgHeartbeat])
	if passed > 2*values*size {
		t.Errorf("%d bytes were sent for %d bytes of values", passed, values*size)
	}
	if n := c.seen.kinds[raftpb.MsgHeartbeat]; n < 10 {
		t.Errorf("%d heartbeats came meanwhile", n)
	}
	if c.seen.taken > 0 {
		t.Error("a snapshot was taken")
	}
}
