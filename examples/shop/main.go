// Command shop is a small web shop in one binary: products with stock, carts and checkout, an order
// workflow with payment and approval, mail, a revenue chart, and the dashboard of its node. It runs
// as one node, in memory or on a directory, or as a member of a cluster.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/floedb/floe"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.StringVar(&o.addr, "addr", "127.0.0.1:8080", "`address` of the shop")
	flag.StringVar(&o.dataDir, "data", "", "data `directory` (default in memory)")
	flag.StringVar(&o.peers, "peers", "", "`nodes` of the cluster, such as 1=host1:9001,2=host2:9001,3=host3:9001")
	flag.Uint64Var(&o.nodeID, "node-id", 0, "`id` of this node in -peers")
	flag.StringVar(&o.secretFile, "secret-file", "", "`file` with the secret of the cluster, at least 16 bytes")
	flag.BoolVar(&o.cluster, "cluster", false, "run three nodes in this process, on the port of -addr and the two after it")
	flag.Parse()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	sites, err := o.sites()
	if err == nil {
		err = together(ctx, len(sites), func(ctx context.Context, i int) error { return sites[i].run(ctx, log) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

// site is one process of the shop, or one of three in the same process: a node, and the address of
// the shop that it serves.
type site struct {
	addr string
	node floe.Config
}

// run serves the shop until ctx ends. The node is the last to stop.
func (s site) run(ctx context.Context, log *slog.Logger) (err error) {
	if s.node.NodeID != 0 {
		log = log.With("self", s.node.NodeID)
	}
	listener, err := net.Listen("tcp", s.addr) // first: it fails at once if the port is taken
	if err != nil {
		return err
	}
	defer listener.Close() // if serve has not done so
	s.node.Logger = log
	node, err := floe.OpenContext(ctx, s.node)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	shop := newShop(node, log)
	if err := shop.setUp(ctx); err != nil {
		return err
	}
	log.Info("the shop is open", "url", "http://"+listener.Addr().String())
	return shop.run(ctx, listener)
}

// together calls f concurrently for 0 to n-1 and returns when all calls have returned. The first to
// return cancels the context of the others.
func together(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, n)
	for i := range n {
		go func() { ended <- f(ctx, i) }()
	}
	var all error
	for range n {
		if err := <-ended; !errors.Is(err, context.Canceled) { // stopped before the shop was open
			all = errors.Join(all, err)
		}
		stop()
	}
	return all
}
