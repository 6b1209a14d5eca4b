package wait

import "slices"

// Queries can wait for all keys with a prefix. Each prefix is a topic: the root, which is the topic
// of the empty prefix, extended by the bytes of the prefix. One pass over a key computes the topics
// of all its prefixes. Only prefixes of lengths that have waiters are looked up, so the cost of a
// change is the length of its key plus one lookup per such length.

// lengths counts the lines of prefixes of each length below one root.
type lengths struct {
	sorted []int
	lines  map[int]int
}

// prefix is a prefix that has a line.
type prefix struct {
	root   Topic
	length int
}

// SubscribePrefix adds a query to a prefix, once. It returns the first change that has woken the
// query since the last call, or 0. The error is that of Subscribe.
func (h *Hub) SubscribePrefix(w *Waiter, root Topic, key []byte) (first uint64, err error) {
	t := root.Extend(key)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !w.waitsFor(t) {
		if err := h.subscribeLocked(w, t); err != nil {
			return 0, err
		}
		h.addPrefixLocked(h.lines[t], prefix{root, len(key)})
	}
	first, w.changed = w.changed, 0
	return first, nil
}

// addPrefixLocked marks a line as that of a prefix.
func (h *Hub) addPrefixLocked(l *line, p prefix) {
	if l.prefix != nil {
		return
	}
	l.prefix = &p
	h.prefixes.Add(1)
	s := h.lengths[p.root]
	if s == nil {
		s = &lengths{lines: make(map[int]int)}
		h.lengths[p.root] = s
	}
	if s.lines[p.length]++; s.lines[p.length] == 1 {
		at, _ := slices.BinarySearch(s.sorted, p.length)
		s.sorted = slices.Insert(s.sorted, at, p.length)
	}
}

// removePrefixLocked is for a line that is being deleted.
func (h *Hub) removePrefixLocked(p *prefix) {
	if p == nil {
		return
	}
	h.prefixes.Add(-1)
	s := h.lengths[p.root]
	if s.lines[p.length]--; s.lines[p.length] > 0 {
		return
	}
	delete(s.lines, p.length)
	at, _ := slices.BinarySearch(s.sorted, p.length)
	if s.sorted = slices.Delete(s.sorted, at, at+1); len(s.sorted) == 0 {
		delete(h.lengths, p.root)
	}
}

// HasPrefixes reports whether a query waits for a prefix.
func (h *Hub) HasPrefixes() bool { return h.prefixes.Load() > 0 }

// NotifyPrefixes wakes all queries that wait for a prefix of a key, because of a change that has a
// number.
func (h *Hub) NotifyPrefixes(root Topic, key []byte, change uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.lengths[root]
	if s == nil {
		return
	}
	t, from := root, 0
	for _, n := range s.sorted {
		if n > len(key) {
			break
		}
		t, from = t.Extend(key[from:n]), n
		if l := h.lines[t]; l != nil {
			l.changed(change)
		}
	}
}

// changed wakes the queries of a line because of a change.
func (l *line) changed(change uint64) {
	for p := l.queries.first; p != nil; p = p.next {
		if p.w.changed == 0 {
			p.w.changed = change
		}
		p.w.wake()
	}
}
