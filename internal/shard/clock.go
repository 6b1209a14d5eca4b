package shard

import (
	"sync"
	"time"
)

// Clock is the source of time. Wall may jump in either direction; Mono never goes back and
// continues while Wall jumps.
type Clock struct {
	Source interface {
		Wall() int64 // ms since the epoch
		Mono() time.Duration
	}
}

// SystemClock returns the machine's clock.
func SystemClock() Clock { return Clock{systemClock{time.Now()}} }

type systemClock struct{ start time.Time }

func (c systemClock) Wall() int64         { return time.Now().UnixMilli() }
func (c systemClock) Mono() time.Duration { return time.Since(c.start) }

// defaultCatchUp is the default of Config.CatchUp: the largest lead of shard time over the wall
// clock that is corrected by running at half speed. A larger one would double every timeout for
// weeks.
const defaultCatchUp = 7 * 24 * time.Hour

// shardClock is the source of a shard's time: the wall clock, but never earlier than a time it has
// returned or a time in the log. If that is ahead of the wall clock, time neither goes back nor
// stops. It runs at half speed until the wall clock has caught up.
type shardClock struct {
	clock  Clock
	others *clocks // other nodes' clocks, which hold it back; nil: none
	slowed int64   // ms: the largest lead that is made up

	mu   sync.Mutex // guards last and at
	last int64      // the latest time returned, or seen in the log
	at   time.Duration
}

// now returns the time in ms since the epoch.
func (c *shardClock) now() int64 {
	wall, mono := c.clock.Source.Wall(), c.clock.Source.Mono()
	if c.others != nil {
		wall = c.others.limit(wall, mono)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	tick := 2 * time.Millisecond // of the monotonic clock, for a millisecond of shard time
	if c.last-wall > c.slowed {
		tick = time.Millisecond
	}
	// Fractions of a tick carry over to the next call. Otherwise a clock that is read often would
	// lose most of its time.
	ticks := (mono - c.at) / tick
	if slow := c.last + int64(ticks); wall >= slow {
		c.last, c.at = wall, mono
	} else {
		c.last, c.at = slow, c.at+ticks*tick
	}
	return c.last
}

// mono returns monotonic time in ms.
func (c *shardClock) mono() int64 { return c.clock.Source.Mono().Milliseconds() }

// observe makes the clock return no time before stamp.
func (c *shardClock) observe(stamp int64) {
	mono := c.clock.Source.Mono()
	c.mu.Lock()
	defer c.mu.Unlock()
	if stamp > c.last {
		c.last, c.at = stamp, mono
	}
}

// ready reports whether the clock can be trusted. In a cluster this requires a quorum of clocks.
func (c *shardClock) ready() bool { return c.others == nil || c.others.known.Load() }
