package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/floedb/floe/internal/shard"
)

// fault is an event or a condition of a run, if its seed has enabled it.
type fault uint8

// The faults. Those with a count happen that many times in 500 commands, on average; the others are
// permanent conditions.
const (
	powerLoss  fault = iota // a node stops, and its disk keeps a random part of the unsynced data
	kill                    // a node stops, and its disk keeps all written data
	tornStep                // power loss in the middle of a write, sync, flush or truncation
	blackout                // power loss of all nodes at once
	restart                 // a node is closed properly, and reopened
	pause                   // a node does nothing for a while, and then continues as if no time had passed
	slowDisk                // the log is not written for a while
	slowApply               // nothing is applied for a while
	isolate                 // a node receives and sends nothing
	oneWay                  // a node receives nothing, or sends nothing
	swizzle                 // every link is cut and healed, each at a different time
	clockJump               // the wall clock jumps forwards or backwards
	campaign                // a node starts an election
	loss                    // messages are lost
	repetition              // messages are delivered twice
	reordering              // messages overtake each other
	delay                   // some messages take long
	numFaults
)

// faultInfo gives the name and frequency of each fault, and whether it requires more than one node.
var faultInfo = [numFaults]struct {
	name  string
	count float64
	peers bool
}{
	powerLoss: {"power-loss", 2, false}, kill: {"kill", 1, false}, tornStep: {"torn-step", 2, false}, blackout: {"blackout", 0.5, true},
	restart: {"restart", 1, false}, pause: {"pause", 1, true}, slowDisk: {"slow-disk", 1, false}, slowApply: {"slow-apply", 1, false},
	isolate: {"isolate", 1, true}, oneWay: {"one-way", 1, true}, swizzle: {"swizzle", 0.5, true}, clockJump: {"clock-jump", 1.5, false},
	campaign: {"campaign", 1, true}, loss: {"loss", 0, true}, repetition: {"repetition", 0, true}, reordering: {"reordering", 0, true},
	delay: {"delay", 0, true},
}

func (f fault) String() string { return faultInfo[f].name }

// plan is what a seed determines before a run begins: the faults, and the limits of the nodes.
type plan struct {
	nodes    int
	commands int // number that clients issue before everything heals
	faults   [numFaults]bool

	shards        int
	durability    shard.Durability
	segmentBytes  int64
	keepEntries   uint64
	maxLogBytes   int64
	flushEvery    int // steps of the world, on average, like the next three
	truncateEvery int // in addition to the one after every flush
	compactEvery  int
	syncEvery     int // for an async log

	clients     int
	keys        int
	pace        time.Duration // a step of the world takes up to twice as long
	think       time.Duration // of a client, likewise
	forgetful   uint64        // number of the node, possibly none, whose machines drop remembered data whenever they may
	dutySpeedup int64         // factor by which duties wait less
	lossPct     int
	repeatPct   int
	happenings  []happening // ordered by command
}

// happening is a fault that occurs after a number of issued commands.
type happening struct {
	command int
	fault   fault
}

// newPlan draws a plan. Half of all faults are enabled, so that some seeds are harsh and others
// progress far.
func newPlan(rng *rand.Rand, nodes, commands int) plan {
	p := plan{
		nodes: nodes, commands: commands, shards: 1 + rng.IntN(3),
		segmentBytes: 1 << (9 + rng.IntN(9)), keepEntries: uint64(1 + rng.IntN(8)*rng.IntN(8)), maxLogBytes: 1 << (12 + rng.IntN(14)),
		flushEvery: 300 << rng.IntN(5), truncateEvery: 300 << rng.IntN(5), compactEvery: 5000 << rng.IntN(4), syncEvery: 20 << rng.IntN(9),
		clients: 3 + rng.IntN(6), keys: 2 + rng.IntN(8), lossPct: 1 + rng.IntN(8), repeatPct: 1 + rng.IntN(8),
		pace:  time.Duration(50+rng.IntN(350)) * time.Microsecond,
		think: 200 * time.Microsecond << rng.IntN(7),
	}
	if nodes == 1 && rng.IntN(2) == 0 {
		p.durability = shard.Async
	}
	if nodes == 1 {
		p.keepEntries = uint64(rng.IntN(2)) * p.keepEntries
	}
	for f := range numFaults {
		p.faults[f] = rng.IntN(2) == 0 && (nodes > 1 || !faultInfo[f].peers)
		if p.faults[f] {
			p.draw(rng, f)
		}
	}
	p.forgetful = rng.Uint64N(uint64(2*nodes)) + 1 // in half of the runs no node has this number
	p.dutySpeedup = 1 << rng.IntN(20)              // duties batch work for minutes, longer than a run, or for milliseconds
	slices.SortStableFunc(p.happenings, func(a, b happening) int { return a.command - b.command })
	return p
}

// draw spreads the occurrences of a fault over the run.
func (p *plan) draw(rng *rand.Rand, f fault) {
	mean := faultInfo[f].count * float64(p.commands) / 500
	if p.nodes == 1 {
		mean *= 1.8 // there are fewer kinds
	}
	for n := int(2*mean*rng.Float64() + rng.Float64()); n > 0; n-- {
		p.happenings = append(p.happenings, happening{rng.IntN(p.commands), f})
	}
}

// String lists the enabled faults and the limits that differ from run to run.
func (p plan) String() string {
	var on []string
	for f := range numFaults {
		if p.faults[f] {
			on = append(on, f.String())
		}
	}
	if len(on) == 0 {
		on = []string{"none"}
	}
	return fmt.Sprintf("%d nodes, %d shards, %v, segments of %d bytes, %d entries kept, a flush in %d steps, %d clients, %d keys; "+
		"faults: %s",
		p.nodes, p.shards, p.durability, p.segmentBytes, p.keepEntries, p.flushEvery, p.clients, p.keys, strings.Join(on, " "))
}
