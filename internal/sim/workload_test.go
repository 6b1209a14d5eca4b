package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floedb/floe/internal/check"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/toy"
	"github.com/floedb/floe/kv"
)

// The namespaces that clients use.
const (
	plain  = "plain"            // in one shard
	spread = "spread"           // over all
	toys   = toy.VaultNamespace // over all, of the toy machines
)

// maxValue is the nodes' limit for values.
const maxValue = 16 << 10

var ctx = context.Background()

// createNamespaces is the work of the first client.
func createNamespaces(c *client) {
	for _, name := range []string{plain, spread, toys} {
		home := engine.HomeShard(name, c.Shards())
		for {
			_, err := c.Propose(ctx, home, engine.CreateNamespace(name, name != plain))
			if err == nil || errors.Is(err, engine.ErrExists) {
				break
			}
			if !c.sleep(10 * time.Millisecond) {
				return
			}
		}
	}
	openBank(c)
	openQueue(c)
}

// populate starts the clients that do the work.
func (s *sim) populate() {
	for range s.plan.clients {
		s.spawn(func(c *client) { newKeyClient(c).work() })
	}
	for range 2 {
		s.spawn(bankWork)
	}
	for range 2 {
		s.spawn(queueWork)
	}
	s.spawn(toyWork)
	s.spawn(vaultWork)
	s.spawn(streamWork)
	s.spawn(groupWork)
	for range 2 {
		s.spawn(watchWork)
	}
}

// bank is in one shard of the spread namespace.
var bank = check.Bank{Prefix: "{bank}"}

func openBank(c *client) {
	for {
		_, err := engine.NewTxn(c.router, spread, maxValue).Do(bank.Open()...).Commit(ctx)
		if err == nil || errors.Is(err, kv.ErrConflict) || !c.sleep(10*time.Millisecond) {
			return
		}
	}
}

// bankWork moves money, and looks at all accounts at once.
func bankWork(c *client) {
	for c.working() {
		c.sim.issued++
		if c.sim.rng.IntN(3) == 0 {
			c.sim.verdict.note(lookAtBank(c))
			continue
		}
		_, err := engine.NewTxn(c.router, spread, maxValue).Do(bank.Transfer(c.sim.rng)...).Commit(ctx)
		c.sim.verdict.note(err)
	}
}

func lookAtBank(c *client) error {
	entries, err := engine.StoreOf(kv.Primitive, c.router, spread, maxValue).GetMany(ctx, bank.Keys()...)
	if err != nil {
		return err
	}
	if err := bank.Check(entries); err != nil {
		c.sim.failf("%w", err)
	}
	return nil
}

// toyWork changes counters at once, later, and across shards.
func toyWork(c *client) {
	rng := c.sim.rng
	name := func() string { return fmt.Sprintf("counter%d", rng.IntN(5)) }
	for c.working() {
		c.sim.issued++
		cmd := toy.Command{Name: name(), Target: name(), Delta: rng.Int64N(50)}
		switch rng.IntN(4) {
		case 0:
			cmd.Kind = toy.Add
		case 1:
			cmd.Kind, cmd.Delay = toy.Later, rng.Int64N(500)
		default:
			cmd.Kind = toy.Send
		}
		_, err := c.router.Propose(ctx, cmd.Name, cmd.In(toys))
		c.sim.verdict.told(cmd, err)
	}
}
