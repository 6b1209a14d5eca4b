package workflow

import (
	"math"

	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/protocol"
)

// addUndo notes that the ending visit must be compensated if the run does not complete.
func (l *live) addUndo(r *result) {
	u := undoRow{step: l.step, output: r.output, outcome: r.outcome, input: l.sent()}
	if l.at().Kind == flow.KindParallel && r.partial != nil {
		u.output = r.partial
	}
	l.tx.Set(undoKey(nil, l.run, l.visit), encode(nil, &u, (*undoRow).code))
}

// beginUndo compensates the run's visits in reverse order, and then ends the run.
func (l *live) beginUndo() {
	l.ending.visit = math.MaxUint64
	l.wait, l.due = waitTurn, l.tx.Now()
	l.call, l.fan = noCall(), noFan()
	l.changed = true
}

// undoNext compensates the next visit, or ends the run if none exists.
func (l *live) undoNext() {
	visit, u, ok := l.nextUndo(l.ending.visit)
	if !ok {
		l.close()
		return
	}
	if until := l.handlersUntil(visit); until > 0 {
		l.wait, l.due = waitHandler, until
		return
	}
	l.ending.visit, l.ending.undone = visit, visit
	l.event(event{kind: CompensationStarted, step: l.def.Steps[u.step].Name})
	l.wait, l.spins = waitUndo, 0
	l.slot().begin()
}

// undone ends the compensation of a visit. The next one follows regardless of the result.
func (l *live) undone(r result) {
	step := ""
	if u, ok := l.undoRow(); ok {
		step = l.def.Steps[u.step].Name
	}
	kind := CompensationCompleted
	if r.bad() && !resultLost(r.code) {
		kind = CompensationFailed
		l.undid++
		l.tx.Count(countUndoFailed, 1)
	}
	l.event(event{kind: kind, step: step, attempt: r.attempt, outcome: r.outcome, detail: r.message})
	l.tx.Delete(undoKey(nil, l.run, l.ending.visit))
	l.wait, l.due, l.call = waitTurn, l.tx.Now(), noCall()
}

// childEnded records the result of a child for which the run waited before compensating. A
// completed child has an output.
func (l *live) childEnded(e *protocol.End) {
	b, ok := l.tx.Get(undoKey(nil, l.run, l.visit))
	if !ok || Status(e.Status) != Completed {
		return
	}
	u := must(decode(b, (*undoRow).code))
	u.output, u.outcome = asJSON(e.Output), OutcomeSuccess
	l.tx.Set(undoKey(nil, l.run, l.visit), encode(nil, &u, (*undoRow).code))
}

// undoRow returns the visit that is being compensated.
func (l *live) undoRow() (u undoRow, ok bool) {
	b, ok := l.tx.Get(undoKey(nil, l.run, l.ending.visit))
	if !ok {
		return u, false
	}
	return must(decode(b, (*undoRow).code)), true
}

// undoInput returns the default input of a compensation: {"input": of the step, "output": of the
// step}.
func undoInput(u *undoRow) []byte {
	b := append([]byte(`{"input":`), orNull(u.input)...)
	b = append(append(b, `,"output":`...), orNull(u.output)...)
	return append(b, '}')
}
