package workflow

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/rawjson"
)

// beginWait makes the run wait for a signal, or takes a pending one.
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

// takePending takes the oldest pending signal that the step accepts.
func (l *live) takePending(s *flow.Wait) bool {
	prefix := partKey(nil, l.run, partSignal)
	it := l.tx.Iter(prefix, key.PrefixEnd(prefix))
	var row signalRow
	found := false
	for ok := it.First(); ok && !found; ok = it.Next() {
		row = must(decode(it.Value(), (*signalRow).code))
		if found = row.kind == s.Type && matches(s.Schema, row.payload) == nil; found {
			l.tx.Delete(slices.Clone(it.Key()))
		}
	}
	mustClose(it)
	if !found {
		return false
	}
	l.pending--
	l.pended -= int64(len(row.payload))
	l.take(s, row.payload)
	return true
}

// signal sends a signal to a run: a waiting step continues, or the signal is kept until a step
// waits for it.
func (w *work) signal(c *signalBody) (res changed, err error) {
	w.tx.Cause(signalCause(w.tx.NamespaceName(), c.kind))
	l, err := w.find(c.number)
	if err != nil {
		return res, err
	}
	if err := l.checkActive(); err != nil {
		return res, err
	}
	if err := l.checkSignal(c); err != nil {
		return res, err
	}
	waited := l.waitsForSignal(c.kind)
	if !waited && (l.pending >= MaxSignals || l.pended+int64(len(c.payload)) > MaxSignalBytes) {
		return res, engine.Errorf(ErrBusy, "run %s: %d pending signals of %d bytes: limits are %d signals and %d bytes",
			l.name(), l.pending, l.pended, MaxSignals, MaxSignalBytes)
	}
	l.changed = true
	l.event(event{kind: SignalReceived, detail: c.kind})
	l.tx.Count(countSignals, 1)
	l.invalidate(c.kind)
	if waited {
		l.take(&l.at().Wait, c.payload)
		l.advance()
		return l.result(), nil
	}
	row := signalRow{c.kind, l.tx.Now(), c.payload}
	l.tx.Insert(numberedPart(nil, l.run, partSignal, uint64(l.tx.LSN())), encode(nil, &row, (*signalRow).code))
	l.pending++
	l.pended += int64(len(c.payload))
	return l.result(), nil
}

// checkSignal returns an error for an invalid payload. It must match the schema declared for its
// type, and that of the step that waits for it. If no step is waiting now, it must match the schema
// of a step that can wait for it.
func (l *live) checkSignal(c *signalBody) error {
	var err error
	if i := slices.IndexFunc(l.def.Signals, func(s flow.Signal) bool { return s.Type == c.kind }); i >= 0 {
		err = matches(l.def.Signals[i].Schema, c.payload)
	}
	if err == nil {
		err = l.checkForSteps(c)
	}
	if err != nil {
		return engine.Errorf(ErrInvalid, "signal %q: payload: %v", c.kind, err)
	}
	return nil
}

// checkForSteps checks the payload against the schemas of steps.
func (l *live) checkForSteps(c *signalBody) (err error) {
	if l.waitsForSignal(c.kind) {
		return matches(l.at().Wait.Schema, c.payload)
	}
	for i := range l.def.Steps {
		if s := &l.def.Steps[i]; s.Kind == flow.KindWait && s.Wait.Type == c.kind {
			again := matches(s.Wait.Schema, c.payload)
			if again == nil {
				return nil
			}
			err = cmp.Or(err, again)
		}
	}
	return err
}

// waitsForSignal reports whether the run's current step waits for signals of a type.
func (l *live) waitsForSignal(kind string) bool {
	return l.wait == waitSignal && l.at().Wait.Type == kind
}

// matches checks a payload against a schema, if there is one.
func matches(s *flow.Schema, payload []byte) error {
	if s == nil {
		return nil
	}
	return s.Check(orNull(payload))
}

// take ends the wait for a signal. An outcome in the payload is used if it has a transition.
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

// signalTimeout ends a wait for a signal that has timed out.
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

// cancel ends a run before it reaches a terminal.
func (w *work) cancel(c *cancelBody) (res changed, err error) {
	l, err := w.find(c.number)
	if err == nil {
		err = l.checkActive()
	}
	if err != nil {
		return res, err
	}
	l.changed = true
	l.failure = failure{step: l.stepName(), code: "cancelled", message: engine.Cut("cancelled"+because(string(c.reason)), maxFailure)}
	l.abandon(Cancelled)
	l.advance()
	return l.result(), nil
}

// checkActive returns an error if the run is ending or has ended.
func (l *live) checkActive() error {
	switch {
	case l.status.Final():
		return engine.Errorf(ErrConflict, "run %s has already ended: it is %s", l.name(), l.status)
	case l.ending.status != 0:
		return engine.Errorf(ErrConflict, "run %s is already ending: its steps are being compensated", l.name())
	}
	return nil
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// random returns a number that differs between calls but is the same on all replicas.
func (s *slot) random() uint64 {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(s.live.tx.LSN()))
	binary.BigEndian.PutUint64(b[8:], s.number<<32|s.state.seq)
	return xxhash.Sum64(b[:])
}

func rfc3339(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }
