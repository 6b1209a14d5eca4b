// Command cluster runs three nodes in one program, writes to them, takes one down and brings it
// back: nothing is lost.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	writes := flag.Int("writes", 1000, "how many keys are written in each of the three parts")
	flag.Parse()
	dir, err := os.MkdirTemp("", "floe-cluster-")
	if err == nil {
		err = run(ctx, os.Stdout, dir, *writes)
		os.RemoveAll(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// secret is what the nodes know each other by. A real one is random, and kept in a file.
var secret = []byte("known to the three nodes only")

// cluster is three nodes, one of which may be down.
type cluster struct {
	dir   string
	peers []floe.Peer
	nodes []*floe.Node
}

// start opens a node. It finds the others by itself.
func (c *cluster) start(i int) (err error) {
	c.nodes[i], err = floe.Open(floe.Config{
		DataDir: filepath.Join(c.dir, fmt.Sprint("node", i+1)),
		NodeID:  c.peers[i].ID,
		Peers:   c.peers,
		Secret:  secret,
	})
	return err
}

func (c *cluster) stop(i int) error {
	node := c.nodes[i]
	c.nodes[i] = nil
	return node.Close()
}

func run(ctx context.Context, out io.Writer, dir string, writes int) error {
	c := &cluster{dir: dir, nodes: make([]*floe.Node, 3)}
	for i := range c.nodes {
		addr, err := freeAddr()
		if err != nil {
			return err
		}
		c.peers = append(c.peers, floe.Peer{ID: uint64(i + 1), Addr: addr})
	}
	defer func() {
		for i, node := range c.nodes {
			if node != nil {
				_ = c.stop(i)
			}
		}
	}()
	for i := range c.nodes {
		if err := c.start(i); err != nil {
			return err
		}
	}

	// Each node takes reads and writes, whichever leads the shard of the key.
	store := c.nodes[0].KV("orders")
	written := 0
	write := func(when string) error {
		start := time.Now()
		for range writes {
			if _, err := store.Put(ctx, fmt.Sprintf("order/%05d", written), []byte(when)); err != nil {
				return err
			}
			written++
		}
		fmt.Fprintf(out, "%-20s %d keys in %v\n", when, writes, time.Since(start).Round(time.Millisecond))
		return nil
	}
	if err := write("three nodes"); err != nil {
		return err
	}
	if err := c.stop(1); err != nil {
		return err
	}
	if err := write("node 2 is down"); err != nil {
		return err
	}
	if err := c.start(1); err != nil {
		return err
	}
	if err := write("node 2 is back"); err != nil {
		return err
	}

	for i, node := range c.nodes {
		n := 0
		for _, err := range node.KV("orders").All(ctx, kv.Prefix("order/")) {
			if err != nil {
				return err
			}
			n++
		}
		fmt.Fprintf(out, "node %d shows %d of %d keys\n", i+1, n, written)
	}
	return nil
}

// freeAddr returns an address that nobody listens on.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
