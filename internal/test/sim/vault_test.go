package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// The names of vaults. Locked ones are only emptied by commands.
var vaultNames = []string{"{vault1}", "{vault2}", "{lock1}", "{lock2}"}

// vaultWork fills vaults from counters in other shards, closes and opens them, and empties the
// locked ones.
func vaultWork(c *client) {
	rng := c.sim.rng
	for c.working() {
		c.sim.issued++
		cmd := toy.Command{Name: fmt.Sprintf("counter%d", rng.IntN(5)), Target: vaultNames[rng.IntN(len(vaultNames))],
			Delta: 1 + rng.Int64N(80)}
		switch rng.IntN(8) {
		case 0, 1: // the fee must be paid
			credit := toy.Command{Kind: toy.Add, Name: cmd.Target, Delta: rng.Int64N(4)}
			_, err := c.router.Propose(ctx, credit.Name, credit.In(toys))
			c.sim.verdict.told(credit, err)
			continue
		case 2:
			cmd.Kind, cmd.Name, cmd.Delta = toy.Turn, cmd.Target, rng.Int64N(2)
		case 3:
			cmd.Kind = toy.Release
		default:
			cmd.Kind = toy.Ship
		}
		_, err := c.router.Propose(ctx, cmd.Name, cmd.ToVaults(toys))
		c.sim.verdict.note(err)
	}
}

// emptyVaults empties the locked vaults until no messages wait for them.
func emptyVaults(c *client) {
	shipping := func() bool {
		return slices.ContainsFunc(c.sim.nodes, func(n *node) bool {
			for id := range c.sim.plan.shards {
				if n.host == nil || len(n.host.State(engine.ShardID(id)).Targets) > 0 {
					return true
				}
			}
			return false
		})
	}
	for deadline := c.sim.now + settleTime/2; shipping() && c.sim.now < deadline; {
		for _, name := range vaultNames[2:] {
			release := toy.Command{Kind: toy.Release, Name: "counter0", Target: name}
			_, err := c.router.Propose(ctx, release.Name, release.ToVaults(toys))
			c.sim.verdict.note(err)
		}
		if !c.sleep(200 * time.Millisecond) {
			return
		}
	}
}
