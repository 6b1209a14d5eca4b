package action

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

// settle ends an attempt of a session.
func (w *work) settle(s *session, e *end) verdict {
	a, st := w.attemptOf(s, e.ref, e.attempt, e.begun)
	if st == nil {
		w.returnedLate(e)
		return overtaken
	}
	if st.status != Running { // it was cancelled
		a.confirm(s, e.ref, st, true)
		return abandoned
	}
	a.letGo(s, e.ref, st)
	switch e.how {
	case completed:
		st.outcome, st.output, st.code, st.message = e.outcome, e.output, "", ""
		if st.outcome == "" {
			st.outcome = OutcomeSuccess
		}
		a.completed++
		a.took += w.tx.Now() - st.startedAt
		w.count(s, a, false)
		a.finish(e.ref, st, Completed)
	case released:
		st.attempts--
		if st.flags&flagExpires != 0 && st.attempts == 0 && a.runOf(e.ref).expires <= w.tx.Now() {
			st.flags &^= flagExpires // it was started in time
		}
		a.expect(e.ref, st)
		a.pending++
		a.enqueue(e.ref, st, false)
	case snoozed:
		st.attempts--
		st.flags &^= flagExpires // it was started
		a.retry(e.ref, st, e.delay)
	default:
		st.code, st.message = e.code, e.message
		if e.how == refused {
			st.flags |= flagRefused
		}
		w.count(s, a, true)
		a.fail(e.ref, st, e.how == failed, e.delay, Failed)
	}
	return accepted
}

// count counts an ended attempt for a worker that calls Await itself. Processes report their own
// counts.
func (w *work) count(s *session, a *act, failed bool) {
	if s.self {
		w.m.workers.Ended(w.tx, s.process, a.name, failed)
	}
}

// attemptOf returns an attempt that a session has, with a nil state if it is over. A cancelled
// attempt stays with the session until the cancellation is confirmed. A caller that has the
// delivery number passes it, because an attempt that does not count has the same number as the next
// one.
func (w *work) attemptOf(s *session, ref protocol.Ref, attempt, begun int64) (*act, *stateRow) {
	a := w.byID(ref.Action)
	if a == nil {
		return nil, nil
	}
	b, ok := w.tx.Get(runKey(nil, rowState, ref.Action, ref.Run))
	if !ok {
		return nil, nil
	}
	st := must(decode(b, (*stateRow).layout))
	other := attempt != 0 && attempt != st.attempts || begun != 0 && begun != st.begun
	if st.flags&flagHeld == 0 || st.session != s.id || other {
		return nil, nil
	}
	return a, &st
}

// returnedLate handles the return of the handler of a timed-out or cancelled run. It notifies the
// workflow that invoked the run, which does not compensate it earlier. It reports whether that was
// the case.
func (w *work) returnedLate(e *end) bool {
	a := w.byID(e.ref.Action)
	if a == nil {
		return false
	}
	b, ok := w.tx.Get(runKey(nil, rowState, e.ref.Action, e.ref.Run))
	if !ok {
		return false
	}
	st := must(decode(b, (*stateRow).layout))
	if st.status != TimedOut && st.status != Cancelled || st.flags&(flagNotify|flagHeld) != flagNotify ||
		e.attempt != 0 && e.attempt != st.attempts || a.runOf(e.ref).notify.Machine != engine.MachineWorkflow {
		return false
	}
	a.tellEnd(e.ref, &st, false)
	return true
}

// confirm frees the slots of a cancelled run. If the run is no longer retained, its state was kept
// only for this. returned means that its handler has returned or never will; for a timed-out run it
// is unknown.
func (a *act) confirm(s *session, ref protocol.Ref, st *stateRow, returned bool) {
	a.letGo(s, ref, st)
	if _, kept := a.tx.Get(timedRunKey(nil, rowEnded, a.id, st.endedAt, ref.Run)); !kept {
		a.tx.Delete(runKey(nil, rowState, a.id, ref.Run))
		a.leaveSet(st.set)
		return
	}
	a.setState(ref, st)
	if returned && st.flags&flagNotify != 0 && a.runOf(ref).notify.Machine == engine.MachineWorkflow {
		a.tellEnd(ref, st, false) // second report: now its handler has returned
	}
}

