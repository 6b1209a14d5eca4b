package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// Topic is what a query waits for and Apply notifies: a hash of machine, namespace and name. Two names with one hash wake
// each other's waiters, which then find nothing and wait again.
type Topic uint64

// TopicOf returns the topic of a name within a machine and namespace.
func TopicOf(machine MachineID, namespace string, name []byte) Topic {
	var d xxhash.Digest
	d.ResetWithSeed(uint64(machine))
	d.WriteString(namespace)
	d.Write([]byte{0})
	d.Write(name)
	return Topic(d.Sum64())
}

// MaxWaiters is how many queries may wait in one shard; each costs about a kilobyte with its goroutine's wait.
const MaxWaiters = 100_000

// hub wakes the queries that wait for topics. A waiter stays subscribed until its query is answered, so nothing that
// happens while it looks again is missed.
type hub struct {
	count atomic.Int32 // waiters; lets notify skip the lock when there are none

	mu      sync.Mutex // guards all below; nothing is called under it
	waiters map[Topic][]*waiter
	within  map[Topic]map[Topic]int // by topic: those within it that are waited for, and by how many
	claimed map[Topic]bool          // somebody has been told of something that one can take, see claim
}

type waiter struct {
	c      chan struct{} // capacity 1: holds a wake-up that has not been looked at
	since  int64         // waiters of a topic are in this order
	topics []Topic
	parent Topic // that of topics[0], 0: none
}

func newHub() *hub {
	return &hub{
		waiters: make(map[Topic][]*waiter), within: make(map[Topic]map[Topic]int), claimed: make(map[Topic]bool),
	}
}

// subscribe adds w to the topic, once. Waiters of a topic are woken in the order of since, and of coming.
func (h *hub) subscribe(w *waiter, t Topic) error {
	for _, have := range w.topics {
		if have == t {
			return nil
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(w.topics) == 0 {
		if h.count.Load() >= MaxWaiters {
			return Errorf(ErrBusy, "%d queries wait in this shard, the limit is %d", h.count.Load(), MaxWaiters)
		}
		h.count.Add(1)
		h.enterLocked(w.parent, t, 1)
	}
	w.topics = append(w.topics, t)
	list := h.waiters[t]
	at := len(list)
	for at > 0 && list[at-1].since > w.since {
		at--
	}
	h.waiters[t] = slices.Insert(list, at, w)
	return nil
}

// enterLocked adds n waiters of a topic within its parent.
func (h *hub) enterLocked(parent, t Topic, n int) {
	if parent == 0 {
		return
	}
	topics := h.within[parent]
	if topics == nil {
		topics = make(map[Topic]int)
		h.within[parent] = topics
	}
	if topics[t] += n; topics[t] > 0 {
		return
	}
	if delete(topics, t); len(topics) == 0 {
		delete(h.within, parent)
	}
}

// claim notes that a waiter of the topic has been told of something that one can take. Should he be gone before he takes it, remind
// gives the next one the chance.
func (h *hub) claim(t Topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.claimed) < MaxWaiters {
		h.claimed[t] = true
	}
}

// remind wakes the first waiter of each topic that was claimed since the last call.
func (h *hub) remind() {
	if h.count.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for t := range h.claimed {
		h.notifyLocked(t, 1)
	}
	clear(h.claimed)
}

func (h *hub) unsubscribe(w *waiter) {
	if len(w.topics) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range w.topics {
		list := h.waiters[t]
		for i, have := range list {
			if have == w {
				list = append(list[:i:i], list[i+1:]...)
				break
			}
		}
		if len(list) == 0 {
			delete(h.waiters, t)
		} else {
			h.waiters[t] = list
		}
	}
	// A wake-up meant for one waiter must not go with him unless he looked.
	select {
	case <-w.c:
		for _, t := range w.topics {
			h.notifyLocked(t, 1)
		}
	default:
	}
	h.enterLocked(w.parent, w.topics[0], -1)
	w.topics = nil
	h.count.Add(-1)
}

// notify wakes up to n waiters of the topic that are not awake already; n < 0 wakes all.
func (h *hub) notify(t Topic, n int) {
	if h.count.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notifyLocked(t, n)
}

// notifyWithin wakes up to n waiters of each topic within the parent.
func (h *hub) notifyWithin(parent Topic, n int) {
	if h.count.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for t := range h.within[parent] {
		h.notifyLocked(t, n)
	}
}

// notifyAll wakes everybody: the state has been replaced as a whole, or this replica may no longer answer.
func (h *hub) notifyAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t := range h.waiters {
		h.notifyLocked(t, -1)
	}
}

func (h *hub) notifyLocked(t Topic, n int) {
	for _, w := range h.waiters[t] {
		if n == 0 {
			return
		}
		select {
		case w.c <- struct{}{}:
			n--
		default:
		}
	}
}
