package workflow

import (
	"fmt"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
)

// planState is the state of a plan's call. Executors are given by their index in the plan.
type planState struct {
	begun      bool
	rest       []byte   // executors still to be tried, in order of preference
	at         int      // current executor, -1: none yet
	next       planNext // next action after a pause
	tries      int64    // attempts of the executor, including the current one
	polls      int64    // of the executor
	triedAt    int64    // when its first attempt began
	until      int64    // until when its outcome is awaited
	deadline   int64    // of the call, across all executors
	epoch      uint64   // of the executor's breaker, see executorRow
	key        []byte   // under which a success is cached; nil: not cached
	generation uint64   // of the plan's cache
	failed     int64    // executors that have failed
	ambiguous  bool     // one of them may have had an effect
	cause      string   // code of the last failure
	message    string
}

// planNext is the next action of a plan's call after a pause.
type planNext uint8

const (
	planChoose   planNext = iota // try the next executor
	planAttempt                  // try the current one again
	planReserved                 // likewise, with its rate slot already reserved
	planNextEnd
)

func (p *planState) code(c *codec.Coder) {
	if c.Bool(&p.begun); !p.begun {
		return
	}
	c.Bytes(&p.rest)
	c.Int(&p.at)
	c.Byte((*byte)(&p.next))
	for _, v := range [...]*int64{&p.tries, &p.polls, &p.triedAt, &p.failed} {
		c.Varint(v)
	}
	c.Deadline(&p.until)
	c.Deadline(&p.deadline)
	c.Uvarint(&p.epoch)
	c.Bytes(&p.key)
	c.Uvarint(&p.generation)
	c.Bool(&p.ambiguous)
	c.String(&p.cause)
	c.String(&p.message)
	if p.next >= planNextEnd || p.at < -1 || p.at >= flow.MaxExecutors {
		c.Fail(fmt.Sprintf("plan at executor %d, then %d", p.at, p.next))
	}
}

// planned reports whether the call is a plan's.
func (s *slot) planned() bool { return s.call != nil && s.call.Target == flow.TargetPlan }

// plan returns the called plan.
func (s *slot) plan() *flow.Plan { return &s.live.def.Plans[s.call.Plan] }

// executor returns the current executor.
func (s *slot) executor() *flow.Executor { return &s.plan().Executors[s.state.plan.at] }

// tryPlan starts a plan, or continues it after a pause.
func (s *slot) tryPlan() {
	st := s.state
	switch {
	case st.phase == phasePoll, st.phase == phaseRate && st.plan.next == planAttempt:
		s.tryExecutor(false)
	case st.phase == phaseRate && st.plan.next == planReserved:
		s.tryExecutor(true)
	case st.phase == phaseRate:
		s.nextExecutor()
	default:
		s.beginPlan()
	}
}

func (s *slot) beginPlan() {
	p := s.plan()
	s.state.plan = planState{begun: true, at: -1, until: never, deadline: never}
	if s.call.Timeout > 0 {
		s.state.plan.deadline = s.live.tx.Now() + s.call.Timeout
	}
	if p.Cache != nil && s.takeCached(p) {
		return
	}
	s.state.plan.rest = s.rank(p)
	s.nextExecutor()
}

// rank returns all executors in the order to try them.
func (s *slot) rank(p *flow.Plan) []byte {
	order := make([]byte, len(p.Executors)) // they are ordered by priority
	for i := range order {
		order[i] = byte(i)
	}
	switch p.Selection {
	case flow.SelectRoundRobin:
		known := s.known()
		turn := int(known.turn % uint64(len(order)))
		known.turn++
		known.changed = true
		order = append(order[turn:], order[:turn]...)
	case flow.SelectRandom:
		random := s.random()
		for i := len(order) - 1; i > 0; i-- {
			random = mix(random)
			j := random % uint64(i+1)
			order[i], order[j] = order[j], order[i]
		}
	case flow.SelectHealth:
		known := s.known()
		weights := make([]int64, len(order))
		for i := range p.Executors {
			e := &p.Executors[i]
			weights[i] = max(e.Priority, 1) * known.executor(e.Name).score(&p.Health, s.live.tx.Now())
		}
		slices.SortStableFunc(order, func(a, b byte) int { return -compareInts(weights[a], weights[b]) })
	}
	return order
}

