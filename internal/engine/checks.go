package engine

import (
	"sync/atomic"
	"time"
)

// checks holds data for checks that an executor makes only in tests; see Config. All fields but
// scanned belong to the goroutine that applies.
type checks struct {
	strict    bool
	forgetful bool
	stopwatch func() time.Duration // nil: the time is 0
	fault     func() error         // see Config.Fault
	efforts   map[string]*Effort   // by command; nil unless strict
	scanned   atomic.Int64         // rows that queries have read, counted if strict
}

// watch returns the time for measuring commands.
func (c *checks) watch() time.Duration {
	if c.stopwatch == nil {
		return 0
	}
	return c.stopwatch()
}
