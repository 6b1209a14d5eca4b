package agg

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/floedb/floe/internal/codec"
)

func at(t *testing.T, text string) int64 {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return v.UnixMilli()
}

func never() error { return nil }

func buckets(w *Windows) (starts []string) {
	for i := range w.Count() {
		s, _, _ := w.Bucket(i)
		starts = append(starts, time.UnixMilli(s).UTC().Format("2006-01-02T15:04Z"))
	}
	return starts
}

func TestCalendar(t *testing.T) {
	const hour = 60 * 60 * 1000
	for _, c := range []struct {
		zone, from, to string
		every          Step
		want           string
	}{
		{"Europe/Berlin", "2024-03-30T12:00:00Z", "2024-04-01T12:00:00Z", Step{Millis: day},
			"[2024-03-29T23:00Z 2024-03-30T23:00Z 2024-03-31T22:00Z]"},
		{"Europe/Berlin", "2024-10-26T22:00:00Z", "2024-10-27T23:00:00Z", Step{Millis: 6 * hour},
			"[2024-10-26T22:00Z 2024-10-27T05:00Z 2024-10-27T11:00Z 2024-10-27T17:00Z]"},
		{"Europe/Berlin", "2024-10-26T23:00:00Z", "2024-10-27T03:00:00Z", Step{Millis: hour},
			"[2024-10-26T23:00Z 2024-10-27T00:00Z 2024-10-27T01:00Z 2024-10-27T02:00Z]"},
		{"Europe/Berlin", "2024-10-26T23:00:00Z", "2024-10-27T03:00:00Z", Step{Millis: 2 * hour}, "[2024-10-26T22:00Z 2024-10-27T00:00Z]"},
		{"Europe/Berlin", "2024-02-10T00:00:00Z", "2024-05-01T00:00:00Z", Step{Months: 1},
			"[2024-01-31T23:00Z 2024-02-29T23:00Z 2024-03-31T22:00Z 2024-04-30T22:00Z]"},
		{"Australia/Lord_Howe", "2024-04-05T20:00:00Z", "2024-04-08T00:00:00Z", Step{Millis: day},
			"[2024-04-05T13:00Z 2024-04-06T13:00Z 2024-04-07T13:30Z]"},
		{"Asia/Kathmandu", "2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z", Step{Millis: day}, "[2023-12-31T18:15Z 2024-01-01T18:15Z]"},
		{"America/Sao_Paulo", "2018-11-03T12:00:00Z", "2018-11-05T12:00:00Z", Step{Millis: day},
			"[2018-11-03T03:00Z 2018-11-04T03:00Z 2018-11-05T02:00Z]"},
		{"Pacific/Apia", "2011-12-29T12:00:00Z", "2012-01-01T00:00:00Z", Step{Millis: day},
			"[2011-12-29T10:00Z 2011-12-30T10:00Z 2011-12-31T10:00Z]"},
		{"UTC", "2024-01-03T00:00:00Z", "2024-01-16T00:00:00Z", Step{Millis: week},
			"[2024-01-01T00:00Z 2024-01-08T00:00Z 2024-01-15T00:00Z]"},
		{"", "2024-01-03T00:00:00Z", "2024-01-16T00:00:00Z", Step{Millis: week}, "[2024-01-01T00:00Z 2024-01-08T00:00Z 2024-01-15T00:00Z]"},
		{"", "2023-05-03T00:00:00Z", "2025-01-01T00:00:00Z", Step{Months: 12}, "[2023-01-01T00:00Z 2024-01-01T00:00Z]"},
	} {
		var loc *time.Location
		if c.zone != "" {
			var err error
			if loc, err = time.LoadLocation(c.zone); err != nil {
				t.Fatal(err)
			}
		}
		l := Layout{c.every, c.every, loc}
		w, err := l.Windows(Range{at(t, c.from), at(t, c.to)}, 1000, never)
		if got := fmt.Sprint(buckets(&w)); err != nil || got != c.want {
			t.Errorf("%s to %s by %+v in %q: %v, %v\nwant %s", c.from, c.to, c.every, c.zone, got, err, c.want)
		}
		floor, err := l.Floor(at(t, c.from))
		if s, _, _ := w.Bucket(0); err != nil || floor != s {
			t.Errorf("Floor(%s) = %d, %v, want %d", c.from, floor, err, s)
		}
	}
}

