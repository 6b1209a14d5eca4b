package sim

import (
	"math/rand/v2"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// TestCrashBetweenSnapshotAndLog crashes a node when its state holds an installed snapshot and its log does not yet begin behind
// it: the node has to open again, and must not take this for a log that has lost its end.
func TestCrashBetweenSnapshotAndLog(t *testing.T) {
	seeds := uint64(10)
	if testing.Short() {
		seeds = 2
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		cryptotest.SetGlobalRandom(t, seed)
		rng := rand.New(rand.NewPCG(seed, 99))
		p := newPlan(rng, 3, 400)
		p.faults, p.happenings, p.keepEntries = [numFaults]bool{}, nil, 3
		s := newSim(p, rng)
		if err := s.complete(func() { s.crashBetween(s.nodes[2]) }).err; err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// crashBetween lets a node lag until it needs a snapshot, and takes its power at the moment in question.
func (s *sim) crashBetween(lagging *node) {
	s.cutNode(lagging, true, true, time.Hour)
	s.work()
	for _, n := range s.nodes[:2] {
		n.flush()
	}
	s.healNetwork()
	for deadline := s.now + settleTime; s.err == nil && s.now < deadline; s.act() {
		for id := range s.plan.shards {
			if lagging.host.State(engine.ShardID(id)).Installing {
				lagging.losePower(powerLoss)
				return
			}
		}
	}
	s.failf("no snapshot was installed")
}
