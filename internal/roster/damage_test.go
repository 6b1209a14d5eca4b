package roster_test

import (
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/rig"
	"github.com/floedb/floe/internal/roster"
)

// TestDamages: what Verify reports of each row that is damaged, where all workers belong to the shard and where one of two shards has each.
func TestDamages(t *testing.T) {
	for path, shards := range map[string]int{"testdata/damages": 1, "testdata/damages_spread": 2} {
		rig.RunDamages(t, path, engine.MachineAction, roster.RowKinds, func(t *testing.T) *rig.Rig {
			g := newGround(t, shards, shards > 1)
			g.mustPropose(roster.JoinOp(7, named("w1")))
			g.mustPropose(roster.JoinOp(8, named("w2")))
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
