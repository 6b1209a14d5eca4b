package processing_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/stream/processing"
)

// TestLimitsOfDefinitions: a value at its limit is accepted, and one beyond it is refused with the
// limit.
func TestLimitsOfDefinitions(t *testing.T) {
	const (
		sources = "sources: [{name: in, stream: {name: in}}]\n"
		sinks   = "sinks: [{name: out, stream: {name: out}}]\n"
	)
	list := func(n int, format string) string {
		var all []string
		for i := range n {
			all = append(all, strings.ReplaceAll(format, "#", fmt.Sprint(i)))
		}
		return strings.Join(all, ", ")
	}
	operator := func(text string) string { return sources + sinks + "operators: [" + text + "]\n" }
	kvSink := func(text string) string { return sources + "sinks: [{name: out, " + text + "}]\n" }
	var bounds []machinetest.Bound
	for name, test := range map[string]struct {
		most, least int // -1: no minimum
		say         string
		make        func(n int) string
	}{
		"parallelism": {64, 1, "1 to 64", func(n int) string { return fmt.Sprintf("parallelism: %d\n", n) + sources + sinks }},
		"batch_size":  {10_000, 1, "1 to 10000", func(n int) string { return fmt.Sprintf("batch_size: %d\n", n) + sources + sinks }},
		"sources": {100, 1, "100", func(n int) string {
			return "sources: [" + list(n, "{name: s#, stream: {name: s#}}") + "]\n" +
				sinks
		}},
		"sinks": {100, 1, "100", func(n int) string {
			return sources + "sinks: [" + list(n, "{name: s#, stream: {name: o#}}") +
				"]\n"
		}},
		"operators": {100, -1, "100", func(n int) string { return operator(list(n, "{name: o#, type: passthrough}")) }},
		"tags": {32, -1, "32", func(n int) string {
			return operator("{name: c, type: classify, rules: [" + list(n, "{condition: not_empty, tag: t#}") + "]}")
		}},
		"rules": {1000, -1, "1000", func(n int) string {
			return operator("{name: c, type: classify, rules: [" + list(n, "{condition: not_empty, tag: t}") + "]}")
		}},
		"aggregates": {32, 1, "32", func(n int) string {
			return operator("{name: a, type: aggregate, aggregates: [" + list(n, "{name: a#, function: count}") + "]}")
		}},
		"fields": {1000, -1, "1000", func(n int) string { return operator("{name: m, type: map, fields: {" + list(n, "f#: 1") + "}}") }},
		"percentile": {100, 0, "0 to 100", func(n int) string {
			return operator(fmt.Sprintf("{name: p, type: aggregate, function: percentile, field: n, percentile: %d}", n))
		}},
		"panes": {1000, 1, "1000", func(n int) string {
			return operator(fmt.Sprintf("{name: w, type: aggregate, function: count, window: sliding, window_size_ms: %d, slide_ms: 1}", n))
		}},
		"records of a window": {1_000_000_000, 1, "1 to 1000000000", func(n int) string {
			return operator(fmt.Sprintf("{name: w, type: aggregate, function: count, window: count, count: %d}", n))
		}},
		"seconds of a window": {100 * 365 * 24 * 3600, 1, "100 years", func(n int) string {
			return operator(fmt.Sprintf("{name: w, type: aggregate, function: count, window: tumbling, window_size: %d}", n))
		}},
		"seconds of a window in quotes": {100 * 365 * 24 * 3600, 1, "100 years", func(n int) string {
			return operator(fmt.Sprintf("{name: w, type: aggregate, function: count, window: tumbling, window_size: \"%d\"}", n))
		}},
		"ms of a key": {100 * 365 * 24 * 3_600_000, 0, "100 years",
			func(n int) string { return kvSink(fmt.Sprintf("kv: {key: $.k, ttl_ms: %d}", n)) }},
		"days of a delay": {100 * 365, 0, "100 years",
			func(n int) string { return kvSink(fmt.Sprintf("queue: {name: q, delay: %dd}", n)) }},
		"members of a point": {1000, 1, "1000",
			func(n int) string { return kvSink("ts: {measurement: m, fields: {" + list(n, "f#: n") + "}}") }},
		"priority": {255, 0, "0 to 255", func(n int) string { return kvSink(fmt.Sprintf("queue: {name: q, priority: %d}", n)) }},
		"name":     {255, 1, "255", func(n int) string { return kvSink("stream: {name: " + strings.Repeat("n", n) + "}") }},
		"bytes": {processing.MaxDefinition, -1, "262144", func(n int) string {
			text := sources + sinks + "#"
			return text + strings.Repeat("x", max(n-len(text)-len("name: limits\n"), 0))
		}},
		"depth": {99, -1, "100 levels", func(n int) string { // below the definition
			return sources + sinks + "version: " + strings.Repeat("[", n) + strings.Repeat("]", n) + "\n"
		}},
	} {
		least := int64(test.least)
		if least < 0 {
			least = math.MinInt64
		}
		bounds = append(bounds, machinetest.Bound{What: name, Least: least, Most: int64(test.most)})
		for _, n := range []int{test.least - 1, test.least, test.most - 1, test.most, test.most + 1} {
			if n < 0 && test.least < 0 {
				continue
			}
			var said []string
			for _, p := range processing.Validate([]byte("name: limits\n" + test.make(n))) {
				if !p.Warning {
					said = append(said, p.String())
				}
			}
			switch good := n >= test.least && n <= test.most; {
			case good && len(said) > 0:
				t.Errorf("%s: %d is refused: %s", name, n, said[0])
			case !good && len(said) == 0:
				t.Errorf("%s: %d is taken", name, n)
			case n > test.most && !strings.Contains(strings.ReplaceAll(strings.Join(said, "\n"), ",", ""), test.say):
				t.Errorf("%s: %d is refused with %q, which does not say %q", name, n, said, test.say)
			}
		}
	}
	slices.SortFunc(bounds, func(a, b machinetest.Bound) int { return strings.Compare(a.What, b.What) })
	machinetest.DocumentLimits(t, "job definitions", bounds)
}

