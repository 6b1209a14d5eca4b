package workloop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// Source supplies pieces of work and receives their outcomes. Its methods are called concurrently,
// but Take by one goroutine at a time.
type Source[T any] interface {
	// Take waits for work and returns up to n pieces. It may return none, for example after a
	// timeout, and is then called again. It returns soon after ctx ends. Pieces that it then
	// returns are released instead of run.
	Take(ctx context.Context, n int) ([]T, error)
	// Settle reports the outcome of a piece. It is called again after a transient error.
	Settle(ctx context.Context, piece T, r Result) error
}

// Renewer is a Source whose pieces are leased.
type Renewer[T any] interface {
	// Lease returns the duration of leases, counted from a Take or a renewal. It may change with a
	// Take, but not from or to 0, which means no limit.
	Lease() time.Duration
	// Renew extends leases to Lease from now. lost is nil, or has an error for each piece whose
	// lease is lost and nil for the others. If err is not nil, the others may not be renewed, and
	// Renew is called again.
	Renew(ctx context.Context, pieces []T) (lost []error, err error)
}

// Releaser is a Source that takes back pieces that did not run, or did not run to their end. The
// loop reports errors of Release and does not retry.
type Releaser[T any] interface {
	Release(ctx context.Context, pieces []T) error
}

// Laner is a Source with lanes: pieces with the same non-empty lane run one after the other.
type Laner[T any] interface {
	Lane(piece T) string
}

// Result is the outcome of a handler.
type Result struct {
	// Err is the error that the handler returned, or Panic. It is a user's value whose methods may
	// panic, so a Source only compares it with nil.
	Err error
	// Panic is set if the handler did not return.
	Panic *PanicError
	// Cause is the cause of the handler's cancelled context, nil if it was not cancelled.
	Cause error
	// Stopped means that the loop ended and cancelled the handler. An Err then does not count as a
	// failure.
	Stopped bool
}

// GiveBack reports whether to release the piece instead of failing it, because the handler was
// stopped and did not panic.
func (r Result) GiveBack() bool { return r.Stopped && r.Err != nil && r.Panic == nil }

// PanicError is the error of a handler that did not return.
type PanicError struct {
	Value any    // value of the panic; nil if the handler called runtime.Goexit
	Stack []byte // nil for Goexit
	text  string
}

// newPanicError formats the value immediately, while a panic of its methods is still recovered.
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

// LostError is the cause of a cancelled handler whose piece was lost. It matches
// engine.ErrConflict.
type LostError struct {
	Err error // the reason
}

func (e *LostError) Error() string { return fmt.Sprintf("lease lost: %v", e.Err) }

// Unwrap returns ErrConflict and Err.
func (e *LostError) Unwrap() []error { return []error{engine.ErrConflict, e.Err} }

// BlockedError reports handlers that did not return after their contexts were cancelled. They are
// still running.
type BlockedError struct {
	Handlers int
}

func (e *BlockedError) Error() string {
	return fmt.Sprintf("%d handlers have not returned, %v after their contexts were cancelled", e.Handlers, lastWords)
}

// UnsettledError reports results that could not be sent before the loop ended. Their pieces are
// delivered again when their leases end. It matches engine.ErrUnknownOutcome.
type UnsettledError struct {
	Results int
	Err     error // of the last one
}

func (e *UnsettledError) Error() string {
	return fmt.Sprintf("%d results could not be handed over: %v", e.Results, e.Err)
}

// Unwrap returns ErrUnknownOutcome and Err.
func (e *UnsettledError) Unwrap() []error { return []error{engine.ErrUnknownOutcome, e.Err} }

// Passing reports whether a retry may succeed after err. All errors are transient, except those
// known to be definite.
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

// Final marks an error of Take as permanent, so that the loop ends instead of retrying.
func Final(err error) error { return &finalError{err} }

type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

// final reports whether err ends the loop. ErrNotFound and ErrConflict do not, because the state
// may change.
func final(err error) bool {
	var marked *finalError
	if errors.As(err, &marked) {
		return true
	}
	return errors.Is(err, engine.ErrInvalid) || errors.Is(err, engine.ErrUnauthorized) || errors.Is(err, engine.ErrClosed)
}
