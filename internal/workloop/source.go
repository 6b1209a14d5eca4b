package workloop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// Source is where pieces of work come from, and where it is told what has become of them. Its methods are called by several goroutines at once, Take by
// one at a time.
type Source[T any] interface {
	// Take waits for work and returns up to n pieces of it. It may return none, for example when it has waited for long enough: then it is called again.
	// When ctx ends it returns soon; what it returns all the same is not run but given back.
	Take(ctx context.Context, n int) ([]T, error)
	// Settle says how a piece has ended. It is called once more if it fails with an error that may pass.
	Settle(ctx context.Context, piece T, r Result) error
}

// Renewer is a Source whose pieces are leased.
type Renewer[T any] interface {
	// Lease returns for how long a piece is leased, when it is taken and when it is renewed. 0 means for ever, and it does not change from or to that;
	// otherwise it may change with a Take.
	Lease() time.Duration
	// Renew makes leases last for Lease from now on. lost is nil, or has an error for each piece whose lease has ended and nil for the others. With an
	// err nothing has become of the others, as far as is known, and Renew is called again.
	Renew(ctx context.Context, pieces []T) (lost []error, err error)
}

// Releaser is a Source to which pieces can be given back that were not run, or not to their end. Errors are only reported.
type Releaser[T any] interface {
	Release(ctx context.Context, pieces []T) error
}

// Laner is a Source some of whose pieces have to run one after the other: those with the same lane, if it is not "".
type Laner[T any] interface {
	Lane(piece T) string
}

// Result is how the handler has ended.
type Result struct {
	// Err is what the handler returned, or Panic. It is a user's value, whose methods may panic: a Source compares it with nil, and no more.
	Err error
	// Panic is set if the handler did not return.
	Panic *PanicError
	// Cause says why its context was cancelled meanwhile, nil if it was not.
	Cause error
	// Stopped means that the loop has ended before the handler, and cancelled it: an Err is not to be taken for a failure.
	Stopped bool
}

// GiveBack reports whether the piece should be given back, instead of having failed: it was stopped, and has not panicked.
func (r Result) GiveBack() bool { return r.Stopped && r.Err != nil && r.Panic == nil }

// PanicError is the error of a handler that did not return.
type PanicError struct {
	Value any    // of the panic; nil if the handler called runtime.Goexit
	Stack []byte // where it was, nil for Goexit
	text  string
}

// newPanicError formats the value at once, where a panic of its methods is still recovered.
func newPanicError(value any, stack []byte) *PanicError {
	e := &PanicError{Value: value, Stack: stack, text: "handler called runtime.Goexit"}
	if stack != nil {
		e.text = fmt.Sprintf("handler panicked: %s\n%s", engine.Thrown(value), stack)
	}
	return e
}

func (e *PanicError) Error() string { return e.text }

// Unwrap returns the value of the panic, if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// LostError is why the context of a handler was cancelled whose piece is not the loop's any more. It matches engine.ErrConflict.
type LostError struct {
	Err error // how that is known
}

func (e *LostError) Error() string { return fmt.Sprintf("lease lost: %v", e.Err) }

// Unwrap returns ErrConflict and Err.
func (e *LostError) Unwrap() []error { return []error{engine.ErrConflict, e.Err} }

// BlockedError says that handlers have not returned though their contexts were cancelled. They are still running.
type BlockedError struct {
	Handlers int
}

func (e *BlockedError) Error() string {
	return fmt.Sprintf("%d handlers have not returned, %v after their contexts were cancelled", e.Handlers, lastWords)
}

// UnsettledError says that results could not be handed over until the loop had to end: what they are about is done again, when its leases end. It matches
// engine.ErrUnknownOutcome.
type UnsettledError struct {
	Results int
	Err     error // of the last one
}

func (e *UnsettledError) Error() string {
	return fmt.Sprintf("%d results could not be handed over: %v", e.Results, e.Err)
}

// Unwrap returns ErrUnknownOutcome and Err.
func (e *UnsettledError) Unwrap() []error { return []error{engine.ErrUnknownOutcome, e.Err} }

// Passing reports whether a call that failed with err may succeed when it is made again. Only what is known to be definite is not.
func Passing(err error) bool {
	for _, definite := range []error{
		engine.ErrConflict, engine.ErrNotFound, engine.ErrExists, engine.ErrInvalid, engine.ErrUnauthorized, engine.ErrClosed,
	} {
		if errors.Is(err, definite) {
			return false
		}
	}
	return true
}

// Final marks the error of a Take after which it is of no use to take again, of a kind that would pass otherwise.
func Final(err error) error { return &finalError{err} }

type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

// final reports whether it is of no use to take again after err. What does not exist, or is in conflict, may change.
func final(err error) bool {
	var marked *finalError
	if errors.As(err, &marked) {
		return true
	}
	return errors.Is(err, engine.ErrInvalid) || errors.Is(err, engine.ErrUnauthorized) || errors.Is(err, engine.ErrClosed)
}
