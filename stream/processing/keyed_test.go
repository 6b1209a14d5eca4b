package processing_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
)

// sale is a record of the stream in.
type sale struct {
	Who string `json:"who"`
	TS  int64  `json:"ts"`
	N   int64  `json:"n"`
}

// sell appends sales to a stream. Their partition is independent of the key by which they are
// summed.
func (s *rig) sell(name string, sales ...sale) {
	s.t.Helper()
	for _, v := range sales {
		payload, err := json.Marshal(v)
		if err == nil {
			_, err = s.streams.Append(context.Background(), name, stream.Message{Key: fmt.Sprint(v.N), Payload: payload},
				stream.Partition(int(v.N%8)))
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// window is the output of an aggregate.
type window struct {
	Key          string
	Value, Count int64
	Start        int64 `json:"window_start"`
	End          int64 `json:"window_end"`
}

func compareWindows(a, b window) int {
	return cmp.Or(cmp.Compare(a.End, b.End), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value))
}

// windowsOf returns the windows in a stream of four partitions, in order.
func (s *rig) windowsOf(name string) (all []window) {
	s.t.Helper()
	for p := range 4 {
		recs, err := s.streams.Read(context.Background(), name, stream.Partition(p), stream.Limit(1000))
		if err != nil {
			s.t.Fatal(err)
		}
		for _, r := range recs {
			var w window
			if err := json.Unmarshal(r.Payload, &w); err != nil || r.Key != w.Key {
				s.t.Fatalf("%s: %s, %v", r.Key, r.Payload, err)
			}
			all = append(all, w)
		}
	}
	slices.SortFunc(all, compareWindows)
	return all
}

// summedUp computes the expected tumbling windows of sales in the simplest way.
func summedUp(sales []sale, size int64) (all []window) {
	for _, v := range sales {
		end := v.TS/size*size + size
		i := slices.IndexFunc(all, func(w window) bool { return w.Key == v.Who && w.End == end })
		if i < 0 {
			i = len(all)
			all = append(all, window{Key: v.Who, Start: end - size, End: end})
		}
		all[i].Value, all[i].Count = all[i].Value+v.N, all[i].Count+1
	}
	slices.SortFunc(all, compareWindows)
	return all
}

const keyedSums = `
name: sums
batch_size: 3
sources:
  - name: sales
    stream: { name: in }
    event_time: $.ts
    watermark: { max_out_of_orderness_ms: 2000, idle_timeout_ms: 30000 }
operators:
  - { type: keyby, key_expression: $.who }
  - { name: total, type: aggregate, function: sum, field: n, window: tumbling, window_size: 10 }
sinks:
  - { name: out, stream: { name: copy } }
`

// TestSpreadWindows: the records of a key meet in one shard, whatever partition they come from.
// Windows fire when all shards have reached their end, and the last ones when all are idle.
func TestSpreadWindows(t *testing.T) {
	s := newSpread(t, 4)
	id := s.submit(keyedSums)
	base := s.Now() / 10_000 * 10_000
	var sales []sale
	for i := range int64(300) {
		sales = append(sales, sale{fmt.Sprint("w", i*7%11), base + i*100 - i*37%2000, i})
	}
	s.sell("in", sales...)
	s.pass()
	early := s.windowsOf("copy")
	if len(early) == 0 || early[len(early)-1].End > base+30_000 {
		t.Errorf("%d windows have fired: %+v", len(early), early)
	}
	s.Restart()
	s.end()
	if got, want := s.windowsOf("copy"), summedUp(sales, 10_000); !slices.Equal(got, want) {
		t.Errorf("windows %+v, want %+v", got, want)
	}
	if m := s.job(id).Metrics; m.RecordsIn != 300 || m.Late != 0 || m.Errors != 0 || m.Backlog != 0 {
		t.Errorf("metrics %+v", m)
	}
}

// pass lets leaders work, and time pass, until stages have exchanged their progress.
func (s *rig) pass() {
	for range 6 {
		s.Advance(200)
	}
}

// disturbed sells at random to both streams while leaders of all shards lose commands, get no
// responses and change, and messages between the shards are late. It returns the sales. No
// partition is idle meanwhile, so that nothing is late. end lets time pass until nothing is left to
// fire.
func (s *rig) disturbed(rng *rand.Rand, shards, rounds int) (sales, visits []sale) {
	s.t.Helper()
	base := s.Now() / 10_000 * 10_000
	sell := func(name string, all *[]sale, at int64) {
		n := int64(len(*all))
		*all = append(*all, sale{fmt.Sprint("w", rng.IntN(9)), at, n})
		s.sell(name, (*all)[n])
	}
	for range 8 {
		sell("in", &sales, base)
		sell("visits", &visits, base)
	}
	s.pass()
	for i := range int64(rounds) {
		for range rng.IntN(8) {
			sell("in", &sales, base+i*1000-rng.Int64N(2000))
		}
		for range rng.IntN(3) {
			sell("visits", &visits, base+i*1000-rng.Int64N(2000))
		}
		s.disturb(rng, shards)
	}
	s.pass()
	return sales, visits
}

func (s *rig) end() {
	for range 3 {
		s.Advance(60_000)
		s.pass()
	}
}

// TestSpreadWindowsExactlyOnce: windows over keys of all shards are the same whatever happens to
// leaders and messages.
func TestSpreadWindowsExactlyOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(machinetest.Seed(t), 1))
	s := newSpread(t, 3)
	if err := s.streams.Create(t.Context(), "visits", stream.Partitions(8)); err != nil {
		t.Fatal(err)
	}
	id := s.submit(keyedSums)
	sales, _ := s.disturbed(rng, 3, 40)
	s.end()
	if got, want := s.windowsOf("copy"), summedUp(sales, 10_000); !slices.Equal(got, want) {
		t.Errorf("windows %+v, want %+v", got, want)
	}
	if m := s.job(id).Metrics; m.RecordsIn != int64(len(sales)) || m.Late != 0 || m.Errors != 0 || m.Backlog != 0 {
		t.Errorf("metrics %+v", m)
	}
}

