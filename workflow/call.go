package workflow

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/rawjson"
)

// callState is the state of a call: of a step, of a branch, or a compensation.
type callState struct {
	phase   phase
	seq     uint64 // of the current attempt; answers to other attempts are ignored
	attempt int64
	polls   int64
	firstAt int64          // when the first attempt began
	due     int64          // when the attempt times out, or the pause ends
	shard   engine.ShardID // shard of the called run
	ref     protocol.Ref   // the action's run, once it is known
	child   uint64         // or the child, with its tag in ref
	plan    planState

	ambiguous bool // an attempt that is over may have had an effect; coded after the rest of the call's row
}

// phase is the current activity of a call.
type phase uint8

// The phases of calls.
const (
	phaseNone   phase = iota
	phaseCalled       // the called run is active
	phasePause        // the next attempt follows
	phasePoll         // the next poll follows
	phaseRate         // waiting for an executor's rate
	phaseEnd
)

func noCall() callState { return callState{due: never} }

func (s *callState) code(c *codec.Coder) {
	if c.Byte((*byte)(&s.phase)); s.phase == phaseNone {
		s.due = never
		return
	}
	c.Uvarint(&s.seq)
	for _, v := range [...]*int64{&s.attempt, &s.polls, &s.firstAt} {
		c.Varint(v)
	}
	c.Deadline(&s.due)
	c.Uint16((*uint16)(&s.shard))
	s.ref.Code(c)
	c.Uvarint(&s.child)
	s.plan.code(c)
	if s.phase >= phaseEnd {
		c.Fail(fmt.Sprintf("call in phase %d", s.phase))
	}
}

// codeInputTooLarge is the code of a call whose rendered input is too large.
const codeInputTooLarge = "input_too_large"

// Slots of a run, as used in tokens: branches follow.
const (
	slotStep = iota
	slotUndo
	slotBranch
)

// slot is a call of a run, with its owner.
type slot struct {
	*live
	number uint64
	call   *flow.Call
	state  *callState
	branch *branch // of slotBranch
	undo   *undoRow
}

// slot returns the run's single call: that of its step, or the compensation.
func (l *live) slot() *slot {
	if l.wait != waitUndo {
		return &slot{live: l, number: slotStep, call: &l.at().Call, state: &l.call}
	}
	u, ok := l.undoRow()
	if !ok {
		panic(fmt.Sprintf("workflow: run %d compensates visit %d, which has no row", l.run, l.ending.visit))
	}
	return &slot{live: l, number: slotUndo, call: l.def.Steps[u.step].Compensate, state: &l.call, undo: &u}
}

// slotOf returns the call of a token, nil if that call is over.
func (l *live) slotOf(t *token) *slot {
	switch {
	case t.slot >= slotBranch:
		return l.branchSlot(t)
	case l.wait != waitCall && l.wait != waitUndo && l.wait != waitChildren || l.call.seq != t.seq || l.call.phase == phaseNone:
		return nil
	case l.wait == waitChildren:
		return &slot{live: l, number: slotStep, state: &l.call}
	}
	return l.slot()
}

// begin starts the first attempt.
func (s *slot) begin() {
	*s.state = noCall()
	s.state.firstAt = s.tx.Now()
	s.state.attempt = 1
	s.changed = true
	s.keepSent()
	s.try()
}

// keepSent stores the input of a step that may have to be compensated: the input's sources may
// change until then.
func (s *slot) keepSent() {
	if s.number != slotStep || !s.keepsSent() {
		return
	}
	if input := s.input(s.call); len(input) <= flow.MaxRendered {
		s.tx.Set(partKey(nil, s.run, partSent), input)
	}
}

// keepsSent reports whether the input of the current step's call is stored: one that differs from
// the run's input.
func (l *live) keepsSent() bool {
	step := l.at()
	return step.Kind == flow.KindCall && step.Compensate != nil && (step.Call.Input != nil || l.edited != 0)
}

// sent returns the input with which the current step has called.
func (l *live) sent() []byte {
	if l.keepsSent() {
		if b, ok := l.tx.Get(partKey(nil, l.run, partSent)); ok {
			return b
		}
	}
	if step := l.at(); step.Kind == flow.KindCall {
		return l.callInput(&step.Call, l)
	}
	return l.inputJSON()
}

