package action

import (
	"context"

	"github.com/floedb/floe/internal/engine"
)

// Finish ends a run that a worker got from Await with the return values of a Handler, as a Worker
// does. It is for loops that call handlers themselves.
//
// Errors: ErrConflict if the run is no longer assigned to the worker or was cancelled.
func (s *Store) Finish(ctx context.Context, id string, t *Task, result any, err error) error {
	if t == nil {
		return engine.Errorf(ErrInvalid, "action: finish: no task")
	}
	at, bad := t.Run.parse()
	if bad != nil {
		return bad
	}
	p := piece{taken: taken{ref: at.Ref, attempt: int64(t.Attempt), begun: int64(t.Delivery)}}
	e, _ := p.conclude(result, err, s.scope.MaxPayload())
	return s.end(ctx, t.Run, id, e)
}
