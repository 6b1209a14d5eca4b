package cron

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	runs = flag.Int("runs", 60, "random expressions to compare with the naive search")
	seed = flag.Uint64("seed", 0, "seed of the first; default by the clock")
)

// naive is an expression as plain lists, and a search that goes through all minutes.
type naive struct {
	minute, hour, dom, month, dow []int // nil is *
	lastDay                       bool
}

func (n *naive) String() string {
	var b strings.Builder
	for _, list := range [][]int{n.minute, n.hour, n.dom, n.month, n.dow} {
		if list == nil {
			b.WriteString("* ")
			continue
		}
		text := strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ","), "[]")
		b.WriteString(text + " ")
	}
	fields := strings.Fields(b.String())
	if n.lastDay {
		fields[2] = "L"
	}
	return strings.Join(fields, " ")
}

// matches says whether a time, read as what clocks show, is one of the expression.
func (n *naive) matches(t time.Time) bool {
	in := func(list []int, v int) bool { return list == nil || slices.Contains(list, v) }
	dom := in(n.dom, t.Day())
	if n.lastDay {
		dom = t.AddDate(0, 0, 1).Day() == 1
	}
	dow := in(n.dow, int(t.Weekday())) || t.Weekday() == 0 && slices.Contains(n.dow, 7)
	days := dom && dow
	if (n.dom != nil || n.lastDay) && n.dow != nil {
		days = dom || dow
	}
	return in(n.minute, t.Minute()) && in(n.hour, t.Hour()) && in(n.month, int(t.Month())) && days
}

