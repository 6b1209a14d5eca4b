// Package quota says when a randomised suite has run enough: after so many rounds, or, with the
// flag -for, when its time is over. A suite that has done less than -least by then goes on, since
// the machine may be busy; the timeout of the test is what ends one that hangs.
//
//	q := quota.New(t, 60)
//	for q.More() { ... }
package quota
