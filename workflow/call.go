package workflow

import (
	"fmt"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/protocol"
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

// slot is a call of a run, with its owner: a step, a branch, or a compensation.
type slot struct {
	live   *live
	number uint64
	call   *flow.Call
	state  *callState
	branch *branch  // nil: of another owner
	undo   *undoRow // the visit that is compensated, nil: of another owner
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
	s.state.firstAt = s.live.tx.Now()
	s.state.attempt = 1
	s.live.changed = true
	s.keepSent()
	s.try()
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
	st, l := s.state, s.live
	l.changed = true
	l.token++
	st.phase, st.seq, st.due, st.ref, st.child, st.shard = phaseCalled, l.token, never, protocol.Ref{}, 0, l.tx.Shard()
	if c.Timeout > 0 {
		st.due = l.tx.Now() + c.Timeout
	}
	awaiting := AwaitingAction
	if c.Target == flow.TargetWorkflow {
		awaiting = AwaitingChild
	}
	switch {
	case c.Input != nil && len(input) > flow.MaxRendered:
		s.answer(notCalled(codeInputTooLarge, "the input of %q exceeds %d bytes", c.Name, flow.MaxRendered))
	case c.Target == flow.TargetWorkflow && int(l.depth)+1 > MaxDepth:
		s.answer(notCalled("too_deep", "workflow %q would be child %d of a child", c.Name, MaxDepth))
	default:
		s.note(event{kind: awaiting, attempt: st.attempt, detail: c.Name})
		tok := s.tokenOf(c)
		l.tx.Ask(s.command(c, input, tok), tok)
	}
}

// notCalled is the result of an attempt that may not call its target.
func notCalled(code, format string, args ...any) result {
	return result{outcome: OutcomeExecutionFailure, code: code, message: engine.Text(format, args...), refused: true}
}

// command returns the command that starts the target.
func (s *slot) command(c *flow.Call, input, tok []byte) engine.Command {
	if c.Target == flow.TargetWorkflow {
		return s.childStart(c, input, tok)
	}
	return s.invocation(c, input, tok)
}

// tokenOf returns the token that identifies the pending call.
func (s *slot) tokenOf(c *flow.Call) []byte {
	t := token{s.live.tx.Shard(), s.live.run, s.live.tag, c.Target == flow.TargetWorkflow, s.number, s.state.seq}
	return encode(nil, &t, (*token).code)
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

// settle ends an attempt of the call. Another attempt follows, or its result becomes the result of
// the call.
func (s *slot) settle(r result) {
	st, c, now := s.state, s.call, s.live.tx.Now()
	r.attempt = st.attempt
	st.ambiguous = st.ambiguous || r.ambiguous
	switch {
	case r.outcome == OutcomePending && c.Poll != nil:
		s.poll(c.Poll)
		return
	case r.bad() && !r.refused && !s.live.wordy() && (st.attempt < c.Retry.Attempts):
		pause := c.Retry.Backoff.Pause(st.attempt, s.random())
		if w := c.Retry.Within; w == 0 || now+pause-st.firstAt <= w {
			s.note(event{kind: StepRetry, attempt: st.attempt + 1, outcome: r.outcome, detail: r.message})
			st.phase, st.due, st.polls = phasePause, now+pause, 0
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
		s.live.undone(r)
	default:
		s.live.finishStep(r)
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
	st.phase, st.due = phasePoll, s.live.tx.Now()+pause
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
		s.answer(result{outcome: OutcomeTimeout, code: "timeout", message: fmt.Sprintf("no result after %d ms", c.Timeout),
			ambiguous: true})
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

// withdrawCall cancels the target of the call. It ignores the error if the target has just ended.
func (s *slot) withdrawCall(reason string) {
	switch st := s.state; {
	case st.child != 0:
		s.live.cancelChild(st.shard, st.child, st.ref.Tag, reason)
	case st.ref.Action != 0:
		s.live.cancelRun(st.shard, st.ref, reason)
	}
}

// open reports whether the call's effect would be unknown if it were abandoned now.
func (s *slot) open() bool {
	st := s.state
	return st.phase == phaseCalled || st.phase == phasePoll || st.polls > 0 || st.ambiguous ||
		st.plan.begun && (st.plan.ambiguous || st.plan.polls > 0)
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

// note adds an event about the step of the call.
func (s *slot) note(e event) {
	l := s.live
	e.step = l.def.Steps[l.step].Name
	if s.undo != nil {
		e.step = l.def.Steps[s.undo.step].Name
	}
	if s.branch != nil {
		e.step += "[" + l.branchName(s.branch) + "]"
	}
	l.event(e)
}
