package shard

import (
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Network connects hosts of one process, for tests and simulations. It can lose, repeat and delay
// messages, and so reorder them, and it can disconnect nodes. Each message is copied, so hosts
// share no memory.
type Network struct {
	mu     sync.Mutex // guards everything below; receivers are called without it
	rand   *rand.Rand
	faults Faults
	nodes  map[uint64]Receiver
	cut    map[[2]uint64]bool
	closed bool

	running sync.WaitGroup
}

// Faults configures the faults of messages; probabilities are from 0 to 1.
type Faults struct {
	Lose     float64
	Repeat   float64
	Delay    float64       // probability of a delay, between 0 and MaxDelay
	MaxDelay time.Duration // later messages overtake delayed ones
}

// NewNetwork returns a network without faults whose decisions depend only on the seed.
func NewNetwork(seed uint64) *Network {
	return &Network{
		rand: rand.New(rand.NewPCG(seed, seed)), nodes: make(map[uint64]Receiver), cut: make(map[[2]uint64]bool),
	}
}

// Transport returns the transport of a node.
func (n *Network) Transport(node uint64) Transport { return &endpoint{n, node} }

// Join makes a node reachable, or replaces it after a restart; nil makes it unreachable.
func (n *Network) Join(node uint64, r Receiver) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nodes[node] = r
}

// SetFaults changes the faults from now on.
func (n *Network) SetFaults(f Faults) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = f
}

// Cut loses all messages from one node to another, until Heal.
func (n *Network) Cut(from, to uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[[2]uint64{from, to}] = true
}

// Isolate cuts a node off in both directions, until Heal.
func (n *Network) Isolate(node uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for other := range n.nodes {
		n.cut[[2]uint64{node, other}], n.cut[[2]uint64{other, node}] = true, true
	}
}

// Heal ends all cuts.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cut)
}

// Close returns when no message is in flight.
func (n *Network) Close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.running.Wait()
}

// fate decides the deliveries of a message: one for each delay.
func (n *Network) fate(from, to uint64) (r Receiver, delays []time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r = n.nodes[to]
	if r == nil || n.closed || n.cut[[2]uint64{from, to}] || n.rand.Float64() < n.faults.Lose {
		return nil, nil
	}
	for times := 1; times > 0; times-- {
		var d time.Duration
		if n.rand.Float64() < n.faults.Delay && n.faults.MaxDelay > 0 {
			d = time.Duration(n.rand.Int64N(int64(n.faults.MaxDelay)))
		}
		delays = append(delays, d)
		if len(delays) == 1 && n.rand.Float64() < n.faults.Repeat {
			times++
		}
	}
	n.running.Add(len(delays))
	return r, delays
}

type endpoint struct {
	network *Network
	node    uint64
}

func (e *endpoint) Send(shard uint16, msgs []*raftpb.Message) {
	for _, m := range msgs {
		r, delays := e.network.fate(e.node, m.GetTo())
		for _, d := range delays {
			msg := proto.Clone(m).(*raftpb.Message)
			deliver := func() {
				defer e.network.running.Done()
				r.Receive(shard, []*raftpb.Message{msg})
			}
			if d == 0 {
				deliver()
			} else {
				time.AfterFunc(d, deliver)
			}
		}
	}
}

// errNotDelivered is the error of a snapshot that is lost to a fault.
var errNotDelivered = errors.New("the network did not deliver it")

// SendSnapshot delivers once, or not at all if a message would be lost. Raft then sends the
// snapshot again.
func (e *endpoint) SendSnapshot(shard uint16, msg *raftpb.Message, body io.ReadCloser, done func(error)) {
	r, delays := e.network.fate(e.node, msg.GetTo())
	if len(delays) == 0 {
		body.Close()
		done(errNotDelivered)
		return
	}
	for range delays[1:] {
		e.network.running.Done()
	}
	msg = proto.Clone(msg).(*raftpb.Message)
	time.AfterFunc(delays[0], func() {
		defer e.network.running.Done()
		err := r.ReceiveSnapshot(shard, msg, body)
		body.Close()
		done(err)
	})
}
