package shard

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// stray is a toy whose replica on one node applies commands for the counter "part" differently.
type stray struct{ engine.Machine }

func (m stray) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	if c, err := toy.Decode(cmd); err == nil && c.Name == "part" {
		c.Delta++
		spread := cmd.Spread
		cmd = c.In(cmd.Namespace)
		cmd.Spread = spread
	}
	return m.Machine.Apply(tx, cmd)
}

// straying makes the replicas of the given nodes stray.
func straying(nodes ...uint64) func(*Config) {
	return func(cfg *Config) {
		cfg.CompareInterval = 20 * time.Millisecond
		for _, id := range nodes {
			if cfg.NodeID == id {
				p := toy.Primitive()
				own := p.New
				p.New = func() engine.Machine { return stray{own()} }
				cfg.Primitives = []engine.Primitive{p}
			}
		}
	}
}

func (c *cluster) add(ctx context.Context, name string) {
	c.t.Helper()
	space := 0
	for engine.HomeShard(strconv.Itoa(space), c.Shards()) != 0 {
		space++
	}
	if _, err := c.Propose(ctx, 0, toy.Command{Kind: toy.Add, Name: name, Delta: 1}.In(strconv.Itoa(space))); err != nil {
		c.t.Fatalf("add to %q: %v", name, err)
	}
}

// awaitFailure waits until the node has failed.
func (c *cluster) awaitFailure(ctx context.Context, id uint64) error {
	c.t.Helper()
	select {
	case <-c.host(id).failed:
	case <-ctx.Done():
		c.t.Fatalf("node %d has not noticed that its replica has parted from the others", id)
	}
	return c.host(id).Err()
}

// awaitEqual waits until the node knows that its replica of shard 0 agreed with the majority after
// the entry at index or a later one.
func (c *cluster) awaitEqual(ctx context.Context, id, index uint64) {
	c.t.Helper()
	until(ctx, c.t, "replicas are found to be equal", func() bool { return c.host(id).shards[0].applier.comparer.equal.Load() >= index })
}

