package cron

import (
	"slices"
	"time"
)

// CatchUp selects which missed ticks run. Missed ticks are those that came due while the node was
// down or its shard had no leader.
type CatchUp uint8

const (
	// CatchUpOne runs the latest missed tick, regardless of its age. One run replaces all missed
	// ones.
	CatchUpOne CatchUp = iota
	// CatchUpNone runs the latest missed tick only if it is not later than Grace.
	CatchUpNone
	// CatchUpAll runs each of the last n missed ticks, oldest first.
	CatchUpAll
)

// Limits of catching up.
const (
	// Grace is how late a tick may run without counting as missed. A change of leaders takes a few
	// seconds.
	Grace = time.Minute
	// MaxAll is the maximum number of ticks that CatchUpAll runs.
	MaxAll = 1000
	// maxCounted bounds the work of counting missed ticks to a few milliseconds.
	maxCounted = 10_000
)

// Due holds the ticks that came due between two times.
type Due struct {
	Run    []time.Time // ascending; at most one, except for CatchUpAll
	Missed int         // ticks that do not run; for an expression, not all beyond 10,000 are counted
	Next   time.Time   // the first tick afterwards; zero if none exists
}

// Due returns the ticks after one time and up to another, by a catch-up rule. n is the maximum
// number that CatchUpAll runs, 1 to MaxAll.
func (s *Schedule) Due(after, now time.Time, rule CatchUp, n int) Due {
	if rule != CatchUpAll {
		n = 1
	}
	run, count := s.latest(after, now, n)
	due := Due{Run: run, Missed: count - len(run)}
	if due.Next = s.Next(now); now.Before(after) {
		due.Next = s.Next(after)
	}
	if rule == CatchUpNone && len(run) > 0 && now.Sub(run[0]) > Grace {
		due.Run, due.Missed = nil, count
	}
	return due
}

// latest returns the last n ticks after one time and up to another, and their total count.
func (s *Schedule) latest(after, now time.Time, n int) ([]time.Time, int) {
	count := 0
	var ticks []time.Time
	for t := s.Next(after); within(t, now); t = s.Next(t) {
		if count == maxCounted {
			return s.backwards(after, now, n), s.count(after, now)
		}
		count++
		if ticks = append(ticks, t); len(ticks) >= 2*n {
			ticks = append(ticks[:0], ticks[len(ticks)-n:]...)
		}
	}
	return ticks[max(0, len(ticks)-n):], count
}

func (s *Schedule) count(after, now time.Time) int {
	if s.expr != nil {
		return maxCounted
	}
	return int((s.grid(now.UnixMilli()) - s.grid(after.UnixMilli())) / s.every)
}

// backwards finds the last n ticks by bisection if there are too many to iterate over.
func (s *Schedule) backwards(after, now time.Time, n int) []time.Time {
	var ticks []time.Time
	lo, hi := after.Unix(), now.UnixMilli()
	for len(ticks) < n && within(s.Next(time.Unix(lo, 0)), time.UnixMilli(hi)) {
		from, to := lo, hi/1000+1 // a tick lies after from, none after to
		for to-from > 1 {
			if mid := from + (to-from)/2; within(s.Next(time.Unix(mid, 0)), time.UnixMilli(hi)) {
				from = mid
			} else {
				to = mid
			}
		}
		tick := s.Next(time.Unix(from, 0))
		ticks = append(ticks, tick)
		hi = tick.UnixMilli() - 1
	}
	slices.Reverse(ticks)
	return ticks
}

// within reports whether there is a tick that is not after now.
func within(tick, now time.Time) bool { return !tick.IsZero() && !tick.After(now) }
