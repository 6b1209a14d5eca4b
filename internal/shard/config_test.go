package shard

import (
	"math"
	"testing"
	"time"
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
