package cron

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func (d Due) String() string {
	var b strings.Builder
	for _, at := range d.Run {
		b.WriteString(at.Format("15:04:05 "))
	}
	return fmt.Sprintf("%smissed %d next %s", b.String(), d.Missed, d.Next.Format("15:04:05"))
}

// TestDue: what runs after an outage, by each rule.
func TestDue(t *testing.T) {
	hourly, minutely, secondly := Spec{Cron: "@hourly"}, Spec{Cron: "* * * * *"}, Spec{Every: time.Second}
	for _, test := range []struct {
		name       string
		spec       Spec
		after, now string
		rule       CatchUp
		n          int
		want       string
	}{
		{"nothing is due", hourly, "00:00:00", "00:59:59", CatchUpOne, 1, "missed 0 next 01:00:00"},
		{"in time", hourly, "00:00:00", "01:00:00", CatchUpOne, 1, "01:00:00 missed 0 next 02:00:00"},
		{"in time, none", hourly, "00:00:00", "01:00:00", CatchUpNone, 1, "01:00:00 missed 0 next 02:00:00"},
		{"late by no more than a leader's change", hourly, "00:00:00", "01:01:00", CatchUpNone, 1, "01:00:00 missed 0 next 02:00:00"},
		{"late, none", hourly, "00:00:00", "01:01:01", CatchUpNone, 1, "missed 1 next 02:00:00"},
		{"late, one", hourly, "00:00:00", "01:59:00", CatchUpOne, 1, "01:00:00 missed 0 next 02:00:00"},
		{"an outage, none", hourly, "00:00:00", "05:30:00", CatchUpNone, 1, "missed 5 next 06:00:00"},
		{"an outage that ends at a tick, none", minutely, "00:00:00", "05:30:10", CatchUpNone, 1, "05:30:00 missed 329 next 05:31:00"},
		{"an outage, one", hourly, "00:00:00", "05:30:00", CatchUpOne, 1, "05:00:00 missed 4 next 06:00:00"},
		{"an outage, all", hourly, "00:00:00", "03:30:00", CatchUpAll, 10, "01:00:00 02:00:00 03:00:00 missed 0 next 04:00:00"},
		{"an outage, all up to two", hourly, "00:00:00", "05:30:00", CatchUpAll, 2, "04:00:00 05:00:00 missed 3 next 06:00:00"},
		{"more than can be gone through", secondly, "00:00:00", "23:00:00", CatchUpAll, 3,
			"22:59:58 22:59:59 23:00:00 missed 82797 next 23:00:01"},
		{"more of an expression", Spec{Cron: "*/2 * * * * *"}, "00:00:00", "23:00:01", CatchUpAll, 2,
			"22:59:58 23:00:00 missed 9998 next 23:00:02"},
		{"more of an expression, one", Spec{Cron: "* * 3 * * *"}, "00:00:00", "23:00:01", CatchUpOne, 1,
			"03:59:59 missed 3599 next 03:00:00"},
		{"a clock behind", hourly, "05:00:00", "03:30:00", CatchUpAll, 2, "missed 0 next 06:00:00"},
	} {
		s := mustParse(t, test.spec)
		due := s.Due(at(t, "2025-01-02T"+test.after+"Z"), at(t, "2025-01-02T"+test.now+"Z"), test.rule, test.n)
		if got := due.String(); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// TestDueAfterYears: an outage of 50 years costs no more than one of hours.
func TestDueAfterYears(t *testing.T) {
	s := mustParse(t, Spec{Cron: "* * * * 2 *", Zone: "Europe/Berlin"})
	due := s.Due(at(t, "1975-01-01T00:00:00Z"), at(t, "2025-01-01T00:00:00Z"), CatchUpAll, MaxAll)
	if n := len(due.Run); n != MaxAll {
		t.Fatalf("%d ticks", n)
	}
	for i, tick := range due.Run {
		if want := at(t, "2024-02-29T22:59:59Z").Add(time.Duration(i-MaxAll+1) * time.Second); !tick.Equal(want) {
			t.Fatalf("tick %d: %v, want %v", i, tick, want)
		}
	}
	if due.Missed != maxCounted-MaxAll || !due.Next.Equal(at(t, "2025-01-31T23:00:00Z")) {
		t.Errorf("missed %d, next %v", due.Missed, due.Next)
	}
}
