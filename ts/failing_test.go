package ts_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/ts"
)

// TestEachFailure: a call returns the error of any request to a shard that fails.
func TestEachFailure(t *testing.T) {
	for _, shards := range []int{1, 3} {
		r := newRig(t, shards)
		if shards > 1 {
			spread(t, r, "n")
		}
		ctx, now := t.Context(), time.UnixMilli(r.Now())
		for i := range 8 {
			p := point(string(rune('a'+i)), -int64(i)*second, 1)
			write(t, storeOf(r, "n"), p)
		}
		call := func(f func(s *ts.Store) error) func(engine.Door) error {
			return func(d engine.Door) error { return f(engine.StoreOf[ts.Store](engine.NewRouter(d), "n", 0)) }
		}
		tags := map[string]string{"host": "a"}
		r.EachFailure(map[string]func(engine.Door) error{
			"All":         call(func(s *ts.Store) error { return machinetest.LastError(s.All(ctx)) }),
			"Page":        call(func(s *ts.Store) error { _, err := s.Page(ctx); return err }),
			"Measurement": call(func(s *ts.Store) error { _, err := s.Get(ctx, "cpu"); return err }),
			"DeleteRange": call(func(s *ts.Store) error {
				_, err := s.DeleteRange(ctx, "cpu", now.Add(-time.Hour), now.Add(-59*time.Minute), nil)
				return err
			}),
			"DeleteRange of series": call(func(s *ts.Store) error {
				_, err := s.DeleteRange(ctx, "cpu", now.Add(-time.Hour), now.Add(-59*time.Minute), tags)
				return err
			}),
			"DeleteSeries": call(func(s *ts.Store) error {
				_, err := s.Series("cpu").Delete(ctx, map[string]string{"host": "none"})
				return err
			}),
			"Last":      call(func(s *ts.Store) error { return machinetest.LastError(s.Last(ctx, "cpu", "value")) }),
			"Read":      call(func(s *ts.Store) error { return machinetest.LastError(s.Read(ctx, "cpu", "value")) }),
			"Query":     call(func(s *ts.Store) error { _, err := s.Query(ctx, "cpu[0..2000000000000] | avg()"); return err }),
			"Series":    call(func(s *ts.Store) error { return machinetest.LastError(s.Series("cpu").All(ctx)) }),
			"TagValues": call(func(s *ts.Store) error { _, err := s.TagValues(ctx, "cpu"); return err }),
			"Delete": call(func(s *ts.Store) error {
				gone := ts.Point{Measurement: "gone", Fields: map[string]float64{"v": 1}, Time: now}
				if _, err := storeOf(r, "n").Write(ctx, gone, gone); err != nil {
					return err
				}
				return s.Delete(ctx, "gone")
			}),
			"Write": call(func(s *ts.Store) error {
				result, err := s.Write(ctx, point("a", 0, 1), point("b", 0, 1), point("c", 0, 1))
				if err == nil {
					err = result.Err()
				}
				return err
			}),
			"WriteLine": call(func(s *ts.Store) error {
				result, err := s.WriteLine(ctx,
					strings.NewReader(fmt.Sprintf("cpu,host=a value=1 %d\ncpu,host=b value=1 %[1]d\n", r.Now())), ts.Milliseconds)
				if err == nil {
					err = result.Err()
				}
				return err
			}),
		})
	}
}

