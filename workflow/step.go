package workflow

import (
	"fmt"
	"slices"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/rawjson"
)

// maxTransitions limits how many steps a run executes in one command. Its timer executes the rest.
const maxTransitions = 64

// result is the result of a step or call.
type result struct {
	outcome   string
	code      string // of an error
	message   string
	output    []byte // JSON, nil if none
	attempt   int64
	ambiguous bool // its effect is unknown
	refused   bool // another attempt would fail too
	skipped   bool // when was false: nothing was executed

	partial []byte // results of the branches of a failed parallel step
}

// bad reports whether the result is a failure of some kind.
func (r *result) bad() bool {
	return r.message != "" || r.outcome == OutcomeFailure || r.outcome == OutcomeTimeout
}

// goTo makes a step the next one of the run.
func (l *live) goTo(step int) {
	l.step = step
	l.wait, l.due = waitTurn, l.tx.Now()+l.rest()
	l.changed = true
}

// rest returns how long a run that executes steps without waiting yields its shard to others. It
// yields after every 64 steps.
func (l *live) rest() int64 {
	if l.spins == 0 || l.spins%maxTransitions != 0 {
		return 0
	}
	return min(l.spins/maxTransitions, longestRest)
}

const longestRest = 20 // ms

// advance executes steps until the run must wait, or has done enough for one command.
func (l *live) advance() {
	for n := 0; l.wait == waitTurn && l.ready() && n < maxTransitions && !l.crowded(); n++ {
		l.due = never
		if l.ending.status != 0 {
			l.undoNext()
		} else {
			l.enter()
		}
	}
	if l.wait == waitTurn && l.ready() {
		l.due = l.tx.Now()
	}
}

// ready reports whether the run may execute its next step now.
func (l *live) ready() bool { return l.due <= l.tx.Now() }

// crowded reports whether the remaining work must wait for another log entry.
func (w *work) crowded() bool { return w.tx.Full() || w.tx.FollowUpsLeft() < engine.MaxFollowUps/2 }

// enter begins the visit to the run's current step.
func (l *live) enter() {
	l.visit++
	l.stepAt = l.tx.Now()
	l.steps++
	l.spins++
	l.tx.Count(countSteps, 1)
	step := l.at()
	if code, message := l.tooMany(); code != "" {
		l.event(event{kind: StepStarted, step: step.Name})
		l.fail(failure{step: step.Name, code: code, message: engine.Text("step %q: %s", step.Name, message)})
		return
	}
	if step.When != nil {
		ok, err := step.When.Eval(l)
		if err != nil {
			l.event(event{kind: StepStarted, step: step.Name})
			l.finishStep(result{outcome: OutcomeFailure, code: "bad_condition", message: "when: " + err.Error(), refused: true})
			return
		}
		if !ok {
			l.event(event{kind: StepSkipped, step: step.Name})
			l.finishStep(result{outcome: OutcomeSkipped, skipped: true})
			return
		}
	}
	l.event(event{kind: StepStarted, step: step.Name})
	switch step.Kind {
	case flow.KindCall:
		l.wait = waitCall
		l.slot().begin()
	case flow.KindWait:
		l.beginWait(&step.Wait)
	case flow.KindSleep:
		l.beginSleep(&step.Sleep)
	case flow.KindParallel:
		l.beginParallel(&step.Parallel)
	default:
		panic(fmt.Sprintf("workflow: step of kind %d", step.Kind))
	}
}

// tooMany returns an error if the run has exceeded a limit, because it is probably in an endless
// loop.
func (l *live) tooMany() (code, message string) {
	most := l.def.MaxSteps
	if most == 0 {
		most = flow.DefaultSteps
	}
	switch {
	case l.spins > l.def.MaxVisits:
		return "too_many_steps", fmt.Sprintf("stopped after %d steps without waiting for anything", l.def.MaxVisits)
	case l.steps > most:
		return "too_many_steps", fmt.Sprintf("stopped after %d steps, the limit of a run", most)
	case l.wordy():
		return "too_many_events", fmt.Sprintf("stopped after %d events, the limit of a run", l.m.maxEvents)
	}
	return "", ""
}

// wordy reports whether the run has reached the limit of events. Compensation is exempt from the
// limit.
func (l *live) wordy() bool {
	return l.header.events+int64(len(l.events)) >= l.m.maxEvents && l.ending.status == 0
}

// beginSleep makes the run wait until a time.
func (l *live) beginSleep(s *flow.Sleep) {
	until := l.tx.Now() + s.For
	if s.Until != nil {
		raw := s.Until.Append(nil, l)
		at, ok := rawjson.Time(raw)
		if !ok {
			l.finishStep(result{outcome: OutcomeFailure, code: "bad_time",
				message: fmt.Sprintf("sleep until %.64s: neither ms nor RFC 3339", raw), refused: true})
			return
		}
		until = at
	}
	if until <= l.tx.Now() {
		l.finishStep(result{outcome: OutcomeSuccess})
		return
	}
	l.wait, l.due, l.spins = waitSleep, until, 0
	l.event(event{kind: TimerStarted, step: l.stepName(), detail: rfc3339(until)})
}

