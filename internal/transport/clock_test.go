package transport

import (
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/kv"
)

// skewed is a clock that can be set.
type skewed struct {
	start time.Time
	by    atomic.Int64 // ms
}

func (c *skewed) Wall() int64         { return time.Now().UnixMilli() + c.by.Load() }
func (c *skewed) Mono() time.Duration { return time.Since(c.start) }

// fullable is a file system with a disk that can be full.
type fullable struct {
	vfs.FS
	full atomic.Bool
}

func (f *fullable) GetDiskUsage(string) (vfs.DiskUsage, error) {
	const size = 1 << 30
	u := vfs.DiskUsage{TotalBytes: size, AvailBytes: size / 2}
	if f.full.Load() {
		u.AvailBytes = size / 100
	}
	u.UsedBytes = u.TotalBytes - u.AvailBytes
	return u, nil
}

// TestFullDiskOfLeader: a node whose disk is full gives up its leaderships and regains them when
// there is space again, so writes continue. They used to be refused for as long as the disk was
// full, although two other nodes had space.
func TestFullDiskOfLeader(t *testing.T) {
	t.Parallel()
	disk := &fullable{FS: vfs.NewMem()}
	c := &trio{t: t}
	c.fs[0] = disk
	c.open()
	store := c.dial()
	leader := func(node int) uint64 {
		s, err := c.rigs[node-1].host.Stats()
		if err != nil {
			t.Fatal(err)
		}
		return s.Shards[0].Leader
	}
	await(t, "node 1 to lead", func() bool { return leader(2) == 1 })
	disk.full.Store(true)
	await(t, "node 1 to be read-only", func() bool { return c.rigs[0].host.ReadOnly() })
	await(t, "another leader, known to node 1", func() bool { return leader(2) > 1 && leader(1) > 1 })
	c.put(store, "key", make([]byte, 16<<10))
	await(t, "the others to know", func() bool { return c.rigs[1].peer.Full(1) && c.rigs[2].peer.Full(1) })
	disk.full.Store(false)
	await(t, "node 1 to lead again", func() bool { return leader(2) == 1 })
}

// lockedLog collects warnings of the log.
type lockedLog struct {
	mu sync.Mutex // guards b
	b  strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.b.String(), text)
}

// TestClockAhead: the clock of a leader is set 10 minutes ahead. No entry gets that time. The node
// gives up the leadership and does not get it back until its clock is right. All its keys with a
// time to live used to expire at once, without a log line.
func TestClockAhead(t *testing.T) {
	t.Parallel()
	clock, log := &skewed{start: time.Now()}, new(lockedLog)
	c := &trio{t: t}
	c.clocks[0] = shard.Clock{Source: clock}
	c.log[0] = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	c.open()
	store := c.dial()
	c.put(store, "short", nil, kv.TTL(5*time.Minute))
	clock.by.Store((10 * time.Minute).Milliseconds())
	leader := func() uint64 {
		s, err := c.rigs[0].host.Stats()
		if err != nil {
			t.Fatal(err)
		}
		return s.Shards[0].Leader
	}
	stamped := func(key string) {
		t.Helper()
		c.put(store, key, nil)
		e, err := store.Get(t.Context(), key)
		if ahead := time.Until(e.UpdatedAt); err != nil || ahead > time.Minute {
			t.Errorf("%s is stamped %v ahead, %v", key, ahead, err)
		}
		if _, err := store.Get(t.Context(), "short"); err != nil {
			t.Errorf("%s: the key with 5 minutes to live: %v", key, err)
		}
	}
	stamped("at once")
	await(t, "the leadership to be given up", func() bool { l := leader(); return l > 1 })
	stamped("under another leader")
	if !log.has("this node gives up its leaderships: its clock is ") || !log.has("s ahead of those of most nodes") {
		t.Errorf("the log says\n%s", &log.b)
	}
	await(t, "node 2 to know of the clock of node 1", func() bool {
		s, err := c.rigs[1].host.Stats()
		return err == nil && strings.Contains(s.Nodes[0].Problem, "ahead of those of most nodes")
	})
	clock.by.Store(0)
	await(t, "the leadership to come back", func() bool { return leader() == 1 })
	stamped("in the end")
}
