package ts_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/ts"
)

// TestDeleteRange: points of a range are gone at once, in blocks, pages and rollups, for the
// selected series only. They stay deleted through seals, purges and restarts; points written
// afterwards remain.
func TestDeleteRange(t *testing.T) {
	for _, shards := range []int{1, 3} {
		for _, sealed := range []bool{false, true} {
			t.Run(fmt.Sprint("shards=", shards, "/sealed=", sealed), func(t *testing.T) {
				r := newRig(t, shards)
				if shards > 1 {
					spread(t, r, "n")
				}
				s := storeOf(r, "n")
				must(0, s.SetRetention(t.Context(), "cpu", ts.Retention{Downsample: []ts.Downsample{{Every: time.Minute}}}))
				r.Deliver()
				start := minute - machinetest.Epoch%minute - day
				for i := range int64(60) { // two points per minute
					write(t, s, point("a", start+i*30*second, float64(i)), point("b", start+i*30*second, float64(i)))
				}
				if sealed {
					r.Advance(10 * minute)
				}
				from, to := start+5*minute+30*second, start+20*minute // buckets 6-19 and a half of 5
				deleted := func(host string, millis int64) bool {
					return millis >= from && millis < to && host != "b" || millis >= start+25*minute
				}
				if n, err := s.DeleteRange(t.Context(), "cpu", at(from), at(to), map[string]string{"host": "a"}); n != 1 || err != nil {
					t.Fatalf("DeleteRange = %d, %v", n, err)
				}
				if n, err := s.DeleteRange(t.Context(), "cpu", at(start+25*minute), time.Time{}, nil); n != 2 || err != nil {
					t.Fatalf("DeleteRange of all series = %d, %v", n, err)
				}
				back := point("a", start+10*minute, 1000)
				check := func(name string, rolled bool) {
					t.Helper()
					want, counts := make(map[string]float64), make(map[string]float64)
					add := func(host string, millis int64, v float64) {
						want[fmt.Sprint(host, millis)] = v
						counts[fmt.Sprint(host, millis-(millis-start)%minute)]++
					}
					for i := range int64(60) {
						for _, host := range []string{"a", "b"} {
							if at := start + i*30*second; !deleted(host, at) {
								add(host, at, float64(i))
							}
						}
					}
					if name != "at once" {
						add("a", start+10*minute, 1000)
					}
					read := func(measurement string, want map[string]float64) {
						t.Helper()
						got := 0
						for p, err := range s.Read(t.Context(), measurement, "value") {
							k := fmt.Sprint(must(p, err).Tags[0].Value, p.Time.UnixMilli()-machinetest.Epoch)
							if v, ok := want[k]; !ok || v != p.Value {
								t.Errorf("%s: %s: %s is %v, want %v, %v", name, measurement, k, p.Value, v, ok)
							}
							got++
						}
						if got != len(want) {
							t.Errorf("%s: %s has %d points, want %d", name, measurement, got, len(want))
						}
					}
					if read("cpu", want); rolled {
						read("cpu:1m:count", counts)
					}
				}
				check("at once", false)
				for range s.Read(t.Context(), "cpu:1m:count", "value", ts.Between(at(from+minute), at(to-minute)),
					ts.Tags(map[string]string{"host": "a"})) {
					t.Error("a rollup still tells of points that were deleted")
				}
				write(t, s, back)
				check("written again", false)
				r.Restart()
				check("restarted", false)
				r.Advance(10 * minute)
				check("sealed", true)
				r.Advance(hour)
				check("purged", true)
				for shard := range shards {
					if n := ts.CountErased(r, shard); n != 0 {
						t.Errorf("%d rows of deletions are left", n)
					}
				}
				counted := must(s.Get(t.Context(), "cpu"))
				if want := int64(50 + 50 - 29 + 1); counted.Points != want {
					t.Errorf("%d points are counted, want %d", counted.Points, want)
				}
				r.Verify()
			})
		}
	}
}

