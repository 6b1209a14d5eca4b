package peer

import (
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// lockedLog is a log of warnings.
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

// TestClockAhead: the clock of a leader is set 10 minutes ahead. No entry gets that time, the node gives up the leadership and does not get it back until
// its clock is right. All its keys with a time to live used to end at once, and nothing was said.
func TestClockAhead(t *testing.T) {
	t.Parallel()
	clock, log := &skewed{start: time.Now()}, new(lockedLog)
	c := &trio{t: t}
	c.clocks[0] = shard.Clock{Source: clock}
	c.log[0] = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	c.open()
	store := c.dial()
	if _, err := store.Put(t.Context(), "short", nil, kv.TTL(5*time.Minute)); err != nil {
		t.Fatal(err)
	}
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
		if _, err := store.Put(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
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
	if !log.has("this node gives up what it leads: its clock is ") || !log.has("s ahead of those of most nodes") {
		t.Errorf("the log says\n%s", &log.b)
	}
	s, err := c.rigs[1].host.Stats()
	if err != nil || !strings.Contains(s.Nodes[0].Problem, "ahead of those of most nodes") {
		t.Errorf("node 2 says %q, %v of node 1", s.Nodes[0].Problem, err)
	}
	clock.by.Store(0)
	await(t, "the leadership to come back", func() bool { return leader() == 1 })
	stamped("in the end")
}
