package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/internal/test/toy"
	"github.com/floedb/floe/internal/test/workload"
)

// The namespaces that clients use.
const (
	plain  = workload.Plain     // in one shard
	spread = workload.Spread    // in all shards
	toys   = toy.VaultNamespace // in all shards, for the toy machines
)

// maxValue is the nodes' limit for values.
const maxValue = workload.MaxValue

var ctx = context.Background()

// open is the work of the first client: it creates what all works need.
func (s *sim) open(c *client) {
	w := world{c}
	for {
		_, err := c.Propose(ctx, engine.HomeShard(toys, c.Shards()), engine.CreateNamespace(toys, true))
		if err == nil || errors.Is(err, engine.ErrExists) {
			break
		}
		if !c.sleep(10 * time.Millisecond) {
			return
		}
	}
	if !workload.Open(w) {
		return
	}
	for _, j := range s.jobs {
		if !j.Open(w) {
			return
		}
	}
}

// populate starts the clients that do the work.
func (s *sim) populate() {
	for range s.plan.clients {
		s.spawn(func(c *client) { newKeyClient(c).work() })
	}
	for i, job := range s.jobs {
		for range workload.Works[i].Clients {
			s.spawn(func(c *client) { job.Do(world{c}) })
		}
	}
	s.spawn(toyWork)
	s.spawn(vaultWork)
	for range 2 {
		s.spawn(watchWork)
	}
}

// world is the simulation as seen by the works of package workload.
type world struct{ *client }

func (w world) Router() *engine.Router           { return w.router }
func (w world) Rand() *rand.Rand                 { return w.sim.rng }
func (w world) Client() int                      { return w.id }
func (w world) Sleep(d time.Duration) bool       { return w.sleep(d) }
func (w world) Lossy() bool                      { return w.sim.verdict.lossy }
func (w world) Async() bool                      { return w.sim.plan.durability == shard.Async }
func (w world) Note(err error)                   { w.sim.verdict.note(err) }
func (w world) Failf(format string, args ...any) { w.sim.failf(format, args...) }

// Working counts the act that it permits.
func (w world) Working() bool {
	if !w.working() {
		return false
	}
	w.sim.issued++
	return true
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