// newFailingRig returns a rig whose measurement of two fields has been through every kind of
// maintenance step. work runs the duties of a pass.
func newFailingRig(t *testing.T, work func(r *machinetest.Rig)) *machinetest.Rig {
	t.Helper()
	r := machinetest.New(t, 1, primitives(engine.TableOf[ts.Store]().New)...) // without a cache
	s := storeOf(r, "n")
	pass := func(millis int64) {
		r.Pass(millis)
		r.Fire()
		work(r)
	}
	retention := ts.Retention{RawTTL: 48 * time.Hour, Downsample: []ts.Downsample{
		{Every: time.Minute, TTL: 72 * time.Hour}, {Every: time.Hour, TTL: 96 * time.Hour}}}
	must(0, s.SetRetention(t.Context(), "cpu", retention))
	for i := range int64(9) { // a merge of all generations
		for _, host := range []string{"a", "b", "c"} {
			p, q := point(host, -4*hour+5*minute+i*second, math.Pow(10, float64(i*30-100))), point(host, i*second, float64(i))
			p.Fields["other"], q.Fields["other"] = float64(-i), 1
			write(t, s, p, q)
		}
		if i < 8 {
			r.Advance(6 * minute)
		} else {
			pass(6 * minute)
		}
	}
	must(s.Series("cpu").Delete(t.Context(), map[string]string{"host": "b"}))
	must(s.DeleteRange(t.Context(), "cpu", at(-4*hour), at(-4*hour+3*minute), nil))
	pass(30 * minute)
	write(t, s, point("d", 0, 1))
	must(0, s.SetRetention(t.Context(), "cpu", ts.Retention{RawTTL: 3 * time.Hour, Downsample: retention.Downsample}))
	pass(3 * hour)
	must(0, s.SetRetention(t.Context(), "cpu", retention)) // the points before that are purged
	pass(20 * minute)
	write(t, s, point("e", 4*hour, 1), point("e", 5*hour, 2))
	pass(10 * minute)
	// Blocks: of several days, with series out of order, and before a deleted range.
	write(t, s, point("e", 4*hour, 3), point("d", 4*hour, 3), point("a", -3*hour, 7), point("a", -20*hour, 7))
	write(t, s, point("e", 4*hour+1, 3), point("d", 4*hour+1, 3))
	must(s.DeleteRange(t.Context(), "cpu", at(3*hour), at(4*hour), nil))
	must(0, s.SetRetention(t.Context(), "early", retention)) // a measurement without points
	return r
}

// writes returns calls that write. The namespace has no room for new series.
func writes(ctx context.Context, r *machinetest.Rig) map[string]func() (any, error) {
	must(0, storeOf(r, "n").SetSeriesLimit(ctx, 1))
	return map[string]func() (any, error){
		"Write": func() (any, error) {
			result, err := storeOf(r, "n").Write(ctx, point("e", 5*hour, 2), point("new", 5*hour, 2))
			var full *ts.LimitError
			if errors.As(err, &full) {
				err = nil
			}
			return fmt.Sprint(result), err
		},
	}
}

// age seals blocks of deleted series, and lets the retention of all points end, so that series are
// retired.
func age(t *testing.T, r *machinetest.Rig, work func(r *machinetest.Rig)) {
	t.Helper()
	s := storeOf(r, "n")
	must(0, s.SetSeriesLimit(t.Context(), 100))
	must(s.Series("cpu").Delete(t.Context(), map[string]string{"host": "d"}))
	r.Pass(6 * minute)
	r.Fire()
	work(r)
	r.Pass(60 * day)
	write(t, s, point("f", r.Now()-machinetest.Epoch, 1))
	r.Fire()
	work(r)
	if m := must(s.Get(t.Context(), "cpu")); m.Series != 1 {
		t.Errorf("%d series are left, want only the one with points", m.Series)
	}
}

