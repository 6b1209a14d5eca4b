package processing_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
	"github.com/floedb/floe/ts"
)

var trialsFlag = flag.Int("trials", 60, "random pipelines of TestTestIsAJob")

// TestTestIsAJob: a random pipeline has the same results for random samples in Test and on a node
// that reads each as it is appended: the contents of all sinks, the failures with their reasons,
// and the counts.
//
//	go test -run '^TestTestIsAJob$' -trials 10000 ./stream/processing
func TestTestIsAJob(t *testing.T) {
	seed := machinetest.Seed(t)
	kinds := make(map[string]int)
	for i := range *trialsFlag {
		g := &pipes{Rand: rand.New(rand.NewPCG(seed, uint64(i)))}
		definition := g.definition()
		if !g.compare(t, definition, kinds) {
			t.Fatalf("pipeline %d:\n%s", i, definition)
		}
	}
	for _, kind := range []string{"records", "points", "keys", "messages", "errors", "late", "failed"} {
		if least := map[string]int{"late": 1000}[kind]; kinds[kind] == 0 && *trialsFlag >= max(least, 60) {
			t.Errorf("no pipeline has had %s: %v", kind, kinds)
		}
	}
	t.Log(kinds)
}

// pipes generates random pipelines and samples.
type pipes struct {
	*rand.Rand
	side, points bool // sources besides the first
}

func (g *pipes) of(choices ...string) string { return choices[g.IntN(len(choices))] }

func (g *pipes) definition() string {
	timed := func() string {
		return g.of("", ", event_time: $.t", ", event_time: $.t") +
			fmt.Sprintf(", watermark: { max_out_of_orderness_ms: %d, idle_timeout_ms: %d }", g.IntN(3)/2*1000, 1000+g.IntN(3)*10_000)
	}
	g.side, g.points = g.IntN(2) == 0, g.IntN(4) == 0
	text := "name: x\n" + g.of("", "", "", "on_error: fail\n") + "sources:\n  - { name: in, stream: { name: in }" + timed() + " }\n"
	if g.side {
		text += "  - { name: side, stream: { name: side }" + timed() + " }\n"
	}
	if g.points {
		text += "  - { name: cpu, ts: { measurement: cpu } }\n"
	}
	text += "operators:\n  - { name: tags, type: classify, rules: [{ condition: \"json:$.n>3\", tag: high }, { condition: \"expr: n % " +
		"2 == 0\", tag: even }], default_tag: none }\n"
	joined := false
	for i := range g.IntN(4) {
		op := g.operator()
		if g.side && !joined && g.IntN(2) == 0 {
			joined, op = true, fmt.Sprintf("type: join, source: side, on: $.k, within_ms: %d%s", g.IntN(5)*1000,
				g.of("", ", mode: left", ", mode: left, enrich_field: p"))
		}
		text += fmt.Sprintf("  - { name: o%d, %s }\n", i, op)
	}
	match := g.of("", "", "match: high, ", "match: [even, high], ")
	text += "sinks:\n  - { name: out, " + match + "stream: { name: out" + g.of("", ", key: $.k") +
		" } }\n  - { name: late, match: late, stream: { name: late } }\n" +
		"  - { name: put, kv: { key: $.k, key_prefix: put } }\n  - { name: each, " + match +
		"kv: { key_prefix: each, separator: /, write_mode: versioned } }\n" +
		"  - { name: first, kv: { key: \"${$.k}-${$.n}\", key_prefix: first, write_mode: if_absent } }\n  - { name: work, queue: { " +
		"name: work, priority: 3 } }\n" +
		"  - { name: m, ts: { measurement: m, tags: { k: k, s: s }, fields: { n: " + g.of("n", "value", "s") + ", s: s, b: b }" +
		g.of("", ", timestamp: $.t") + " } }\n"
	return text
}

