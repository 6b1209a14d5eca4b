package peer

import (
	"context"
	"net"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/internal/toy"
	"github.com/floedb/floe/kv"
)

// TestHomeThatIsCutOff dials a node that can be reached and is cut off from all others, so that it knows no leader. The client leaves it for a member that
// it was not told of; it stayed for as long as the node was cut off.
func TestHomeThatIsCutOff(t *testing.T) {
	r := newRig(t)
	host, err := shard.Open(shard.Config{
		Dir: "node", FS: vfs.NewMem(), Shards: 2, NodeID: 2, Voters: []uint64{1, 2, 3}, Primitives: []engine.Primitive{engine.TableOf(kv.Primitive), toy.Primitive()},
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	members := []Member{{1, r.addr}, {2, l.Addr().String()}, {3, "127.0.0.1:1"}}
	// It is told of no others, so that it reaches none; the client is.
	cut := New(Config{Node: 2, Wire: testWire(), Secret: testSecret})
	cut.cfg.Members = members
	cut.Attach(host, func(context.Context) ([]byte, error) { return []byte("{}"), nil })
	cut.Serve(l)
	defer cut.Close()
	defer host.Close()
	c, err := Dial(t.Context(), Config{Wire: testWire()}, []string{l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r.well(c)
	if home := c.homeLink().addr; home != r.addr {
		t.Errorf("home is %s, want %s", home, r.addr)
	}
}
