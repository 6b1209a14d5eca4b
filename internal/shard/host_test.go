package shard

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
	"github.com/floedb/floe/kv"
)

func config(fsys vfs.FS) Config {
	return Config{Dir: "node", Shards: 2, FS: fsys, Primitives: []engine.Primitive{toy.Primitive()}}
}

func open(t *testing.T, c Config) *Host {
	t.Helper()
	h, err := Open(c)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return h
}

func closeHost(t *testing.T, h *Host) {
	t.Helper()
	if err := h.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// crash returns the file system after a crash: synced data, and part of the rest.
func crash(m *vfs.MemFS, rng *rand.Rand, unsyncedPercent int) *vfs.MemFS {
	return m.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsyncedPercent, RNG: rng})
}

func TestWorkloadThroughRestarts(t *testing.T) {
	noLeaks(t)
	s := seed(t)
	fsys := vfs.NewMem()
	ctx := context.Background()
	var w workload
	for range 4 {
		c := config(fsys)
		c.MemTableBytes, c.SegmentBytes = 256<<10, 64<<10
		h := open(t, c)
		w.door, w.rng = h, rand.New(rand.NewPCG(s, 3))
		w.create(ctx, t)
		w.run(ctx, t, 300)
		w.drained(ctx, t)
		w.check(ctx, t)
		closeHost(t, h)
	}
}

// TestCrashKeepsAcknowledged repeatedly takes a crash clone of the file system during writes, and
// checks that it holds everything acknowledged before.
func TestCrashKeepsAcknowledged(t *testing.T) {
	noLeaks(t)
	for _, percent := range []int{0, 50, 100} {
		t.Run(fmt.Sprintf("unsynced=%d", percent), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed(t), 4))
			fsys := vfs.NewCrashableMem()
			want := make([]int64, 4)
			for range 8 {
				fsys = crashUnderLoad(t, fsys, rng, percent, want)
			}
		})
	}
}

