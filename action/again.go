package action

import (
	"context"

	"github.com/floedb/floe/internal/call"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// Kinds of commands about a run that users name; behind those of schedules.
const (
	kindEnd uint8 = iota + kindSettle + 1
	kindHeld
	kindRetry
	kindRunNow
)

// refCommand is the body of kindRetry and kindRunNow.
type refCommand struct{ ref call.Ref }

func (r *refCommand) code(c *codec.Coder) { r.ref.Code(c) }

// Retry has a run that has failed, timed out or was cancelled carried out again: it waits, behind those that wait already, and gets as many attempts as it was invoked
// with, beside those that it had. Its id stays what it is, and so do its input and its place.
//
// Errors: ErrNotFound if there is no such run, or none any more; ErrConflict if it has not ended or is completed, its worker has not confirmed yet that it is cancelled,
// its action is disabled, or it is a step of a workflow, which is retried itself; ErrInvalid for what is no id.
func (s *Store) Retry(ctx context.Context, id RunID) error {
	_, err := engine.Propose(ctx, &s.scope, refOp(kindRetry, id), decodeNothing)
	return err
}

// RunNow has a run that waits for a time, because of its Delay or between two attempts, be begun as soon as a worker is free. One that does so already goes on to.
// Limits of the action hold.
//
// Errors: ErrNotFound; ErrConflict if the run does not wait; ErrInvalid for what is no id.
func (s *Store) RunNow(ctx context.Context, id RunID) error {
	_, err := engine.Propose(ctx, &s.scope, refOp(kindRunNow, id), decodeNothing)
	return err
}

func refOp(kind uint8, id RunID) engine.Op {
	p, err := id.parse()
	op := command(kind, "", err, encode(nil, &refCommand{p.Ref}, (*refCommand).code))
	op.RouteTo = routeTo(p.shard)
	return op
}

// find returns a run that is there.
func (w *work) find(ref call.Ref) (*act, *stateRow, error) {
	a := w.byID(ref.Action)
	if a == nil {
		return nil, nil, noRun(ref, w.tx.Shard())
	}
	b, ok := w.tx.Get(runKey(nil, rowRun, ref.Action, ref.Run))
	if !ok || must(decode(b, (*runRow).code)).tag != ref.Tag {
		return nil, nil, noRun(ref, w.tx.Shard())
	}
	return a, a.stateOf(ref), nil
}

// again carries out a run that has ended once more.
func (w *work) again(c *refCommand) ([]byte, error) {
	a, st, err := w.find(c.ref)
	if err != nil {
		return nil, err
	}
	id := place{w.tx.Shard(), c.ref}.id()
	row := a.runOf(c.ref)
	switch {
	case !st.status.Final() || st.status == Completed:
		return nil, engine.Errorf(ErrConflict, "run %s is %s: only one that has failed, timed out or was cancelled is retried", id, st.status)
	case st.flags&flagHeld != 0:
		return nil, engine.Errorf(ErrConflict, "run %s was cancelled, and its worker has not confirmed that yet", id)
	case a.deleted:
		return nil, notFound(a.name)
	case !a.enabled:
		return nil, engine.Errorf(ErrConflict, "action %q is disabled", a.name)
	case row.notify.Machine != 0 && row.notify.Machine != engine.MachineAction:
		return nil, engine.Errorf(ErrConflict, "run %s belongs to what has invoked it, which is retried itself", id)
	}
	switch st.status {
	case Failed:
		a.failed--
	case TimedOut:
		a.timedOut--
	default:
		a.cancelled--
	}
	a.kept--
	w.tx.Delete(timedRunKey(nil, rowEnded, a.id, st.endedAt, c.ref.Run))
	st.flags &^= flagRefused | flagExpires
	st.maxAttempts = st.attempts + row.maxAttempts
	st.endedAt, st.outcome, st.output = 0, "", nil
	a.endDelay(c.ref, row)
	a.retry(c.ref, st, 0)
	return nil, nil
}

// hurry ends that a run waits for a time.
func (w *work) hurry(c *refCommand) ([]byte, error) {
	a, st, err := w.find(c.ref)
	switch {
	case err != nil:
		return nil, err
	case st.status != Pending:
		return nil, engine.Errorf(ErrConflict, "run %s does not wait: it is %s", place{w.tx.Shard(), c.ref}.id(), st.status)
	case st.due == 0:
		return nil, nil
	}
	w.tx.Delete(timedRunKey(nil, rowDelayed, a.id, st.due, c.ref.Run))
	a.delayed--
	a.endDelay(c.ref, a.runOf(c.ref))
	st.seq = uint64(w.tx.Step())
	a.enqueue(c.ref, st, false)
	return nil, nil
}

// endDelay notes that a run may begin before its delay is over.
func (a *act) endDelay(ref call.Ref, row *runRow) {
	if row.due > a.tx.Now() {
		row.due = a.tx.Now()
		a.tx.Set(runKey(nil, rowRun, a.id, ref.Run), encode(nil, row, (*runRow).code))
	}
}
