package processing_test

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/yaml"
	"github.com/floedb/floe/stream/processing"
)

// built has every key of a definition that Go can express.
var built = processing.Definition{
	Name: "all", Namespace: "n", Description: "everything: yes", Parallelism: 2, BatchSize: 500, FailOnError: true, StopAtEnd: true,
	MaxFuture: time.Minute,
	Sources: []processing.Source{
		{Name: "orders", From: processing.FromStream{Name: "orders", Partitions: []int{0, 2}, Start: "latest"}, EventTime: "$.at",
			Disorder: -1, IdleAfter: time.Second},
		{Name: "paid", From: processing.FromStream{Name: "paid", Start: "1763740800000-0"}, IdleAfter: -1},
		{Name: "cpu", From: processing.FromSeries{
			Measurement: "cpu", Field: "load", Tags: map[string]string{"host": "a", "dc": "1"}, Poll: 1500 * time.Microsecond,
			Delay: time.Second, Start: "earliest",
		}},
	},
	Operators: []processing.Operator{
		{Name: "only", Description: "the large ones", Do: processing.Filter{Condition: "json:$.amount>100"}},
		{Name: "made", Do: processing.Map{Fields: []processing.Field{
			{"type", "yes"}, {"id", "$.id"}, {"n", 1.5}, {"list", []any{"a", true, nil}}, {"of", map[string]any{"b": 2, "a": "12"}},
		}}},
		{Name: "more", Do: processing.Set{Fields: []processing.Field{{"double", "amount * 2"}}}},
		{Name: "lines", Do: processing.FlatMap{Array: "$.lines", Key: "$.sku"}},
		{Name: "by", Do: processing.KeyBy{Key: "expr: id + '-' + sku"}},
		{Name: "latency", Do: processing.Aggregate{
			Function: "percentile", Field: "$.ms", Percentile: 99, Window: processing.Sliding(time.Minute,
				time.Second), Lateness: time.Hour, LateTag: "tardy",
		}},
		{Name: "hourly", Do: processing.Aggregate{Function: "sum", Field: "$.value", Window: processing.Tumbling(time.Hour)}},
		{Name: "visits", Do: processing.Aggregate{Function: "count", Window: processing.Session(30 * time.Minute)}},
		{Name: "tens", Do: processing.Aggregate{Function: "max", Field: "value", Window: processing.Records(10)}},
		{Name: "ever", Do: processing.Aggregate{Function: "count"}},
		{Name: "day", Do: processing.Aggregate{
			Each: []processing.Measure{{Name: "orders", Function: "count"},
				{Name: "p90", Function: "percentile", Field: "$.ms", Percentile: 90}},
			Window: processing.Tumbling(24 * time.Hour),
		}},
		{Name: "user", Do: processing.Lookup{Key: "user:${$.id}", Namespace: "n", Field: "user", OnMissing: "null"}},
		{Name: "known", Do: processing.Lookup{Key: "$.id", Filter: true}},
		{Name: "tags", Do: processing.Classify{Rules: []processing.Rule{{"not_empty", "some"}, {"expr: value > 1", "high"}},
			Default: "low"}},
		{Name: "once", Do: processing.Dedup{Key: "$.id", TTL: time.Hour}},
		{Name: "pay", Do: processing.Join{Source: "paid", On: "$.id", Within: time.Minute, Left: true, Field: "payment"}},
		{Name: "own", Do: processing.Call{Func: "score"}},
		{Name: "end", Do: processing.Passthrough{}},
	},
	Sinks: []processing.Sink{
		{Name: "out", Match: []string{"high", "some"}, To: processing.ToStream{Name: "totals", Key: "$.id", Namespace: "n"}},
		{To: processing.ToKV{Key: "$.id", Prefix: "user", Separator: "/", Mode: "if_absent", TTL: time.Second, Namespace: "n"}},
		{To: processing.ToQueue{Name: "work", Priority: 5, Delay: time.Second, Namespace: "n"}},
		{To: processing.ToSeries{Measurement: "m", Tags: map[string]string{"host": "hostname"}, Fields: map[string]string{"cpu": "$.cpu"},
			Time: "$.at", Namespace: "n"}},
	},
}

