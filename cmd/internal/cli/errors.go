package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/floedb/floe"
)

// The exit codes, which scripts rely on.
const (
	exitOK           = 0
	exitFailure      = 1   // the command could not do what it was asked
	exitUsage        = 2   // the command line was not understood
	exitNotFound     = 3   // what it is about does not exist
	exitConflict     = 4   // a condition did not hold, or it exists already
	exitUnavailable  = 5   // there was no answer, no quorum, too much to do, or no space
	exitUnauthorized = 6   // the node wants other credentials
	exitInterrupted  = 130 // the user ended it while something was unfinished
)

// exitCodes are those of what a node, or the way to it, answers; what matches several is the first.
// The rest is exitFailure.
var exitCodes = []struct {
	err  error
	code int
}{
	{errInterrupted, exitInterrupted},
	{floe.ErrNotFound, exitNotFound},
	{floe.ErrConflict, exitConflict},
	{floe.ErrExists, exitConflict},
	{floe.ErrUnauthorized, exitUnauthorized},
	{floe.ErrBusy, exitUnavailable},
	{floe.ErrUnavailable, exitUnavailable},
	{floe.ErrClosed, exitUnavailable},
	{context.DeadlineExceeded, exitUnavailable},
}

// errInterrupted is what a command that was ended before its time has instead of a result.
var errInterrupted = errors.New("interrupted")

// exitError is a failure with the exit code that says what kind of one it is.
type exitError struct {
	error
	code int
}

func (e *exitError) Unwrap() error { return e.error }

// coded gives an answer its exit code.
func coded(err error) error {
	for _, e := range exitCodes {
		if errors.Is(err, e.err) {
			return &exitError{err, e.code}
		}
	}
	return err
}

// textError is an error in other words.
type textError struct {
	err  error
	text string
}

func (e *textError) Error() string { return e.text }

func (e *textError) Unwrap() error { return e.err }

// usageError is a command line that was not understood.
type usageError struct {
	error
	hint string
}

func (e *usageError) Unwrap() error { return e.error }

// hintedError is a failure with what to do about it.
type hintedError struct {
	error
	hint string
}

func (e *hintedError) Unwrap() error { return e.error }

// report prints an error, if there is one, and returns the exit code.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	code, hint := exitFailure, ""
	if exit := (*exitError)(nil); errors.As(err, &exit) {
		code, err = exit.code, exit.error
	}
	if usage := (*usageError)(nil); errors.As(err, &usage) {
		code, hint, err = exitUsage, usage.hint, usage.error
	} else if hinted := (*hintedError)(nil); errors.As(err, &hinted) {
		hint = hinted.hint
	}
	for _, e := range split(err) {
		fmt.Fprintf(stderr, "floe: error: %v\n", e)
	}
	if hint != "" {
		fmt.Fprintf(stderr, "floe: hint: %s\n", hint)
	}
	return code
}

// split returns the errors that errors.Join has joined.
func split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}
