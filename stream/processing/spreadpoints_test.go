package processing_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
)

var everySpreadFlag = flag.Int("every-spread", 200, "TestSpreadTickAtEveryPoint disturbs each so many-th proposal")

// passing are jobs whose records go from shard to shard. Their watermarks are so far behind that
// nothing is late.
var passing = func() (all []string) {
	const source = "{name: %[1]s, stream: {name: %[1]s}, event_time: $.t, watermark: {max_out_of_orderness_ms: 4000, " +
		"idle_timeout_ms: 9000}}"
	in, side := fmt.Sprintf(source, "in"), fmt.Sprintf(source, "side")
	for _, j := range [][4]string{
		{"windows", in,
			"{type: keyby, key_expression: $.k}, {name: w, type: aggregate, function: sum, field: n, window: sliding, window_size: 2, " +
				"slide: 1}," +
				"{type: keyby, key_expression: $.count}, {name: v, type: aggregate, function: sum, field: value, window: tumbling, " +
				"window_size: 4}", "{name: out, stream: {name: windows}}"},
		{"sessions", in, "{type: keyby, key_expression: $.k}, {name: s, type: aggregate, function: max, field: n, window: session, gap: 1}",
			"{name: out, stream: {name: sessions}}, {name: q, queue: {name: work}}"},
		{"sums", in,
			"{name: d, type: dedup, key: $.id}, {type: keyby, key_expression: $.k}, {name: a, type: aggregate, function: sum, field: n}",
			"{name: keys, kv: {key: $.key, key_prefix: sum, write_mode: versioned}}"},
		{"pairs", in + ", " + side,
			"{name: l, type: kv_lookup, lookup_key: \"of ${$.k}\", mode: enrich}, {name: j, type: join, source: side, on: $.k, " +
				"within_ms: 700, mode: left, enrich_field: p}",
			"{name: out, stream: {name: pairs}}"},
	} {
		all = append(all, fmt.Sprintf("name: %s\nbatch_size: 3\nsources: [%s]\noperators: [%s]\nsinks: [%s]\n", j[0], j[1], j[2], j[3]))
	}
	return all
}()

// TestSpreadTickAtEveryPoint is TestTickAtEveryPoint for jobs of a spread namespace: with records
// passed between sections, reports of the parts to their home, and savepoints of all parts.
//
//	go test -run '^TestSpreadTickAtEveryPoint$' -every-spread 1 ./stream/processing
func TestSpreadTickAtEveryPoint(t *testing.T) {
	atEveryPoint(t, *everySpreadFlag, spreadJourneyOf)
}

// spreadJourneyOf is journeyOf for jobs of a spread namespace. Their sinks have the same contents
// in any order; those of a job that was restored from a savepoint may have them twice.
func spreadJourneyOf(t *testing.T, seed uint64, at int, what mishap) (map[string]string, int) {
	t.Helper()
	s, ctx, rng := newSpread(t, 2), context.Background(), rand.New(rand.NewPCG(seed, 0))
	if err := s.streams.Create(ctx, "side", stream.Partitions(2)); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if _, err := s.keys.Put(ctx, fmt.Sprint("of k", i), []byte("1")); err != nil {
			t.Fatal(err)
		}
	}
	var jobs []processing.JobID
	for _, definition := range passing {
		jobs = append(jobs, s.submit(definition))
	}
	d := &disturbed{rig: s, at: at, what: what}
	work := func() {
		for range 3 {
			s.lead(d)
			s.Pass(200)
		}
	}
	var saved []processing.SavepointID
	for round := range 4 {
		for i := range 6 {
			id := round*6 + i - rng.IntN(2) // some are repeated
			text := fmt.Sprintf(`{"id":%d,"k":"k%d","n":%d,"t":%d}`, id, id%3, id, s.Now()-rng.Int64N(3000))
			for name, partitions := range map[string]int{"in": 8, "side": 2} {
				if _, err := s.streams.Append(ctx, name, stream.Message{Payload: []byte(text)},
					stream.Partition((round+i)%partitions)); err != nil {
					t.Fatal(err)
				}
			}
		}
		work()
		for i, id := range jobs {
			var err error
			switch {
			case round == 0 && i%2 == 0:
				var sp processing.SavepointID
				sp, err = s.jobs.Savepoints(id).Create(ctx)
				saved = append(saved, sp)
			case round == 1:
				_, err = s.jobs.Stop(ctx, id)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		work()
		if round == 1 {
			for i, id := range jobs {
				opts := []processing.RestoreOption{}
				if i%2 == 0 {
					opts = append(opts, processing.FromSavepoint(saved[i/2]))
				}
				if _, err := s.jobs.Restore(ctx, id, opts...); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.Pass(1500)
	}
	for range 3 {
		work()
		s.Pass(20_000)
	}
	work()
	got := make(map[string]string)
	for i, name := range []string{"windows", "sessions", "sums", "pairs"} {
		all := s.allOf(name)
		if slices.Sort(all); i%2 == 0 {
			all = slices.Compact(all)
		}
		j := s.job(jobs[i])
		got[name] = strings.Join(all, " ")
		got["job "+name] = fmt.Sprint(j.Status, j.Reason, j.Metrics.Errors, j.Metrics.Late, j.Metrics.Backlog, len(all) > 0 ||
			name == "sums")
	}
	st, err := s.queues.Get(ctx, "work")
	if err != nil {
		t.Fatal(err)
	}
	got["queue"] = fmt.Sprint(st.Enqueued)
	for item, err := range s.keys.All(ctx, kv.Prefix("sum")) {
		if err != nil {
			t.Fatal(err)
		}
		got["key "+item.Key] = string(item.Value)
	}
	return got, d.count
}
