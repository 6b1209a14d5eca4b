package workflow

import (
	"slices"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/protocol"
)

// retry continues a failed run from a step.
func (w *work) retry(c *retryBody) (res changed, err error) {
	l, err := w.find(c.number)
	if err != nil {
		return res, err
	}
	if l.status != Failed && l.status != TimedOut {
		return res, engine.Errorf(ErrConflict, "run %s is %s: only failed and timed-out runs can be retried", l.name(), l.state())
	}
	from, err := l.retryFrom(c)
	if err != nil {
		return res, err
	}
	l.reopen()
	if l.edited = 0; c.input != nil {
		l.tx.Set(partKey(nil, l.run, partEdited), c.input)
		l.edited = l.visit + 1
	} else {
		l.tx.Delete(partKey(nil, l.run, partEdited))
		if !from.undone { // a compensated step must be done again
			l.edited = from.key
		}
	}
	l.event(event{kind: WorkflowRetried, step: l.def.Steps[from.step].Name})
	l.goTo(from.step)
	l.advance()
	return l.result(), nil
}

// retried is the position from which a run continues.
type retried struct {
	step   int
	visit  uint64 // last visit to the step
	key    uint64 // see stepRow
	undone bool   // that visit was compensated
}

// retryFrom returns the position from which a run continues.
func (l *live) retryFrom(c *retryBody) (r retried, err error) {
	name := c.step
	if name == "" {
		if name = l.origin; name == "" {
			name = l.failure.step
		}
	}
	r.step = slices.IndexFunc(l.def.Steps, func(s flow.Step) bool { return s.Name == name })
	if r.step < 0 {
		return r, engine.Errorf(ErrInvalid, "workflow version of run %s has no step %q", l.name(), name)
	}
	if c.input != nil && l.def.Steps[r.step].Kind != flow.KindCall {
		return r, engine.Errorf(ErrInvalid, "step %q makes no single call that takes an input", name)
	}
	row, ok := l.stepRow(name)
	r.visit, r.key = row.visit, row.key
	switch {
	case r.step == l.step: // its last visit may not have ended
		r.visit, r.key = l.visit, l.keyVisit()
		if row.visit == l.visit {
			r.key = row.key
		}
	case !ok:
		return r, engine.Errorf(ErrConflict, "run %s has not visited step %q", l.name(), name)
	}
	if l.rests(r.visit) {
		return r, engine.Errorf(ErrConflict, "run %s cannot resume at step %q: earlier steps were compensated", l.name(),
			name)
	}
	r.undone = r.visit == l.ending.undone || slices.ContainsFunc(l.voided, func(s span) bool { return s.undone == r.visit })
	return r, nil
}

// rests reports whether a visit depends on a visit that was compensated, now or before an earlier
// retry.
func (l *live) rests(visit uint64) bool {
	return l.ending.undone > 0 && visit > l.ending.undone ||
		slices.ContainsFunc(l.voided, func(s span) bool { return s.undone < visit && visit < s.before })
}

// keyVisit returns the visit whose idempotency key the current one uses, 0 if it has its own input.
func (l *live) keyVisit() uint64 {
	switch l.edited {
	case 0:
		return l.visit
	case l.visit:
		return 0
	}
	return l.edited
}

// reopen makes an ended run active again.
func (l *live) reopen() {
	tx, ns := l.tx, l.tx.Namespace()
	k := l.byID(l.of)
	*k.ended(l.status)--
	k.active++
	k.kept--
	k.changed = true
	tx.Count(endCounters[l.status], -1)
	tx.Count(countActive, 1)
	tx.Delete(endedKey(nil, k.id, l.endedAt, l.run))
	tx.Delete(statusRunKey(nil, ns, l.status, l.run))
	tx.Insert(statusRunKey(nil, ns, 0, l.run), nil)
	tx.Delete(partKey(nil, l.run, partOutput))
	if l.ending.undone > 0 {
		l.voided = append(l.voided, span{l.ending.undone, l.visit + 1})
		if len(l.voided) > maxSpans {
			l.voided[1].undone = l.voided[0].undone
			l.voided = slices.Delete(l.voided, 0, 1)
		}
	}
	l.status, l.endedAt, l.deadline, l.spins, l.steps = Running, 0, never, 0, 0
	l.failure, l.ending = failure{}, ending{}
	l.origin, l.onwards, l.undid = "", false, 0
	if l.def.Timeout > 0 {
		l.deadline = tx.Now() + l.def.Timeout
	}
	switch n := &l.notify; {
	case n.Machine == engine.MachineWorkflow && n.Command == kindScheduledEnd:
		l.countScheduled(n.Token)
	case n.Machine == engine.MachineStream:
		e := protocol.End{Token: n.Token, Status: protocol.StatusAgain}
		tx.Then(engine.Command{Machine: n.Machine, Kind: n.Command, Body: encode(nil, &e, (*protocol.End).Encode)})
	}
	l.changed = true
}

// countScheduled adds a reopened run to the active runs of its schedule, even if they then exceed
// max_concurrent.
func (w *work) countScheduled(token []byte) {
	run := must(decode(token, (*scheduledRun).code))
	k := w.byID(run.id)
	if k == nil || k.deleted {
		return
	}
	c := k.calendar()
	if c == nil {
		return
	}
	c.active++
	c.tx.Insert(tickedKey(&run), nil)
	c.save()
}
