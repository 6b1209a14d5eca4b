package sim

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/workload"
)

// sim is a run: nodes, the network between them, their clients, and all faults.
type sim struct {
	plan  plan
	rng   *rand.Rand
	now   time.Duration // since the run began; it advances a little with every step
	nodes []*node
	net   network

	jobs    []workload.Job // of workload.Works
	clients []*client
	issued  int // commands of clients
	orphans []orphan
	parcels []parcel

	senders map[route]*sender
	duties  []*duty
	dutiful map[route]bool // those whose duties have been started; without a target
	stale   []engine.Step  // of senders, for repetition

	healed  bool // no more faults
	resting bool // waiting for anything that may not come must end
	verdict *verdict
	trace   *trace
	counts  map[string]int
	err     error // the first error
}

// report is the result of a run.
type report struct {
	plan   plan
	hash   uint64
	steps  int
	counts map[string]int
	tail   string // of the trace
	err    error
}

// run executes a plan. All randomness comes from the seed. The caller must have made crypto/rand,
// which raft uses, a function of the seed as well.
func run(p plan, rng *rand.Rand) report {
	s := newSim(p, rng)
	return s.complete(s.work)
}

func newSim(p plan, rng *rand.Rand) *sim {
	s := &sim{plan: p, rng: rng, trace: newTrace(), counts: make(map[string]int), senders: make(map[route]*sender),
		dutiful: make(map[route]bool)}
	s.net = network{cut: make(map[[2]uint64]time.Duration), quiet: make(map[[2]uint64]time.Duration)}
	s.verdict = newVerdict(s)
	return s
}

// complete runs what precedes the work, the work, and what follows it.
func (s *sim) complete(work func()) (r report) {
	defer func() {
		if v := recover(); v != nil {
			s.failf("panic: %v\n%s", v, debug.Stack())
		}
		s.close()
		r = report{plan: s.plan, hash: s.trace.hash(), steps: s.trace.steps, counts: s.counts, err: s.err}
		if s.err != nil {
			r.tail = s.trace.tail()
		}
	}()
	s.setUp()
	s.populate()
	work()
	s.heal()
	if s.err == nil {
		s.verdict.final()
	}
	return r
}

func (s *sim) failf(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("after %v and %d commands: %w", s.now.Round(time.Millisecond), s.issued, fmt.Errorf(format, args...))
	}
}

// close ends clients and nodes.
func (s *sim) close() {
	for _, c := range s.clients {
		c.stop()
	}
	for _, d := range s.duties {
		d.end()
	}
	for _, n := range s.nodes {
		if n.host == nil {
			continue
		}
		if err := n.host.Crash(); err != nil {
			s.failf("node %d: %v", n.id, err)
		}
	}
}

func (s *sim) faulty(f fault) bool { return s.plan.faults[f] && !s.healed }

// random returns a duration below limit.
func (s *sim) random(limit time.Duration) time.Duration {
	return time.Duration(s.rng.Int64N(int64(limit)))
}

// setUp starts the nodes, and creates what clients use.
func (s *sim) setUp() {
	s.healed = true
	for id := range s.plan.nodes {
		n := newNode(s, uint64(id+1))
		s.nodes = append(s.nodes, n)
		n.start()
	}
	for id := range s.plan.shards {
		s.nodes[s.rng.IntN(len(s.nodes))].host.Campaign(engine.ShardID(id))
	}
	for _, w := range workload.Works {
		s.jobs = append(s.jobs, w.New())
	}
	s.spawn(s.open)
	s.settle("namespaces", settleTime, 2*time.Millisecond, s.idle)
	for _, n := range s.nodes {
		if n.host != nil {
			n.syncLog() // this data survives, even with durability async
		}
	}
	s.healed = false
}

// stuckTime is longer than any fault plus the patience of clients.
const stuckTime = time.Minute

// work runs clients and faults until enough commands have been issued.
func (s *sim) work() {
	issued, at := 0, s.now
	for s.err == nil && s.issued < s.plan.commands {
		if issued != s.issued {
			issued, at = s.issued, s.now
		} else if s.now > at+stuckTime {
			s.failf("no client could go on for %v", stuckTime)
		}
		for len(s.plan.happenings) > 0 && s.plan.happenings[0].command <= s.issued {
			s.happen(s.plan.happenings[0].fault)
			s.plan.happenings = s.plan.happenings[1:]
		}
		s.act()
	}
}

// act takes one random step of the world.
func (s *sim) act() {
	s.pass()
	n := s.nodes[s.rng.IntN(len(s.nodes))]
	if !n.runs() {
		s.deliver()
		return
	}
	id := engine.ShardID(s.rng.IntN(s.plan.shards))
	switch r := s.rng.IntN(100); {
	case s.rng.IntN(s.plan.flushEvery) == 0:
		n.flush()
	case s.rng.IntN(s.plan.truncateEvery) == 0:
		n.truncate()
	case s.rng.IntN(s.plan.compactEvery) == 0:
		n.compact()
	case s.rng.IntN(s.plan.syncEvery) == 0:
		n.syncLog()
	case s.rng.IntN(40) == 0:
		n.prepareLog()
	case r < 25:
		n.step(id, 0)
	case r < 43 && n.lagging <= s.now:
		n.apply(id)
	case r < 60 && n.stalled <= s.now:
		n.writeLog()
	case r < 95:
		s.deliver()
	default:
		s.carry(n, id)
	}
}

