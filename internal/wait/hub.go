package wait

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Hub holds the waiters of one shard. Its methods may be called by any goroutine.
//
// A waiter has a place in the line of each of its topics, so the time for joining and leaving does
// not depend on the length of the lines. A query keeps its places while it checks the state again,
// so it misses no notification. A claim that is under way has no places.
type Hub struct {
	waiters    atomic.Int32            // queries and parked claims, without background queries
	parked     atomic.Int32            // the parked claims among them
	prefixes   atomic.Int32            // lines of prefixes
	background atomic.Pointer[[]Topic] // topics of background queries; a notification of another topic does not lock mu for them

	mu      sync.Mutex // guards the fields below; the hub calls nothing outside the package under it
	lines   map[Topic]*line
	within  map[Topic]*family  // by parent: the topics within it that have waiters
	order   uint64             // of arrival
	lengths map[Topic]*lengths // by root: the lengths of prefixes that have waiters
	offers  map[Topic]int      // offers since the last Renotify
}

// Waiter is a waiting query. Set its fields before it subscribes.
type Waiter struct {
	Parent     Topic // of its first topic, 0: none; see Hub.NotifyWithin
	Background bool  // it does not count as a waiter, and MaxWaiters does not apply to it

	c       chan struct{} // capacity 1: a notification that has not been received; nil for a claim
	claim   *Claim        // nil for a query
	since   int64         // waiters of a topic are in this order
	order   uint64        // and those of the same time in this
	places  []*lineEntry
	changed uint64 // see Hub.SubscribePrefix; guarded by Hub.mu
}

// NewHub returns a hub without waiters.
func NewHub() *Hub {
	return &Hub{lines: make(map[Topic]*line), within: make(map[Topic]*family), lengths: make(map[Topic]*lengths),
		offers: make(map[Topic]int)}
}

// NewWaiter returns a query that has been waiting since a time (ms).
func NewWaiter(since int64) *Waiter { return &Waiter{c: make(chan struct{}, 1), since: since} }

// Woken receives a value after one of the topics has been notified.
func (w *Waiter) Woken() <-chan struct{} { return w.c }

// Topics returns how many topics the query is subscribed to.
func (w *Waiter) Topics() int { return len(w.places) }

// Waiting returns how many queries and claims wait, without background queries.
func (h *Hub) Waiting() int { return int(h.waiters.Load()) }

// HasQueries reports whether any query waits, other than background queries.
func (h *Hub) HasQueries() bool { return h.waiters.Load() > h.parked.Load() }

// HasParked reports whether a claim is parked.
func (h *Hub) HasParked() bool { return h.parked.Load() > 0 }

// Subscribe adds a query to a topic, unless it is already there. It fails if MaxWaiters are
// already waiting.
func (h *Hub) Subscribe(w *Waiter, t Topic) error {
	if w.waitsFor(t) {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.subscribeLocked(w, t)
}

func (w *Waiter) waitsFor(t Topic) bool {
	return slices.ContainsFunc(w.places, func(p *lineEntry) bool { return p.line.topic == t })
}

func (h *Hub) subscribeLocked(w *Waiter, t Topic) error {
	switch {
	case w.Background:
		h.setBackground(append(h.backgroundTopics(), t))
	case len(w.places) == 0:
		if err := h.roomLocked(); err != nil {
			return err
		}
		h.waiters.Add(1)
	}
	h.joinLocked(w, t)
	return nil
}

// backgroundTopics returns a copy.
func (h *Hub) backgroundTopics() []Topic {
	if all := h.background.Load(); all != nil {
		return slices.Clone(*all)
	}
	return nil
}

func (h *Hub) setBackground(topics []Topic) { h.background.Store(&topics) }

// idle reports whether no query can be waiting for a topic.
func (h *Hub) idle(t Topic) bool {
	if h.waiters.Load() != h.parked.Load() {
		return false
	}
	topics := h.background.Load()
	return topics == nil || !slices.Contains(*topics, t)
}

func (h *Hub) roomLocked() error {
	if n := h.waiters.Load(); n >= MaxWaiters {
		return fmt.Errorf("%d queries and takes wait in this shard, the limit is %d", n, MaxWaiters)
	}
	return nil
}

// joinLocked gives a waiter a place in the line of a topic.
func (h *Hub) joinLocked(w *Waiter, t Topic) {
	if w.order == 0 {
		h.order++
		w.order = h.order
	}
	if len(w.places) == 0 {
		h.enterLocked(w.Parent, t)
	}
	l := h.lineLocked(t)
	p := &lineEntry{w: w, line: l}
	l.turnsOf(w).insert(p)
	w.places = append(w.places, p)
}

// quitLocked removes all places of a waiter.
func (h *Hub) quitLocked(w *Waiter) {
	h.leaveLocked(w.Parent, w.places[0].line.topic)
	for _, p := range w.places {
		p.line.turnsOf(w).remove(p)
		h.tidyLocked(p.line)
	}
	clear(w.places)
	w.places = w.places[:0]
}

// Unsubscribe removes a query from its topics. If it has been woken and has not received the value,
// the next query of each topic is woken in its place.
func (h *Hub) Unsubscribe(w *Waiter) {
	if len(w.places) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-w.c:
		for _, p := range w.places {
			p.line.wakeOther(w)
		}
	default:
	}
	if w.Background {
		left := h.backgroundTopics()
		for _, p := range w.places {
			i := slices.Index(left, p.line.topic)
			left = slices.Delete(left, i, i+1)
		}
		h.setBackground(left)
	} else {
		h.waiters.Add(-1)
	}
	h.quitLocked(w)
}

// Notify wakes up to n queries that wait for a topic and have not been woken yet; n < 0 wakes all.
func (h *Hub) Notify(t Topic, n int) {
	if h.idle(t) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notifyLocked(t, n)
}

// NotifyWithin wakes up to n queries of each topic within the parent.
func (h *Hub) NotifyWithin(parent Topic, n int) {
	if h.waiters.Load() == h.parked.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.childrenLocked(parent, func(t Topic) { h.notifyLocked(t, n) })
}

// NotifyAll wakes all queries, because the whole state was replaced, or this replica may no longer
// answer them.
func (h *Hub) NotifyAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t := range h.lines {
		h.notifyLocked(t, -1)
	}
}

func (h *Hub) notifyLocked(t Topic, n int) {
	l := h.lines[t]
	if l == nil {
		return
	}
	for p := l.queries.first; p != nil && n != 0; p = p.next {
		if p.w.wake() {
			n--
		}
	}
}

// wake wakes the query and reports whether it was asleep.
func (w *Waiter) wake() bool {
	select {
	case w.c <- struct{}{}:
		return true
	default:
		return false
	}
}

// Offer records that the answer to a query offers an item of a topic that only one caller can take.
// If the caller has left before it takes the item, Renotify wakes the next query.
func (h *Hub) Offer(t Topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, there := h.offers[t]; there || len(h.offers) < MaxWaiters {
		h.offers[t]++
	}
}

// Renotify wakes one query of a topic for each offer since the last call, up to most.
func (h *Hub) Renotify(most int) {
	if h.waiters.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for t, n := range h.offers {
		h.notifyLocked(t, min(n, most))
		if h.offers[t] -= most; n <= most {
			delete(h.offers, t)
		}
	}
}

// Awaited reports whether a query or a claim waits for a topic, or a claim for it is under way.
func (h *Hub) Awaited(t Topic) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lines[t] != nil
}
