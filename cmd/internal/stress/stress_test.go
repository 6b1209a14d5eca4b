package stress

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe"
)

// TestWorkloads puts each load on a node for a moment: all of them do something, and nothing goes
// wrong.
func TestWorkloads(t *testing.T) {
	node := floe.OpenMemory(t)
	for i := range Workloads {
		w := &Workloads[i]
		r, err := w.Run(t.Context(), Target{DB: node, Namespace: "bench", ValueSize: 64, Keys: 100, Callers: 4}, 100*time.Millisecond,
			func(Progress) {})
		if err != nil {
			t.Errorf("%s: %v", w.Name, err)
			continue
		}
		if r.Failed > 0 || r.Busy > 0 || r.Latency.Total() != r.Calls {
			t.Errorf("%s: %d calls, %d busy, %d failed: %v", w.Name, r.Calls, r.Busy, r.Failed, r.First)
		}
		t.Logf("%-14s %6d calls, p99 %v", w.Name, r.Calls, r.Latency.Quantile(0.99))
	}
}

// TestShortRun: a caller whose time is over before it begins makes one call.
func TestShortRun(t *testing.T) {
	within, cancel := context.WithCancel(t.Context())
	cancel()
	var done, wrong atomic.Uint64
	var r Result
	r.run(within, t.Context(), nil, func(context.Context, *caller) error { return nil }, &done, &wrong)
	if r.Calls != 1 || done.Load() != 1 || wrong.Load() != 0 {
		t.Errorf("%d calls, %d done, %d wrong, want 1, 1, 0", r.Calls, done.Load(), wrong.Load())
	}
}

// TestBusyCallersBackOff: a caller that is refused time after time comes back less and less often,
// and at once when it was served.
func TestBusyCallersBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var done, wrong atomic.Uint64
		var r Result
		var waits []time.Duration // before each call
		last := time.Now()
		r.run(ctx, t.Context(), nil, func(context.Context, *caller) error {
			waits = append(waits, time.Since(last))
			last = time.Now()
			switch len(waits) {
			case 11:
				return nil
			case 15:
				cancel()
			}
			return floe.ErrBusy
		}, &done, &wrong)
		if r.Calls != 1 || r.Busy != 14 || len(waits) != 15 {
			t.Errorf("%d calls, %d refused, %d waits", r.Calls, r.Busy, len(waits))
		}
		about := []time.Duration{0, 1, 2, 4, 8, 16, 32, 64, 128, 128, 128, 0, 1, 2, 4} // ms
		for i, w := range waits {
			if d := about[i] * time.Millisecond; w < d/2 || w > d/2+d {
				t.Errorf("wait %d: %v, want about %v", i, w, d)
			}
		}
	})
}
