package dashboard

import (
	"slices"
	"testing"
	"time"
)

// TestRecentBytes: bytes are in the second in which they came, and those of five minutes ago are
// gone.
func TestRecentBytes(t *testing.T) {
	var b recentBytes
	start := time.Unix(1_700_000_000, 0)
	b.add(start.Add(-400*time.Second), 7, 7)
	b.add(start, 1, 10)
	b.add(start, 2, 20)
	b.add(start.Add(2*time.Second), 4, 40)
	received, sent := []int64{100, 0, 0}, []int64{0, 0, 0}
	b.addTo(start.Add(3*time.Second), received, sent)
	if !slices.Equal(received, []int64{103, 0, 4}) || !slices.Equal(sent, []int64{30, 0, 40}) {
		t.Errorf("received %v, sent %v", received, sent)
	}
	long := make([]int64, rateSeconds)
	b.addTo(start.Add(rateSeconds*time.Second), long, make([]int64, rateSeconds))
	if long[0] != 3 || long[1] != 0 || long[2] != 4 {
		t.Errorf("after five minutes: %v", long[:3])
	}
	again := make([]int64, rateSeconds)
	b.addTo(start.Add(2*rateSeconds*time.Second), again, make([]int64, rateSeconds))
	if slices.Max(again) != 0 {
		t.Errorf("after ten minutes there is something left: %v", again)
	}
}
