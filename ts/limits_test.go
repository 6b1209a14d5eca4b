package ts_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/ts"
)

// limit is a bounded number that a call accepts.
type limit struct {
	what        string
	least, most int64
	says        string // part of the error: the limit in the reader's terms
	call        func(n int64) error
	large       bool // the number is a count, so MaxInt64 is not tried
}

// TestLimits tries each documented limit at its last value, beside it, and at both ends of its
// type.
func TestLimits(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	must(0, s.SetSeriesLimit(t.Context(), 1<<31))
	write(t, s, point("a", 0, 1))
	text := func(n int64) string { return strings.Repeat("x", int(n)) }
	tags := func(n int64) map[string]string {
		all := make(map[string]string)
		for i := range n {
			all[fmt.Sprint("t", i)] = "x"
		}
		return all
	}
	put := func(p ts.Point) error {
		result, err := s.Write(t.Context(), p)
		if (result.Written == 1) != (err == nil) {
			t.Errorf("Write = %+v, %v", result, err)
		}
		if _, txn := r.Txn("n").Do(ts.WriteOp(p)).Commit(t.Context()); (txn == nil) != (err == nil) {
			t.Errorf("Write: %v, in a transaction: %v", err, txn)
		}
		return err
	}
	with := func(change func(p *ts.Point)) error {
		p := point("a", 0, 1)
		change(&p)
		return put(p)
	}
	retention := func(r ts.Retention) error {
		err := s.SetRetention(t.Context(), "kept", r)
		if again := s.SetRetention(t.Context(), "kept", ts.Retention{}); again != nil {
			t.Error(again)
		}
		return err
	}
	downsample := func(d ts.Downsample) error { return retention(ts.Retention{Downsample: []ts.Downsample{d}}) }
	read := func(opts ...ts.ReadOption) error {
		var all error
		for _, err := range s.Read(t.Context(), "cpu", "value", opts...) {
			all = errors.Join(all, err)
		}
		for _, err := range s.Last(t.Context(), "cpu", "value", opts...) {
			all = errors.Join(all, err)
		}
		return all
	}
	list := func(opts ...ts.ListOption) error { _, err := s.Page(t.Context(), opts...); return err }
	series := func(opts ...ts.SeriesOption) error { _, err := s.Series("cpu").Page(t.Context(), opts...); return err }
	filters := func(n int64) []floql.Filter {
		all := make([]floql.Filter, n)
		for i := range all {
			all[i].Tag = "host"
		}
		return all
	}
	limits := []limit{
		{"bytes of a measurement's name", 1, 255, "255", func(n int64) error { return with(func(p *ts.Point) { p.Measurement = text(n) }) },
			true},
		{"bytes of a field's name", 1, 255, "255",
			func(n int64) error { return with(func(p *ts.Point) { p.Fields = map[string]float64{text(n): 1} }) }, true},
		{"fields of a point", 1, ts.MaxFields, "1024", func(n int64) error {
			return with(func(p *ts.Point) {
				p.Measurement, p.Fields = fmt.Sprint("wide", n), make(map[string]float64)
				for i := range n {
					p.Fields[fmt.Sprint(i)] = 1
				}
			})
		}, true},
		{"tags of a series", 0, ts.MaxTags, "64", func(n int64) error { return with(func(p *ts.Point) { p.Tags = tags(n) }) }, true},
		{"bytes of a tag's name", 1, ts.MaxTagBytes, "255",
			func(n int64) error { return with(func(p *ts.Point) { p.Tags = map[string]string{text(n): "x"} }) }, true},
		{"bytes of a tag's value", 1, ts.MaxTagValueBytes, "1024",
			func(n int64) error { return with(func(p *ts.Point) { p.Tags = map[string]string{"x": text(n)} }) }, true},
		{"time of a point, ms", -(1 << 48), r.Now() + day, "",
			func(n int64) error { return with(func(p *ts.Point) { p.Time = time.UnixMilli(n) }) }, false},
		{"rollups", 0, ts.MaxTiers, "8", func(n int64) error {
			var r ts.Retention
			for i := range n {
				r.Downsample = append(r.Downsample, ts.Downsample{Every: time.Duration(i+1) * time.Minute})
			}
			return retention(r)
		}, true},
		{"ns of a bucket, in seconds", 1, 366 * 24 * 60 * 60, "1s-8784h0m0s", func(n int64) error {
			return downsample(ts.Downsample{Every: time.Duration(max(min(n, math.MaxInt64/int64(time.Second)),
				math.MinInt64/int64(time.Second))) * time.Second})
		}, false},
		{"ms of RawTTL", 1000, math.MaxInt64 / 1_000_000, "1s", func(n int64) error {
			if n > math.MaxInt64/1_000_000 || n < 0 {
				return fmt.Errorf("%w: no time.Duration, less than 1s", ts.ErrInvalid)
			}
			return retention(ts.Retention{RawTTL: time.Duration(n) * time.Millisecond})
		}, false},
		{"ns of a rollup's TTL", int64(time.Minute), math.MaxInt64, "less than a bucket", func(n int64) error {
			return downsample(ts.Downsample{Every: time.Minute, TTL: time.Duration(n)})
		}, false},
		{"series of a namespace", 1, 1 << 31, "2147483648", func(n int64) error {
			err := s.SetSeriesLimit(t.Context(), n)
			if again := s.SetSeriesLimit(t.Context(), 1<<31); again != nil {
				t.Error(again)
			}
			return err
		}, false},
		{"measurements of a page", 1, 1000, "1000", func(n int64) error { return list(ts.Limit(int(n))) }, false},
		{"series of a page", 1, 1000, "1000", func(n int64) error { return series(ts.Limit(int(n))) }, false},
		{"bytes of a prefix", 0, 255, "255", func(n int64) error { return list(ts.Prefix(text(n))) }, true},
		{"tags of a listing", 0, ts.MaxTags, "64", func(n int64) error { return series(ts.Tags(tags(n))) }, true},
		{"tags of a read", 0, ts.MaxTags, "64", func(n int64) error { return read(ts.Tags(tags(n))) }, true},
		{"filters of a listing", 0, 100, "100", func(n int64) error { return series(ts.Matching(filters(n)...)) }, true},
		{"filters of a read", 0, 100, "100", func(n int64) error { return read(ts.Matching(filters(n)...)) }, true},
		{"filters of a deletion", 1, 100, "100", func(n int64) error {
			_, err := s.Series("cpu").Delete(t.Context(), nil, filters(n)...)
			return err
		}, true},
		{"tags of a deletion", 0, ts.MaxTags, "64", func(n int64) error {
			_, err := s.DeleteRange(t.Context(), "cpu", at(-day), at(-hour), tags(n))
			return err
		}, true},
		{"series of a transaction", 1, 1000, "1000 series", func(n int64) error {
			var all []ts.Point
			for i := range n {
				p := point(fmt.Sprint("s", i), 0, 1)
				p.Measurement = fmt.Sprint("m", n) // all are new
				all = append(all, p)
			}
			_, err := r.Txn("n").Do(ts.WriteOp(all...)).Commit(t.Context())
			return err
		}, true},
	}
	var bounds []machinetest.Bound
	for _, l := range limits {
		if l.what != "time of a point, ms" { // depends on the retention and the current time
			bounds = append(bounds, machinetest.Bound{What: l.what, Least: l.least, Most: l.most})
		}
		tried := map[int64]bool{l.least: true, l.least + 1: true, l.most - 1: true, l.most: true}
		if l.least > 0 || !l.large {
			tried[l.least-1] = false
		}
		if l.most < math.MaxInt64 {
			tried[l.most+1] = false
		}
		if !l.large {
			tried[math.MinInt64] = false
			tried[math.MaxInt64] = l.most == math.MaxInt64
		}
		for n, taken := range tried {
			if l.what == "ms of RawTTL" && n == 0 { // forever
				continue
			}
			switch err := l.call(n); {
			case taken && err != nil:
				t.Errorf("%s: %d: %.300v", l.what, n, err)
			case !taken && !errors.Is(err, ts.ErrInvalid):
				t.Errorf("%s: %d: %.300v, want ErrInvalid", l.what, n, err)
			case !taken && (n > l.most && !strings.Contains(err.Error(), l.says) || len(err.Error()) > 1000):
				t.Errorf("%s: %d: %.300v: %d bytes, which do not name %q", l.what, n, err, len(err.Error()), l.says)
			}
		}
	}
	machinetest.DocumentLimits(t, "package ts", bounds)
}