// TestZoneDays goes through years of the strangest zones: each day begins when the date changes,
// and days cover all time.
func TestZoneDays(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Sao_Paulo", "Pacific/Apia",
		"America/St_Johns", "Africa/Casablanca"} {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		l := Layout{Step{Millis: day}, Step{Millis: day}, loc}
		w, err := l.Windows(Range{at(t, "1985-01-01T12:00:00Z"), at(t, "2060-01-01T12:00:00Z")}, 30000, never)
		if err != nil {
			t.Fatal(err)
		}
		for i := range w.Count() {
			s, first, end := w.Bucket(i)
			if first != i || end != i+1 {
				t.Fatalf("bucket %d has panes %d to %d", i, first, end)
			}
			before, begin := time.UnixMilli(s-1).In(loc), time.UnixMilli(s).In(loc)
			if before.YearDay() == begin.YearDay() || begin.Hour()*60+begin.Minute() > 60 {
				t.Errorf("%s: a day begins at %v", zone, begin)
			}
		}
	}
}

func TestSlidingByStep(t *testing.T) {
	l := Layout{Size: Step{Millis: 100}, Every: Step{Millis: 30}}
	w, err := l.Windows(Range{45, 200}, 100, never)
	if err != nil || w.Count() != 6 {
		t.Fatalf("Windows: %d buckets, %v, want 6 of 30 to 180", w.Count(), err)
	}
	for pane := w.Panes.Index(45); pane <= w.Panes.Index(199); pane++ {
		first, end := w.containing(pane)
		for i := range w.Count() {
			start, f, e := w.Bucket(i)
			if start != 30+30*i || w.Panes.Start(f) != start || w.Panes.Start(e) != start+100 {
				t.Fatalf("bucket %d: %d, panes %d to %d", i, start, f, e)
			}
			if in := pane >= f && pane < e; in != (i >= first && i < end) {
				t.Errorf("pane %d in buckets %d to %d, but bucket %d has panes %d to %d", pane, first, end, i, f, e)
			}
		}
	}
	l = Layout{Size: Step{Millis: 1000}, Every: Step{Millis: 1000}, Zone: time.UTC}
	if _, err := l.Windows(Range{0, 1000_001}, 1000, never); !errors.Is(err, ErrWindows) {
		t.Errorf("1,001 windows of a calendar with a limit of 1,000: %v", err)
	}
}

// TestPanesOfOthers: panes that have no bounds, or bounds in no order, or that do not cover the
// range of a plan, are refused.
func TestPanesOfOthers(t *testing.T) {
	for _, c := range []struct {
		panes Panes
		want  bool
	}{
		{Panes{step: 10, origin: -3 * day}, true},
		{Panes{step: -10}, false},
		{Panes{step: 1 << 60}, false},
		{Panes{}, false},
		{Panes{bounds: []int64{0}}, false},
		{Panes{bounds: []int64{0, 100}}, true},
		{Panes{bounds: []int64{0, 50, 50, 100}}, false},
		{Panes{bounds: []int64{0, 99}}, false},
		{Panes{bounds: []int64{1, 100}}, false},
		{Panes{bounds: []int64{0, 1 << 60}}, false},
	} {
		plan := Plan{Func: Avg, Panes: c.panes, From: 0, To: 100}
		e := codec.NewEncoder(nil)
		plan.Code(&e)
		var back Plan
		d := codec.NewDecoder(e.Encoded())
		if back.Code(&d); (d.Done() == nil) != c.want {
			t.Errorf("panes %+v: %v, taken should be %v", c.panes, d.Done(), c.want)
		}
	}
}
