// Package wait holds the queries and claims that wait in one shard, and decides which of them can
// proceed when a topic is notified. It is a data structure: it reads no state, proposes no commands
// and starts no goroutines. The engine checks the state and passes the result as a Look.
//
// A query waits as a Waiter. It is subscribed to its topics until it is answered. A notification
// puts a token into its channel. The query then checks the state again, and sleeps if necessary.
//
// A Claim is a blocking command that takes items, such as a dequeue. It is in one of three states.
// Only a parked claim has places in the lines of its topics:
//
//	      Begin                      End, with an outcome
//	new --------> under way ------------------------------> answered
//	 |             ^     |                                     ^
//	 |        Pull |     | End, then Park: it found nothing    |
//	 |             |     v                                     |
//	 '--- Park ---> parked ------------------------------------'
//	                       Abandon, or Pull after the caller has left
//
// A claim that is under way reserves the items of its first topic that it may take, from Begin or
// Pull until End. So the hub sends no more claims than there are items for.
//
// Waiters of a topic proceed in the order in which they started to wait. Waiters of the same
// millisecond proceed in the order of arrival.
package wait

import "math"

// Topic identifies an event for which queries and claims wait, and which commands notify. It is a
// hash of a name. Two names with the same hash wake each other's waiters, which then find nothing
// and wait again.
type Topic uint64

// Extend returns the topic of a longer prefix from that of a shorter one and the bytes between
// them, as FNV-1a does.
func (t Topic) Extend(k []byte) Topic {
	for _, b := range k {
		t = (t ^ Topic(b)) * 1099511628211
	}
	return t
}

const (
	// MaxWaiters is the maximum number of queries and claims that wait in one shard. Each takes
	// about a kilobyte, including its goroutine.
	MaxWaiters = 100_000
	// MaxClaims is more than the number of claims that can wait.
	MaxClaims = MaxWaiters + 1
	// Any means that the number of available items is unknown.
	Any = -1
	// Never is the wake-up time of a claim that has none.
	Never = math.MaxInt64
)

// Wakeup means that up to N waiters of a topic may be able to proceed, or all of them if N < 0.
type Wakeup struct {
	Topic  Topic
	N      int
	Within bool  // each of the topics within Topic is meant
	Of     Slots // kinds of the items
}

// Merge adds a wake-up to those that are due. Commands of one batch often notify the same topics,
// so Merge combines it with one of the last eight if possible.
func Merge(due []Wakeup, w Wakeup) []Wakeup {
	for i := len(due) - 1; i >= max(0, len(due)-8); i-- {
		if d := &due[i]; d.Topic == w.Topic && d.Within == w.Within {
			if d.N += w.N; w.N < 0 || d.N-w.N < 0 {
				d.N = -1
			}
			d.Of = d.Of.with(&w.Of)
			return due
		}
	}
	return append(due, w)
}
