package workloop_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/workloop"
)

// clocked is a board that notes when its calls are made, in milliseconds since its beginning.
type clocked struct {
	*board
	began                     time.Time
	takeFor                   time.Duration // that an empty Take lasts
	gives                     int           // the Take that is not empty nevertheless; 0: none
	tookAt, renewedAt, gaveAt []int64
	renewFails                func(call int) error // by the number of the call; nil: never
	settleLasts               bool                 // Settle blocks until its context ends
}

func newClocked(t *testing.T, period time.Duration, jobs ...job) *clocked {
	return &clocked{board: newBoard(t, period, jobs...), began: time.Now()}
}

func (c *clocked) now() int64 { return time.Since(c.began).Milliseconds() }

func (c *clocked) Take(ctx context.Context, n int) ([]job, error) {
	c.look(func() { c.tookAt = append(c.tookAt, c.now()) })
	if c.takeFor == 0 || len(c.tookAt) == c.gives {
		return c.board.Take(ctx, n)
	}
	pass(c.takeFor)
	return nil, nil
}

func (c *clocked) Renew(ctx context.Context, js []job) ([]error, error) {
	var err error
	c.look(func() {
		c.renewedAt = append(c.renewedAt, c.now())
		if c.renewFails != nil {
			err = c.renewFails(len(c.renewedAt))
		}
	})
	if err != nil {
		return nil, err
	}
	return c.board.Renew(ctx, js)
}

func (c *clocked) Settle(ctx context.Context, j job, r workloop.Result) error {
	if c.settleLasts {
		<-ctx.Done()
		return ctx.Err()
	}
	return c.board.Settle(ctx, j, r)
}

func (c *clocked) Release(ctx context.Context, js []job) error {
	c.look(func() { c.gaveAt = append(c.gaveAt, c.now()) })
	if len(js) == 0 {
		c.t.Error("nothing is given back")
	}
	return c.board.Release(ctx, js)
}

// TestPausesOfTakes: a Take that returned nothing in less than 50 ms is repeated after a pause of
// 25 to 50 ms, which doubles. One that waited longer is repeated at once.
func TestPausesOfTakes(t *testing.T) {
	for _, d := range []time.Duration{49 * time.Millisecond, 50 * time.Millisecond, time.Second} {
		bubble(t, func(t *testing.T) {
			c := newClocked(t, 0)
			c.takeFor = d
			loop := start(t, workloop.Config[job]{Source: c})
			pass(30 * time.Second)
			loop.end(t)
			for i, longest := 1, int64(50); i < len(c.tookAt); i, longest = i+1, min(2*longest, 5000) {
				if pause := c.tookAt[i] - c.tookAt[i-1] - d.Milliseconds(); d >= 50*time.Millisecond && pause != 0 ||
					d < 50*time.Millisecond && (pause < longest/2-1 || pause > longest) {
					t.Fatalf("takes of %v: pause %d is %d ms", d, i, pause)
				}
			}
			if len(c.tookAt) < 8 {
				t.Errorf("takes of %v: %d takes", d, len(c.tookAt))
			}
		})
	}
}

// TestPausesBeginAnew: after a Take that returned something the pauses are short again.
func TestPausesBeginAnew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClocked(t, 0, jobs(1)...)
		c.takeFor, c.gives = time.Nanosecond, 8
		loop := start(t, workloop.Config[job]{Source: c, Handle: func(context.Context, job) error { return nil }})
		pass(30 * time.Second)
		loop.end(t)
		if before, after := c.tookAt[7]-c.tookAt[6], c.tookAt[9]-c.tookAt[8]; before < 1600 || after > 50 || c.done() != 1 {
			t.Errorf("a pause of %d ms before the piece, and one of %d after it; takes at %v", before, after, c.tookAt)
		}
	})
}

// TestShortestPause: the first pauses are between 25 and 50 ms.
func TestShortestPause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		least, most := time.Hour, time.Duration(0)
		for range 2000 {
			began, calls := time.Now(), 0
			_ = workloop.Retry(t.Context(), func(error) {}, func(context.Context) error {
				if calls++; calls == 2 {
					return nil
				}
				return io.EOF
			})
			least, most = min(least, time.Since(began)), max(most, time.Since(began))
		}
		if least < 25*time.Millisecond || most >= 50*time.Millisecond || least > 26*time.Millisecond || most < 49*time.Millisecond {
			t.Errorf("pauses from %v to %v, want 25 to 50 ms", least, most)
		}
	})
}