const keyedChain = `
name: chain
batch_size: 3
sources:
  - name: sales
    stream: { name: in }
    event_time: $.ts
    watermark: { max_out_of_orderness_ms: 2000, idle_timeout_ms: 30000 }
%s
operators:
  - { type: keyby, key_expression: $.who }
%s
sinks:
  - { name: out, stream: { name: copy } }
`

const keyedVisits = `
  - name: visits
    stream: { name: visits }
    event_time: $.ts
    watermark: { max_out_of_orderness_ms: 2000, idle_timeout_ms: 30000 }
`

// TestSpreadAsOneShard: stages over all shards produce the same output as a job in one shard.
func TestSpreadAsOneShard(t *testing.T) {
	for name, test := range map[string]struct{ sources, operators string }{
		"sliding": {"", "  - { name: total, type: aggregate, function: avg, field: n, window: sliding, window_size: 6, slide: 4 }"},
		"session": {"", "  - { name: total, type: aggregate, function: max, field: n, window: session, gap: 1 }"},
		"two windows": {"", `
  - { name: total, type: aggregate, function: sum, field: n, window: tumbling, window_size: 3 }
  - { type: keyby, key_expression: $.count }
  - { name: again, type: aggregate, function: sum, field: value, window: tumbling, window_size: 6 }`},
		"dedup between": {"", `
  - { name: once, type: dedup, key: "expr: string(floor(ts / 300)) + who" }
  - { type: map, who: $.who }
  - { name: each, type: aggregate, function: count, window: tumbling, window_size: 3 }
  - { name: first, type: dedup, key: $.key }
  - { type: map, who: $.key }`},
		"lookup": {"", `
  - { name: user, type: kv_lookup, lookup_key: "user:${$.who}", on_missing: drop, enrich_field: user }
  - { name: known, type: kv_lookup, namespace: m, lookup_key: $.who, mode: filter }
  - { name: total, type: aggregate, function: sum, field: n, window: tumbling, window_size: 3 }
  - { name: again, type: kv_lookup, lookup_key: "user:${$.key}", mode: enrich, on_missing: fail }`},
		"join": {keyedVisits, `
  - { name: met, type: join, source: visits, on: $.who, within_ms: 700, mode: left }
  - { type: keyby, key_expression: $.n }
  - { name: each, type: aggregate, function: count, window: tumbling, window_size: 5 }`},
		"join behind": {keyedVisits, `
  - { name: total, type: aggregate, function: sum, field: n, window: tumbling, window_size: 2 }
  - { type: map, who: $.key, total: $.value }
  - { name: met, type: join, source: visits, on: $.who, within_ms: 700 }`},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(machinetest.Seed(t), 2))
			definition := fmt.Sprintf(keyedChain, test.sources, test.operators)
			s, ctx := newSpread(t, 3), context.Background()
			if err := s.streams.Create(ctx, "visits", stream.Partitions(8)); err != nil {
				t.Fatal(err)
			}
			one := newRig(t, 1)
			for _, s := range []*rig{s, one} {
				apart := engine.StoreOf[kv.Store](s.Router(), "m", 1<<20)
				for i := range 8 { // of nine
					_, err := s.keys.Put(ctx, fmt.Sprint("user:w", i), fmt.Appendf(nil, `{"u":%d}`, i))
					if err == nil && i%3 > 0 {
						_, err = apart.Put(ctx, fmt.Sprint("w", i), nil)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			id := s.submit(definition)
			sales, visits := s.disturbed(rng, 3, 20)
			s.end()
			for name, partitions := range map[string]int{"in": 8, "visits": 8, "copy": 4} {
				if err := one.streams.Create(ctx, name, stream.Partitions(partitions)); err != nil {
					t.Fatal(err)
				}
			}
			one.sell("in", sales...)
			one.sell("visits", visits...)
			alone := one.submit(definition)
			one.end()
			got, want := s.sorted("copy"), one.sorted("copy")
			if !slices.Equal(got, want) || len(want) == 0 {
				t.Errorf("the sink holds %d: %s\nwant %d: %s", len(got), got, len(want), want)
			}
			if m, w := s.job(id).Metrics, one.job(alone).Metrics; m.RecordsIn != w.RecordsIn || m.RecordsOut != w.RecordsOut ||
				m.Late != w.Late || m.Dropped != w.Dropped || m.Errors != 0 || m.Backlog != 0 {
				t.Errorf("metrics %+v, want %+v", m, w)
			}
		})
	}
}

