package engine

import "time"

// LookAgainAt makes a query that returns ErrWait look again at a time, ms, if nothing wakes it
// before. Of several times in a look the earliest counts.
func (v *View) LookAgainAt(at int64) {
	if v.again == 0 || at < v.again {
		v.again = at
	}
}

// untilAgain returns a channel that fires at the time of LookAgainAt, nil if there is none.
func (v *View) untilAgain() <-chan time.Time {
	if v.again == 0 {
		return nil
	}
	return time.After(time.Duration(max(v.again-v.now(), 1)) * time.Millisecond)
}
