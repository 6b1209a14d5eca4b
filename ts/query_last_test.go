package ts_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/ts"
)

// TestLast compares the newest points of series with those among the points of Read. It covers
// blocks and pages, series that ended long ago, deletions, rollups and ranges.
func TestLast(t *testing.T) {
	for _, shards := range []int{1, 3} {
		t.Run(fmt.Sprint("shards=", shards), func(t *testing.T) {
			r := newRig(t, shards)
			if shards > 1 {
				spread(t, r, "n")
			}
			s := storeOf(r, "n")
			must(0, s.SetRetention(t.Context(), "cpu", ts.Retention{Downsample: []ts.Downsample{{Every: time.Minute}}}))
			r.Deliver()
			rng := rand.New(rand.NewPCG(3, uint64(shards)))
			check := func(state, measurement string, opts ...ts.ReadOption) (n int) {
				t.Helper()
				want := make(map[string]ts.Sample)
				for p, err := range s.Read(t.Context(), measurement, "value", opts...) {
					if was, ok := want[fmt.Sprint(must(p, err).Tags)]; !ok || p.Time.After(was.Time) {
						want[fmt.Sprint(p.Tags)] = p
					}
				}
				for p, err := range s.Last(t.Context(), measurement, "value", opts...) {
					k := fmt.Sprint(must(p, err).Tags)
					if w, ok := want[k]; !ok || fmt.Sprint(w) != fmt.Sprint(p) {
						t.Errorf("%s: Last(%q) shows %v, Read %v, %t", state, measurement, p, w, ok)
					}
					delete(want, k)
					n++
				}
				if len(want) > 0 {
					t.Errorf("%s: Last(%q) lacks %v", state, measurement, want)
				}
				return n
			}
			all := func(state string) {
				t.Helper()
				if check(state, "cpu") == 0 {
					t.Errorf("%s: no series", state)
				}
				check(state, "cpu:1m:max")
				check(state, "cpu", ts.Tags(map[string]string{"host": "7"}))
				for range 4 {
					from := -6*day + rng.Int64N(6*day)
					check(state, "cpu", ts.Between(at(from), at(from+rng.Int64N(2*day))))
				}
			}
			for host := range 40 {
				stopped := rng.Int64N(5 * day)
				for i := range int64(12) {
					write(t, s, point(fmt.Sprint(host), -5*day+rng.Int64N(stopped+1), float64(i)))
				}
			}
			all("blocks")
			r.Advance(10 * minute)
			all("pages")
			for host := range 5 {
				write(t, s, point(fmt.Sprint(host), -rng.Int64N(2*day), 100))
			}
			all("both")
			if _, err := s.DeleteRange(t.Context(), "cpu", at(-2*day), time.Time{}, nil); err != nil {
				t.Fatal(err)
			}
			all("deleted")
			r.Advance(2 * day)
			r.Restart()
			all("purged")
		})
	}
}

// TestLastPages: with more series than fit in a page, each is returned once. A measurement may be
// deleted between two pages.
func TestLastPages(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	const series = ts.LastPage + 2
	var batch []ts.Point
	for i := range series {
		batch = append(batch, point(fmt.Sprint(i), int64(i), float64(i)))
	}
	write(t, s, batch...)
	seen := make(map[float64]bool)
	for p, err := range s.Last(t.Context(), "cpu", "value") {
		if must(p, err); p.Tags[0].Value != fmt.Sprint(p.Value) || p.Time.UnixMilli()-machinetest.Epoch != int64(p.Value) || seen[p.Value] {
			t.Fatalf("%v at %v of %v, told before: %t", p.Value, p.Time, p.Tags, seen[p.Value])
		}
		seen[p.Value] = true
	}
	if len(seen) != series {
		t.Errorf("%d series, want %d", len(seen), series)
	}
	told := 0
	var last error
	for _, err := range s.Last(t.Context(), "cpu", "value") {
		if last = err; told == 0 {
			must(0, s.Delete(t.Context(), "cpu"))
			write(t, s, batch[0])
		}
		told++
	}
	if !errors.Is(last, ts.ErrConflict) {
		t.Errorf("the measurement was deleted and made again meanwhile: %v after %d, want ErrConflict", last, told)
	}
}

// TestLastOfNothing: a missing measurement has no newest points, and names are checked.
func TestLastOfNothing(t *testing.T) {
	s := storeOf(newRig(t, 1), "n")
	write(t, s, point("a", 0, 1))
	for _, name := range []string{"nothing", "cpu:1m:max"} {
		for p, err := range s.Last(t.Context(), name, "value") {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	for p, err := range s.Last(t.Context(), "cpu", "nothing") {
		t.Errorf("no field: %v, %v", p, err)
	}
	for _, err := range s.Last(t.Context(), "cpu", "") {
		if !errors.Is(err, ts.ErrInvalid) {
			t.Errorf("an empty field: %v, want ErrInvalid", err)
		}
	}
}
