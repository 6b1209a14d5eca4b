package engine

import "slices"

// Queries can wait for keys with a prefix. Each prefix is a topic, and the topics of the prefixes of a key are found in one pass over it: the hash of
// a prefix goes on from that of a shorter one. Only prefixes of lengths that somebody waits for are looked up. So a change costs the length of its key and one
// look for each such length, however many wait, and nothing where nobody does.

// lengths is how many lines there are for prefixes of each length, of the keys of a machine in a namespace.
type lengths struct {
	sorted []int
	lines  map[int]int
}

// prefixRoot is the topic of the empty prefix.
func prefixRoot(m MachineID, namespace string) Topic {
	return TopicOf(m, namespace, []byte("\x00prefix"))
}

// extend goes on from the topic of a prefix to that of a longer one, as FNV-1a does.
func (t Topic) extend(k []byte) Topic {
	for _, b := range k {
		t = (t ^ Topic(b)) * 1099511628211
	}
	return t
}

// awaited is a prefix for which there is a line.
type awaited struct {
	root   Topic
	length int
}

// subscribePrefix adds w to the line of a prefix, once. It returns the first change that has woken it since the last call, 0 if none has.
func (h *hub) subscribePrefix(w *waiter, root Topic, prefix []byte) (first LSN, err error) {
	t := root.extend(prefix)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !w.waitsFor(t) {
		if err := h.subscribeLocked(w, t); err != nil {
			return 0, err
		}
		h.awaitLocked(h.topics[t], awaited{root, len(prefix)})
	}
	first, w.changed = w.changed, 0
	return first, nil
}

// awaitLocked notes that a line is that of a prefix.
func (h *hub) awaitLocked(l *line, a awaited) {
	if l.prefix != nil {
		return
	}
	l.prefix = &a
	h.prefixes.Add(1)
	s := h.lengths[a.root]
	if s == nil {
		s = &lengths{lines: make(map[int]int)}
		h.lengths[a.root] = s
	}
	if s.lines[a.length]++; s.lines[a.length] == 1 {
		at, _ := slices.BinarySearch(s.sorted, a.length)
		s.sorted = slices.Insert(s.sorted, at, a.length)
	}
}

// unawaitLocked is for a line that is being forgotten.
func (h *hub) unawaitLocked(a *awaited) {
	if a == nil {
		return
	}
	h.prefixes.Add(-1)
	s := h.lengths[a.root]
	if s.lines[a.length]--; s.lines[a.length] > 0 {
		return
	}
	delete(s.lines, a.length)
	at, _ := slices.BinarySearch(s.sorted, a.length)
	if s.sorted = slices.Delete(s.sorted, at, at+1); len(s.sorted) == 0 {
		delete(h.lengths, a.root)
	}
}

// notifyPrefixes wakes all queries that wait for a prefix of a key.
func (h *hub) notifyPrefixes(m MachineID, c *Change) {
	if h.prefixes.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	root := prefixRoot(m, c.Name)
	s := h.lengths[root]
	if s == nil {
		return
	}
	t, from := root, 0
	for _, n := range s.sorted {
		if n > len(c.Key) {
			break
		}
		t, from = t.extend(c.Key[from:n]), n
		h.changedLocked(t, c.LSN)
	}
}

// changedLocked wakes the queries of a line because of a change.
func (h *hub) changedLocked(t Topic, lsn LSN) {
	l := h.topics[t]
	if l == nil {
		return
	}
	for p := l.queries.first; p != nil; p = p.next {
		if p.w.changed == 0 {
			p.w.changed = lsn
		}
		select {
		case p.w.c <- struct{}{}:
		default:
		}
	}
}

// WaitOnPrefix subscribes the query to all keys of its machine in a namespace that start with a prefix, see Waker.Changed, before it returns ErrWait. When
// it looks again, before is the number of the change that has woken it: of those that the view before did not hold, that is the first one of such a
// key. It is 0 when something else has.
func (v *View) WaitOnPrefix(namespace string, prefix []byte) (before LSN, err error) {
	if v.waiter == nil {
		v.waiter = &waiter{c: make(chan struct{}, 1), since: v.Now()}
	}
	return v.x.hub.subscribePrefix(v.waiter, prefixRoot(v.machine, namespace), prefix)
}

// Waker wakes queries that wait for what has changed.
type Waker struct {
	hub     *hub
	machine MachineID
}

// Waiting reports whether any query waits; else there is nobody to wake.
func (w Waker) Waiting() bool { return w.hub.count.Load() > w.hub.parked.Load() }

// Notify wakes up to n queries that wait for a topic; n < 0 wakes all.
func (w Waker) Notify(t Topic, n int) { w.hub.notify(t, n) }

// Changed wakes all queries that wait for a prefix of the key, see View.WaitOnPrefix.
func (w Waker) Changed(c *Change) { w.hub.notifyPrefixes(w.machine, c) }
