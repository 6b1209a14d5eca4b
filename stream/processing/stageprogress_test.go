package processing_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
)

// TestSpreadIdleThenRestored: records appended while a job did not run are not late, although all
// of its parts were idle when it ran last. A part that has not reported its progress since then
// holds back the others. The first part to read its records used to make those of the others late.
func TestSpreadIdleThenRestored(t *testing.T) {
	for _, from := range []string{"as it stands", "savepoint"} {
		t.Run(from, func(t *testing.T) {
			s, ctx := newSpread(t, 4), context.Background()
			id := s.submit(keyedSums)
			base := s.Now() / 10_000 * 10_000
			var sales []sale
			sell := func(n int64) {
				first := int64(len(sales))
				for i := first; i < first+n; i++ {
					sales = append(sales, sale{fmt.Sprint("w", i*7%11), base + i*1000 - i*37%2000, i})
				}
				s.sell("in", sales[first:]...)
			}
			sell(16)
			s.end()
			var opts []processing.RestoreOption
			if from == "savepoint" {
				sp, err := s.jobs.Savepoints(id).Create(ctx)
				if err != nil {
					t.Fatal(err)
				}
				s.settle()
				opts = append(opts, processing.FromSavepoint(sp))
			}
			if _, err := s.jobs.Stop(ctx, id); err != nil {
				t.Fatal(err)
			}
			base += 600_000
			sell(300)
			if _, err := s.jobs.Restore(ctx, id, opts...); err != nil {
				t.Fatal(err)
			}
			s.end()
			if got, want := s.windowsOf("copy"), summedUp(sales, 10_000); !slices.Equal(got, want) {
				t.Errorf("%d windows %+v, want %d %+v", len(got), got, len(want), want)
			}
			if m := s.job(id).Metrics; m.RecordsIn != 316 || m.Late != 0 {
				t.Errorf("metrics %+v", m)
			}
		})
	}
}

const taggedPairs = `
name: pairs
sources:
  - { name: in, stream: { name: in } }
  - { name: visits, stream: { name: visits } }
operators:
  - { type: classify, rules: [%s] }
  - { name: met, type: join, source: visits, on: $.who, within: 1h }
sinks:
  - { name: out, match: large, stream: { name: copy } }
  - { name: other, match: small, stream: { name: other } }
`

// TestTagsOfAnotherDefinition: records that wait for a partner or are on their way to it keep their
// tags, although another definition has other tags before them. Tags used to be stored by their
// place in the definition.
func TestTagsOfAnotherDefinition(t *testing.T) {
	for name, s := range map[string]*rig{"one shard": newRig(t, 1), "spread": newSpread(t, 3)} {
		for _, from := range []string{"as it stands", "savepoint"} {
			t.Run(name+", "+from, func(t *testing.T) {
				ctx := context.Background()
				for _, of := range []string{"in", "visits", "copy"} {
					_ = s.streams.Delete(ctx, of, stream.Force())
					if err := s.streams.Create(ctx, of, stream.Partitions(8)); err != nil {
						t.Fatal(err)
					}
				}
				id := s.submit(fmt.Sprintf(taggedPairs, `{condition: "json:$.n>=4", tag: large}`))
				for i := range int64(8) {
					s.sell("in", sale{fmt.Sprint("w", i), 0, i})
				}
				s.Hold(true)
				for shard := range s.Shards() {
					s.leadApart(engine.ShardID(shard))
				}
				var opts []processing.RestoreOption
				if from == "savepoint" {
					_, _ = s.jobs.Savepoints(id).Create(canceled())
				}
				s.Hold(false)
				if from == "savepoint" {
					s.settle()
					all, err := engine.Collect(s.jobs.Savepoints(id).All(ctx))
					if err != nil || len(all) != 1 {
						t.Fatal(all, err)
					}
					opts = append(opts, processing.FromSavepoint(all[0].ID))
				}
				if _, err := s.jobs.Stop(ctx, id); err != nil {
					t.Fatal(err)
				}
				edited := fmt.Sprintf(taggedPairs, `{condition: "json:$.n<4", tag: small}, {condition: "json:$.n>=4", tag: large}`)
				if _, err := s.jobs.Restore(ctx, id, append(opts, processing.ReplaceDefinition([]byte(edited)))...); err != nil {
					t.Fatal(err)
				}
				for i := range int64(8) {
					s.sell("visits", sale{fmt.Sprint("w", i), 0, i})
				}
				s.settle()
				if got := len(s.allOf("copy")); got != 4 {
					t.Errorf("%d of 8 pairs have the tag that 4 have: %v", got, s.allOf("copy"))
				}
				if got := s.read("other"); got != "" {
					t.Errorf("records with a tag that none had: %s", got)
				}
			})
		}
	}
}

