package shard

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
)

// Durability determines when a write is acknowledged.
type Durability uint8

// The durabilities; see package floe.
const (
	Sync Durability = iota
	Async
)

func (d Durability) String() string {
	switch d {
	case Sync:
		return "sync"
	case Async:
		return "async"
	}
	return fmt.Sprintf("Durability(%d)", uint8(d))
}

// Limits and defaults of Config.
const (
	MaxShards           = 256
	DefaultShards       = 4
	DefaultSyncInterval = 100 * time.Millisecond
	DefaultMaxValue     = 1 << 20
	LargestMaxValue     = 16 << 20
	defaultCache        = 256 << 20
	defaultMemoryCache  = 16 << 20
	defaultMemTable     = 16 << 20 // an insert into a larger one misses the processor's caches
	defaultQueueBytes   = 64 << 20
	defaultL0Tables     = 16 // merging fewer at a time would rewrite data more often
	rowCachePart        = 4  // the cache for rows is a fourth of the cache, the rest is for blocks of the state
)

// Config configures a Host. FS, Clock, Random and Transport are injected, so that a simulator can
// replace them (disk usage comes from FS).
type Config struct {
	Dir          string        // "": in memory
	Shards       int           // 0: the number of the directory, or DefaultShards
	Durability   Durability    // Async with several voters is Sync: raft counts on what a voter has acknowledged
	SyncInterval time.Duration // 0: DefaultSyncInterval
	// largest lead of shard time over Clock that is made up by running at half speed; 0: 7 days
	CatchUp    time.Duration
	CacheBytes int64 // 0: 256 MiB, in memory 16 MiB
	TableFiles int   // maximum number of open table files of the state database; 0: 1000
	MaxValue   int   // 0: DefaultMaxValue
	Logger     *slog.Logger
	Build      string             // version and revision of the program, recorded in FORMAT
	Primitives []engine.Primitive // each gets one machine per shard

	NodeID    uint64                   // 0: 1
	Voters    []uint64                 // members of every shard's raft group; nil: only this node
	Transport Transport                // nil: none, for a single node
	Alive     func(node uint64) bool   // whether another node has recently sent a sign of life; nil: always
	Full      func(node uint64) bool   // whether another node has reported a full disk; nil: never
	Problem   func(node uint64) string // why this node and another cannot reach each other, or ""; nil: always ""
	Traffic   func() Traffic           // of the port for clients and other nodes; nil: no port
	Clocks    bool                     // nodes exchange their time, see Host.ObserveClock
	Door      engine.Door              // to shards of other nodes, for deliveries between shards; nil: this host only

	FS            vfs.FS        // nil: the operating system's, or memory if Dir is ""
	Clock         Clock         // zero: the real one
	Random        io.Reader     // nil: crypto/rand
	TickInterval  time.Duration // 0: 75 ms; an election takes 10 to 20 ticks
	MemTableBytes uint64        // 0: 16 MiB, on a small volume less
	MemTableMost  uint64        // upper bound of the default of MemTableBytes; 0: none
	L0Tables      int           // flushes whose tables may overlap before they are merged; 0: 16
	SegmentBytes  int64         // 0: 64 MiB, on a small volume less
	MaxLogBytes   int64         // log size since the last flush of the state that forces a flush; 0: 512 MiB, on a small volume less
	LogCacheBytes int64         // cache of recent log entries; 0: 32 MiB
	QueueBytes    int64         // commands in flight in a shard; 0: 64 MiB
	StateBytes    int64         // memory of primitives, see engine.Kept; 0: their own defaults
	KeepEntries   uint64        // entries kept for lagging followers; 0: 10,000, none for a single node

	MinFreeBytes int64         // with less free on the disk the node is read-only; 0: 256 MiB or 2 % of the volume
	BallastBytes int64         // files given up when the disk is full; 0: 96 MiB or a 64th of the volume, negative: none
	DiskInterval time.Duration // interval of disk checks; 0: 1 s
	SlowDisk     time.Duration // a longer write or fsync is logged; 0: 2 s
	StuckDisk    time.Duration // a longer write or fsync fails the host; 0: 20 s

	CompareInterval time.Duration // between comparisons of the replicas of a shard that changes; 0: 30 s
	Unsettled       time.Duration // how long replicas may differ without a majority until the shard stops; 0: 10 s

	Forgetful   bool  // see engine.Config: for tests
	DutySpeedup int64 // see engine.Config and SpeedUpDuties: for tests

	asyncUnmet bool                 // Async was requested with several voters
	manual     bool                 // no goroutine is started: a simulator takes each step
	strict     bool                 // as if it were: commands are checked and measured
	watch      func() time.Duration // CPU time of the applying thread, to measure commands; nil: by Clock
	logSpares  int                  // spare files of the log; negative in memory, where reuse gains nothing
}