// TestLimitsOfState: limits on stored data.
func TestLimitsOfState(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	retention := func(hours int) error {
		return s.SetRetention(t.Context(), "cpu",
			ts.Retention{RawTTL: time.Duration(hours) * time.Hour, Downsample: []ts.Downsample{{Every: time.Hour}}})
	}
	must(0, retention(48))
	write(t, s, point("a", -40*hour, 1), point("a", 0, 1))
	must(0, retention(1))
	fill := func(what string, most int, do func(i int) error) {
		t.Helper()
		for i := range most + 2 {
			if err := do(i); i < most && err != nil || i >= most && !errors.Is(err, ts.ErrBusy) {
				t.Errorf("%s: %d of %d: %v", what, i+1, most, err)
			}
		}
	}
	fill("longer retentions", 16, func(i int) error { return retention(2 + i) })
	fill("deletions", 256, func(i int) error {
		_, err := s.DeleteRange(t.Context(), "cpu", at(int64(i)*second-hour), at(int64(i)*second-hour+1), nil)
		return err
	})
	r.Advance(2 * hour)
	if _, err := s.DeleteRange(t.Context(), "cpu", at(0), at(1), nil); err != nil {
		t.Errorf("after the purge: %v", err)
	}
	if err := retention(100); err != nil {
		t.Errorf("after the purge: %v", err)
	}

	must(0, s.SetSeriesLimit(t.Context(), 4)) // one exists already
	fill("series", 3, func(i int) error {
		p := point(fmt.Sprint(i), 3*hour, 1)
		p.Time = time.UnixMilli(r.Now())
		_, err := s.Write(t.Context(), p)
		return err
	})
}

