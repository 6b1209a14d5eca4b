package wait

import "cmp"

// line is the waiters of one topic.
type line struct {
	topic    Topic
	prefix   *prefix // that it is for, nil if the topic is not that of a prefix
	queries  turns
	claims   turns
	reserved int64 // how much claims that are under way may take
}

// turns is a list of waiters in the order in which they proceed.
type turns struct {
	first, last *lineEntry
	n           int
}

// lineEntry is the position of a waiter in one line.
type lineEntry struct {
	w          *Waiter
	line       *line
	prev, next *lineEntry
}

// before reports whether w proceeds before o.
func (w *Waiter) before(o *Waiter) bool {
	return cmp.Or(cmp.Compare(w.since, o.since), cmp.Compare(w.order, o.order)) < 0
}

func (h *Hub) lineLocked(t Topic) *line {
	l := h.lines[t]
	if l == nil {
		l = &line{topic: t}
		h.lines[t] = l
	}
	return l
}

// tidyLocked deletes a line that has no waiters and no reservations.
func (h *Hub) tidyLocked(l *line) {
	if l.queries.first == nil && l.claims.first == nil && l.reserved == 0 {
		delete(h.lines, l.topic)
		h.removePrefixLocked(l.prefix)
	}
}

func (l *line) turnsOf(w *Waiter) *turns {
	if w.claim != nil {
		return &l.claims
	}
	return &l.queries
}

// wakeOther wakes the first query that sleeps, except w.
func (l *line) wakeOther(w *Waiter) {
	for p := l.queries.first; p != nil; p = p.next {
		if p.w != w && p.w.wake() {
			return
		}
	}
}

// insert inserts a place in order. A new waiter belongs at or near the end, and a returning claim
// at or near the front, so the search starts at the nearer end.
func (q *turns) insert(p *lineEntry) {
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
			for p.w.before(p.next.prev.w) {
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

func (q *turns) remove(p *lineEntry) {
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
