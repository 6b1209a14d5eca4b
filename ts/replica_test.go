package ts_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/ts"
)

// TestReplicasAreEqual applies one random log, with all of the duty's proposals, on replicas that
// commit at different times and restart midway. All rows and the state's hash are equal.
func TestReplicasAreEqual(t *testing.T) {
	rng := rand.New(rand.NewPCG(machinetest.Seed(t), 0))
	r := newRig(t, 1)
	s := storeOf(r, "n")
	must(0, s.SetSeriesLimit(t.Context(), 30))
	for range 300 {
		host := func() string { return fmt.Sprintf("h%d", rng.IntN(40)) }
		switch n := rng.IntN(20); {
		case n < 12:
			var batch []ts.Point
			for range 1 + rng.IntN(10) {
				p := point(host(), r.Now()-machinetest.Epoch-rng.Int64N(3*day), float64(rng.IntN(1000))/10)
				p.Measurement = fmt.Sprintf("m%d", rng.IntN(3))
				p.Tags["dc"] = fmt.Sprint(rng.IntN(2))
				batch = append(batch, p)
			}
			_, _ = s.Write(t.Context(), batch...) // some are refused
		case n == 12:
			_, _ = s.Series("m0").Delete(t.Context(), map[string]string{"host": host()})
		case n == 13 && rng.IntN(3) == 0:
			_ = s.Delete(t.Context(), "m1")
		case n == 14:
			_, _ = r.Txn("n").Do(ts.WriteOp(point(host(), r.Now()-machinetest.Epoch, 1)),
				ts.WriteOp(point(host(), rng.Int64N(10*day), 1))).Commit(t.Context())
		case n == 15:
			must(0, s.SetRetention(t.Context(), "m0", ts.Retention{
				RawTTL: time.Duration(rng.IntN(3)) * 24 * time.Hour,
				Downsample: []ts.Downsample{{Every: time.Duration(1+rng.IntN(3)) * time.Hour,
					TTL: time.Duration(rng.IntN(2)) * 48 * time.Hour}},
			}))
		default:
			r.Advance(rng.Int64N(3 * hour))
		}
	}
	all := primitives(engine.TableOf[ts.Store]().New)
	machinetest.EqualReplicas(t, r.Log(0), all,
		machinetest.Replica{Name: "commits each", Commit: 1},
		machinetest.Replica{Name: "commits 7", Commit: 7, CacheBytes: 4 << 20},
		machinetest.Replica{Name: "commits all"},
		machinetest.Replica{Name: "restarts", Commit: 13, Restart: 29},
	)
}
