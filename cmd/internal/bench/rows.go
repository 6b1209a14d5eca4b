package main

import (
	"fmt"
	"runtime"
	"time"

	"github.com/floedb/floe"
)

// row is a row of the table: a work, its bar, and how it is measured.
type row struct {
	name     string
	against  string  // the limit of the ratio; "" if the figure is absolute
	bar      float64 // minimum ratio (0: no bar), or the bar of an absolute value
	absolute bool    // the figure is a value, not a ratio
	more     bool    // for a value: more is better, so the bar is a minimum
	unit     string  // unit of the value
	short    bool    // measured in the short form too
	work     work
}

// work is the measurement of a row.
type work interface {
	measure(b *bench) (result, error)
}

// result is the result of a measurement.
type result struct {
	ratio float64
	value float64 // for rows with an absolute figure
	figures
	limit figures
}

// settings are the amounts to measure.
type settings struct {
	rounds  int
	last    time.Duration // length of a round
	shards  []int
	fsync   time.Duration // added to each sync in the rows with a slower disk
	keys    int           // number of stored keys for reads
	hot     int           // number of those that are read repeatedly
	puts    int64         // puts of the sustained row
	tail    int           // commands that the slowest open replays
	counted int64         // calls per caller whose allocations are counted
	behind  int           // messages and records that exist already, or that are processed in one run
}

const (
	bigCache  = 6 << 30 // holds 10 million keys of the table's size
	perSample = 64      // reads per timed read
	memoryBar = 60      // MiB
	limitL1   = "L1"
	limitL2   = "L2"
	limitL3   = "L3"
	limitL4   = "L4"
	limitPut  = "floe put"
	limitBare = "Pebble"

	limitEmptyQueue  = "an empty queue"
	limitEmptyStream = "an empty stream"

	limitEmbedded = "embedded"
	limitOne      = "one node"
)

// rows returns the rows of the table, as in performance.md.
func (b *bench) rows() []row {
	var rows []row
	for _, shards := range b.settings.shards {
		rows = append(rows, b.durable(shards)...)
	}
	rows = append(rows, b.recycled()...)
	for _, shards := range b.settings.shards {
		rows = append(rows, b.slowDisk(shards)...)
	}
	rows = append(rows, b.otherWrites()...)
	rows = append(rows, b.overwrites()...)
	rows = append(rows, b.queues()...)
	rows = append(rows, b.messages()...)
	rows = append(rows, b.actions()...)
	rows = append(rows, b.workflows()...)
	rows = append(rows, b.jobs()...)
	rows = append(rows, b.floql()...)
	rows = append(rows, b.series()...)
	rows = append(rows, b.reads()...)
	rows = append(rows, b.network()...)
	rows = append(rows, b.rest()...)
	rows = append(rows, b.operations()...)
	return append(rows, b.absolute()...)
}

// putBars are the bars of durable puts by number of callers.
var putBars = []struct {
	callers int
	bar     float64
}{{1, 0.95}, {64, 0.70}, {256, 0.50}, {1024, 0.40}}

func (b *bench) durable(shards int) (rows []row) {
	for _, p := range putBars {
		rows = append(rows, row{
			name: fmt.Sprintf("put/%d/shards=%d", p.callers, shards), against: limitL1, bar: p.bar, short: shards <= 4 && p.callers != 1024,
			work: duel{load: b.writes(p.callers), floe: b.puts(setup{shards: shards}), limit: b.bareFile(0)},
		})
	}
	return rows
}

// recycled returns the rows of the other physical limit: a log that overwrites the blocks of
// segments it no longer needs.
func (b *bench) recycled() (rows []row) {
	for _, delay := range []time.Duration{0, b.settings.fsync} {
		for _, p := range putBars {
			if delay > 0 && !slowCallers(p.callers) {
				continue
			}
			rows = append(rows, row{
				name: fmt.Sprintf("recycled/%d%s", p.callers, slower(delay)), against: limitL1,
				work: duel{load: b.writes(p.callers), floe: b.recycledFile(delay), limit: b.bareFile(delay)},
			})
		}
	}
	return rows
}

