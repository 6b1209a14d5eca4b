package floql

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/pushdown"
)

// planOf returns an empty partial of the plan that a query pushes down, and its selection.
func planOf(t *testing.T, query string) (*partial, Selection) {
	t.Helper()
	var sel Selection
	var plan []byte
	_, err := Eval(t.Context(), pushed{func(s Selection, p pushdown.Partial[Series]) { sel, plan = s, p.Plan() }}, query, Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := decodePartial(plan, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return p.(*partial), sel
}

// pushed is a source that accepts aggregations.
type pushed struct {
	see func(Selection, pushdown.Partial[Series])
}

func (pushed) Read(context.Context, Selection) iter.Seq2[Column, error] {
	return func(yield func(Column, error) bool) { yield(Column{}, errors.New("asked for points")) }
}

func (p pushed) Aggregate(_ context.Context, sel Selection, part pushdown.Partial[Series]) error {
	p.see(sel, part)
	return nil
}

// TestPushDown: a query that begins with an aggregation is pushed down to the source; other queries
// read points.
func TestPushDown(t *testing.T) {
	for query, want := range map[string]bool{
		"m[0..100] | avg()": true,
		"m[0..100] | window(10ms) | avg() | topk(1) | fill(0)":                                          true,
		"m[0..100] | field(a) | group_by(k) | alias(x) | shift(1s) | window(10ms, 5ms) | percentile(5)": true,
		"m[0..100] | rate(10ms) | sum()":                                                                true,
		"m[0..100] | window(1mo, tz=UTC) | first()":                                                     true,
		"m[0..100]": false,
		"m[0..100] | where(value > 1) | math(value * timestamp) | moving_avg(3) | window(10ms) | avg()": true,
		"m[0..100] | topk(1) | avg()": false,
	} {
		asked := false
		_, err := Eval(t.Context(), pushed{func(Selection, pushdown.Partial[Series]) { asked = true }}, query, Options{})
		if asked != want || (err == nil) != want {
			t.Errorf("%s: pushed down: %v, %v, want %v", query, asked, err, want)
		}
	}
}

// TestSelection checks the selections that sources receive.
func TestSelection(t *testing.T) {
	for query, want := range map[string]string{
		"m[0..100] | avg()":                             "0 to 100, look back 0, fields []",
		"m[5..100] | window(10ms) | sum()":              "5 to 100, look back 0, fields []",
		"m[5..100] | field(a, b) | field(b) | max()":    "5 to 100, look back 0, fields [b]",
		"m[5..100] | shift(3ms) | max()":                "2 to 97, look back 0, fields []",
		"m[5..100] | rate(10ms)":                        "5 to 100, look back 3600000, fields []",
		"m[5..100] | window(1s) | increase(2h) | max()": "5 to 100, look back 7200000, fields []",
	} {
		_, sel := planOf(t, query)
		if got := fmt.Sprintf("%d to %d, look back %d, fields %v", sel.From, sel.To, sel.LookBack, sel.Fields); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

func TestSplit(t *testing.T) {
	for query, want := range map[string][]int64{ // at -5, 0, 5, 20, 21, 99, 100, 101
		"m[5..100] | window(20ms) | avg()":       {5, 5, 5, 20, 40, 100, 100, 100},
		"m[5..100] | window(20ms, 10ms) | avg()": {5, 5, 5, 20, 30, 100, 100, 100},
		"m[5..100] | avg()":                      {5, 5, 5, 100, 100, 100, 100, 100},
	} {
		p, _ := planOf(t, query)
		var got []int64
		for _, at := range []int64{-5, 0, 5, 20, 21, 99, 100, 101} {
			got = append(got, p.Split(at))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: Split = %v, want %v", query, got, want)
		}
	}
}

// TestMergeOfOthers: groups that the plan cannot have are refused, and so are series beyond the
// limit.
func TestMergeOfOthers(t *testing.T) {
	byHost, _ := planOf(t, "m[0..100] | group_by(host) | avg()")
	all, _ := planOf(t, "m[0..100] | group_by(*) | avg()")
	s, err := all.Series(&Series{Field: "v", Tags: []Tag{{"host", "a"}, {"region", "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Add([]int64{1, 2}, []float64{1, 2}); err != nil {
		t.Fatal(err)
	}
	b, err := all.Encode(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := byHost.Merge(b); err == nil {
		t.Error("a group of host and region was merged into groups of hosts")
	}
	one, err := decodePartial(all.Plan(), Limits{Series: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Merge(b); err != nil {
		t.Error(err)
	}
	if err := one.Merge(b); err == nil || !strings.Contains(err.Error(), "limit of 1 series") {
		t.Errorf("a second series was merged: %v", err)
	}
}

func TestPrefix(t *testing.T) {
	for glob, want := range map[string]string{
		"web-*": "web-", "*": "", "web": "web", "{web,we,wep}-1": "we", `a\*b*`: "a*b", "a[bc]": "a", "{a,b}": "", "ab?": "ab",
	} {
		f, err := NewFilter("t", Match, glob)
		if err != nil || f.Prefix() != want {
			t.Errorf("Prefix of %q = %q, %v, want %q", glob, f.Prefix(), err, want)
		}
	}
}

// TestMovingAverageTakesMemory: the points of each series that a stage keeps count towards the
// memory limit, locally and when pushed down.
func TestMovingAverageTakesMemory(t *testing.T) {
	const query = "m[0..10000] | moving_avg(5000) | window(10s) | max()"
	p, _ := planOf(t, query)
	var times []int64
	for at := range int64(5000) {
		times = append(times, at)
	}
	add := func(bytes int64) error {
		part, err := decodePartial(p.Plan(), Limits{Bytes: bytes})
		if err != nil {
			t.Fatal(err)
		}
		s, err := part.Series(&Series{Field: "v"})
		if err != nil {
			t.Fatal(err)
		}
		return s.Add(times, make([]float64, len(times)))
	}
	var all Slice
	for _, at := range times {
		if err := all.Add("m", nil, "v", time.UnixMilli(at), 1); err != nil {
			t.Fatal(err)
		}
	}
	for bytes, enough := range map[int64]bool{5000*8 - 1: false, 5000*8 + 20_000: true} {
		_, err := Eval(t.Context(), &all, query, Options{Limits: Limits{Bytes: bytes}})
		for _, err := range []error{add(bytes), err} {
			if limit, ok := errors.AsType[*LimitError](err); ok == enough || err != nil && (!ok || limit.Limit != "bytes") {
				t.Errorf("with %d bytes: %v", bytes, err)
			}
		}
	}
}
