package pipeline

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestLimitsOfRecords: a record that is as much as is allowed is worked with, and one that is more
// is a failure that names the limit.
func TestLimitsOfRecords(t *testing.T) {
	keyed := func(n int) Record { return Record{Key: []byte(strings.Repeat("k", n)), Value: []byte(`{"n":1}`)} }
	member := func(n int) Record { return Record{Value: []byte(`{"k":"` + strings.Repeat("k", n) + `"}`)} }
	call := map[string]Func{"grow": func(_ context.Context, rec Record, _ []string) ([]Record, error) {
		return []Record{{Value: make([]byte, int(rec.EventTime)-perItem)}}, nil
	}}
	for _, test := range []struct {
		name, operator, source string
		most                   int
		say                    string
		record                 func(n int) Record
	}{
		{"key of an aggregate", "{name: a, type: aggregate, function: count}", "", maxKey, "longer than 3072 bytes", keyed},
		{"key of a dedup", "{name: a, type: dedup, key: $.k}", "", maxKey, "longer than 3072 bytes", member},
		{"key of a join", "{name: a, type: join, source: side, on: $.k, within: 1s, mode: left}", "", maxKey, "longer than 3072 bytes",
			member},
		{"key of parts", `{name: a, type: keyby, key_expression: "${$.k}x"}`, "", 64 << 10, "longer than 65536 bytes",
			func(n int) Record { return member(n - 1) }},
		{"text of parts", `{name: a, type: map, fields: {b: "${$.k}"}}`, "", 16<<20 - perItem - len(`{"b":""}`), "larger than 16 MiB",
			member},
		{"what a function makes", "{name: a, type: func, function: grow}", "", 16 << 20, "larger than 16 MiB",
			func(n int) Record { return Record{EventTime: int64(n)} }},
		{"records in sinks",
			`{name: a, type: flatmap, array_field: $.a}, {type: classify, rules: [{condition: "value_contains: 2", tag: both}]}`, "",
			100_000, "more than 100000 records", func(n int) Record {
				return Record{Value: []byte(`{"a":[` + strings.TrimSuffix(strings.Repeat("2,", n/2)+strings.Repeat("1,", n%2), ",") + `]}`)}
			}},
		{"the future", "{name: a, type: passthrough}", ", event_time: $.t", 3_600_000, "at most 3600000 are allowed", func(n int) Record {
			return Record{Value: fmt.Appendf(nil, `{"t":%d}`, 5000+n), Origin: Origin{ID: ID{Millis: 5000}}}
		}},
	} {
		job, problems := Parse([]byte("name: x\nsources: [{name: in, stream: {name: in, partitions: all}" + test.source +
			"}, {name: side, stream: side}]\noperators: [" + test.operator + "]\nsinks: [{stream: out}, {stream: more, match: both}]\n"))
		if job == nil {
			t.Fatalf("%s: %v", test.name, problems)
		}
		if err := job.Use(call); err != nil {
			t.Fatal(err)
		}
		p, err := Compile(job, numbersOf(job))
		if err != nil {
			t.Fatal(err)
		}
		for n := test.most - 1; n <= test.most+1; n++ {
			rec, reason := test.record(n), ""
			if test.source != "" {
				if _, err := p.EventTime(&rec); err != nil {
					reason = err.Error()
				}
			}
			tick := p.NewTick(newMemory(), nil, Limits{Rows: 1}, MinTime)
			if err := tick.Add(context.Background(), []Record{rec}); err != nil {
				t.Fatal(err)
			}
			for _, f := range tick.Failures() {
				reason += f.Reason
			}
			if n <= test.most && reason != "" || n > test.most && !strings.Contains(reason, test.say) {
				t.Errorf("%s of %d: %q", test.name, n, reason)
			}
		}
	}
}

