package wait

import (
	"cmp"
	"context"
	"slices"
)

// Claim is a blocking command that takes items; the package comment shows its states. Users embed
// it by value and call Init.
type Claim struct {
	Owner    any  // for the user of the package
	Blocking bool // it waits if nothing is available; Begin never refuses another

	// The rest is guarded by Hub.mu.
	state   state
	leaving bool // the caller needs an answer even if nothing is available
	ctx     context.Context
	moved   chan struct{} // capacity 1
	w       Waiter
	most    int   // how much it takes
	among   int   // see Among
	only    Slots // the kinds that it accepts
	wakeAt  int64 // see Hub.WakeAt
	line    *line // in which most is reserved, nil if nothing is
}

type state uint8

const (
	underWay state = iota // being decided about, about to be proposed, or in the log; also a new claim
	parked
	answered
)

// Init prepares a claim whose caller has been waiting since a time (ms). A claim whose ctx is done
// is answered instead of pulled.
func (c *Claim) Init(ctx context.Context, since int64) {
	c.ctx, c.moved, c.wakeAt = ctx, make(chan struct{}, 1), Never
	c.w = Waiter{claim: c, since: since}
}

// Moved receives a value when WakeAt has changed.
func (c *Claim) Moved() <-chan struct{} { return c.moved }

// Among returns how many claims, including this one, waited in the same line when this one got
// under way. It is for a claim that is under way.
func (c *Claim) Among() int { return c.among }

// Begin puts a new claim under way. It refuses a blocking claim if others wait in its line, or if
// all available items are reserved.
func (h *Hub) Begin(c *Claim, l *Look) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	line := h.lineLocked(l.Topics[0])
	if c.Blocking && (line.claims.first != nil || l.N != Any && int64(l.N) <= line.reserved) {
		h.tidyLocked(line)
		return false
	}
	c.most, c.among = l.Most, 1+line.claims.n
	c.reserve(line)
	return true
}

func (c *Claim) reserve(l *line) {
	c.line = l
	l.reserved += int64(c.most)
}

// End releases the reservation of a claim that was under way. It returns a wake-up for the other
// claims of the line, which may be able to take the items that this one left. Its Topic is 0 if no
// other claim waits.
func (h *Hub) End(c *Claim) Wakeup {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := c.line
	if l == nil {
		return Wakeup{}
	}
	c.line = nil
	l.reserved -= int64(c.most)
	w := Wakeup{Topic: l.topic, N: MaxClaims}
	if l.claims.first == nil {
		w = Wakeup{}
	}
	h.tidyLocked(l)
	return w
}

// Park gives a claim that was under way its places. It returns false if the caller does not wait,
// or with an error if MaxWaiters are already waiting. Only a new claim is refused with the error.
func (h *Hub) Park(c *Claim, l *Look) (waits bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.leaving {
		return false, nil
	}
	if c.w.order == 0 {
		if err := h.roomLocked(); err != nil {
			return false, err
		}
	}
	c.w.Parent = l.Parent
	for _, t := range l.Topics {
		h.joinLocked(&c.w, t)
	}
	c.state, c.most, c.only = parked, l.Most, l.Only
	c.setWakeAt(l.WakeAt)
	h.waiters.Add(1)
	h.parked.Add(1)
	return true, nil
}

func (c *Claim) setWakeAt(at int64) {
	if c.wakeAt == at {
		return
	}
	c.wakeAt = at
	select {
	case c.moved <- struct{}{}:
	default:
	}
}

// WakeAt returns the time at which the state must be checked again for a claim, or Never.
func (h *Hub) WakeAt(c *Claim) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return c.wakeAt
}

// Fits reports whether a claim waits for the topics of a new look, and adopts its WakeAt and Only.
// It is true for a claim that is not parked.
func (h *Hub) Fits(c *Claim, l *Look) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.state != parked {
		return true
	}
	c.setWakeAt(l.WakeAt)
	c.only = l.Only
	return c.w.Parent == l.Parent && slices.EqualFunc(c.w.places, l.Topics, func(p *lineEntry, t Topic) bool { return p.line.topic == t })
}

