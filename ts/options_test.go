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

// TestOptionsOutOfLimits: options that a node of another process would fail to decode are refused
// by the Store, with an error that names them.
func TestOptionsOutOfLimits(t *testing.T) {
	s := storeOf(newRig(t, 1), "n")
	write(t, s, point("a", 0, 1))
	tags := make(map[string]string)
	for i := range 1001 {
		tags[fmt.Sprint(i)] = "x"
	}
	list := func(opts ...ts.SeriesOption) error {
		_, err := s.Series("cpu").Page(t.Context(), opts...)
		return err
	}
	read := func(opts ...ts.ReadOption) error {
		for _, err := range s.Read(t.Context(), "cpu", "value", opts...) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	unknown := floql.Filter{Tag: "host", Op: 9, Value: "a"}
	for want, errs := range map[string][]error{
		"1001 tags exceed 64": {list(ts.Tags(tags)), read(ts.Tags(tags))},
		"unknown operator 9":  {list(ts.Matching(unknown)), read(ts.Matching(unknown))},
		"101 filters exceed 100": {list(ts.Matching(make([]floql.Filter, 101)...)),
			read(ts.Matching(make([]floql.Filter, 101)...))},
		"tag names have 1-255 bytes, values 0-1024": {list(ts.Matching(floql.Filter{Tag: string(make([]byte, 1<<20))})),
			read(ts.Matching(floql.Filter{}))},
	} {
		for i, err := range errs {
			if !errors.Is(err, ts.ErrInvalid) || len(err.Error()) > 1000 || !strings.Contains(err.Error(), want) {
				t.Errorf("call %d: %.300v, want ErrInvalid: %s", i, err, want)
			}
		}
	}
	// A filter that was not made by NewFilter works too.
	if err := errors.Join(list(ts.Matching(floql.Filter{Tag: "host", Op: floql.Match, Value: "a*"})),
		read(ts.Matching(floql.Filter{Tag: "host", Op: floql.Match, Value: "a*"}))); err != nil {
		t.Error(err)
	}
	// Times far away are before or after all points.
	past, future := time.Unix(math.MinInt64/2, 0), time.Unix(math.MaxInt64/2, 0)
	for _, c := range []struct {
		from, to time.Time
		want     int
	}{{past, future, 1}, {future, past, 0}, {past, past, 0}, {future, future, 0}, {past, at(0), 0}, {at(0), future, 1}, {at(0),
		at(0).Add(1), 1}} {
		n := 0
		for _, err := range s.Read(t.Context(), "cpu", "value", ts.Between(c.from, c.to)) {
			if n++; err != nil {
				t.Error(err)
			}
		}
		if n != c.want {
			t.Errorf("between %v and %v are %d points, want %d", c.from.Unix(), c.to.Unix(), n, c.want)
		}
	}
}

// TestNamesOfMeasurements: a measurement or tag with an invalid name is refused by each call.
func TestNamesOfMeasurements(t *testing.T) {
	r := newRig(t, 1)
	s, ctx := storeOf(r, "n"), t.Context()
	write(t, s, point("a", 0, 1))
	const bad = "a\n"
	second := func(_ any, err error) error { return err }
	for what, err := range map[string]error{
		"Get":          second(s.Get(ctx, bad)),
		"Retention":    second(s.Retention(ctx, bad)),
		"TagValues":    second(s.TagValues(ctx, bad)),
		"Series":       second(s.Series(bad).Page(ctx)),
		"Read":         machinetest.LastError(s.Read(ctx, bad, "value")),
		"Last":         machinetest.LastError(s.Last(ctx, bad, "value")),
		"Last of tags": machinetest.LastError(s.Last(ctx, "cpu", "value", ts.Tags(map[string]string{"": "x"}))),
		"Delete":       s.Delete(ctx, bad),
		"SetRetention": s.SetRetention(ctx, bad, ts.Retention{}),
		"DeleteRange":  second(s.DeleteRange(ctx, bad, at(0), at(1), nil)),
		"DeleteSeries": second(s.Series("cpu").Delete(ctx, map[string]string{"": "x"})),
		"Series of":    second(s.Series("cpu").Page(ctx, ts.Tags(map[string]string{"host": strings.Repeat("x", 1025)}))),
	} {
		if !errors.Is(err, ts.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		}
	}
	if result, err := storeOf(r, "_floe").Write(ctx, point("a", 0, 1)); err == nil || result.Written != 0 {
		t.Errorf("Write to a system namespace = %+v, %v", result, err)
	}
	many := make([]ts.Point, 65_537) // of two batches
	for i := range many {
		many[i] = point("a", int64(i), 1)
	}
	if result, err := storeOf(r, "_floe").Write(ctx, many...); err == nil || result.Written != 0 {
		t.Errorf("Write of many points to a system namespace = %+v, %v", result, err)
	}
}