// discard removes a failed node from the cluster.
func (c *cluster) discard(id uint64) {
	h := c.host(id)
	c.net.Join(id, nil)
	c.setHost(id, nil)
	if h.Close() == nil {
		c.t.Errorf("node %d has failed, but closes without an error", id)
	}
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestPartedReplica: the node whose replica differs from the two others stops, whether it follows
// or leads, and the others continue.
func TestPartedReplica(t *testing.T) {
	for _, test := range []struct {
		name  string
		leads bool
	}{{"follower", false}, {"leader", true}} {
		t.Run(test.name, func(t *testing.T) {
			ctx := testContext(t)
			wrong := uint64(3)
			if test.leads {
				wrong = 1 // leads shard 0
			}
			c := newCluster(t, seed(t), straying(wrong))
			c.add(ctx, "sound")
			c.awaitEqual(ctx, wrong, 1)
			c.add(ctx, "part")
			if err := c.awaitFailure(ctx, wrong); !strings.Contains(err.Error(), "differs from most others") {
				t.Errorf("node %d failed with %v", wrong, err)
			}
			c.discard(wrong)
			before := c.host(2).Applied(0)
			c.add(ctx, "sound")
			for id := uint64(1); id <= 3; id++ {
				if id != wrong {
					c.awaitEqual(ctx, id, before+1)
				}
			}
		})
	}
}

// heldClock is a clock with a monotonic time that stands still until it is released.
type heldClock struct {
	released atomic.Bool
	system   Clock
}

func (c *heldClock) Wall() int64 { return c.system.Source.Wall() }

func (c *heldClock) Mono() time.Duration {
	if c.released.Load() {
		return time.Hour + c.system.Source.Mono()
	}
	return 1
}

// TestUnsettledDifference: with one of three nodes down, neither of the two others can be found to
// be right. They used to continue, each healthy, and to answer differently. The shard stops on
// both, and they report it; other shards continue. Restarted together with the third node, they
// find a majority.
func TestUnsettledDifference(t *testing.T) {
	ctx := testContext(t)
	patience, clock := time.Millisecond, &heldClock{system: SystemClock()}
	c := newCluster(t, seed(t), func(cfg *Config) {
		straying(2)(cfg)
		cfg.Unsettled, cfg.Clock = patience, Clock{clock}
	})
	c.add(ctx, "sound")
	for id := uint64(1); id <= 3; id++ {
		c.awaitEqual(ctx, id, 1)
	}
	c.stop(3)
	c.add(ctx, "part")
	// The first to stop commits nothing any more. Both must know by then, as they do after the
	// seconds by which the clock is advanced.
	until(ctx, t, "both nodes to know", func() bool {
		known := true
		for id := uint64(1); id <= 2; id++ {
			s := c.host(id).shards[0]
			s.applier.mu.Lock()
			known = known && s.applier.comparer.since != 0
			s.applier.mu.Unlock()
		}
		return known
	})
	clock.released.Store(true)
	until(ctx, t, "the shard to be stopped", func() bool {
		return c.host(1).shards[0].role.halted.Load() != nil && c.host(2).shards[0].role.halted.Load() != nil
	})
	const why = "its replicas on the nodes [1 2] differ at entry "
	for id := uint64(1); id <= 2; id++ {
		h := c.host(id)
		_, err := h.Propose(ctx, 0, toy.Command{Kind: toy.Add, Name: "sound", Delta: 1}.In("default"))
		if !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), why) {
			t.Errorf("node %d writes: %v", id, err)
		}
		if err := h.Query(ctx, 0, &toy.Sum{}); !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), why) {
			t.Errorf("node %d reads: %v", id, err)
		}
		if err := h.QueryStale(ctx, 0, &toy.Sum{}); err != nil {
			t.Errorf("node %d reads what it has: %v", id, err)
		}
		var s Stats
		until(ctx, t, "it knows of no leader", func() bool {
			s, err = h.Stats()
			return err != nil || !h.Leads(0) && s.Shards[0].Leader == 0
		})
		if err != nil || s.State != "replicas differ" || !strings.Contains(s.Nodes[id-1].Problem, why) ||
			!strings.Contains(s.Shards[0].Problem, why) || s.Shards[1].Problem != "" {
			t.Errorf("node %d says %+v, %v", id, s, err)
		}
	}
	if _, err := c.Propose(ctx, 1, engine.Skip(0)); err != nil {
		t.Errorf("the other shard: %v", err)
	}
	patience = 0
	c.stop(1)
	c.stop(2)
	for id := uint64(1); id <= 3; id++ {
		c.start(id)
	}
	c.add(ctx, "sound")
	c.awaitFailure(ctx, 2)
	c.discard(2)
	c.add(ctx, "sound")
}

// TestComparisonAtBeginning: diverged replicas are found when a node begins to lead, without a
// change: they acknowledge nothing before.
func TestComparisonAtBeginning(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, seed(t), straying())
	c.add(ctx, "sound")
	c.settle(ctx)
	for id := uint64(1); id <= 3; id++ {
		c.stop(id)
	}
	c.config = func(cfg *Config) {
		straying()(cfg)
		cfg.CompareInterval = time.Hour
	}
	for id := uint64(1); id <= 3; id++ {
		c.start(id)
	}
	for id := uint64(1); id <= 3; id++ {
		c.awaitEqual(ctx, id, 1)
	}
}

// TestIdleComparison: replicas are compared after a change, and then not again.
func TestIdleComparison(t *testing.T) {
	ctx := testContext(t)
	c := newCluster(t, seed(t), straying())
	at := c.host(1).Applied(0) + 1
	c.add(ctx, "sound")
	for id := uint64(1); id <= 3; id++ {
		c.awaitEqual(ctx, id, at)
	}
	until(ctx, t, "no comparison to be due any more", func() bool {
		s := c.host(1).shards[0]
		s.applier.mu.Lock()
		defer s.applier.mu.Unlock()
		_, ok := s.applier.comparer.due(s.applier.comparer.lsn)
		return !ok
	})
}
