package processing_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
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

// TestFailedRecord: a job that fails on a record names the record, its partition and its offset, in
// lists too, after a restart, and on each replica. It does so if the part of another shard fails,
// and if the record has passed to another stage. A restore clears the failure.
func TestFailedRecord(t *testing.T) {
	const definition = `
name: strict%d
on_error: fail
sources: [{name: orders, stream: {name: %s}}]
operators: [%s{ name: positive, type: filter, condition: "expr: n > 0" }]
sinks: [{name: out, stream: {name: out}}]
`
	for name, c := range map[string]struct {
		shards    int
		spread    bool
		operators string
	}{
		"alone":         {1, false, ""},
		"spread":        {4, true, ""},
		"spread, keyed": {4, true, "{ type: keyby, key_expression: $.k }, { type: dedup, key: $.k }, "},
	} {
		t.Run(name, func(t *testing.T) {
			s, ctx := newRig(t, c.shards), t.Context()
			if c.spread {
				s = newSpread(t, c.shards)
			}
			var jobs []processing.JobID
			var bad []stream.Appended
			for p := range 8 { // the partition of some job is in a shard other than its home
				in := fmt.Sprint("in", p)
				if err := s.streams.Create(ctx, in, stream.Partitions(8)); err != nil {
					t.Fatal(err)
				}
				jobs = append(jobs, s.submit(fmt.Sprintf(definition, p, in, c.operators)))
				for i, n := range []string{"1", `"x"`, "1"} {
					at, err := s.streams.Append(ctx, in, stream.Message{Payload: fmt.Appendf(nil, `{"k":%d,"n":%s}`, p+i, n)}, stream.Partition(p))
					if err != nil {
						t.Fatal(err)
					}
					if i == 1 {
						bad = append(bad, at)
					}
				}
			}
			s.settle()
			check := func() {
				t.Helper()
				page, err := s.jobs.Page(ctx)
				if err != nil || len(page.Items) != len(jobs) {
					t.Fatalf("%d jobs, %v", len(page.Items), err)
				}
				for p, id := range jobs {
					want := processing.Failure{
						Operator: "positive", Source: "orders", Stream: fmt.Sprint("in", p), Partition: p,
						RecordID: bad[p].ID, Offset: bad[p].Offset,
					}
					for _, j := range append(page.Items[p:p+1:p+1], s.job(id)) {
						if j.Failure == nil || j.Status != processing.Failed || j.Reason != "positive: "+j.Failure.Reason {
							t.Fatalf("job %+v", j)
						}
						if want.Reason = j.Failure.Reason; *j.Failure != want || want.Reason == "" {
							t.Errorf("failure %+v, want %+v", *j.Failure, want)
						}
					}
				}
			}
			check()
			s.Restart()
			check()
			if _, err := s.jobs.Restore(ctx, jobs[0]); err != nil {
				t.Fatal(err)
			}
			if j := s.job(jobs[0]); j.Failure != nil || j.Reason != "" || j.Status != processing.Running {
				t.Errorf("restored: %+v", j)
			}
			if !c.spread {
				machinetest.EqualReplicas(t, s.Log(0), tables(), machinetest.Replica{},
					machinetest.Replica{Name: "restarts", Commit: 1, Restart: 3})
			}
		})
	}
}
