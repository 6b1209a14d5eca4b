package ts_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/ts"
)

func newSpread(t *testing.T, shards int) (*machinetest.Rig, *ts.Store) {
	t.Helper()
	r := newRig(t, shards)
	if err := engine.NewNamespaces(r.Router()).Create(t.Context(), "n", true); err != nil {
		t.Fatal(err)
	}
	return r, storeOf(r, "n")
}

// TestSpread: series are spread over all shards, and the home's policies and limits apply to them.
func TestSpread(t *testing.T) {
	r, s := newSpread(t, 4)
	var batch []ts.Point
	for i := range 100 {
		batch = append(batch, point(fmt.Sprintf("h%d", i), 0, float64(i)))
	}
	write(t, s, batch...)
	for shard := range engine.ShardID(4) {
		if n := len(ts.Contents(r, shard, 0, 0)); n < 5 {
			t.Errorf("shard %d has %d of 100 points", shard, n)
		}
	}
	m := must(s.Get(t.Context(), "cpu"))
	if m.Series != 100 || m.Points != 100 || len(m.Fields) != 1 {
		t.Errorf("Measurement = %+v", m)
	}
	if list := collect(s.All(t.Context())); len(list) != 1 || list[0].Series != 100 {
		t.Errorf("All = %+v", list)
	}
	if list := collect(s.Series("cpu").All(t.Context(), ts.Limit(7))); len(list) != 100 {
		t.Errorf("%d series are listed, want 100", len(list))
	}
	if got, err := s.Retention(t.Context(), "cpu"); got.RawTTL != 0 || err != nil {
		t.Errorf("Retention before it is set = %v, %v", got, err)
	}
	must(0, s.SetRetention(t.Context(), "cpu", ts.Retention{RawTTL: 2 * time.Hour}))
	if got, err := s.Retention(t.Context(), "cpu"); got.RawTTL != 2*time.Hour || err != nil {
		t.Errorf("Retention = %v, %v, want 2 hours", got, err)
	}
	result, err := s.Write(t.Context(), point("h1", -3*hour, 1), point("h2", -3*hour, 1), point("h3", -3*hour, 1), point("h4", -3*hour, 1))
	if !errors.Is(err, ts.ErrInvalid) || result.Written != 0 {
		t.Errorf("Write of points that are too old = %+v, %v: the shards have not been told", result, err)
	}
	for i, n := range []int64{1, 0} {
		if got, err := s.Series("cpu").Delete(t.Context(), map[string]string{"host": "h7"}); got != n || err != nil {
			t.Errorf("DeleteSeries the %dth time = %d, %v", i+1, got, err)
		}
	}
	r.Advance(6 * minute)
	if m := must(s.Get(t.Context(), "cpu")); m.Series != 99 || m.Points != 99 || m.Retention.RawTTL != 2*time.Hour {
		t.Errorf("Measurement = %+v", m)
	}
	counted := func() int64 {
		return must(engine.NewNamespaces(r.Router()).Get(t.Context(), "n")).Counts.Measurements
	}
	if n := counted(); n != 1 {
		t.Errorf("%d measurements are counted, want 1", n)
	}
	must(0, s.Delete(t.Context(), "cpu"))
	if n := counted(); n != 0 {
		t.Errorf("%d measurements are counted, want none", n)
	}
	if _, err := s.Get(t.Context(), "cpu"); !errors.Is(err, ts.ErrNotFound) {
		t.Errorf("Measurement = %v, want ErrNotFound", err)
	}
	if got, err := s.Retention(t.Context(), "cpu"); !errors.Is(err, ts.ErrNotFound) {
		t.Errorf("Retention of a deleted measurement = %v, %v, want ErrNotFound", got, err)
	}
	r.Verify()
}

// TestSpreadLimit: each shard has its share of the limit.
func TestSpreadLimit(t *testing.T) {
	r, s := newSpread(t, 4)
	must(0, s.SetSeriesLimit(t.Context(), 40))
	var batch []ts.Point
	for i := range 100 {
		batch = append(batch, point(fmt.Sprintf("h%d", i), 0, float64(i)))
	}
	result, err := s.Write(t.Context(), batch...)
	var full *ts.LimitError
	if !errors.As(err, &full) || !full.Spread || full.Limit != 10 || result.Written != 40 || result.Refused != 60 {
		t.Errorf("Write = %+v, %v, want 40 written, 10 in each shard", result, err)
	}
	r.Verify()
}

// TestSpreadTransaction: points of series with a common tag are written together; others share no
// shard.
func TestSpreadTransaction(t *testing.T) {
	r, s := newSpread(t, 4)
	if _, err := r.Txn("n").Do(ts.WriteOp(point("{a}1", 0, 1), point("{a}2", 0, 2))).Commit(t.Context()); err != nil {
		t.Errorf("Commit = %v", err)
	}
	write(t, s, point("{a}1", second, 3))
	check(t, r, "cpu host={a}1; value 0 1", "cpu host={a}1; value 1000 3", "cpu host={a}2; value 0 2")
	var all []ts.Point
	for i := range 10 {
		all = append(all, point(fmt.Sprint(i), 0, 1))
	}
	if _, err := r.Txn("n").Do(ts.WriteOp(all...)).Commit(t.Context()); err == nil {
		t.Error("a transaction over several shards went through")
	}
}

// TestNamespaceBecomesSpread: a caller that cached a namespace as missing distributes its points
// anew once the namespace exists and is spread.
func TestNamespaceBecomesSpread(t *testing.T) {
	r := newRig(t, 4)
	s := storeOf(r, "n")
	if _, err := s.Get(t.Context(), "cpu"); !errors.Is(err, ts.ErrNotFound) {
		t.Fatal(err)
	}
	must(0, engine.NewNamespaces(r.Router()).Create(t.Context(), "n", true))
	var batch []ts.Point
	for i := range 20 {
		batch = append(batch, point(fmt.Sprintf("h%d", i), 0, float64(i)))
	}
	write(t, s, batch...)
	if list := collect(s.Series("cpu").All(t.Context())); len(list) != 20 {
		t.Errorf("%d series, want 20", len(list))
	}
}

// TestListings: pages of measurements over shards that each hold some of them.
func TestListings(t *testing.T) {
	_, s := newSpread(t, 3)
	var want []string
	for i := range 25 {
		p := point("a", 0, 1)
		p.Measurement = fmt.Sprintf("m%02d", i)
		want = append(want, p.Measurement)
		write(t, s, p)
	}
	for _, limit := range []int{1, 3, 10, 100} {
		var names []string
		for _, m := range collect(s.All(t.Context(), ts.Limit(limit))) {
			names = append(names, m.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("measurements by %d are %v", limit, names)
		}
	}
	if list := collect(s.All(t.Context(), ts.Prefix("m1"))); len(list) != 10 {
		t.Errorf("%d measurements begin with m1", len(list))
	}
	for _, opts := range [][]ts.ListOption{{ts.Limit(0)}, {ts.Limit(1001)}, {ts.Cursor("x"), ts.Prefix("m")}} {
		if _, err := s.Page(t.Context(), opts...); !errors.Is(err, ts.ErrInvalid) {
			t.Errorf("Page = %v, want ErrInvalid", err)
		}
	}
	for _, cursor := range []string{"x", "9-0", "0-x", "0--1", "00-1"} {
		if _, err := s.Series("m01").Page(t.Context(), ts.Cursor(cursor)); !errors.Is(err, ts.ErrInvalid) {
			t.Errorf("Page with cursor %q = %v, want ErrInvalid", cursor, err)
		}
	}
}
