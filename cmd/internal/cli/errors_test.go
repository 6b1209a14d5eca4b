package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
)

// TestExitCodes is the table of exit codes in the design of the command line; which command gives
// which is in the scripts of testdata.
func TestExitCodes(t *testing.T) {
	for _, tc := range []struct {
		err  error
		code int
	}{
		{nil, 0},
		{errors.New("other"), 1},
		{floe.ErrInvalid, 2},
		{floe.ErrNotFound, 3},
		{floe.ErrConflict, 4},
		{&kv.BoundError{}, 4},
		{&kv.ConflictError{}, 4},
		{&queue.ReceiptError{}, 4},
		{&floe.TxnError{Err: &kv.ConflictError{}}, 4},
		{floe.ErrExists, 4},
		{floe.ErrBusy, 5},
		{floe.ErrUnavailable, 5},
		{floe.ErrReadOnly, 5},
		{floe.ErrUnknownOutcome, 5},
		{context.DeadlineExceeded, 5},
		{floe.ErrUnauthorized, 6},
		{fmt.Errorf("%w: %w", errInterrupted, context.Canceled), 130},
		{fmt.Errorf("%w: %w", errInterrupted, floe.ErrUnknownOutcome), 130},
	} {
		for _, err := range []error{tc.err, &hintedError{tc.err, "hint"}} {
			if tc.err == nil {
				err = nil
			}
			if code := report(io.Discard, coded(err)); code != tc.code {
				t.Errorf("%v: exit code %d, want %d", err, code, tc.code)
			}
		}
	}
}

// TestSeveralErrors: errors of errors.Join have a line each; one error with several causes has one.
func TestSeveralErrors(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{errors.Join(errors.New("one"), errors.New("two")), "floe: error: one\nfloe: error: two\n"},
		{fmt.Errorf("%w: %w", floe.ErrUnavailable, errors.New("damaged")), "floe: error: unavailable: damaged\n"},
	} {
		var printed strings.Builder
		report(&printed, tc.err)
		if printed.String() != tc.want {
			t.Errorf("report(%v) prints %q, want %q", tc.err, &printed, tc.want)
		}
	}
}

// TestInterrupted ends commands before their time: one that only waits for something to come has
// done so.
func TestInterrupted(t *testing.T) {
	s := start(t, "--data-dir", t.TempDir())
	defer s.stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for line, want := range map[string]int{
		"kv set k v": 130, "queue dequeue q": 130, "queue dequeue q --wait 1h": 0, "stream read s --wait 1h": 0,
		"stream read s --follow": 0, "kv watch k": 0,
	} {
		var stderr strings.Builder
		args := append(strings.Fields(line), "--addr", s.addr)
		code := Run(ctx, Process{Args: args, Stdout: io.Discard, Stderr: &stderr, LookupEnv: lookup(nil)})
		if code != want || (want == 0) != (stderr.Len() == 0) || strings.Count(stderr.String(), "floe: error: ") > 1 {
			t.Errorf("floe %s: exit code %d, want %d; stderr\n%s", line, code, want, &stderr)
		}
	}
}
