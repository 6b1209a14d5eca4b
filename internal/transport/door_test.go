package transport

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/floedb/floe/internal/auth"
	"github.com/floedb/floe/internal/engine"
	testrig "github.com/floedb/floe/internal/test/machinetest"
)

// TestDoorBeforeAttach: shards start to work, and may have messages for each other, before their
// node has been attached to the Peer.
func TestDoorBeforeAttach(t *testing.T) {
	p := New(Config{Node: 1, Wire: testWire(), Members: testMembers, Secret: testSecret})
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := p.Door().Query(ctx, 0, &engine.NamespaceQuery{Name: "a"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("query before Attach: %v, want the deadline", err)
	}
	if _, err := p.Door().Propose(ctx, 0, engine.CreateNamespace("a", false)); !errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, engine.ErrUnknownOutcome) {
		t.Errorf("command before Attach: %v, want the deadline, and a definite refusal", err)
	}
}

// TestNear: a connection is local if it comes from a loopback address or from the address it goes
// to: a node of a cluster may listen on no other address.
func TestNear(t *testing.T) {
	for _, c := range []struct {
		remote, local string
		near          bool
	}{
		{"127.0.0.1:5000", "127.0.0.1:9000", true}, {"127.0.0.9:5000", "0.0.0.0:9000", true}, {"[::1]:5000", "[::1]:9000",
			true}, {"[::ffff:127.0.0.1]:5000", "127.0.0.1:9000", true},
		{"10.0.0.1:5000", "10.0.0.1:9000", true}, {"10.0.0.1:5000", "[::ffff:10.0.0.1]:9000", true}, {"10.0.0.2:5000", "10.0.0.1:9000",
			false}, {"unknown", "10.0.0.1:9000", false},
	} {
		local, err := net.ResolveTCPAddr("tcp", c.local)
		if err != nil {
			t.Fatal(err)
		}
		if got := isNear(c.remote, local); got != c.near {
			t.Errorf("from %s to %s: %t", c.remote, c.local, got)
		}
	}
	if isNear("10.0.0.1:5000", nil) {
		t.Error("to nowhere")
	}
}

// TestOpenNodeIsForItsMachine: a client on another machine is refused while there are no keys,
// unless the node is configured as open.
func TestOpenNodeIsForItsMachine(t *testing.T) {
	for _, c := range []struct{ near, insecure, enters bool }{{false, false, false}, {true, false, true}, {false, true, true}} {
		gate, keys := auth.NewGate(1), testrig.New(t, 1, auth.Primitive())
		gate.Attach(keys, keys)
		if err := gate.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := newRig(t)
		r.peer.cfg.Gate, r.peer.cfg.Insecure = gate, c.insecure
		grant, err := r.peer.enterGate(t.Context(), "", &wire{from: "192.0.2.1", near: c.near})
		if refused := errors.Is(err, engine.ErrUnauthorized); refused == c.enters || c.enters && (err != nil || !grant.IsOpen()) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
