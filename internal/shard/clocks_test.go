package shard

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// TestClocks: a clock may be up to a second ahead of the median, and is off beyond that. A jump is
// held back at once. If two clocks differ, the right one is unknown.
func TestClocks(t *testing.T) {
	const start, minutes = 1_000_000, 600_000
	for _, c := range []struct {
		others    []int64 // readings of the clocks of nodes 2, 3 ..., relative to the start
		own       int64   // reading of node 1's clock, likewise
		now       int64   // stamp of its shards
		off       int64
		ready     bool
		otherOffs []int64
	}{
		{nil, minutes, minutes, 0, false, nil},
		{[]int64{0}, minutes, 1000, 0, true, []int64{0}},
		{[]int64{0}, -minutes, -minutes, 0, true, []int64{0}},
		{[]int64{0, 0}, 1000, 1000, 0, true, []int64{0, 0}},
		{[]int64{0, 0}, 1001, 1000, 1001, true, []int64{0, 0}},
		{[]int64{0, 0}, minutes, 1000, minutes, true, []int64{0, 0}},
		{[]int64{0, 0}, -minutes, -minutes, -minutes, true, []int64{0, 0}},
		{[]int64{0, minutes}, 0, 0, 0, true, []int64{0, minutes}},
		{[]int64{0, minutes}, 10, 10, 0, true, []int64{0, minutes - 10}},
		{[]int64{-5000, 5000}, 0, 0, 0, true, []int64{-5000, 5000}},
		{[]int64{0, 5000}, 10_000, 6000, 5000, true, []int64{-5000, 0}},
		{[]int64{0, 0, 0, minutes}, minutes, 1000, minutes, true, []int64{0, 0, 0, minutes}},
		{[]int64{0, 0, minutes, minutes}, 0, 0, 0, true, []int64{0, 0, minutes, minutes}},
	} {
		source := &fakeClock{wall: start}
		k := newClocks(&Config{NodeID: 1, Voters: make([]uint64, max(3, len(c.others)+1)), Clock: Clock{source}, Clocks: true,
			Logger: slog.New(slog.DiscardHandler)})
		for i, wall := range c.others {
			k.observe(uint64(i+2), start+wall, 0)
		}
		source.wall = start + c.own
		s := shardClock{clock: Clock{source}, others: k}
		if got := s.now() - start; got != c.now || s.ready() != c.ready {
			t.Errorf("%+v: now %d, ready %v", c, got, s.ready())
		}
		if got := k.offset(1); got != c.off {
			t.Errorf("%+v: off by %d", c, got)
		}
		for i, want := range c.otherOffs {
			if got := k.offset(uint64(i + 2)); got != want {
				t.Errorf("%+v: node %d is off by %d, want %d", c, i+2, got, want)
			}
		}
	}
}

