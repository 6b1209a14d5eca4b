// Package quota decides when a randomised suite has run enough: after a number of rounds or, with
// the flag -for, after a time. A suite with fewer than -least rounds continues beyond that time,
// since the machine may be busy. Only the timeout of the test ends a suite that hangs.
//
//	q := quota.New(t, 60)
//	for q.More() { ... }
package quota
