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

// ErrCancelled is the cause (context.Cause) of a handler's context whose run was cancelled.
var ErrCancelled = errors.New("the run was cancelled")

// Permanent marks a handler's error as one that another attempt cannot fix: the run fails.
// Permanent(nil) is nil. Permanent in packages queue and stream is the same.
func Permanent(err error) error { return workloop.Permanent(err) }

// Code gives a handler's error a code of up to 255 bytes, which programs can compare: see Run.Code.
// Code(code, nil) is nil.
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

// Snooze is a handler's error or result for a run that cannot be done yet: the run starts again
// after d, and the attempt does not count.
func Snooze(d time.Duration) error { return &snoozeError{max(d, 0)} }

type snoozeError struct{ d time.Duration }

func (e *snoozeError) Error() string { return fmt.Sprintf("snoozed for %v", e.d) }

// Outcome is a handler's result or error that completes the run with a named outcome, such as
// "approved", in up to 255 bytes of UTF-8. data is the output.
func Outcome(name string, data any) error { return &outcome{name, data} }

type outcome struct {
	name string
	data any
}

func (o *outcome) Error() string { return engine.Text("outcome %q", o.name) }

// conclude converts a handler's return values to the end of its attempt and its error. It calls
// methods of both values, which may panic.
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

// failed sets the end of an attempt whose handler returned an error.
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

// end returns how an attempt ends, whether or not its handler has returned. An error after the
// process was cut off for too long counts as a consequence of that, and so does an error after the
// worker's end.
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

// outputOf returns the stored form of a result: bytes unchanged, other values as JSON. nil has no
// output.
func outputOf(data any) ([]byte, error) {
	switch v := data.(type) {
	case nil:
		return nil, nil
	case []byte:
		return v, nil
	}
	return json.Marshal(data)
}

// shorten truncates a text to most bytes and replaces bytes that are not UTF-8 with question marks.
func shorten(s string, most int) string {
	if len(s) > most {
		s = engine.Cut(s, most)
	}
	return strings.ToValidUTF8(s, "?")
}
