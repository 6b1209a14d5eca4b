package ts_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/ts"
)

// apart makes writes of points that are a day apart, so that each write covers many partitions. It
// returns the written points as a source of their own.
func apart(t testing.TB, s *ts.Store, writes, days int) *floql.Slice {
	t.Helper()
	var all floql.Slice
	for w := range writes {
		var batch []ts.Point
		for d := range int64(days) {
			for h := range 3 {
				p := point(fmt.Sprint("h", (h+w)%4), -d*day+int64(w)*second, float64(w*days)+float64(d))
				p.Fields["other"] = float64(h)
				batch = append(batch, p)
				for field, v := range p.Fields {
					if err := all.Add("cpu", p.Tags, field, p.Time, v); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		write(t, s, batch...)
	}
	return &all
}

// TestUnsealedPartitions: queries over any part of blocks that cover many partitions return the
// written points.
func TestUnsealedPartitions(t *testing.T) {
	s := storeOf(newRig(t, 1), "n")
	all := apart(t, s, 20, 40)
	for _, r := range [][2]int64{{-40 * day, day}, {-7*day - 3, -7*day + 9*second}, {-39 * day, -38 * day}, {0, 1},
		{-3 * day, -3*day + 1}} {
		for _, stages := range []string{"", " | window(1d) | group_by(host) | sum()", " | field(other) | window(7d) | last()",
			" | count()"} {
			query := fmt.Sprintf("cpu[%d..%d]%s", machinetest.Epoch+r[0], machinetest.Epoch+r[1], stages)
			got, err := s.Query(t.Context(), query)
			want, wantErr := floql.Eval(t.Context(), all, query, floql.Options{})
			if err != nil || wantErr != nil {
				t.Fatalf("%s: %v, %v", query, err, wantErr)
			}
			if g, w := shown(got), shown(want); g != w {
				t.Errorf("%s\ngot\n%s\nwant\n%s", query, g, w)
			}
		}
	}
}

// TestReadUnsealedPages: blocks over many partitions are read in pages that each hold what they
// need. No point is missing or repeated, and reading a series does not rewrite the other series.
func TestReadUnsealedPages(t *testing.T) {
	s := storeOf(newRig(t, 1), "n")
	const points, days = 150_000, 1000
	for n := 0; n < points; {
		var batch []ts.Point
		for range 5000 {
			batch = append(batch, point(fmt.Sprint("h", n%10), -int64(n/10%days)*day+int64(n/10/days)*second, float64(n)))
			n++
		}
		write(t, s, batch...)
	}
	read := func(opts ...ts.ReadOption) (n int, bytes uint64) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		seen := make([]bool, points)
		for p, err := range s.Read(t.Context(), "cpu", "value", opts...) {
			if must(p, err); seen[int(p.Value)] {
				t.Fatalf("%v comes twice", p)
			}
			seen[int(p.Value)] = true
			n++
		}
		runtime.ReadMemStats(&after)
		return n, after.TotalAlloc - before.TotalAlloc
	}
	all, allBytes := read()
	one, oneBytes := read(ts.Tags(map[string]string{"host": "h3"}))
	if all != points || one != points/10 || oneBytes > allBytes/3 {
		t.Errorf("%d points with %d KiB, of one series %d with %d KiB", all, allBytes>>10, one, oneBytes>>10)
	}
	if n, _ := read(ts.Between(at(-500*day), time.Time{})); n != points/2+5*int(points/days)/5 {
		t.Errorf("%d points of the later half", n)
	}
}

// BenchmarkQueryUnsealed aggregates blocks that each cover many partitions.
func BenchmarkQueryUnsealed(b *testing.B) {
	s := storeOf(newRig(b, 1), "n")
	apart(b, s, 50, 360)
	query := fmt.Sprintf("cpu[%d..%d] | window(1d) | sum()", machinetest.Epoch-360*day, machinetest.Epoch+day)
	for b.Loop() {
		if _, err := s.Query(b.Context(), query); err != nil {
			b.Fatal(err)
		}
	}
}

// TestSeriesWithoutPoints: series without points in the range do not count towards the limit of
// series. The query's memory limit bounds how many are examined.
func TestSeriesWithoutPoints(t *testing.T) {
	s := storeOf(newRig(t, 1), "n")
	var batch []ts.Point
	for i := range int64(50) {
		batch = append(batch, point(fmt.Sprint("old", i), -10*day, 1))
	}
	write(t, s, append(batch, point("a", 0, 1), point("b", 0, 2))...)
	for _, query := range []string{"cpu[%d..%d] | sum()", "cpu{host!=x}[%d..%d]", "cpu{host=~*}[%d..%d] | group_by(host) | max()"} {
		query = fmt.Sprintf(query, machinetest.Epoch, machinetest.Epoch+1)
		for series, limit := range map[int64]floql.Limit{2: "", 1: floql.LimitSeries} {
			_, err := s.Query(t.Context(), query, floql.Options{Limits: floql.Limits{Series: series}})
			l, _ := errors.AsType[*floql.LimitError](err)
			if limit == "" && err != nil || limit != "" && (l == nil || l.Limit != limit) {
				t.Errorf("%s with a limit of %d series: %v, want %q", query, series, err, limit)
			}
		}
		_, err := s.Query(t.Context(), query, floql.Options{Limits: floql.Limits{Bytes: 200}})
		if l, ok := errors.AsType[*floql.LimitError](err); !ok || l.Limit != "bytes" {
			t.Errorf("%s with 200 bytes: %v, want the limit of bytes", query, err)
		}
	}
}

// TestRollupsNotComputed: buckets older than the points' retention whose rollups are not computed
// yet are read from the points that still exist.
func TestRollupsNotComputed(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	retention := ts.Retention{RawTTL: 2 * time.Minute, Downsample: []ts.Downsample{{Every: time.Minute}, {Every: 5 * time.Minute}}}
	if err := s.SetRetention(t.Context(), "cpu", retention); err != nil {
		t.Fatal(err)
	}
	var all floql.Slice
	start := r.Now() - r.Now()%hour + hour
	r.Advance(start - r.Now())
	for i := range int64(90) {
		for h := range int64(2) {
			p := point(fmt.Sprint("h", h), 0, float64(i*7%31))
			p.Time = time.UnixMilli(r.Now() + h)
			write(t, s, p)
			if err := all.Add("cpu", p.Tags, "value", p.Time, p.Fields["value"]); err != nil {
				t.Fatal(err)
			}
		}
		r.Advance(20 * second)
		for _, stages := range []string{"window(1m) | sum()", "window(5m) | group_by(host) | last()", "window(10m) | count()"} {
			query := fmt.Sprintf("cpu[%d..%d] | %s", start, start+hour, stages)
			got, err := s.Query(t.Context(), query)
			if err != nil {
				t.Fatalf("after %d points: %s: %v", i, query, err)
			}
			want, err := floql.Eval(t.Context(), &all, query, floql.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if g, w := shown(got), shown(want); g != w {
				t.Fatalf("after %d points: %s\ngot\n%s\nwant\n%s", i, query, g, w)
			}
		}
	}
}