// TestSpreadExchangeFull: a blocked stage takes no more than its exchange holds. The stages before
// it then hold, and nothing is lost.
func TestSpreadExchangeFull(t *testing.T) {
	s, ctx := newSpread(t, 2), context.Background()
	if err := s.queues.Configure(ctx, "work", queue.Settings{MaxLen: 1}); err != nil {
		t.Fatal(err)
	}
	// The records and the queue are in one shard.
	id := s.submit(`
name: counts
sources: [{name: in, stream: {name: in}}]
operators: [{type: keyby, key_expression: "expr: '{work}' + who"}, {name: counted, type: aggregate, function: count}]
sinks: [{queue: {name: work}}]
`)
	const n, size = 26, 1_000_000
	pad := strings.Repeat("x", size)
	for i := range n {
		if _, err := s.streams.Append(ctx, "in", stream.Message{Payload: fmt.Appendf(nil, `{"who":"w%d","pad":%q}`, i%3, pad)},
			stream.Partition(i%8)); err != nil {
			t.Fatal(err)
		}
	}
	s.pass()
	if m := s.job(id).Metrics; m.RecordsIn == n || m.Backlog == 0 {
		t.Errorf("metrics %+v", m)
	}
	for i := range 8 {
		if _, err := s.streams.Append(ctx, "in", stream.Message{Payload: []byte(`{"who":"w0"}`)}, stream.Partition(i)); err != nil {
			t.Fatal(err)
		}
	}
	behind := int64(0)
	_, duty := processing.Lane(id)
	for shard := range 2 {
		// The number is that of this shard alone, the only one with a leader here.
		s.duty(shard, duty, bed{asleep: func(<-chan struct{}, int64) { behind += s.job(id).Metrics.RecordsBehind }})
	}
	if m := s.job(id).Metrics; m.RecordsIn+behind != n+8 {
		t.Errorf("metrics %+v, and %d behind of %d records", m, behind, n+8)
	}
	for shard := range engine.ShardID(2) {
		waiting := make(map[string]int)
		for _, row := range s.Rows(shard) {
			if stage, ok := processing.MessageOf(row); ok {
				waiting[stage] += len(row.Value)
			}
		}
		for stage, bytes := range waiting {
			if bytes > processing.MaxExchangeBytes+2*size {
				t.Errorf("shard %d, stage %x: an exchange holds %d bytes", shard, stage, bytes)
			}
		}
	}
	if err := s.queues.Configure(ctx, "work", queue.Settings{MaxLen: n + 8}); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		s.Advance(3000)
	}
	if st, err := s.queues.Get(ctx, "work"); err != nil || st.Enqueued != n+8 {
		t.Errorf("queue %+v, %v, want %d messages", st, err, n+8)
	}
	if m := s.job(id).Metrics; m.RecordsIn != n+8 || m.Errors != 0 {
		t.Errorf("metrics %+v", m)
	}
}