// finishStep ends the visit to a step, and follows its outcome.
func (l *live) finishStep(r result) {
	if len(r.output) > MaxOutput {
		r = result{
			outcome: OutcomeOutputTooLarge, code: OutcomeOutputTooLarge, attempt: r.attempt,
			message: fmt.Sprintf("output of %d bytes exceeds %d", len(r.output), MaxOutput), ambiguous: true,
		}
	}
	if r.bad() && r.output == nil {
		r.output = errorJSON(r.code, r.message)
	}
	step := l.at()
	now := l.tx.Now()
	row := stepRow{
		visit: l.visit, key: l.keyVisit(), outcome: r.outcome, code: r.code, message: r.message, attempts: r.attempt, startedAt: l.stepAt,
		endedAt: now, output: r.output,
	}
	l.tx.Set(append(partKey(nil, l.run, partStep), step.Name...), encode(nil, &row, (*stepRow).layout))
	if !r.skipped {
		l.event(event{kind: StepCompleted, step: step.Name, attempt: r.attempt, outcome: r.outcome, detail: r.message})
	}
	if step.Compensate != nil && !r.skipped && (r.ambiguous || !r.bad()) {
		l.addUndo(&r)
	}
	l.dropSent()
	l.wait, l.due, l.call, l.edited = waitNothing, never, noCall(), 0
	l.leave(r)
}

// leave follows the outcome of a step.
func (l *live) leave(r result) {
	step := l.at()
	if !r.bad() {
		l.onwards = l.origin != ""
	} else if l.origin == "" || l.onwards {
		l.origin, l.onwards = step.Name, false
	}
	if r.bad() {
		l.failure = failure{step.Name, r.outcome, r.attempt, r.code, describe(step.Name, &r)}
	}
	to, ok := leadsTo(step, r.outcome)
	switch {
	case !ok:
		f := failure{step.Name, r.outcome, r.attempt, r.code, describe(step.Name, &r)}
		if !r.bad() {
			f.message += ": the definition has no transition for it"
		}
		l.fail(f)
	case to >= 0:
		l.goTo(int(to))
	default:
		l.endAt(int(^to), r.outcome)
	}
}

// describe describes the result of a step for display.
func describe(step string, r *result) string {
	s := engine.Text("step %q: outcome %q", step, r.outcome)
	if r.attempt > 0 {
		s += fmt.Sprintf(" at attempt %d", r.attempt)
	}
	if r.message != "" {
		s += ": " + r.message
	}
	return engine.Cut(s, maxFailure)
}

// maxFailure limits the text of a run's failure, in bytes.
const maxFailure = 4096

// fallbacks maps an outcome without a transition to another outcome.
var fallbacks = map[string]string{
	OutcomeSkipped:          OutcomeSuccess,
	OutcomeTimeout:          OutcomeFailure,
	OutcomeTargetNotFound:   OutcomeExecutionFailure,
	OutcomeTargetDisabled:   OutcomeExecutionFailure,
	OutcomeExecutionFailure: OutcomeFailure,
	OutcomeOutputTooLarge:   OutcomeFailure,
	OutcomeCancelled:        OutcomeFailure,
	OutcomeFailed:           OutcomeFailure,
	OutcomeTimedOut:         OutcomeFailure,
	OutcomeExhausted:        OutcomeFailure,
}

// leadsTo returns the target of an outcome.
func leadsTo(step *flow.Step, outcome string) (to flow.Place, ok bool) {
	for outcome != "" {
		i := slices.IndexFunc(step.Transitions, func(t flow.Transition) bool { return t.Outcome == outcome })
		if i >= 0 {
			return step.Transitions[i].To, true
		}
		outcome = fallbacks[outcome]
	}
	return 0, false
}

// errorJSON is the output of a failed step without one.
func errorJSON(code, message string) []byte {
	b := rawjson.AppendText([]byte(`{"error":`), message)
	if code != "" {
		b = rawjson.AppendText(append(b, `,"code":`...), code)
	}
	return append(b, '}')
}

// endAt ends the run at a terminal.
func (l *live) endAt(terminal int, outcome string) {
	t := l.def.Terminal(flow.Place(^terminal))
	status := Status(t.Status)
	if status != Completed && l.failure.step != l.stepName() {
		message := engine.Text("step %q: outcome %q led to %s", l.stepName(), outcome, t.Name)
		if l.failure.message != "" {
			message += "; before, " + l.failure.message
		}
		l.failure = failure{step: l.stepName(), outcome: outcome, code: l.failure.code, message: engine.Cut(message, maxFailure)}
	}
	l.end(status, int64(terminal))
}

// fail ends the run with a failure.
func (l *live) fail(f failure) {
	l.failure = f
	l.end(Failed, -1)
}

// timeOut ends a run that exceeds the timeout of its definition.
func (l *live) timeOut() {
	l.failure = failure{
		step: l.stepName(), code: "timeout",
		message: engine.Text("step %q: the run has taken longer than %d ms", l.stepName(), l.def.Timeout),
	}
	l.abandon(TimedOut)
}

