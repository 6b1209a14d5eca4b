package processing_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/stream/processing"
)

// TestSeveralAggregates: one operator computes several values of each key, each over the records
// that have its field.
func TestSeveralAggregates(t *testing.T) {
	definition := processing.Definition{
		Name:    "totals",
		Sources: []processing.Source{{From: processing.FromStream{Name: "orders"}}},
		Operators: []processing.Operator{{Name: "sums", Do: processing.Aggregate{Each: []processing.Measure{
			{Name: "total", Function: "sum", Field: "$.cents"}, {Name: "mean", Function: "avg", Field: "$.tip"}, {Name: "orders",
				Function: "count"},
		}}}},
		Sinks: []processing.Sink{{To: processing.ToStream{Name: "out"}}},
	}
	got, err := processing.Test(t.Context(), definition.YAML(),
		processing.Samples{Records: []processing.Sample{{Value: []byte(`{"cents":5}`)}, {Value: []byte(`{"cents":7,"tip":2}`)}}})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"key":"","value":{"total":12,"mean":2,"orders":2},"count":2}`
	if n := len(got.Written); n != 2 || string(got.Written[1].Value) != want {
		t.Errorf("written %+v, the last one to be %s", got.Written, want)
	}
}

// TestTest: a definition runs on samples as it does in a job: windows fire by event time, late
// records and failures are reported, lookups and sinks to time series are shown.
func TestTest(t *testing.T) {
	definition := []byte(`
name: totals
sources: [{ name: orders, event_time: $.at, stream: { name: orders }, watermark: { max_out_of_orderness_ms: 0 } }, { name: paid, stream: { name: paid } }]
operators:
  - { name: user, type: kv_lookup, lookup_key: "user:${$.id}", enrich_field: user }
  - { name: by, type: keyby, key_expression: $.user.name }
  - { name: sum, type: aggregate, function: sum, field: $.n, window: tumbling, window_size: 10 }
sinks:
  - { name: out, stream: { name: out } }
  - { name: late, match: late, stream: { name: late } }
  - { name: points, ts: { measurement: m, tags: { who: key }, value_field: value } }
`)
	sample := func(at, n int, id string) processing.Sample {
		return processing.Sample{Value: fmt.Appendf(nil, `{"at":%d,"n":%d,"id":%q}`, at, n, id), Headers: map[string]string{"h": "1"}}
	}
	records := []processing.Sample{sample(1000, 1, "a"), sample(2000, 2, "b"), sample(3000, 3, "a"), sample(12_000, 4, "a"),
		sample(5000, 5, "a"), {Source: "orders", Value: []byte("none")}}
	got, err := processing.Test(t.Context(), definition, processing.Samples{Records: records, KV: func(namespace, key string) []byte {
		if namespace != "" || !strings.HasPrefix(key, "user:") {
			t.Errorf("lookup of %q in %q", key, namespace)
		}
		return fmt.Appendf(nil, `{"name":"user %s"}`, strings.TrimPrefix(key, "user:"))
	}})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, w := range got.Written {
		if w.Point == nil {
			all = append(all, fmt.Sprintf("%s %s %d %v %s", w.Sink, w.Key, w.Time.UnixMilli(), w.Tags, w.Value))
		} else {
			all = append(all, fmt.Sprintf("%s %v %v", w.Sink, w.Point.Tags, w.Point.Fields))
		}
	}
	want := `out user a 9999 [] {"key":"user a","value":4,"count":2,"window_start":0,"window_end":10000}