// crashUnderLoad checks that the counters are at least at want, increments them until the moment of
// the crash, and returns the crashed file system. A counter may be one ahead of the acknowledged
// count per writer.
func crashUnderLoad(t *testing.T, fsys *vfs.MemFS, rng *rand.Rand, percent int, want []int64) *vfs.MemFS {
	t.Helper()
	ctx := context.Background()
	c := config(fsys)
	c.MemTableBytes, c.SegmentBytes = 256<<10, 16<<10
	h := open(t, c)
	for i, n := range want {
		q := toy.Counter{Namespace: "default", Name: name(i)}
		if err := h.Query(ctx, engine.HomeShard("default", 2), &q); err != nil || q.Value < n || q.Value > n+1 {
			t.Fatalf("after the crash counter %d = %d, %v; %d were acknowledged", i, q.Value, err, n)
		}
		want[i] = q.Value
	}
	var acked [4]atomic.Int64
	for i, n := range want {
		acked[i].Store(n)
	}
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for i := range want {
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				cmd := toy.Command{Kind: toy.Add, Name: name(i), Delta: 1}.In("default")
				if _, err := h.Propose(ctx, engine.HomeShard("default", 2), cmd); err != nil {
					t.Errorf("add: %v", err)
					return
				}
				acked[i].Add(1)
			}
		})
	}
	// The crash comes after a random number of further acknowledgements.
	for goal := acked[0].Load() + rng.Int64N(60); acked[0].Load() < goal; {
		if err := h.Query(ctx, 0, &toy.Counter{Namespace: "default"}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range want {
		want[i] = acked[i].Load()
	}
	left := crash(fsys, rng, percent)
	close(stop)
	writers.Wait()
	// The counters advanced after the crash: only their crashed values count.
	for i := range want {
		if n := acked[i].Load(); n < want[i] {
			t.Fatalf("counter %d went back", i)
		}
	}
	closeHost(t, h)
	return left
}

// TestOutboxSurvivesCrash crashes between the sending and the delivery of messages, again and
// again: nothing is lost and nothing arrives twice.
func TestOutboxSurvivesCrash(t *testing.T) {
	noLeaks(t)
	rng := rand.New(rand.NewPCG(seed(t), 5))
	ctx := context.Background()
	fsys := vfs.NewCrashableMem()
	w := workload{rng: rng}
	for round := range 12 {
		h := open(t, config(fsys))
		w.door = h
		if round == 0 {
			w.create(ctx, t)
		}
		for range 30 {
			a, b := name(rng.IntN(toyCounters)), name(rng.IntN(toyCounters))
			if err := w.do(ctx, toySpread, toy.Command{Kind: toy.Send, Name: a, Target: b, Delta: 5}); err != nil &&
				!errors.Is(err, engine.ErrConflict) {
				t.Fatalf("send: %v", err)
			}
		}
		fsys = crash(fsys, rng, rng.IntN(101))
		closeHost(t, h)
	}
	h := open(t, config(fsys))
	defer closeHost(t, h)
	w.door = h
	w.drained(ctx, t)
	w.check(ctx, t)
	for _, s := range h.shards {
		if n := s.exec.Refused(); n != 0 {
			t.Errorf("shard %d refused %d messages, want 0", s.id, n)
		}
	}
}

func TestTimersFireAfterRestart(t *testing.T) {
	noLeaks(t)
	ctx := context.Background()
	fsys := vfs.NewMem()
	clock := &fakeClock{wall: 1_000_000}
	c := config(fsys)
	c.Clock = Clock{clock}
	h := open(t, c)
	for i := range 3 {
		cmd := toy.Command{Kind: toy.Later, Name: name(i), Delta: 7, Delay: 60_000}.In("default")
		if _, err := h.Propose(ctx, engine.HomeShard("default", 2), cmd); err != nil {
			t.Fatal(err)
		}
	}
	q := toy.Sum{Namespace: "default"}
	if err := h.Query(ctx, engine.HomeShard("default", 2), &q); err != nil || q.Sum != 0 {
		t.Fatalf("before they are due the sum is %d, %v; want 0", q.Sum, err)
	}
	closeHost(t, h)
	clock.advance(time.Minute)
	h = open(t, c)
	defer closeHost(t, h)
	for i := range 3 {
		q := toy.Counter{Namespace: "default", Name: name(i), Min: 7}
		if err := h.Query(ctx, engine.HomeShard("default", 2), &q); err != nil || q.Value != 7 {
			t.Errorf("timer %d after the restart: value %d, %v; want 7", i, q.Value, err)
		}
	}
}

// fakeClock stands still until the test moves it.
type fakeClock struct {
	mu   sync.Mutex
	wall int64
	mono time.Duration
}

func (c *fakeClock) Wall() int64 { c.mu.Lock(); defer c.mu.Unlock(); return c.wall }

func (c *fakeClock) Mono() time.Duration { c.mu.Lock(); defer c.mu.Unlock(); return c.mono }

func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += d.Milliseconds()
	c.mono += d
}

func TestShardTimeNeverGoesBack(t *testing.T) {
	source := &fakeClock{wall: 5000}
	c := shardClock{clock: Clock{source}, slowed: defaultCatchUp.Milliseconds()}
	if got := c.now(); got != 5000 {
		t.Fatalf("now() = %d, want 5000", got)
	}
	source.wall = 1000 // the wall clock is set back ...
	source.mono += 30 * time.Millisecond
	if got := c.now(); got != 5015 {
		t.Errorf("after the wall clock went back now() = %d, want 5015: it goes on at half the speed of the monotonic clock", got)
	}
	c.observe(9000)
	if got := c.now(); got != 9000 {
		t.Errorf("after the log said 9000 now() = %d, want 9000", got)
	}
	source.wall = 20_000 // ... and jumps forward
	if got := c.now(); got != 20_000 {
		t.Errorf("after a jump forward now() = %d, want 20000", got)
	}
}

