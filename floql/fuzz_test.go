package floql

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/pushdown"
)

// queries are fuzzing seeds. TestParsePrintParse of package floql_test adds those of
// internal/test/floqltest, which it may import.
var queries = []string{
	`cpu{host=a, region!="x y", h=~web-*, i!~"[a-z]{1,2}"}[1h] | window(5m, 1m) | avg()`,
	`"a b"[now-1h..now-30m] | where(value > 3 && tags.host in ["a"]) | group_by(*) | rate(1m) | sum() | fill(linear)`,
	`m[0..2024-01-01T00:00:00Z] | window(1mo, tz=Europe/Berlin) | percentile(99.9) | topk(3, by=max) | sort(desc) | limit(10)`,
	`m | field(a, "b c") | math(round(value ** 2) / 3) | round(-2) | clamp(-1, 1e9) | alias(x) | join(/, (n{k=""} | shift(1d) | cumsum()))`,
	"m # a comment\n\t| moving_avg(3) | delta() | derivative(1s) | abs()",
	// did not end because of ZoneBounds for the last days of leap years
	`m[0..2054-01-01T00:00:00Z] | window(1mo, tz=Europe/Berlin) | max()`,
	`m[0..100000] | window(7s, 3s) | stddev() | fill(-1.5) | increase(20s) | median()`,
}

// withoutPositions returns a query without the parts that depend on its spelling.
func withoutPositions(q *Query) *Query {
	c := *q
	c.text, c.plan, c.stages = "", nil, nil
	for _, s := range q.stages {
		s := *s
		s.text, s.offset, s.args = "", 0, append([]arg(nil), s.args...)
		for i := range s.args {
			a := &s.args[i]
			a.offset, a.expr, a.zone = 0, nil, nil
			if a.query != nil {
				a.query = withoutPositions(a.query)
			}
		}
		c.stages = append(c.stages, &s)
	}
	return &c
}

func FuzzParse(f *testing.F) {
	for _, q := range queries {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := Parse(text)
		if err != nil {
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Offset < 0 || e.Offset > len(text) || e.Line < 1 || e.Col < 1 || e.Message == "" {
				t.Fatalf("Parse(%q): %#v", text, err)
			}
			e.Caret()
			return
		}
		printed := q.String()
		again, err := Parse(printed)
		if err != nil {
			t.Fatalf("Parse(%q) of the canonical form of %q: %v", printed, text, err)
		}
		if again.String() != printed || !reflect.DeepEqual(withoutPositions(q), withoutPositions(again)) {
			t.Fatalf("%q is printed as %q, and that as %q", text, printed, again)
		}
	})
}

// few is a source with a few points near the epoch and near 2024.
func few(tb testing.TB) *Slice {
	s := new(Slice)
	for i := range int64(40) {
		for _, tags := range []map[string]string{{"host": "a"}, {"host": "b", "region": "x"}, {}} {
			for _, base := range []int64{0, 1711753200000} {
				if err := s.Add("m", tags, "v", time.UnixMilli(base+i*i*1000), float64(i*7%11)-3.5); err != nil {
					tb.Fatal(err)
				}
			}
		}
	}
	return s
}

