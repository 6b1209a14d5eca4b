package sim

import (
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
)

// route identifies the deliveries of one leader from one shard to another, in one term.
type route struct {
	sender     *shard.Stepper
	term       uint64
	source, to engine.ShardID
}

// sender is the sending side of a route.
type sender struct {
	route
	dispatch *engine.Dispatch
	busy     bool // a step is in progress
}

// parcel is a sender's step in progress.
type parcel struct {
	sender *sender // nil: a late or repeated step, whose outcome is ignored
	at     *node   // the node asked to apply it
	host   *shard.Stepper
	ticket *shard.Ticket
}

// maxStale is the maximum number of steps kept for repetition.
const maxStale = 20

// carry takes the next step of a leader's outbox for each target. Sometimes an earlier step is
// repeated.
func (s *sim) carry(n *node, id engine.ShardID) {
	if len(s.parcels) > 50 || !n.host.State(id).Leads {
		return
	}
	for _, target := range n.host.State(id).Targets {
		c := s.sender(route{n.host, n.host.State(id).Term, id, target})
		if c.busy {
			continue
		}
		step, _, ok, err := c.dispatch.Next(s.now.Milliseconds(), n.host.State(id).Durable)
		if err != nil {
			s.failf("node %d: read outbox: %v", n.id, err)
			return
		}
		if ok {
			s.take(c, n, step)
		}
	}
	if len(s.stale) > 0 && s.rng.IntN(20) == 0 {
		step := s.stale[s.rng.IntN(len(s.stale))]
		if to := s.leader(step.Shard); to != nil {
			s.submit(parcel{at: to}, step)
		}
	}
}

// sender returns the sender of a route, which keeps its state.
func (s *sim) sender(r route) *sender {
	c := s.senders[r]
	if c == nil {
		c = &sender{route: r, dispatch: r.sender.NewDispatch(r.source, r.to)}
		s.senders[r] = c
	}
	return c
}

func (s *sim) take(c *sender, n *node, step engine.Step) {
	s.counts["delivery"]++
	if len(s.stale) < maxStale {
		s.stale = append(s.stale, step)
	} else {
		s.stale[s.rng.IntN(maxStale)] = step
	}
	at := n // the source itself applies settlements, and waits for the outcome
	if step.Shard != c.source {
		at = s.leader(step.Shard)
	}
	if at == nil {
		c.dispatch.Done(nil, engine.Errorf(engine.ErrUnavailable, "nobody leads"), s.now.Milliseconds())
		return
	}
	c.busy = true
	s.submit(parcel{sender: c, at: at}, step)
}

// leader returns a node that believes it leads the shard, or nil.
func (s *sim) leader(id engine.ShardID) *node {
	offset := s.rng.IntN(len(s.nodes))
	for i := range s.nodes {
		if n := s.nodes[(i+offset)%len(s.nodes)]; n.host != nil && n.host.State(id).Leads {
			return n
		}
	}
	return nil
}

func (s *sim) submit(p parcel, step engine.Step) {
	ticket, err := p.at.host.Submit(step.Shard, step.Command)
	if err != nil {
		s.failf("node %d: submit a delivery: %v", p.at.id, err)
		return
	}
	p.host, p.ticket = p.at.host, ticket
	p.at.open++
	s.parcels = append(s.parcels, p)
}

// arrived reports whether a parcel is finished.
func (s *sim) arrived(p parcel) bool {
	o := engine.Outcome{Err: engine.Errorf(engine.ErrUnknownOutcome, "outcome unknown: the node has ended")}
	if p.at.host == p.host {
		var ok bool
		if o, ok = p.ticket.Outcome(); !ok {
			return false
		}
		p.at.open--
	}
	if c := p.sender; c != nil {
		c.busy = false
		c.dispatch.Done(o.Result, o.Err, s.now.Milliseconds())
	}
	return true
}