// TestDeleteRangeOfRollups: where points are gone, buckets wholly in the range are deleted and
// others stay. Where points exist, buckets are recomputed.
func TestDeleteRangeOfRollups(t *testing.T) {
	h := newHistory(t)
	must(0, h.s.SetRetention(t.Context(), "cpu",
		ts.Retention{RawTTL: 2 * 24 * time.Hour, Downsample: []ts.Downsample{{Every: time.Hour}, {Every: 12 * time.Hour}}}))
	var batch []ts.Point
	for at := -40 * hour; at < 0; at += 20 * minute {
		batch = append(batch, point("a", at, 1))
	}
	h.write(batch...)
	for range 6 {
		h.r.Advance(day)
	}
	if len(ts.Contents(h.r, 0, 0, 0)) != 0 {
		t.Fatal("the points are still there")
	}
	hours := func() (n int) {
		for range h.s.Read(t.Context(), "cpu:1h:sum", "value") {
			n++
		}
		return n
	}
	before := hours()
	begin := at(-30*hour + (hour-machinetest.Epoch%hour)%hour + 20*minute) // in the middle of a bucket
	if _, err := h.s.DeleteRange(t.Context(), "cpu", begin, begin.Add(4*time.Hour), nil); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"at once", "purged"} {
		if n := hours(); n != before-3 {
			t.Errorf("%s: %d buckets of an hour, want %d: 3 of %d are in the range", when, n, before-3, before)
		}
		h.r.Advance(hour)
	}
	h.r.Verify()
}

func TestDeleteRangeRefused(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	if _, err := s.DeleteRange(t.Context(), "cpu", at(0), at(1), nil); !errors.Is(err, ts.ErrNotFound) {
		t.Errorf("DeleteRange of nothing = %v, want ErrNotFound", err)
	}
	write(t, s, point("a", 0, 1))
	for _, bounds := range [][2]time.Time{{}, {at(1), at(1)}, {at(2), at(1)}} {
		if _, err := s.DeleteRange(t.Context(), "cpu", bounds[0], bounds[1], nil); !errors.Is(err, ts.ErrInvalid) {
			t.Errorf("DeleteRange%v = %v, want ErrInvalid", bounds, err)
		}
	}
	for range 256 {
		must(s.DeleteRange(t.Context(), "cpu", at(-day), at(-hour), nil))
	}
	if _, err := s.DeleteRange(t.Context(), "cpu", at(-day), at(-hour), nil); !errors.Is(err, ts.ErrBusy) {
		t.Errorf("DeleteRange number 257 = %v, want ErrBusy", err)
	}
	r.Advance(10 * minute)
	must(s.DeleteRange(t.Context(), "cpu", at(-day), at(-hour), nil))
	check(t, r, "cpu host=a; value 0 1")
	r.Verify()
}

// TestExtentAfterDeletions: a measurement's oldest and newest time and its number of points match
// the readable points. That holds after deletions of ranges, by retention, and of everything.
func TestExtentAfterDeletions(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	day0 := (machinetest.Epoch/day+1)*day - machinetest.Epoch - 20*day
	for i := range int64(10) {
		write(t, s, point("a", day0+i*day, 1), point("a", day0+i*day+hour, 2))
	}
	want := func(state string, points, oldest, newest, slack int64) {
		t.Helper()
		m := must(s.Get(t.Context(), "cpu"))
		from, to := m.Oldest.UnixMilli()-machinetest.Epoch, m.Newest.UnixMilli()-machinetest.Epoch
		if m.Points != points || from > oldest || from < oldest-slack || to < newest || to > newest+slack {
			t.Errorf("%s: %d points from %v to %v, want %d from %v to %v", state, m.Points, m.Oldest, m.Newest, points, at(oldest),
				at(newest))
		}
	}
	want("written", 20, day0, day0+9*day+hour, 0)
	r.Advance(10 * minute)
	want("sealed", 20, day0, day0+9*day+hour, 0)
	must(s.DeleteRange(t.Context(), "cpu", time.Time{}, at(day0+2*day), nil))
	must(s.DeleteRange(t.Context(), "cpu", at(day0+8*day), time.Time{}, nil))
	must(s.DeleteRange(t.Context(), "cpu", at(day0+7*day), at(day0+8*day), nil))
	want("deleted", 20, day0+2*day, day0+6*day+hour, day)
	r.Advance(hour)
	want("purged", 10, day0+2*day, day0+6*day+hour, day)
	must(0, s.SetRetention(t.Context(), "cpu",
		ts.Retention{RawTTL: time.Duration(r.Now()-machinetest.Epoch-day0-3*day) * time.Millisecond}))
	want("expired", 8, day0+3*day, day0+6*day+hour, day)
	r.Advance(hour)
	want("retired", 8, day0+3*day+hour, day0+6*day+hour, day)
	must(s.DeleteRange(t.Context(), "cpu", time.Time{}, at(day0+30*day), nil))
	for _, state := range []string{"emptied", "empty"} {
		if m, err := s.Get(t.Context(), "cpu"); err == nil && (!m.Oldest.IsZero() || !m.Newest.IsZero()) {
			t.Errorf("%s: from %v to %v", state, m.Oldest, m.Newest)
		}
		r.Advance(hour)
	}
	write(t, s, point("a", day0+5*day, 1))
	r.Advance(10 * minute)
	want("written again", 1, day0+5*day, day0+5*day, day)
}
