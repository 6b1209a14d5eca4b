package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/primitive"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/internal/test/check"
)

// tickInterval makes elections take 100 to 200 ms.
const (
	tickInterval    = 10 * time.Millisecond
	electionTimeout = 10 * tickInterval // the shortest
)

// nodes are the IDs of a cluster's nodes.
var nodes = []uint64{1, 2, 3}

// cluster is three in-memory nodes in this process, with the goroutines and clocks of real nodes.
type cluster struct {
	t      *testing.T
	shards int
	net    *shard.Network
	gates  map[uint64]*gate
	fs     map[uint64]*vfs.MemFS

	mu    sync.Mutex // guards hosts
	hosts map[uint64]*shard.Host
}

func newCluster(t *testing.T, seed uint64, shards int) *cluster {
	t.Helper()
	c := &cluster{
		t: t, shards: shards, net: shard.NewNetwork(seed), hosts: make(map[uint64]*shard.Host),
		gates: make(map[uint64]*gate), fs: make(map[uint64]*vfs.MemFS),
	}
	t.Cleanup(func() {
		for _, id := range nodes {
			c.stop(id)
		}
		c.net.Close()
		for _, id := range nodes {
			verifyDir(t, c.fs[id], "node")
		}
	})
	for _, id := range nodes {
		c.fs[id], c.gates[id] = vfs.NewMem(), &gate{start: time.Now()}
		c.start(id)
	}
	return c
}

// config uses tiny limits where they cause flushes, truncation and therefore snapshots.
func (c *cluster) config(id uint64) shard.Config {
	return shard.Config{
		Dir: "node", Shards: c.shards, FS: c.fs[id], NodeID: id, Voters: nodes, Transport: c.net.Transport(id),
		Clock: shard.Clock{Source: c.gates[id]}, TickInterval: tickInterval, Primitives: primitive.All(),
		Door: &door{cluster: c}, MemTableBytes: 1 << 20, L0Tables: 2, SegmentBytes: 256 << 10, KeepEntries: 200,
	}
}

func (c *cluster) start(id uint64) {
	c.t.Helper()
	h, err := shard.Open(c.config(id))
	if err != nil {
		c.t.Errorf("open node %d: %v", id, err)
		return
	}
	c.mu.Lock()
	c.hosts[id] = h
	c.mu.Unlock()
	c.net.Join(id, h)
}

func (c *cluster) stop(id uint64) {
	c.t.Helper()
	h := c.host(id)
	if h == nil {
		return
	}
	c.gates[id].resume()
	c.net.Join(id, nil)
	c.mu.Lock()
	delete(c.hosts, id)
	c.mu.Unlock()
	if err := h.Close(); err != nil {
		c.t.Errorf("close node %d: %v", id, err)
	}
}

func (c *cluster) host(id uint64) *shard.Host {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hosts[id]
}

// leader returns a node other than except that believes it leads a shard, or 0.
func (c *cluster) leader(id engine.ShardID, except uint64) uint64 {
	for _, node := range nodes {
		if h := c.host(node); h != nil && node != except && h.Leads(id) {
			return node
		}
	}
	return 0
}

// awaitLeader waits until a node other than except leads the shard.
func (c *cluster) awaitLeader(ctx context.Context, id engine.ShardID, except uint64) uint64 {
	c.t.Helper()
	var node uint64
	if err := poll(ctx, func() bool { node = c.leader(id, except); return node != 0 }); err != nil {
		c.t.Fatalf("shard %d has no leader: %v", id, err)
	}
	return node
}

