package workflow

import (
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/flow"
)

// planState is where a call of a plan stands.
type planState struct {
	order []byte // executors, as places in the plan, in the order in which they are tried
	at    int    // the one that is tried; -1: the call is none of a plan
	tries int64  // attempts of that one
}

func (p *planState) code(c *codec.Coder) {
	c.Bytes(&p.order)
	if p.order != nil {
		c.Int(&p.at)
		c.Varint(&p.tries)
	}
}

// planned reports whether the call is that of a plan, and an executor was chosen.
func (s *slot) planned() bool { return s.call != nil && s.call.Target == flow.TargetPlan }

// plan returns the plan that is called.
func (s *slot) plan() *flow.Plan { return &s.def.Plans[s.call.Plan] }

// executor returns the one that is tried.
func (s *slot) executor() *flow.Executor {
	return &s.plan().Executors[s.state.plan.order[s.state.plan.at]]
}

// tryPlan begins an attempt of a plan.
func (s *slot) tryPlan() {
	p, st := s.plan(), &s.state.plan
	*st = planState{order: make([]byte, len(p.Executors))}
	for i := range st.order {
		st.order[i] = byte(i)
	}
	s.tryExecutor()
}

func (s *slot) tryExecutor() {
	s.state.plan.tries++
	e := s.executor()
	s.note(event{kind: PlanExecutorStart, attempt: s.state.plan.tries, detail: e.Name})
	s.invoke(&e.Call, s.planInput(&e.Call))
}

// planInput is what an executor gets: what its own input says, or the input of the call.
func (s *slot) planInput(c *flow.Call) []byte {
	if c.Input != nil {
		return s.input(c)
	}
	return s.input(s.call)
}

// answerPlan ends an attempt of an executor.
func (s *slot) answerPlan(r result) {
	st := &s.state.plan
	e := s.executor()
	if !r.bad() {
		s.note(event{kind: PlanExecutorSuccess, attempt: st.tries, outcome: r.outcome, detail: e.Name})
		s.settle(r)
		return
	}
	if st.at+1 < len(st.order) {
		st.at, st.tries = st.at+1, 0
		s.tryExecutor()
		return
	}
	s.note(event{kind: PlanExecutorExhausted, detail: r.message})
	r.outcome = OutcomeExhausted
	s.settle(r)
}

// invalidate forgets what plans have cached that a signal makes invalid.
func (l *live) invalidate(string) {}
