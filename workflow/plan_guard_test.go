package workflow

import (
	"testing"

	"github.com/floedb/floe/internal/flow"
)

// TestBreaker walks a breaker through its states: results of an older epoch are ignored, and the
// first successful probe closes it.
func TestBreaker(t *testing.T) {
	b := &flow.Breaker{Failures: 2, Cooldown: 100, Probes: 2}
	k := &known{}
	x := k.executor("a")
	call := func(now int64, want bool) uint64 {
		t.Helper()
		if shut := x.shut(b, now); shut == want {
			t.Fatalf("at %d: shut %t in state %d with %d probes until %d", now, shut, x.state, x.probes, x.until)
		} else if shut {
			return 0
		}
		return k.enter(x, b, now)
	}
	judge := func(epoch uint64, v verdict, now int64, want breakerState) {
		t.Helper()
		k.judge(x, b, epoch, v, now)
		if x.state != want {
			t.Fatalf("at %d: state %d, want %d", now, x.state, want)
		}
	}
	first, second, slow := call(0, true), call(0, true), call(0, true)
	judge(first, verdictBad, 1, breakerClosed)
	judge(call(1, true), verdictGood, 1, breakerClosed) // only consecutive failures count
	judge(first, verdictBad, 2, breakerClosed)
	judge(second, verdictBad, 3, breakerOpen)
	call(4, false)
	call(102, false)
	p1, p2 := call(103, true), call(103, true)
	call(103, false) // two probes are in flight
	judge(slow, verdictGood, 104, breakerHalfOpen)
	judge(p1, verdictNone, 104, breakerHalfOpen)
	p3 := call(104, true)
	judge(p2, verdictBad, 105, breakerOpen)
	judge(p3, verdictGood, 106, breakerOpen) // from the previous epoch
	p4 := call(205, true)
	call(205, true)
	call(205, false)
	p5 := call(305, true) // the probes returned no result for a cooldown
	judge(p4, verdictGood, 306, breakerClosed)
	judge(p5, verdictBad, 307, breakerClosed)
	if x.failures != 0 || x.epoch == 0 || x.epoch == p4 {
		t.Fatalf("closed with %d failures in epoch %d", x.failures, x.epoch)
	}
}

// TestRates checks that all rates are kept, that waiting calls are admitted in turn, and that
// shards get their share.
func TestRates(t *testing.T) {
	rates := []flow.Rate{{Limit: 2, Per: 1000}, {Limit: 3, Per: 60_000}, {Limit: 4, Per: 3_600_000}}
	for _, c := range []struct {
		shares int64
		want   []int64
	}{
		{1, []int64{0, 0, 500, 20_000, 900_000, 1_800_000}},
		{2, []int64{0, 40_000, 1_800_000, 3_600_000}},
	} {
		x := &executorRow{}
		for i, want := range c.want {
			at := x.leave(rates, c.shares, 0)
			if x.take(rates, c.shares, at); at != want {
				t.Errorf("%d shards: call %d has leave at %d, want %d", c.shares, i, at, want)
			}
		}
	}
	huge := []flow.Rate{{Limit: 1<<31 - 1, Per: 1000}}
	x := &executorRow{}
	for range 1000 {
		x.take(huge, 1, x.leave(huge, 1, 1<<42))
	}
	if at := x.leave(huge, 1, 1<<42); at != 1<<42 {
		t.Errorf("a rate of 2^31 a second has leave %d ms late", at-1<<42)
	}
}

// TestHealth checks the score: executors with few samples count as healthy, and old samples fade
// until they do again.
func TestHealth(t *testing.T) {
	h := &flow.Health{Window: 100, Decay: healthOne / 2, MinSamples: 4}
	x := &executorRow{}
	for i, want := range []int64{healthOne, healthOne, healthOne, healthOne / 4, healthOne / 5} {
		x.note(h, i == 0, 10)
		if got := x.score(h, 10); got != want {
			t.Errorf("score after %d samples: %d, want %d", i+1, got, want)
		}
	}
	if got := x.score(h, 109); got != healthOne/5 {
		t.Errorf("score within the window: %d", got)
	}
	if got := x.score(h, 110); got != healthOne {
		t.Errorf("score of 2.5 samples: %d, want that of a healthy one", got)
	}
	x.note(h, false, 1<<40)
	if x.good != 0 || x.bad != healthOne {
		t.Errorf("after very long there are %d good and %d bad", x.good, x.bad)
	}
	x.good, x.bad = healthMost, healthMost
	x.note(h, true, 1<<40)
	if got := x.score(h, 1<<40); got != healthOne/2 {
		t.Errorf("score of very many: %d", got)
	}
}
