package workflow

import (
	"slices"

	"github.com/floedb/floe/internal/engine"
)

// patience is how long a run waits, in ms, for work that it has ended: for its children before it
// compensates, and for the handlers and children of a visit before it compensates the visit. It
// does not depend on the timeout of a call, because a handler may start late, and not all handlers
// end at their timeout.
const patience = 60_000

// atWork notes that the target may still be running although the call is over: the handler of an
// action, or the handlers of a child, which may also have to compensate first. Their work is
// compensated when they have returned or the wait is over. A child does this for all its calls,
// including compensations, because its parent waits for them.
func (s *slot) atWork(seq uint64) {
	l := s.live
	visit := l.visit
	switch {
	case l.isChild():
		if s.undo != nil {
			visit = l.ending.visit
		}
	case s.undo != nil || l.at().Compensate == nil:
		return
	}
	if slices.ContainsFunc(l.busy, func(b handler) bool { return b.seq == seq }) {
		return
	}
	l.changed = true
	until := l.tx.Now() + patience
	if len(l.busy) == maxHandlers {
		last := &l.busy[maxHandlers-1]
		*last = handler{visit: max(last.visit, visit), until: max(last.until, until)}
		return
	}
	l.busy = append(l.busy, handler{visit, seq, until})
}

// isChild reports whether the run has a parent, to which its end is reported.
func (h *header) isChild() bool {
	return h.notify.Machine == engine.MachineWorkflow && h.notify.Command == kindChildDone
}

// returned notes that the handler of a call has returned, or that a child is over. When the
// handlers of an ended child have returned, its parent is notified.
func (l *live) returned(seq uint64) {
	n := len(l.busy)
	l.busy = slices.DeleteFunc(l.busy, func(b handler) bool { return b.seq == seq })
	if len(l.busy) == n {
		return
	}
	l.changed = true
	switch {
	case l.status.Final():
		// This report is complete: it overtakes the first one if no worker had taken the call.
		if l.dropExpired(); len(l.busy) == 0 {
			output, _ := l.tx.Get(partKey(nil, l.run, partOutput))
			l.tellEnd(output, l.leaves(l.status))
		}
	case l.wait == waitHandler:
		l.wait, l.due = waitTurn, l.tx.Now()
	}
}

// dropExpired removes the handlers for which the wait is over.
func (l *live) dropExpired() {
	now := l.tx.Now()
	l.busy = slices.DeleteFunc(l.busy, func(b handler) bool { return b.until <= now })
}

// handlersUntil returns the time until which the run waits for handlers of a visit. It returns 0 if
// no handler can still be running.
func (l *live) handlersUntil(visit uint64) (until int64) {
	l.dropExpired()
	for _, b := range l.busy {
		if b.visit == visit || b.seq == 0 && visit <= b.visit {
			until = max(until, b.until)
		}
	}
	return until
}
