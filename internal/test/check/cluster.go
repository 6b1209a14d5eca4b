package check

import (
	"fmt"
	"sync"

	"github.com/floedb/floe/internal/engine"
)

// maxRemembered bounds the states that a Cluster keeps per shard to about 50 MiB. Replicas that lag
// further are not compared.
const maxRemembered = 1 << 20

// Cluster compares the observed state of replicas: equal state at equal index, on all nodes and
// after any number of restarts, and one leader per term. It is safe for concurrent use.
type Cluster struct {
	mu      sync.Mutex // guards what follows
	states  map[engine.ShardID]map[uint64]seenState
	applied map[replica]uint64
	leaders map[reign]uint64
}

type seenState struct {
	node    uint64
	applied engine.Applied
}

type replica struct {
	shard engine.ShardID
	node  uint64
}

type reign struct {
	shard engine.ShardID
	term  uint64
}

// NewCluster returns an empty Cluster.
func NewCluster() *Cluster {
	return &Cluster{
		states:  make(map[engine.ShardID]map[uint64]seenState),
		applied: make(map[replica]uint64), leaders: make(map[reign]uint64),
	}
}

// Applied notes the state of a node's replica of a shard. It returns an error if another replica,
// or this one before a restart, differed at the same index, or if this one has gone back.
func (c *Cluster) Applied(shard engine.ShardID, node uint64, a engine.Applied) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := replica{shard, node}
	if last := c.applied[r]; a.Index < last {
		return fmt.Errorf("shard %d: node %d has gone back from index %d to %d", shard, node, last, a.Index)
	}
	c.applied[r] = a.Index
	if a.Index == 0 {
		return nil
	}
	states := c.states[shard]
	if states == nil {
		states = make(map[uint64]seenState)
		c.states[shard] = states
	}
	if other, seen := states[a.Index]; seen && other.applied != a {
		return fmt.Errorf("shard %d: nodes %d and %d differ at index %d:\n%+v\n%+v", shard, other.node, node, a.Index, other.applied, a)
	}
	states[a.Index] = seenState{node, a}
	delete(states, a.Index-maxRemembered)
	return nil
}

// Restart notes that a node's process has ended. Its replicas may return with what was durable, and
// apply the rest again.
func (c *Cluster) Restart(node uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := range c.applied {
		if r.node == node {
			delete(c.applied, r)
		}
	}
}

// Lost notes that entries of a shard above an index are lost, as after a power failure of an async
// node without followers. Other entries may replace them.
func (c *Cluster) Lost(shard engine.ShardID, index uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.states[shard] {
		if i > index {
			delete(c.states[shard], i)
		}
	}
}

// Leader notes that a node was seen leading a shard in a term. It returns an error if another node
// has led in the same term.
func (c *Cluster) Leader(shard engine.ShardID, term, node uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := reign{shard, term}
	if other, seen := c.leaders[r]; seen && other != node {
		return fmt.Errorf("shard %d: nodes %d and %d both lead in term %d", shard, other, node, term)
	}
	c.leaders[r] = node
	return nil
}
