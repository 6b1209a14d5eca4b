package ts_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/floqltest"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/ts"
)

// TestFloQL runs the test language of FloQL on a rig, with one shard and with several. The points
// are in blocks, in freshly sealed pages, or in merged pages. All results match the files to the
// last bit.
func TestFloQL(t *testing.T) {
	for _, shards := range []int{1, 4} {
		for _, state := range []string{"blocks", "both", "sealed", "merged"} {
			t.Run(fmt.Sprintf("shards=%d/%s", shards, state), func(t *testing.T) {
				floqltest.Run(t, func(t *testing.T) floqltest.Store {
					r := newRig(t, shards)
					if shards > 1 {
						spread(t, r, "n")
					}
					r.Pass(30 * 365 * day) // some files have points of this century
					return &tested{r, storeOf(r, "n"), state}
				})
			})
		}
	}
}

// tested is a store for floqltest.
type tested struct {
	rig   *machinetest.Rig
	store *ts.Store
	state string
}

// Load writes points in a random order, in a few batches.
func (s *tested) Load(t *testing.T, points []floqltest.Point) {
	t.Helper()
	type seriesTime struct {
		series string
		at     int64
	}
	latest := make(map[seriesTime]float64) // once shuffled, the later of two duplicates would no longer win
	var all []ts.Point
	for _, p := range points {
		latest[seriesTime{fmt.Sprint(p.Measurement, p.Tags, p.Field), p.Timestamp}] = p.Value
	}
	for _, p := range points {
		k := seriesTime{fmt.Sprint(p.Measurement, p.Tags, p.Field), p.Timestamp}
		all = append(all, ts.Point{
			Measurement: p.Measurement, Tags: p.Tags, Fields: map[string]float64{p.Field: latest[k]}, Time: time.UnixMilli(p.Timestamp),
		})
	}
	rng := rand.New(rand.NewPCG(1, 1))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for n := 0; len(all) > 0; n++ {
		batch := all[:min(len(all), 1+rng.IntN(len(all)))]
		write(t, s.store, batch...)
		all = all[len(batch):]
		if s.state == "both" && n%2 == 0 || s.state == "sealed" || s.state == "merged" {
			s.rig.Advance(5 * minute)
		}
	}
	if s.state == "merged" {
		s.rig.Advance(2 * day)
	}
}

// Eval evaluates a query.
func (s *tested) Eval(ctx context.Context, query string, opts floql.Options) (*floql.Result, error) {
	return s.store.Query(ctx, query, opts)
}

// spread creates a namespace spread over the shards.
func spread(t *testing.T, r *machinetest.Rig, namespace string) {
	t.Helper()
	if _, err := r.Propose(t.Context(), engine.HomeShard(namespace, r.Shards()), engine.CreateNamespace(namespace, true)); err != nil {
		t.Fatal(err)
	}
}

// TestFailingExpression: an expression that fails for a point fails the query with its position in
// the text, although it ran in a shard.
func TestFailingExpression(t *testing.T) {
	s := storeOf(newRig(t, 1), "n")
	write(t, s, point("a", 0, 1))
	var all floql.Slice
	if err := all.Add("cpu", map[string]string{"host": "a"}, "value", at(0), 1); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		"cpu[%d..%d] | abs() | math(int(tags.host) * 2) | window(1m) | avg()", "cpu[%d..%d] | where(int(tags.host) > 2) | sum()",
	} {
		query = fmt.Sprintf(query, at(0).UnixMilli(), at(day).UnixMilli())
		_, want := floql.Eval(t.Context(), &all, query, floql.Options{})
		_, err := s.Query(t.Context(), query)
		var e *floql.Error
		if !errors.As(err, &e) || err.Error() != want.Error() || e.Offset < len("cpu[") {
			t.Errorf("%s: %v, want %v", query, err, want)
		}
	}
}
