// Command 14-cluster runs three nodes in one program, and stops one of them while it writes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "floe-cluster-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	peers, err := freePeers(3)
	if err != nil {
		return err
	}
	nodes := make([]*floe.Node, len(peers))
	defer func() {
		for _, node := range nodes {
			if node != nil {
				err = errors.Join(err, node.Close())
			}
		}
	}()
	for i := range nodes {
		if nodes[i], err = open(dir, peers, i); err != nil {
			return err
		}
	}

	// Any node accepts any call and forwards it to the leader of the key's shard.
	store := nodes[0].KV("shop")
	if err := write(ctx, out, store, "three nodes"); err != nil {
		return err
	}
	if err := nodes[1].Close(); err != nil {
		return err
	}
	if err := write(ctx, out, store, "node 2 stopped"); err != nil {
		return err
	}
	if nodes[1], err = open(dir, peers, 1); err != nil {
		return err
	}
	if err := write(ctx, out, store, "node 2 started"); err != nil {
		return err
	}
	for i, node := range nodes {
		n := 0
		for _, err := range node.KV("shop").All(ctx, kv.Prefix("order/")) {
			if err != nil {
				return err
			}
			n++
		}
		fmt.Fprintf(out, "node %d: %d keys\n", i+1, n)
	}
	return nil
}

// open opens a node of the cluster. The secret authenticates the nodes to each other; a real one is
// random and stored in a file.
func open(dir string, peers []floe.Peer, i int) (*floe.Node, error) {
	return floe.Open(floe.Config{
		DataDir: filepath.Join(dir, fmt.Sprint("node", i+1)),
		NodeID:  peers[i].ID,
		Peers:   peers,
		Secret:  []byte("shared by the three nodes"),
	})
}

// write stores 100 orders.
func write(ctx context.Context, out io.Writer, store *kv.Store, when string) error {
	for n := range 100 {
		key := fmt.Sprintf("order/%s/%d", when, n)
		_, err := store.Put(ctx, key, []byte("1 cup"))
		for errors.Is(err, floe.ErrUnavailable) { // no leader for 5 s
			_, err = store.Put(ctx, key, []byte("1 cup"))
		}
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%s: wrote 100 keys\n", when)
	return nil
}

// freePeers returns nodes 1 to n, at free ports of this machine.
func freePeers(n int) (peers []floe.Peer, err error) {
	for i := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		peers = append(peers, floe.Peer{ID: uint64(i + 1), Addr: l.Addr().String()})
	}
	return peers, nil
}