// poll checks every few milliseconds until a condition holds.
func poll(ctx context.Context, holds func() bool) error {
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// agree waits until the replicas are level. With the nodes closed, it checks that the replicas are
// equal, byte by byte, and correct. Nodes that received a message just before they were cut off may
// have advanced since. They are then restarted, and must become level again.
func (c *cluster) agree(ctx context.Context) {
	c.t.Helper()
	for !c.closedLevel(ctx) {
		c.net.Heal()
		for _, id := range nodes {
			c.start(id)
		}
	}
}

// closedLevel closes the nodes once they are level, and reports whether they still are. If so, it
// compares them.
func (c *cluster) closedLevel(ctx context.Context) bool {
	c.t.Helper()
	if err := poll(ctx, c.level); err != nil {
		c.t.Fatalf("the replicas did not come level: %v", err)
	}
	for _, id := range nodes {
		c.stop(id)
	}
	var all []*shard.Stepper
	defer func() {
		for _, s := range all {
			if err := s.Close(); err != nil {
				c.t.Error(err)
			}
		}
	}()
	for _, node := range nodes {
		config := c.config(node)
		config.Transport, config.Door = nil, nil
		s, err := shard.OpenStepper(config)
		if err != nil {
			c.t.Fatalf("open node %d: %v", node, err)
		}
		all = append(all, s)
		for id := range engine.ShardID(c.shards) {
			if s.State(id).Applied.Index != all[0].State(id).Applied.Index {
				return false
			}
		}
	}
	seen := check.NewCluster()
	states := make([]bytes.Buffer, c.shards)
	for i, s := range all {
		node := nodes[i]
		if err := check.Replica(s); err != nil {
			c.t.Errorf("node %d: %v", node, err)
		}
		for id := range engine.ShardID(c.shards) {
			if err := seen.Applied(id, node, s.State(id).Applied); err != nil {
				c.t.Error(err)
			}
			var state bytes.Buffer
			if err := s.WriteState(id, &state); err != nil {
				c.t.Fatal(err)
			}
			if i == 0 {
				states[id] = state
			} else if !bytes.Equal(states[id].Bytes(), state.Bytes()) {
				c.t.Errorf("shard %d at index %d: the states of nodes %d and %d differ", id, s.State(id).Applied.Index, nodes[0], node)
			}
		}
	}
	return true
}

// level cuts all nodes off from each other, so that nothing is committed any more, and reports
// whether they have applied the same entries. If not, it reconnects them.
func (c *cluster) level() bool {
	if !c.appliedSame() {
		return false
	}
	for _, id := range nodes {
		c.net.Isolate(id)
	}
	if c.appliedSame() {
		return true
	}
	c.net.Heal()
	return false
}

func (c *cluster) appliedSame() bool {
	for id := range engine.ShardID(c.shards) {
		at := c.host(nodes[0]).Applied(id)
		if slices.ContainsFunc(nodes, func(node uint64) bool { return c.host(node).Applied(id) != at }) {
			return false
		}
	}
	return true
}

// door gives a client access to the leaders. It tries the nodes in turn, starting with one of its
// own, like clients that remember a possibly outdated leader.
type door struct {
	cluster *cluster
	first   int
	except  uint64 // a node that is never called; 0: none
}

// Shards and the other methods implement engine.Door.
func (d *door) Shards() int { return d.cluster.shards }

func (d *door) Propose(ctx context.Context, id engine.ShardID, cmd engine.Command) (result []byte, err error) {
	err = d.onLeader(ctx, id, func(h *shard.Host) error {
		result, err = h.Propose(ctx, id, cmd)
		return err
	})
	return result, err
}

func (d *door) Take(ctx context.Context, id engine.ShardID, t engine.Take) (result []byte, err error) {
	err = d.onLeader(ctx, id, func(h *shard.Host) error {
		result, err = h.Take(ctx, id, t)
		return err
	})
	return result, err
}

func (d *door) Query(ctx context.Context, id engine.ShardID, q engine.Query) error {
	return d.onLeader(ctx, id, func(h *shard.Host) error { return h.Query(ctx, id, q) })
}

// onLeader tries nodes until one answers. It repeats calls that certainly had no effect, and
// returns unknown outcomes.
func (d *door) onLeader(ctx context.Context, id engine.ShardID, do func(*shard.Host) error) error {
	var err error
	waitErr := poll(ctx, func() bool {
		for i := range nodes {
			node := nodes[(d.first+i)%len(nodes)]
			h := d.cluster.host(node)
			if h == nil || node == d.except || !h.Leads(id) {
				continue
			}
			err = do(h)
			again := errors.Is(err, engine.ErrUnavailable) || errors.Is(err, engine.ErrClosed)
			if !again || errors.Is(err, engine.ErrUnknownOutcome) {
				return true
			}
		}
		return false
	})
	if waitErr != nil {
		return fmt.Errorf("no leader of shard %d: %w", id, waitErr)
	}
	return err
}

// gate is a node's clock. While it is shut, calls for the time block. A leader makes one in every
// step. So it stands still as in a stopped process, with messages, ticks and reads waiting for it.
type gate struct {
	start time.Time

	mu   sync.Mutex // guards shut
	shut chan struct{}
}

// Wall and Mono implement a clock.
func (g *gate) Wall() int64         { g.pass(); return time.Now().UnixMilli() }
func (g *gate) Mono() time.Duration { g.pass(); return time.Since(g.start) }

func (g *gate) pass() {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil {
		<-shut
	}
}

func (g *gate) pause() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
}

func (g *gate) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}