func (g *pipes) operator() string {
	by := "field: n, function: " + g.of("sum", "avg", "min", "max", "first", "last", "distinct", "count", "percentile")
	if g.IntN(3) == 0 {
		by = "aggregates: [{ name: a, function: sum, field: n }, { name: b, function: count }, { name: c, function: last, field: s }]"
	}
	late := g.of("", ", allowed_lateness_ms: 2000", ", late_tag: even")
	if g.IntN(2) == 0 {
		return g.of("type: aggregate, window: tumbling, window_size_ms: 3000, "+by+late,
			"type: aggregate, window: sliding, window_size_ms: 4000, slide_ms: 1000, "+by+late,
			"type: aggregate, window: session, gap_ms: 1500, "+by+late)
	}
	return g.of(
		"type: filter, condition: \"json:$.n>1\"", "type: filter, condition: \"expr: n > 1 and k != \\\"b\\\"\"",
		"type: filter, condition: \"value_contains: a\"",
		"type: map, fields: { k: $.k, n: \"expr: n * 2\", t: $.t, s: \"${$.k}!\" }",
		"type: set, fields: { n: \"n + 1\", made: \"upper(s)\" }",
		"type: flatmap, array_field: $.a, element_key: $.k", "type: keyby, key_expression: $.k",
		"type: keyby, key_expression: \"${$.k}/${$.s}\"",
		"type: aggregate, "+by, "type: aggregate, window: count, count: 3, "+by,
		"type: kv_lookup, lookup_key: \"user:${$.k}\"", "type: kv_lookup, lookup_key: \"user:${$.k}\", enrich_field: user, on_missing: "+
			g.of("pass", "drop", "null", "error"),
		"type: dedup, key: $.n"+g.of("", ", ttl_ms: 4000"), "type: dedup", "type: func, function: twice", "type: passthrough",
	)
}

// value returns the value of a sample, usually an object as operators expect it.
func (g *pipes) value(now int64) string {
	if g.IntN(12) == 0 {
		return g.of("", "none", "[1,2]", "null", "{", "\xff\xfe", `{"k":"`+"\xff"+`","n":1}`, `{"k":"a","n":1e999,"t":1e999}`, `{"n":NaN}`,
			`{"k":"a","n":-0,"t":-0}`, `{"k":"a","n":1,"n":2,"k":"b"}`,
			strings.Repeat("[", 200)+strings.Repeat("]", 200), `{"k":"a","a":[`+strings.Repeat(`{"n":"x"},`, 300)+
				`1]}`, `{"k":"a","n":1,"t":`+fmt.Sprint(now+5_000_000)+`}`, `{"k":{"k":1},"n":[1],"s":{}}`)
	}
	text := fmt.Sprintf(`{"k":%q,"n":%s,"t":%d`, g.of("a", "b", "c"),
		g.of("0", "1", "2.5", "4", "7", "-3", `"4"`, "null", "9007199254740993"), now-g.Int64N(6000))
	return text + g.of("", `,"s":"x"`, `,"s":"y","b":true`) + g.of("", `,"a":[{"k":"a","n":1},{"k":"b","n":5,"t":`+fmt.Sprint(now)+`},7]`) +
		"}"
}

func userOf(key string) []byte {
	return map[string][]byte{"user:a": []byte(`{"name":"ada"}`), "user:b": []byte("bob")}[key]
}

func twice(_ context.Context, rec processing.Record) ([]processing.Record, error) {
	if len(rec.Value) < 2 {
		return nil, errors.New("too short")
	}
	return []processing.Record{rec, {Key: rec.Key + rec.Key, Value: rec.Value}}, nil
}

