package sim

import (
	"errors"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
)

// parcel is a delivery between shards under way, or the command that forgets one.
type parcel struct {
	from       *node // whose outbox it came from
	sender     *shard.Stepper
	at         *node // that was asked to apply it
	host       *shard.Stepper
	ticket     *shard.Ticket
	source, to engine.ShardID
	last       engine.LSN
	forget     bool
}

// carry takes what a leader's outbox holds to the leaders of its targets. Unlike the courier of a Host it does not wait for one
// delivery before the next, so targets see many twice.
func (s *sim) carry(n *node, id engine.ShardID) {
	if len(s.parcels) > 50 || !n.host.State(id).Leads {
		return
	}
	for _, target := range n.host.State(id).Targets {
		d, ok, err := n.host.NextDelivery(id, target, 0)
		if err != nil {
			s.failf("node %d: read outbox: %v", n.id, err)
			return
		}
		if to := s.leader(target); ok && to != nil {
			s.counts["delivery"]++
			s.submit(parcel{from: n, sender: n.host, at: to, source: id, to: target, last: d.Last}, target, d.Command)
		}
	}
}

// leader returns a node that believes to lead the shard, or nil.
func (s *sim) leader(id engine.ShardID) *node {
	offset := s.rng.IntN(len(s.nodes))
	for i := range s.nodes {
		if n := s.nodes[(i+offset)%len(s.nodes)]; n.host != nil && n.host.State(id).Leads {
			return n
		}
	}
	return nil
}

func (s *sim) submit(p parcel, id engine.ShardID, cmd engine.Command) {
	ticket, err := p.at.host.Submit(id, cmd)
	if err != nil {
		s.failf("node %d: submit a delivery: %v", p.at.id, err)
		return
	}
	p.host, p.ticket = p.at.host, ticket
	p.at.open++
	s.parcels = append(s.parcels, p)
}

// arrived reports whether nothing more is to be done for a parcel. When it was applied, its sender may forget it.
func (s *sim) arrived(p parcel) bool {
	if p.at.host != p.host {
		return true
	}
	o, ok := p.ticket.Outcome()
	if !ok {
		return false
	}
	p.at.open--
	switch {
	case errors.Is(o.Err, engine.ErrUnavailable), errors.Is(o.Err, engine.ErrUnknownOutcome), errors.Is(o.Err, engine.ErrBusy):
	case o.Err != nil:
		s.failf("delivery: %v", o.Err)
	case !p.forget && p.from.host == p.sender && p.from.host.State(p.source).Leads:
		last, err := engine.Delivered(o.Result)
		if err != nil {
			s.failf("delivery: %v", err)
			return true
		}
		p.last = min(p.last, last)
		s.forget(p)
	}
	return true
}

// forgets are submitted behind collect, which is going through the parcels.
func (s *sim) forget(p parcel) {
	s.forgets = append(s.forgets, parcel{from: p.from, at: p.from, source: p.source, to: p.to, last: p.last, forget: true})
}
