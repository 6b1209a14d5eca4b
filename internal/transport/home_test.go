package transport

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/internal/test/toy"
	"github.com/floedb/floe/kv"
)

// TestHomeThatIsCutOff dials a node that can be reached but is cut off from all others, so that it
// knows no leader. The client leaves it for a member that was not among its configured addresses.
// It used to stay for as long as the node was cut off.
func TestHomeThatIsCutOff(t *testing.T) {
	r := newRig(t)
	host, err := shard.Open(shard.Config{
		Dir: "node", FS: vfs.NewMem(), Shards: 2, NodeID: 2, Voters: []uint64{1, 2,
			3}, Primitives: []engine.Primitive{engine.TableOf[kv.Store](), toy.Primitive()},
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	members := []Member{{1, r.addr}, {2, l.Addr().String()}, {3, "127.0.0.1:1"}}
	// The node is not given the other addresses, so it reaches none; the client is.
	cut := New(Config{Node: 2, Wire: testWire(), Members: testMembers, Secret: testSecret})
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

// TestSilentHomeIsNotComeBackTo: a home that fell silent with calls in flight, such as a stopped
// process, is not chosen next while the responding nodes know no leader yet. Detecting its silence
// takes seconds, which used to come on top of the election.
func TestSilentHomeIsNotComeBackTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Wire: testWire()})
		defer p.Close()
		d := &Client{peer: p, links: make(map[string]*link), addrs: []string{"silent", "a", "b"}, members: map[uint64]string{1: "silent"},
			leaders: make([]uint64, 1)}
		silent := d.homeLink()
		silent.noteLost()
		for range 10 {
			d.judge(t.Context(), d.homeLink(), &engine.NotLeaderError{})
			if d.homeLink() == silent {
				t.Fatal("home is the node that is silent")
			}
		}
		if d.follow(0, 1) {
			t.Error("the node that is silent is asked because others take it for the leader")
		}
		<-time.After(shunned)
		for d.homeLink() != silent {
			d.leave(d.homeLink())
		}
		if !d.follow(0, 1) {
			t.Error("the node is not asked any more")
		}
	})
}

// TestWhoLeadsIsLookedUpAgain: a node waits only briefly for a connection to a leader that does not
// answer: another node may lead by then.
func TestWhoLeadsIsLookedUpAgain(t *testing.T) {
	for _, by := range []time.Time{{}, time.Now().Add(time.Hour)} {
		if left := time.Until((&trip{by: by}).brief().by); left > leaderPatience || left < leaderPatience/2 {
			t.Errorf("a trip until %v waits for %v", by, left)
		}
	}
	if by := time.Now().Add(time.Millisecond); (&trip{by: by}).brief().by != by {
		t.Error("a trip waits for longer than it may")
	}
}
