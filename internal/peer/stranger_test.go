package peer

import (
	"errors"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
)

// stranger is node 2 with something about it.
type stranger struct {
	fakeHost
	run    string
	shards int
}

func (s stranger) Identity() shard.Identity {
	id := s.fakeHost.Identity()
	id.Run = s.run
	return id
}

func (s stranger) Shards() int { return s.shards }

// greetAs opens a raft stream as a stranger.
func (r *rig) greetAs(s stranger) error {
	r.t.Helper()
	p := New(Config{Wire: testWire(), Secret: testSecret, Node: 2})
	defer p.Close()
	p.host = s
	_, err := p.greet(&r.stream(r.http(), pathRaft).wire, roleNode, 1)
	return err
}

// TestOtherShards: a node with another number of shards is refused, and both are told both numbers. It took part, and the same key read differently at
// different nodes.
func TestOtherShards(t *testing.T) {
	r := newRig(t)
	err := r.greetAs(stranger{run: "r", shards: 3})
	if !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), "3") || !strings.Contains(err.Error(), "2") {
		t.Errorf("the opener is told %v, want ErrInvalid with both numbers", err)
	}
	if err := r.peer.receive(&hello{identity: shard.Identity{Node: 2, Run: "r"}, shards: 3}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("the listener says %v, want ErrInvalid", err)
	}
}

// TestTwoOfOneNode: a copy of a node's directory that is started beside the original is kept out while that is connected, and the original stays. When it
// has gone, whoever comes with its directory is that node.
func TestTwoOfOneNode(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.peer.nodes[2]
	leave := n.enter("original")
	n.seen()
	if err := r.greetAs(stranger{run: "copy", shards: 2}); !errors.Is(err, engine.ErrInUse) || errors.Is(err, engine.ErrConflict) {
		t.Errorf("the copy is told %v, want ErrInUse", err)
	}
	if err := r.greetAs(stranger{run: "original", shards: 2}); err != nil {
		t.Errorf("the original is told %v", err)
	}
	leave()
	await(t, "the end of the original", func() bool { return !n.isElsewhere("next") })
}
