package action

import (
	"context"
	"encoding/json"

	"github.com/floedb/floe/internal/engine"
)

// Handle is Worker.Handle for a function of Go values. It decodes the input of a run into an In,
// and encodes the Out that f returns as its output, both as JSON. An Out of bytes ([]byte or
// json.RawMessage) is stored unchanged; Invoke and Result read it the same way. A run whose input
// does not fit In fails with the code bad_input. TaskOf returns the task of ctx.
func Handle[In, Out any](w *Worker, action string, f func(ctx context.Context, in In) (Out, error)) *Worker {
	if f == nil {
		return w.Handle(action, nil)
	}
	return w.Handle(action, func(ctx context.Context, t *Task) (any, error) {
		var in In
		if err := t.Decode(&in); err != nil {
			return nil, err
		}
		return f(ctx, in)
	})
}

// Invoke invokes an action with a Go value, waits until the run has ended and returns its output,
// both as JSON.
//
// Options are those of Store.Invoke. Errors: those of Store.InvokeAndWait and of Result; ErrInvalid
// for an input that cannot be encoded as JSON.
func Invoke[Out any](ctx context.Context, s *Store, action string, input any, opts ...InvokeOption) (out Out, err error) {
	b, err := json.Marshal(input)
	if err != nil {
		return out, engine.Errorf(ErrInvalid, "action: input of %q: %s", action, engine.Cut(err.Error(), maxShown))
	}
	run, err := s.InvokeAndWait(ctx, action, b, opts...)
	if err != nil {
		return out, err
	}
	return Result[Out](run)
}

// Result decodes the output of an ended run as JSON; bytes ([]byte or json.RawMessage) are returned
// unchanged. Without an output it returns the zero value. Errors: a *RunError if the run is not
// completed; ErrInvalid if its output does not fit an Out.
func Result[Out any](run Run) (out Out, err error) {
	if run.Status != Completed {
		return out, &RunError{run}
	}
	if len(run.Output) == 0 {
		return out, nil
	}
	switch b := any(&out).(type) {
	case *[]byte:
		*b = run.Output
		return out, nil
	case *json.RawMessage:
		*b = run.Output
		return out, nil
	}
	if err := json.Unmarshal(run.Output, &out); err != nil {
		return out, engine.Errorf(ErrInvalid, "action: output of run %s: %s", run.ID, engine.Cut(err.Error(), maxShown))
	}
	return out, nil
}

// maxShown is the maximum number of bytes of foreign text in an error message.
const maxShown = 200

// RunError is the error of a run that has no result.
type RunError struct{ Run Run }

func (e *RunError) Error() string {
	text := engine.Text("action %q: run %s is %s", e.Run.Action, e.Run.ID, e.Run.Status)
	if e.Run.Error != "" {
		text += ": " + engine.Cut(e.Run.Error, maxShown)
	}
	return text
}
