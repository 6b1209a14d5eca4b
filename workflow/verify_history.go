package workflow

import (
	"errors"
	"fmt"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
)

// history is the state that results from a run's events, applied in order: the run's position, and
// the results of its steps.
type history struct {
	events   int64
	at       int64 // time of the last event
	visits   uint64
	step     string // of the last visit
	open     bool   // that visit has not ended
	undoing  string // the step being compensated
	ended    Status // 0: it has not ended
	received int64  // signals
	matched  int64
	undid    int64              // failed compensations since the last retry
	last     map[string]visited // by step
}

// visited is the last ended visit to a step.
type visited struct {
	visit uint64
	event
}

// fold applies the events of a row. undone receives the step of each visit that may have to be
// compensated.
func (h *history) fold(row *eventRow, undone func(visit uint64, step string) error) error {
	if row.at < h.at {
		return fmt.Errorf("events of %d come after those of %d", row.at, h.at)
	}
	h.at = row.at
	for i := range row.events {
		if err := h.take(&row.events[i]); err != nil {
			return fmt.Errorf("event %d, %s of step %q: %w", h.events, row.events[i].kind, row.events[i].step, err)
		}
		if k := row.events[i].kind; k == StepStarted || k == StepSkipped {
			if err := undone(h.visits, h.step); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *history) take(e *event) error {
	h.events++
	switch {
	case (h.events == 1) != (e.kind == WorkflowStarted):
		return errors.New("a history has one start, at its beginning")
	case (h.ended != 0) != (e.kind == WorkflowRetried):
		return fmt.Errorf("the run is already %s", h.ended)
	}
	switch e.kind {
	case WorkflowRetried:
		h.ended, h.open, h.undid = 0, false, 0
	case StepStarted, StepSkipped:
		if h.open || h.undoing != "" {
			return fmt.Errorf("step %q is under way", h.step)
		}
		h.visits++
		h.step, h.open = e.step, e.kind == StepStarted
		if !h.open {
			h.note(event{step: e.step, outcome: OutcomeSkipped})
		}
	case StepCompleted:
		if !h.open || h.step != e.step {
			return errors.New("it is not under way")
		}
		h.open = false
		h.note(*e)
	case CompensationStarted:
		if h.undoing != "" {
			return fmt.Errorf("step %q is being compensated", h.undoing)
		}
		h.undoing = e.step
	case CompensationCompleted, CompensationFailed:
		if h.undoing != e.step {
			return errors.New("it is not being compensated")
		}
		h.undoing = ""
		if e.kind == CompensationFailed {
			h.undid++
		}
	case SignalReceived:
		h.received++
	case SignalMatched:
		h.matched++
	case WorkflowCompleted, WorkflowFailed, WorkflowCancelled, WorkflowTimedOut:
		if h.undoing != "" {
			return fmt.Errorf("step %q is being compensated", h.undoing)
		}
		for status, kind := range endEvents {
			if kind == e.kind {
				h.ended = Status(status)
			}
		}
	}
	return nil
}

func (h *history) note(e event) {
	if h.last == nil {
		h.last = make(map[string]visited)
	}
	h.last[e.step] = visited{h.visits, e}
}

// checkStep compares the row of an ended step with the history.
func (h *history) checkStep(step string, row *stepRow) error {
	v, ok := h.last[step]
	delete(h.last, step)
	if !ok || v.visit != row.visit || v.outcome != row.outcome || v.attempt != row.attempts ||
		v.detail != engine.Cut(row.message, maxDetail) {
		return fmt.Errorf("visit %d is at %q, attempt %d (%s), but in the history visit %d is at %q, attempt %d (%s)",
			row.visit, row.outcome, row.attempts, row.message, v.visit, v.outcome, v.attempt, v.detail)
	}
	if row.key > row.visit {
		return fmt.Errorf("visit %d has the idempotency key of visit %d", row.visit, row.key)
	}
	return nil
}

// undoneStep compares the step of a visit that may have to be compensated with the history.
func (r *auditedRun) undoneStep(visit uint64, step string) error {
	n, ok := r.undone[visit]
	if !ok || r.header == nil {
		return nil
	}
	w := r.workflows[r.header.of]
	if w == nil || w.definitions[r.header.number] == nil {
		return nil // reported elsewhere
	}
	if d := w.definitions[r.header.number]; n < 0 || n >= len(d.Steps) || d.Steps[n].Name != step {
		return fmt.Errorf("visit %d is to be compensated as a visit to step %d, but was to %q", visit, n, step)
	}
	return nil
}

// checkHistory compares the run's state with the result of its history.
func (r *auditedRun) checkHistory(d *flow.Definition) error {
	h, f, at := r.header, &r.history, d.Steps[r.header.step].Name
	status := Status(0)
	if h.status.Final() {
		status = h.status
	}
	switch {
	case f.ended != status:
		return fmt.Errorf("it ends as %s", f.ended)
	case f.visits != h.visit:
		return fmt.Errorf("%d visits to steps, not %d", f.visits, h.visit)
	case f.received-f.matched != h.pending:
		return fmt.Errorf("%d pending signals, not %d", f.received-f.matched, h.pending)
	case f.undid != h.undid:
		return fmt.Errorf("%d compensations have failed, not %d", f.undid, h.undid)
	case len(f.last) > 0:
		return fmt.Errorf("%d ended steps have no rows", len(f.last))
	case status != 0:
		return nil
	}
	undoing := ""
	if step, ok := r.undone[h.ending.visit]; ok && h.wait == waitUndo {
		undoing = d.Steps[step].Name
	}
	switch {
	case f.undoing != undoing:
		return fmt.Errorf("step %q is being compensated, not %q", f.undoing, undoing)
	case h.ending.status == 0 && f.open != (h.wait != waitTurn), h.wait == waitChildren && !f.open:
		return fmt.Errorf("the last visit is under way: %t", f.open)
	case f.open && h.ending.status == 0 && f.step != at:
		return fmt.Errorf("it is at step %q, not %q", f.step, at)
	}
	return nil
}