// TestPausesOfRenewals: renewals that fail are repeated after growing pauses, which are short again
// after a success.
func TestPausesOfRenewals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClocked(t, 30*time.Minute, jobs(1)...)
		const first, second = 9, 15 // the calls that succeed
		c.renewFails = func(call int) error {
			if call == first || call >= second {
				return nil
			}
			return engine.ErrUnavailable
		}
		loop := start(t, workloop.Config[job]{Source: c, Grace: time.Hour, Handle: func(context.Context, job) error {
			pass(29 * time.Minute)
			return nil
		}})
		pass(28 * time.Minute)
		loop.end(t)
		if len(c.renewedAt) != second || c.renewedAt[0] != (10*time.Minute).Milliseconds() ||
			c.renewedAt[first] != c.renewedAt[first-1]+(10*time.Minute).Milliseconds() {
			t.Fatalf("renewals at %v ms", c.renewedAt)
		}
		for _, from := range []int{1, first + 1} {
			longest := int64(50)
			for i := from; i < len(c.renewedAt) && i != first; i++ {
				if pause := c.renewedAt[i] - c.renewedAt[i-1]; pause < longest/2-1 || pause > longest {
					t.Errorf("pause %d is %d ms, want at most %d", i, pause, longest)
				}
				longest = min(2*longest, 5000)
			}
		}
		if c.done() != 1 || c.latest != 1 {
			t.Errorf("%d done after %d deliveries", c.done(), c.latest)
		}
	})
}

// TestSuspectIsConfirmed: what is behind a piece that failed waits until its lease is renewed. It
// is neither run nor settled if its own context ends first.
func TestSuspectIsConfirmed(t *testing.T) {
	for name, c := range map[string]struct {
		succeeds int // the first renewal that does; 0: none
		cancel   bool
		runs     string
		errors   int // at least, if none succeeds
	}{
		"at once":  {1, false, "[0 1 0]", 1},
		"later":    {4, false, "[0 1 0]", 4},
		"never":    {0, false, "[0]", 4},
		"canceled": {0, true, "[0]", 4},
	} {
		bubble(t, func(t *testing.T) {
			s, seen, errs := newClocked(t, time.Hour, job{id: 0, lane: "a"}, job{id: 1, lane: "a"}), new(log), new(log)
			s.renewFails = func(call int) error {
				if c.succeeds == 0 || call < c.succeeds {
					return engine.ErrUnavailable
				}
				return nil
			}
			loop := start(t, workloop.Config[job]{Source: s, Concurrency: 2, Grace: time.Second, OnError: errs.onError,
				Handle: func(_ context.Context, j job) error {
					if seen.note("%d", j.id); j.delivery == 1 {
						return errStop
					}
					return nil
				}})
			pass(2 * time.Second)
			if c.cancel {
				if n := loop.Cancel(func(j job) bool { return j.id == 1 }, io.EOF); n != 1 {
					t.Errorf("%s: Cancel = %d, want 1", name, n)
				}
				pass(time.Minute)
			}
			runs := fmt.Sprint(seen.copy())
			loop.stop(errStop)
			<-loop.ended
			if runs != c.runs || (len(s.ends[1]) > 0) != (c.succeeds > 0) {
				t.Errorf("%s: runs %s, want %s; results %v", name, runs, c.runs, s.ends)
			}
			if n := len(errs.errors); n < c.errors || c.succeeds > 0 && n != c.errors {
				t.Errorf("%s: reported %v, want %d", name, errs.errors, c.errors)
			}
		})
	}
}