// TestSpreadSourceAgain: a stream that is deleted and recreated ends a job in a spread namespace,
// whichever shards had old records and have new ones.
func TestSpreadSourceAgain(t *testing.T) {
	s, ctx := newSpread(t, 4), context.Background()
	id := s.submit(keyedSums)
	s.sell("in", sale{"a", 1000, 1})
	s.pass()
	if err := s.streams.Delete(ctx, "in", stream.Force()); err != nil {
		t.Fatal(err)
	}
	s.pass()
	if j := s.job(id); j.Status != processing.Running {
		t.Errorf("job %s: %s", j.Status, j.Reason)
	}
	if err := s.streams.Create(ctx, "in", stream.Partitions(8)); err != nil {
		t.Fatal(err)
	}
	s.sell("in", sale{"a", 1000, 2}, sale{"a", 1000, 4}, sale{"a", 1000, 6})
	s.pass()
	if j := s.job(id); j.Status != processing.Failed || !strings.Contains(j.Reason, "made again") {
		t.Errorf("job %s: %s, %+v", j.Status, j.Reason, j.Metrics)
	}
}

// TestSpreadSavepointWhileRestoring: a savepoint requested while some parts are still being
// restored is made once they have been.
func TestSpreadSavepointWhileRestoring(t *testing.T) {
	s, ctx := newSpread(t, 3), context.Background()
	id := s.submit(keyedSums)
	s.sell("in", sale{"a", 1000, 1})
	s.pass()
	first, err := s.jobs.Savepoints(id).Create(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s.settle()
	if _, err := s.jobs.Stop(ctx, id); err != nil {
		t.Fatal(err)
	}
	s.Hold(true)
	_, _ = s.jobs.Restore(canceled(), id, processing.FromSavepoint(first))
	home, _ := processing.Lane(id)
	s.leadApart(engine.ShardID(home))
	_, _ = s.jobs.Savepoints(id).Create(canceled())
	s.Hold(false)
	s.settle()
	all, err := engine.Collect(s.jobs.Savepoints(id).All(ctx))
	if err != nil || len(all) != 2 || !all[1].Complete {
		t.Errorf("savepoints %+v, %v", all, err)
	}
	if j := s.job(id); j.Held || j.Status != processing.Running {
		t.Errorf("job %+v", j)
	}
}

// TestSpreadUnreadAtRestart: records appended while all parts of a job were idle, and unread when
// the node was closed, are not late. This holds whichever shard is led first then, and if the clock
// is set forward meanwhile.
func TestSpreadUnreadAtRestart(t *testing.T) {
	for n := range engine.ShardID(8) {
		first, leap := n%4, int64(n/4)*600_000
		t.Run(fmt.Sprintf("shard %d, %d ms forward", first, leap), func(t *testing.T) {
			s := newSpread(t, 4)
			id := s.submit(keyedSums)
			base := s.Now() / 10_000 * 10_000
			var sales []sale
			sell := func(n int64) {
				from := int64(len(sales))
				for i := from; i < from+n; i++ {
					sales = append(sales, sale{fmt.Sprint("w", i*7%11), base + i*1000 - i*37%2000, i})
				}
				s.sell("in", sales[from:]...)
			}
			sell(16)
			s.end()
			base += 600_000
			sell(300)
			s.Restart()
			for i := range 200 {
				s.leadApart(first)
				s.Deliver()
				if i == 100 {
					s.Leap(leap)
				}
			}
			s.Pass(20_000) // the idle timeout is longer
			s.settle()
			s.end()
			if got, want := s.windowsOf("copy"), summedUp(sales, 10_000); !slices.Equal(got, want) {
				t.Errorf("%d windows, want %d", len(got), len(want))
			}
			if m := s.job(id).Metrics; m.RecordsIn != 316 || m.Late != 0 {
				t.Errorf("metrics %+v", m)
			}
		})
	}
}
