// Package wait holds the queries and claims that wait in one shard, and decides which of them can
// proceed when a topic is notified. It is a data structure: it reads no state, proposes nothing and
// starts no goroutine. The engine looks at the state and passes the result in as a Look.
//
// A query waits as a Waiter. It is subscribed to its topics until it is answered. A notification
// puts a token into its channel; the query then looks at the state again and sleeps if it has to.
//
// A Claim is a blocking command that takes something, such as a dequeue. It is in one of three
// states; only a parked claim has places in the lines of its topics:
//
//	      Begin                      End, with an outcome
//	new --------> under way ------------------------------> answered
//	 |             ^     |                                     ^
//	 |        Pull |     | End, then Park: it found nothing    |
//	 |             |     v                                     |
//	 '--- Park ---> parked ------------------------------------'
//	                       Abandon, or Pull after the caller has left
//
// A claim that is under way reserves what it may take of its first topic, from Begin or Pull until
// End. So the hub sends no more claims than the available items are enough for.
//
// Waiters of a topic proceed in the order of the time since which they wait. Waiters of the same
// millisecond proceed in the order of arrival.
package wait

import "math"

// Topic is what a query or a claim waits for and commands notify: a hash of a name. Two names with
// the same hash wake each other's waiters, which then find nothing and wait again.
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
	// MaxWaiters is how many queries and claims may wait in one shard. Each costs about a kilobyte,
	// including its goroutine.
	MaxWaiters = 100_000
	// MaxClaims is more than the number of claims that can wait.
	MaxClaims = MaxWaiters + 1
	// Any is a number of available items that is not known.
	Any = -1
	// Never is the time of a claim that does not wait for a time.
	Never = math.MaxInt64
)

// Wakeup says that up to N waiters of a topic may be able to proceed; all of them if N < 0.
type Wakeup struct {
	Topic  Topic
	N      int
	Within bool  // each of the topics within Topic is meant
	Of     Slots // kinds of the items
}

// Merge adds a wake-up to those that are due. Commands of one batch often notify the same topics,
// so it is merged with one of the last eight if possible.
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