// letGo removes a run from its session and frees its slots. The caller writes its state.
func (a *act) letGo(s *session, ref protocol.Ref, st *stateRow) {
	a.tx.Delete(heldKey(nil, s.id, a.id, ref.Run))
	s.held--
	s.changed, a.changed = true, true
	if s.held == maxHeld-1 {
		a.tx.Notify(sessionTopic(a.tx.NamespaceName(), s.id), -1)
	}
	if st.status == Running {
		a.running--
	} else {
		a.unconfirmed--
	}
	st.flags &^= flagHeld
	st.session = 0
	if a.maxRunning > 0 && a.running+a.unconfirmed == a.maxRunning-1 {
		a.wakeAll()
	}
	if st.key != "" {
		l := a.lane(st.set, st.key)
		l.running--
		a.settleKey(l, true)
	}
}

// fail ends an attempt without success: another one follows, if allowed, or the run ends with the
// given status.
func (a *act) fail(ref protocol.Ref, st *stateRow, again bool, delay int64, status Status) {
	if again && st.attempts < st.maxAttempts && !a.deleted {
		if delay < 0 {
			delay = a.backoff(a.runOf(ref).maxAttempts - (st.maxAttempts - st.attempts)) // since it was retried
		}
		a.retry(ref, st, delay)
		return
	}
	st.outcome = OutcomeFailure
	if status == TimedOut {
		st.outcome = OutcomeTimeout
		a.timedOut++
	} else {
		a.failed++
	}
	a.finish(ref, st, status)
}

// retry makes a run wait for its next attempt, behind the runs that already wait.
func (a *act) retry(ref protocol.Ref, st *stateRow, delay int64) {
	a.pending++
	if delay > 0 {
		a.postpone(ref, st, a.tx.Now()+delay)
		return
	}
	st.seq = uint64(a.tx.Step())
	a.enqueue(ref, st, false)
}

// backoff returns the delay after an attempt: twice that of the previous one, minus up to a quarter
// that differs from run to run, so that runs that failed together do not retry together.
func (a *act) backoff(attempt int64) int64 {
	d := a.backoffMin
	for i := int64(1); i < attempt && d > 0 && d < a.backoffMax; i++ {
		d *= 2
	}
	d = min(d, a.backoffMax)
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(a.tx.Step()))
	return d - d/4*int64(xxhash.Sum64(b[:])%1024)/1024
}

// finish ends a run and notifies its waiters.
func (a *act) finish(ref protocol.Ref, st *stateRow, status Status) {
	now := a.tx.Now()
	st.status, st.endedAt, st.due = status, now, 0
	a.setState(ref, st)
	row := endedRow{status: status, set: st.set, awaited: st.flags&flagAwaited != 0}
	if st.startedAt > 0 {
		row.took = now - st.startedAt
	}
	a.tx.Insert(timedRunKey(nil, rowEnded, a.id, now, ref.Run), encode(nil, &row, (*endedRow).code))
	a.kept++
	a.nextEnded, a.changed = min(a.nextEnded, now), true
	if st.flags&flagNotify != 0 {
		// The report comes before the removal of the run if no ended runs are kept. If a run is
		// cancelled between two attempts, the handler of the lost or timed-out attempt may still be
		// running.
		a.tellEnd(ref, st, status == TimedOut || st.flags&flagHeld != 0 || status == Cancelled && st.flags&flagSuspect != 0)
	}
	a.ended++
	a.tx.Notify(runTopic(a.tx.NamespaceName(), ref), -1)
}