// compare reports whether Test and a node produce the same results for samples.
func (g *pipes) compare(t *testing.T, definition string, kinds map[string]int) bool {
	t.Helper()
	ctx := context.Background()
	table := engine.TableOf[processing.Store]()
	table.Given(map[string]processing.Func{"twice": twice})
	s := newStageOf(t, 1, table)
	for _, name := range []string{"in", "side"} {
		if err := s.streams.Create(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"user:a", "user:b"} {
		if _, err := s.keys.Put(ctx, key, userOf(key)); err != nil {
			t.Fatal(err)
		}
	}
	id := s.submit(definition)
	s.lane(id, bed{})
	var samples []processing.Sample
	for range 30 {
		if g.IntN(3) == 0 {
			s.passes(id, g.Int64N(2000))
		} else if g.IntN(20) == 0 {
			s.passes(id, 40_000)
		}
		sample := processing.Sample{Source: "in", Key: g.of("", "x", "y"), Value: []byte(g.value(s.Now())), Time: time.UnixMilli(s.Now())}
		if g.IntN(3) == 0 {
			sample.Headers = map[string]string{"h": "1", "g": "2"}
		}
		if g.side && g.IntN(3) == 0 {
			sample.Source = "side"
		}
		if g.points && g.IntN(6) == 0 {
			at := s.Now()
			sample = processing.Sample{Source: "cpu", Value: fmt.Appendf(nil, `{"measurement":"cpu","timestamp_ms":%d,"value":4}`, at),
				Time: time.UnixMilli(at)}
			if _, err := s.series.Write(ctx, ts.Point{Measurement: "cpu", Fields: map[string]float64{"value": 4},
				Time: sample.Time}); err != nil {
				t.Fatal(err)
			}
			s.passes(id, 5001) // the delay of the source
		} else if _, err := s.streams.Append(ctx, sample.Source, stream.Message{Key: sample.Key, Headers: sample.Headers,
			Payload: sample.Value}); err != nil {
			t.Fatal(err)
		}
		s.lane(id, bed{})
		samples = append(samples, sample)
	}
	if s.job(id).Status == processing.Running {
		if _, err := s.jobs.Stop(ctx, id); err != nil {
			t.Fatal(err)
		}
		// It must not wait for more points.
		ends := "stop_at: latest\n" + strings.Replace(definition, "measurement: cpu }", "measurement: cpu, delay_ms: 0 }", 1)
		if _, err := s.jobs.Restore(ctx, id, processing.ReplaceDefinition([]byte(ends))); err != nil {
			t.Fatal(err)
		}
		s.run()
	}
	got, err := processing.Test(ctx, []byte(definition), processing.Samples{
		Records: samples, KV: func(_, key string) []byte { return userOf(key) }, Funcs: map[string]processing.Func{"twice": twice},
	})
	if err != nil {
		t.Fatal(err)
	}
	want, has := tellTested(&got, kinds), s.tellJob(id, definition)
	if !slices.Equal(want, has) {
		for i := range max(len(want), len(has)) {
			if i >= len(want) || i >= len(has) || want[i] != has[i] {
				t.Errorf("Test:\n%s\nthe node:\n%s", strings.Join(want[max(i-2, 0):min(i+4, len(want))], "\n"),
					strings.Join(has[max(i-2, 0):min(i+4, len(has))], "\n"))
				return false
			}
		}
	}
	return true
}

// passes lets time pass for a job, which looks for work at its own times.
func (s *rig) passes(id processing.JobID, millis int64) {
	s.t.Helper()
	to := s.Now() + millis
	for {
		until := int64(math.MaxInt64)
		s.lane(id, bed{asleep: func(_ <-chan struct{}, at int64) { until = at }})
		if until > to {
			break
		}
		s.Pass(until - s.Now())
	}
	s.Pass(to - s.Now())
	s.lane(id, bed{})
}

// tellTested describes the contents of the sinks after a Test.
func tellTested(got *processing.Tested, kinds map[string]int) (all []string) {
	keys, versions, points := make(map[string]string), make(map[string]int), make(map[string]float64)
	var late, messages, failures []string
	for _, w := range got.Written {
		switch w.Sink {
		case "out":
			kinds["records"]++
			all = append(all, fmt.Sprintf("out %s %q", w.Key, w.Value))
		case "late":
			kinds["late"]++
			late = append(late, fmt.Sprintf("late %s %q", w.Key, w.Value))
		case "work":
			kinds["messages"]++
			messages = append(messages, fmt.Sprintf("work %q", w.Value))
		case "m":
			kinds["points"]++
			for name, v := range w.Point.Fields {
				points[fmt.Sprintf("%s %v %d", name, w.Point.Tags, w.Point.Time.UnixMilli())] = v
			}
		default:
			kinds["keys"]++
			if _, there := keys[w.Key]; !there || w.Sink != "first" {
				keys[w.Key] = string(w.Value)
				versions[w.Key]++
			}
		}
	}
	all = append(append(all, late...), messages...)
	var rest []string
	for key, v := range keys {
		rest = append(rest, fmt.Sprintf("key %s %q in version %d", key, v, versions[key]))
	}
	for key, v := range points {
		rest = append(rest, fmt.Sprintf("point %s %v", key, v))
	}
	slices.Sort(rest)
	for _, f := range got.Failures {
		kinds["errors"]++
		failures = append(failures, fmt.Sprintf("failure of %s: %s: %q %q", f.Where, f.Reason, f.Key, f.Value))
	}
	all = append(append(all, rest...), failures...)
	if got.Failed != "" {
		kinds["failed"]++
	}
	return append(all, fmt.Sprint("failed ", got.Failed), fmt.Sprint(len(got.Written), len(failures), got.Operators))
}

// tellJob describes the same for a job.
func (s *rig) tellJob(id processing.JobID, definition string) (all []string) {
	s.t.Helper()
	ctx := context.Background()
	check := func(err error) {
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			s.t.Helper()
			s.t.Fatal(err)
		}
	}
	records := func(name string) (all []stream.Record) {
		for last := (stream.ID{}); ; last = all[len(all)-1].ID {
			recs, err := s.streams.Read(ctx, name, stream.After(last), stream.Limit(1000))
			check(err)
			if all = append(all, recs...); len(recs) < 1000 {
				return all
			}
		}
	}
	for _, name := range []string{"out", "late"} {
		for _, r := range records(name) {
			all = append(all, fmt.Sprintf("%s %s %q", name, r.Key, r.Payload))
		}
	}
	for m, err := range s.queues.Messages("work").All(ctx) {
		check(err)
		if m.Priority != 3 && m.Payload != nil {
			s.t.Errorf("message %+v", m)
		}
		if err == nil {
			all = append(all, fmt.Sprintf("work %q", m.Payload))
		}
	}
	var rest []string
	for e, err := range s.keys.All(ctx, kv.Prefix("")) {
		check(err)
		if !strings.HasPrefix(e.Key, "user:") {
			rest = append(rest, fmt.Sprintf("key %s %q in version %d", e.Key, e.Value, e.Version))
		}
	}
	for _, field := range []string{"n", "s", "b"} {
		for p, err := range s.series.Read(ctx, "m", field) {
			check(err)
			tags := make(map[string]string)
			for _, tag := range p.Tags {
				tags[tag.Key] = tag.Value
			}
			if err == nil {
				rest = append(rest, fmt.Sprintf("point %s %v %d %v", field, tags, p.Time.UnixMilli(), p.Value))
			}
		}
	}
	slices.Sort(rest)
	all = append(all, rest...)
	failures := records(processing.ErrorStream("x"))
	for _, r := range failures {
		all = append(all, fmt.Sprintf("failure of %s: %s: %q %q", r.Headers["floe-operator"], r.Headers["floe-error"], r.Key, r.Payload))
	}
	j := s.job(id)
	if j.Status != processing.Failed {
		j.Reason = ""
	}
	operators := j.Metrics.Operators
	if len(operators) == 0 {
		operators = nil
	}
	return append(all, fmt.Sprint("failed ", j.Reason), fmt.Sprint(j.Metrics.RecordsOut, j.Metrics.Errors, operators))
}
