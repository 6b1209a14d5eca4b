package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
)

// nemesis applies faults to a cluster, one after the other with rests between them, so that a
// quorum always returns.
type nemesis struct {
	cluster *cluster
	rng     *rand.Rand
	done    []int // per fault
}

// badThings are the faults: each starts one, which the returned function ends.
var badThings = []struct {
	name  string
	begin func(*nemesis) (end func())
}{
	{"isolated leaders", func(n *nemesis) func() {
		n.cluster.net.Isolate(n.leader())
		return n.cluster.net.Heal
	}},
	{"isolated nodes", func(n *nemesis) func() {
		n.cluster.net.Isolate(n.node())
		return n.cluster.net.Heal
	}},
	{"one-way cuts", func(n *nemesis) func() {
		from := n.node()
		n.cluster.net.Cut(from, from%3+1)
		return n.cluster.net.Heal
	}},
	{"pauses", func(n *nemesis) func() {
		gate := n.cluster.gates[n.leader()]
		gate.pause()
		return gate.resume
	}},
	{"restarts", func(n *nemesis) func() {
		node := n.node()
		n.cluster.stop(node)
		return func() { n.cluster.start(node) }
	}},
	{"bad networks", func(n *nemesis) func() {
		n.cluster.net.SetFaults(shard.Faults{
			Lose: n.rng.Float64() / 10, Repeat: n.rng.Float64() / 5, Delay: n.rng.Float64() / 2, MaxDelay: 30 * time.Millisecond,
		})
		return func() { n.cluster.net.SetFaults(shard.Faults{}) }
	}},
}

func newNemesis(c *cluster, seed uint64) *nemesis {
	return &nemesis{cluster: c, rng: rand.New(rand.NewPCG(seed, 99)), done: make([]int, len(badThings))}
}

func (n *nemesis) node() uint64 { return nodes[n.rng.IntN(len(nodes))] }

// leader returns the leader of some shard, or any node if none exists.
func (n *nemesis) leader() uint64 {
	if node := n.cluster.leader(engine.ShardID(n.rng.IntN(n.cluster.shards)), 0); node != 0 {
		return node
	}
	return n.node()
}

// strike applies the i-th fault for a time, and then lets the cluster rest. The faults take turns.
func (n *nemesis) strike(i int) {
	end := badThings[i%len(badThings)].begin(n)
	n.rest(3 * electionTimeout)
	end()
	n.done[i%len(badThings)]++
	n.rest(electionTimeout)
}

// rest waits for a random time up to atMost.
func (n *nemesis) rest(atMost time.Duration) {
	timer := time.NewTimer(time.Duration(n.rng.Int64N(int64(atMost))))
	defer timer.Stop()
	<-timer.C
}

// String lists the applied faults.
func (n *nemesis) String() string {
	var list []string
	for i, times := range n.done {
		list = append(list, fmt.Sprintf("%d %s", times, badThings[i].name))
	}
	return strings.Join(list, ", ")
}
