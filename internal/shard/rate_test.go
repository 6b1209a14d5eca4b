package shard

import (
	"slices"
	"testing"
)

// TestRateHistory: each second is the increase between two samples, and the oldest are dropped.
func TestRateHistory(t *testing.T) {
	var r rate
	if got := r.history(); len(got) != 0 || r.perSecond(5) != 0 {
		t.Errorf("before the first sample: %v, %d a second", got, r.perSecond(5))
	}
	total := int64(0)
	for i := range int64(1000) {
		total += i
		r.sample(total)
		got := r.history()
		if want := min(i, RateHistory); int64(len(got)) != want {
			t.Fatalf("after %d samples: %d seconds, want %d", i+1, len(got), want)
		}
		if len(got) > 0 && (got[len(got)-1] != i || got[0] != i-int64(len(got))+1) {
			t.Fatalf("after %d samples: from %d to %d", i+1, got[0], got[len(got)-1])
		}
	}
	if !slices.IsSorted(r.history()) {
		t.Errorf("not in order: %v", r.history())
	}
	// The last ten samples are those of 990 to 999, and 1000 more came since: the oldest is ten
	// seconds old.
	if got, want := r.perSecond(total+1000), (1000+991+992+993+994+995+996+997+998+999)/10; got != int64(want) {
		t.Errorf("%d a second, want %d", got, want)
	}
}
