package processing_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/stream/processing"
)

// TestRawFailures: a record on which an operator fails is reported as it came from its source, not
// as earlier operators changed it. The report has the operator's name and the reason.
func TestRawFailures(t *testing.T) {
	s := newRig(t, 1)
	id := s.submit(`
name: raw
sources: [{name: in, stream: {name: in}}]
operators:
  - { type: set, x: 1 }
  - { name: user, type: kv_lookup, lookup_key: "user:${$.id}", mode: enrich, enrich_field: u, on_missing: fail }
sinks: [{name: out, stream: {name: out}}]
`)
	if _, err := s.keys.Put(context.Background(), "user:a", []byte("1")); err != nil {
		t.Fatal(err)
	}
	const raw = ` {"id": "b",  "n":2}`
	s.append("in", `{"id":"a"}`, raw)
	s.run()
	s.want("out", `{"id":"a","x":1,"u":1}`)
	recs, err := s.streams.Read(context.Background(), processing.ErrorStream("raw"))
	if err != nil || len(recs) != 1 || string(recs[0].Payload) != raw || recs[0].Headers["floe-operator"] != "user" ||
		recs[0].Headers["floe-error"] == "" {
		t.Errorf("errors: %+v, %v", recs, err)
	}
	if m := s.job(id).Metrics; m.RecordsIn != 2 || m.Errors != 1 {
		t.Errorf("metrics %+v", m)
	}
}

// TestSpoiledRecord: a record whose output exceeds the limit of a command goes to the stream of
// errors, and the job continues with the next one.
func TestSpoiledRecord(t *testing.T) {
	s := newRig(t, 1)
	id := s.submit(`
name: spoiled
sources: [{ name: in, stream: { name: in } }]
operators:
  - { name: each, type: flatmap, array_field: $.list, element_key: $.k }
  - { name: once, type: dedup, key: $.k, ttl_ms: 1000 }
  - { name: visits, type: aggregate, function: count, window: session, gap: 1 }
sinks: [{ name: out, stream: { name: out } }]
`)
	var list strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&list, `{"k":%d},`, i)
	}
	s.append("in", `{"list":[{"k":1}]}`, `{"list":[`+list.String()+`{"k":0}]}`, `{"list":[{"k":2}]}`)
	s.run()
	s.Advance(60_000)
	if j := s.job(id); j.Status != processing.Running || j.Metrics.Errors != 1 || j.Metrics.RecordsIn != 3 {
		t.Errorf("job %+v", j)
	}
	if got := s.read("out"); strings.Count(got, `"key":`) != 2 {
		t.Errorf("sessions %.300s", got)
	}
	recs, err := s.streams.Read(context.Background(), processing.ErrorStream("spoiled"))
	if err != nil || len(recs) != 1 || !strings.HasPrefix(recs[0].Headers["floe-error"], "the record comes to ") ||
		len(recs[0].Payload) < 400_000 {
		t.Errorf("errors %d, %v", len(recs), err)
	}
}

// TestSinkNamespaceMadeSpread: output to a namespace that was created as a spread one after the job
// was submitted is refused and counted, and blocks nothing.
func TestSinkNamespaceMadeSpread(t *testing.T) {
	s, ctx := newRig(t, 3), context.Background()
	id := s.submit("name: wide\nsources: [{name: in, stream: {name: in}}]\nsinks: [{name: there, stream: {name: out, namespace: " +
		"later}}, {name: here, stream: {name: out}}]\n")
	if err := engine.NewNamespaces(s.Router()).Create(ctx, "later", true); err != nil {
		t.Fatal(err)
	}
	s.append("in", `{"n":1}`, `{"n":2}`)
	s.settle()
	s.want("out", `{"n":1} {"n":2}`)
	recs, err := s.streams.Read(ctx, processing.ErrorStream("wide"))
	if err != nil || len(recs) != 2 || recs[0].Headers["floe-operator"] != "there" ||
		!strings.Contains(recs[0].Headers["floe-error"], `namespace "later" is spread`) {
		t.Errorf("errors: %+v, %v", recs, err)
	}
	if m := s.job(id).Metrics; m.Errors != 2 || m.RecordsOut != 2 || m.Backlog != 0 {
		t.Errorf("metrics %+v", m)
	}
}
