package transport

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/internal/test/toy"
	"github.com/floedb/floe/kv"
)

var testSecret = []byte("the secret of the tests")

func testWire() *engine.Wire {
	return engine.NewWire([]engine.Primitive{engine.TableOf[kv.Store](), toy.Primitive()})
}

// rig is an in-memory node that listens, with other members that do not exist.
type rig struct {
	t    *testing.T
	host *shard.Host
	peer *Peer
	addr string
	fs   vfs.FS
}

var testMembers = []Member{{1, "127.0.0.1:1"}, {2, "127.0.0.1:1"}, {3, "127.0.0.1:1"}}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := openRig(t, "127.0.0.1:0", vfs.NewMem())
	t.Cleanup(r.close)
	return r
}

// openRig opens a node on a file system of its own, perhaps one it used before.
func openRig(t *testing.T, addr string, fsys vfs.FS) *rig {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return openRigAt(t, l, fsys)
}

func openRigAt(t *testing.T, l net.Listener, fsys vfs.FS) *rig {
	t.Helper()
	return openRigFor(t, l, fsys, 64<<10)
}

// openRigFor opens a node for values of up to maxValue bytes.
func openRigFor(t *testing.T, l net.Listener, fsys vfs.FS, maxValue int) *rig {
	t.Helper()
	host, err := shard.Open(shard.Config{Dir: "node", FS: fsys, Shards: 2, MaxValue: maxValue,
		Primitives: []engine.Primitive{engine.TableOf[kv.Store](), toy.Primitive()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Identify(); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, host: host, addr: l.Addr().String(), fs: fsys}
	r.peer = New(Config{Node: 1, Wire: testWire(), Members: testMembers, Secret: testSecret})
	r.peer.Attach(host, func(context.Context) ([]byte, error) { return []byte("{}"), nil })
	r.peer.Serve(l)
	return r
}

func (r *rig) close() {
	r.peer.Drain()
	if err := r.host.Close(); err != nil {
		r.t.Errorf("close: %v", err)
	}
	r.peer.Close()
}

// http returns a client for tests that send raw requests.
func (r *rig) http() *http.Client {
	conns := newCrowd(maxConnections, 2*pingAfter)
	r.t.Cleanup(conns.closeAll)
	return newClient(nil, nil, conns)
}

func (r *rig) dial() *Client {
	r.t.Helper()
	c, err := Dial(r.t.Context(), Config{Wire: testWire()}, []string{r.addr})
	if err != nil {
		r.t.Fatalf("dial: %v", err)
	}
	r.t.Cleanup(c.Close)
	return c
}

// well checks that an honest client is served and the node has not failed.
func (r *rig) well(c *Client) {
	r.t.Helper()
	store, ctx := engine.StoreOf[kv.Store](engine.NewRouter(c), "well", 0), context.Background() // also in a Cleanup
	if _, err := store.Put(ctx, "k", []byte("v")); err != nil {
		r.t.Errorf("put of an honest client: %v", err)
	}
	if e, err := store.Get(ctx, "k"); err != nil || string(e.Value) != "v" {
		r.t.Errorf("get of an honest client: %q, %v", e.Value, err)
	}
	if err := r.host.Err(); err != nil {
		r.t.Fatalf("the node has failed: %v", err)
	}
}
