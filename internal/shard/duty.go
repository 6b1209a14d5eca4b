package shard

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// dutyRunner runs the duties of a shard while this node leads it, see engine.Duty.
type dutyRunner struct {
	shard *shard
	wake  chan struct{} // capacity 1
	seen  uint64        // term last applied; guarded by applier.mu
}

// Bounds of the pause before a duty that has ended is restarted.
const (
	minDutyPause = 10 * time.Millisecond
	maxDutyPause = 2 * time.Second
)

func (k *dutyRunner) poke() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// applied notes the term now visible to queries. A leader starts its duties once that is its own
// term.
func (k *dutyRunner) applied(term uint64) {
	if term != k.seen {
		k.seen = term
		k.poke()
	}
}

// term returns the term in which to run the duties. It is 0 if this node does not lead, or has not
// yet applied everything that earlier leaders have committed.
func (k *dutyRunner) term() uint64 {
	s := k.shard
	if term := s.role.term.Load(); s.role.leading.Load() && s.exec.VisibleTerm() == term {
		return term
	}
	return 0
}

// steppedTerm is term for a Stepper.
func (k *dutyRunner) steppedTerm() uint64 {
	if c := k.shard.loop.core; c.isLeader && k.shard.exec.VisibleTerm() == c.term {
		return c.term
	}
	return 0
}

// run starts and ends the duties with each term of leading. The duties of the next term wait until
// those of the last have returned.
func (k *dutyRunner) run() {
	s := k.shard
	defer s.host.running.Done()
	defer s.guard()
	var (
		doing uint64
		duty  sync.WaitGroup
		end   = func() {}
	)
	for {
		select {
		case <-k.wake:
		case <-s.host.ctx.Done():
			end()
			duty.Wait()
			return
		}
		term := k.term()
		if term == doing {
			continue
		}
		end()
		duty.Wait()
		end, doing = func() {}, term
		if term == 0 {
			continue
		}
		ctx, cancel := context.WithCancel(s.host.ctx)
		end = cancel
		for _, d := range s.exec.Duties(term, func() engine.LeadDoor { return (*leadDoor)(s) }) {
			duty.Go(func() { k.do(ctx, d) })
		}
	}
}

// do runs a duty until its term is over.
func (k *dutyRunner) do(ctx context.Context, d engine.LedDuty) {
	s := k.shard
	defer s.guard()
	var told failures
	for pause := minDutyPause; ctx.Err() == nil; {
		began := time.Now()
		err := d.Run(ctx, d.Lead)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil || time.Since(began) > maxDutyPause:
			pause = minDutyPause
		}
		if err != nil && !errors.Is(err, engine.ErrConflict) && !errors.Is(err, engine.ErrUnknownOutcome) &&
			!errors.Is(err, engine.ErrClosed) {
			if n := told.failed(time.Now()); n > 0 {
				s.host.log.Warn("duty failed, restarting it", "shard", s.id, "duty", d.String(), "failures", n, "error", err)
			}
		} else {
			told = failures{}
		}
		if s.sleep(ctx, nil, pause) != nil {
			return
		}
		pause = min(2*pause, maxDutyPause)
	}
}

// failures counts the failures of a duty since it last worked. A failing duty fails repeatedly,
// which is logged at first and then once a minute.
type failures struct {
	since int // the last line
	told  time.Time
}

// failed counts a failure, and returns the number to log, 0 for no log line.
func (f *failures) failed(now time.Time) (n int) {
	f.since++
	if !f.told.IsZero() && now.Sub(f.told) < failuresToldEvery {
		return 0
	}
	n, f.since, f.told = f.since, 0, now
	return n
}

const failuresToldEvery = time.Minute

// leadDoor is an engine.LeadDoor to a shard that this node leads.
type leadDoor shard

// Now returns the shard's time.
func (d *leadDoor) Now() int64 { return d.clock.now() }

// Mono returns monotonic time in ms.
func (d *leadDoor) Mono() int64 { return d.clock.mono() }

// Elapsed returns the time of the same clock at full resolution.
func (d *leadDoor) Elapsed() time.Duration { return d.clock.clock.Source.Mono() }

// Calls returns the number of writes that users have requested from the shard.
func (d *leadDoor) Calls() int64 { return d.admission.calls.Load() }

// Propose waits while the shard's queue is full.
func (d *leadDoor) Propose(ctx context.Context, cmd engine.Command) ([]byte, error) {
	s := (*shard)(d)
	for pause := minDutyPause; ; pause = min(2*pause, maxDutyPause) {
		p, err := s.submit(ctx, cmd)
		if err == nil {
			return s.outcome(ctx, p)
		}
		if !errors.Is(err, engine.ErrBusy) {
			return nil, err
		}
		if err := s.sleep(ctx, nil, pause); err != nil {
			return nil, err
		}
	}
}

// Sleep waits by the shard's clock, which may be adjusted.
func (d *leadDoor) Sleep(ctx context.Context, wake <-chan struct{}, until int64) error {
	s := (*shard)(d)
	if until == engine.NoTimer {
		select {
		case <-wake:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for {
		left := until - s.clock.now()
		if left <= 0 {
			return ctx.Err()
		}
		pause := time.Duration(min(left, maxSleep.Milliseconds())) * time.Millisecond
		if woken, err := s.pause(ctx, wake, pause); woken || err != nil {
			return err
		}
	}
}

// maxSleep is how long a duty sleeps without checking the clock.
const maxSleep = time.Second

func (s *shard) sleep(ctx context.Context, wake <-chan struct{}, d time.Duration) error {
	_, err := s.pause(ctx, wake, d)
	return err
}

// pause returns after d, when wake fires, or with the error of ctx.
func (s *shard) pause(ctx context.Context, wake <-chan struct{}, d time.Duration) (woken bool, err error) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-wake:
		return true, nil
	case <-t.C:
		return false, ctx.Err()
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