// TestLimitsOfAnswers: answers are truncated at a limit, and report it.
func TestLimitsOfAnswers(t *testing.T) {
	for d := -1; d <= 1; d++ {
		s := storeOf(newRig(t, 1), "n")
		var bad, good []ts.Point
		for range ts.MaxErrors + d {
			bad = append(bad, ts.Point{Measurement: "cpu"})
		}
		for i := range ts.MaxTagValues + d {
			good = append(good, point(fmt.Sprintf("%04d", i), 0, 1))
		}
		result, err := s.Write(t.Context(), append(bad, good...)...)
		if err == nil || result.Refused != len(bad) || len(result.Errors) != min(len(bad), ts.MaxErrors) || result.Written != len(good) {
			t.Errorf("%d refused: %d errors, %d written, %v", result.Refused, len(result.Errors), result.Written, err)
		}
		tags, err := s.TagValues(t.Context(), "cpu")
		if err != nil || len(tags) != 1 || len(tags[0].Values) != min(len(good), ts.MaxTagValues) || tags[0].Truncated != (d > 0) {
			t.Errorf("%d values: %d, truncated %t, %v", len(good), len(tags[0].Values), tags[0].Truncated, err)
		}
		// Limits of a query: series, points, and result points.
		for _, l := range []struct {
			what   floql.Limit
			limits floql.Limits
			query  string
		}{
			{"series", floql.Limits{Series: 1000}, "cpu[%d..%d] | sum()"},
			{"points", floql.Limits{Points: 1000}, "cpu[%d..%d] | sum()"},
			{"points", floql.Limits{Points: 1000}, "cpu[%d..%d] | where(value > 0)"},
			{"result points", floql.Limits{ResultPoints: 1000}, "cpu[%d..%d] | group_by(host) | sum()"},
			{"result points", floql.Limits{ResultPoints: 1000}, "cpu[%d..%d]"},
			{"", floql.Limits{Series: -1, Points: -1, ResultPoints: -1, Bytes: -1, Time: -1}, "cpu[%d..%d]"},
			{"", floql.Limits{Series: math.MaxInt64, Points: math.MaxInt64, ResultPoints: math.MaxInt64, Bytes: math.MaxInt64,
				Time: math.MaxInt64}, "cpu[%d..%d] | median()"},
			{"", floql.Limits{Series: math.MinInt64, Points: math.MinInt64, ResultPoints: math.MinInt64, Bytes: math.MinInt64,
				Time: math.MinInt64}, "cpu[%d..%d] | max()"},
		} {
			_, err := s.Query(t.Context(), fmt.Sprintf(l.query, machinetest.Epoch, machinetest.Epoch+1), floql.Options{Limits: l.limits})
			exceeded, _ := errors.AsType[*floql.LimitError](err)
			if want := d > 0 && l.what != ""; want != (exceeded != nil) || !want && err != nil || want && exceeded.Limit != l.what {
				t.Errorf("%d series, %s with a limit of 1000 %s: %v", len(good), l.query, l.what, err)
			}
		}
	}
}
