package engine

import (
	"cmp"
	"slices"
)

// What the hub does for takes. A take is in the lines of its topics while it is parked; while it is under way, what it may take of its first
// topic is spoken for, so that no more takes are sent there than can be of use.

// begin makes a take that was never parked be under way, unless others are before it or what there is is spoken for.
func (h *hub) begin(k *Taking, l *looked) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	line := h.lineLocked(l.topics[0])
	if k.Wait > 0 && (line.takes.first != nil || l.n != Any && int64(l.n) <= line.spoken) {
		h.tidyLocked(line)
		return false
	}
	k.most, k.among = l.most, 1+line.takes.n
	h.speakLocked(k, line)
	return true
}

func (h *hub) speakLocked(k *Taking, l *line) {
	k.line = l
	l.spoken += int64(k.most)
}

// end ends what is spoken for a take. It returns who is to be looked at: there may be more than it took.
func (h *hub) end(k *Taking) wake {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := k.line
	if l == nil {
		return wake{}
	}
	k.line = nil
	l.spoken -= int64(k.most)
	w := wake{topic: l.topic, n: maxTakes}
	if l.takes.first == nil {
		w = wake{}
	}
	h.tidyLocked(l)
	return w
}

// park gives a take that was under way its places. waits is false if it can not wait, with an error, or its caller does not want to.
func (h *hub) park(k *Taking, l *looked) (waits bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k.leaving {
		return false, nil
	}
	if k.w.order == 0 {
		if err := h.roomLocked(); err != nil {
			return false, err
		}
	}
	k.w.parent = l.parent
	for _, t := range l.topics {
		h.joinLocked(&k.w, t)
	}
	k.state, k.most, k.only = parked, l.most, l.only
	h.setWakeLocked(k, l.wakeAt)
	h.count.Add(1)
	h.parked.Add(1)
	return true, nil
}

func (h *hub) setWakeLocked(k *Taking, at int64) {
	if k.wakeAt == at {
		return
	}
	k.wakeAt = at
	select {
	case k.moved <- struct{}{}:
	default:
	}
}

func (h *hub) wakeAt(k *Taking) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return k.wakeAt
}

// fits reports whether a take that is parked, if it still is, waits for what it should.
func (h *hub) fits(k *Taking, l *looked) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k.state != parked {
		return true
	}
	h.setWakeLocked(k, l.wakeAt)
	k.only = l.only
	return k.w.parent == l.parent && slices.EqualFunc(k.w.places, l.topics, func(p *place, t Topic) bool { return p.line.topic == t })
}

// unpark takes a take's places away; false if it is not parked.
func (h *hub) unpark(k *Taking) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k.state != parked {
		return false
	}
	h.unparkLocked(k, underWay)
	return true
}

func (h *hub) unparkLocked(k *Taking, to takingState) {
	h.quitLocked(&k.w)
	k.state = to
	h.count.Add(-1)
	h.parked.Add(-1)
}

// pull makes a take that is parked be under way, if somebody waits for it.
func (h *hub) pull(k *Taking) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return k.state == parked && h.pullLocked(k, k.w.places[0].line)
}

// pullLocked sends a take on its way because of a line. One whose caller is gone goes as well: it must not take anything.
func (h *hub) pullLocked(k *Taking, l *line) bool {
	if k.ctx.Err() != nil {
		h.unparkLocked(k, gone)
		return false
	}
	k.among = l.takes.n
	h.speakLocked(k, l) // before the line is forgotten because nobody is in it
	h.unparkLocked(k, underWay)
	return true
}

// pullFirst sends the first takes of a line on their way, up to as many as are woken, as long as there is something of n that is not spoken for.
func (h *hub) pullFirst(w wake, n int) []*Taking {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pullFirstLocked(nil, wake{topic: w.topic, n: n, of: w.of}, w.n)
}

// pullFirstLocked is pullFirst for takes up to limit, when there are w.n. Takes of one line want the same: if it is not for the first, it is for none.
func (h *hub) pullFirstLocked(pulled []*Taking, w wake, limit int) []*Taking {
	l := h.topics[w.topic]
	if l == nil {
		return pulled
	}
	for limit > 0 && int64(w.n) > l.spoken && l.takes.first != nil && l.takes.first.w.take.only.meets(&w.of) {
		if k := l.takes.first.w.take; h.pullLocked(k, l) {
			pulled = append(pulled, k)
			limit--
		}
	}
	h.tidyLocked(l)
	return pulled
}

// pullFor sends takes on their way for whom something is about to be made, which nobody can have spoken for.
func (h *hub) pullFor(m Made, limit int) (pulled []*Taking) {
	if h.parked.Load() == 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	pull := func(t Topic) {
		if l := h.topics[t]; l != nil {
			pulled = h.pullFirstLocked(pulled, wake{topic: t, n: int(l.spoken) + m.N, of: m.Of}, limit-len(pulled))
		}
	}
	if m.Within {
		h.childrenLocked(m.Topic, pull)
	} else {
		pull(m.Topic)
	}
	return pulled
}

// parkedOn returns the first takes of a line which want what there is.
func (h *hub) parkedOn(w wake, limit int) (takes []*Taking) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.topics[w.topic]; l != nil {
		for p := l.takes.first; p != nil && len(takes) < limit; p = p.next {
			if p.w.take.only.meets(&w.of) {
				takes = append(takes, p.w.take)
			}
		}
	}
	return takes
}

// awaited reports whether somebody waits for a topic.
func (h *hub) awaited(t Topic) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.topics[t] != nil
}

func (h *hub) children(parent Topic) (topics []Topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.childrenLocked(parent, func(t Topic) { topics = append(topics, t) })
	return topics
}

// abandon makes a take leave whose caller does not want to wait any more; false if it is under way.
func (h *hub) abandon(k *Taking) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch k.state {
	case parked:
		h.unparkLocked(k, gone)
	case underWay:
		k.leaving = true
		return false
	}
	return true
}

// expel unparks all takes, and returns them in the order in which they came.
func (h *hub) expel() (all []*Taking) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.topics {
		for p := l.takes.first; p != nil; p = p.next {
			if k := p.w.take; k.w.places[0] == p {
				all = append(all, k)
			}
		}
	}
	for _, k := range all {
		h.unparkLocked(k, underWay)
	}
	slices.SortFunc(all, func(a, b *Taking) int { return cmp.Compare(a.w.order, b.w.order) })
	return all
}