// TestDrainCancelsLaterPieces: without a way back, what waits in a lane is run after the grace, but
// with a context that has ended. A piece that was cancelled before keeps its cause.
func TestDrainCancelsLaterPieces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, why := newBoard(t, 0, job{id: 0, lane: "a"}, job{id: 1, lane: "a"}, job{id: 2}), errors.New("not wanted")
		s := struct {
			workloop.Source[job]
			workloop.Laner[job]
		}{b, b}
		release := make(chan struct{})
		loop := start(t, workloop.Config[job]{Source: s, Concurrency: 3, Grace: time.Minute,
			Handle: func(ctx context.Context, j job) error {
				<-ctx.Done()
				if j.id == 2 {
					<-release
				}
				return nil
			}})
		synctest.Wait()
		if n := loop.Cancel(func(j job) bool { return j.id == 2 }, why); n != 1 {
			t.Errorf("Cancel = %d, want 1", n)
		}
		synctest.Wait()
		began := time.Now()
		loop.stop(errStop)
		pass(time.Minute)
		synctest.Wait()
		close(release)
		if err := <-loop.ended; err != nil || time.Since(began) != time.Minute {
			t.Errorf("Run = %v after %v", err, time.Since(began))
		}
		for id, want := range []workloop.Result{{Cause: errStop, Stopped: true}, {Cause: errStop, Stopped: true}, {Cause: why}} {
			if r := b.ends[id]; len(r) != 1 || r[0] != want {
				t.Errorf("job %d: %+v, want %+v", id, r, want)
			}
		}
	})
}

// TestTimeOfADrain: a drain ends once nothing is left to wait for. Handlers that do not return have
// the grace and 5 s, and the last calls another 2 s.
func TestTimeOfADrain(t *testing.T) {
	late := func(by time.Duration) func(context.Context, <-chan struct{}) {
		return func(ctx context.Context, _ <-chan struct{}) { <-ctx.Done(); pass(by) }
	}
	for name, c := range map[string]struct {
		handler  func(ctx context.Context, forever <-chan struct{})
		settling bool // Settle blocks until its context ends
		want     time.Duration
		blocked  int
		missed   int
	}{
		"in time":            {func(context.Context, <-chan struct{}) { pass(30 * time.Second) }, false, 30 * time.Second, 0, 0},
		"on the dot":         {func(ctx context.Context, _ <-chan struct{}) { <-ctx.Done() }, false, time.Minute, 0, 0},
		"last words":         {late(4 * time.Second), false, 64 * time.Second, 0, 0},
		"never":              {func(_ context.Context, forever <-chan struct{}) { <-forever }, false, 65 * time.Second, 1, 0},
		"settles for long":   {func(ctx context.Context, _ <-chan struct{}) {}, true, 62 * time.Second, 0, 1},
		"and too late":       {late(4 * time.Second), true, 66 * time.Second, 0, 1},
		"a second too late":  {late(6 * time.Second), false, 65 * time.Second, 1, 0},
		"returns in the end": {func(ctx context.Context, _ <-chan struct{}) { pass(64 * time.Second) }, false, 64 * time.Second, 0, 0},
	} {
		bubble(t, func(t *testing.T) {
			s, forever := newClocked(t, time.Hour, jobs(1)...), make(chan struct{})
			s.settleLasts = c.settling
			loop := start(t, workloop.Config[job]{Source: s, Grace: time.Minute, Handle: func(ctx context.Context, _ job) error {
				c.handler(ctx, forever)
				return nil
			}})
			synctest.Wait()
			began := time.Now()
			loop.stop(errStop)
			err := <-loop.ended
			var blocked *workloop.BlockedError
			var unsettled *workloop.UnsettledError
			if errors.As(err, &blocked); (blocked != nil) != (c.blocked > 0) || blocked != nil && blocked.Handlers != c.blocked {
				t.Errorf("%s: Run = %v, want %d blocked", name, err, c.blocked)
			}
			if errors.As(err, &unsettled); (unsettled != nil) != (c.missed > 0) || unsettled != nil && unsettled.Results != c.missed {
				t.Errorf("%s: Run = %v, want %d results missed", name, err, c.missed)
			}
			if d := time.Since(began); d != c.want {
				t.Errorf("%s: the drain took %v, want %v", name, d, c.want)
			}
			if len(s.gaveAt) != c.blocked {
				t.Errorf("%s: given back at %v ms", name, s.gaveAt)
			}
			close(forever)
			pass(time.Minute)
		})
	}
}