// TestSpreadEnd: a bounded job with stages is completed when the last stage has processed
// everything that the first ones have read. Restored, it continues like a job in one shard.
func TestSpreadEnd(t *testing.T) {
	definition := strings.Replace(keyedSums, "name: sums\n", "name: sums\nstop_at: latest\n", 1)
	s, one, ctx := newSpread(t, 4), newRig(t, 1), context.Background()
	var sales []sale
	for i := range int64(100) {
		sales = append(sales, sale{fmt.Sprint("w", i*7%11), s.Now() + i*300 - i*37%2000, i})
	}
	if err := errors.Join(one.streams.Create(ctx, "in", stream.Partitions(8)),
		one.streams.Create(ctx, "copy", stream.Partitions(4))); err != nil {
		t.Fatal(err)
	}
	var ids []processing.JobID
	for _, s := range []*rig{s, one} {
		s.sell("in", sales[:80]...)
		id := s.submit(definition)
		s.pass()
		if j := s.job(id); j.Status != processing.Completed || j.Metrics.RecordsIn != 80 {
			t.Errorf("job %+v", j)
		}
		if got, want := s.windowsOf("copy"), summedUp(sales[:80], 10_000); !slices.Equal(got, want) {
			t.Errorf("windows %+v, want %+v", got, want)
		}
		s.sell("in", sales[80:]...)
		if _, err := s.jobs.Restore(ctx, id); err != nil {
			t.Fatal(err)
		}
		s.pass()
		ids = append(ids, id)
	}
	// A window that was open at the first end has each of its records once.
	want := slices.Concat(summedUp(sales[:80], 10_000), summedUp(sales[80:], 10_000))
	slices.SortFunc(want, compareWindows)
	for i, s := range []*rig{s, one} {
		if j := s.job(ids[i]); j.Status != processing.Completed || j.Metrics.RecordsIn != 100 || j.Metrics.Late != 0 {
			t.Errorf("job %+v", j)
		}
		if got := s.windowsOf("copy"); !slices.Equal(got, want) {
			t.Errorf("windows %+v, want %+v", got, want)
		}
	}
}

