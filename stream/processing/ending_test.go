package processing_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
	"github.com/floedb/floe/ts"
)

var endingsFlag = flag.Int("endings", 20, "random lives of TestSpreadStoppedAndRestored")

// bounded returns the definition of a bounded job with small steps.
func bounded(definition string) string {
	return "stop_at: latest\n" + strings.Replace(definition, "batch_size: 3", "batch_size: 1", 1)
}

// TestStoppedWhileItEnds: a bounded job is stopped while it fires its last windows, and then
// restored. It reads the records appended meanwhile, like a job that had completed before. It used
// to complete with the last of those windows. In a spread namespace the output of earlier stages
// then stayed in the exchanges.
func TestStoppedWhileItEnds(t *testing.T) {
	for name, s := range map[string]*rig{"one shard": newRig(t, 1), "spread": newSpread(t, 3)} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			if s.Shards() == 1 {
				if err := errors.Join(s.streams.Create(ctx, "in", stream.Partitions(8)),
					s.streams.Create(ctx, "copy", stream.Partitions(4))); err != nil {
					t.Fatal(err)
				}
			}
			base := s.Now() / 10_000 * 10_000
			var sales []sale
			for i := range int64(320) {
				sales = append(sales, sale{fmt.Sprint("w", i), base + i, i})
			}
			s.sell("in", sales[:300]...)
			id, stopped := s.submit(bounded(keyedSums)), false
			for range 20 {
				for shard := range s.Shards() {
					s.duty(shard, "", bed{proposed: func() {
						if j := s.job(id); j.Status == processing.Running && j.Metrics.RecordsOut > 0 {
							_, _ = s.jobs.Stop(canceled(), id) // other shards receive it later
							stopped = true
						}
					}})
				}
				s.Deliver()
				s.Pass(200)
			}
			if j := s.job(id); !stopped || j.Status != processing.Stopped || j.Metrics.RecordsOut >= 300 {
				t.Fatalf("job %+v", j)
			}
			s.sell("in", sales[300:]...)
			if _, err := s.jobs.Restore(ctx, id); err != nil {
				t.Fatal(err)
			}
			s.pass()
			j := s.job(id)
			if m := j.Metrics; j.Status != processing.Completed || m.Backlog != 0 || m.RecordsIn != 320 || m.RecordsOut != 320 ||
				m.Operators[1].In != 320 || m.Late != 0 {
				t.Errorf("job %+v", j)
			}
			if got, want := s.windowsOf("copy"), summedUp(sales, 10_000); !slices.Equal(got, want) {
				t.Errorf("windows %+v, want %+v", got, want)
			}
		})
	}
}

// TestSpreadStoppedAndRestored: a bounded job is stopped and restored any number of times, while
// its leaders and messages fail. It is completed when each record that it had to read has passed
// all of its operators and each window has been written once. Nothing is then left in flight.
//
//	go test -run '^TestSpreadStoppedAndRestored$' -endings 10000 ./stream/processing
func TestSpreadStoppedAndRestored(t *testing.T) {
	seed := machinetest.Seed(t)
	for i := range *endingsFlag {
		if !t.Run(fmt.Sprint(i), func(t *testing.T) { endings(t, rand.New(rand.NewPCG(seed, uint64(i)))) }) {
			return
		}
	}
}

