package engine

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// hub knows who waits for which topics: queries, which are woken and look again, and takes, which are proposed. A query stays subscribed
// until it is answered, so nothing that happens while it looks again is missed; a take has no place while it is under way.
//
// Who waits has a place in the line of each of his topics, so that coming last and leaving take the same time however long the lines are.
type hub struct {
	count    atomic.Int32            // waiters; lets notify skip the lock when there are none
	parked   atomic.Int32            // those of them that are takes
	prefixes atomic.Int32            // lines of prefixes; lets notifyPrefixes skip the lock when there are none
	duties   atomic.Pointer[[]Topic] // what duties wait for: they do so all the time, and must not cost those who notify anything else

	mu      sync.Mutex // guards all below; nothing is called under it
	topics  map[Topic]*line
	within  map[Topic]*family  // by topic: those within it that are waited for
	order   uint64             // of coming
	lengths map[Topic]*lengths // of the prefixes that are waited for, by their root
	claimed map[Topic]int      // how many have been told of something that one can take, see claim
}

// line is who waits for a topic.
type line struct {
	topic   Topic
	prefix  *awaited // that it is for, nil if for another topic
	queries turns
	takes   turns
	spoken  int64 // how much takes that are under way may take
}

// turns is waiters in the order in which it is their turn.
type turns struct {
	first, last *place
	n           int
}

// place is that of a waiter in one line.
type place struct {
	w          *waiter
	line       *line
	prev, next *place
}

type waiter struct {
	c       chan struct{} // of a query; capacity 1: holds a wake-up that has not been looked at
	take    *Taking       // else
	since   int64         // waiters of a topic are in this order
	order   uint64        // and those of one time in this
	places  []*place
	parent  Topic // that of the first topic, 0: none
	changed LSN   // the first change that has woken it, see subscribePrefix; guarded by hub.mu
	duty    bool  // it is a duty, and no waiter for count
}

// family is the topics within another, in the order in which the first of their waiters came.
type family struct {
	first, last *member
	members     map[Topic]*member
}

type member struct {
	topic      Topic
	waiters    int
	prev, next *member
}

func newHub() *hub {
	return &hub{topics: make(map[Topic]*line), within: make(map[Topic]*family), lengths: make(map[Topic]*lengths), claimed: make(map[Topic]int)}
}

// before reports whether it is w's turn before o's.
func (w *waiter) before(o *waiter) bool {
	return cmp.Or(cmp.Compare(w.since, o.since), cmp.Compare(w.order, o.order)) < 0
}

func (h *hub) lineLocked(t Topic) *line {
	l := h.topics[t]
	if l == nil {
		l = &line{topic: t}
		h.topics[t] = l
	}
	return l
}

// tidyLocked forgets a line with nobody in it.
func (h *hub) tidyLocked(l *line) {
	if l.queries.first == nil && l.takes.first == nil && l.spoken == 0 {
		delete(h.topics, l.topic)
		h.unawaitLocked(l.prefix)
	}
}

func (l *line) turnsOf(w *waiter) *turns {
	if w.take != nil {
		return &l.takes
	}
	return &l.queries
}

// insert puts a place where it belongs. Who is new comes last, or nearly; who comes back comes first, or nearly.
func (q *turns) insert(p *place) {
	q.n++
	switch {
	case q.last == nil || !p.w.before(q.last.w):
		p.prev = q.last
	case p.w.before(q.first.w):
		p.next = q.first
	default:
		p.next = q.last
		if p.w.since <= q.first.w.since {
			for p.next = q.first; !p.w.before(p.next.w); p.next = p.next.next {
			}
		} else {
			for p.next.prev != nil && p.w.before(p.next.prev.w) {
				p.next = p.next.prev
			}
		}
		p.prev = p.next.prev
	}
	if p.prev == nil {
		q.first = p
	} else {
		p.prev.next = p
	}
	if p.next == nil {
		q.last = p
	} else {
		p.next.prev = p
	}
}

func (q *turns) remove(p *place) {
	q.n--
	if p.prev == nil {
		q.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		q.last = p.prev
	} else {
		p.next.prev = p.prev
	}
}

