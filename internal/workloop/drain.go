package workloop

import (
	"errors"
	"time"
)

// drain waits until what is under way has ended: for the Grace, then, when the handlers have been cancelled, for lastWords until they have returned. What has become of
// pieces is sent while they do, and for lastCalls at most behind that. cause is why.
func (l *Loop[T]) drain(cause error) error {
	grace := time.Now().Add(l.cfg.Grace)
	l.giveBack(l.close())
	if l.await(time.Until(grace), l.idle) {
		return l.unsettled()
	}
	l.stop(cause)
	if !l.await(lastWords, l.returned) || !l.await(lastCalls, l.idle) {
		l.giveUp() // Settle, and what waits to be settled
		l.await(lastCalls, l.onlyBlocked)
	}
	return errors.Join(l.abandon(), l.unsettled())
}

// unsettled returns the error of results that could not be handed over.
func (l *Loop[T]) unsettled() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.missed == 0 {
		return nil
	}
	return &UnsettledError{l.missed, l.why}
}

// close notes that nothing new is taken, and returns what waits in lanes, if it can be given back.
func (l *Loop[T]) close() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.Draining = true
	if l.releaser == nil {
		return nil
	}
	return l.emptyLanesLocked()
}

// stop cancels all handlers.
func (l *Loop[T]) stop(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = cause
	for h := range l.held {
		if h.running && !h.returned && h.ctx.Err() == nil {
			h.stopped = true
			h.cancel(cause)
		}
	}
}

// abandon gives up handlers that have not returned. What becomes of them later is nobody's concern: their pieces are given back.
func (l *Loop[T]) abandon() error {
	l.mu.Lock()
	var pieces []T
	for h := range l.held {
		if !h.lost {
			pieces = append(pieces, h.piece)
		}
		h.lost = true
	}
	n := len(l.held)
	l.mu.Unlock()
	if n == 0 {
		return nil
	}
	l.giveBack(pieces)
	return &BlockedError{Handlers: n}
}

func (l *Loop[T]) idle() bool { return len(l.held) == 0 }

// returned reports whether no handler is at work.
func (l *Loop[T]) returned() bool {
	for h := range l.held {
		if h.running && !h.returned {
			return false
		}
	}
	return true
}

// onlyBlocked reports whether nothing is held but by handlers that have not returned.
func (l *Loop[T]) onlyBlocked() bool {
	for h := range l.held {
		if h.returned || !h.running {
			return false
		}
	}
	return true
}

// await waits until something holds, and reports whether that has happened within a time.
func (l *Loop[T]) await(d time.Duration, holds func() bool) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		l.mu.Lock()
		done := holds()
		l.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-l.changed:
		case <-t.C:
			return false
		}
	}
}
