package transport

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
)

// stranger is node 2 with a different identity or number of shards.
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

func (s stranger) Introduce(uint64) (shard.Introduction, error) {
	return shard.Introduction{Identity: s.Identity()}, nil
}

func (s stranger) Shards() int { return s.shards }

// greetAs opens a raft stream as a stranger.
func (r *rig) greetAs(s stranger) error {
	r.t.Helper()
	p := New(Config{Wire: testWire(), Members: testMembers, Secret: testSecret, Node: 2})
	defer p.Close()
	p.host = s
	_, err := p.greet(&r.stream(r.http(), pathRaft).wire, roleNode, 1)
	return err
}

// TestPagesAreRefused: requests from a page in a browser are refused before their content is read,
// whatever it looks like.
func TestPagesAreRefused(t *testing.T) {
	r := newRig(t)
	for _, header := range []string{"Origin", "Sec-Fetch-Site", "sec-fetch-mode"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.peer.url(r.addr)+pathDoor, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(header, "null")
		resp, err := r.http().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("with %s: %s, want 403", header, resp.Status)
		}
	}
}

// TestOldTLS: neither end accepts a TLS version before 1.3, even if a configuration per client
// allows it.
func TestOldTLS(t *testing.T) {
	plain := testTLS(t)
	plain.MinVersion = tls.VersionTLS10
	each := plain.Clone()
	each.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return plain, nil }
	for _, server := range []*tls.Config{modern(plain), modern(each)} {
		for version, ok := range map[uint16]bool{tls.VersionTLS12: false, tls.VersionTLS13: true} {
			client := plain.Clone()
			client.ServerName, client.MaxVersion = "127.0.0.1", version
			a, b := net.Pipe()
			served := make(chan error, 1)
			go func() { served <- tls.Server(a, server).HandshakeContext(t.Context()) }()
			conn := tls.Client(b, client)
			err := conn.HandshakeContext(t.Context())
			if (err == nil) != ok {
				t.Errorf("a client of TLS %#x: %v", version, err)
			}
			b.Close()
			a.Close()
			<-served
		}
	}
	if modern(nil) != nil {
		t.Error("clear text has become TLS")
	}
	if conf := newClient(plain, nil, nil).Transport.(*explainer).TLSClientConfig; conf.MinVersion != tls.VersionTLS13 {
		t.Errorf("what a node opens takes TLS %#x", conf.MinVersion)
	}
}

// TestOtherShards: a node with another number of shards is refused, and both ends report both
// numbers. It used to take part, and the same key read differently at different nodes.
func TestOtherShards(t *testing.T) {
	r := newRig(t)
	err := r.greetAs(stranger{run: "r", shards: 3})
	if !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), "3") || !strings.Contains(err.Error(), "2") {
		t.Errorf("the opener is told %v, want ErrInvalid with both numbers", err)
	}
	if err := r.peer.receive(&hello{identity: shard.Introduction{Identity: shard.Identity{Node: 2, Run: "r"}}, shards: 3}); !errors.Is(err,
		engine.ErrInvalid) {
		t.Errorf("the listener says %v, want ErrInvalid", err)
	}
}

// TestTwoOfOneNode: a copy of a node's directory, started beside the original, is kept out while
// the original is connected, and the original stays. Once the original has gone, any process with
// its directory is that node.
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
