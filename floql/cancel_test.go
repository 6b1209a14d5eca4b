package floql_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/floedb/floe/floql"
)

// patience is a context that is done at one check, so that a test can end a query at each of them.
// Later checks find it alive, and do not make up for one that was ignored.
type patience struct {
	context.Context
	left, asked int
}

func (p *patience) Err() error {
	p.asked++
	if p.left--; p.left == -1 {
		return context.Canceled
	}
	return nil
}

func long(t *testing.T) *floql.Slice {
	s := new(floql.Slice)
	for i := range int64(70_000) {
		if err := s.Add("m", map[string]string{"k": string(rune('a' + i%2))}, "v", time.UnixMilli(i*1000),
			float64(i*7919%10007)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestCancel cancels queries at each or many of their checks: they return the context's error and
// nothing else.
func TestCancel(t *testing.T) {
	source := long(t)
	for query, looks := range map[string]int{
		"m[0..70000000] | math(value * 2 + 1) | max()": 24, // every 4,096 points
		// every 32,768 values while sorting, and again while merging
		"m[0..70000000] | median()":                                          13,
		"m[0..70000000] | window(20s, 1s) | group_by(k) | avg()":             50,
		"m[0..70000000] | window(1s, tz=Europe/Berlin) | sum()":              300, // every 256 bounds of a calendar, every 32 buckets
		"m[0..70000000] | group_by(k) | window(1m) | sum() | fill(prev)":     50,
		"m[0..70000000] | topk(1) | cumsum() | join(+, (m | moving_avg(3)))": 40,
	} {
		limits := floql.Limits{Time: -1}
		ctx := &patience{Context: t.Context(), left: 1 << 40}
		if _, err := floql.Eval(ctx, source, query, floql.Options{Limits: limits}); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		if ctx.asked < looks {
			t.Errorf("%s looks %d times whether it is canceled, want %d", query, ctx.asked, looks)
		}
		for i := range 12 {
			at := ctx.asked * i / 12
			_, err := floql.Eval(&patience{Context: t.Context(), left: at}, source, query, floql.Options{Limits: limits})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s, canceled at look %d of %d: %v", query, at, ctx.asked, err)
			}
		}
	}
}

func TestTimeLimit(t *testing.T) {
	_, err := floql.Eval(t.Context(), long(t), "m[0..70000000] | math(value + timestamp)",
		floql.Options{Limits: floql.Limits{Time: time.Nanosecond}})
	limit, ok := errors.AsType[*floql.LimitError](err)
	if !ok || limit.Limit != "time" || err.Error() != "the query exceeds the limit of 1ns" {
		t.Errorf("a query of more than 1 ns: %v", err)
	}
}