points map[who:user a] map[value:4]
out user b 9999 [] {"key":"user b","value":2,"count":1,"window_start":0,"window_end":10000}
points map[who:user b] map[value:2]
late user a 5000 [late] {"at":5000,"n":5,"id":"a","user":{"name":"user a"}}
out user a 19999 [] {"key":"user a","value":4,"count":1,"window_start":10000,"window_end":20000}
points map[who:user a] map[value:4]`
	if text := strings.Join(all, "\n"); text != want {
		t.Errorf("written:\n%s\nwant:\n%s", text, want)
	}
	if len(got.Failures) != 1 || got.Failures[0].Where != "orders" || string(got.Failures[0].Value) != "none" {
		t.Errorf("failures %+v", got.Failures)
	}
	if o := got.Operators[2]; o.Name != "sum" || o.In != 5 || o.Out != 3 || o.Late != 1 {
		t.Errorf("operators %+v", got.Operators)
	}
	if _, err := processing.Test(t.Context(), definition,
		processing.Samples{Records: []processing.Sample{{Source: "other", Time: time.Now()}}}); !errors.Is(err, processing.ErrInvalid) {
		t.Errorf("a sample of no source: %v", err)
	}
	if _, err := processing.Test(t.Context(), []byte("name: x"), processing.Samples{}); !errors.Is(err, processing.ErrInvalid) {
		t.Errorf("no definition: %v", err)
	}
}

// TestTimesOfSamples: samples without a time have the time of their arrival, whatever the year.
// Once a sample has a time, the future is measured from that.
func TestTimesOfSamples(t *testing.T) {
	definition := []byte("name: x\nsources: [{ name: in, event_time: $.at, stream: { name: in } }]\nsinks: [{ name: out, stream: { " +
		"name: out } }]\n")
	now := time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
	at := func(d time.Duration) processing.Sample {
		return processing.Sample{Value: fmt.Appendf(nil, `{"at":%d}`, now.Add(d).UnixMilli())}
	}
	timed := at(3 * time.Hour)
	timed.Time = now.Add(2 * time.Hour)
	got, err := processing.Test(t.Context(), definition,
		processing.Samples{Records: []processing.Sample{at(0), at(3 * time.Hour), at(-time.Hour), timed,
			at(4*time.Hour + time.Millisecond)}})
	if err != nil || len(got.Written) != 4 || len(got.Failures) != 1 ||
		!strings.Contains(got.Failures[0].Reason, "3600001 ms after the record was appended") {
		t.Errorf("tested %+v, %v", got, err)
	}
}

// TestSamplesThatEndATest: what Test refuses, and what ends it early.
func TestSamplesThatEndATest(t *testing.T) {
	definition := func(more string) []byte {
		return []byte("name: x\n" + more + "sources: [{ name: in, stream: { name: in } }]\n" +
			"operators: [{ name: n, type: map, fields: { n: $.n } }]\nsinks: [{ name: out, stream: { name: out } }]\n")
	}
	of := func(values ...string) (s processing.Samples) {
		for _, v := range values {
			s.Records = append(s.Records, processing.Sample{Value: []byte(v)})
		}
		return s
	}
	for most, want := range map[int]string{
		processing.MaxSamples:     `processing: sample 0 is of source "none", which the definition does not have`,
		processing.MaxSamples + 1: "processing: 100001 samples exceed 100000",
	} {
		samples := processing.Samples{Records: make([]processing.Sample, most)}
		samples.Records[0].Source = "none"
		if _, err := processing.Test(t.Context(), definition(""), samples); !errors.Is(err, processing.ErrInvalid) || err.Error() != want {
			t.Errorf("%d samples: %v, want %s", most, err, want)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := processing.Test(over, definition(""), of(`{"n":1}`)); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is over: %v", err)
	}
	for more, want := range map[string]string{
		"": `2 written, 1 failed, ""`, "on_error: fail\n": `1 written, 0 failed, "n: n: the value is no JSON"`,
	} {
		got, err := processing.Test(t.Context(), definition(more), of(`{"n":1}`, `none`, `{"n":2}`))
		if text := fmt.Sprintf("%d written, %d failed, %q", len(got.Written), len(got.Failures), got.Failed); err != nil ||
			!strings.HasPrefix(text, want) {
			t.Errorf("%s: %s, want %s, %v", more, text, want, err)
		}
	}
	got, err := processing.Test(t.Context(), definition(""), processing.Samples{})
	if err != nil || len(got.Written)+len(got.Failures) != 0 {
		t.Errorf("no samples: %+v, %v", got, err)
	}
}
