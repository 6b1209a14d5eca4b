package workflow

import (
	"github.com/floedb/floe/internal/flow"
)

// keepSent stores the input of a step that may have to be compensated, because the input's sources
// may change until then.
func (s *slot) keepSent() {
	if s.number != slotStep || !s.live.keepsSent() {
		return
	}
	if input := s.input(s.call); len(input) <= flow.MaxRendered {
		s.live.tx.Set(partKey(nil, s.live.run, partSent), input)
	}
}

// keepsSent reports whether the input of the current step's call is stored, which it is if it
// differs from the run's input.
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

// inputOf returns the input of the target.
func (s *slot) inputOf(c *flow.Call) []byte {
	if s.planned() {
		return s.planInput(c)
	}
	return s.input(c)
}

// input returns the input of a call.
func (s *slot) input(c *flow.Call) []byte {
	l := s.live
	switch {
	case s.undo != nil && c.Input == nil:
		return undoInput(s.undo)
	case s.undo != nil:
		return l.callInput(c, l)
	case s.branch != nil && c.Input == nil && s.branch.item != nil:
		return s.branch.item
	case s.branch != nil:
		return l.callInput(c, &branchSource{l, s.branch})
	}
	if s.call == c && s.repeats() {
		if b, ok := l.tx.Get(partKey(nil, l.run, partSent)); ok {
			return b
		}
	}
	if l.edited != 0 {
		if b, ok := l.tx.Get(partKey(nil, l.run, partEdited)); ok {
			return b
		}
	}
	return l.callInput(c, l)
}

// repeats reports whether a step whose input is stored may have called before. All its attempts get
// the same input, which is also passed to their compensation.
func (s *slot) repeats() bool {
	return s.live.keepsSent() && (s.state.attempt > 1 || s.state.polls > 0 || s.state.plan.begun)
}

// callInput returns the input of a call as defined.
func (l *live) callInput(c *flow.Call, from flow.Source) []byte {
	if c.Input == nil {
		return l.inputJSON()
	}
	return c.Input.Append(nil, from)
}