// TestLimitOfNames: the name of a job has up to 248 bytes, so that its stream of errors has a valid
// name.
func TestLimitOfNames(t *testing.T) {
	for n := 247; n <= 249; n++ {
		problems := processing.Validate([]byte("name: " + strings.Repeat("n", n) +
			"\nsources: [{stream: {name: in, partitions: all}}]\nsinks: [{stream: out}]\n"))
		if good := n <= 248; good != (len(problems) == 0) || !good && !strings.Contains(problems[0].String(), "255") {
			t.Errorf("a name of %d bytes: %v", n, problems)
		}
	}
	for _, name := range []string{`"a\u0007"`, `"\u202e"`, `"a\u2028b"`} {
		if problems := processing.Validate([]byte("name: " + name +
			"\nsources: [{stream: {name: in, partitions: all}}]\nsinks: [{stream: out}]\n")); len(problems) == 0 {
			t.Errorf("the name %s is taken", name)
		}
	}
}

// TestLimitOfSavepoints: a job has up to 100 savepoints; one more removes the oldest, and no other.
func TestLimitOfSavepoints(t *testing.T) {
	const most = 100
	s, ctx := newRig(t, 1), context.Background()
	id := s.submit(filtered)
	var made []processing.SavepointID
	for n := 1; n <= most+1; n++ {
		sp, err := s.jobs.Savepoints(id).Create(ctx)
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, sp)
		s.run()
		got, err := engine.Collect(s.jobs.Savepoints(id).All(ctx))
		want := made[max(n-most, 0):]
		if err != nil || len(got) != len(want) || got[0].ID != want[0] || got[len(got)-1].ID != want[len(want)-1] {
			t.Fatalf("after %d: %d savepoints from %v, %v, want %d from %v", n, len(got), got[0].ID, err, len(want), want[0])
		}
	}
}

