package workloop

import (
	"errors"
	"time"
)

// drain ends the loop. It waits for handlers for the Grace, cancels the rest with the cause, and
// waits up to lastWords for them to return. Results are sent meanwhile, and for up to lastCalls
// after that.
func (l *Loop[T]) drain(cause error) error {
	grace := time.Now().Add(l.cfg.Grace)
	l.giveBack(l.close())
	if l.await(time.Until(grace), l.idle) {
		return l.unsettled()
	}
	l.stop(cause)
	if !l.await(lastWords, l.returned) || !l.await(lastCalls, l.idle) {
		l.giveUp() // ends calls of Settle and their retries
		l.await(lastCalls, l.onlyBlocked)
	}
	return errors.Join(l.abandon(), l.unsettled())
}

// unsettled returns an error if results could not be sent.
func (l *Loop[T]) unsettled() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.missed == 0 {
		return nil
	}
	return &UnsettledError{l.missed, l.why}
}

// close marks the loop as draining. It returns the pieces that wait in lanes, if the source takes
// pieces back.
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

// abandon releases the pieces of handlers that have not returned. Their later results are ignored.
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

// returned reports whether all handlers have returned. The caller holds mu.
func (l *Loop[T]) returned() bool {
	for h := range l.held {
		if h.running && !h.returned {
			return false
		}
	}
	return true
}

// onlyBlocked reports whether all held pieces are those of handlers that have not returned. The
// caller holds mu.
func (l *Loop[T]) onlyBlocked() bool {
	for h := range l.held {
		if h.returned || !h.running {
			return false
		}
	}
	return true
}

// await waits until holds returns true and reports whether that happened within d. It calls holds
// with mu held.
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