func compareInts(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// mix derives a random number from another one, as SplitMix64 does.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// nextExecutor tries the next available executor. If the rates of all remaining executors forbid a
// call, it reserves the earliest slot and waits for it, so that many waiting runs do not wake each
// other needlessly.
func (s *slot) nextExecutor() {
	st, p, known, now := &s.state.plan, s.plan(), s.known(), s.live.tx.Now()
	st.at = -1
	if s.live.crowded() {
		s.pausePlan(planChoose, now)
		return
	}
	s.skipBroken()
	first, leave := -1, int64(never)
	for i, at := range st.rest {
		e := &p.Executors[at]
		if t := known.executor(e.Name).leave(e.Rates, s.live.shares(), now); t < leave {
			first, leave = i, t
		}
		if leave <= now {
			break
		}
	}
	if first < 0 {
		s.exhausted(false)
		return
	}
	st.at = int(st.rest[first])
	st.rest = slices.Delete(st.rest, first, first+1)
	st.tries, st.polls, st.triedAt, st.until = 1, 0, now, never
	s.tryExecutor(false)
}

// skipBroken removes the executors whose breakers are open.
func (s *slot) skipBroken() {
	p, known, now := s.plan(), s.known(), s.live.tx.Now()
	s.state.plan.rest = slices.DeleteFunc(s.state.plan.rest, func(at byte) bool {
		e := &p.Executors[at]
		shut := e.Breaker != nil && known.executor(e.Name).shut(e.Breaker, now)
		if shut {
			s.note(event{kind: PlanBreakerSkip, detail: e.Name})
		}
		return shut
	})
}

// shares returns the number of shards that share the rates of executors.
func (w *work) shares() int64 {
	if w.tx.Spread() {
		return int64(w.tx.Shards())
	}
	return 1
}

// tryExecutor makes an attempt of the current executor as soon as its rate allows it. reserved
// means that the rate slot is already reserved.
func (s *slot) tryExecutor(reserved bool) {
	st, e, now := &s.state.plan, s.executor(), s.live.tx.Now()
	known := s.known()
	x := known.executor(e.Name)
	if e.Breaker != nil && x.shut(e.Breaker, now) {
		s.note(event{kind: PlanBreakerSkip, detail: e.Name})
		s.nextExecutor()
		return
	}
	if len(e.Rates) > 0 && !reserved {
		leave := x.leave(e.Rates, s.live.shares(), now)
		x.take(e.Rates, s.live.shares(), leave)
		known.changed = true
		if leave > now {
			s.pausePlan(planReserved, leave)
			return
		}
	}
	if e.Breaker != nil {
		st.epoch = known.enter(x, e.Breaker, now)
	}
	if st.polls == 0 && e.Async && e.TrackFor > 0 {
		st.until = now + e.TrackFor
	}
	if st.tries == 1 && st.polls == 0 {
		st.triedAt = now
		s.note(event{kind: PlanExecutorStart, attempt: st.tries, detail: e.Name})
	}
	s.invoke(&e.Call, s.planInput(&e.Call))
	if s.state.phase == phaseCalled {
		s.state.due = min(s.state.due, st.until, st.deadline)
	}
}

// pausePlan continues the plan at a time.
func (s *slot) pausePlan(next planNext, at int64) {
	st := s.state
	st.plan.next, st.phase, st.due = next, phaseRate, min(at, st.plan.deadline)
	s.live.changed = true
}

// planInput returns the input of an executor: its own, or that of the call.
func (s *slot) planInput(c *flow.Call) []byte {
	if c.Input != nil {
		return s.input(c)
	}
	return s.input(s.call)
}

// planDue ends the part of a plan that has timed out: its call, or the tracking of an outcome. It
// reports whether there was one.
func (s *slot) planDue() bool {
	st, now := s.state, s.live.tx.Now()
	p := &st.plan
	called := st.phase == phaseCalled
	r := result{outcome: OutcomeTimeout, code: "timeout", ambiguous: true}
	switch {
	case !p.begun || st.phase == phasePause:
		return false
	case p.deadline <= now:
		r.message = engine.Text("plan %q: no result after %d ms", s.call.Name, s.call.Timeout)
		r.ambiguous = called || st.phase == phasePoll || p.ambiguous
	case p.until <= now && st.phase != phaseRate:
		r.message = fmt.Sprintf("no result after %d ms", s.executor().TrackFor)
	default:
		return false
	}
	if called {
		s.withdrawCall("the step has timed out")
		st.due = never
		s.atWork(st.seq)
	}
	overdue := p.deadline <= now
	st.phase, st.due = phaseNone, never
	if !overdue {
		s.answerPlan(r)
		return true
	}
	if called {
		s.learn(verdictBad)
	}
	s.endPlan(r)
	return true
}

// answerPlan ends an attempt of an executor.
func (s *slot) answerPlan(r result) {
	st, p, e := &s.state.plan, s.plan(), s.executor()
	if r.outcome == OutcomePending && s.pollExecutor() {
		return
	}
	if r.outcome == OutcomeOutputTooLarge { // the work is done, so no other executor repeats it
		s.learn(verdictGood)
		s.endPlan(r)
		return
	}
	class := classify(p, &r)
	s.learn(class.verdict())
	if class == classSuccess {
		s.note(event{kind: PlanExecutorSuccess, attempt: st.tries, outcome: r.outcome, detail: e.Name})
		s.cache(p, &r)
		s.endPlan(r)
		return
	}
	st.failed++
	st.polls = 0
	st.ambiguous = st.ambiguous || r.ambiguous
	st.cause, st.message = r.code, engine.Cut(engine.Text("executor %q: %s", e.Name, describeAttempt(&r, st.tries)), maxDetail)
	switch {
	case p.Fallback != nil && p.Fallback.AnyError:
		s.fallBack()
	case class == classCancelled:
		r.ambiguous = st.ambiguous
		if r.message != "" {
			r.message = engine.Text("plan %q: %s", p.Name, st.message)
		}
		r.refused = true
		s.endPlan(r)
	case class == classRetryable && s.retryExecutor(&r):
	default:
		s.note(event{kind: PlanExecutorExhausted, attempt: st.tries, outcome: r.outcome, detail: st.message})
		if s.skipBroken(); len(st.rest) == 0 {
			s.exhausted(class == classFatal)
			return
		}
		s.nextExecutor()
	}
}

// describeAttempt describes the result of an attempt for display.
func describeAttempt(r *result, attempt int64) string {
	text := engine.Text("outcome %q at attempt %d", r.outcome, attempt)
	if r.message != "" {
		text += ": " + r.message
	}
	return text
}

// retryExecutor schedules another attempt of the current executor, if its definition allows it.
func (s *slot) retryExecutor(r *result) bool {
	st, retry, now := &s.state.plan, &s.executor().Call.Retry, s.live.tx.Now()
	if r.refused || st.tries >= retry.Attempts {
		return false
	}
	pause := retry.Backoff.Pause(st.tries, s.random())
	if retry.Within > 0 && now+pause-st.triedAt > retry.Within {
		return false
	}
	st.tries++
	st.polls, st.until = 0, never
	s.note(event{kind: PlanExecutorRetry, attempt: st.tries, outcome: r.outcome, detail: st.message})
	s.pausePlan(planAttempt, now+pause)
	return true
}

// trackPoll is the default polling of an executor whose outcome is tracked.
var trackPoll = flow.Poll{First: 1000, Attempts: flow.MaxAttempts,
	Backoff: flow.Backoff{Kind: flow.BackoffExponential, Initial: 1000, Max: 30_000}}

// pollExecutor polls the current executor again, or ends it if the poll limit is reached. It
// reports whether the executor is polled at all.
func (s *slot) pollExecutor() bool {
	st, e, now := &s.state.plan, s.executor(), s.live.tx.Now()
	p := e.Call.Poll
	if p == nil {
		p = s.call.Poll
	}
	if p == nil {
		if !e.Async {
			return false
		}
		p = &trackPoll
	}
	s.learn(verdictNone)
	if st.polls >= p.Attempts {
		s.note(event{kind: PollExhausted, attempt: st.tries, detail: e.Name})
		s.answerPlan(result{outcome: OutcomeTimeout, code: "poll_exhausted", message: fmt.Sprintf("pending after %d polls", st.polls),
			ambiguous: true})
		return true
	}
	pause := p.First
	if st.polls > 0 {
		pause = p.Backoff.Pause(st.polls, s.random())
	}
	st.polls++
	s.state.phase, s.state.due = phasePoll, min(now+pause, st.until, st.deadline)
	s.note(event{kind: PollScheduled, attempt: st.tries, detail: rfc3339(s.state.due)})
	return true
}

// exhausted ends a plan that has no executor left. After a fatal error the step does not try the
// plan again.
func (s *slot) exhausted(fatal bool) {
	p, st := s.plan(), &s.state.plan
	if p.Fallback != nil {
		s.fallBack()
		return
	}
	s.endPlan(result{outcome: OutcomeExhausted, code: st.cause, message: s.whyExhausted(), ambiguous: st.ambiguous, refused: fatal})
}

func (s *slot) whyExhausted() string {
	p, st := s.plan(), &s.state.plan
	if st.failed == 0 {
		return engine.Text("plan %q: the breakers of all executors are open", p.Name)
	}
	return engine.Text("plan %q: %d of %d executors have failed, the last: %s", p.Name, st.failed, len(p.Executors), st.message)
}

// fallBack ends a plan with the fallback output.
func (s *slot) fallBack() {
	s.note(event{kind: PlanFallback, detail: s.whyExhausted()})
	output := []byte("null")
	if v := s.plan().Fallback.Value; v != nil {
		output = v.Append(nil, s.paths())
	}
	s.endPlan(result{outcome: OutcomeSuccess, output: output, ambiguous: s.state.plan.ambiguous})
}

// paths returns the source for paths in the call's definition.
func (s *slot) paths() flow.Source {
	if s.branch != nil {
		return &branchSource{s.live, s.branch}
	}
	return s.live
}

// endPlan ends the plan. Its result becomes that of an attempt of the call.
func (s *slot) endPlan(r result) {
	s.state.plan = planState{}
	s.settle(r)
}

// class is the meaning of a result for a plan.
type class uint8

const (
	classSuccess   class = iota
	classRetryable       // another attempt or executor may succeed
	classElsewhere       // another attempt would fail too, another executor may succeed
	classFatal           // likewise, and the error does not count against the executor
	classCancelled       // cancelled by a caller
)

func classify(p *flow.Plan, r *result) class {
	listed := func(list []string) bool {
		return slices.Contains(list, r.outcome) || r.code != "" && slices.Contains(list, r.code)
	}
	switch {
	case r.outcome == OutcomeCancelled:
		return classCancelled
	case listed(p.Fatal):
		return classFatal
	case listed(p.Retryable):
		return classRetryable
	case !r.bad():
		return classSuccess
	case len(p.Retryable) > 0:
		return classElsewhere
	}
	return classRetryable
}

// verdict returns the verdict of a result on its executor: none if it is fatal or cancelled.
func (c class) verdict() verdict {
	switch c {
	case classSuccess:
		return verdictGood
	case classRetryable, classElsewhere:
		return verdictBad
	}
	return verdictNone
}

// learn records the verdict of an attempt on its executor.
func (s *slot) learn(v verdict) {
	p, e, known, now := s.plan(), s.executor(), s.known(), s.live.tx.Now()
	x := known.executor(e.Name)
	if p.Selection == flow.SelectHealth && v != verdictNone {
		x.note(&p.Health, v == verdictGood, now)
		known.changed = true
	}
	if e.Breaker != nil && known.judge(x, e.Breaker, s.state.plan.epoch, v, now) {
		s.tellOpen(e.Name, e.Breaker.Cooldown)
	}
}