func slowCallers(n int) bool { return n == 64 || n == 256 }

func slower(delay time.Duration) string {
	if delay == 0 {
		return ""
	}
	return fmt.Sprintf("/fsync+%v", delay)
}

func (b *bench) slowDisk(shards int) (rows []row) {
	for _, p := range putBars {
		if !slowCallers(p.callers) {
			continue
		}
		delay := b.settings.fsync
		rows = append(rows, row{
			name: fmt.Sprintf("put/%d/shards=%d%s", p.callers, shards, slower(delay)), against: limitL1, bar: p.bar,
			short: shards == 4 && p.callers == 64,
			work:  duel{load: b.writes(p.callers), floe: b.puts(setup{shards: shards, fsync: delay}), limit: b.bareFile(delay)},
		})
	}
	return rows
}

func (b *bench) writes(callers int) load {
	return load{callers: callers, last: b.settings.last, sample: 1}
}

func (b *bench) otherWrites() (rows []row) {
	rows = append(rows, row{
		name: "sustained/256/shards=4", against: limitL1, bar: 0.35,
		work: duel{load: b.writes(256), floe: b.puts(setup{shards: 4}), limit: b.bareFile(0), once: true, calls: b.settings.puts},
	})
	for _, shards := range b.settings.shards {
		rows = append(rows, row{
			name: fmt.Sprintf("async/64/shards=%d", shards), against: limitL2, bar: 0.6, short: shards == 4,
			work: duel{load: b.writes(64), floe: b.puts(setup{shards: shards, durability: floe.Async}), limit: b.barePebble()},
		})
	}
	for _, shards := range b.settings.shards {
		s := setup{shards: shards}
		rows = append(rows, row{
			name: fmt.Sprintf("txn/64/shards=%d", shards), against: limitPut, bar: 0.5, short: shards == 4,
			work: duel{load: b.writes(64), floe: b.txns(s), limit: b.puts(s)},
		})
	}
	return rows
}

func (b *bench) reads() []row {
	hot, all := b.stored(b.settings.hot), b.stored(b.settings.keys)
	// With more callers than processors, latency would only measure the wait for a processor.
	hotLoad := load{callers: runtime.GOMAXPROCS(0), last: b.settings.last, sample: perSample, existing: b.settings.hot}
	allLoad := hotLoad
	allLoad.existing = b.settings.keys
	scanLoad := allLoad
	scanLoad.sample = 1
	cached := setup{shards: 1, cacheBytes: bigCache}
	return []row{
		{
			name: "get/hot", against: limitL3, bar: 0.5, short: true,
			work: duel{load: hotLoad, floe: b.gets(setup{shards: 1}, hot, b.heat), limit: b.mapGets(b.settings.hot)},
		},
		{
			name: "get/cached", against: limitBare, bar: 0.9, short: true,
			work: duel{load: allLoad, floe: b.gets(cached, all, drain), limit: b.bareGets(bigCache, all)},
		},
		{
			name: "scan/100", against: limitBare, bar: 0.6, short: true,
			work: duel{load: scanLoad, floe: b.scans(cached, all), limit: b.bareScans(bigCache, all)},
		},
		{name: "open/keys", bar: 1000, unit: "ms", absolute: true, work: openStored{all}},
	}
}

func (b *bench) absolute() []row {
	return []row{
		{name: "open/empty", bar: 100, unit: "ms", absolute: true, work: openEmpty{}},
		{name: "open/replay", bar: 2000, unit: "ms", absolute: true, work: openReplay{}},
		{name: "memory/empty", bar: memoryBar, unit: "MiB", absolute: true, short: true, work: memory{}},
		{name: "allocs/get", bar: 0, unit: "allocs", absolute: true, short: true, work: allocs{callers: 1, reads: true}},
		{name: "allocs/put/1", bar: 6, unit: "allocs", absolute: true, short: true, work: allocs{callers: 1}},
		{name: "allocs/put/64", bar: 6, unit: "allocs", absolute: true, short: true, work: allocs{callers: 64}},
	}
}
