// Command 06-transactions sells pieces from a stock. Consuming an order, changing the stock and
// emitting an event are one transaction, so a crash leaves nothing half done.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

func main() {
	worker := flag.String("worker", "", "run a worker on the node in this `directory`, and crash with the tenth order")
	flag.Parse()
	var err error
	if *worker != "" {
		err = withNode(*worker, func(node *floe.Node) error { return work(context.Background(), node, 10) })
	} else {
		err = run(context.Background(), os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "floe-transactions-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := withNode(dir, func(node *floe.Node) error { return prepare(ctx, node) }); err != nil {
		return err
	}
	crashed := exec.CommandContext(ctx, os.Args[0], "-worker", dir).Run()
	fmt.Fprintf(out, "first worker: %v\n", crashed)
	return withNode(dir, func(node *floe.Node) error {
		err := errors.Join(report(ctx, out, node), work(ctx, node, 0))
		fmt.Fprintln(out, "second worker: finished")
		return errors.Join(err, report(ctx, out, node))
	})
}

func withNode(dir string, f func(*floe.Node) error) error {
	node, err := floe.Open(floe.Config{DataDir: dir})
	if err != nil {
		return err
	}
	return errors.Join(f(node), node.Close())
}

// prepare puts 100 orders into the queue, and 80 pieces into the stock.
func prepare(ctx context.Context, node *floe.Node) error {
	orders := make([]queue.NewMessage, 100)
	for i := range orders {
		orders[i].Payload = fmt.Appendf(nil, "order %d", i+1)
	}
	_, err := node.Txn("shop").Do(kv.PutOp("stock", []byte("80")), queue.EnqueueManyOp("orders", orders)).Commit(ctx)
	return err
}

// work sells until no order is left. It crashes before it sells the order with the number crash.
func work(ctx context.Context, node *floe.Node, crash uint64) error {
	for {
		stats, err := node.Queue("shop").Get(ctx, "orders")
		if err != nil || stats.Ready+stats.Delayed+stats.Inflight == 0 {
			return err
		}
		orders, err := node.Queue("shop").Dequeue(ctx, "orders", queue.Lease(5*time.Second), queue.Wait(time.Minute))
		if err != nil {
			return err
		}
		for _, order := range orders {
			if order.Seq == crash {
				os.Exit(3) // without Close, as in a crash
			}
			if err := sell(ctx, node, order); err != nil {
				return err
			}
		}
	}
}

// sell consumes the order, takes a piece from the stock and emits an event, or does nothing.
func sell(ctx context.Context, node *floe.Node, order queue.Message) error {
	_, err := node.Txn("shop").
		Do(
			queue.AckOp("orders", order.Receipt),
			kv.IncrOp("stock", -1, kv.Min(0)),
			stream.AppendOp("sold", stream.Message{Payload: order.Payload}),
		).
		Commit(ctx)
	if bound := (*kv.BoundError)(nil); errors.As(err, &bound) { // the stock is 0
		_, err = node.Queue("shop").Nack(ctx, "orders", []queue.Receipt{order.Receipt}, queue.ToDLQ(), queue.Reason("sold out"))
	}
	if errors.Is(err, floe.ErrConflict) { // the lease had ended: the order will be delivered again
		return nil
	}
	return err
}

func report(ctx context.Context, out io.Writer, node *floe.Node) error {
	stock, err := node.KV("shop").Get(ctx, "stock")
	orders, queueErr := node.Queue("shop").Get(ctx, "orders")
	sold, streamErr := node.Stream("shop").Get(ctx, "sold")
	fmt.Fprintf(out, "  %d orders consumed, %d events, %s in stock, %d sold out\n", orders.Acked, sold.Records(), stock.Value, orders.Dead)
	return errors.Join(err, queueErr, streamErr)
}
