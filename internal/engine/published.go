package engine

import "sync/atomic"

// published is the progress of the applying goroutine, for other goroutines.
type published struct {
	visible     atomic.Uint64 // index of the last entry whose effects queries see
	visibleTerm atomic.Uint64 // its term
	stamp       atomic.Int64  // its time, ms
	nextDue     atomic.Int64  // due time of the earliest timer
	refused     atomic.Int64  // messages of other shards that were refused here
}

// set publishes what Commit or Restore has made visible. The time is stored first, so a reader that
// waited for an index finds the time of that entry or a later one.
func (p *published) set(a Applied, nextDue int64) {
	p.stamp.Store(a.Stamp)
	p.visible.Store(a.Index)
	p.visibleTerm.Store(a.Term)
	p.nextDue.Store(nextDue)
}

// Stamp returns the time of the last entry whose effects queries see, ms.
func (x *Executor) Stamp() int64 { return x.published.stamp.Load() }

// Visible returns the index of the last entry whose effects queries see.
func (x *Executor) Visible() uint64 { return x.published.visible.Load() }

// VisibleTerm returns the term of the last entry whose effects queries see. If it is a leader's own
// term, the leader has applied everything that was committed before.
func (x *Executor) VisibleTerm() uint64 { return x.published.visibleTerm.Load() }

// NextDue returns the due time of the earliest timer in ms since the epoch, or NoTimer. It may be
// too early, but never too late.
func (x *Executor) NextDue() int64 { return x.published.nextDue.Load() }

// Refused returns the number of messages of other shards that this replica has refused since it
// started.
func (x *Executor) Refused() int64 { return x.published.refused.Load() }