// TestLongestPauseOfRenewals: a renewal is repeated after a tenth of the lease at the latest, until
// the lease has ended.
func TestLongestPauseOfRenewals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, ended := newClocked(t, 10*time.Second, jobs(1)...), int64(0)
		c.renewFails = func(int) error { return engine.ErrUnavailable }
		loop := start(t, workloop.Config[job]{Source: c, Grace: time.Hour, Handle: func(ctx context.Context, _ job) error {
			if <-ctx.Done(); ended == 0 {
				ended = c.now()
			}
			return nil
		}})
		pass(12 * time.Second)
		loop.stop(errStop)
		<-loop.ended
		var most int64
		for i := 1; i < len(c.renewedAt) && c.renewedAt[i] < 10_000; i++ {
			most = max(most, c.renewedAt[i]-c.renewedAt[i-1])
		}
		if ended != 10_000 || most != 1000 {
			t.Errorf("the lease ended after %d ms, with renewals at %v, want pauses of at most 1000", ended, c.renewedAt)
		}
	})
}

// TestErrorsOfTake: an error of Take is reported without a piece, and ends the loop if it is final.
func TestErrorsOfTake(t *testing.T) {
	for _, final := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			b, errs := newBoard(t, 0), new(log)
			why := io.ErrNoProgress
			if b.setFail(why); final {
				b.setFail(workloop.Final(why))
			}
			loop := start(t, workloop.Config[job]{Source: b, OnError: func(j *job, err error) {
				if j != nil {
					t.Errorf("%v is that of %+v", err, j)
				}
				errs.onError(j, err)
			}})
			pass(time.Second)
			if !final {
				loop.end(t)
			} else if err := <-loop.ended; !errors.Is(err, why) {
				t.Errorf("Run = %v", err)
			}
			if n := len(errs.errors); final != (n == 0) || n > 0 && errs.errors[0] != why || !final && n < 3 {
				t.Errorf("final=%t: reported %v", final, errs.errors)
			}
		})
	}
}

// TestDeadlineOfRenewals: a renewal has a third of the lease, and ends with the lease.
func TestDeadlineOfRenewals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := &hanging{clocked: newClocked(t, 30*time.Second, jobs(1)...)}
		loop := start(t, workloop.Config[job]{Source: c, Grace: time.Hour, Handle: func(ctx context.Context, _ job) error {
			<-ctx.Done()
			return nil
		}})
		pass(29 * time.Second)
		loop.stop(errStop)
		<-loop.ended
		if got := fmt.Sprint(c.gaveUp); got != "[20000 30000]" {
			t.Errorf("renewals have ended after %s ms, want [20000 30000]", got)
		}
	})
}

// hanging is a board that does not answer renewals.
type hanging struct {
	*clocked
	gaveUp []int64
}

func (h *hanging) Renew(ctx context.Context, _ []job) ([]error, error) {
	<-ctx.Done()
	h.gaveUp = append(h.gaveUp, h.now())
	return nil, ctx.Err()
}

// TestProcessesAreSorted: the counts of a loop are listed by the names of its processes.
func TestProcessesAreSorted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBoard(t, 0, jobs(40)...)
		loop := start(t, workloop.Config[job]{Source: b, Concurrency: 3,
			Process: func(j job) string { return fmt.Sprintf("p%02d", j.id%20) },
			Handle:  func(context.Context, job) error { pass(time.Second); return nil }})
		pass(time.Minute)
		loop.end(t)
		for i, p := range loop.Status().Processes {
			if p.Name != fmt.Sprintf("p%02d", i) || p.Runs != 2 || p.Failures != 0 || p.LastRun.IsZero() {
				t.Errorf("process %d is %+v", i, p)
			}
		}
	})
}

// TestRenewedTogether: a renewal includes leases that come due within a sixth of their duration.
func TestRenewedTogether(t *testing.T) {
	for later, want := range map[time.Duration]string{
		4999 * time.Millisecond: "[2 2]", 5 * time.Second: "[2 2]", 5001 * time.Millisecond: "[1 2]",
	} {
		bubble(t, func(t *testing.T) {
			b := newBoard(t, 30*time.Second, job{id: 0})
			loop := start(t, workloop.Config[job]{Source: b, Concurrency: 2, Grace: time.Hour, Handle: func(context.Context, job) error {
				pass(28 * time.Second)
				return nil
			}})
			pass(later)
			b.add(job{id: 1})
			pass(24*time.Second - later)
			b.look(func() {
				if got := fmt.Sprint(b.renewed); got != want {
					t.Errorf("a piece that was taken %v later: renewals of %s, want %s", later, got, want)
				}
			})
			loop.end(t)
		})
	}
}
