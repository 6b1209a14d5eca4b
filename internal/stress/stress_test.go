package stress

import (
	"testing"
	"time"

	"github.com/floedb/floe"
)

// TestWorkloads puts each load on a node for a moment: all of them do something, and nothing goes wrong.
func TestWorkloads(t *testing.T) {
	node := floe.OpenMemory(t)
	for i := range Workloads {
		w := &Workloads[i]
		r, err := w.Run(t.Context(), Target{DB: node, Namespace: "bench", ValueSize: 64, Keys: 100, Callers: 4}, 100*time.Millisecond, func(Progress) {})
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
