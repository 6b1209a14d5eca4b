package workloop_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/workloop"
)

// TestDrain: what runs is finished, with its lease, and nothing else is begun.
func TestDrain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBoard(t, 30*time.Second, jobs(4)...)
		var runs atomic.Int32
		loop := start(t, workloop.Config[job]{Source: b, Concurrency: 2, Grace: time.Hour, Handle: func(ctx context.Context, j job) error {
			runs.Add(1)
			pass(10 * time.Minute)
			return ctx.Err()
		}})
		synctest.Wait()
		loop.end(t)
		if runs.Load() != 2 || b.done() != 2 || b.latest != 2 || b.takes != 1 {
			t.Errorf("%d runs, %d done, %d deliveries, %d takes, want 2, 2, 2, 1", runs.Load(), b.done(), b.latest, b.takes)
		}
	})
}

// TestDrainTakesNothing: what a take returns though its context has ended is given back.
func TestDrainTakesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBoard(t, 30*time.Second)
		loop := start(t, workloop.Config[job]{Source: &late{b}, Grace: time.Minute, Handle: func(_ context.Context, j job) error {
			t.Errorf("job %d is run by a loop that has ended", j.id)
			return nil
		}})
		synctest.Wait()
		loop.end(t)
		if b.returned != 1 || len(b.ready) != 1 {
			t.Errorf("%d given back, %d ready, want 1", b.returned, len(b.ready))
		}
	})
}

// late is a board whose take gets something when its context ends.
type late struct{ *board }

func (l *late) Take(ctx context.Context, n int) ([]job, error) {
	<-ctx.Done()
	l.add(jobs(1)...)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.takeLocked(n), nil
}

// TestDrainForGood: a source to which nothing can be given back has all of it run.
func TestDrainForGood(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, runs := newBoard(t, 0), 0
		s := struct {
			workloop.Source[job]
			workloop.Laner[job]
		}{&late{b}, b}
		loop := start(t, workloop.Config[job]{Source: s, Handle: func(context.Context, job) error {
			runs++
			return nil
		}})
		synctest.Wait()
		loop.end(t)
		if runs != 1 || b.done() != 1 {
			t.Errorf("%d runs, %d done, want 1", runs, b.done())
		}
	})
}

// TestGrace: a handler that does not finish in time is cancelled, and what it was about is given
// back.
func TestGrace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, errs := newBoard(t, 30*time.Second, jobs(3)...), new(log)
		loop := start(t, workloop.Config[job]{Source: b, Concurrency: 3, Grace: time.Minute, OnError: errs.onError,
			Handle: func(ctx context.Context, j job) error {
				<-ctx.Done()
				if context.Cause(ctx) != errStop {
					t.Errorf("the cause is %v, want that of Run's context", context.Cause(ctx))
				}
				switch j.id {
				case 0:
					return nil // it was done in time, after all
				case 1:
					return errors.New("interrupted")
				}
				panic("in a hurry")
			}})
		synctest.Wait()
		began := time.Now()
		loop.end(t)
		if d := time.Since(began); d != time.Minute {
			t.Errorf("the drain took %v, want the grace", d)
		}
		for id, giveBack := range []bool{false, true, false} {
			if r := b.ends[id]; len(r) != 1 || r[0].GiveBack() != giveBack || !r[0].Stopped {
				t.Errorf("job %d: %+v, want to be given back: %v", id, r, giveBack)
			}
		}
		if len(errs.errors) != 1 {
			t.Errorf("reported %v, want the panic", errs.errors)
		}
	})
}

// TestBlocked: the loop ends without a handler that never returns, and ignores its later result.
func TestBlocked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBoard(t, 30*time.Second, jobs(2)...)
		forever := make(chan struct{})
		loop := start(t, workloop.Config[job]{Source: b, Concurrency: 2, Grace: time.Minute,
			Handle: func(ctx context.Context, j job) error {
				if j.id == 0 {
					<-forever
				}
				return nil
			}})
		synctest.Wait()
		loop.stop(errStop)
		var blocked *workloop.BlockedError
		if err := <-loop.ended; !errors.As(err, &blocked) || blocked.Handlers != 1 {
			t.Errorf("Run = %v, want a BlockedError of one", err)
		}
		if b.returned != 1 || len(b.ready) != 1 {
			t.Errorf("%d given back, %d ready, want 1", b.returned, len(b.ready))
		}
		close(forever)
		synctest.Wait()
		if len(b.ends[0]) != 0 {
			t.Errorf("settled: %+v", b.ends[0])
		}
	})
}

// TestDrainInAnOutage: the loop ends though it cannot say what has become of a piece, and says
// that. It had returned nil, long after its grace.
func TestDrainInAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBoard(t, 30*time.Second, jobs(1)...)
		loop := start(t, workloop.Config[job]{Source: b, Grace: time.Minute, Handle: func(ctx context.Context, j job) error {
			pass(time.Second)
			return nil
		}})
		synctest.Wait()
		b.setFail(errors.New("away"))
		pass(time.Minute)
		began := time.Now()
		loop.stop(errStop)
		var unsettled *workloop.UnsettledError
		if err := <-loop.ended; !errors.As(err, &unsettled) || unsettled.Results != 1 || !errors.Is(err, engine.ErrUnknownOutcome) {
			t.Errorf("Run = %v, want an UnsettledError of one", err)
		}
		if d := time.Since(began); d > time.Minute+5*time.Second {
			t.Errorf("the drain took %v", d)
		}
	})
}
