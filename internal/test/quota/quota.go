package quota

import (
	"flag"
	"testing"
	"time"
)

var (
	forFlag   = flag.Duration("for", 0, "how long each suite runs; 0: as many rounds as it has by default, or a flag of its own says")
	leastFlag = flag.Int("least", 0, "with -for: how many rounds a suite does however long they take")
)

// Quota counts the rounds of a suite.
type Quota struct {
	t      testing.TB
	rounds int // used if there is no time
	last   time.Duration
	least  int
	began  time.Time
	n      int
}

// New returns the quota of a test that runs a number of rounds, unless -for sets a time. It logs
// the number of rounds when the test ends.
func New(t testing.TB, rounds int) *Quota {
	q := &Quota{t: t, rounds: rounds, last: *forFlag, least: *leastFlag, began: time.Now()}
	t.Cleanup(q.end)
	return q
}

// More reports whether another round should run, and counts it. It returns false after a failure.
func (q *Quota) More() bool {
	if q.t.Failed() || q.last == 0 && q.n >= q.rounds || q.last > 0 && q.over(time.Since(q.began)) {
		return false
	}
	q.n++
	return true
}

func (q *Quota) over(passed time.Duration) bool {
	return passed >= q.last && q.n >= q.least
}

// Rounds returns the number of rounds begun.
func (q *Quota) Rounds() int { return q.n }

func (q *Quota) end() {
	q.t.Helper()
	q.t.Logf("%d rounds in %v", q.n, time.Since(q.began).Round(time.Millisecond))
}
