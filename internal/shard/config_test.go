package shard

import (
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestConfigLimits: the last value of each limit is accepted, and the next one is refused.
func TestConfigLimits(t *testing.T) {
	for name, row := range map[string]struct {
		set       func(c *Config, n int64)
		good, bad []int64
	}{
		"shards":       {func(c *Config, n int64) { c.Shards = int(n) }, []int64{0, 1, MaxShards}, []int64{-1, MaxShards + 1}},
		"value size":   {func(c *Config, n int64) { c.MaxValue = int(n) }, []int64{0, LargestMaxValue}, []int64{-1, LargestMaxValue + 1}},
		"catch-up":     {func(c *Config, n int64) { c.CatchUp = time.Duration(n) }, []int64{0, math.MaxInt64}, []int64{-1}},
		"interval":     {func(c *Config, n int64) { c.SyncInterval = time.Duration(n) }, []int64{0, math.MaxInt64}, []int64{-1}},
		"free bytes":   {func(c *Config, n int64) { c.MinFreeBytes = n }, []int64{0, math.MaxInt64}, []int64{-1}},
		"cache":        {func(c *Config, n int64) { c.CacheBytes = n }, []int64{0, math.MaxInt64}, []int64{-1}},
		"proposals":    {func(c *Config, n int64) { c.QueueBytes = n }, []int64{0, math.MaxInt64}, []int64{-1}},
		"log's cache":  {func(c *Config, n int64) { c.LogCacheBytes = n }, []int64{0, math.MaxInt64}, []int64{-1}},
		"durabilities": {func(c *Config, n int64) { c.Durability = Durability(n) }, []int64{0, int64(Async)}, []int64{int64(Async) + 1}},
	} {
		for _, n := range row.good {
			var c Config
			if row.set(&c, n); len(c.Faults()) != 0 {
				t.Errorf("%s %d: %v", name, n, c.Faults())
			}
		}
		for _, n := range row.bad {
			var c Config
			if row.set(&c, n); len(c.Faults()) != 1 {
				t.Errorf("%s %d: %v, want an error", name, n, c.Faults())
			}
		}
	}
}

// TestFit: sizes follow the volume and the space kept free, down to a minimum and up to a maximum.
func TestFit(t *testing.T) {
	const mib = 1 << 20
	for _, row := range []struct{ volume, minFree, memTable, segment, log int64 }{
		{0, 0, defaultMemTable, 64 * mib, 512 * mib},
		{1 << 40, 1 << 40, defaultMemTable, 64 * mib, 512 * mib},
		{4096 * mib, 256 * mib, defaultMemTable, 64 * mib, 512 * mib},
		{800 * mib, 80 * mib, 10 * mib, 20 * mib, 100 * mib},
		{1, 1, mib / 8, mib / 8, mib / 8},
	} {
		var c Config
		c.fit(row.volume, row.minFree)
		if int64(c.MemTableBytes) != row.memTable || c.SegmentBytes != row.segment || c.MaxLogBytes != row.log {
			t.Errorf("volume %d, %d kept free: %d, %d and %d, want %d, %d and %d", row.volume, row.minFree, c.MemTableBytes, c.SegmentBytes,
				c.MaxLogBytes, row.memTable, row.segment, row.log)
		}
		set := Config{MemTableBytes: 1, SegmentBytes: 2, MaxLogBytes: 3, MemTableMost: 5}
		if set.fit(row.volume, row.minFree); set.MemTableBytes != 1 || set.SegmentBytes != 2 || set.MaxLogBytes != 3 {
			t.Errorf("values that were set became %+v", set)
		}
	}
	c := Config{MemTableMost: 5 * mib}
	if c.fit(0, 0); c.MemTableBytes != 5*mib {
		t.Errorf("memtables of %d bytes, want at most %d", c.MemTableBytes, 5*mib)
	}
}

// TestDefaults: zero fields get their defaults, and others are kept.
func TestDefaults(t *testing.T) {
	type values struct {
		sync, tick, disk, catchUp, slow, stuck, compare, unsettled time.Duration
		maxValue                                                   int
		queue, cache                                               int64
		node, keep                                                 uint64
		voters                                                     string
		spares                                                     int
		random, clock, logger, memory                              bool
	}
	of := func(c Config) values {
		c, err := c.withDefaults()
		must(t, err)
		_, memory := c.FS.(*vfs.MemFS)
		return values{c.SyncInterval, c.TickInterval, c.DiskInterval, c.CatchUp, c.SlowDisk, c.StuckDisk, c.CompareInterval, c.Unsettled,
			c.MaxValue, c.QueueBytes, c.CacheBytes, c.NodeID, c.KeepEntries, fmt.Sprint(c.Voters), c.logSpares,
			c.Random == cryptorand.Reader, c.Clock.Source != nil, c.Logger != nil, memory}
	}
	standard := values{100 * time.Millisecond, 75 * time.Millisecond, time.Second, 7 * 24 * time.Hour, 2 * time.Second, 20 * time.Second,
		30 * time.Second, 10 * time.Second, 1 << 20, defaultQueueBytes, defaultCache, 1, 0, "[1]", 0, true, true, true, false}
	inMemory, onThree, small := standard, standard, standard
	inMemory.cache, inMemory.spares, inMemory.memory = defaultMemoryCache, -1, true
	onThree.node, onThree.voters, onThree.keep = 2, "[1 2 3]", 10_000
	small = values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, "[12]", 0, false, true, true, false}
	for name, c := range map[string]struct {
		c    Config
		want values
	}{
		"directory": {Config{Dir: "d"}, standard},
		"memory":    {Config{}, inMemory},
		"given":     {Config{Dir: "d", FS: vfs.Default, CacheBytes: defaultCache}, standard},
		"cluster":   {Config{Dir: "d", NodeID: 2, Voters: []uint64{1, 2, 3}}, onThree},
		"set": {Config{Dir: "d", SyncInterval: 1, TickInterval: 2, DiskInterval: 3, CatchUp: 4, SlowDisk: 5, StuckDisk: 6,
			CompareInterval: 7, Unsettled: 8,
			MaxValue: 9, QueueBytes: 10, CacheBytes: 11, NodeID: 12, KeepEntries: 13, Random: strings.NewReader("")}, small},
	} {
		if got := of(c.c); got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, c.want)
		}
	}
}