// ticks goes through the minutes of a range. Clocks are read by Format, so that it shares nothing
// with what it checks.
func (n *naive) ticks(from, to time.Time, loc *time.Location) (ticks []time.Time) {
	show := func(t time.Time) time.Time {
		shown, err := time.Parse(time.DateTime, t.In(loc).Format(time.DateTime))
		if err != nil {
			panic(err)
		}
		return shown
	}
	greatest := show(from.Add(-49 * time.Hour))
	for t := from.Add(-49 * time.Hour); t.Before(to); t = t.Add(time.Minute) {
		shown, due := show(t), false
		if n.hour == nil {
			due = n.matches(shown)
		}
		for ; greatest.Before(shown); greatest = greatest.Add(time.Minute) {
			due = due || n.hour != nil && n.matches(greatest.Add(time.Minute))
		}
		if due && t.After(from) {
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// nights are times around which something happens to clocks or calendars.
var nights = []struct{ zone, day string }{
	{"Europe/Berlin", "2025-03-30"}, {"Europe/Berlin", "2025-10-26"}, {"Europe/Berlin", "2061-10-30"}, {"Europe/Berlin", "2060-12-31"},
	{"Europe/Dublin", "2025-03-30"}, {"Europe/Dublin", "2025-10-26"}, {"America/New_York", "2025-03-09"}, {"America/New_York",
		"2025-11-02"},
	{"Australia/Lord_Howe", "2025-04-06"}, {"Australia/Lord_Howe", "2025-10-05"}, {"Australia/Lord_Howe", "2060-12-31"},
	{"Asia/Kathmandu", "1986-01-01"}, {"Asia/Kathmandu", "2025-01-01"}, {"Pacific/Apia", "2011-12-30"}, {"Pacific/Kwajalein", "1993-08-21"},
	{"America/Sao_Paulo", "2018-11-04"}, {"America/Sao_Paulo", "2018-02-18"}, {"Africa/Cairo", "2024-04-26"}, {"Africa/Casablanca",
		"2025-02-23"},
	{"Antarctica/Troll", "2025-03-30"}, {"Antarctica/Troll", "2025-10-26"}, {"Asia/Pyongyang", "2015-08-15"}, {"America/Caracas",
		"2016-05-01"},
	{"Asia/Gaza", "2011-08-01"}, {"America/Godthab", "2024-03-31"}, {"UTC", "2024-02-29"}, {"UTC", "2100-02-28"}, {"Asia/Tehran",
		"2022-03-22"},
}

func randomNaive(r *rand.Rand) *naive {
	some := func(p float64, from, to, most int) []int {
		if r.Float64() > p {
			return nil
		}
		list := make([]int, 1+r.IntN(most))
		for i := range list {
			list[i] = from + r.IntN(to-from+1)
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	n := &naive{minute: some(0.8, 0, 59, 4), hour: some(0.7, 0, 23, 6), dom: some(0.2, 1, 28, 9), month: some(0.1, 1, 12, 9),
		dow: some(0.2, 0, 7, 4)}
	if n.hour != nil && r.IntN(2) == 0 {
		n.hour = append([]int{0, 1, 2, 3}[r.IntN(4):], 23) // where clocks change
	}
	n.lastDay = n.dom == nil && r.IntN(8) == 0
	return n
}

// TestNaive compares random expressions around nights of change with a search minute by minute.
func TestNaive(t *testing.T) {
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	for i := range uint64(*runs) {
		r := rand.New(rand.NewPCG(first+i, 0))
		n, night := randomNaive(r), nights[r.IntN(len(nights))]
		s := mustParse(t, Spec{Cron: n.String(), Zone: night.zone})
		middle := at(t, night.day+"T00:00:00Z")
		from, to := middle.Add(-time.Duration(24+r.IntN(24))*time.Hour), middle.Add(time.Duration(40+r.IntN(8))*time.Hour)
		want := n.ticks(from, to, s.zone.loc)
		var got []time.Time
		for next := s.Next(from); next.Before(to) && len(got) <= len(want); next = s.Next(next) {
			got = append(got, next)
		}
		if !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Fatalf("-seed=%d -runs=1: %q in %s from %v\n got %v\nwant %v", first+i, n, night.zone, from, got, want)
		}
		for range 20 { // asked from anywhere, also within a second pass
			after := from.Add(time.Duration(r.Int64N(int64(to.Sub(from)))))
			k := slices.IndexFunc(want, func(t time.Time) bool { return t.After(after) })
			if got := s.Next(after); k >= 0 && !got.Equal(want[k]) {
				t.Fatalf("-seed=%d -runs=1: %q in %s after %v: %v, want %v", first+i, n, night.zone, after, got, want[k])
			}
		}
		compareDue(t, s, want, from, to.Add(-1), r)
	}
}

// compareDue compares the rules of catching up with a list of ticks.
func compareDue(t *testing.T, s *Schedule, want []time.Time, from, to time.Time, r *rand.Rand) {
	t.Helper()
	most := 1 + r.IntN(20)
	all := want[max(0, len(want)-most):]
	for _, ticks := range [][]time.Time{s.Due(from, to, CatchUpAll, most).Run, s.backwards(from, to, min(most, len(want)))} {
		if !slices.EqualFunc(ticks, all, time.Time.Equal) {
			t.Fatalf("all of %v to %v up to %d: %v, want %v", from, to, most, ticks, all)
		}
	}
	for _, rule := range []CatchUp{CatchUpNone, CatchUpOne, CatchUpAll} {
		if due := s.Due(from, to, rule, most); due.Missed+len(due.Run) != len(want) || !due.Next.After(to) {
			t.Fatalf("rule %d of %v to %v: %v, want %d in all", rule, from, to, due, len(want))
		}
	}
}

// FuzzParse: no text makes the parser panic or the search endless, and ticks go on in time.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"*/15 * * * *", "0 0 30 2 *", "TZ=UTC * * * * *", "@every 1ns", "@every 90s", "0 0 L-30 * MON#5",
		"59 59 23 31 12 FRI-MON", "*-5 , +1 ?/2 1/9999"} {
		f.Add(text, "Europe/Berlin", int64(1743300000))
	}
	f.Fuzz(func(t *testing.T, text, zone string, after int64) {
		s, err := Parse(Spec{Cron: text, Zone: zone})
		if err != nil {
			return
		}
		at := time.Unix(after%200_000_000_000, 0)
		for range 5 {
			next := s.Next(at)
			if next.IsZero() {
				if at.UTC().Year() < 9500 {
					t.Fatalf("%q in %q: nothing after %v", text, zone, at)
				}
				return
			}
			if !next.After(at) {
				t.Fatalf("%q in %q: %v after %v", text, zone, next, at)
			}
			if between := s.Next(next.Add(-time.Millisecond)); !between.Equal(next) {
				t.Fatalf("%q in %q: %v, but %v just before it", text, zone, next, between)
			}
			at = next
		}
	})
}

func BenchmarkNext(b *testing.B) {
	for _, text := range []string{"*/15 * * * *", "30 2 * * *", "0 0 29 2 *"} {
		b.Run("cron="+strings.ReplaceAll(text, " ", "_"), func(b *testing.B) {
			s := mustParse(b, Spec{Cron: text, Zone: "Europe/Berlin"})
			t := at(b, "2025-01-01T00:00:00Z")
			b.ReportAllocs()
			for b.Loop() {
				s.Next(t)
			}
		})
	}
}