// TestSpreadEdited: an operator kept by another definition still gets all records passed to it
// before; those for a removed operator are dropped.
func TestSpreadEdited(t *testing.T) {
	s, ctx := newSpread(t, 3), context.Background()
	twice := strings.Replace(keyedSums, "sinks:", "  - { name: once, type: dedup, key: \"expr: string(window_end) + key\" }\nsinks:", 1)
	id := s.submit(twice)
	base := s.Now() / 10_000 * 10_000
	var sales []sale
	for i := range int64(90) {
		sales = append(sales, sale{fmt.Sprint("w", i*7%11), base + i*300 - i*37%2000, i})
	}
	s.sell("in", sales[:60]...)
	s.Hold(true)
	for shard := range engine.ShardID(3) {
		s.leadApart(shard)
	}
	if _, err := s.jobs.Stop(canceled(), id); err == nil {
		t.Fatal("a shard has heard of what was not delivered")
	}
	s.Hold(false)
	edited := strings.Replace(keyedSums, "  - { name: total", "  - { type: filter, condition: \"json:$.n>=0\" }\n  - { name: total", 1)
	if _, err := s.jobs.Restore(ctx, id, processing.ReplaceDefinition([]byte(edited)), processing.DropState()); err != nil {
		t.Fatal(err)
	}
	s.sell("in", sales[60:]...)
	s.pass()
	s.Restart()
	s.end()
	if got, want := s.windowsOf("copy"), summedUp(sales, 10_000); !slices.Equal(got, want) {
		t.Errorf("windows %+v, want %+v", got, want)
	}
	if m := s.job(id).Metrics; m.RecordsIn != 90 || m.Late != 0 || m.Backlog != 0 {
		t.Errorf("metrics %+v", m)
	}
	if _, err := s.jobs.Cancel(ctx, id); err != nil {
		t.Fatal(err)
	}
	s.Advance(8 * 24 * 60 * 60 * 1000)
	n := 0
	s.Replay(func() int { n++; return 1 + n%7 }, func() bool { return n%3 == 0 })
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// TestSpreadSavepoint: a savepoint represents one moment in all shards, whatever happens to leaders
// and messages. A job restored from it, with another definition too, emits the windows not yet
// emitted at that moment, each with each of its records once. Messages in flight at the restore no
// longer count.
func TestSpreadSavepoint(t *testing.T) {
	for name, more := range map[string]string{"one stage": "",
		"two": "  - { name: longer, type: aggregate, function: sum, field: value, window: tumbling, window_size: 20 }\n"} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(machinetest.Seed(t), 3))
			s, ctx := newSpread(t, 3), context.Background()
			definition := strings.Replace(keyedSums, "sinks:", more+"sinks:", 1)
			id, base := s.submit(definition), s.Now()/20_000*20_000
			var sales []sale
			sell := func() {
				n := int64(len(sales))
				sales = append(sales, sale{fmt.Sprint("w", rng.IntN(9)), base + n*200 - rng.Int64N(2000), n})
				s.sell("in", sales[n])
			}
			for range 8 {
				sell()
			}
			s.pass()
			for round := range 30 {
				for range 1 + rng.IntN(6) {
					sell()
				}
				if round == 14 {
					_, _ = s.jobs.Savepoints(id).Create(canceled())
				}
				s.disturb(rng, 3)
			}
			s.pass()
			d, err := s.jobs.Get(ctx, id)
			if err != nil || len(d.Savepoints) != 1 || !d.Savepoints[0].Complete {
				t.Fatalf("savepoints %+v, %v", d.Savepoints, err)
			}
			sp := d.Savepoints[0]
			if sp.RecordsProcessed < 8 || sp.RecordsProcessed >= int64(len(sales)) || sp.Bytes == 0 {
				t.Errorf("savepoint %+v of %d records", sp, len(sales))
			}
			for range 30 {
				sell()
			}
			s.Hold(true)
			for shard := range engine.ShardID(3) {
				s.leadApart(shard)
			}
			_, _ = s.jobs.Stop(canceled(), id)
			edited := strings.Replace(definition, "  - { name: total",
				"  - { type: filter, condition: \"json:$.n>=0\" }\n  - { name: total", 1)
			_, _ = s.jobs.Restore(canceled(), id, processing.FromSavepoint(sp.ID), processing.ReplaceDefinition([]byte(edited)))
			s.Hold(false)
			for range 20 {
				s.disturb(rng, 3)
			}
			s.pass()
			s.end()
			want := summedUp(sales, 10_000)
			if more != "" {
				var windows []sale
				for _, w := range want {
					windows = append(windows, sale{w.Key, w.End - 1, w.Value})
				}
				want = summedUp(windows, 20_000)
			}
			got := s.windowsOf("copy")
			for i := 2; i < len(got); i++ {
				if got[i] == got[i-2] {
					t.Errorf("window %+v is there more than twice, before and after the restore", got[i])
				}
			}
			if got = slices.Compact(got); !slices.Equal(got, want) {
				t.Errorf("windows %+v, want %+v", got, want)
			}
			if j := s.job(id); j.Status != processing.Running || j.Metrics.Late != 0 || j.Metrics.Errors != 0 || j.Metrics.Backlog != 0 {
				t.Errorf("job %+v", j)
			}
			n := 0
			s.Replay(func() int { n++; return 1 + n%7 }, func() bool { return n%3 == 0 })
		})
	}
}