// Unpark puts a parked claim under way without a reservation, to check the state again on its
// behalf. It returns false if the claim is not parked.
func (h *Hub) Unpark(c *Claim) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.state != parked {
		return false
	}
	h.unparkLocked(c, underWay)
	return true
}

func (h *Hub) unparkLocked(c *Claim, to state) {
	h.quitLocked(&c.w)
	c.state = to
	h.waiters.Add(-1)
	h.parked.Add(-1)
}

// Pull puts a parked claim under way. It returns false if the claim is not parked, or if its caller
// has left.
func (h *Hub) Pull(c *Claim) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return c.state == parked && h.pullLocked(c, c.w.places[0].line)
}

// pullLocked puts a claim of a line under way. A claim whose caller has left must not take any
// items, so it is answered.
func (h *Hub) pullLocked(c *Claim, l *line) bool {
	if c.ctx.Err() != nil {
		h.unparkLocked(c, answered)
		return false
	}
	c.among = l.claims.n
	c.reserve(l) // before unparkLocked, which deletes an empty line
	h.unparkLocked(c, underWay)
	return true
}

// PullFirst puts the first claims of w.Topic under way, up to w.N of them, while some of the
// available items are not reserved. It appends them to dst.
func (h *Hub) PullFirst(dst []*Claim, w Wakeup, available int) []*Claim {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.lines[w.Topic]; l != nil {
		dst = h.pullFirstLocked(dst, l, &w.Of, int64(available), w.N)
	}
	return dst
}

// pullFirstLocked stops at the first claim that does not accept the kinds, because all claims of a
// line accept the same ones.
func (h *Hub) pullFirstLocked(dst []*Claim, l *line, of *Slots, available int64, limit int) []*Claim {
	for limit > 0 && available > l.reserved && l.claims.first != nil && l.claims.first.w.claim.only.meets(of) {
		if c := l.claims.first.w.claim; h.pullLocked(c, l) {
			dst = append(dst, c)
			limit--
		}
	}
	h.tidyLocked(l)
	return dst
}

// PullProduced puts claims under way for w.N items that a command is about to produce and that are
// not reserved yet. It appends at most limit of them to dst.
func (h *Hub) PullProduced(dst []*Claim, w Wakeup, limit int) []*Claim {
	if !h.HasParked() {
		return dst
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	limit += len(dst)
	pull := func(t Topic) {
		if l := h.lines[t]; l != nil {
			dst = h.pullFirstLocked(dst, l, &w.Of, l.reserved+int64(w.N), limit-len(dst))
		}
	}
	if w.Within {
		h.childrenLocked(w.Topic, pull)
	} else {
		pull(w.Topic)
	}
	return dst
}

// ParkedOn returns the first claims of a topic that accept the kinds of a wake-up.
func (h *Hub) ParkedOn(w Wakeup, limit int) (claims []*Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.lines[w.Topic]; l != nil {
		for p := l.claims.first; p != nil && len(claims) < limit; p = p.next {
			if p.w.claim.only.meets(&w.Of) {
				claims = append(claims, p.w.claim)
			}
		}
	}
	return claims
}

// Abandon is for a caller that stops waiting. It returns false if the claim is under way. The claim
// is then answered even if it finds nothing.
func (h *Hub) Abandon(c *Claim) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch c.state {
	case parked:
		h.unparkLocked(c, answered)
	case underWay:
		c.leaving = true
		return false
	}
	return true
}

// Expel unparks all claims and returns them in the order of arrival.
func (h *Hub) Expel() (all []*Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.lines {
		for p := l.claims.first; p != nil; p = p.next {
			if c := p.w.claim; c.w.places[0] == p {
				all = append(all, c)
			}
		}
	}
	for _, c := range all {
		h.unparkLocked(c, underWay)
	}
	slices.SortFunc(all, func(a, b *Claim) int { return cmp.Compare(a.w.order, b.w.order) })
	return all
}
