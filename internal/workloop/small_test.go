package workloop_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/workloop"
)

// TestRetry: a call is repeated, with pauses that grow to 5 s, while its error may pass; each such
// error is reported.
func TestRetry(t *testing.T) {
	definite := fmt.Errorf("call: %w", engine.ErrInvalid)
	for name, c := range map[string]struct {
		errs     []error // of the calls, one after the other
		deadline time.Duration
		want     error
		calls    int
	}{
		"at once":         {[]error{nil}, 0, nil, 1},
		"definite":        {[]error{definite}, 0, definite, 1},
		"closed":          {[]error{engine.ErrClosed}, 0, engine.ErrClosed, 1},
		"unauthorized":    {[]error{engine.ErrUnauthorized}, 0, engine.ErrUnauthorized, 1},
		"marked":          {[]error{workloop.Final(io.EOF)}, 0, io.EOF, 1},
		"then there":      {[]error{engine.ErrNotFound, engine.ErrConflict, io.EOF, nil}, 0, nil, 4},
		"then definite":   {[]error{engine.ErrBusy, engine.ErrInvalid}, 0, engine.ErrInvalid, 2},
		"no time":         {[]error{io.EOF}, -1, io.EOF, 1},
		"no time to wait": {[]error{io.EOF, io.EOF}, 10 * time.Millisecond, context.DeadlineExceeded, 1},
	} {
		bubble(t, func(t *testing.T) {
			ctx := t.Context()
			if c.deadline != 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.deadline)
				defer cancel()
			}
			var reported []error
			calls := 0
			err := workloop.Retry(ctx, func(err error) { reported = append(reported, err) }, func(context.Context) error {
				calls++
				return c.errs[calls-1]
			})
			want := c.errs[:c.calls-1]
			if c.want == context.DeadlineExceeded {
				want = c.errs[:1] // it was reported before the pause
			}
			if !errors.Is(err, c.want) || calls != c.calls || !slices.Equal(reported, want) {
				t.Errorf("%s: %v after %d calls, reported %v; want %v after %d, %v", name, err, calls, reported, c.want, c.calls, want)
			}
		})
	}
	bubble(t, func(t *testing.T) {
		var at []time.Time
		_ = workloop.Retry(t.Context(), func(error) {}, func(context.Context) error {
			if at = append(at, time.Now()); len(at) == 12 {
				return nil
			}
			return io.EOF
		})
		longest := 50 * time.Millisecond
		for i := 1; i < len(at); i++ {
			if d := at[i].Sub(at[i-1]); d < longest/2 || d >= longest {
				t.Errorf("pause %d is %v, want %v to %v", i, d, longest/2, longest)
			}
			longest = min(2*longest, 5*time.Second)
		}
	})
}

// TestErrors: what errors say, and what they match.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		says string
		is   []error
	}{
		{&workloop.BlockedError{Handlers: 3}, "3 handlers have not returned, 5s after their contexts were cancelled", nil},
		{&workloop.UnsettledError{Results: 2, Err: io.EOF}, "2 results could not be handed over: EOF",
			[]error{engine.ErrUnknownOutcome, io.EOF}},
		{&workloop.LostError{Err: io.EOF}, "lease lost: EOF", []error{engine.ErrConflict, io.EOF}},
		{workloop.Final(io.EOF), "EOF", []error{io.EOF}},
		{&workloop.PanicError{Value: io.EOF}, "", []error{io.EOF}},
	} {
		if c.err.Error() != c.says {
			t.Errorf("%T says %q, want %q", c.err, c.err, c.says)
		}
		for _, is := range c.is {
			if !errors.Is(c.err, is) {
				t.Errorf("%T is not %v", c.err, is)
			}
		}
	}
	if workloop.Permanent(nil) != nil || workloop.IsPermanent(io.EOF) ||
		!workloop.IsPermanent(fmt.Errorf("x: %w", workloop.Permanent(io.EOF))) {
		t.Error("an error is marked as permanent by Permanent alone, and nil by nothing")
	}
	for _, definite := range []error{engine.ErrConflict, engine.ErrNotFound, engine.ErrExists, engine.ErrInvalid, engine.ErrUnauthorized,
		engine.ErrClosed} {
		if workloop.Passing(fmt.Errorf("call: %w", definite)) {
			t.Errorf("%v passes", definite)
		}
	}
	for _, passing := range []error{engine.ErrUnavailable, engine.ErrUnknownOutcome, engine.ErrBusy, io.EOF, context.DeadlineExceeded} {
		if !workloop.Passing(passing) {
			t.Errorf("%v does not pass", passing)
		}
	}
	for _, c := range []struct {
		r    workloop.Result
		want bool
	}{
		{workloop.Result{}, false}, {workloop.Result{Err: io.EOF}, false}, {workloop.Result{Stopped: true}, false},
		{workloop.Result{Err: io.EOF, Stopped: true}, true}, {workloop.Result{Err: io.EOF, Stopped: true, Panic: new(workloop.PanicError)},
			false},
	} {
		if got := c.r.GiveBack(); got != c.want {
			t.Errorf("%+v is given back: %t", c.r, got)
		}
	}
}

