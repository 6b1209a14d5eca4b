package ts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/pushdown"
	"github.com/floedb/floe/internal/test/machinetest"
)

// planned is a source that records the request it receives.
type planned struct {
	floql.Source
	sel  floql.Selection
	plan []byte
}

func (p *planned) Aggregate(_ context.Context, sel floql.Selection, partial pushdown.Partial[floql.Series]) error {
	p.sel, p.plan = sel, partial.Plan()
	return nil
}

// looked is a context that counts checks: it is done from the n-th one on.
type looked struct {
	context.Context
	times, until int
}

func (l *looked) Err() error {
	if l.times++; l.times > l.until {
		return context.Canceled
	}
	return nil
}

// TestQueriesEndSoon: a query over many points in few rows checks its context every few
// milliseconds, and ends at the first check after cancellation.
func TestQueriesEndSoon(t *testing.T) {
	r := machinetest.Open(t, machinetest.Config{Shards: 1, Primitives: []engine.Primitive{table()}, CacheBytes: 4 << 20})
	s := engine.StoreOf[Store](r.Router(), "n", 0)
	const n = 600_000
	var lines bytes.Buffer
	for i := range n {
		fmt.Fprintf(&lines, "m f=%d %d\n", i%7, i*100)
	}
	if result, err := s.WriteLine(t.Context(), &lines, Milliseconds); err != nil || result.Written != n {
		t.Fatalf("WriteLine = %d, %v", result.Written, err)
	}
	r.Advance(10 * 60 * 1000)
	for stages, each := range map[string]int{"window(1m) | avg()": maxUnseen,
		"where(value * 2 > timestamp % 7) | window(1m) | avg()": 4096} {
		endsSoon(t, r, fmt.Sprintf("m[0..%d] | %s", n*100, stages), n/each)
	}
}

// endsSoon runs a query that must check its context at least want times, and cancels it at some of
// the checks.
func endsSoon(t *testing.T, r *machinetest.Rig, query string, want int) {
	t.Helper()
	asks := new(planned)
	if _, err := floql.Eval(t.Context(), asks, query, floql.Options{}); err != nil {
		t.Fatal(err)
	}
	ask := func(until int) (looks int, err error) {
		ctx := &looked{Context: t.Context(), until: until}
		err = r.Query(ctx, 0, &aggregateQuery{namespace: "n", selection: asks.sel, plan: asks.plan})
		return ctx.times, err
	}
	looks, err := ask(1 << 30)
	if err != nil || looks < want {
		t.Fatalf("%s: %d looks, %v, want %d and more", query, looks, err, want)
	}
	for until := 0; until < looks; until += 1 + looks/5 {
		if again, err := ask(until); !errors.Is(err, context.Canceled) || again > until+2 {
			t.Errorf("gone after %d looks: %d looks, %v", until, again, err)
		}
	}
}
