package queue_test

import (
	"math/rand/v2"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/queue"
)

// TestReplicasAreEqual applies one random log on replicas that commit at different times, have
// different cache sizes, and restart midway. All rows and the state's hash are equal.
func TestReplicasAreEqual(t *testing.T) {
	log := randomLog(t, rand.New(rand.NewPCG(machinetest.Seed(t), 0)), 2000)
	forgetful := primitives(queue.NewForgetful)
	machinetest.EqualReplicas(t, log, primitives(engine.TableOf[queue.Store]().New),
		machinetest.Replica{Name: "commits each", Commit: 1},
		machinetest.Replica{Name: "commits 7", Commit: 7, CacheBytes: 4 << 20},
		machinetest.Replica{Name: "commits all"},
		machinetest.Replica{Name: "restarts", Commit: 13, Restart: 29},
		machinetest.Replica{Name: "small windows", Commit: 1, Primitives: forgetful},
		machinetest.Replica{Name: "small windows, and restarts", Commit: 5, Restart: 101, Primitives: forgetful, CacheBytes: 4 << 20},
	)
}

// randomLog runs random operations and transactions on queues, many of them failing, and returns
// the entries.
func randomLog(t *testing.T, rng *rand.Rand, steps int) [][]byte {
	r := newRig(t, 1)
	m := newModel(t, rng, r, false)
	for range steps {
		switch n := m.rng.IntN(20); {
		case n < 14:
			m.one()
		case n < 19:
			m.txn()
		default:
			m.let()
		}
	}
	return r.Log(0)
}