// dropSent removes the stored input of the current step.
func (l *live) dropSent() {
	if l.keepsSent() {
		l.tx.Delete(partKey(nil, l.run, partSent))
	}
}

// try makes an attempt; the attempt of a plan calls one executor.
func (s *slot) try() {
	c := s.call
	if c.Target == flow.TargetPlan {
		s.tryPlan()
		return
	}
	s.invoke(c, s.input(c))
}

// invoke calls a target.
func (s *slot) invoke(c *flow.Call, input []byte) {
	st := s.state
	s.token++
	st.phase, st.seq, st.due, st.ref, st.child, st.shard = phaseCalled, s.token, never, protocol.Ref{}, 0, s.tx.Shard()
	if c.Timeout > 0 {
		st.due = s.tx.Now() + c.Timeout
	}
	s.changed = true
	if c.Input != nil && len(input) > flow.MaxRendered {
		s.answer(result{
			outcome: OutcomeExecutionFailure, code: codeInputTooLarge, message: engine.Text("the input of %q exceeds %d bytes", c.Name,
				flow.MaxRendered), refused: true,
		})
		return
	}
	tok := s.tokenOf(c)
	if c.Target == flow.TargetWorkflow {
		s.startChild(c, input, tok)
		return
	}
	s.note(event{kind: AwaitingAction, attempt: st.attempt, detail: c.Name})
	s.tx.Ask(s.invocation(c, input, tok), tok)
}

// tokenOf returns the token that identifies the pending call.
func (s *slot) tokenOf(c *flow.Call) []byte {
	t := token{s.tx.Shard(), s.run, s.tag, c.Target == flow.TargetWorkflow, s.number, s.state.seq}
	return encode(nil, &t, (*token).code)
}

// invocation returns the command that invokes an action.
func (s *slot) invocation(c *flow.Call, input, tok []byte) engine.Command {
	v := protocol.Invoke{
		Name: c.Name, Input: input, Priority: action.DefaultPriority, Timeout: c.Timeout, IdempotencyKey: s.key(), Repeated: true,
		Source: "workflow:" + string(s.name()), Notify: protocol.Notify{Machine: engine.MachineWorkflow, Command: kindDone, Token: tok},
	}
	if c.Retry.Attempts > 0 || c.Poll != nil || s.planned() {
		v.MaxAttempts = 1
	}
	return engine.Command{Machine: engine.MachineAction, Kind: protocol.KindInvoke, Body: encode(nil, &v, (*protocol.Invoke).Code)}
}

