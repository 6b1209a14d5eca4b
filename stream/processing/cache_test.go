package processing_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
)

const counted = `
name: counted
batch_size: 500
sources: [{ name: in, stream: { name: in, partitions: all } }]
operators:
  - { name: by, type: keyby, key_expression: $.k }
  - { name: once, type: dedup, key: $.id, ttl_ms: 3600000 }
  - { name: sum, type: aggregate, function: sum, field: n }
sinks: [{ name: out, stream: { name: out } }]
`

// feedKeys appends records of the given number of keys, each with its own id; some ids are
// repeated.
func (s *rig) feedKeys(name string, keys, rounds int) {
	s.t.Helper()
	for round := range rounds {
		var all []stream.Message
		for i := range keys {
			id := round*keys + i
			if i%10 == 9 {
				id-- // same id as the previous record
			}
			all = append(all, stream.Message{Payload: fmt.Appendf(nil, `{"k":"key-%d","id":"id-%d","n":%d}`, i*7919%keys, id, i)})
		}
		for len(all) > 0 {
			n := min(len(all), 1000)
			if _, err := s.streams.AppendMany(context.Background(), name, all[:n]); err != nil {
				s.t.Fatal(err)
			}
			all = all[n:]
		}
		s.run()
	}
}

// outOf returns all payloads of a stream.
func (s *rig) outOf(name string) (all []string) {
	s.t.Helper()
	var last stream.ID
	for {
		recs, err := s.streams.Read(context.Background(), name, stream.After(last), stream.Limit(1000))
		if err != nil {
			s.t.Fatal(err)
		}
		for _, r := range recs {
			all, last = append(all, string(r.Payload)), r.ID
		}
		if len(recs) < 1000 {
			return all
		}
	}
}

// TestCaches: the output of a job does not depend on how much of its state is cached. The caches of
// all jobs together never exceed the node's bound.
func TestCaches(t *testing.T) {
	const keys = 4000
	var want []string
	for _, bound := range []int{1 << 40, 1 << 20, 64 << 10, 0} {
		table, _, remembered := processing.Observed(bound)
		s := newStageOf(t, 1, table)
		ids := []processing.JobID{s.submit(counted),
			s.submit(strings.NewReplacer("name: counted", "name: other", "{ name: out }", "{ name: out2 }").Replace(counted))}
		s.feedKeys("in", keys, 2)
		got := s.outOf("out")
		if want == nil {
			want = got
		}
		if len(got) != 2*keys*9/10 {
			t.Errorf("bound %d: %d records, want %d", bound, len(got), 2*keys*9/10)
		}
		for _, name := range []string{"out", "out2"} {
			if strings.Join(s.outOf(name), "\n") != strings.Join(want, "\n") {
				t.Errorf("bound %d: stream %s holds other records", bound, name)
			}
		}
		most := 0
		for range 3 {
			s.append("in", `{"k":"a","id":"`+fmt.Sprint(most)+`","n":1}`)
			s.duties(bed{asleep: func(<-chan struct{}, int64) { most = max(most, remembered()) }})
		}
		if most > bound {
			t.Errorf("%d bytes are remembered, %d are allowed", most, bound)
		}
		if n := remembered(); n != 0 {
			t.Errorf("%d bytes are remembered of tasks that have ended", n)
		}
		for _, id := range ids {
			if _, err := s.jobs.Cancel(context.Background(), id); err != nil {
				t.Fatal(err)
			}
		}
	}
}
