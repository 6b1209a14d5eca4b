package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/floedb/floe"
)

// The exit codes, on which scripts rely.
const (
	exitOK           = 0
	exitFailure      = 1   // the command failed for another reason
	exitUsage        = 2   // invalid arguments, whether the command or the node rejects them
	exitNotFound     = 3   // the command names something that does not exist
	exitConflict     = 4   // a condition did not hold, or the thing exists already
	exitUnavailable  = 5   // no answer, no quorum, overload, or no space
	exitUnauthorized = 6   // the node requires other credentials
	exitRemoved      = 7   // the data directory was removed; a restart would create an empty one
	exitInterrupted  = 130 // the user interrupted unfinished work
)

// exitCodes maps the errors of a node, or of the connection to it, to exit codes. The first match
// applies; other errors exit with exitFailure.
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
	{floe.ErrInvalid, exitUsage},
}

// errInterrupted is the error of a command that was interrupted before it finished.
var errInterrupted = errors.New("interrupted")

// interrupted is the error of a command that was interrupted while it failed with err: one line,
// with what is known about the outcome.
func interrupted(err error) error {
	if errors.Is(err, errInterrupted) {
		return err
	}
	text := strings.TrimSuffix(strings.TrimSuffix(err.Error(), context.Canceled.Error()), ": ")
	if text != "" {
		text = ": " + strings.ReplaceAll(text, "\n", "; ")
	}
	return &textError{fmt.Errorf("%w: %w", errInterrupted, err), errInterrupted.Error() + text}
}

// exitError is an error with its exit code.
type exitError struct {
	error
	code int
}

func (e *exitError) Unwrap() error { return e.error }

// coded adds the exit code to an error of a node or connection.
func coded(err error) error {
	for _, e := range exitCodes {
		if errors.Is(err, e.err) {
			return &exitError{err, e.code}
		}
	}
	return err
}

// textError is an error with another text.
type textError struct {
	err  error
	text string
}

func (e *textError) Error() string { return e.text }

func (e *textError) Unwrap() error { return e.err }

// usageError is an error in the command line.
type usageError struct {
	error
	hint string
}

func (e *usageError) Unwrap() error { return e.error }

// hintedError is an error with a hint.
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

// split returns the errors joined by errors.Join. Other errors with several causes have a text of
// their own.
func split(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || errors.Join(joined.Unwrap()...).Error() != err.Error() {
		return []error{err}
	}
	return joined.Unwrap()
}
