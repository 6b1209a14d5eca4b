package flow

import (
	"github.com/floedb/floe/internal/document"
)

// Pause returns the pause in ms after an attempt, counted from 1: Initial, Initial times the
// attempt, or Initial doubled with each attempt, up to Max. random determines the jitter and must
// be the same on all replicas. Jitter is the maximum that is added or subtracted. If Jitter is 0,
// exponential jitter yields between half of the pause and all of it.
func (b *Backoff) Pause(attempt int64, random uint64) int64 {
	attempt = max(attempt, 1)
	limit := int64(document.MaxMillis)
	if b.Max > 0 {
		limit = min(limit, b.Max)
	}
	pause := min(max(b.Initial, 0), limit)
	switch b.Kind {
	case BackoffLinear:
		if pause > 0 && attempt > limit/pause {
			pause = limit
		} else {
			pause *= attempt
		}
	case BackoffExponential, BackoffExponentialJitter:
		for n := int64(1); n < attempt && 0 < pause && pause < limit; n++ {
			pause = min(2*pause, limit)
		}
	}
	switch {
	case b.Jitter > 0:
		spread := min(b.Jitter, document.MaxMillis)
		pause += int64(random%uint64(2*spread+1)) - spread
	case b.Kind == BackoffExponentialJitter:
		pause -= int64(random % uint64(pause/2+1))
	}
	return min(max(pause, 0), limit)
}
