package sim

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
)

// client is a coroutine that uses the nodes through an engine.Door, which it implements itself. A
// call passes the command to a node that believes it leads the shard. Then it yields to the
// simulation until the outcome is known.
type client struct {
	sim    *sim
	id     int
	router *engine.Router

	ready   func() bool // condition to continue
	next    func() (struct{}, bool)
	stop    func()
	yield   func(struct{}) bool
	over    bool // its work is done
	auditor bool // it works while others wait
	ended   bool // it was stopped and must not wait any more
}

// patience is how long a client waits for an outcome. It is longer than elections, so that most
// outcomes become known.
const patience = 5 * time.Second

// spawn starts a client that executes work when it is scheduled.
func (s *sim) spawn(work func(*client)) {
	c := &client{sim: s, id: len(s.clients)}
	c.router = engine.NewRouter(c)
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		work(c)
	})
	s.clients = append(s.clients, c)
}

// resume continues the client if its condition holds.
func (c *client) resume() {
	if c.over || c.ready != nil && !c.ready() {
		return
	}
	c.ready = nil
	c.sim.trace.add(c.sim.now, "client", uint64(c.id))
	if _, ok := c.next(); !ok {
		c.over = true
	}
}

// await yields until ready; it returns false if the run ends first.
func (c *client) await(ready func() bool) bool {
	if c.ended {
		return false
	}
	c.ready = ready
	c.ended = !c.yield(struct{}{})
	return !c.ended
}

// sleep waits for a while.
func (c *client) sleep(d time.Duration) bool {
	until := c.sim.now + d
	return c.await(func() bool { return c.sim.now >= until })
}

// working reports whether the client should issue another command, after a pause.
func (c *client) working() bool {
	s := c.sim
	return s.issued < s.plan.commands && c.sleep(s.random(2*s.plan.think)) && s.issued < s.plan.commands
}

// Shards returns the number of shards.
func (c *client) Shards() int { return c.sim.plan.shards }

// Pause lets simulated time pass. A client is an engine.SerialDoor: it has one goroutine, which
// runs only when it is scheduled.
func (c *client) Pause(_ context.Context, d time.Duration) error {
	if !c.sleep(d) {
		return context.Canceled
	}
	return nil
}

// call is a client's call to one process of a node.
type call struct {
	client   *client
	node     *node
	host     *shard.Stepper
	deadline time.Duration
}

// dial chooses a node for a shard, waiting for one that believes it leads it. Sometimes it takes
// any node.
func (c *client) dial(id engine.ShardID) (call, error) {
	s := c.sim
	hasty := s.rng.IntN(30) == 0
	var nodes []*node
	c.waitUntil(s.now+patience, func() bool {
		nodes = c.reachable(id)
		return len(nodes) > 0 && (hasty || nodes[0].host.State(id).Leads)
	})
	if len(nodes) == 0 || c.ended {
		return call{}, engine.Errorf(engine.ErrUnavailable, "no node answers")
	}
	n := nodes[s.rng.IntN(len(nodes))]
	return call{c, n, n.host, s.now + patience}, nil
}

// waitUntil waits until ready, or until a deadline.
func (c *client) waitUntil(deadline time.Duration, ready func() bool) {
	if !ready() {
		c.await(func() bool { return ready() || c.sim.now >= deadline })
	}
}

// reachable returns the nodes that the client can call: those that believe they lead the shard, and
// sometimes all.
func (c *client) reachable(id engine.ShardID) []*node {
	s := c.sim
	if s.verdict.looking && !c.auditor {
		return nil
	}
	var up, leading []*node
	for _, n := range s.nodes {
		if !n.serves(id) {
			continue
		}
		up = append(up, n)
		if n.host.State(id).Leads {
			leading = append(leading, n)
		}
	}
	if len(leading) > 0 && s.rng.IntN(50) > 0 {
		return leading
	}
	return up
}

// await waits for an answer; it returns false if none can come any more.
func (c *call) await(answered func() bool) bool {
	got := false
	return c.client.await(func() bool {
		got = c.node.host == c.host && answered()
		return got || c.node.host != c.host || c.client.sim.now >= c.deadline
	}) && got
}

// Propose passes the command to a node and waits for its outcome; see engine.Door.
func (c *client) Propose(_ context.Context, id engine.ShardID, cmd engine.Command) ([]byte, error) {
	call, err := c.dial(id)
	if err != nil {
		return nil, err
	}
	ticket, err := call.host.Submit(id, cmd)
	if err != nil {
		return nil, err
	}
	o, known := c.sim.outcome(&call, ticket)
	if !known {
		return nil, engine.Errorf(engine.ErrUnknownOutcome, "outcome unknown: no answer")
	}
	return o.Result, o.Err
}

// outcome waits for a ticket's outcome. The command stays pending if the client stops waiting.
func (s *sim) outcome(c *call, t *shard.Ticket) (o engine.Outcome, known bool) {
	c.node.open++
	waiting := true
	ended := func() bool {
		var ok bool
		if o, ok = t.Outcome(); ok {
			c.node.open--
			known = waiting
		}
		return ok
	}
	if !c.await(ended) {
		waiting = false
		s.orphans = append(s.orphans, orphan{c.node, c.host, ended})
	}
	return o, known
}

// orphan is a command abandoned by its client.
type orphan struct {
	node  *node
	host  *shard.Stepper
	ended func() bool
}

// Query queries a node that leads; see engine.Door.
func (c *client) Query(_ context.Context, id engine.ShardID, q engine.Query) error {
	call, err := c.dial(id)
	if err != nil {
		return err
	}
	if err := call.linearize(id); err != nil {
		return err
	}
	for {
		err := call.host.Query(id, q)
		if !errors.Is(err, context.Canceled) {
			return err
		}
		// The query waits for a change: it is repeated after the next one.
		at := call.host.State(id).Applied.Index
		call.deadline = c.sim.now + patience
		changed := call.await(func() bool {
			st := call.host.State(id)
			return !st.Leads || st.Applied.Index != at || c.sim.resting
		})
		if c.sim.resting && changed && call.host.State(id).Applied.Index == at {
			return errAllTold
		}
		if !changed || !call.host.State(id).Leads {
			return engine.Errorf(engine.ErrUnavailable, "the node does not lead any more")
		}
	}
}

// linearize waits until the node may answer a read, as a Host does before it queries.
func (c *call) linearize(id engine.ShardID) error {
	s := c.client.sim
	if s.plan.nodes == 1 {
		if !c.host.State(id).Leads {
			return engine.Errorf(engine.ErrUnavailable, "the node does not lead yet")
		}
		return nil
	}
	ticket := c.host.Read(id)
	var err error
	if !c.await(func() bool {
		var ready bool
		ready, err = ticket.Ready()
		return ready
	}) {
		return engine.Errorf(engine.ErrUnavailable, "no answer")
	}
	if err == nil && c.client.sim.rng.IntN(4) == 0 {
		// Evaluating a read takes time, too.
		if !c.client.sleep(s.random(5*time.Millisecond)) || c.node.host != c.host {
			return engine.Errorf(engine.ErrUnavailable, "no answer")
		}
	}
	return err
}
