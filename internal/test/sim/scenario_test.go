package sim

import (
	"errors"
	"math/rand/v2"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// TestCrashBetweenSnapshotAndLog crashes a node after its state holds an installed snapshot and
// before its log begins after it. The node must open again, and must not treat this as a log
// without its end.
func TestCrashBetweenSnapshotAndLog(t *testing.T) {
	seeds := uint64(5)
	if testing.Short() {
		seeds = 2
	}
	if *seedsFlag != 0 {
		seeds = 5 * uint64(*seedsFlag)
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

// crashBetween lets a node lag until it needs a snapshot, and makes its power fail at that moment.
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

// TestTakesWaitThroughAChangeOfTheLeader: consumers of a queue and of groups in all modes wait when
// their leader is cut off or paused. The next leader must serve them with new messages, and each
// must receive them.
func TestTakesWaitThroughAChangeOfTheLeader(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() {
		seeds = 4
	}
	if *seedsFlag != 0 {
		seeds = 4 * uint64(*seedsFlag)
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		cryptotest.SetGlobalRandom(t, seed)
		rng := rand.New(rand.NewPCG(seed, 98))
		p := newPlan(rng, 3, 0)
		p.faults, p.happenings = [numFaults]bool{}, nil
		s := newSim(p, rng)
		if err := s.complete(func() { s.takeThroughChange(seed%2 == 0) }).err; err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// takeThroughChange runs the scenario: the leader is cut off, or is paused and resumes while the
// next one leads.
func (s *sim) takeThroughChange(cut bool) {
	const namespace, long = "takes", time.Hour
	id := engine.HomeShard(namespace, s.plan.shards)
	queues := func(c *client) *queue.Store { return engine.StoreOf[queue.Store](c.router, namespace, 0) }
	streams := func(c *client) *stream.Store { return engine.StoreOf[stream.Store](c.router, namespace, 0) }
	begun, done := 0, 0
	// until lets a client repeat unsuccessful calls: some are refused, and some callers go away and
	// come back.
	until := func(f func(c *client) (bool, error)) {
		begun++
		s.spawn(func(c *client) {
			for !c.ended {
				ok, err := f(c)
				s.verdict.note(err)
				if ok && err == nil {
					done++
					return
				}
				c.sleep(20 * time.Millisecond)
			}
		})
	}
	until(func(c *client) (bool, error) {
		return true, ignoring(streams(c).Create(ctx, "s"), engine.ErrExists)
	})
	s.actUntil("the stream", func() bool { return done == 1 })
	until(func(c *client) (bool, error) {
		got, err := queues(c).Dequeue(ctx, "q", queue.Wait(long), queue.Lease(time.Second))
		return len(got) > 0, err
	})
	for mode := stream.Shared; mode <= stream.KeyShared; mode++ {
		until(func(c *client) (bool, error) {
			got, err := streams(c).ReadGroup(ctx, "s", mode.String(), "c", stream.Wait(long), stream.InMode(mode),
				stream.AckTimeout(time.Second))
			return len(got) > 0, err
		})
	}
	later := s.now + 2*time.Second
	s.actUntil("consumers that wait", func() bool { return s.now > later })
	if done > 1 {
		s.failf("%d consumers have got what there is not", done-1)
	}
	old := s.latestLeader(id)
	if cut {
		s.cutNode(old, true, true, time.Hour)
	} else {
		old.paused = s.now + 5*time.Second
	}
	s.actUntil("another leader", func() bool { n := s.latestLeader(id); return n != nil && n != old })
	until(func(c *client) (bool, error) {
		_, err := queues(c).Enqueue(ctx, "q", []byte("m"))
		return true, err
	})
	until(func(c *client) (bool, error) {
		_, err := streams(c).Append(ctx, "s", stream.Message{Payload: []byte("r")})
		return true, err
	})
	s.actUntil("what the consumers wait for", func() bool { return done == begun })
}

func ignoring(err, ignored error) error {
	if errors.Is(err, ignored) {
		return nil
	}
	return err
}

// latestLeader returns the leader of a shard in the latest term, nil if none exists.
func (s *sim) latestLeader(id engine.ShardID) (leader *node) {
	term := uint64(0)
	for _, n := range s.nodes {
		if n.host == nil {
			continue
		}
		if st := n.host.State(id); st.Leads && st.Term > term {
			leader, term = n, st.Term
		}
	}
	return leader
}

// actUntil runs the world until a condition holds.
func (s *sim) actUntil(what string, holds func() bool) {
	for deadline := s.now + settleTime; s.err == nil && !holds(); s.act() {
		if s.now > deadline {
			s.failf("%s: not within %v", what, settleTime)
		}
	}
}
