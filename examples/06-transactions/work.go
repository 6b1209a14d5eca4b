package main

import (
	"context"
	"errors"
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

// lease is how long an order is held up when its worker dies.
const lease = 500 * time.Millisecond

// worker is the process that is killed.
func worker(ctx context.Context, out io.Writer, dir string) error {
	return onNode(dir, func(node *floe.Node) error { return consume(ctx, out, node, time.Minute) })
}

// consume deals with one order after the other, until there is none for some time.
func consume(ctx context.Context, out io.Writer, node *floe.Node, patience time.Duration) error {
	for {
		taken, err := node.Queue("shop").Dequeue(ctx, "orders", queue.Lease(lease), queue.Wait(patience))
		if err != nil || len(taken) == 0 {
			return err
		}
		err = sell(ctx, node, taken[0])
		if bound := (*kv.BoundError)(nil); errors.As(err, &bound) { // the stock would be less than 0
			err = refuse(ctx, node, taken[0])
		}
		if err != nil && !errors.Is(err, floe.ErrConflict) { // else the lease is over, and somebody else has the order
			return err
		}
		fmt.Fprintf(out, "%s\n", taken[0].Payload)
	}
}

// workAndDie starts a worker as a process of its own, and kills it while it is at work.
func workAndDie(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, os.Args[0], "-work", dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	// A few dozen orders, and somewhere in the next.
	_, err = io.ReadFull(out, make([]byte, 300))
	err = errors.Join(err, cmd.Process.Kill())
	_ = cmd.Wait() // it says that the process was killed
	return err
}

// conflict is a worker that is too slow: another one has its order, and only one of them sells.
func conflict(ctx context.Context, out io.Writer, node *floe.Node) error {
	orders := node.Queue("shop")
	slow, err := orders.Dequeue(ctx, "orders", queue.Lease(time.Millisecond), queue.Wait(time.Minute))
	if err != nil {
		return err
	}
	for {
		quick, err := orders.Dequeue(ctx, "orders", queue.Wait(time.Minute))
		if err != nil {
			return err
		}
		if err := sell(ctx, node, quick[0]); err != nil {
			return err
		}
		if quick[0].Seq == slow[0].Seq {
			break
		}
	}
	fmt.Fprintf(out, "the slow worker is told: %v\n", sell(ctx, node, slow[0]))
	return nil
}

// look compares what is left with what was told.
func look(ctx context.Context, out io.Writer, node *floe.Node) error {
	left, err := node.KV("shop").Incr(ctx, "stock", 0)
	if err != nil {
		return err
	}
	stats, err := node.Queue("shop").Get(ctx, "orders")
	if err != nil {
		return err
	}
	sold, err := told(ctx, node, "sold")
	if err != nil {
		return err
	}
	refused, err := told(ctx, node, "refused")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d sold, %d in stock; %d refused; %d orders to go\n", sold, left, refused, orders-stats.Acked-stats.Dead)
	if sold+left != stock || stats.Acked != sold || stats.Dead != refused {
		return fmt.Errorf("something is half done: %+v", stats)
	}
	return nil
}

// told returns how many events are in a stream.
func told(ctx context.Context, node *floe.Node, name string) (int64, error) {
	stats, err := node.Stream("shop").Get(ctx, name)
	if errors.Is(err, stream.ErrNotFound) {
		return 0, nil
	}
	return stats.Records(), err
}
