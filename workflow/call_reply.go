package workflow

import (
	"errors"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/rawjson"
)

// called handles the reply to a call: whether it could be made.
func (w *work) called(t token, r engine.Reply) {
	l := w.live(t.run)
	if l != nil && l.tag != t.tag {
		l = nil
	}
	var s *slot
	if l != nil {
		s = l.slotOf(&t)
	}
	if s == nil || s.state.phase != phaseCalled {
		w.abandoned(l, &t, r)
		return
	}
	l.changed = true
	if r.Err == nil {
		s.reached(r.Result)
	} else {
		s.refused(r.Err)
	}
	s.saveBranch()
	l.advance()
}

// abandoned handles the reply to a call that has since ended. l is nil if its run has ended.
func (w *work) abandoned(l *live, t *token, r engine.Reply) {
	switch {
	case r.Err == nil:
		w.disown(t, r.Result)
	case l != nil: // it had not started
		l.returned(t.seq)
		l.advance()
	}
}

// disown cancels the target of a call that has since ended.
func (w *work) disown(t *token, result []byte) {
	const reason = "the step that called it is over"
	if t.child {
		res := childStarted(result)
		w.cancelChild(res.shard, res.run, res.tag, reason)
		return
	}
	shard, ref, err := protocol.InvokedRun(result)
	w.cancelRun(engine.ShardID(shard), must(ref, err), reason)
}

// withdraw cancels a called run. It ignores the error if the run has just ended.
func (w *work) withdraw(shard engine.ShardID, cancel engine.Command) {
	if shard != w.tx.Shard() {
		w.tx.SendTo(shard, cancel, nil)
		return
	}
	w.tx.Ask(cancel, nil)
}

// reached records the target of the call.
func (s *slot) reached(result []byte) {
	if s.target() == flow.TargetWorkflow {
		res := childStarted(result)
		s.state.child, s.state.ref.Tag, s.state.shard = res.run, res.tag, res.shard
		s.note(event{kind: ChildStarted, detail: string(res.name())})
		if !res.status.Final() { // a run that has ended at once had no waiter
			s.live.spins = 0
		}
		return
	}
	s.live.spins = 0
	_, ref, err := protocol.InvokedRun(result)
	s.state.ref = must(ref, err)
}

// refused ends an attempt that could not start.
func (s *slot) refused(err error) {
	var misplaced interface{ CallRoute() string }
	if errors.As(err, &misplaced) {
		s.callElsewhere(misplaced.CallRoute())
		return
	}
	tx, name := s.live.tx, s.present().Name
	if errors.Is(err, ErrNotFound) && tx.Spread() && s.state.shard == tx.Shard() && !tx.Here(name) {
		s.callElsewhere(name) // its home may not have updated all shards yet
		return
	}
	child := s.target() == flow.TargetWorkflow
	r := result{outcome: OutcomeExecutionFailure, code: OutcomeExecutionFailure, message: err.Error(), refused: true}
	switch {
	case errors.Is(err, ErrNotFound):
		r.outcome, r.code = OutcomeTargetNotFound, OutcomeTargetNotFound
		kind := ActionNotFound
		if child {
			kind = ChildNotFound
		}
		s.note(event{kind: kind, detail: err.Error()})
	case errors.Is(err, ErrConflict):
		r.outcome, r.code = OutcomeTargetDisabled, OutcomeTargetDisabled
		if !child {
			s.note(event{kind: ActionDisabled, detail: err.Error()})
		}
	}
	s.answer(r)
}

// callElsewhere makes the call in the shard of a name.
func (s *slot) callElsewhere(name string) {
	c := s.present()
	s.state.shard = s.live.tx.ShardOf(name)
	tok := s.tokenOf(c)
	s.live.tx.SendTo(s.state.shard, s.command(c, s.inputOf(c), tok), tok)
}

// done handles the end of a called run.
func (w *work) done(e *protocol.End, child bool) {
	t := must(decode(e.Token, (*token).code))
	if t.shard != w.tx.Shard() {
		v := relayCommand{child, *e}
		w.tx.SendTo(t.shard, engine.Command{Machine: engine.MachineWorkflow, Kind: kindRelay, Body: encode(nil, &v, (*relayCommand).code)},
			nil)
		return
	}
	l := w.live(t.run)
	if l == nil || l.tag != t.tag {
		return
	}
	if !e.Held {
		l.returned(t.seq)
	}
	if s := l.slotOf(&t); s != nil && s.state.phase == phaseCalled {
		s.ended(e, t.seq, child)
	}
	l.advance()
}

// ended handles the end of the run that the call has started.
func (s *slot) ended(e *protocol.End, seq uint64, child bool) {
	l := s.live
	l.changed = true
	if e.Held {
		s.atWork(seq)
	}
	switch {
	case l.wait == waitChildren:
		l.childEnded(e)
		l.beginUndo()
	case s.branch != nil && l.fan.stopping:
		s.stopped(e)
	case child:
		s.childCompleted(e)
	default:
		s.actionCompleted(e)
	}
	s.saveBranch()
}

// asJSON returns bytes as JSON. Bytes that are not JSON become a string.
func asJSON(b []byte) []byte {
	switch {
	case len(b) == 0:
		return []byte("null")
	case !rawjson.Valid(b):
		return rawjson.AppendText(nil, string(b))
	}
	return b
}