// pass lets some time pass, with the events that are due.
func (s *sim) pass() {
	s.now += s.random(2 * s.plan.pace)
	for _, n := range s.nodes {
		switch {
		case n.host == nil && n.upAt <= s.now:
			n.start()
		case n.runs() && n.nextTick <= s.now:
			n.tick()
		}
	}
	for _, c := range s.clients {
		c.resume()
	}
	s.keepDuties()
	s.collect()
}

// collect checks which abandoned commands have ended.
func (s *sim) collect() {
	s.orphans = slices.DeleteFunc(s.orphans, func(o orphan) bool { return o.node.host != o.host || o.ended() })
	s.parcels = slices.DeleteFunc(s.parcels, s.arrived)
}

// happen applies a fault to a random node.
func (s *sim) happen(f fault) {
	n := s.nodes[s.rng.IntN(len(s.nodes))]
	if n.host == nil {
		return
	}
	s.trace.add(s.now, f.String(), n.id)
	s.counts[f.String()]++
	length := s.random(3 * time.Second)
	switch f {
	case powerLoss:
		n.losePower(f)
	case kill:
		n.kill()
	case tornStep:
		n.disk.stopAt = 1 + s.rng.IntN(12)
	case blackout:
		for _, n := range s.nodes {
			if n.host != nil {
				n.losePower(f)
			}
		}
	case restart:
		n.close()
	case pause:
		n.paused = s.now + 2*length
	case slowDisk:
		n.stalled = s.now + length
	case slowApply:
		n.lagging = s.now + length
	case isolate:
		s.isolateSome(n, 2*length)
	case oneWay:
		in := s.rng.IntN(2) == 0
		s.cutNode(n, in, !in, 2*length)
	case swizzle:
		s.swizzleLinks()
	case clockJump:
		s.jump(n)
	case campaign:
		n.host.Campaign(engine.ShardID(s.rng.IntN(s.plan.shards)))
	}
}

func (s *sim) isolateSome(n *node, length time.Duration) {
	if s.rng.IntN(2) == 0 {
		s.cutNode(n, true, true, length)
	} else {
		s.partition(length)
	}
}

// jump sets a node's wall clock forwards or backwards, by milliseconds or by hours.
func (s *sim) jump(n *node) {
	far := []time.Duration{20 * time.Millisecond, 2 * time.Second, 3 * time.Hour}[s.rng.IntN(3)]
	n.skew = s.random(2*far) - far
}

// heal ends all faults. Within settleTime of simulated time every client must be done, and within
// restTime all replicas must be equal.
func (s *sim) heal() {
	s.healed, s.resting = true, true
	s.healNetwork()
	s.trace.add(s.now, "heal")
	for _, n := range s.nodes {
		n.paused, n.stalled, n.lagging, n.disk.stopAt = 0, 0, 0, 0
		if s.err == nil && n.host == nil {
			n.start()
		}
	}
	s.settle("the end of all clients", settleTime, 2*time.Millisecond, s.idle)
	s.spawn(s.verdict.audit)
	s.settle("rest", restTime, 20*time.Millisecond, func() bool { return s.idle() && s.verdict.atRest() })
}

// idle reports whether all clients have finished.
func (s *sim) idle() bool {
	return !slices.ContainsFunc(s.clients, func(c *client) bool { return !c.over })
}

// Time limits of a run once it has been healed: until its clients are done, and until no work is
// left. Shard time runs at half speed if a clock was ahead. Compensations wait up to a minute for a
// handler that may still be active, and a run may have several, one after the other.
const (
	settleTime = time.Minute
	restTime   = 10 * time.Minute
)

// settle runs everything in turn, without faults, until done. A turn takes up to step.
func (s *sim) settle(what string, within, step time.Duration, done func() bool) {
	for deadline := s.now + within; s.err == nil; {
		for _, n := range s.nodes {
			for id := range s.plan.shards {
				id := engine.ShardID(id)
				n.step(id, 0)
				n.apply(id)
				s.carry(n, id)
			}
			n.writeLog()
			n.syncLog()
		}
		for range len(s.net.flight) {
			s.deliver()
		}
		s.now += s.random(step)
		s.pass()
		if done() {
			return
		}
		if s.now > deadline {
			s.failf("%s: not reached within %v without faults:\n%v", what, within, s.nodes)
			for _, c := range s.clients {
				if !c.over {
					s.failf("client %d is not done", c.id)
				}
			}
		}
	}
}
