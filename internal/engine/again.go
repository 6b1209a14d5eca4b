package engine

import "time"

// LookAgainAt makes a query that returns ErrWait run again at a time, in ms, unless it is woken
// earlier. If it is called several times in one run, the earliest time counts.
func (v *View) LookAgainAt(at int64) {
	if v.again == 0 || at < v.again {
		v.again = at
	}
}

// untilAgain returns a channel that fires at the time of LookAgainAt, or nil if there is no such
// time.
func (v *View) untilAgain() <-chan time.Time {
	if v.again == 0 {
		return nil
	}
	return time.After(time.Duration(max(v.again-v.now(), 1)) * time.Millisecond)
}