// TestTableGateHolds: the next table waits for its pauses, and for the space that the last attempt
// took, but not forever.
func TestTableGateHolds(t *testing.T) {
	for _, c := range []struct {
		pauses, longest int32
		least, free     int64
		held            bool
	}{
		{0, 0, 0, 0, false}, {1, 0, 0, 9, true}, {0, 1, 5, 4, true}, {0, 1, 5, 5, false}, {0, 0, 5, 4, false}, {0, -1, 5, 4, false},
		{-1, 0, 0, 0, false}, {-1, 1, 1, 0, true},
	} {
		gate := tableGate{space: &space{}}
		gate.pauses.Store(c.pauses)
		gate.longest.Store(c.longest)
		gate.min.Store(c.least)
		gate.space.free.Store(c.free)
		if got := gate.held(); got != c.held {
			t.Errorf("%+v: held %t", c, got)
		}
	}
	for _, spares := range []bool{false, true} {
		gate := tableGate{space: &space{}, spares: spares}
		gate.written.Store(401)
		gate.failed()
		least, longest := int64(401/4*5+1), int32((reservePatience-1)*pausesPerInterval)
		if spares {
			least, longest = 2*(401/4*5)+1, 60*pausesPerInterval
		}
		if gate.min.Load() != least || gate.longest.Load() != longest || gate.pauses.Load() != pausesPerInterval {
			t.Errorf("spares=%t: after a failure %d bytes, %d and %d pauses; want %d, %d, %d", spares, gate.min.Load(), gate.longest.Load(),
				gate.pauses.Load(), least, longest, pausesPerInterval)
		}
		gate.end(errors.New("failed again"))
		if gate.min.Load() != least {
			t.Error("a failure ends the wait")
		}
		if gate.end(nil); gate.min.Load() != 0 {
			t.Error("a success does not end the wait")
		}
		if gate.begin(); gate.written.Load() != 0 {
			t.Error("an attempt begins with the bytes of the last one")
		}
		keep := map[bool]int{false: ballastPieces, true: ballastPieces / 2}
		for _, opened := range []bool{false, true} {
			if gate.space.opened.Store(opened); gate.keep() != keep[opened && !spares] {
				t.Errorf("spares=%t, opened=%t: %d pieces are kept", spares, opened, gate.keep())
			}
		}
	}
}
