package cli

import (
	"errors"
	"fmt"
	"io"
)

// The exit codes.
const (
	exitOK      = 0
	exitFailure = 1 // the command could not do what it was asked
	exitUsage   = 2 // the command line was not understood
)

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