// TestAccuracy: distinct values are counted exactly up to as many as is documented and within 3 %
// beyond, and percentiles are within 1 %.
func TestAccuracy(t *testing.T) {
	for n, within := range map[int]float64{maxExact - 1: 0, maxExact: 0, maxExact + 1: 0.03, 20_000: 0.03, 1_000_000: 0.03} {
		var d, half distinct
		for i := range n {
			if d.add(hash(fmt.Sprint("value ", i))); i%2 == 0 {
				half.add(hash(fmt.Sprint("value ", i)))
			}
		}
		d.merge(&half)
		if got := float64(d.size()); math.Abs(got-float64(n)) > within*float64(n) {
			t.Errorf("%d different values are counted as %v", n, got)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	var s sketch
	var all []float64
	for range 20_000 {
		v := r.NormFloat64() * math.Pow(10, float64(r.IntN(30)-15))
		all = append(all, v)
		s.add(v)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.001, 0.25, 0.5, 0.75, 0.95, 0.999, 1} {
		want, got := all[int(q*float64(len(all)-1))], s.quantile(q)
		if math.Abs(got-want) > accuracy*math.Abs(want)*1.000001 {
			t.Errorf("percentile %v is %v, want %v", q*100, got, want)
		}
	}
}

// TestNumbersOfReference: every number in the reference is the limit or the default that the parser
// has.
func TestNumbersOfReference(t *testing.T) {
	job, problems := Parse([]byte(`name: x
sources: [{name: in, stream: {name: in, partitions: all}}, {name: timed, event_time: $.t, stream: in}, {name: points, ts: {measurement: m}}]
operators: [{name: p, type: aggregate, function: percentile, field: n}]
sinks: [{queue: q}]
`))
	if job == nil {
		t.Fatal(problems)
	}
	left := make(map[string]bool) // the keys whose documentation has numbers, but for examples
	for key, text := range keyDocs {
		for i, part := range strings.Split(text, "`") {
			if i%2 == 0 && strings.ContainsFunc(part, unicode.IsDigit) {
				left[key] = true
			}
		}
	}
	thousands := func(n int) string { return fmt.Sprintf("%d,%03d", n/1000, n%1000) }
	percentile := fmt.Sprintf("0-100, default %v", job.Operators[0].private.spec.(*running).quantile*100)
	for key, says := range map[string]string{
		"job.parallelism":   fmt.Sprintf("1-%d; default %d;", MaxParallelism, job.Parallelism),
		"job.batch_size":    fmt.Sprintf("1-%s; default %d", thousands(MaxBatch), job.BatchSize),
		"job.max_future_ms": fmt.Sprintf("default %d h", job.MaxFuture/3_600_000),
		"job.sources":       fmt.Sprintf("1-%d sources", MaxSources), "job.operators": fmt.Sprintf("up to %d,",
			MaxOperators), "job.sinks": fmt.Sprintf("1-%d sinks", MaxSinks),
		"sources.event_time": "RFC 3339",
		"sources.watermark.max_out_of_orderness_ms": fmt.Sprintf("default %d s with event_time, else %d", job.Sources[1].Disorder/1000,
			job.Sources[0].Disorder),
		"sources.watermark.idle_timeout_ms": fmt.Sprintf("default %d s", job.Sources[0].IdleAfter/1000),
		"sources.ts.poll_interval_ms":       fmt.Sprintf("default %d s", job.Sources[2].TS.Poll/1000),
		"sources.ts.delay_ms":               fmt.Sprintf("default %d s", job.Sources[2].TS.Delay/1000),
		"operators.aggregate.function":      fmt.Sprintf("up to %s values", thousands(maxExact)),
		"operators.aggregate.percentile":    percentile, "operators.aggregates.percentile": percentile,
		"operators.aggregate.aggregates": fmt.Sprintf("up to %d,", maxMeasures),
		"operators.aggregates.field":     "for `count` and `distinct` 0",
		"operators.aggregate.slide":      fmt.Sprintf("at most %s panes", thousands(maxPanes)),
		"operators.classify.rules":       fmt.Sprintf("up to %s rules", thousands(maxRules)),
		"operators.rules.tag":            fmt.Sprintf("at most %d of a job", MaxTags),
		"sinks.queue.priority":           fmt.Sprintf("0-%d, default %d", math.MaxUint8, job.Sinks[0].Priority),
	} {
		if !strings.Contains(keyDocs[key], says) {
			t.Errorf("%s is %q, which does not say %q", key, keyDocs[key], says)
		}
		delete(left, key)
	}
	for key := range left {
		t.Errorf("%s has a number that no test compares: %q", key, keyDocs[key])
	}
}