// FuzzEval evaluates every query that parses: without panic, within limits, and only with errors
// that give a reason.
func FuzzEval(f *testing.F) {
	for _, q := range queries {
		f.Add(q)
	}
	source := few(f)
	f.Fuzz(func(t *testing.T, text string) {
		q, err := Parse(text)
		if err != nil {
			return
		}
		limits := Limits{Points: 1000, ResultPoints: 5000, Bytes: 1 << 20, Time: 20 * time.Second}
		res, err := q.Eval(t.Context(), source, Options{Now: time.UnixMilli(40_000), Limits: limits})
		if err != nil {
			_, isError := errors.AsType[*Error](err)
			l, isLimit := errors.AsType[*LimitError](err)
			if !isError && (!isLimit || l.Limit == "time") {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		points := 0
		for _, s := range res.Series {
			points += len(s.Points)
			for i, p := range s.Points {
				if i > 0 && !p.Time.After(s.Points[i-1].Time) || !isFinite(p.Value) && !p.IsNull() {
					t.Fatalf("%q: points %v", text, s.Points)
				}
			}
		}
		if points > 5000 {
			t.Fatalf("%q: %d points", text, points)
		}
	})
}

// FuzzPartial merges encodings as from another process into plans of every function.
func FuzzPartial(f *testing.F) {
	var plans [][]byte
	for _, stages := range []string{
		"window(10s) | avg()", "group_by(*) | count()", "group_by(host) | window(20s) | min()", "window(1mo, tz=Europe/Berlin) | last()",
		"stddev()", "window(5s) | median()", "rate(10s) | group_by(region) | first()",
	} {
		q, err := Parse("m[0..1000000] | " + stages)
		if err != nil {
			f.Fatal(err)
		}
		spy := &spy{Slice: few(f)}
		if _, err := q.Eval(f.Context(), spy, Options{}); err != nil {
			f.Fatal(err)
		}
		plans = append(plans, spy.plan)
		f.Add(uint8(len(plans)-1), spy.encoded)
		f.Add(uint8(len(plans)-1), []byte{})
	}
	f.Fuzz(func(t *testing.T, which uint8, encoded []byte) {
		plan := plans[int(which)%len(plans)]
		p, err := decodePartial(plan, Limits{Bytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Merge(encoded); err != nil {
			return
		}
		back, err := p.Encode(t.Context(), nil)
		if err != nil || !bytes.Equal(back, encoded) {
			t.Fatalf("merged %x, encoded %x, %v", encoded, back, err)
		}
		twice, err := decodePartial(plan, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := twice.Merge(encoded); err != nil {
				return // counts overflow
			}
		}
		if _, err := twice.Encode(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzNewPartial(f *testing.F) {
	spy := &spy{Slice: few(f)}
	for _, text := range []string{"m[0..1000000] | window(10s) | group_by(a, b) | avg()", "m[0..1000000] | percentile(5)"} {
		if _, err := Eval(f.Context(), spy, text, Options{}); err != nil {
			f.Fatal(err)
		}
		f.Add(spy.plan)
	}
	f.Fuzz(func(t *testing.T, plan []byte) {
		p, err := decodePartial(plan, Limits{Bytes: 1 << 20})
		if err != nil {
			return
		}
		if back := p.Plan(); !bytes.Equal(back, plan) {
			t.Fatalf("plan %x comes back as %x", plan, back)
		}
		s, err := p.Series(&Series{Field: "v", Tags: []Tag{{"a", "1"}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Add([]int64{-5, 0, 7, 1 << 40}, []float64{1, 2, 3, 4}); err != nil {
			t.Fatal(err)
		}
		p.Split(5)
		p.TakesRollups(60_000)
	})
}

// spy is a source that records the plan and the states of an aggregation.
type spy struct {
	*Slice
	plan, encoded []byte
}

func (s *spy) Aggregate(ctx context.Context, sel Selection, p pushdown.Partial[Series]) error {
	s.plan = p.Plan()
	for c, err := range s.Read(ctx, sel) {
		if err != nil {
			return err
		}
		if err := p.(*partial).addColumn(&c); err != nil {
			return err
		}
	}
	var err error
	s.encoded, err = p.Encode(ctx, nil)
	return err
}

func FuzzGlob(f *testing.F) {
	f.Add("web-[0-9]*{a,b{c,d}}", "web-1c")
	f.Add(`\*[!a]?`, "*bc")
	f.Fuzz(func(t *testing.T, pattern, value string) {
		filter, err := NewFilter("t", Match, pattern)
		if err != nil {
			return
		}
		if filter.Matches(value) && !strings.HasPrefix(value, filter.Prefix()) {
			t.Fatalf("%q matches %q, which does not begin with %q", pattern, value, filter.Prefix())
		}
	})
}