// TestShardTimeKeepsPace: shard time ahead of the wall clock runs at half speed until the wall
// clock has caught up, however often it is read. If it is too far ahead for that, it runs at full
// speed, unless it must catch up all the same. Fractions of a millisecond used to be dropped each
// time.
func TestShardTimeKeepsPace(t *testing.T) {
	const day = 24 * 3_600_000
	for _, c := range []struct{ catchUp, ahead, passed, now int64 }{
		{0, 0, 7000, 7000},
		{0, 1, 7000, 7000},
		{0, 3000, 7000, 7000},                  // they met after 6 s
		{0, 4000, 7000, 7500},                  // here not yet
		{0, 7 * day, 7000, 7*day + 3500},       // the largest lead that is slowed down
		{0, 7*day + 1, 1, 7*day + 2},           // full speed
		{0, 7*day + 1, 7000, 7*day + 1 + 3500}, // a millisecond later its lead is small enough
		{0, 400 * day, 7000, 400*day + 7000},
		{400, 400 * day, 7000, 400*day + 3500},
		{1, 2 * day, 7000, 2*day + 7000},
	} {
		source := &fakeClock{wall: 1000 + c.ahead}
		conf, err := Config{CatchUp: time.Duration(c.catchUp) * 24 * time.Hour}.withDefaults()
		must(t, err)
		s := shardClock{clock: Clock{source}, slowed: conf.CatchUp.Milliseconds()}
		s.now()
		source.wall = 1000
		for passed := time.Duration(0); passed < time.Duration(c.passed)*time.Millisecond; passed += 500 * time.Microsecond {
			source.mono += 500 * time.Microsecond
			source.wall = 1000 + source.mono.Milliseconds()
			s.now()
		}
		if got := s.now() - 1000; got < c.now-1 || got > c.now+1 {
			t.Errorf("%d ms after the wall clock was set back by %d ms now() = %d, want %d", c.passed, c.ahead, got, c.now)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	noLeaks(t)
	ctx := context.Background()
	create := func(t *testing.T) *vfs.MemFS {
		fsys := vfs.NewMem()
		h := open(t, config(fsys))
		if _, err := h.Propose(ctx, 0, toy.Command{Kind: toy.Add, Name: "a", Delta: 1}.In(homed(0))); err != nil {
			t.Fatal(err)
		}
		closeHost(t, h)
		return fsys
	}
	for _, c := range []struct {
		name   string
		change func(t *testing.T, fsys *vfs.MemFS, c *Config)
		want   string
	}{
		{"other number of shards", func(t *testing.T, fsys *vfs.MemFS, c *Config) { c.Shards = 3 }, "was created with 2 shards, not 3"},
		{"other node", func(t *testing.T, fsys *vfs.MemFS, c *Config) { c.NodeID = 7 }, "belongs to node 1, not 7"},
		{"other members", func(t *testing.T, fsys *vfs.MemFS, c *Config) { c.Voters = []uint64{3, 1, 2} },
			"belongs to a cluster of the nodes [1], not [1 2 3]"},
		{"newer format", func(t *testing.T, fsys *vfs.MemFS, c *Config) {
			must(t, writeFormat(fsys, "node",
				format{Version: FormatVersion + 1, Shards: 2, NodeID: 1, Voters: []uint64{1}, Written: "floe 9.0.0"}))
		}, "has format 4, last written by floe 9.0.0, this program supports up to 3: use a newer floe"},
		{"older format", func(t *testing.T, fsys *vfs.MemFS, c *Config) {
			must(t, writeFormat(fsys, "node", format{Version: 1, Shards: 2, NodeID: 1, Voters: []uint64{1}}))
		}, "has format 1, a layout before the first release, written by an unnamed build; this program reads formats 2 to 3"},
		{"other shards and node", func(t *testing.T, fsys *vfs.MemFS, c *Config) { c.Shards, c.NodeID = 3, 7 },
			"was created with 2 shards, not 3: the number cannot be changed; belongs to node 1, not 7; belongs"},
		{"damaged format", func(t *testing.T, fsys *vfs.MemFS, c *Config) {
			must(t, writeFile(fsys, "node/FORMAT", []byte("{")))
		}, "FORMAT is damaged"},
		{"no format", func(t *testing.T, fsys *vfs.MemFS, c *Config) { must(t, fsys.Remove("node/FORMAT")) }, "no FORMAT file"},
		{"no log", func(t *testing.T, fsys *vfs.MemFS, c *Config) { must(t, fsys.RemoveAll("node/log")) }, "the log holds 0 of 2 shards"},
		{"no state", func(t *testing.T, fsys *vfs.MemFS, c *Config) { must(t, fsys.RemoveAll("node/state")) },
			"part of the state has been lost"},
		{"bad values", func(t *testing.T, fsys *vfs.MemFS, c *Config) { c.Shards, c.MaxValue = -1, 1<<30 }, "shards -1 is not in 1-256"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := create(t)
			cfg := config(fsys)
			if c.name == "no state" {
				truncated(t, cfg)
			}
			c.change(t, fsys, &cfg)
			h, err := Open(cfg)
			if err == nil {
				closeHost(t, h)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("Open = %v, want an error with %q", err, c.want)
			}
			// The refused open has released the directory.
			lock, err := lockDir(fsys, "node")
			if err != nil {
				t.Fatalf("lock after the refusal: %v", err)
			}
			must(t, lock.Close())
		})
	}
}

// truncated makes the log begin after a flush of the state.
func truncated(t *testing.T, c Config) {
	t.Helper()
	h := open(t, c)
	must(t, h.db.Flush())
	must(t, h.truncate())
	closeHost(t, h)
}

// homed returns a namespace whose home is the given one of two shards.
func homed(shard engine.ShardID) string {
	for i := 0; ; i++ {
		if ns := fmt.Sprintf("ns%d", i); engine.HomeShard(ns, 2) == shard {
			return ns
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestUnknownShardIsInvalid: a caller assumes more shards than there are.
func TestUnknownShardIsInvalid(t *testing.T) {
	noLeaks(t)
	h := open(t, config(vfs.NewMem()))
	defer closeHost(t, h)
	if _, err := h.Propose(t.Context(), 2, engine.Skip(0)); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("Propose to shard 2 of 2 = %v, want ErrInvalid", err)
	}
	if err := h.Query(t.Context(), 2, &toy.Counter{}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("Query of shard 2 of 2 = %v, want ErrInvalid", err)
	}
}

func TestDirectoryIsLocked(t *testing.T) {
	noLeaks(t)
	dir := t.TempDir()
	c := Config{Dir: dir, Primitives: []engine.Primitive{toy.Primitive()}}
	h := open(t, c)
	_, err := Open(c)
	if !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), "in use by another node") {
		t.Errorf("second Open = %v, want ErrUnavailable saying who has the directory", err)
	}
	c.Dir = dir + "/../" + dir[strings.LastIndex(dir, "/")+1:]
	if _, err := Open(c); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("second Open by another name = %v, want ErrUnavailable", err)
	}
	closeHost(t, h)
	h = open(t, c)
	closeHost(t, h)
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func stats(t *testing.T, h *Host) Stats {
	t.Helper()
	st, err := h.Stats()
	must(t, err)
	return st
}

// TestOpenNeedsRandomNumbers: Open fails without the random numbers that it needs, and releases the
// directory.
func TestOpenNeedsRandomNumbers(t *testing.T) {
	noLeaks(t)
	for n := int64(0); ; n++ {
		c := config(vfs.NewMem())
		c.Random = io.LimitReader(cryptorand.Reader, n)
		h, err := Open(c)
		if err == nil {
			if closeHost(t, h); n < 16 {
				t.Errorf("it opens two shards with %d bytes", n)
			}
			return
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		lock, err := lockDir(c.FS, "node")
		must(t, err)
		must(t, lock.Close())
	}
}

// TestOpenEndsWithItsContext: OpenContext ends at each point where it checks its context.
func TestOpenEndsWithItsContext(t *testing.T) {
	noLeaks(t)
	for n, err := 0, context.Canceled; err != nil; n++ {
		var h *Host
		if h, err = OpenContext(&endingContext{t.Context(), n}, config(vfs.NewMem())); err == nil {
			if closeHost(t, h); n < 2 {
				t.Errorf("it checks its context %d times", n)
			}
		} else if !errors.Is(err, context.Canceled) {
			t.Fatalf("ended at check %d: %v", n, err)
		}
	}
}

// limited is kept memory that notes its limit.
type limited struct{ limit int64 }

func (l *limited) SetLimit(bytes int64)         { l.limit = bytes }
func (l *limited) Used() (bytes, maximum int64) { return 0, l.limit }

// TestStateBytes: a limit that is set is passed on.
func TestStateBytes(t *testing.T) {
	noLeaks(t)
	for _, bytes := range []int64{0, 1, 1 << 20} {
		kept := limited{7}
		c := config(vfs.NewMem())
		c.StateBytes, c.Primitives[0].Kept = bytes, &kept
		closeHost(t, open(t, c))
		if want := max(bytes, 7*b2i(bytes == 0)); kept.limit != want {
			t.Errorf("StateBytes %d sets the limit %d, want %d", bytes, kept.limit, want)
		}
	}
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// TestFailureIsReportedLast: when the failure of a node is logged, it accepts no more calls.
func TestFailureIsReportedLast(t *testing.T) {
	noLeaks(t)
	var h *Host
	logged := 0
	c := config(vfs.NewMem())
	c.Logger = slog.New(onLog{func(msg, _ string) {
		if msg == "node failed" {
			logged++
			if _, err := h.Propose(t.Context(), 0, engine.Skip(0)); !errors.Is(err, engine.ErrUnavailable) {
				t.Errorf("a write meanwhile: %v", err)
			}
		}
	}})
	h = open(t, c)
	cause := errors.New("first")
	h.Fail(cause)
	h.Fail(errors.New("second"))
	if h.Err() != cause || h.isBroken() || logged != 1 {
		t.Errorf("it has failed with %v, broken %t, in %d lines", h.Err(), h.isBroken(), logged)
	}
	if err := h.Close(); !errors.Is(err, cause) {
		t.Errorf("Close = %v", err)
	}
	h = open(t, config(vfs.NewMem()))
	h.fail(errStopping)
	if h.Err() != nil {
		t.Errorf("a write that ended with the host is a failure: %v", h.Err())
	}
	closeHost(t, h)
}

// TestCallsOfAHost: calls with a context that is done, of unknown shards, and of a closed host.
func TestCallsOfAHost(t *testing.T) {
	noLeaks(t)
	h := open(t, config(vfs.NewMem()))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	take := engine.Take{Command: engine.Skip(0), Wait: time.Hour}
	calls := map[string]func(ctx context.Context, id engine.ShardID) error{
		"Propose": func(ctx context.Context, id engine.ShardID) error {
			_, err := h.Propose(ctx, id, engine.Skip(0))
			return err
		},
		"Take":       func(ctx context.Context, id engine.ShardID) error { _, err := h.Take(ctx, id, take); return err },
		"Query":      func(ctx context.Context, id engine.ShardID) error { return h.Query(ctx, id, &toy.Sum{}) },
		"QueryStale": func(ctx context.Context, id engine.ShardID) error { return h.QueryStale(ctx, id, &toy.Sum{}) },
	}
	for name, call := range calls {
		all, writes := h.rate.count.Load(), h.shards[0].admission.calls.Load()
		if err := call(gone, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("%s of a caller that has gone: %v", name, err)
		}
		counted := b2i(name == "Propose" || name == "Take")
		if all, writes = h.rate.count.Load()-all, h.shards[0].admission.calls.Load()-writes; all != counted || writes != counted {
			t.Errorf("%s is counted as %d calls and %d writes, want %d", name, all, writes, counted)
		}
		if err := call(t.Context(), 2); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%s of shard 2 of 2: %v", name, err)
		}
	}
	if leader := h.Leader(1); leader != 1 || !h.Leads(1) {
		t.Errorf("the leader is %d, want this node", leader)
	}
	closeHost(t, h)
	for name, call := range calls {
		for id := range engine.ShardID(3) {
			if err := call(t.Context(), id); !errors.Is(err, engine.ErrClosed) {
				t.Errorf("%s of shard %d of a closed host: %v", name, id, err)
			}
		}
	}
}

// TestCached: rows are answered from memory by a single node that leads.
func TestCached(t *testing.T) {
	noLeaks(t)
	h := open(t, kvConfig(vfs.NewMem(), Sync))
	router := engine.NewRouter(h)
	store := engine.StoreOf[kv.Store](router, "default", 0)
	_, err := store.Put(t.Context(), "k", []byte("v"))
	must(t, err)
	id := engine.HomeShard("default", 3)
	cached := func() bool {
		reads := h.rate.count.Load()
		e, err := store.Get(t.Context(), "k")
		if err == nil && string(e.Value) != "v" {
			t.Errorf("the value is %q", e.Value)
		}
		return err == nil && h.rate.count.Load() == reads
	}
	cached() // a row is cached when it is read again
	for range 2 {
		cached()
	}
	if !cached() {
		t.Error("a row that is often read is not answered from memory")
	}
	role := &h.shards[id].role
	role.leading.Store(false)
	if cached() {
		t.Error("a node that does not lead answers from memory")
	}
	role.leading.Store(true)
	closeHost(t, h)
	if cached() {
		t.Error("a closed node answers from memory")
	}
	h.closing.Store(false)
	role.leading.Store(true)
	if !cached() {
		t.Error("the memory of a closed node has the row no more, so that the next check can not fail")
	}
	h.cfg.Voters = []uint64{1, 2, 3} // no goroutine reads it any more
	if cached() {
		t.Error("a node with others answers from memory")
	}
}