// TestPanicStack: the stack of a panic begins with the function that has panicked.
func TestPanicStack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBoard(t, 0, jobs(1)...)
		loop := start(t, workloop.Config[job]{Source: b, Handle: func(_ context.Context, j job) error {
			if j.delivery == 1 {
				panic("boom")
			}
			return nil
		}})
		synctest.Wait()
		loop.end(t)
		p := b.ends[0][0].Panic
		if lines := strings.Split(p.Error(), "\n"); lines[0] != "handler panicked: boom" || !strings.Contains(lines[1], "TestPanicStack") ||
			!strings.HasPrefix(string(p.Stack), lines[1]) {
			t.Errorf("%s", p)
		}
	})
}

// TestDefaults: a loop runs one piece at a time, has up to four times as many as it runs, and never
// fewer than it runs.
func TestDefaults(t *testing.T) {
	if workloop.DefaultConcurrency != 1 || workloop.DefaultGrace != 10*time.Second { // as documented
		t.Errorf("the defaults are %d and %v", workloop.DefaultConcurrency, workloop.DefaultGrace)
	}
	for _, c := range []struct{ concurrency, hold, max, holds int }{{0, 0, 1, 1}, {-1, -1, 1, 1}, {3, 0, 3, 12}, {3, 1, 3, 3},
		{2, 5, 2, 5}} {
		bubble(t, func(t *testing.T) {
			var all []job
			for i := range 40 {
				all = append(all, job{id: i, lane: "l"})
			}
			b := newBoard(t, 0, all...)
			release := make(chan struct{})
			loop := start(t, workloop.Config[job]{Source: b, Concurrency: c.concurrency, Hold: c.hold, Grace: time.Minute,
				Handle: func(context.Context, job) error {
					<-release
					return nil
				}})
			synctest.Wait()
			b.look(func() {
				if len(b.leases) != c.holds || b.asked[0] != c.max || loop.Status().Max != c.max {
					t.Errorf("%+v: it has %d pieces, asked for %d, at most %d at once", c, len(b.leases), b.asked[0], loop.Status().Max)
				}
			})
			close(release)
			loop.end(t)
		})
	}
}

// TestReleaseFails: that pieces could not be given back is reported, and no error of Run.
func TestReleaseFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, errs := newBoard(t, 0, job{id: 1, lane: "l"}, job{id: 2, lane: "l"}), new(log)
		loop := start(t, workloop.Config[job]{Source: b, Concurrency: 2, OnError: errs.onError, Grace: time.Minute,
			Handle: func(context.Context, job) error {
				pass(time.Second)
				b.setFail(nil)
				return nil
			}})
		synctest.Wait()
		b.setFail(io.ErrUnexpectedEOF)
		loop.end(t)
		if !slices.Contains(errs.errors, io.ErrUnexpectedEOF) || b.returned != 1 {
			t.Errorf("reported %v, %d given back", errs.errors, b.returned)
		}
	})
}
