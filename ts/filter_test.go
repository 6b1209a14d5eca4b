package ts_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/ts"
)

// TestFilters: listings, reads and deletions accept the filters of queries, and select the same
// series.
func TestFilters(t *testing.T) {
	_, s := newSpread(t, 3)
	var batch []ts.Point
	for i := range 30 {
		p := point(fmt.Sprintf("web-%02d", i), 0, float64(i))
		if p.Tags["zone"] = fmt.Sprint("z", i%3); i%10 == 0 {
			delete(p.Tags, "zone")
		}
		batch = append(batch, p)
	}
	write(t, s, batch...)
	for text, want := range map[string]int{
		``: 30, `zone=z1`: 9, `zone!=z1`: 21, `zone=""`: 3, `host=~web-1*`: 10, `host=~web-1*, zone!~"z[01]"`: 4, `host=web-99`: 0,
		`host=~"web-{01,02}"`: 2,
	} {
		filters, err := floql.ParseFilters(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		listed := collect(s.Series("cpu").All(t.Context(), ts.Matching(filters...), ts.Limit(4)))
		read := collect(s.Read(t.Context(), "cpu", "value", ts.Matching(filters...)))
		if len(listed) != want || len(read) != want {
			t.Errorf("%s: %d series are listed, %d read, want %d", text, len(listed), len(read), want)
		}
	}
	one := collect(s.Series("cpu").All(t.Context(), ts.Tags(map[string]string{"zone": "z1"}),
		ts.Matching(must(floql.ParseFilters("host=~*1"))...)))
	if len(one) != 2 { // with more hosts, 1 and 31 would match; 11 and 21 are in other zones
		hosts := []string{}
		for _, m := range one {
			hosts = append(hosts, m.Tags["host"])
		}
		slices.Sort(hosts)
		if fmt.Sprint(hosts) != "[web-01]" {
			t.Errorf("of zone z1 there is %v", hosts)
		}
	}
	for _, del := range []struct {
		tags    map[string]string
		filters string
		want    int64
	}{
		{nil, "host=~web-1*, zone=~*", 10}, {map[string]string{"zone": "z2"}, "host!=web-02", 5}, {nil, `zone=""`, 2}, {nil, `zone=""`, 0},
	} {
		n, err := s.Series("cpu").Delete(t.Context(), del.tags, must(floql.ParseFilters(del.filters))...)
		if n != del.want || err != nil {
			t.Errorf("DeleteSeries(%v, %s) = %d, %v, want %d", del.tags, del.filters, n, err, del.want)
		}
	}
	if m := must(s.Get(t.Context(), "cpu")); m.Series != 13 {
		t.Errorf("%d series are left, want 13", m.Series)
	}
	if _, err := s.Series("cpu").Delete(t.Context(), nil); !errors.Is(err, ts.ErrInvalid) {
		t.Errorf("DeleteSeries without filters = %v", err)
	}
	if _, err := s.Series("cpu").Delete(t.Context(), nil, slices.Repeat(must(floql.ParseFilters("a=b")), 101)...); !errors.Is(err,
		ts.ErrInvalid) {
		t.Errorf("DeleteSeries with 101 filters = %v", err)
	}
	for _, err := range s.Read(t.Context(), "cpu", "value", ts.Matching(floql.Filter{Value: strings.Repeat("x", 5)})) {
		if !errors.Is(err, ts.ErrInvalid) {
			t.Errorf("Read with a filter without a tag = %v", err)
		}
	}
}

// TestDeletedBetweenPages: a listing does not continue with the series of a measurement that was
// created again since.
func TestDeletedBetweenPages(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	several := []ts.Point{point("a", 0, 1), point("b", 0, 1), point("c", 0, 1)}
	write(t, s, several...)
	list := s.Series("cpu")
	first := must(list.Page(t.Context(), ts.Limit(1)))
	if second, err := list.Page(t.Context(), ts.Limit(1), ts.Cursor(first.Cursor)); err != nil || second.Items[0].Tags["host"] != "b" {
		t.Errorf("the second page = %+v, %v", second, err)
	}
	must(0, s.Delete(t.Context(), "cpu"))
	for range 2 {
		if page, err := list.Page(t.Context(), ts.Limit(1), ts.Cursor(first.Cursor)); !errors.Is(err, ts.ErrConflict) {
			t.Errorf("a page of a measurement that was deleted = %+v, %v", page, err)
		}
		write(t, s, several...)
	}
	for _, cursor := range []string{"0", "0-1", "0-1-", "0-01-0", "1-0-0", "0-0-0-0", "x-0-0", "0-4294967296-0",
		"0-0-18446744073709551616"} {
		if _, err := list.Page(t.Context(), ts.Cursor(cursor)); !errors.Is(err, ts.ErrInvalid) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}

// TestLateAnnouncement: an announcement that reaches a measurement's home after its deletion has no
// effect.
func TestLateAnnouncement(t *testing.T) {
	r, s := newSpread(t, 3)
	count := func() int64 {
		t.Helper()
		return must(engine.NewNamespaces(r.Router()).Get(t.Context(), "n")).Counts.Measurements
	}
	away := point("a", 0, 1) // a series outside the home shard
	for i := 0; engine.NameShard("n", "cpu,host="+away.Tags["host"], 3) == engine.NameShard("n", "cpu", 3); i++ {
		away = point(fmt.Sprint("h", i), 0, 1)
	}
	r.Hold(true)
	write(t, s, away)
	must(0, s.Delete(t.Context(), "cpu"))
	r.Hold(false)
	r.Deliver()
	if _, err := s.Get(t.Context(), "cpu"); !errors.Is(err, ts.ErrNotFound) || count() != 0 {
		t.Errorf("Measurement = %v, %d are counted: the announcement has left something", err, count())
	}
	r.Verify()

	// A measurement created again since is not removed.
	write(t, s, away)
	r.Hold(true)
	must(0, s.Delete(t.Context(), "cpu"))
	write(t, s, away)
	r.Hold(false)
	r.Deliver()
	if m, err := s.Get(t.Context(), "cpu"); err != nil || m.Series != 1 || count() != 1 {
		t.Errorf("Measurement = %+v, %v, %d are counted", m, err, count())
	}
	r.Verify()
}
