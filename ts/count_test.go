package ts_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/ts"
)

// counted fails unless the measurement counts the given number of points.
func counted(t *testing.T, r *machinetest.Rig, s *ts.Store, want int64) {
	t.Helper()
	if m, err := s.Get(t.Context(), "cpu"); err != nil || m.Points != want {
		t.Errorf("Measurement = %d points, %v, want %d", m.Points, err, want)
	}
	r.Verify()
}

// TestCountOfSparseFields: a point counts once, whatever its fields and their number.
func TestCountOfSparseFields(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	sparse := func(from, to int) (batch []ts.Point) {
		for i := from; i < to; i++ {
			p := point("a", int64(i)*second, 1)
			p.Fields = map[string]float64{fmt.Sprintf("f%d", i%7): 1}
			if i%5 == 0 {
				p.Fields["all"] = 2
			}
			batch = append(batch, p)
		}
		return batch
	}
	write(t, s, sparse(0, 100)...)
	write(t, s, sparse(90, 110)...)
	counted(t, r, s, 120) // ten of them were written twice
	r.Advance(5 * minute)
	counted(t, r, s, 110)
	write(t, s, sparse(100, 130)...)
	r.Advance(5 * minute)
	counted(t, r, s, 140)
	r.Advance(10 * minute) // no new points: the pages are counted but not merged yet
	counted(t, r, s, 130)
	r.Advance(2 * day)
	rows(t, r, ts.RowChunk, 8)
	counted(t, r, s, 130)
}

// TestCountOfDeletedSeries: deleted points leave the count as they leave the disk, in measurements
// with one field and with several.
func TestCountOfDeletedSeries(t *testing.T) {
	for fields := range 3 {
		r := newRig(t, 1)
		s := storeOf(r, "n")
		for _, host := range []string{"a", "b"} {
			p := point(host, 0, 1)
			for f := range fields {
				p.Fields[fmt.Sprint("f", f)] = 1
			}
			q := p
			q.Time = at(minute)
			write(t, s, p, q)
		}
		r.Advance(5 * minute)
		counted(t, r, s, 4)
		must(s.Series("cpu").Delete(t.Context(), map[string]string{"host": "a"}))
		r.Advance(minute)
		counted(t, r, s, 2)
	}
}

// TestLongerRetention: points that were too old when a longer retention was set do not come back.
// They may be in blocks, in pages, or in pages merged with later ones. Points written afterwards
// stay.
func TestLongerRetention(t *testing.T) {
	for name, steps := range map[string][4]int64{
		"in a block":                     {0, 0, 0, 0},
		"in a block that is sealed":      {0, 0, 5 * minute, 0},
		"in a block, sealed with others": {0, 0, 0, 5 * minute},
		"in a page":                      {5 * minute, 0, 0, 0},
		"in a page that is merged":       {5 * minute, 0, 5 * minute, 5 * day},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			s := storeOf(r, "n")
			set := func(ttl time.Duration) {
				t.Helper()
				if err := s.SetRetention(t.Context(), "cpu", ts.Retention{RawTTL: ttl}); err != nil {
					t.Fatal(err)
				}
			}
			set(24 * time.Hour)
			write(t, s, point("a", -23*hour, 1), point("a", 0, 2))
			advance := func(millis int64) {
				if millis > 0 {
					r.Advance(millis)
				}
			}
			advance(steps[0])
			r.Pass(2 * hour)
			set(0)
			read := func(want ...string) {
				t.Helper()
				got := []string{}
				for sample := range s.Read(t.Context(), "cpu", "value") {
					got = append(got, fmt.Sprint((sample.Time.UnixMilli()-machinetest.Epoch)/hour, "=", sample.Value))
				}
				slices.Sort(got)
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("Read gives %v, want %v", got, want)
				}
			}
			read("0=2")
			advance(steps[1])
			write(t, s, point("a", -24*hour, 3), point("b", -23*hour, 4))
			read("-23=4", "-24=3", "0=2")
			advance(steps[2])
			read("-23=4", "-24=3", "0=2")
			write(t, s, point("b", -22*hour, 5))
			advance(steps[3])
			read("-22=5", "-23=4", "-24=3", "0=2")
			r.Restart()
			r.Advance(5 * day)
			r.Advance(hour)
			read("-22=5", "-23=4", "-24=3", "0=2")
			counted(t, r, s, 4)
		})
	}
}

// TestLongerRetentionAgain: the points that each of many retention changes left too old are
// distinguished, up to a bound.
func TestLongerRetentionAgain(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	set := func(ttl time.Duration) error {
		return s.SetRetention(t.Context(), "cpu", ts.Retention{RawTTL: ttl})
	}
	must(0, set(time.Hour))
	write(t, s, point("a", 0, 1), point("b", -30*minute, 1))
	r.Pass(40 * minute)
	must(0, set(2*time.Hour)) // b is gone
	write(t, s, point("b", -31*minute, 2), point("b", -30*minute, 3))
	r.Pass(45 * minute)
	must(0, set(3*time.Hour)) // those of b remain: they are 116 and 115 minutes old
	check := func() {
		t.Helper()
		if got := collect(s.Read(t.Context(), "cpu", "value")); len(got) != 3 {
			t.Errorf("there is %v, want a point of a and two of b", got)
		}
	}
	check()
	r.Advance(5 * minute)
	check()
	r.Pass(2 * hour)
	must(0, set(0)) // now they are gone, and a is not
	write(t, s, point("c", -10*hour, 1))
	r.Advance(day)
	r.Advance(hour)
	if got := collect(s.Read(t.Context(), "cpu", "value")); len(got) != 1 {
		t.Errorf("there is %v, want the point of c", got)
	}
	counted(t, r, s, 1)
	must(0, set(time.Hour))
	for ttl := time.Hour; ttl < 40*time.Hour; ttl += time.Hour {
		write(t, s, point("d", r.Now()-machinetest.Epoch-ttl.Milliseconds()+1, 1))
		r.Pass(1000)
		if err := set(ttl + time.Hour); errors.Is(err, ts.ErrBusy) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Error("a retention can be made longer for ever, with nothing removed")
}