// listed returns the items of a listing, or its error.
func listed[T any](seq iter.Seq2[T, error]) (items []T, err error) {
	for item, err := range seq {
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// reads returns calls that read points and lists.
func reads(ctx context.Context, r *machinetest.Rig) map[string]func() (any, error) {
	s := storeOf(r, "n")
	query := func(text string) func() (any, error) {
		return func() (any, error) {
			result, err := s.Query(ctx, text, floql.Options{Now: time.UnixMilli(r.Now())})
			if err != nil {
				return nil, err
			}
			return result.Series, nil
		}
	}
	matching := func(tag string, op floql.Op, value string) floql.Filter {
		return must(floql.NewFilter(tag, op, value))
	}
	of := ts.Tags(map[string]string{"host": "a"})
	unknown := func(filters ...floql.Filter) func() (any, error) {
		return func() (any, error) { return ts.Unknown(ctx, s, floql.Selection{Measurement: "cpu", Filters: filters}) }
	}
	return map[string]func() (any, error){
		"Read":             func() (any, error) { return listed(s.Read(ctx, "cpu", "value")) },
		"Read of a rollup": func() (any, error) { return listed(s.Read(ctx, "cpu:1h:sum", "value")) },
		"Read of series":   func() (any, error) { return listed(s.Read(ctx, "cpu", "value", of)) },
		"Read of many": func() (any, error) {
			return listed(s.Read(ctx, "cpu", "value", ts.Matching(matching("host", floql.Match, "[a-d]"))))
		},
		"Read of one": func() (any, error) {
			return listed(s.Read(ctx, "cpu", "value", of, ts.Matching(matching("host", floql.Match, "[a-d]"))))
		},
		"Last":                func() (any, error) { return listed(s.Last(ctx, "cpu", "value")) },
		"Query":               query("cpu[9h] | window(1h) | group_by(host) | avg()"),
		"Query of points":     query("cpu[40h] | window(7m) | group_by(host) | max()"),
		"Query of every one":  query("cpu[1h] | where(value > 1)"),
		"Get":                 func() (any, error) { return s.Get(ctx, "cpu") },
		"Retention":           func() (any, error) { return s.Retention(ctx, "cpu") },
		"Retention alone":     func() (any, error) { return s.Retention(ctx, "early") },
		"Series":              func() (any, error) { return listed(s.Series("cpu").All(ctx)) },
		"Series of":           func() (any, error) { return listed(s.Series("cpu").All(ctx, of)) },
		"TagValues":           func() (any, error) { return s.TagValues(ctx, "cpu") },
		"All":                 func() (any, error) { return listed(s.All(ctx)) },
		"Unknown":             unknown(matching("host", floql.Equal, "none"), matching("zone", floql.Match, "x*")),
		"Unknown measurement": func() (any, error) { return ts.Unknown(ctx, s, floql.Selection{Measurement: "gpu"}) },
	}
}

// TestFailingReads: an operation returns the error of any read that fails.
func TestFailingReads(t *testing.T) {
	r := newFailingRig(t, (*machinetest.Rig).EachReadOfDuties)
	r.EachReadOfVerify()
	r.EachRead(reads(t.Context(), r))
	r.EachRead(writes(t.Context(), r))
	age(t, r, (*machinetest.Rig).EachReadOfDuties)
}

// TestMalformedRows: an operation that reads a malformed row returns an error.
func TestMalformedRows(t *testing.T) {
	damage := func(r *machinetest.Rig) func(calls map[string]func() (any, error)) {
		return func(calls map[string]func() (any, error)) {
			for name, call := range calls {
				damaged := make(map[string]int) // by kind, measurement and tier
				r.EachDamage(engine.MachineTS, func(row machinetest.Row) [][]byte {
					k := string(row.Key[:min(11, len(row.Key))])
					if damaged[k]++; damaged[k] > 2 {
						return nil
					}
					return ts.DamagedValues(row)
				}, map[string]func() (any, error){name: call})
			}
		}
	}
	work := func(r *machinetest.Rig) { r.EachStep(damage(r)) }
	r := newFailingRig(t, work)
	damage(r)(reads(t.Context(), r))
	// Rows that a write reads before it is proposed.
	r.EachDamage(engine.MachineTS, func(row machinetest.Row) [][]byte {
		if k := row.Key[0]; k != ts.RowHash && k != ts.RowLimit {
			return nil
		}
		return ts.DamagedValues(row)
	}, writes(t.Context(), r))
	age(t, r, work)
}

// TestMalformedBodies: a command whose body does not decode is refused.
func TestMalformedBodies(t *testing.T) {
	machinetest.RefusesMalformed(t, engine.MachineTS, func() *machinetest.Rig { return newRig(t, 1) })
}
