package cron

import (
	"slices"
	"testing"
	"time"
)

// TestTicks checks that what there is no room for is left for the next time, by itself and in
// order.
func TestTicks(t *testing.T) {
	var p Parser
	s, err := p.Parse(Spec{Every: time.Second})
	if again, _ := p.Parse(Spec{Every: time.Second}); err != nil || again != s {
		t.Fatalf("Parse: %v, and another one the second time", err)
	}
	if _, err := p.Parse(Spec{Cron: "no"}); err == nil {
		t.Error("Parse of nonsense has no error")
	}
	got := s.Ticks(1000, 5500, CatchUpAll, 3, 2)
	if !slices.Equal(got.Run, []int64{3000, 4000}) || got.Missed != 1 || got.Last != 4000 || got.Next != 5000 || got.After != 6000 {
		t.Errorf("three of four, two at a time: %+v", got)
	}
	got = s.Ticks(got.Last, 5500, CatchUpAll, 3, 2)
	if !slices.Equal(got.Run, []int64{5000}) || got.Missed != 0 || got.Last != 5000 || got.Next != 6000 {
		t.Errorf("the rest: %+v", got)
	}
	if got = s.Ticks(5000, 5500, CatchUpOne, 1, 1); got.Run != nil || got.Missed != 0 || got.Last != 5000 || got.Next != 6000 {
		t.Errorf("nothing is due: %+v", got)
	}
	if got = s.Ticks(5000, 500_500, CatchUpNone, 1, 1); !slices.Equal(got.Run, []int64{500_000}) || got.Missed != 494 {
		t.Errorf("the latest of many: %+v", got)
	}
	hourly := mustParse(t, Spec{Every: time.Hour})
	if got = hourly.Ticks(0, 3_660_001, CatchUpNone, 1, 1); got.Run != nil || got.Missed != 1 || got.Last != 3_660_001 ||
		got.Next != 7_200_000 {
		t.Errorf("one is missed: %+v", got)
	}
}
