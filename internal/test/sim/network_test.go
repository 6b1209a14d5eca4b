package sim

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// maxFlight is the maximum number of messages in flight; more are lost, as in any network.
const maxFlight = 5000

// network carries messages between nodes.
type network struct {
	flight []*message                  // in the order in which they were sent
	cut    map[[2]uint64]time.Duration // from, to -> end of the cut
	quiet  map[[2]uint64]time.Duration // from, to -> start of the cut
}

// message is a raft message in flight, possibly with a snapshot.
type message struct {
	from, to uint64
	shard    uint16
	due      time.Duration
	raft     *raftpb.Message
	snapshot []byte
	done     func(error) // for a snapshot
	life     int         // process of the sender
}

// endpoint is a process's transport.
type endpoint struct {
	sim  *sim
	node *node
	life int
}

func (e *endpoint) Send(shard uint16, msgs []*raftpb.Message) {
	for _, m := range msgs {
		e.sim.send(&message{
			from: e.node.id, to: m.GetTo(), shard: shard, raft: proto.Clone(m).(*raftpb.Message), life: e.life,
		})
	}
}

func (e *endpoint) SendSnapshot(shard uint16, msg *raftpb.Message, body io.ReadCloser, done func(error)) {
	b, err := io.ReadAll(body)
	if err = errors.Join(err, body.Close()); err != nil {
		e.sim.failf("node %d: send snapshot: %v", e.node.id, err)
	}
	e.sim.counts["snapshot"]++
	e.sim.send(&message{
		from: e.node.id, to: msg.GetTo(), shard: shard, raft: proto.Clone(msg).(*raftpb.Message), snapshot: b, done: done, life: e.life,
	})
}

func (s *sim) send(m *message) {
	// The effects of a step after its disk stopped do not count.
	if s.nodes[m.from-1].disk.stopped() || len(s.net.flight) >= maxFlight {
		s.drop(m)
		return
	}
	s.verdict.sent(m)
	m.due = s.now
	if s.faulty(delay) && s.rng.IntN(20) == 0 {
		m.due += time.Duration(s.rng.Int64N(int64(400 * time.Millisecond)))
	}
	s.net.flight = append(s.net.flight, m)
}

var errLost = errors.New("the network has lost it")

func (s *sim) drop(m *message) {
	if m.done != nil {
		m.done(errLost)
	}
}

// deliver takes the next message that is due, or a random one, and loses or repeats some.
func (s *sim) deliver() {
	i := slices.IndexFunc(s.net.flight, func(m *message) bool { return m.due <= s.now })
	if i < 0 {
		return
	}
	if s.faulty(reordering) {
		if j := i + s.rng.IntN(len(s.net.flight)-i); s.net.flight[j].due <= s.now {
			i = j
		}
	}
	m := s.net.flight[i]
	lost := s.faulty(loss) && s.rng.IntN(100) < s.plan.lossPct
	if m.done == nil && s.faulty(repetition) && s.rng.IntN(100) < s.plan.repeatPct {
		m.due = s.now + time.Duration(s.rng.Int64N(int64(50*time.Millisecond))) // it stays, and is delivered again
	} else {
		s.net.flight = slices.Delete(s.net.flight, i, i+1)
	}
	to := s.nodes[m.to-1]
	s.trace.add(s.now, "deliver", m.from<<8|m.to, uint64(m.raft.GetType()), m.raft.GetIndex())
	switch {
	case lost || to.host == nil || s.cutOff(m.from, m.to):
		s.drop(m)
	case m.done != nil:
		m.done(to.host.Host().ReceiveSnapshot(m.shard, m.raft, bytes.NewReader(m.snapshot)))
	default:
		to.host.Host().Receive(m.shard, []*raftpb.Message{proto.Clone(m.raft).(*raftpb.Message)})
	}
}

func (s *sim) cutOff(from, to uint64) bool {
	link := [2]uint64{from, to}
	return s.net.quiet[link] <= s.now && s.now < s.net.cut[link]
}

// cutLink cuts a direction after a delay, for a certain time.
func (s *sim) cutLink(from, to uint64, begin, length time.Duration) {
	link := [2]uint64{from, to}
	s.net.quiet[link], s.net.cut[link] = s.now+begin, s.now+begin+length
}

// cutNode cuts all links of a node, in one direction or both.
func (s *sim) cutNode(n *node, in, out bool, length time.Duration) {
	for _, other := range s.nodes {
		if other == n {
			continue
		}
		if in {
			s.cutLink(other.id, n.id, 0, length)
		}
		if out {
			s.cutLink(n.id, other.id, 0, length)
		}
	}
}

// partition cuts off a random part of the nodes.
func (s *sim) partition(length time.Duration) {
	side := make([]bool, len(s.nodes)+1)
	for i := range side {
		side[i] = s.rng.IntN(2) == 0
	}
	for _, a := range s.nodes {
		for _, b := range s.nodes {
			if side[a.id] != side[b.id] {
				s.cutLink(a.id, b.id, 0, length)
			}
		}
	}
}

// swizzleLinks cuts every link for a different time, so that they heal one by one (the term is
// FoundationDB's).
func (s *sim) swizzleLinks() {
	for _, a := range s.nodes {
		for _, b := range s.nodes {
			if a != b {
				s.cutLink(a.id, b.id, s.random(2*time.Second), s.random(4*time.Second))
			}
		}
	}
}

func (s *sim) healNetwork() {
	clear(s.net.cut)
	clear(s.net.quiet)
}
