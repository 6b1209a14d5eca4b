package action

import (
	"context"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

// Retry runs a failed, timed-out or cancelled run again. The run is queued behind the waiting runs
// and gets as many new attempts as it was invoked with. It keeps its id and its input.
//
// Errors: ErrNotFound if the run does not exist or is no longer retained; ErrConflict if it has not
// ended or is completed, if its worker has not yet confirmed its cancellation, if its action is
// disabled, or if it is a step of a workflow (retry the workflow run instead); ErrInvalid for an
// invalid id.
func (s *Store) Retry(ctx context.Context, id RunID) error {
	_, err := engine.Propose(ctx, &s.scope, refOp(retryRun, id), retryRun.Decode)
	return err
}

// RunNow ends the wait of a run for its Delay or for its next attempt: the run starts as soon as a
// worker is free. It has no effect on a run that already waits for a worker. The action's limits
// still apply.
//
// Errors: ErrNotFound; ErrConflict if the run is not pending; ErrInvalid for an invalid id.
func (s *Store) RunNow(ctx context.Context, id RunID) error {
	_, err := engine.Propose(ctx, &s.scope, refOp(hurryRun, id), hurryRun.Decode)
	return err
}

func refOp(row *engine.CommandRow[*work, protocol.Ref, engine.Nothing], id RunID) engine.Op {
	p, err := id.parse()
	return at(p.shard, row.Op("", p.Ref, err))
}

// find returns an existing run.
func (w *work) find(ref protocol.Ref) (*act, *stateRow, error) {
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

// again runs an ended run once more.
func (w *work) again(ref *protocol.Ref) error {
	a, st, err := w.find(*ref)
	if err != nil {
		return err
	}
	id := runLocation{w.tx.Shard(), *ref}.id()
	row := a.runOf(*ref)
	switch {
	case !st.status.Final() || st.status == Completed:
		return engine.Errorf(ErrConflict, "run %s is %s: only failed, timed-out or cancelled runs can be retried", id, st.status)
	case st.flags&flagHeld != 0:
		return engine.Errorf(ErrConflict, "run %s is being cancelled: its worker has not confirmed yet", id)
	case a.deleted:
		return notFound(a.name)
	case !a.enabled:
		return engine.Errorf(ErrConflict, "action %q is disabled", a.name)
	case row.notify.Machine != 0 && row.notify.Machine != engine.MachineAction:
		return engine.Errorf(ErrConflict, "run %s belongs to its invoker: retry that instead", id)
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
	w.tx.Delete(timedRunKey(nil, rowEnded, a.id, st.endedAt, ref.Run))
	st.flags &^= flagRefused | flagExpires
	st.maxAttempts = st.attempts + row.maxAttempts
	st.endedAt, st.outcome, st.output = 0, "", nil
	a.endDelay(*ref, row)
	a.retry(*ref, st, 0)
	return nil
}

// hurry ends a run's wait for a time.
func (w *work) hurry(ref *protocol.Ref) error {
	a, st, err := w.find(*ref)
	switch {
	case err != nil:
		return err
	case st.status != Pending:
		return engine.Errorf(ErrConflict, "run %s does not wait: it is %s", runLocation{w.tx.Shard(), *ref}.id(), st.status)
	case st.due == 0:
		return nil
	}
	w.tx.Delete(timedRunKey(nil, rowDelayed, a.id, st.due, ref.Run))
	a.delayed--
	a.endDelay(*ref, a.runOf(*ref))
	st.seq = uint64(w.tx.Step())
	a.enqueue(*ref, st, false)
	return nil
}

// endDelay notes that a run may begin before its delay is over.
func (a *act) endDelay(ref protocol.Ref, row *runRow) {
	if row.due > a.tx.Now() {
		row.due = a.tx.Now()
		a.tx.Set(runKey(nil, rowRun, a.id, ref.Run), encode(nil, row, (*runRow).code))
	}
}