// TestSpreadSavepointHolds: while a savepoint is made the job reports that it is paused, and cannot
// be restored; it continues when the savepoint is dropped. It cannot be stopped while it is being
// restored from one.
func TestSpreadSavepointHolds(t *testing.T) {
	s, ctx := newSpread(t, 3), context.Background()
	id := s.submit(fanned)
	s.give(0, 40)
	s.settle()
	first, err := s.jobs.Savepoints(id).Create(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s.settle()
	s.give(40, 20)
	s.Hold(true)
	_, _ = s.jobs.Savepoints(id).Create(canceled())
	if j := s.job(id); !j.Held || !strings.Contains(j.Reason, "savepoint") || j.Status != processing.Running {
		t.Errorf("job %+v", j)
	}
	_, _ = s.jobs.Stop(canceled(), id)
	if _, err := s.jobs.Restore(ctx, id); !errors.Is(err, engine.ErrBusy) {
		t.Errorf("Restore while a savepoint is made: %v", err)
	}
	d, err := s.jobs.Get(ctx, id)
	if err != nil || len(d.Savepoints) != 2 || d.Savepoints[0].ID != first || !d.Savepoints[0].Complete || d.Savepoints[1].Complete {
		t.Fatalf("savepoints %+v, %v", d.Savepoints, err)
	}
	_ = s.jobs.Savepoints(id).Delete(canceled(), d.Savepoints[1].ID)
	s.Hold(false)
	if _, err := s.jobs.Restore(ctx, id); err != nil {
		t.Fatal(err)
	}
	s.settle()
	s.given(60)
	if _, err := s.jobs.Stop(ctx, id); err != nil {
		t.Fatal(err)
	}
	s.Hold(true)
	_, _ = s.jobs.Restore(canceled(), id, processing.FromSavepoint(first))
	if _, err := s.jobs.Stop(ctx, id); !errors.Is(err, engine.ErrBusy) {
		t.Errorf("Stop while the job is being restored: %v", err)
	}
	s.Hold(false)
	s.settle()
	if j := s.job(id); j.Status != processing.Running || j.Held || j.Metrics.RecordsIn != 80 || j.Metrics.Backlog != 0 {
		t.Errorf("job %+v", j)
	}
	if st, err := s.queues.Get(ctx, "work"); err != nil || st.Enqueued != 80 {
		t.Errorf("queue %+v, %v, want what came behind the savepoint once more", st, err)
	}
}

// TestSpreadIdle: idle stages send each other nothing and write nothing, however long they are
// idle.
func TestSpreadIdle(t *testing.T) {
	s := newSpread(t, 3)
	s.submit(strings.Replace(keyedSums, "sinks:",
		"  - { name: once, type: dedup, key: $.key }\n  - { name: more, type: aggregate, function: count, window: session, gap: 5 }\nsinks:", 1))
	var sales []sale
	for i := range int64(50) {
		sales = append(sales, sale{fmt.Sprint("w", i%11), s.Now() + i*300, i})
	}
	s.sell("in", sales...)
	s.pass()
	s.end()
	entries := func() (n int) {
		for shard := range engine.ShardID(3) {
			n += len(s.Log(shard))
		}
		return n
	}
	before := entries()
	for range 20 {
		s.Advance(60_000)
	}
	if n := entries() - before; n > 0 {
		t.Errorf("idle sections have written %d entries", n)
	}
	if got := len(s.sorted("copy")); got != 11 {
		t.Errorf("the sink holds %d sessions, want one for each key", got)
	}
}

// sorted returns the payloads of a stream of four partitions, in their order.
func (s *rig) sorted(name string) (all []string) {
	s.t.Helper()
	for p := range 4 {
		recs, err := s.streams.Read(context.Background(), name, stream.Partition(p), stream.Limit(1000))
		if err != nil {
			s.t.Fatal(err)
		}
		for _, r := range recs {
			all = append(all, string(r.Payload))
		}
	}
	slices.Sort(all)
	return all
}

// disturb lets the leader of one of the shards work a little, with a flaky log and late messages.
func (s *rig) disturb(rng *rand.Rand, shards int) {
	s.Hold(rng.IntN(2) == 0)
	shard := engine.ShardID(rng.IntN(shards))
	d := &flaky{rig: s, shard: shard, rng: rng, left: rng.IntN(5)}
	for _, duty := range s.Executor(shard).Duties(1, func() engine.LeadDoor { return d }) {
		_ = duty.Run(context.Background(), duty.Lead)
	}
	if rng.IntN(5) == 0 {
		s.Restart()
	}
	s.Pass(int64(rng.IntN(300)))
	s.Hold(false)
	if rng.IntN(3) == 0 {
		s.Deliver()
	}
}
