package workloop

// lane is a lane with a running piece.
type lane[T any] struct {
	waiting []*held[T] // pieces behind it, in the order in which they were taken
}

// enterLocked adds a piece to its lane and reports whether it may run now.
func (l *Loop[T]) enterLocked(h *held[T]) bool {
	if l.laner != nil {
		h.lane = l.laner.Lane(h.piece)
	}
	if h.lane == "" {
		return true
	}
	if in := l.lanes[h.lane]; in != nil {
		in.waiting = append(in.waiting, h)
		return false
	}
	l.lanes[h.lane] = new(lane[T])
	return true
}

// leaveLocked removes an ended piece from its lane and returns the next one to run, or nil. If the
// ended piece failed or did not run, the source may have taken back the pieces behind it, so they
// are marked as suspect.
func (l *Loop[T]) leaveLocked(h *held[T], failed bool) *held[T] {
	in := l.lanes[h.lane]
	if in == nil {
		return nil
	}
	for len(in.waiting) > 0 {
		next := in.waiting[0]
		in.waiting = in.waiting[1:]
		if next.lost {
			l.dropLocked(next)
			continue
		}
		if failed && l.renewer != nil {
			next.suspect = true
			for _, h := range in.waiting {
				h.suspect = true
			}
		}
		return next
	}
	delete(l.lanes, h.lane)
	return nil
}

// dropLocked removes a piece that has not run.
func (l *Loop[T]) dropLocked(h *held[T]) {
	h.cancel(nil)
	delete(l.held, h)
}

// emptyLanesLocked removes the waiting pieces from all lanes and returns those that are not lost.
func (l *Loop[T]) emptyLanesLocked() (pieces []T) {
	for _, in := range l.lanes {
		for _, h := range in.waiting {
			if !h.lost {
				pieces = append(pieces, h.piece)
			}
			l.dropLocked(h)
		}
		in.waiting = nil
	}
	return pieces
}