const written = `
kind: Processing
name: all
namespace: n
description: "everything: yes"
parallelism: 2
batch_size: 500
on_error: fail
stop_at: latest
max_future_ms: 60000
sources:
  - { name: orders, stream: { name: orders, partitions: [0, 2], start: latest }, event_time: $.at, watermark: { max_out_of_orderness_ms: 0, idle_timeout_ms: 1000 } }
  - { name: paid, stream: { name: paid, partitions: all, start: 1763740800000-0 }, watermark: { idle_timeout_ms: 0 } }
  - { name: cpu, ts: { measurement: cpu, field: load, tags: { dc: "1", host: a }, poll_interval_ms: 2, delay_ms: 1000, start: earliest } }
operators:
  - { name: only, type: filter, description: the large ones, condition: "json:$.amount>100" }
  - { name: made, type: map, fields: { type: "yes", id: $.id, n: 1.5, list: [a, true, null], of: { a: "12", b: 2 } } }
  - { name: more, type: set, fields: { double: amount * 2 } }
  - { name: lines, type: flatmap, array_field: $.lines, element_key: $.sku }
  - { name: by, type: keyby, key_expression: "expr: id + '-' + sku" }
  - { name: latency, type: aggregate, function: percentile, field: $.ms, percentile: 99, window: sliding, window_size_ms: 60000, slide_ms: 1000, allowed_lateness_ms: 3600000, late_tag: tardy }
  - { name: hourly, type: aggregate, function: sum, field: $.value, window: tumbling, window_size_ms: 3600000 }
  - { name: visits, type: aggregate, function: count, window: session, gap_ms: 1800000 }
  - { name: tens, type: aggregate, function: max, field: value, window: count, window_size: 10 }
  - { name: ever, type: aggregate, function: count }
  - { name: day, type: aggregate, aggregates: [{ name: orders, function: count }, { name: p90, function: percentile, field: $.ms, percentile: 90 }], window: tumbling, window_size_ms: 86400000 }
  - { name: user, type: kv_lookup, lookup_key: "user:${$.id}", namespace: n, mode: enrich, enrich_field: user, on_missing: "null" }
  - { name: known, type: kv_lookup, lookup_key: $.id, mode: filter }
  - { name: tags, type: classify, rules: [{ condition: not_empty, tag: some }, { condition: "expr: value > 1", tag: high }], default_tag: low }
  - { name: once, type: dedup, key: $.id, ttl_ms: 3600000 }
  - { name: pay, type: join, source: paid, on: $.id, within_ms: 60000, mode: left, enrich_field: payment }
  - { name: own, type: func, function: score }
  - { name: end, type: passthrough }
sinks:
  - { name: out, stream: { name: totals, key: $.id, namespace: n }, match: [high, some] }
  - { kv: { key: $.id, key_prefix: user, separator: /, write_mode: if_absent, ttl_ms: 1000, namespace: n } }
  - { queue: { name: work, priority: 5, delay_ms: 1000, namespace: n } }
  - { ts: { measurement: m, tags: { host: hostname }, fields: { cpu: $.cpu }, timestamp: $.at, namespace: n } }
`

// TestDefinition: a definition built in Go is identical to the handwritten one, and can be
// submitted.
func TestDefinition(t *testing.T) {
	var got, want any
	if err := yaml.Unmarshal(built.YAML(), &got); err != nil {
		t.Fatalf("%v\n%s", err, built.YAML())
	}
	if err := yaml.Unmarshal([]byte(written), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("built:\n%s\nwant:\n%s", built.YAML(), written)
	}
	if problems := processing.Validate(built.YAML()); len(problems) > 0 {
		t.Errorf("problems: %v", problems)
	}
}

// TestDurationsOfDefinitions: durations are rounded away from zero to milliseconds, so that a small
// one does not become zero, and the longest are refused with their value.
func TestDurationsOfDefinitions(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1: "ttl_ms: 1\n", time.Millisecond: "ttl_ms: 1\n", time.Millisecond + 1: "ttl_ms: 2\n", -1: "ttl_ms: -1\n",
		-time.Millisecond - 1: "ttl_ms: -2\n",
		math.MaxInt64:         "ttl_ms: 9223372036855\n", math.MinInt64: "ttl_ms: -9223372036855\n",
	} {
		definition := built
		definition.Operators = []processing.Operator{{Name: "d", Do: processing.Dedup{TTL: d}}}
		if text := string(definition.YAML()); !strings.Contains(text, want) {
			t.Errorf("%d ns:\n%s\nwant %s", d, text, want)
		}
	}
}

// TestBadDefinition: errors in a definition built in Go are reported like those in a handwritten
// one, and a definition that cannot be encoded is an error.
func TestBadDefinition(t *testing.T) {
	for _, test := range []struct {
		definition processing.Definition
		want       string
	}{
		{processing.Definition{}, "line 2: name is"},
		{processing.Definition{Name: "n"}, "sources"},
		{processing.Definition{Name: "n", Sources: []processing.Source{{}}, Sinks: []processing.Sink{{}}}, "has neither stream nor ts"},
		{processing.Definition{Name: "n", BatchSize: -1}, "batch_size"},
		{processing.Definition{Name: "n", Operators: []processing.Operator{{Name: "x"}}}, "operators[0] has no type"},
		{processing.Definition{Name: "n", Operators: []processing.Operator{{Do: processing.Aggregate{Window: processing.Tumbling(0)}}}},
			"operators[0]"},
		{processing.Definition{Name: "n",
			Operators: []processing.Operator{{Do: processing.Map{Fields: []processing.Field{{"f", func() {}}}}}}}, "empty"},
		{processing.Definition{Name: "n",
			Operators: []processing.Operator{{Do: processing.Map{Fields: []processing.Field{{"f", math.NaN()}}}}}}, "f"},
	} {
		problems := processing.Validate(test.definition.YAML())
		var all []string
		for _, p := range problems {
			all = append(all, p.String())
		}
		if text := strings.Join(all, "\n"); !strings.Contains(text, test.want) {
			t.Errorf("problems of\n%s%s\nwant %s", test.definition.YAML(), text, test.want)
		}
	}
}
