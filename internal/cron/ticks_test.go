package cron

import (
	"slices"
	"strings"
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

// TestParserIsBounded: a Parser forgets all schedules when it has maxParsed.
func TestParserIsBounded(t *testing.T) {
	var p Parser
	spec := func(i int) Spec { return Spec{Every: time.Second + time.Duration(i)*time.Millisecond} }
	var first *Schedule
	for i := range maxParsed + 1 {
		s, err := p.Parse(spec(i))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = s
		}
		if again, _ := p.Parse(spec(i)); again != s {
			t.Fatalf("schedule %d is parsed twice", i)
		}
		if want := i%maxParsed + 1; len(p.parsed) != want {
			t.Fatalf("%d schedules are kept after %d, want %d", len(p.parsed), i+1, want)
		}
	}
	if again, _ := p.Parse(spec(0)); again == first {
		t.Error("the first schedule is still kept")
	}
}

// TestLastYear: ticks end with the year 9999.
func TestLastYear(t *testing.T) {
	for _, spec := range []Spec{{Cron: "0 0 1 1 *"}, {Every: 24 * time.Hour}} {
		s := mustParse(t, spec)
		if next := s.Next(at(t, "9998-12-31T12:00:00Z")); !next.Equal(at(t, "9999-01-01T00:00:00Z")) {
			t.Errorf("%+v: %v", spec, next)
		}
		if next := s.Next(at(t, "9999-12-31T12:00:00Z")); !next.IsZero() {
			t.Errorf("%+v: %v after the last year", spec, next)
		}
		due := s.Due(at(t, "9999-12-31T12:00:00Z"), at(t, "9999-12-31T13:00:00Z"), CatchUpOne, 1)
		if len(due.Run) > 0 || !due.Next.IsZero() {
			t.Errorf("%+v: %v after the last year", spec, due)
		}
	}
}

// TestParseLimits: the longest expression, and anchors in the first and the last year.
func TestParseLimits(t *testing.T) {
	list := "10," + strings.Repeat("1,", 122)
	for text, ok := range map[string]bool{list + "1 * * * *": true, list + "11 * * * *": false} {
		if _, err := Parse(Spec{Cron: text}); (err == nil) != ok {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	}
	for year, ok := range map[int]bool{0: false, 1: true, 2: true, 9999: true, 10_000: false} {
		anchor := time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC)
		if _, err := Parse(Spec{Every: time.Hour, Anchor: anchor}); (err == nil) != ok {
			t.Errorf("an anchor in the year %d: %v", year, err)
		}
	}
}

// TestBackwards: the bisection finds the last ticks up to each second.
func TestBackwards(t *testing.T) {
	from := at(t, "2025-01-01T00:00:00Z")
	for _, spec := range []Spec{{Every: time.Second}, {Cron: "* * * * * *"}, {Cron: "*/2 * * * * *"}, {Every: 3 * time.Second}} {
		s := mustParse(t, spec)
		var all []time.Time
		for tick := s.Next(from); len(all) < 40; tick = s.Next(tick) {
			all = append(all, tick)
		}
		for _, now := range all[3:] {
			for _, after := range []time.Duration{0, 999 * time.Millisecond} {
				want := slices.DeleteFunc(slices.Clone(all), func(tick time.Time) bool { return tick.After(now.Add(after)) })
				if got := s.backwards(from, now.Add(after), 3); !slices.EqualFunc(got, want[len(want)-3:], time.Time.Equal) {
					t.Errorf("%+v up to %v: %v, want %v", spec, now.Add(after), got, want[len(want)-3:])
				}
			}
		}
	}
}
