package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

func clearNames(from, to string) toy.Command {
	return toy.Command{Kind: toy.Clear, Name: from, Target: to}
}

// sum returns the sum and the number of a namespace's remaining counters.
func (r *rig) sum(namespace string) (sum, count int64) {
	r.t.Helper()
	q := toy.Sum{Namespace: namespace}
	if err := r.Query(r.t.Context(), 0, &q); err != nil {
		r.t.Fatal(err)
	}
	return q.Sum, q.Count
}

func TestDeleteRange(t *testing.T) {
	r := newRig(t, 1)
	r.apply(0, addTo("a", 1).In("default"), addTo("b", 2).In("default"), addTo("d", 4).In("default"))
	// Committed and uncommitted rows are deleted alike, later rows stay, and the upper bound is
	// exclusive.
	out := r.applyOnly(0,
		addTo("c", 8).In("default"), clearNames("b", "d").In("default"), addTo("c", 16).In("default"), addTo("d", 32).In("default"))
	for i, o := range out {
		if o.Err != nil {
			t.Fatalf("command %d: %v", i, o.Err)
		}
	}
	r.commit(0)
	for name, want := range map[string]int64{"a": 1, "b": 0, "c": 16, "d": 36} {
		if got := r.counter(0, "default", name); got != want {
			t.Errorf("counter %s is %d, want %d", name, got, want)
		}
	}
	r.restart()
	if sum, n := r.sum("default"); sum != 53 || n != 3 {
		t.Errorf("%d counters with a sum of %d after a restart, want 3 with 53", n, sum)
	}
}

func TestDeleteRangeIsTakenBack(t *testing.T) {
	r := newRig(t, 1)
	r.apply(0, addTo("a", 1).In("default"), addTo("b", 2).In("default"))
	tx := engine.NewTxn(engine.NewRouter(r), "default", 1<<20).Do(
		addTo("c", 4).Op(), addTo("a", 1).Op(), clearNames("", "z").Op(), addTo("b", 8).Op(), addTo("c", -1).Op())
	if _, err := tx.Commit(t.Context()); err == nil {
		t.Fatal("the transaction with a counter below zero succeeded")
	}
	if sum, n := r.sum("default"); sum != 3 || n != 2 {
		t.Errorf("%d counters with a sum of %d, want 2 with 3", n, sum)
	}
}

// TestDeleteRangeAgainstMap compares random writes and range deletes, in random batches, with a
// map. It compares the state's hash with that of the same entries in batches of one.
func TestDeleteRangeAgainstMap(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		grouped, single := newRig(t, 1), newRig(t, 1)
		model := make(map[string]int64)
		name := func() string { return fmt.Sprintf("%02d", rng.IntN(50)) }
		for range 400 {
			cmd := addTo(name(), 1+rng.Int64N(9))
			if rng.IntN(8) == 0 {
				if cmd = clearNames(name(), name()); cmd.Name > cmd.Target {
					cmd.Name, cmd.Target = cmd.Target, cmd.Name
				}
			}
			single.apply(0, cmd.In("default"))
			if grouped.applyOnly(0, cmd.In("default")); rng.IntN(5) == 0 {
				grouped.commit(0)
			}
			if cmd.Kind == toy.Add {
				model[cmd.Name] += cmd.Delta
				continue
			}
			for k := range model {
				if cmd.Name <= k && k < cmd.Target {
					delete(model, k)
				}
			}
		}
		grouped.commit(0)
		want := int64(0)
		for k, v := range model {
			if want += v; grouped.counter(0, "default", k) != v {
				t.Fatalf("seed %d: counter %s is %d, want %d", seed, k, grouped.counter(0, "default", k), v)
			}
		}
		if sum, n := grouped.sum("default"); sum != want || n != int64(len(model)) {
			t.Fatalf("seed %d: %d counters with a sum of %d, want %d with %d", seed, n, sum, len(model), want)
		}
		if a, b := grouped.dump(0), single.dump(0); a != b {
			t.Fatalf("seed %d: batches of several entries leave\n%s\nbatches of one\n%s", seed, a, b)
		}
	}
}