// key returns the idempotency key of the call, the same for all attempts.
func (s *slot) key() string {
	visit, step, i := s.visit, s.def.Steps[s.step].Name, ""
	if s.edited != 0 {
		visit = s.edited
	}
	switch {
	case s.undo != nil:
		visit, step, i = s.ending.visit, s.def.Steps[s.undo.step].Name, "/compensate"
	case s.branch != nil:
		i = fmt.Sprintf("[%d]", s.branch.index)
	}
	key := fmt.Sprintf("%s/%s#%d%s", s.name(), step, visit, i)
	if len(key) <= action.MaxKeyBytes {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return fmt.Sprintf("%s.../%x#%d%s", strings.ToValidUTF8(key[:100], ""), sum[:16], visit, i)
}

// startChild starts a run of another workflow.
func (s *slot) startChild(c *flow.Call, input, tok []byte) {
	if int(s.depth)+1 > MaxDepth {
		s.answer(result{
			outcome: OutcomeExecutionFailure, code: "too_deep", message: engine.Text("workflow %q would be child %d of a child", c.Name,
				MaxDepth), refused: true,
		})
		return
	}
	s.note(event{kind: AwaitingChild, attempt: s.state.attempt, detail: c.Name})
	s.tx.Ask(s.childStart(c, input, tok), tok)
}

// childStart returns the command that starts a child.
func (s *slot) childStart(c *flow.Call, input, tok []byte) engine.Command {
	v := startBody{
		version: c.Version, source: "workflow:" + string(s.name()), parent: string(s.name()), depth: s.depth + 1, input: input,
		notify: protocol.Notify{Machine: engine.MachineWorkflow, Command: kindChildDone, Token: tok},
	}
	return command(kindStart, c.Name, &v, (*startBody).code)
}

// input returns the input of a call.
func (s *slot) input(c *flow.Call) []byte {
	switch {
	case s.undo != nil:
		if c.Input == nil {
			return undoInput(s.undo)
		}
	case s.branch != nil:
		if c.Input == nil && s.branch.item != nil {
			return s.branch.item
		}
		return s.callInput(c, &branchSource{s.live, s.branch})
	case s.call == c && s.repeats():
		if b, ok := s.tx.Get(partKey(nil, s.run, partSent)); ok {
			return b
		}
	}
	if s.edited != 0 && s.undo == nil {
		if b, ok := s.tx.Get(partKey(nil, s.run, partEdited)); ok {
			return b
		}
	}
	return s.callInput(c, s.live)
}

// repeats reports whether a step whose input is stored may have called before: all its attempts get
// the same input, which is also passed to their compensation.
func (s *slot) repeats() bool {
	return s.keepsSent() && (s.state.attempt > 1 || s.state.polls > 0 || s.state.plan.begun)
}

// callInput returns the input of a call as defined.
func (l *live) callInput(c *flow.Call, from flow.Source) []byte {
	if c.Input == nil {
		return l.inputJSON()
	}
	return c.Input.Append(nil, from)
}

// called handles the reply to a call: whether it could be made.
func (w *work) called(t token, r engine.Reply) {
	l := w.live(t.run)
	var s *slot
	if l != nil && l.tag == t.tag {
		s = l.slotOf(&t)
	}
	if s == nil || s.state.phase != phaseCalled {
		switch {
		case r.Err == nil:
			w.disown(&t, r.Result)
		case r.Err != nil && l != nil && l.tag == t.tag: // an abandoned call had not started
			l.returned(t.seq)
			l.advance()
		}
		return
	}
	s.changed = true
	if r.Err == nil {
		s.reached(r.Result)
	} else {
		s.refused(r.Err)
	}
	s.saveBranch()
	l.advance()
}

// disown cancels the target of a call that is over meanwhile.
func (w *work) disown(t *token, result []byte) {
	const reason = "the step that called it is over"
	if t.child {
		res := must(start.Decode(result))
		w.cancelChild(res.shard, res.run, res.tag, reason)
		return
	}
	shard, ref, err := protocol.InvokedRun(result)
	w.cancelRun(engine.ShardID(shard), must(ref, err), reason)
}

func (w *work) cancelChild(shard engine.ShardID, run uint64, tag uint16, reason string) {
	v := cancelBody{number{run, tag}, []byte(reason)}
	w.withdraw(shard, command(kindCancel, "", &v, (*cancelBody).code))
}

func (w *work) cancelRun(shard engine.ShardID, ref protocol.Ref, reason string) {
	v := protocol.Cancel{Ref: ref, Reason: reason}
	w.withdraw(shard, engine.Command{Machine: engine.MachineAction, Kind: protocol.KindCancel,
		Body: encode(nil, &v, (*protocol.Cancel).Code)})
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
		res := must(start.Decode(result))
		s.state.child, s.state.ref.Tag, s.state.shard = res.run, res.tag, res.shard
		s.note(event{kind: ChildStarted, detail: string(res.name())})
		if !res.status.Final() { // a run that has ended at once had no waiter
			s.spins = 0
		}
		return
	}
	s.spins = 0
	_, ref, err := protocol.InvokedRun(result)
	s.state.ref = must(ref, err)
}

// name returns the id of the run that was started.
func (v *started) name() RunID {
	if v.id != "" {
		return RunID(v.id)
	}
	return v.runLocation.id()
}

