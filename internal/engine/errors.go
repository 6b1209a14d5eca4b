package engine

import (
	"errors"
	"fmt"

	"github.com/floedb/floe/internal/codec"
)

// The errors of floe, grouped by what the caller can conclude. Packages re-export the same values;
// use errors.Is.

// Definite refusals: the operation did not happen and will not.
var (
	// ErrNotFound: the named object does not exist.
	ErrNotFound = errors.New("not found")
	// ErrConflict: a condition of the operation (revision, receipt, version) does not hold.
	ErrConflict = errors.New("conflict")
	// ErrExists: the object to create already exists.
	ErrExists = errors.New("already exists")
	// ErrInvalid: an argument is malformed or out of its limits.
	ErrInvalid = errors.New("invalid argument")
	// ErrBusy: a bounded queue is full; the same call may succeed later.
	ErrBusy = errors.New("busy")
	// ErrUnauthorized: the credentials are missing, wrong or not sufficient.
	ErrUnauthorized = errors.New("unauthorized")
)

// ErrMalformed is the refusal of a command whose body does not decode, and matches ErrInvalid.
// Clients get it from Admit. A body that has reached the log and does not decode was written by a
// build with another layout, so Apply must not refuse it; see Tx.mustDecode.
var ErrMalformed = fmt.Errorf("%w: %w", ErrInvalid, codec.ErrCorrupt)

// The node's state.
var (
	// ErrClosed: the node or client has been closed.
	ErrClosed = errors.New("closed")
	// ErrUnavailable: the shard has no leader here or the node has failed; the message says which.
	ErrUnavailable = errors.New("unavailable")
	// ErrInUse: another node has the data directory. It also matches ErrUnavailable.
	ErrInUse = fmt.Errorf("in use: %w", ErrUnavailable)
	// ErrReadOnly: the node's disk is full. The node accepts only reads and commands that free
	// space, until it has space again. It also matches ErrUnavailable.
	ErrReadOnly = fmt.Errorf("read-only: %w", ErrUnavailable)
	// ErrUnknownOutcome: the write may or may not have taken effect, for example because leadership
	// was lost meanwhile. It also matches ErrUnavailable.
	ErrUnknownOutcome = fmt.Errorf("outcome unknown: %w", ErrUnavailable)
)

// errMisrouted refuses a command that was routed with an outdated placement of its namespace. The
// Router then routes it again.
var errMisrouted = errors.New("command was routed with an outdated placement")

// Error is a refusal with its own message that matches one of the sentinels above.
type Error struct {
	Kind error  // the sentinel
	Msg  string // names the thing, the value and the limit
}

func (e *Error) Error() string { return e.Msg }

// Unwrap makes errors.Is(e, e.Kind) true.
func (e *Error) Unwrap() error { return e.Kind }

// Errorf returns an error with the message, formatted as by Text, that matches the sentinel kind.
func Errorf(kind error, format string, args ...any) error {
	return &Error{Kind: kind, Msg: Text(format, args...)}
}

// TxnError names the part of a transaction that was refused. It unwraps to the reason.
type TxnError struct {
	Index     int  // position among the conditions or among the operations, from 0
	Condition bool // true: a condition of If, false: an operation of Do
	Err       error
}

func (e *TxnError) Error() string {
	part := "operation"
	if e.Condition {
		part = "condition"
	}
	return fmt.Sprintf("transaction: %s %d: %v", part, e.Index, e.Err)
}

// Unwrap returns the reason.
func (e *TxnError) Unwrap() error { return e.Err }
