// Command outbox-free consumes orders from a queue. Each one takes something from the stock and is
// told to others, in one transaction, so that neither a crash nor a conflict leaves anything half
// done.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dataDir := flag.String("work", "", "be the worker that is killed, on the node in this `directory`")
	flag.Parse()
	var err error
	if *dataDir != "" {
		err = worker(ctx, os.Stdout, *dataDir)
	} else {
		err = inTemporary(func(dir string) error { return run(ctx, os.Stdout, dir) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func inTemporary(do func(dir string) error) error {
	dir, err := os.MkdirTemp("", "floe-outbox-free-")
	if err != nil {
		return err
	}
	return errors.Join(do(dir), os.RemoveAll(dir))
}

// What there is in the beginning.
const (
	orders = 300
	stock  = 250
)

func run(ctx context.Context, out io.Writer, dir string) error {
	if err := onNode(dir, func(node *floe.Node) error { return prepare(ctx, node) }); err != nil {
		return err
	}
	for kills := 1; kills <= 3; kills++ {
		if err := workAndDie(ctx, dir); err != nil {
			return err
		}
		fmt.Fprintf(out, "worker %d was killed\n", kills)
		if err := onNode(dir, func(node *floe.Node) error { return look(ctx, out, node) }); err != nil {
			return err
		}
	}
	return onNode(dir, func(node *floe.Node) error {
		if err := conflict(ctx, out, node); err != nil {
			return err
		}
		if err := consume(ctx, io.Discard, node, time.Second); err != nil {
			return err
		}
		return look(ctx, out, node)
	})
}

func onNode(dir string, do func(*floe.Node) error) error {
	node, err := floe.Open(floe.Config{DataDir: dir})
	if err != nil {
		return err
	}
	return errors.Join(do(node), node.Close())
}

func prepare(ctx context.Context, node *floe.Node) error {
	if err := node.Queue("shop").Configure(ctx, "orders", queue.Settings{BackoffMin: queue.NoBackoff, MaxAttempts: 10}); err != nil {
		return err
	}
	messages := make([]queue.NewMessage, orders)
	for i := range messages {
		messages[i].Payload = fmt.Appendf(nil, "order %d", i+1)
	}
	_, err := node.Queue("shop").EnqueueMany(ctx, "orders", messages)
	if err != nil {
		return err
	}
	_, err = node.KV("shop").Put(ctx, "stock", fmt.Append(nil, stock))
	return err
}

// sell deals with an order: the message is consumed, the stock is smaller and an event is told, or
// nothing has happened.
func sell(ctx context.Context, node *floe.Node, order queue.Message) error {
	_, err := node.Txn("shop").
		Do(
			queue.AckOp("orders", order.Receipt),
			kv.IncrOp("stock", -1, kv.Min(0)),
			stream.AppendOp("sold", stream.Message{Payload: order.Payload}),
		).
		Commit(ctx)
	return err
}

// refuse is what happens to an order when there is no stock.
func refuse(ctx context.Context, node *floe.Node, order queue.Message) error {
	_, err := node.Txn("shop").
		Do(
			queue.NackOp("orders", []queue.Receipt{order.Receipt}, queue.ToDLQ(), queue.Reason("sold out")),
			stream.AppendOp("refused", stream.Message{Payload: order.Payload}),
		).
		Commit(ctx)
	return err
}