func endings(t *testing.T, rng *rand.Rand) {
	s := newSpread(t, 3)
	definition := bounded(keyedSums)
	more := rng.IntN(2) == 0
	if more {
		definition = strings.Replace(definition, "sinks:",
			"  - { type: keyby, key_expression: $.count }\n  - { name: once, type: dedup, key: \"expr: string(window_end) + key\" }\n"+
				"  - { name: longer, type: aggregate, function: sum, field: value, window: session, gap: 5 }\nsinks:", 1)
	}
	keys, step := 1000, int64(20) // all windows fire at the end, in many steps
	if rng.IntN(3) == 0 {
		keys, step = 40, 300 // some fire earlier
	}
	base := s.Now() / 10_000 * 10_000
	var sales []sale
	sell := func(n int) {
		from := int64(len(sales))
		for i := from; i < from+int64(n); i++ {
			sales = append(sales, sale{fmt.Sprint("w", rng.IntN(keys)), base + i*step - rng.Int64N(2000), i})
		}
		s.sell("in", sales[from:]...)
	}
	sell(100 + rng.IntN(100))
	id, due := s.submit(definition), len(sales)
	late := rng.IntN(2) == 0 // some arrive while it does not run, maybe after its event time has ended
	for lives := rng.IntN(12); lives > 0; {
		s.disturb(rng, 3)
		if rng.IntN(4) > 0 {
			continue
		}
		lives--
		if s.job(id).Status == processing.Running {
			_, _ = s.jobs.Stop(canceled(), id)
		}
		if late && rng.IntN(3) == 0 {
			sell(rng.IntN(6))
		}
		if rng.IntN(3) == 0 {
			s.disturb(rng, 3)
		}
		var opts []processing.RestoreOption
		if rng.IntN(4) == 0 {
			opts = append(opts, processing.ReplaceDefinition([]byte("description: again\n"+definition)))
		}
		if _, err := s.jobs.Restore(canceled(), id, opts...); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		due = len(sales)
	}
	s.pass()
	j := s.job(id)
	if j.Status != processing.Completed || j.Metrics.Backlog != 0 || j.Metrics.RecordsIn != int64(due) || j.Metrics.Errors != 0 {
		t.Errorf("job %+v, has %d records to read", j, due)
	}
	for i, o := range j.Metrics.Operators {
		if before := max(i-1, 0); o.In != j.Metrics.RecordsIn && o.In != j.Metrics.Operators[before].Out {
			t.Errorf("operator %s has had %d records of %d: %+v", o.Name, o.In, j.Metrics.Operators[before].Out, j.Metrics.Operators)
		}
	}
	if got, want := s.windowsOf("copy"), summedUp(sales, 10_000); !late && !more && !slices.Equal(got, want) {
		t.Errorf("windows %+v, want %+v", got, want)
	}
	for shard := range engine.ShardID(3) {
		for _, row := range s.Rows(shard) {
			if exchange, ok := processing.MessageOf(row); ok {
				t.Errorf("shard %d: there is a message in exchange %x", shard, exchange)
			}
		}
	}
}

// TestSpreadEndIsQuiet: a part of a bounded job that has read everything writes nothing while
// others have not, even with empty partitions or late points. It used to write steps endlessly.
func TestSpreadEndIsQuiet(t *testing.T) {
	ctx := context.Background()
	work := func(s *rig, what string) {
		t.Helper()
		for shard := range 2 { // of 3: the job is not completed
			n := 0
			s.duty(shard, "", bed{refuse: func(engine.Command) error {
				if n++; n > 20 {
					return engine.Errorf(engine.ErrBusy, "it has written enough")
				}
				return nil
			}})
			if n > 20 {
				t.Errorf("%s: shard %d writes on and on", what, shard)
			}
		}
	}
	for partition := range int64(8) {
		s := newSpread(t, 3)
		s.sell("in", sale{"w", 0, partition})
		s.submit(bounded(keyedSums))
		work(s, fmt.Sprintf("a record in partition %d", partition))
	}
	s := newSpread(t, 3)
	old := time.UnixMilli(s.Now())
	write := func() {
		t.Helper()
		for i := range 30 {
			point := ts.Point{Measurement: "cpu", Tags: map[string]string{"host": fmt.Sprint(i)}, Fields: map[string]float64{"value": 1},
				Time: old}
			if _, err := s.series.Write(ctx, point); err != nil {
				t.Fatal(err)
			}
		}
		old = old.Add(time.Millisecond)
	}
	write()
	s.Pass(20_000)
	id := s.submit("name: x\nstop_at: latest\nsources: [{name: cpu, ts: {measurement: cpu}}]\noperators: [{name: n, type: aggregate, " +
		"function: count}]\nsinks: [{name: out, stream: {name: copy}}]\n")
	work(s, "points")
	write()
	work(s, "late points")
	if t.Failed() {
		return // it would never complete
	}
	s.Pass(5000) // the delay of the source
	s.pass()
	if j := s.job(id); j.Status != processing.Completed || j.Metrics.Missed == 0 || j.Metrics.RecordsIn+j.Metrics.Missed > 60 {
		t.Errorf("job %+v", j)
	}
}

// TestSeriesEnd: a job over a time series with stop_at: latest reads all points that existed when
// it was submitted or last restored, including those younger than the delay of the source. It used
// to end at the points of its submission, whatever had been written since, and before it had read
// younger ones.
func TestSeriesEnd(t *testing.T) {
	for name, s := range map[string]*rig{"one shard": newRig(t, 1), "spread": newSpread(t, 3)} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			if s.Shards() == 1 {
				if err := s.streams.Create(ctx, "copy"); err != nil {
					t.Fatal(err)
				}
			}
			written := int64(0)
			write := func() {
				t.Helper()
				written++
				point := ts.Point{Measurement: "cpu", Fields: map[string]float64{"value": 1}, Time: time.UnixMilli(s.Now())}
				if _, err := s.series.Write(ctx, point); err != nil {
					t.Fatal(err)
				}
				s.Pass(1)
			}
			write()
			s.Pass(1000)
			const text = "name: x\nstop_at: latest\nsources: [{name: cpu, ts: {measurement: cpu}}]\nsinks: [{name: out, stream: " +
				"{name: copy}}]\n"
			id := s.submit(text)
			for round := range 4 {
				s.pass()
				if j := s.job(id); j.Status != processing.Running || j.Metrics.RecordsIn == written {
					t.Errorf("round %d, before the delay is over: %+v", round, j)
				}
				s.Pass(4000)
				s.pass()
				if j := s.job(id); j.Status != processing.Completed || j.Metrics.RecordsIn != written || j.Metrics.Missed != 0 {
					t.Errorf("round %d: %+v, want %d points", round, j, written)
				}
				write()
				s.Pass(100)
				if _, err := s.jobs.Restore(ctx, id); err != nil {
					t.Fatal(err)
				}
			}
			s.Pass(6000)
			s.pass()
			write()
			s.Pass(100)
			latest := strings.Replace(text, "measurement: cpu", "measurement: cpu, start: latest", 1)
			if _, err := s.jobs.Restore(ctx, id, processing.ReplaceDefinition([]byte(latest)), processing.RestartSource("cpu"),
				processing.DropState()); err != nil {
				t.Fatal(err)
			}
			s.Pass(6000)
			s.pass()
			if j := s.job(id); j.Status != processing.Completed || j.Metrics.RecordsIn != written-1 {
				t.Errorf("begun at the latest: %+v, want %d points", j, written-1)
			}
		})
	}
}

// TestEndKeepsEventTime: when a job that had ended continues, its event time is the one reached
// before the end, whichever sources are idle. Windows that fired when they were due do not fire
// again.
func TestEndKeepsEventTime(t *testing.T) {
	for name, s := range map[string]*rig{"one shard": newRig(t, 1), "spread": newSpread(t, 3)} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			if s.Shards() == 1 {
				if err := errors.Join(s.streams.Create(ctx, "in", stream.Partitions(8)),
					s.streams.Create(ctx, "copy", stream.Partitions(4))); err != nil {
					t.Fatal(err)
				}
			}
			base := s.Now() / 10_000 * 10_000
			append := func(partition int, at int64) {
				t.Helper()
				payload := fmt.Appendf(nil, `{"who":"w","ts":%d,"n":1}`, base+at)
				if _, err := s.streams.Append(ctx, "in", stream.Message{Payload: payload}, stream.Partition(partition)); err != nil {
					t.Fatal(err)
				}
			}
			definition := strings.Replace(keyedSums, "idle_timeout_ms: 30000", "idle_timeout_ms: 1000", 1)
			id := s.submit(definition)
			append(0, 0)
			append(1, 0)
			s.pass()
			for at := int64(10_000); at <= 100_000; at += 10_000 { // partition 1 is idle
				append(0, at)
				s.pass()
			}
			fired := len(s.windowsOf("copy"))
			if _, err := s.jobs.Stop(ctx, id); err != nil {
				t.Fatal(err)
			}
			if _, err := s.jobs.Restore(ctx, id, processing.ReplaceDefinition([]byte("stop_at: latest\n"+definition))); err != nil {
				t.Fatal(err)
			}
			s.pass()
			if j := s.job(id); j.Status != processing.Completed || fired < 9 || len(s.windowsOf("copy")) != 11 {
				t.Fatalf("%d windows fired before the end, %d in all, job %+v", fired, len(s.windowsOf("copy")), j)
			}
			for range 2 { // it ends twice
				append(1, 20_000)
				append(1, 100_500)
				if _, err := s.jobs.Restore(ctx, id); err != nil {
					t.Fatal(err)
				}
				s.pass()
			}
			got := s.windowsOf("copy")
			if j := s.job(id); j.Status != processing.Completed || j.Metrics.Late != 2 || len(got) != 13 || got[12].Start != base+100_000 ||
				got[12].Count != 1 {
				t.Errorf("windows %+v, job %+v", got, j)
			}
		})
	}
}
