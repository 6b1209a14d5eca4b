package workloop

// lane is a lane one of whose pieces is running.
type lane[T any] struct {
	waiting []*held[T] // behind it, in the order in which they were taken
}

// enterLocked gives a piece its place in its lane, and reports whether it may run now.
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

// leaveLocked returns the piece that may run now that one has ended, nil if there is none. When that one failed, or was not run, those behind it are
// doubtful.
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
			next.doubtful = true
			for _, h := range in.waiting {
				h.doubtful = true
			}
		}
		return next
	}
	delete(l.lanes, h.lane)
	return nil
}

// dropLocked forgets a piece that has not run.
func (l *Loop[T]) dropLocked(h *held[T]) {
	h.cancel(nil)
	delete(l.held, h)
}

// emptyLanesLocked takes all pieces out of their lanes that have not run.
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
