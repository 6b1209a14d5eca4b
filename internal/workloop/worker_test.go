package workloop_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/workloop"
)

func TestSlots(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBoard(t, 0, jobs(100)...)
		var now, most atomic.Int32
		loop := start(t, workloop.Config[job]{Source: b, Concurrency: 7, Handle: func(ctx context.Context, j job) error {
			n := now.Add(1)
			b.look(func() { most.Store(max(most.Load(), n)) })
			pass(time.Duration(j.id%5+1) * time.Second)
			now.Add(-1)
			return nil
		}})
		synctest.Wait()
		b.look(func() {
			if b.asked[0] != 7 || most.Load() != 7 {
				t.Errorf("the first take asked for %d pieces, %d handlers run, want 7", b.asked[0], most.Load())
			}
		})
		pass(time.Minute)
		loop.end(t)
		if b.done() != 100 || most.Load() != 7 {
			t.Errorf("%d of 100 are done, at most %d handlers ran at once, want 7", b.done(), most.Load())
		}
	})
}

func TestTenThousandAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBoard(t, 30*time.Second, jobs(10_000)...)
		loop := start(t, workloop.Config[job]{Source: b, Concurrency: 1000, Handle: func(context.Context, job) error {
			pass(40 * time.Second)
			return nil
		}})
		pass(410 * time.Second)
		loop.end(t)
		if b.done() != 10_000 || b.takes > 1000 || b.renewals > 80 {
			t.Errorf("%d of 10,000 are done with %d takes and %d renewals", b.done(), b.takes, b.renewals)
		}
	})
}

func TestFailureIsSettled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, failed := newBoard(t, 0, jobs(2)...), errors.New("no such address")
		runs := 0
		loop := start(t, workloop.Config[job]{Source: b, Handle: func(ctx context.Context, j job) error {
			if runs++; runs == 1 {
				return failed
			}
			return nil
		}})
		synctest.Wait()
		loop.end(t)
		if runs != 3 || len(b.ends[0]) != 2 || b.ends[0][0].Err != failed || b.done() != 2 {
			t.Errorf("%d runs, results %v", runs, b.ends)
		}
	})
}

func TestPanicIsAFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, cause, errs := newBoard(t, 0, jobs(3)...), errors.New("boom"), new(log)
		loop := start(t, workloop.Config[job]{Source: b, Concurrency: 3, OnError: errs.onError,
			Handle: func(ctx context.Context, j job) error {
				switch {
				case j.delivery > 3:
				case j.id == 0:
					panic(cause)
				case j.id == 1:
					runtime.Goexit()
				}
				return nil
			}})
		pass(time.Minute)
		loop.end(t)
		var p *workloop.PanicError
		if err := b.ends[0][0].Err; !errors.As(err, &p) || !errors.Is(err, cause) || !strings.Contains(err.Error(), "TestPanicIsAFailure") {
			t.Errorf("a panic is %v, want a PanicError with the stack", err)
		}
		if err := b.ends[1][0].Err; !errors.As(err, &p) || !strings.Contains(err.Error(), "Goexit") {
			t.Errorf("a Goexit is %v, want a PanicError", err)
		}
		if b.done() != 3 || len(errs.errors) != 2 {
			t.Errorf("%d of 3 are done, reported %v", b.done(), errs.errors)
		}
	})
}

// TestCallbackPanics: an OnError that panics, or ends its goroutine, harms neither the piece nor
// the loop.
func TestCallbackPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, failed, reports := newBoard(t, 0, jobs(2)...), errors.New("failed"), new(atomic.Int32)
		loop := start(t, workloop.Config[job]{
			Source: b, Concurrency: 2,
			OnError: func(j *job, _ error) {
				if reports.Add(1); j.id == 0 {
					panic("in OnError")
				}
				runtime.Goexit()
			},
			Handle: func(_ context.Context, j job) error {
				if j.delivery <= 2 {
					return failed
				}
				return nil
			},
		})
		pass(time.Minute)
		loop.end(t)
		if b.done() != 2 || reports.Load() != 2 || len(b.ends[0]) != 2 || len(b.ends[1]) != 2 {
			t.Errorf("%d of 2 are done, %d reports, ends %v", b.done(), reports.Load(), b.ends)
		}
	})
}

func TestLeasesAreRenewed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBoard(t, 30*time.Second, jobs(50)...)
		runs := make([]int, 50)
		loop := start(t, workloop.Config[job]{Source: b, Concurrency: 50, Grace: time.Hour, Handle: func(ctx context.Context, j job) error {
			runs[j.id]++
			pass(595 * time.Second)
			return ctx.Err()
		}})
		pass(9 * time.Minute)
		loop.end(t) // they have a minute to go
		if slices.Max(runs) > 1 {
			t.Errorf("pieces were run %v times", runs)
		}
		if b.renewals != 59 || slices.Min(b.renewed) != 50 {
			t.Errorf("%d renewals of %v pieces, want one each 10 s, of all", b.renewals, b.renewed)
		}
	})
}

func TestLostLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, errs := newBoard(t, 30*time.Second, jobs(1)...), new(log)
		b.stretch = true
		var cause error
		release := make(chan struct{})
		loop := start(t, workloop.Config[job]{Source: b, OnError: errs.onError, Handle: func(ctx context.Context, j job) error {
			if j.delivery == 1 {
				<-ctx.Done()
				cause = context.Cause(ctx)
				<-release
			}
			return nil // as if nothing had happened
		}})
		synctest.Wait()
		b.lose(0)
		pass(10 * time.Second)
		synctest.Wait()
		var lost *workloop.LostError
		if !errors.As(cause, &lost) || !errors.Is(cause, engine.ErrConflict) {
			t.Errorf("the cause is %v, want a LostError that is ErrConflict", cause)
		}
		b.look(func() {
			if len(b.ends) != 0 {
				t.Errorf("settled: %v", b.ends)
			}
		})
		close(release)
		synctest.Wait()
		loop.end(t)
		if len(b.ends[0]) != 1 || b.done() != 1 || len(errs.errors) != 1 || !errors.Is(errs.errors[0], engine.ErrConflict) {
			t.Errorf("results %v, reported %v, want that of the second delivery, and the conflict of the first", b.ends, errs.errors)
		}
	})
}

// TestLostIsNotSettled: Settle is not called for a lost piece; a source without a receipt per
// delivery would accept it.
func TestLostIsNotSettled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBoard(t, 0, jobs(1)...)
		settled := &gullible{board: b}
		loop := start(t, workloop.Config[job]{Source: settled, Handle: func(ctx context.Context, j job) error {
			<-ctx.Done()
			return nil
		}})
		synctest.Wait()
		if n := loop.Cancel(func(job) bool { return true }, &workloop.LostError{Err: errStop}); n != 1 {
			t.Errorf("Cancel = %d, want 1", n)
		}
		synctest.Wait()
		loop.end(t)
		if settled.settles != 0 {
			t.Errorf("what was lost was settled %d times", settled.settles)
		}
	})
}

// gullible is a board that takes any result.
type gullible struct {
	*board
	settles int
}

func (g *gullible) Settle(context.Context, job, workloop.Result) error {
	g.settles++
	return nil
}

func TestCancel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, why := newBoard(t, 0, jobs(2)...), errors.New("cancelled by its caller")
		loop := start(t, workloop.Config[job]{Source: b, Concurrency: 2, Handle: func(ctx context.Context, j job) error {
			if j.delivery > 2 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}})
		synctest.Wait()
		if n := loop.Cancel(func(j job) bool { return j.id == 1 }, why); n != 1 {
			t.Errorf("Cancel = %d, want 1", n)
		}
		synctest.Wait()
		b.look(func() {
			if r := b.ends[1]; len(r) == 0 || r[0].Cause != why || r[0].Err != context.Canceled || r[0].Stopped || r[0].GiveBack() {
				t.Errorf("the result is %+v, want the error of the handler with the cause", r)
			}
			if len(b.ends[0]) != 0 {
				t.Errorf("another one was cancelled: %+v", b.ends[0])
			}
		})
		loop.end(t)
	})
}

// TestOutage: a source that is away for hours is asked now and then, handlers whose leases cannot
// be renewed are cancelled, and what they have done is said when it is back, if it is still theirs.
func TestOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, errs := newBoard(t, 30*time.Second, jobs(3)...), new(log)
		loop := start(t, workloop.Config[job]{Source: b, Concurrency: 3, OnError: errs.onError,
			Handle: func(ctx context.Context, j job) error {
				if j.delivery == 1 {
					<-ctx.Done()
					errs.note("after %v: %v", time.Now().Format("05"), context.Cause(ctx))
				}
				if j.delivery == 2 {
					pass(time.Second)
				}
				return nil
			}})
		synctest.Wait()
		b.setFail(engine.ErrUnavailable)
		pass(2 * time.Hour)
		synctest.Wait()
		b.look(func() {
			if b.takes > 2*3600 || b.renewals > 200 {
				t.Errorf("%d takes and %d renewals in two hours", b.takes, b.renewals)
			}
		})
		if lines := errs.copy(); len(lines) != 1 || !strings.Contains(lines[0], "lease lost") {
			t.Errorf("handlers: %q, want one that lost its lease", lines)
		}
		b.setFail(nil)
		pass(20 * time.Second)
		loop.end(t)
		if b.done() != 3 {
			t.Errorf("%d of 3 are done", b.done())
		}
	})
}

func TestShortOutageHurtsNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBoard(t, 30*time.Second, jobs(3)...)
		loop := start(t, workloop.Config[job]{Source: b, Concurrency: 3, Handle: func(ctx context.Context, j job) error {
			pass(time.Minute)
			return ctx.Err()
		}})
		pass(9 * time.Second)
		b.setFail(engine.ErrUnavailable)
		pass(15 * time.Second)
		b.setFail(nil)
		pass(2 * time.Minute)
		loop.end(t)
		if b.done() != 3 || b.latest != 3 {
			t.Errorf("%d of 3 are done after %d deliveries", b.done(), b.latest)
		}
	})
}

// TestUnknownOutcome: a settlement that has happened, though its answer was lost, is none that
// failed.
func TestUnknownOutcome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, errs := newBoard(t, 0, jobs(1)...), new(log)
		loop := start(t, workloop.Config[job]{Source: &forgetful{board: b}, OnError: errs.onError,
			Handle: func(context.Context, job) error { return nil }})
		pass(time.Minute)
		loop.end(t)
		if p := loop.Status().Processes; b.done() != 1 || len(p) != 1 || p[0].Failures != 0 {
			t.Errorf("%d done, %+v, reported %v", b.done(), p, errs.errors)
		}
	})
}

// forgetful is a board whose first settlement has an answer that gets lost.
type forgetful struct {
	*board
	settled bool
}

func (f *forgetful) Settle(ctx context.Context, j job, r workloop.Result) error {
	err := f.board.Settle(ctx, j, r)
	if !f.settled {
		f.settled = true
		return engine.ErrUnknownOutcome
	}
	return err
}

func TestFinalErrorsEndTheLoop(t *testing.T) {
	for _, final := range []error{engine.ErrInvalid, engine.ErrClosed, engine.ErrUnauthorized} {
		bubble(t, func(t *testing.T) {
			b := newBoard(t, 0)
			b.fail = fmt.Errorf("take: %w", final)
			loop := start(t, workloop.Config[job]{Source: b, Handle: func(context.Context, job) error { return nil }})
			if err := <-loop.ended; !errors.Is(err, final) || b.takes != 1 {
				t.Errorf("Run = %v after %d takes, want %v after one", err, b.takes, final)
			}
		})
	}
}

// TestNoHotLoop: a source that fails, and one that has nothing and does not wait, are asked now and
// then.
func TestNoHotLoop(t *testing.T) {
	for _, fail := range []error{nil, engine.ErrUnavailable, engine.ErrNotFound} {
		bubble(t, func(t *testing.T) {
			s := &impatient{err: fail}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			s.enough = cancel
			if err := workloop.New(workloop.Config[job]{Source: s}).Run(ctx); err != nil {
				t.Error(err)
			}
			if s.takes < 100 || s.takes > 2000 {
				t.Errorf("%d takes in an hour that fail with %v", s.takes, fail)
			}
		})
	}
}

// impatient is a source that never waits.
type impatient struct {
	err    error
	takes  int
	enough func()
}

func (s *impatient) Take(context.Context, int) ([]job, error) {
	if s.takes++; s.takes > 10_000 {
		s.enough()
	}
	return nil, s.err
}

func (s *impatient) Settle(context.Context, job, workloop.Result) error { return nil }

func TestStatus(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, seen := newBoard(t, 0, jobs(5)...), new(observer)
		loop := start(t, workloop.Config[job]{
			Source: b, Concurrency: 2, Observer: seen, Status: workloop.Status{Kind: "queue", Namespace: "default", Name: "mail",
				Worker: "w-1"},
			Process: func(j job) string { return []string{"even", "odd"}[j.id%2] },
			Handle: func(ctx context.Context, j job) error {
				pass(time.Second)
				if j.delivery == 2 {
					return errStop
				}
				return nil
			},
		})
		began := time.Now()
		synctest.Wait()
		if s := seen.status(); s.Kind != "queue" || s.Name != "mail" || s.Worker != "w-1" || s.Load != 2 || s.Max != 2 || s.Draining ||
			!s.Began.Equal(began) {
			t.Errorf("while it runs: %+v", s)
		}
		pass(time.Minute)
		s := seen.status()
		want := []workloop.Process{{"even", 3, 0, began.Add(2 * time.Second)}, {"odd", 3, 1, began.Add(3 * time.Second)}}
		for i := range s.Processes {
			s.Processes[i].LastRun, want[i].LastRun = time.Time{}, time.Time{}
		}
		if !slices.Equal(s.Processes, want) || s.Load != 0 {
			t.Errorf("when it has nothing to do: %+v", s)
		}
		loop.end(t)
		if !seen.left || !loop.Status().Draining {
			t.Errorf("left: %v, %+v", seen.left, loop.Status())
		}
	})
}

type observer struct {
	status func() workloop.Status
	left   bool
}

func (o *observer) Join(status func() workloop.Status) (leave func()) {
	o.status = status
	return func() { o.left = true }
}
