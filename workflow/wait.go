package workflow

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/plant"
	"github.com/floedb/floe/internal/rawjson"
)

// beginWait makes the run wait for a signal, or takes one that has come before.
func (l *live) beginWait(s *flow.Wait) {
	l.event(event{kind: WaitingForSignal, step: l.stepName(), detail: s.Type})
	if l.pending > 0 && l.takePending(s) {
		return
	}
	l.wait, l.spins = waitSignal, 0
	if s.Timeout > 0 {
		l.due = l.tx.Now() + s.Timeout
	}
}

// takePending takes the oldest signal of a type that has come before anybody waited for it.
func (l *live) takePending(s *flow.Wait) bool {
	prefix := partKey(nil, l.run, partSignal)
	it := l.tx.Iter(prefix, key.PrefixEnd(prefix))
	var row signalRow
	found := false
	for ok := it.First(); ok && !found; ok = it.Next() {
		row = must(decode(it.Value(), (*signalRow).code))
		if found = row.kind == s.Type; found {
			l.tx.Delete(slices.Clone(it.Key()))
		}
	}
	mustClose(it)
	if !found {
		return false
	}
	l.pending--
	if !plant.On(plant.SignalKept) {
		l.pended -= int64(len(row.payload))
	}
	l.take(s, row.payload)
	return true
}

// signal tells a run something: the step that waits for it goes on, or it is kept until one does.
func (w *work) signal(c *signalCommand) ([]byte, error) {
	w.tx.Cause(signalCause(w.tx.NamespaceName(), c.kind))
	if err := c.check(); err != nil {
		return nil, err
	}
	l, err := w.find(&c.target)
	if err != nil {
		return nil, err
	}
	if err := l.checkActive(); err != nil {
		return nil, err
	}
	if err := l.checkSignal(c); err != nil {
		return nil, err
	}
	s := &l.at().Wait
	waited := l.wait == waitSignal && s.Type == c.kind
	if !waited && (l.pending >= MaxSignals || l.pended+int64(len(c.payload)) > MaxSignalBytes) {
		return nil, engine.Errorf(ErrBusy, "run %s has %d signals of %d bytes that nobody has taken: the limits are %d and %d",
			l.name(), l.pending, l.pended, MaxSignals, MaxSignalBytes)
	}
	l.changed = true
	l.event(event{kind: SignalReceived, detail: c.kind})
	l.tx.Count(countSignals, 1)
	l.invalidate(c.kind)
	if waited {
		l.take(s, c.payload)
		l.advance()
		return l.changedResult(), nil
	}
	row := signalRow{c.kind, l.tx.Now(), c.payload}
	l.tx.Insert(numberedPart(nil, l.run, partSignal, uint64(l.tx.LSN())), encode(nil, &row, (*signalRow).code))
	l.pending++
	l.pended += int64(len(c.payload))
	return l.changedResult(), nil
}

// checkSignal says what is wrong with a signal whose type is declared.
func (l *live) checkSignal(c *signalCommand) error {
	check := func(s *flow.Schema) error {
		if s == nil {
			return nil
		}
		if err := s.Check(orNull(c.payload)); err != nil {
			return engine.Errorf(ErrInvalid, "signal %q: payload: %v", c.kind, err)
		}
		return nil
	}
	for i := range l.def.Signals {
		if s := &l.def.Signals[i]; s.Type == c.kind {
			return check(s.Schema)
		}
	}
	for i := range l.def.Steps {
		if s := &l.def.Steps[i]; s.Kind == flow.KindWait && s.Wait.Type == c.kind && s.Wait.Schema != nil {
			return check(s.Wait.Schema)
		}
	}
	return nil
}

// take ends the wait for a signal. What the payload calls its outcome counts if there is a transition for it.
func (l *live) take(s *flow.Wait, payload []byte) {
	step := l.at()
	l.event(event{kind: SignalMatched, step: step.Name, detail: s.Type})
	payload = orNull(payload)
	l.tx.Set(append(partKey(nil, l.run, partTaken), s.Type...), payload)
	outcome := OutcomeSuccess
	if named, ok := rawjson.Text(rawjson.Member(payload, "outcome")); ok {
		if slices.ContainsFunc(step.Transitions, func(t flow.Transition) bool { return t.Outcome == named }) {
			outcome = named
		}
	}
	l.finishStep(result{outcome: outcome, output: payload})
}

// signalTimeout ends a wait for a signal that has not come.
func (l *live) signalTimeout() {
	s := &l.at().Wait
	l.event(event{kind: SignalTimeout, step: l.stepName(), detail: s.Type})
	l.tx.Count(countTimers, 1)
	outcome := s.OnTimeout
	if outcome == "" {
		outcome = OutcomeTimeout
	}
	r := result{outcome: outcome}
	if outcome == OutcomeTimeout {
		r.code, r.message = "timeout", engine.Text("no signal %q after %d ms", s.Type, s.Timeout)
	}
	l.finishStep(r)
}

// cancel ends a run before it has come to a terminal.
func (w *work) cancel(c *cancelCommand) ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	l, err := w.find(&c.target)
	if err == nil {
		err = l.checkActive()
	}
	if err != nil {
		return nil, err
	}
	l.changed = true
	l.failure = failure{step: l.stepName(), code: "cancelled", message: engine.Cut("cancelled"+because(c.reason), maxFailure)}
	l.abandon(Cancelled)
	l.advance()
	return l.changedResult(), nil
}

// checkActive refuses what would change the course of a run that ends, or has ended.
func (l *live) checkActive() error {
	switch {
	case l.status.Final():
		return engine.Errorf(ErrConflict, "run %s has ended: it is %s", l.name(), l.status)
	case l.ending.status != 0:
		return engine.Errorf(ErrConflict, "run %s ends already: what it has done is compensated", l.name())
	}
	return nil
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// random differs from call to call, and is the same on all replicas.
func (s *slot) random() uint64 {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(s.tx.LSN()))
	binary.BigEndian.PutUint64(b[8:], s.number<<32|s.state.seq)
	return xxhash.Sum64(b[:])
}

func rfc3339(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }
