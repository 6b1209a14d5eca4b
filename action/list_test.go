package action

import (
	"fmt"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/rig"
)

// TestLatency: the latency of an action is about the last attempts of completed runs, over all shards: on average of all that ever were, and the P99 of those among the
// last 1,024 that ended.
func TestLatency(t *testing.T) {
	for _, shards := range []int{1, 4} {
		r := rig.New(t, shards, table())
		router := r.Router()
		if err := engine.NewNamespaces(router).Create(t.Context(), "n", shards > 1); err != nil {
			t.Fatal(err)
		}
		s, ctx := engine.StoreOf(Primitive, router, "n", 1<<20), t.Context()
		if _, err := s.Register(ctx, "a", Backoff(0, 0), Timeout(time.Hour)); err != nil {
			t.Fatal(err)
		}
		runs := 0
		carryOut := func(took time.Duration, end func(id RunID) error) {
			t.Helper()
			runs++
			if _, err := s.Invoke(ctx, "a", nil, IdempotencyKey(fmt.Sprint(runs))); err != nil {
				t.Fatal(err)
			}
			r.Advance(5) // it waits, which does not count
			got, err := s.Await(ctx, "w", []string{"a"})
			if err != nil || len(got) != 1 {
				t.Fatalf("Await = %v, %v", got, err)
			}
			r.Advance(took.Milliseconds())
			if err := end(got[0].Run); err != nil {
				t.Fatal(err)
			}
		}
		complete := func(id RunID) error { return s.Complete(ctx, id, "w", nil) }
		want := func(l Latency) {
			t.Helper()
			i, err := s.Action(ctx, "a")
			i.Latency.Average, l.Average = i.Latency.Average.Round(time.Microsecond), l.Average.Round(time.Microsecond) // each shard has one of its own
			if err != nil || i.Latency != l {
				t.Errorf("%d shards: the latency is %+v, %v; want %+v", shards, i.Latency, err, l)
			}
		}
		want(Latency{})
		for i := range 200 {
			carryOut(time.Duration(i+1)*time.Millisecond, complete)
		}
		want(Latency{200, 100*time.Millisecond + 500*time.Microsecond, 198 * time.Millisecond})
		carryOut(time.Minute, func(id RunID) error { return s.Fail(ctx, id, "w", "it failed") })
		carryOut(time.Minute, func(id RunID) error { return s.Cancel(ctx, id, "") })
		want(Latency{200, 100*time.Millisecond + 500*time.Microsecond, 198 * time.Millisecond})
		carryOut(time.Minute, func(id RunID) error { // its second attempt is its last one, which counts alone
			if err := s.Fail(ctx, id, "w", "once more", Retry()); err != nil {
				return err
			}
			r.Advance(1)
			if got, err := s.Await(ctx, "w", []string{"a"}); err != nil || len(got) != 1 || got[0].Attempt != 2 {
				return fmt.Errorf("the second attempt is %+v: %w", got, err)
			}
			r.Advance(301)
			return complete(id)
		})
		want(Latency{201, (20_100 + 301) * time.Millisecond / 201, 199 * time.Millisecond})
	}
}