// tellEnd reports the end to the machine that invoked the run. atWork is whether the handler may
// still be running.
func (a *act) tellEnd(ref protocol.Ref, st *stateRow, atWork bool) {
	row := a.runOf(ref)
	n := row.notify
	ref.Tag = row.tag
	end := protocol.End{
		Token: n.Token, Ref: ref, Status: uint8(st.status), Refused: st.flags&flagRefused != 0, Attempt: st.attempts, Outcome: st.outcome,
		Code: st.code, Message: st.message, Output: st.output, Held: atWork,
		Suspect: st.flags&flagSuspect != 0,
	}
	a.tx.Then(engine.Command{Machine: n.Machine, Kind: n.Command, Body: encode(nil, &end, (*protocol.End).Encode)})
	a.tx.Cause(endCause(a.tx.NamespaceName(), a.id))
	a.told = true
}

// endedRow is the value of a row 'f'.
type endedRow struct {
	status Status
	took   int64 // ms, of the last attempt
	set    uint8 // label set

	awaited bool // see handoverMillis
}

func (e *endedRow) code(c *codec.Coder) {
	c.Byte((*byte)(&e.status))
	c.Varint(&e.took)
	if c.More(e.set != 0 || e.awaited) {
		c.Byte(&e.set)
		c.Bool(&e.awaited)
	}
}

// cancel ends a run before its handler does.
func (w *work) cancel(c *protocol.Cancel) error {
	a, st, err := w.find(c.Ref)
	if err != nil {
		return err
	}
	if st.status.Final() {
		return engine.Errorf(ErrConflict, "run %s has ended: it is %s", runLocation{w.tx.Shard(), c.Ref}.id(), st.status)
	}
	a.cancelRun(c.Ref, st, c.Reason)
	return nil
}

// cancelRun cancels a run that has not ended. Its worker is notified. Until it confirms or its
// session ends, it keeps the slots.
func (a *act) cancelRun(ref protocol.Ref, st *stateRow, reason string) {
	switch {
	case st.status == Running:
		a.running--
		a.unconfirmed++
		k := heldKey(nil, st.session, a.id, ref.Run)
		b, ok := a.tx.Get(k)
		if !ok {
			panic(fmt.Sprintf("action %q: session %d does not have run %d", a.name, st.session, ref.Run))
		}
		h := must(decode(b, (*held).code))
		h.cancelled = true
		a.tx.Set(k, encode(nil, &h, (*held).code))
		a.tx.Notify(sessionTopic(a.tx.NamespaceName(), st.session), -1)
	default:
		a.withdraw(ref, st)
	}
	a.cancelled++
	st.outcome, st.code, st.message = OutcomeCancelled, "", reason
	a.finish(ref, st, Cancelled)
}

// withdraw removes a waiting run from its index.
func (a *act) withdraw(ref protocol.Ref, st *stateRow) {
	a.unexpect(ref, st)
	a.pending--
	a.changed = true
	if st.due == 0 {
		a.dequeue(st)
		return
	}
	a.delayed--
	a.tx.Delete(timedRunKey(nil, rowDelayed, a.id, st.due, ref.Run))
}

// touch extends the current attempt of a run to a time from now.
func (w *work) touch(c *touchBody) (until time.Time, err error) {
	s, err := w.named(c.session, c.self)
	if err != nil {
		return until, err
	}
	a, st := w.attemptOf(s, c.ref, c.attempt, c.begun)
	if st == nil || st.status != Running {
		return until, engine.Errorf(ErrConflict, "run %s is no longer assigned to this worker", runLocation{w.tx.Shard(), c.ref}.id())
	}
	if s.self {
		w.m.workers.Called(w.tx, s.process)
	}
	h := held{deadline: w.tx.Now() + c.extend}
	w.tx.Set(heldKey(nil, s.id, a.id, c.ref.Run), encode(nil, &h, (*held).code))
	w.scheduleSession(s, h.deadline)
	return time.UnixMilli(h.deadline), nil
}

// crowded reports whether due work must wait for another log entry.
func (w *work) crowded() bool { return w.tx.Full() || w.tx.FollowUpsLeft() < engine.MaxFollowUps/2 }
