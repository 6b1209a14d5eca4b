package engine

import (
	"sync/atomic"
	"time"
)

// checks are what an executor does in tests only, see Config. All but scanned belongs to the
// goroutine that applies.
type checks struct {
	strict    bool
	forgetful bool
	stopwatch func() time.Duration // nil: the time is 0
	efforts   map[string]*Effort   // by command; nil unless strict
	scanned   atomic.Int64         // rows that queries have read, counted if strict
}

// watch returns the time that measures what commands take.
func (c *checks) watch() time.Duration {
	if c.stopwatch == nil {
		return 0
	}
	return c.stopwatch()
}