// subscribe adds w to the topic, once. Waiters of a topic are woken in the order of since, and of coming.
func (h *hub) subscribe(w *waiter, t Topic) error {
	if w.waitsFor(t) {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.subscribeLocked(w, t)
}

func (w *waiter) waitsFor(t Topic) bool {
	return slices.ContainsFunc(w.places, func(p *place) bool { return p.line.topic == t })
}

func (h *hub) subscribeLocked(w *waiter, t Topic) error {
	switch {
	case w.duty:
		h.setDuties(append(h.awaitedByDuties(), t))
	case len(w.places) == 0:
		if err := h.roomLocked(); err != nil {
			return err
		}
		h.count.Add(1)
	}
	h.joinLocked(w, t)
	return nil
}

// awaitedByDuties returns a copy.
func (h *hub) awaitedByDuties() []Topic {
	if all := h.duties.Load(); all != nil {
		return slices.Clone(*all)
	}
	return nil
}

func (h *hub) setDuties(topics []Topic) { h.duties.Store(&topics) }

// idle reports whether no query waits that could be woken for a topic.
func (h *hub) idle(t Topic) bool {
	if h.count.Load() != h.parked.Load() {
		return false
	}
	duties := h.duties.Load()
	return duties == nil || !slices.Contains(*duties, t)
}

func (h *hub) roomLocked() error {
	if n := h.count.Load(); n >= MaxWaiters {
		return Errorf(ErrBusy, "%d queries and takes wait in this shard, the limit is %d", n, MaxWaiters)
	}
	return nil
}

// joinLocked gives w a place in the line of a topic.
func (h *hub) joinLocked(w *waiter, t Topic) {
	if w.order == 0 {
		h.order++
		w.order = h.order
	}
	if len(w.places) == 0 {
		h.enterLocked(w.parent, t)
	}
	l := h.lineLocked(t)
	p := &place{w: w, line: l}
	l.turnsOf(w).insert(p)
	w.places = append(w.places, p)
}

// quitLocked gives up the places of w.
func (h *hub) quitLocked(w *waiter) {
	h.leaveLocked(w.parent, w.places[0].line.topic)
	for _, p := range w.places {
		p.line.turnsOf(w).remove(p)
		h.tidyLocked(p.line)
	}
	clear(w.places)
	w.places = w.places[:0]
}

// enterLocked adds a waiter of a topic within its parent.
func (h *hub) enterLocked(parent, t Topic) {
	if parent == 0 {
		return
	}
	f := h.within[parent]
	if f == nil {
		f = &family{members: make(map[Topic]*member)}
		h.within[parent] = f
	}
	m := f.members[t]
	if m == nil {
		m = &member{topic: t, prev: f.last}
		f.members[t] = m
		if f.last == nil {
			f.first = m
		} else {
			f.last.next = m
		}
		f.last = m
	}
	m.waiters++
}

// leaveLocked takes a waiter of a topic within its parent away.
func (h *hub) leaveLocked(parent, t Topic) {
	if parent == 0 {
		return
	}
	f := h.within[parent]
	m := f.members[t]
	if m.waiters--; m.waiters > 0 {
		return
	}
	delete(f.members, t)
	if m.prev == nil {
		f.first = m.next
	} else {
		m.prev.next = m.next
	}
	if m.next == nil {
		f.last = m.prev
	} else {
		m.next.prev = m.prev
	}
	if f.first == nil {
		delete(h.within, parent)
	}
}

// childrenLocked calls f for the topics within another.
func (h *hub) childrenLocked(parent Topic, f func(Topic)) {
	if fam := h.within[parent]; fam != nil {
		for m := fam.first; m != nil; m = m.next {
			f(m.topic)
		}
	}
}

// claim notes that a waiter of the topic has been told of something that one can take. Should he be gone before he takes it, remind
// gives the next one the chance.
func (h *hub) claim(t Topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, there := h.claimed[t]; there || len(h.claimed) < MaxWaiters {
		h.claimed[t]++
	}
}

// remind wakes one waiter for each claim of a topic since the last call, up to most.
func (h *hub) remind(most int) {
	if h.count.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for t, n := range h.claimed {
		h.notifyLocked(t, min(n, most))
		if h.claimed[t] -= most; n <= most {
			delete(h.claimed, t)
		}
	}
}

func (h *hub) unsubscribe(w *waiter) {
	if len(w.places) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	// A wake-up meant for one waiter must not go with him unless he looked.
	select {
	case <-w.c:
		for _, p := range w.places {
			h.notifyPastLocked(p.line, w)
		}
	default:
	}
	if w.duty {
		left := h.awaitedByDuties()
		for _, p := range w.places {
			i := slices.Index(left, p.line.topic)
			left = slices.Delete(left, i, i+1)
		}
		h.setDuties(left)
	} else {
		h.count.Add(-1)
	}
	h.quitLocked(w)
}

// notifyPastLocked wakes the first who sleeps in a line, but for one.
func (h *hub) notifyPastLocked(l *line, but *waiter) {
	for p := l.queries.first; p != nil; p = p.next {
		if p.w == but {
			continue
		}
		select {
		case p.w.c <- struct{}{}:
			return
		default:
		}
	}
}

// notify wakes up to n queries that wait for the topic and are not awake already; n < 0 wakes all.
func (h *hub) notify(t Topic, n int) {
	if h.idle(t) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notifyLocked(t, n)
}

// notifyWithin wakes up to n queries of each topic within the parent.
func (h *hub) notifyWithin(parent Topic, n int) {
	if h.count.Load() == h.parked.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.childrenLocked(parent, func(t Topic) { h.notifyLocked(t, n) })
}

// notifyAll wakes all queries: the state has been replaced as a whole, or this replica may no longer answer.
func (h *hub) notifyAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t := range h.topics {
		h.notifyLocked(t, -1)
	}
}

func (h *hub) notifyLocked(t Topic, n int) {
	l := h.topics[t]
	if l == nil {
		return
	}
	for p := l.queries.first; p != nil && n != 0; p = p.next {
		select {
		case p.w.c <- struct{}{}:
			n--
		default:
		}
	}
}