// abandon ends a run at any point and cancels the pending call or wait.
func (l *live) abandon(status Status) {
	wait := l.wait
	l.ending = ending{status: status, place: -1}
	reason := "its workflow run has ended: " + status.String()
	switch wait {
	case waitCall:
		s := l.slot()
		if s.open() && l.at().Compensate != nil {
			l.addUndo(&result{outcome: status.String()}) // paths in its compensation do not refer to an earlier visit
		}
		if s.cancel(reason) {
			l.wait, l.due = waitChildren, l.tx.Now()+patience
			return
		}
	case waitParallel:
		l.stopFan()
		return
	}
	l.beginUndo()
}

// end ends the run. If it does not complete, it is compensated first.
func (l *live) end(status Status, terminal int64) {
	l.ending = ending{status: status, place: terminal}
	if status == Completed {
		l.close()
		return
	}
	l.beginUndo()
}

// close finishes the end of the run.
func (l *live) close() {
	status, place := l.ending.status, l.ending.place
	output := l.outputAt(status, place)
	if len(output) > MaxOutput {
		tooLarge := fmt.Sprintf("the output of the run exceeds %d bytes", MaxOutput)
		if status == Completed { // its result is useless
			l.failure = failure{step: l.stepName(), code: OutcomeOutputTooLarge, message: tooLarge}
			l.end(Failed, -1)
			return
		}
		output = nil
		l.failure.message = engine.Cut(joined(l.failure.message, tooLarge), maxFailure)
	}
	if status == Completed {
		l.failure, l.origin, l.onwards = failure{}, "", false
	}
	if l.dropExpired(); !l.isChild() {
		l.busy = nil // no parent waits for them
	}
	l.dropSent()
	if output != nil {
		l.tx.Set(partKey(nil, l.run, partOutput), output)
	}
	now, suspect := l.tx.Now(), l.isChild() && l.leaves(status)
	l.status, l.endedAt, l.wait, l.due, l.call, l.fan = status, now, waitNothing, never, noCall(), noFan()
	l.ending.status = 0
	l.event(event{kind: endEvents[status], detail: l.failure.message})
	k := l.byID(l.of)
	k.active--
	*k.ended(status)++
	if k.kept >= k.retainRuns {
		k.forgetOld(2, k.retainRuns-1, now-handoverMillis) // now, so that no timer is needed
	}
	k.kept++
	k.nextEnded, k.changed = min(k.nextEnded, now), true
	l.tx.Count(countActive, -1)
	l.tx.Count(endCounters[status], 1)
	ns := l.tx.Namespace()
	l.tx.Delete(statusRunKey(nil, ns, 0, l.run))
	l.tx.Insert(statusRunKey(nil, ns, status, l.run), nil)
	l.tx.Insert(endedKey(nil, k.id, now, l.run), nil)
	l.tellEnd(output, suspect)
	l.tx.Notify(runTopic(l.tx.NamespaceName(), l.run), -1)
}

// leaves reports whether a run that was cancelled or timed out may have uncompensated effects. It
// has undone itself if all its executed steps have compensations and none of these has failed. A
// run that reaches a terminal is responsible for its own effects.
func (l *live) leaves(status Status) bool {
	if l.ending.place >= 0 || status != Cancelled && status != TimedOut {
		return false
	}
	if l.undid > 0 {
		return true
	}
	for i := range l.def.Steps {
		step := &l.def.Steps[i]
		if step.Compensate != nil || step.Kind != flow.KindCall && step.Kind != flow.KindParallel {
			continue
		}
		if i == l.step {
			return true
		}
		if row, ok := l.stepRow(step.Name); ok && (row.outcome != OutcomeSkipped || row.attempts > 0) {
			return true
		}
	}
	return false
}

func joined(message, more string) string {
	if message == "" {
		return more
	}
	return message + "; " + more
}

var endEvents = [...]EventType{Completed: WorkflowCompleted, Failed: WorkflowFailed, Cancelled: WorkflowCancelled,
	TimedOut: WorkflowTimedOut}

var endCounters = [...]engine.Counter{Completed: countCompleted, Failed: countFailed, Cancelled: countCancelled, TimedOut: countTimedOut}

// outputAt returns the output of an ending run, nil if it has none.
func (l *live) outputAt(status Status, terminal int64) []byte {
	var t *flow.Template
	if terminal >= 0 {
		t = l.def.Terminal(flow.Place(^terminal)).Output
	}
	if t == nil && status == Completed {
		if t = l.def.Output; t == nil {
			s, _ := l.stepRow(l.stepName())
			return s.output
		}
	}
	if t == nil {
		return nil
	}
	return t.Append(nil, l)
}

// nextUndo returns the last visit below a number that must be compensated.
func (l *live) nextUndo(below uint64) (visit uint64, row undoRow, ok bool) {
	k, v, ok := l.tx.First(undoKey(nil, l.run, below-1), key.PrefixEnd(partKey(nil, l.run, partUndo)))
	if !ok {
		return 0, row, false
	}
	return ^lastOf(k), must(decode(v, (*undoRow).code)), true
}
