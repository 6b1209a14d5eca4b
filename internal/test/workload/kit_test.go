package workload_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/primitive"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/internal/test/workload"
)

// world is a rig without faults, where works must find no errors.
type world struct {
	t    *testing.T
	r    *machinetest.Rig
	rng  *rand.Rand
	left int // acts
	errs int
}

func (w *world) Router() *engine.Router           { return w.r.Router() }
func (w *world) Rand() *rand.Rand                 { return w.rng }
func (w *world) Client() int                      { return 1 }
func (w *world) Lossy() bool                      { return false }
func (w *world) Async() bool                      { return false }
func (w *world) Failf(format string, args ...any) { w.t.Error(fmt.Errorf(format, args...)) }

func (w *world) Note(err error) {
	if err != nil {
		w.errs++
	}
}

func (w *world) Working() bool {
	w.left--
	return w.left > 0 && w.Sleep(time.Duration(w.rng.IntN(int(100*time.Millisecond))))
}

func (w *world) Sleep(d time.Duration) bool {
	<-time.After(d)
	w.r.Advance(d.Milliseconds())
	return !w.t.Failed()
}

// TestAllWorks runs all works one after the other. Every primitive must be part of one of them.
// Each must also be part of a tally, except key-value, which tallies are compared with.
func TestAllWorks(t *testing.T) {
	seed := machinetest.Seed(t)
	synctest.Test(t, func(t *testing.T) {
		const acts = 400
		r := machinetest.New(t, 3, primitive.All()...)
		w := &world{t: t, r: r, rng: rand.New(rand.NewPCG(seed, 0))}
		if !workload.Open(w) {
			t.Fatal("the namespaces were not created")
		}
		for _, work := range workload.Works {
			job := work.New()
			if !job.Open(w) {
				t.Fatalf("%s did not open", work.Name)
			}
			w.left, w.errs = acts, 0
			job.Do(w)
			job.Audit(w)
			if w.errs > acts*3/4 {
				t.Errorf("%s: %d of %d acts failed, where nothing fails", work.Name, w.errs, acts)
			}
		}
		for _, p := range primitive.All() {
			used := slices.ContainsFunc([]engine.ShardID{0, 1, 2}, func(id engine.ShardID) bool {
				return slices.ContainsFunc(r.Rows(id), func(row machinetest.Row) bool { return row.Machine == p.ID })
			})
			if !used {
				t.Errorf("no work uses %s", p.Name)
			}
			tallied := slices.ContainsFunc(workload.Tallies, func(t workload.Tally) bool { return t.Name == p.Name })
			if !tallied && p.Name != "kv" && p.Name != "processing" && p.Name != "keys" { // transactions create no jobs or keys
				t.Errorf("no tally counts %s", p.Name)
			}
		}
	})
}

// TestTallies: a transaction with all tallies is counted once by each, and a refused one is not
// counted.
func TestTallies(t *testing.T) {
	rng, r := rand.New(rand.NewPCG(machinetest.Seed(t), 0)), machinetest.New(t, 1, primitive.All()...)
	for n := range int64(20) {
		ops := workload.Tallied(rng, "{tag}", func() []byte { return []byte("payload") })
		if _, err := r.Txn("n").Do(ops...).Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, tally := range workload.Tallies {
			if got, err := tally.Count(t.Context(), r.Router(), "n", "{tag}"); got != n+1 || err != nil {
				t.Errorf("%s counts %d, %v after %d transactions", tally.Name, got, err, n+1)
			}
		}
		r.Advance(100)
	}
}