// TestClockJumpAlone: a single node accepts a jump and logs it.
func TestClockJumpAlone(t *testing.T) {
	var log bytes.Buffer
	source := &fakeClock{wall: 1000}
	k := newClocks(&Config{NodeID: 1, Voters: []uint64{1}, Clock: Clock{source}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s := shardClock{clock: Clock{source}, others: k}
	k.look()
	source.advance(time.Hour)
	k.look()
	if log.Len() > 0 {
		t.Errorf("an hour later the log says\n%s", &log)
	}
	source.wall += 3_600_000
	k.look()
	if got := s.now(); got != source.wall || !s.ready() || !strings.Contains(log.String(), "by=1h0m0s") {
		t.Errorf("now() = %d, want %d; the log says\n%s", got, source.wall, &log)
	}
}

// TestStartedInTheFuture: a single node that once ran with a clock ahead reports it at its start
// and in its status, until the clock has reached that time. It used to stay in the future without a
// message.
func TestStartedInTheFuture(t *testing.T) {
	fsys, source := vfs.NewMem(), &fakeClock{wall: 1_000_000}
	start := func() (*Host, *bytes.Buffer) {
		t.Helper()
		log := new(bytes.Buffer)
		h, err := Open(Config{
			Dir: "node", FS: fsys, Shards: 1, Clock: Clock{source}, Primitives: []engine.Primitive{toy.Primitive()},
			Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
		must(t, err)
		return h, log
	}
	problem := func(h *Host) string {
		t.Helper()
		s, err := h.Stats()
		must(t, err)
		return s.Nodes[0].Problem
	}
	source.wall += 3_600_000
	h, _ := start()
	if p := problem(h); p != "" {
		t.Errorf("with a clock that nobody has set: %s", p)
	}
	must(t, h.Close())
	source.wall -= 3_600_000
	h, log := start()
	must(t, h.Close()) // the log is not written to any more
	if !strings.Contains(log.String(), "in the future: its data is 1h0m0s ahead of its clock") {
		t.Errorf("the log says %s", log)
	}
	h, _ = start()
	defer h.Close()
	if p := problem(h); !strings.Contains(p, "ahead of its clock") {
		t.Errorf("an hour ahead: %q", p)
	}
}

// TestUncertainClocks: an uncertain comparison counts only if there is no better one, or only an
// old one; it widens the tolerance.
func TestUncertainClocks(t *testing.T) {
	const start = 1_000_000
	for _, c := range []struct {
		later         time.Duration // time of the second comparison
		first, second int64         // their uncertainty
		taken         bool
	}{
		{0, 0, clockUncertain, true}, {0, 0, clockUncertain + 1, false}, {0, clockUncertain + 2, clockUncertain + 1, true}, {0,
			clockUncertain + 1, clockUncertain + 1, false},
		{clockOld*time.Millisecond - time.Millisecond, 0, clockUncertain + 1, false}, {clockOld * time.Millisecond, 0, clockUncertain + 1,
			true},
	} {
		source := &fakeClock{wall: start}
		k := newClocks(&Config{NodeID: 1, Voters: []uint64{1, 2}, Clock: Clock{source}, Clocks: true,
			Logger: slog.New(slog.DiscardHandler)})
		k.observe(2, start-60_000, c.first)
		source.advance(c.later)
		k.observe(2, source.Wall()-70_000, c.second)
		base, uncertain := int64(60_000), c.first
		if c.taken {
			base, uncertain = 70_000, c.second
		}
		s := shardClock{clock: Clock{source}, others: k}
		if got, want := source.Wall()-s.now(), base-clockTolerance-uncertain; got != want {
			t.Errorf("%+v: held back by %d ms, want %d", c, got, want)
		}
	}
}

// TestClockIsOff: a node logs once that its clock is off, and once that it is right again. Messages
// about other nodes name them.
func TestClockIsOff(t *testing.T) {
	var log bytes.Buffer
	source := &fakeClock{wall: 1_000_000}
	k := newClocks(&Config{NodeID: 1, Voters: []uint64{1, 2, 3}, Clock: Clock{source}, Clocks: true,
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	k.observe(2, 1_000_000, 0)
	k.observe(3, 1_000_000, 0)
	for _, c := range []struct {
		wall int64
		says string // log text about this node's clock
		log  string
	}{
		{1_000_000, "", ""},
		{1_001_000, "", ""},
		{1_001_001, "its clock is 1.001s ahead of those of most nodes", "this node gives up its leaderships"},
		{1_002_000, "its clock is 2s ahead of those of most nodes", ""},
		{999_000, "", "it may lead"},
		{998_999, "its clock is 1.001s behind those of most nodes", "this node gives up its leaderships"},
	} {
		source.wall = c.wall
		log.Reset()
		if got := k.problem(1); got != c.says || k.isOff() != (c.says != "") || k.problem(2) != "" || k.problem(9) != "" {
			t.Errorf("at %d: %q, want %q", c.wall, got, c.says)
		}
		if !strings.Contains(log.String(), c.log) || (c.log == "") != (log.Len() == 0) {
			t.Errorf("at %d the log says %q, want %q", c.wall, &log, c.log)
		}
	}
}

// TestObserveClock: the clocks of other nodes count if Config.Clocks is set.
func TestObserveClock(t *testing.T) {
	for _, clocks := range []bool{true, false} {
		source := &fakeClock{wall: 1_000_000}
		h, err := Open(Config{
			Dir: "node", FS: vfs.NewMem(), Shards: 1, NodeID: 1, Voters: []uint64{1, 2, 3}, Clock: Clock{source}, Clocks: clocks,
			Primitives: []engine.Primitive{toy.Primitive()},
			Logger:     slog.New(slog.DiscardHandler), manual: true,
		})
		must(t, err)
		for node, off := range map[uint64]int64{2: 5000, 3: 5000, 4: -5000} {
			h.ObserveClock(node, h.Wall()+off, -3)
		}
		want := ""
		if clocks {
			want = "its clock is 5s behind those of most nodes"
		}
		if got := h.clocks.problem(1); got != want {
			t.Errorf("clocks %v: %q, want %q", clocks, got, want)
		}
		must(t, h.Close())
	}
}

// TestQuorumOfClocks: the time is known once a majority of clocks is, this node's included.
func TestQuorumOfClocks(t *testing.T) {
	for voters, quorum := range map[int]int{2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 4} {
		k := newClocks(&Config{NodeID: 1, Voters: make([]uint64, voters), Clock: Clock{&fakeClock{wall: 1000}}, Clocks: true,
			Logger: discard()})
		for clocks := 2; clocks <= voters; clocks++ {
			if k.known.Load() {
				t.Errorf("of %d clocks %d are known, which is enough before %d", voters, clocks-1, quorum)
			}
			if k.observe(uint64(clocks), 1000, 0); clocks == quorum {
				break
			}
		}
		if !k.known.Load() {
			t.Errorf("of %d clocks %d are known, which is not enough", voters, quorum)
		}
	}
}
