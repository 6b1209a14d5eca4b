package workers_test

import (
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/internal/workers"
)

// TestDamages: the problems that Verify reports for each damaged row, with one shard and with two.
func TestDamages(t *testing.T) {
	for path, shards := range map[string]int{"testdata/damages": 1, "testdata/damages_spread": 2} {
		machinetest.RunDamages(t, path, engine.MachineAction, workers.RowKinds, func(t *testing.T) *machinetest.Rig {
			g := newGround(t, shards, shards > 1)
			g.mustPropose(workers.JoinOp(7, named("w1")))
			g.mustPropose(workers.JoinOp(8, named("w2")))
			g.Pass(1000)
			for shard := range shards {
				g.call(engine.ShardID(shard), "took self a b")
				g.call(engine.ShardID(shard), "completed self a b")
				g.call(engine.ShardID(shard), "failed self a")
			}
			return g.Rig
		})
	}
}
