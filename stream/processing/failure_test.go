package processing_test

import (
	"context"
	"testing"

	"github.com/floedb/floe/stream/processing"
)

// TestRawFailures: what an operator fails on is told as it came from its source, not as the operators in front have left it, with the name of the operator and the reason.
func TestRawFailures(t *testing.T) {
	s := newStage(t, 1)
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
	if err != nil || len(recs) != 1 || string(recs[0].Payload) != raw || recs[0].Headers["floe-operator"] != "user" || recs[0].Headers["floe-error"] == "" {
		t.Errorf("errors: %+v, %v", recs, err)
	}
	if m := s.job(id).Metrics; m.RecordsIn != 2 || m.Errors != 1 {
		t.Errorf("metrics %+v", m)
	}
}