// Faults returns an error for each value that is out of range.
func (c *Config) Faults() (bad []error) {
	check := func(ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	check(c.Shards >= 0 && c.Shards <= MaxShards, "shards %d is not in 1-%d", c.Shards, MaxShards)
	check(c.Durability <= Async, "durability %v is neither sync nor async", c.Durability)
	check(c.CatchUp >= 0, "clock catch-up %v is negative", c.CatchUp)
	check(c.SyncInterval >= 0, "sync interval %v is negative", c.SyncInterval)
	check(c.MinFreeBytes >= 0, "min free %d is negative", c.MinFreeBytes)
	check(c.CacheBytes >= 0, "cache size %d is negative", c.CacheBytes)
	check(c.QueueBytes >= 0, "bytes of proposals %d are negative", c.QueueBytes)
	check(c.LogCacheBytes >= 0, "log cache size %d is negative", c.LogCacheBytes)
	check(c.MaxValue >= 0 && c.MaxValue <= LargestMaxValue, "max value size %d is not in 1-%d bytes", c.MaxValue, LargestMaxValue)
	return bad
}

// withDefaults fills in the defaults of zero fields. It returns an ErrInvalid that lists all fields
// out of range.
func (c Config) withDefaults() (Config, error) {
	if bad := c.Faults(); len(bad) > 0 {
		return c, engine.Errorf(engine.ErrInvalid, "floe: configuration: %v", errors.Join(bad...))
	}
	orDefault(&c.SyncInterval, DefaultSyncInterval)
	orDefault(&c.MaxValue, DefaultMaxValue)
	orDefault(&c.QueueBytes, defaultQueueBytes)
	orDefault(&c.NodeID, 1)
	orDefault(&c.DutySpeedup, dutySpeedupSet())
	orDefault(&c.TickInterval, 75*time.Millisecond)
	orDefault(&c.DiskInterval, defaultDiskInterval)
	orDefault(&c.CatchUp, defaultCatchUp)
	orDefault(&c.SlowDisk, defaultSlowDisk)
	orDefault(&c.StuckDisk, defaultStuckDisk)
	orDefault(&c.CompareInterval, compareInterval)
	orDefault(&c.Unsettled, unsettledFor)
	if c.Dir == "" && c.FS == nil {
		orDefault(&c.CacheBytes, defaultMemoryCache)
		c.FS, c.logSpares = vfs.NewMem(), -1
	}
	orDefault(&c.CacheBytes, defaultCache)
	if c.FS == nil {
		c.FS = vfs.Default
	}
	if c.Voters == nil {
		c.Voters = []uint64{c.NodeID}
	}
	if len(c.Voters) > 1 {
		c.asyncUnmet = c.Durability == Async
		c.Durability = Sync
		orDefault(&c.KeepEntries, 10_000)
	}
	if c.Clock == (Clock{}) {
		c.Clock = SystemClock()
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// fit fills in the sizes that depend on the size of the data's volume, 0 if it is unknown.
// Unflushed data, up to four memtables, takes at most half of the space that is kept free, because
// a compaction or another process may use that space too.
func (c *Config) fit(volume, minFree int64) {
	share := func(n, available int64) int64 {
		if volume == 0 {
			return n
		}
		return max(min(n, available), 128<<10)
	}
	most := int64(defaultMemTable)
	if c.MemTableMost > 0 {
		most = min(most, int64(c.MemTableMost))
	}
	orDefault(&c.MemTableBytes, uint64(share(most, minFree/8)))
	orDefault(&c.SegmentBytes, share(64<<20, minFree/4))
	orDefault(&c.MaxLogBytes, share(512<<20, volume/8))
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
