package action

import (
	"fmt"

	"github.com/floedb/floe/internal/engine"
)

// CompleteOp completes the run of a task as an operation of a transaction. The transaction can
// contain the writes of the handler, so that they happen once even if the run is started several
// times. It is for tasks of handlers, of Await and of Assigned. The handler's return value then has
// no effect.
//
//	res, err := node.Txn("shop").
//		If(action.Held(t)).
//		Do(kv.PutOp("order:42", paid), action.CompleteOp(t, nil)).
//		Commit(ctx)
//
// It is rejected with ErrConflict if the attempt is over or the run was cancelled. In a spread
// namespace the other parts must live in the run's shard: their {tag} must be that of the action's
// name, or else of the run's IdempotencyKey.
//
// Options: OutcomeName.
func CompleteOp(t *Task, output []byte, opts ...EndOption) Op {
	return Op{engine.Hide(endTaskOp(t, end{how: completed, output: output}, opts))}
}

// FailOp is CompleteOp for a failed attempt, with its error. Without Retry the run has failed.
// Options: ErrorCode, Retry, Delay with Retry.
func FailOp(t *Task, message string, opts ...EndOption) Op {
	return Op{engine.Hide(endTaskOp(t, end{how: refused, message: shorten(message, MaxErrorBytes), delay: -1}, opts))}
}

// Assigned returns the task of a run that a worker got from Await, in this process or another one,
// for CompleteOp, FailOp and Held. delivery is Task.Delivery; 0 means the worker's current attempt.
func Assigned(run RunID, worker string, delivery int) *Task {
	return &Task{Run: run, Delivery: delivery, self: worker}
}

type hiddenCondition = engine.HiddenCondition

// Condition is a condition of a transaction, made by Held; see floe.Txn. It may be used in any
// number of transactions. The zero Condition is rejected with ErrInvalid.
type Condition struct{ hiddenCondition }

// Held holds while a task's attempt is active: it has not ended, and the run was not cancelled.
func Held(t *Task) Condition {
	if t == nil {
		return Condition{engine.HideCondition(engine.Op{Err: errNoTask("held")})}
	}
	p, err := t.Run.parse()
	c := touchBody{session: t.session, self: t.self, ref: p.Ref, attempt: int64(t.Attempt), begun: int64(t.Delivery), extend: 1}
	return Condition{engine.HideCondition(at(p.shard, checkHeld.Op("", c, err)))}
}

func errNoTask(what string) error { return engine.Errorf(ErrInvalid, "action: %s: no task", what) }

func endTaskOp(t *Task, e end, opts []EndOption) engine.Op {
	if t == nil {
		return engine.Op{Err: errNoTask("end of an attempt")}
	}
	p, err := t.Run.parse()
	if err == nil {
		e, err = e.with(opts)
	}
	e.ref, e.attempt, e.begun = p.Ref, int64(t.Attempt), int64(t.Delivery)
	if t.settled != nil {
		t.settled.Store(true)
	}
	return at(p.shard, endRun.Op("", workBody{session: t.session, self: t.self, ends: []end{e}}, err))
}

// endHeld ends an active attempt, or returns an error if it is not active.
func (w *work) endHeld(c *workBody) error {
	e := &c.ends[0]
	t := touchBody{session: c.session, self: c.self, ref: e.ref, attempt: e.attempt, begun: e.begun}
	s, err := w.holder(&t)
	if err != nil {
		return err
	}
	if v := w.settle(s, e); v != accepted {
		panic(fmt.Sprintf("action: an attempt that continues ends with verdict %d", v))
	}
	if c.session == 0 {
		w.m.workers.Called(w.tx, c.self)
		w.keepSelf(s)
	}
	return nil
}

// held returns an error if an attempt is not active.
func (w *work) held(c *touchBody) error {
	_, err := w.holder(c)
	return err
}

// holder returns the session that has an active attempt.
func (w *work) holder(c *touchBody) (*session, error) {
	s, err := w.named(c.session, c.self)
	if err != nil {
		return nil, err
	}
	if _, st := w.attemptOf(s, c.ref, c.attempt, c.begun); st == nil || st.status != Running {
		return nil, engine.Errorf(ErrConflict, "run %s is no longer assigned to this worker", runLocation{w.tx.Shard(), c.ref}.id())
	}
	return s, nil
}
