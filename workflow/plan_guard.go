package workflow

import (
	"github.com/floedb/floe/internal/flow"
)

// breakerState is the state of a breaker.
type breakerState uint8

const (
	breakerClosed   breakerState = iota // passes calls
	breakerOpen                         // rejects calls, until a time
	breakerHalfOpen                     // passes a few calls as probes
	breakerEnd
)

// verdict is the meaning of an attempt for its executor's breaker and health.
type verdict uint8

const (
	verdictNone verdict = iota
	verdictGood
	verdictBad
)

// shut reports whether the breaker rejects a call.
func (x *executorRow) shut(b *flow.Breaker, now int64) bool {
	switch x.state {
	case breakerOpen:
		return now < x.until
	case breakerHalfOpen:
		return x.probes >= b.Probes && now < x.until
	}
	return false
}

// enter admits a call, and returns the epoch for its result. Each change of a breaker's state
// begins an epoch with a number that is unique in the plan, and results of older epochs are
// ignored. Probes without a result for a cooldown do not block others.
func (k *known) enter(x *executorRow, b *flow.Breaker, now int64) uint64 {
	switch {
	case x.epoch == 0:
		k.begin(x, breakerClosed)
	case x.state == breakerOpen:
		k.begin(x, breakerHalfOpen)
		x.probes, x.until = 1, now+b.Cooldown
	case x.state == breakerHalfOpen && x.until <= now:
		x.probes, x.until = 1, now+b.Cooldown
		k.changed = true
	case x.state == breakerHalfOpen:
		x.probes++
		k.changed = true
	}
	return x.epoch
}

// begin begins an epoch.
func (k *known) begin(x *executorRow, s breakerState) {
	k.epochs++
	x.epoch, x.state, x.failures, x.probes, x.until = k.epochs, s, 0, 0, 0
	k.changed = true
}

// judge records the result of a call. It reports whether the breaker has opened.
func (k *known) judge(x *executorRow, b *flow.Breaker, epoch uint64, v verdict, now int64) (opened bool) {
	if epoch != x.epoch {
		return false
	}
	switch {
	case x.state == breakerHalfOpen && v == verdictGood:
		k.begin(x, breakerClosed)
	case x.state == breakerHalfOpen && v == verdictNone:
		x.probes = max(x.probes-1, 0)
		k.changed = true
	case x.state == breakerClosed && v == verdictGood && x.failures > 0:
		x.failures = 0
		k.changed = true
	case v == verdictBad:
		x.failures++
		k.changed = true
		if x.state == breakerHalfOpen || x.failures > b.Failures || x.failures == b.Failures {
			k.open(x, now+b.Cooldown)
			return true
		}
	}
	return false
}

// open opens the breaker until a time.
func (k *known) open(x *executorRow, until int64) {
	k.begin(x, breakerOpen)
	x.until = until
}

// Rates use the generic cell rate algorithm, in µs. Each rate stores the time at which all calls so
// far would be due if they were evenly spaced. A burst up to the limit may be ahead of it. A shard
// of a spread namespace has its share of the limit.

// interval returns the time between calls, and how far they may be ahead.
func interval(r flow.Rate, shares int64) (every, ahead int64) {
	const micros = 1000
	every = max((r.Per*micros*shares+r.Limit-1)/r.Limit, 1)
	return every, (max(r.Limit/shares, 1) - 1) * every
}

// rateOf returns the stored state of a rate.
func (x *executorRow) rateOf(r flow.Rate) *int64 {
	switch {
	case r.Per <= 1000:
		return &x.rates[0]
	case r.Per <= 60_000:
		return &x.rates[1]
	}
	return &x.rates[2]
}

// leave returns the earliest time at which all rates allow a call.
func (x *executorRow) leave(rates []flow.Rate, shares, now int64) int64 {
	at := now
	for _, r := range rates {
		_, ahead := interval(r, shares)
		at = max(at, (*x.rateOf(r)-ahead+999)/1000)
	}
	return at
}

// take counts a call at a time returned by leave.
func (x *executorRow) take(rates []flow.Rate, shares, at int64) {
	for _, r := range rates {
		every, _ := interval(r, shares)
		due := x.rateOf(r)
		*due = max(*due, at*1000) + every
	}
}

// Health is stored in units of 1/65536.
const (
	healthOne  = 1 << 16
	healthMost = 1 << 46 // larger counts are halved
)

// note counts a result.
func (x *executorRow) note(h *flow.Health, good bool, now int64) {
	x.fade(h, now)
	if good {
		x.good += healthOne
	} else {
		x.bad += healthOne
	}
	if x.good+x.bad > healthMost {
		x.good, x.bad = x.good/2, x.bad/2
	}
}

// fade reduces the weight of results older than a window.
func (x *executorRow) fade(h *flow.Health, now int64) {
	if x.good+x.bad == 0 {
		x.since = now
		return
	}
	n := (now - x.since) / h.Window
	if n <= 0 {
		return
	}
	x.since += n * h.Window
	f := power(h.Decay, n)
	x.good, x.bad = x.good/healthOne*f+x.good%healthOne*f/healthOne, x.bad/healthOne*f+x.bad%healthOne*f/healthOne
}

// power returns f to the n-th power, both in 1/65536.
func power(f, n int64) int64 {
	p := int64(healthOne)
	for ; n > 0 && p > 0; n >>= 1 {
		if n&1 == 1 {
			p = p * f / healthOne
		}
		f = f * f / healthOne
	}
	return p
}

// score returns the share of good attempts. An executor with too few of them counts as healthy.
func (x *executorRow) score(h *flow.Health, now int64) int64 {
	y := *x
	y.fade(h, now)
	all := y.good + y.bad
	if all == 0 || all < min(h.MinSamples, healthMost/healthOne)*healthOne {
		return healthOne
	}
	return y.good/all*healthOne + y.good%all*healthOne/all
}
