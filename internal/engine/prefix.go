package engine

import "github.com/floedb/floe/internal/wait"

// prefixRoot is the topic of the empty prefix.
func prefixRoot(m MachineID, namespace string) Topic {
	return TopicOf(m, namespace, []byte("\x00prefix"))
}

// WaitOnPrefix subscribes the query to all keys of its machine in a namespace that start with a
// prefix, see Waker.Changed, before it returns ErrWait. When the query runs again, before is the
// first change of such a key that the previous view did not contain. It is 0 if the query was woken
// for another reason.
func (v *View) WaitOnPrefix(namespace string, prefix []byte) (before LSN, err error) {
	if v.waiter == nil {
		v.waiter = wait.NewWaiter(v.Now())
	}
	first, err := v.x.hub.SubscribePrefix(v.waiter, prefixRoot(v.machine, namespace), prefix)
	return LSN(first), subscribed(err)
}

// Waker wakes queries that wait for changes.
type Waker struct {
	hub     *wait.Hub
	machine MachineID
}

// Waiting reports whether any query waits.
func (w Waker) Waiting() bool { return w.hub.HasQueries() }

// Notify wakes up to n queries that wait for a topic; n < 0 wakes all.
func (w Waker) Notify(t Topic, n int) { w.hub.Notify(t, n) }

// Changed wakes all queries that wait for a prefix of the key, see View.WaitOnPrefix.
func (w Waker) Changed(c *Change) {
	if w.hub.HasPrefixes() {
		w.hub.NotifyPrefixes(prefixRoot(w.machine, c.Name), c.Key, uint64(c.LSN))
	}
}
