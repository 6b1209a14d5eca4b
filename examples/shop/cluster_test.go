package main

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestNodeCloses: three nodes serve one shop. One of them closes while an order waits for approval.
// The others take orders and complete the waiting one.
func TestNodeCloses(t *testing.T) {
	var at []string
	var peers []floe.Peer
	for i := range 3 {
		at = append(at, machinetest.FreeAddr(t))
		peers = append(peers, floe.Peer{ID: uint64(i + 1), Addr: machinetest.FreeAddr(t)})
	}
	sites := locally(at, peers, "")
	stops := make([]func(), len(sites))
	for i, s := range sites {
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := together(ctx, 1, func(ctx context.Context, _ int) error { return s.run(ctx, quiet) }); err != nil {
				t.Errorf("node %d: %v", i+1, err)
			}
		}()
		stops[i] = func() {
			stop()
			<-ended
		}
		t.Cleanup(stops[i])
		until(t, func() bool { return listens(s.addr) || closed(ended) })
	}

	v := newVisitor(t)
	status := func(base, id string) string {
		var o order
		v.get(base+"/orders/"+id, http.StatusOK, &o)
		return o.Status
	}
	node1, node2, node3 := "http://"+at[0], "http://"+at[1], "http://"+at[2]
	sofa := v.buy(node1, "sofa", 1, "valid").ID
	cup := v.buy(node2, "cup", 1, "valid").ID
	until(t, func() bool { return status(node3, cup) == paid })
	total := v.fill(node1, "lamp", 1)

	stops[0]()

	var lamp order // the cart outlives the node that filled it
	v.post(node2+"/checkout", payment("declined", total), http.StatusOK, &lamp)
	until(t, func() bool { return status(node3, lamp.ID) == paid })
	v.post(node3+"/admin/orders/"+sofa+"/decision", url.Values{"decision": {"approve"}}, http.StatusOK, new(map[string]string))
	until(t, func() bool { return status(node2, sofa) == paid })
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// listens reports whether a program accepts connections at an address.
func listens(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	return c.Close() == nil
}

func TestFlags(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("sixteen bytes or more"), 0o600); err != nil {
		t.Fatal(err)
	}
	const three = "1=a:9001,2=b:9001,3=c:9001"
	for _, c := range []struct {
		options
		nodes int
		err   string
	}{
		{options{addr: ":8080"}, 1, ""},
		{options{addr: "127.0.0.1:8080", cluster: true}, 3, ""},
		{options{peers: three, nodeID: 2, dataDir: "data", secretFile: secret}, 1, ""},
		{options{peers: three, nodeID: 2}, 0, "-peers needs"},
		{options{peers: "a:9001", nodeID: 1, dataDir: "data", secretFile: secret}, 0, "is not id=host:port"},
		{options{peers: three, cluster: true}, 0, "exclude each other"},
		{options{addr: "127.0.0.1:http", cluster: true}, 0, "port of -addr"},
	} {
		sites, err := c.sites()
		if len(sites) != c.nodes || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: %d nodes, %v; want %d, %q", c.options, len(sites), err, c.nodes, c.err)
		}
	}
}
