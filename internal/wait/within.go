package wait

// A notifier may only have the parent of a topic. The topics within a parent are those that have
// waiters. A waiter enters the family of its parent with its first topic.

// family is the set of topics within a parent, in the order in which their first waiters arrived.
type family struct {
	first, last *member
	members     map[Topic]*member
}

type member struct {
	topic      Topic
	waiters    int
	prev, next *member
}

// enterLocked adds a waiter of a topic to the family of a parent.
func (h *Hub) enterLocked(parent, t Topic) {
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

// leaveLocked removes a waiter of a topic from the family of a parent.
func (h *Hub) leaveLocked(parent, t Topic) {
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

// childrenLocked calls f for each topic within a parent.
func (h *Hub) childrenLocked(parent Topic, f func(Topic)) {
	if fam := h.within[parent]; fam != nil {
		for m := fam.first; m != nil; m = m.next {
			f(m.topic)
		}
	}
}

// Children returns the topics within a parent.
func (h *Hub) Children(parent Topic) (topics []Topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.childrenLocked(parent, func(t Topic) { topics = append(topics, t) })
	return topics
}
