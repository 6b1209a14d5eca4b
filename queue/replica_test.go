package queue_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/queue"
)

// TestReplicasAreEqual applies one random log on replicas that commit at different times, remember different amounts, and start anew in the middle: all rows
// and the state's hash are equal.
func TestReplicasAreEqual(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	log := randomLog(t, rand.New(rand.NewPCG(seed, 0)), 2000)
	every := replay(t, log, 1, 0, queue.Primitive().New)
	for _, other := range []replica{
		replay(t, log, 7, 0, queue.Primitive().New), replay(t, log, len(log), 0, queue.Primitive().New), replay(t, log, 13, 29, queue.Primitive().New),
		replay(t, log, 1, 0, queue.NewForgetful), replay(t, log, 5, 101, queue.NewForgetful),
	} {
		if other.applied != every.applied {
			t.Errorf("%s: applied %+v, want %+v", other.name, other.applied, every.applied)
		}
		if len(other.rows) != len(every.rows) {
			t.Errorf("%s: %d rows, want %d", other.name, len(other.rows), len(every.rows))
			continue
		}
		for i, want := range every.rows {
			if got := other.rows[i]; got.machine != want.machine || !bytes.Equal(got.key, want.key) || !bytes.Equal(got.value, want.value) {
				t.Errorf("%s: row %q = %q, want %q = %q", other.name, got.key, got.value, want.key, want.value)
				break
			}
		}
	}
}

// randomLog does random operations, and transactions of which many fail, on queues and returns the entries.
func randomLog(t *testing.T, rng *rand.Rand, steps int) [][]byte {
	r := newRig(t, 1)
	m := rigModel(r)
	m.t, m.rng, m.queues = t, rng, make(map[string]*modelQueue)
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
	return r.log
}

type replica struct {
	name    string
	applied engine.Applied
	rows    []stateRow
}

// replay applies the log, committing after every n entries and starting anew after every restart ones.
func replay(t *testing.T, log [][]byte, n, restart int, machine func() engine.Machine) replica {
	db := openPebble(t)
	x := newExecutor(t, db, 0, 1, machine)
	for i, e := range log {
		x.Apply(1, uint64(i+1), e, nil)
		again := restart > 0 && i%restart == restart-1
		if i%n == n-1 || again {
			must(0, x.Commit())
		}
		if again {
			x = newExecutor(t, db, 0, 1, machine)
		}
	}
	must(0, x.Commit())
	_, err := x.Verify(t.Context(), func(p string) { t.Errorf("Verify reports: %s", p) })
	must(0, err)
	return replica{fmt.Sprintf("commits every %d, restarts every %d", n, restart), x.Applied(), rows(t, db, 0)}
}