// TestKeysExpire: keys written by a sink have its ttl_ms, and without it they stay.
func TestKeysExpire(t *testing.T) {
	s, ctx := newRig(t, 1), context.Background()
	s.submit("name: k\nsources: [{name: in, stream: {name: in}}]\nsinks: [{name: a, kv: {key: $.k, key_prefix: a, ttl_ms: 5000}}, " +
		"{name: b, kv: {key: $.k, key_prefix: b}}]\n")
	s.append("in", `{"k":"x"}`)
	s.run()
	for _, key := range []string{"a:x", "b:x"} {
		if _, err := s.keys.Get(ctx, key); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	s.Advance(5001)
	if _, err := s.keys.Get(ctx, "a:x"); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("a:x after its time: %v", err)
	}
	if _, err := s.keys.Get(ctx, "b:x"); err != nil {
		t.Errorf("b:x: %v", err)
	}
}

// TestTooLargeForTheLog: a tick that the log refuses as too large is retried with fewer records,
// until it fits.
func TestTooLargeForTheLog(t *testing.T) {
	s := newRig(t, 1)
	id := s.submit(filtered)
	for n := range 100 {
		s.append("orders", amount(1000+n))
	}
	refused := 0
	s.lane(id, bed{refuse: func(cmd engine.Command) error {
		if len(cmd.Body) <= 600 || refused == 100 {
			return nil
		}
		refused++
		return engine.Errorf(engine.ErrInvalid, "a command of %d bytes is too large", len(cmd.Body))
	}})
	if refused == 0 || refused == 100 {
		t.Errorf("%d ticks were refused", refused)
	}
	if m := s.job(id).Metrics; m.RecordsIn != 100 || m.RecordsOut != 100 || m.Errors != 0 {
		t.Errorf("metrics %+v", m)
	}
}

// TestLimitOfSamples: Test accepts the maximum number of samples, and not one more.
func TestLimitOfSamples(t *testing.T) {
	for n := processing.MaxSamples - 1; n <= processing.MaxSamples+1; n++ {
		got, err := processing.Test(t.Context(), []byte(filtered), processing.Samples{Records: make([]processing.Sample, n)})
		if good := n <= processing.MaxSamples; good && (err != nil || got.Operators[0].In != int64(n)) ||
			!good && (!errors.Is(err, processing.ErrInvalid) || !strings.Contains(err.Error(), "100001 samples exceed 100000")) {
			t.Errorf("%d samples: %+v, %v", n, got.Operators, err)
		}
	}
}

// TestLimitOfSteps: a step reads up to ten times batch_size records.
func TestLimitOfSteps(t *testing.T) {
	for n, want := range map[int]int{29: 1, 30: 1, 31: 2} {
		s := newRig(t, 1)
		id := s.submit("batch_size: 3\n" + filtered)
		s.lane(id, bed{})
		for range n {
			s.append("orders", amount(1))
		}
		steps := 0
		s.lane(id, bed{proposed: func() { steps++ }})
		if m := s.job(id).Metrics; steps != want || m.RecordsIn != int64(n) {
			t.Errorf("%d records are read in %d steps, want %d: %+v", n, steps, want, m)
		}
	}
}

// TestCancelledIsListed: a cancelled job is listed for seven days, to the millisecond.
func TestCancelledIsListed(t *testing.T) {
	s, ctx := newRig(t, 1), context.Background()
	id := s.submit(filtered)
	if _, err := s.jobs.Cancel(ctx, id); err != nil {
		t.Fatal(err)
	}
	const week = 7 * 24 * 3600 * 1000
	for _, pass := range []struct {
		millis int64
		listed bool
	}{{week - 1, true}, {1, false}, {1, false}} {
		s.Advance(pass.millis)
		page, err := s.jobs.Page(ctx)
		_, lost := s.jobs.Get(ctx, id)
		if err != nil || len(page.Items) == 1 != pass.listed || (lost == nil) != pass.listed {
			t.Errorf("%d ms later: %+v, %v, %v", pass.millis, page.Items, err, lost)
		}
	}
}
