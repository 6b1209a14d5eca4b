package shard

import (
	"errors"
	"io"
	"strings"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

// arrivals is a receiver that counts what arrives.
type arrivals struct {
	messages chan *raftpb.Message
	bodies   chan string
}

func (a arrivals) Receive(_ uint16, msgs []*raftpb.Message) {
	for _, m := range msgs {
		a.messages <- m
	}
}

func (a arrivals) ReceiveSnapshot(_ uint16, _ *raftpb.Message, body io.Reader) error {
	b, err := io.ReadAll(body)
	a.bodies <- string(b)
	return err
}

// closing notes that a body was closed.
type closing struct {
	io.Reader
	closed chan struct{}
}

func (c closing) Close() error { close(c.closed); return nil }

// TestNetwork: a message arrives as often as the faults say, a snapshot once or not at all.
func TestNetwork(t *testing.T) {
	for name, c := range map[string]struct {
		fault    func(n *Network)
		messages int
	}{
		"no fault":            {func(*Network) {}, 1},
		"lost":                {func(n *Network) { n.SetFaults(Faults{Lose: 1}) }, 0},
		"repeated":            {func(n *Network) { n.SetFaults(Faults{Repeat: 1}) }, 2},
		"delayed":             {func(n *Network) { n.SetFaults(Faults{Repeat: 1, Delay: 1, MaxDelay: 2}) }, 2},
		"cut":                 {func(n *Network) { n.Cut(1, 2) }, 0},
		"cut the other way":   {func(n *Network) { n.Cut(2, 1) }, 1},
		"isolated":            {func(n *Network) { n.Isolate(2) }, 0},
		"sender is isolated":  {func(n *Network) { n.Isolate(1) }, 0},
		"healed":              {func(n *Network) { n.Isolate(2); n.Heal() }, 1},
		"receiver is down":    {func(n *Network) { n.Join(2, nil) }, 0},
		"network is closed":   {func(n *Network) { n.Close() }, 0},
		"another is isolated": {func(n *Network) { n.Join(3, arrivals{}); n.Isolate(3) }, 1},
	} {
		n, a := NewNetwork(1), arrivals{make(chan *raftpb.Message, 9), make(chan string, 9)}
		n.Join(1, arrivals{})
		n.Join(2, a)
		c.fault(n)
		m := &raftpb.Message{To: new(uint64(2))}
		n.Transport(1).Send(0, []*raftpb.Message{m})
		body, done := closing{strings.NewReader("rows"), make(chan struct{})}, make(chan error, 9)
		n.Transport(1).SendSnapshot(0, m, body, func(err error) { done <- err })
		<-body.closed
		n.Close()
		if len(a.messages) != c.messages || len(done) != 1 || len(a.bodies) != min(c.messages, 1) {
			t.Fatalf("%s: %d messages, %d snapshots and %d reports, want %d messages", name, len(a.messages), len(a.bodies), len(done),
				c.messages)
		}
		if err := <-done; errors.Is(err, errNotDelivered) != (c.messages == 0) || c.messages > 0 && err != nil {
			t.Errorf("%s: the snapshot: %v", name, err)
		}
		if c.messages > 0 && (<-a.messages == m || <-a.bodies != "rows") {
			t.Errorf("%s: the message is not a copy, or the snapshot is another", name)
		}
	}
}
