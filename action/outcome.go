package action

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/workloop"
)

// ErrCancelled is the cause (context.Cause) for which the context of a handler ends whose run was
// cancelled.
var ErrCancelled = errors.New("the run was cancelled")

// Permanent marks the error of a handler as one that another attempt cannot repair: the run fails.
// Permanent(nil) is nil. Permanent of queue and stream is the same.
func Permanent(err error) error { return workloop.Permanent(err) }

// Code gives the error of a handler a code of up to 255 bytes, by which programs tell it from
// others: see Run.Code. Code(code, nil) is nil.
func Code(code string, err error) error {
	if err == nil {
		return nil
	}
	return &codeError{code, err}
}

type codeError struct {
	code string
	err  error
}

func (e *codeError) Error() string { return e.err.Error() }
func (e *codeError) Unwrap() error { return e.err }

// Snooze is what a handler returns, as its error or as its result, for a run that can not be done
// yet: it is begun again after a time, and the attempt does not count.
func Snooze(d time.Duration) error { return &snoozeError{max(d, 0)} }

type snoozeError struct{ d time.Duration }

func (e *snoozeError) Error() string { return fmt.Sprintf("snoozed for %v", e.d) }

// Outcome is what a handler returns, as its result or as its error, to name the outcome of a run
// that it completes, such as "approved", in up to 255 bytes of UTF-8. data is the output.
func Outcome(name string, data any) error { return &outcome{name, data} }

type outcome struct {
	name string
	data any
}

func (o *outcome) Error() string { return engine.Text("outcome %q", o.name) }

// conclude returns how an attempt ends with what its handler has returned, and the error in that.
// It calls methods of both values, which may panic.
func (p *piece) conclude(result any, err error, maxPayload int) (end, error) {
	e := end{ref: p.taken.ref, attempt: p.taken.attempt, begun: p.taken.begun, how: completed, delay: -1}
	switch result.(type) { // meant as the error
	case *snoozeError, *workloop.PermanentError, *codeError:
		if err == nil {
			result, err = nil, result.(error)
		}
	}
	var named *outcome
	if errors.As(err, &named) || err == nil && asOutcome(result, &named) {
		e.outcome, result = named.name, named.data
	} else if err != nil {
		e.failed(err)
		return e, err
	}
	var encodeErr error
	var inner *outcome
	if named != nil && asOutcome(result, &inner) {
		e.refuse(CodeBadOutput, engine.Text("the data of outcome %q is another outcome, %q", named.name, inner.name))
	} else if e.output, encodeErr = outputOf(result); encodeErr != nil {
		e.refuse(CodeBadOutput, "the result has no JSON: "+engine.Cut(encodeErr.Error(), maxShown))
	} else if n := len(e.output); n > maxPayload {
		e.refuse(CodeOutputTooLarge, fmt.Sprintf("the result of %d bytes exceeds max_value_size (%d bytes)", n, maxPayload))
	} else if len(e.outcome) > MaxOutcomeBytes {
		e.refuse(CodeBadOutput, fmt.Sprintf("the name of the outcome, of %d bytes, exceeds %d", len(e.outcome), MaxOutcomeBytes))
	} else if !utf8.ValidString(e.outcome) {
		e.refuse(CodeBadOutput, engine.Text("the name of outcome %q is not UTF-8", e.outcome))
	}
	return e, err
}

func asOutcome(data any, named **outcome) bool {
	o, ok := data.(*outcome)
	*named = o
	return ok
}

// refuse makes the attempt the last one, without a result.
func (e *end) refuse(code, message string) {
	e.how, e.code, e.message, e.output, e.outcome = refused, code, message, nil, ""
}

// failed sets how an attempt ends whose handler has returned an error.
func (e *end) failed(err error) {
	var (
		snoozed_ *snoozeError
		coded    *codeError
	)
	if errors.As(err, &snoozed_) {
		e.how, e.delay = snoozed, min(snoozed_.d.Milliseconds(), maxMillis)
		return
	}
	e.how, e.message = failed, shorten(err.Error(), MaxErrorBytes)
	if errors.As(err, &coded) {
		e.code = shorten(coded.code, MaxOutcomeBytes)
	}
	if workloop.IsPermanent(err) {
		e.how = refused
	}
}

// end returns how an attempt ends whose handler has returned, or has not. An error that comes after
// the process was cut off for too long is taken for a consequence of that, as one that comes after
// the worker's end is.
func (p *piece) end(r workloop.Result) end {
	switch {
	case r.Panic != nil:
		return end{
			ref: p.taken.ref, attempt: p.taken.attempt, begun: p.taken.begun, how: failed, delay: -1, code: CodePanic,
			message: shorten(r.Panic.Error(), MaxErrorBytes),
		}
	case r.GiveBack(), r.Err != nil && errors.Is(r.Cause, errSilent):
		return p.back()
	}
	return p.concluded
}

// outputOf returns the output that a result is kept as: bytes as they are, all else as JSON. nil
// has none.
func outputOf(data any) ([]byte, error) {
	switch v := data.(type) {
	case nil:
		return nil, nil
	case []byte:
		return v, nil
	}
	return json.Marshal(data)
}

// shorten returns as much of a text as fits, with a question mark in place of bytes that are not
// UTF-8.
func shorten(s string, most int) string {
	if len(s) > most {
		s = engine.Cut(s, most)
	}
	return strings.ToValidUTF8(s, "?")
}