// refused ends an attempt that could not start.
func (s *slot) refused(err error) {
	var misplaced interface{ CallRoute() string }
	if errors.As(err, &misplaced) {
		s.callElsewhere(misplaced.CallRoute())
		return
	}
	if name := s.present().Name; errors.Is(err, ErrNotFound) && s.tx.Spread() && s.state.shard == s.tx.Shard() && !s.tx.Here(name) {
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
	shard := s.tx.ShardOf(name)
	s.state.shard = shard
	tok, make := s.tokenOf(c), s.invocation
	if c.Target == flow.TargetWorkflow {
		make = s.childStart
	}
	s.tx.SendTo(shard, make(c, s.inputOf(c), tok), tok)
}

// done handles the end of a called run.
func (w *work) done(e *protocol.End, child bool) error {
	t := must(decode(e.Token, (*token).code))
	if t.shard != w.tx.Shard() {
		v := relayCommand{child, *e}
		w.tx.SendTo(t.shard, engine.Command{Machine: engine.MachineWorkflow, Kind: kindRelay, Body: encode(nil, &v, (*relayCommand).code)},
			nil)
		return nil
	}
	l := w.live(t.run)
	if l == nil || l.tag != t.tag {
		return nil
	}
	if !e.Held {
		l.returned(t.seq)
	}
	s := l.slotOf(&t)
	if s == nil || s.state.phase != phaseCalled {
		l.advance()
		return nil
	}
	s.changed = true
	if e.Held {
		s.atWork(t.seq)
	}
	if l.wait == waitChildren {
		l.childEnded(e)
		l.beginUndo()
	} else if s.branch != nil && l.fan.stopping {
		s.stopped(e)
	} else if child {
		detail := e.Message
		if e.Suspect {
			detail = joined(detail, "not all of what it may have done is compensated")
		}
		s.note(event{kind: ChildCompleted, attempt: s.state.attempt, outcome: Status(e.Status).String(), detail: detail})
		s.answer(childResult(e))
	} else {
		r := actionResult(e)
		detail := r.message
		if e.Suspect {
			detail = joined(detail, "an earlier attempt timed out or was lost")
		}
		s.note(event{kind: ActionCompleted, attempt: s.state.attempt, outcome: r.outcome, detail: detail})
		s.answer(r)
	}
	s.saveBranch()
	l.advance()
	return nil
}

// actionResult converts the end of an action's run to the caller's result.
func actionResult(e *protocol.End) result {
	r := result{outcome: e.Outcome, code: e.Code, message: e.Message, refused: e.Refused, ambiguous: e.Suspect}
	switch action.Status(e.Status) {
	case action.Completed:
		r.code, r.message = "", ""
		r.output = asJSON(e.Output)
		if r.outcome == OutcomeFailure {
			r.message = "the action has said so"
		}
	case action.TimedOut:
		r.outcome, r.ambiguous = OutcomeTimeout, true
		if r.message == "" {
			r.message = "the action has timed out"
		}
	case action.Cancelled:
		r.outcome, r.code, r.ambiguous, r.refused = OutcomeCancelled, OutcomeCancelled, true, true
		r.message = "the action's run was cancelled"
		if e.Message != "" {
			r.message += ": " + e.Message
		}
	default:
		r.outcome = OutcomeFailure
		if e.Code == action.CodeOutputTooLarge {
			r.outcome = OutcomeOutputTooLarge
		}
		r.ambiguous = r.ambiguous || e.Code == action.CodeWorkerLost || resultLost(e.Code)
		if r.message == "" {
			r.message = "the action has failed"
		}
	}
	return r
}

// resultLost reports whether a code means that a handler has done its work and only its result
// could not be stored.
func resultLost(code string) bool {
	return code == action.CodeOutputTooLarge || code == action.CodeBadOutput
}

// childResult converts the end of a child to its parent's result.
func childResult(e *protocol.End) result {
	if Status(e.Status) == Completed {
		return result{outcome: OutcomeSuccess, output: asJSON(e.Output)}
	}
	r := result{outcome: Status(e.Status).String(), code: e.Code, message: e.Message, ambiguous: e.Suspect}
	if r.message == "" {
		r.message = "the child is " + r.outcome
	}
	if e.Output != nil {
		r.output = asJSON(e.Output)
	}
	r.refused = r.outcome == OutcomeCancelled
	return r
}

// asJSON returns bytes as JSON; bytes that are not JSON become a string.
func asJSON(b []byte) []byte {
	switch {
	case len(b) == 0:
		return []byte("null")
	case !rawjson.Valid(b):
		return rawjson.AppendText(nil, string(b))
	}
	return b
}

// answer ends an attempt: of a plan's executor, or of the call itself.
func (s *slot) answer(r result) {
	s.state.phase, s.state.due = phaseNone, never
	if s.planned() {
		s.answerPlan(r)
		return
	}
	s.settle(r)
}

// settle ends an attempt of the call: another one follows, or its result is that of the call.
func (s *slot) settle(r result) {
	st, c := s.state, s.call
	r.attempt = st.attempt
	st.ambiguous = st.ambiguous || r.ambiguous
	switch {
	case r.outcome == OutcomePending && c.Poll != nil:
		s.poll(c.Poll)
		return
	case r.bad() && !r.refused && !s.wordy() && (st.attempt < c.Retry.Attempts):
		pause := c.Retry.Backoff.Pause(st.attempt, s.random())
		if w := c.Retry.Within; w == 0 || s.tx.Now()+pause-st.firstAt <= w {
			s.note(event{kind: StepRetry, attempt: st.attempt + 1, outcome: r.outcome, detail: r.message})
			st.phase, st.due, st.polls = phasePause, s.tx.Now()+pause, 0
			return
		}
	}
	s.finished(r)
}

// finished passes the result of the call to its owner.
func (s *slot) finished(r result) {
	r.ambiguous = r.ambiguous || s.state.ambiguous
	*s.state = noCall()
	switch {
	case s.branch != nil:
		s.branchDone(r)
	case s.undo != nil:
		s.undone(r)
	default:
		s.finishStep(r)
	}
}

// poll makes the call again after a pause, or ends it if the poll limit is reached.
func (s *slot) poll(p *flow.Poll) {
	st := s.state
	if st.polls >= p.Attempts {
		s.note(event{kind: PollExhausted, attempt: st.attempt})
		s.finished(result{outcome: OutcomeTimeout, code: "poll_exhausted", message: fmt.Sprintf("pending after %d polls", st.polls),
			attempt: st.attempt, ambiguous: true})
		return
	}
	pause := p.First
	if st.polls > 0 {
		pause = p.Backoff.Pause(st.polls, s.random())
	}
	st.polls++
	st.phase, st.due = phasePoll, s.tx.Now()+pause
	s.note(event{kind: PollScheduled, attempt: st.attempt, detail: rfc3339(st.due)})
}

// due ends a pause, or an attempt that has timed out.
func (s *slot) due() {
	st := s.state
	if s.planned() && s.planDue() {
		return
	}
	switch st.phase {
	case phasePause:
		st.attempt++
		s.try()
	case phasePoll:
		s.try()
	case phaseRate:
		s.tryPlan()
	case phaseCalled:
		c := s.present()
		s.withdrawCall("the step has timed out")
		st.due = never
		s.atWork(st.seq)
		r := result{outcome: OutcomeTimeout, code: "timeout", message: fmt.Sprintf("no result after %d ms", c.Timeout), ambiguous: true}
		s.answer(r)
	}
}

// cancel ends the call without a result. It reports whether the run must wait for a child.
func (s *slot) cancel(reason string) (child bool) {
	called := s.state.phase == phaseCalled
	if called {
		s.withdrawCall(reason)
		s.atWork(s.state.seq)
	}
	child = called && s.target() == flow.TargetWorkflow && s.state.child != 0
	s.state.due = never
	if !child {
		s.state.phase = phaseNone
	}
	return child
}

// open reports whether the call's effect is unknown if it is abandoned now.
func (s *slot) open() bool {
	st := s.state
	return st.phase == phaseCalled || st.phase == phasePoll || st.polls > 0 || st.ambiguous ||
		st.plan.begun && (st.plan.ambiguous || st.plan.polls > 0)
}

// patience is how long a run waits, in ms, for work it has ended: for its children before it
// compensates, and for the handlers and children of a visit before it compensates that. It does not
// depend on the timeout of a call: a handler may start late, and not all handlers end at their
// timeout.
const patience = 60_000

// atWork notes that the target may still be running although the call is over: the handler of an
// action, or the handlers of a child, which may have to compensate first as well. Their work is
// compensated when they have returned or the wait is over. A child does this for all its calls,
// also for compensations, because its parent waits for them.
func (s *slot) atWork(seq uint64) {
	visit := s.visit
	switch {
	case s.isChild():
		if s.undo != nil {
			visit = s.ending.visit
		}
	case s.undo != nil || s.at().Compensate == nil:
		return
	}
	until := s.tx.Now() + patience
	for i := range s.busy {
		if b := &s.busy[i]; b.seq == seq {
			return
		}
	}
	s.changed = true
	if len(s.busy) == maxHandlers {
		last := &s.busy[maxHandlers-1]
		*last = handler{visit: max(last.visit, visit), until: max(last.until, until)}
		return
	}
	s.busy = append(s.busy, handler{visit, seq, until})
}

// returned notes that the handler of a call has returned, or that a child is over. The return of
// handlers of an ended child is reported to its parent.
func (l *live) returned(seq uint64) {
	n := len(l.busy)
	l.busy = slices.DeleteFunc(l.busy, func(b handler) bool { return b.seq == seq })
	if len(l.busy) == n {
		return
	}
	l.changed = true
	switch {
	case l.status.Final():
		if l.dropExpired(); len(l.busy) == 0 {
			l.tellEnd(nil, false)
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

// isChild reports whether the run has a parent, to which its end is reported.
func (h *header) isChild() bool {
	return h.notify.Machine == engine.MachineWorkflow && h.notify.Command == kindChildDone
}

// handlersUntil returns until when the run waits for the handlers of a visit that may still be
// running, 0 if there are none.
func (l *live) handlersUntil(visit uint64) (until int64) {
	l.dropExpired()
	for _, b := range l.busy {
		if b.visit == visit || b.seq == 0 && visit <= b.visit {
			until = max(until, b.until)
		}
	}
	return until
}

// withdrawCall cancels the target of the call. It ignores the error if the target has just ended.
func (s *slot) withdrawCall(reason string) {
	switch st := s.state; {
	case st.child != 0:
		s.cancelChild(st.shard, st.child, st.ref.Tag, reason)
	case st.ref.Action != 0:
		s.cancelRun(st.shard, st.ref, reason)
	}
}

// present returns the current call: the call itself, or that of its plan's executor.
func (s *slot) present() *flow.Call {
	if s.planned() {
		return &s.executor().Call
	}
	return s.call
}

func (s *slot) target() flow.Target {
	if s.call == nil { // its run is ending
		if s.state.child != 0 {
			return flow.TargetWorkflow
		}
		return flow.TargetAction
	}
	return s.present().Target
}

// inputOf returns the input of the target.
func (s *slot) inputOf(c *flow.Call) []byte {
	if s.planned() {
		return s.planInput(c)
	}
	return s.input(c)
}

// note adds an event about the step of the call.
func (s *slot) note(e event) {
	e.step = s.def.Steps[s.step].Name
	if s.undo != nil {
		e.step = s.def.Steps[s.undo.step].Name
	}
	if s.branch != nil {
		e.step += "[" + s.branchName(s.branch) + "]"
	}
	s.event(e)
}

// tellEnd reports the end of the run to whatever started it. A parent gets two reports if handlers
// are still running: one at the end of the run, one when they have returned. suspect says that the
// run was cut off and may have left effects that nothing compensates.
func (l *live) tellEnd(output []byte, suspect bool) {
	n := l.notify
	if n.Machine == 0 {
		return
	}
	e := protocol.End{
		Token: n.Token, Status: uint8(l.status), Code: l.failure.code, Message: l.failure.message, Output: output, Held: len(l.busy) > 0,
		Suspect: suspect,
	}
	l.tx.Then(engine.Command{Machine: n.Machine, Kind: n.Command, Body: encode(nil, &e, (*protocol.End).Encode)})
}
