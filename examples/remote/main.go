// Command remote shows a node that other processes use: two workers, each a process of its own,
// share a lock and a counter.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	addr := flag.String("addr", "", "be a worker of the node at this address")
	name := flag.String("name", "", "of the worker")
	turns := flag.Int("turns", 5, "how often each worker takes the lock")
	flag.Parse()
	var err error
	if *addr != "" {
		err = work(ctx, os.Stdout, *addr, *name, *turns)
	} else {
		err = serve(ctx, os.Stdout, *turns)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve opens a node, starts two workers and looks at what they have left.
func serve(ctx context.Context, out io.Writer, turns int) error {
	node, err := floe.Open(floe.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer node.Close()
	addr := node.Addr().String()
	fmt.Fprintln(out, "node listens on", addr)

	var workers []*exec.Cmd
	for _, name := range []string{"ann", "bob"} {
		cmd := exec.CommandContext(ctx, os.Args[0], "-addr", addr, "-name", name, "-turns", fmt.Sprint(turns))
		cmd.Stdout, cmd.Stderr = out, os.Stderr
		if err := cmd.Start(); err != nil {
			return err
		}
		workers = append(workers, cmd)
	}
	var failed error
	for _, cmd := range workers {
		failed = errors.Join(failed, cmd.Wait())
	}
	if failed != nil {
		return failed
	}

	entry, err := node.KV("shop").Get(ctx, "sold")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "sold: %s\n", entry.Value)
	return nil
}

// work takes the lock, sells something while holding it, and gives it back, several times.
func work(ctx context.Context, out io.Writer, addr, name string, turns int) error {
	client, err := floe.Dial(ctx, []string{addr})
	if err != nil {
		return err
	}
	defer client.Close()
	store := client.KV("shop")
	for range turns {
		lock, err := store.Lock(ctx, "till", 10*time.Second)
		if err != nil {
			return err
		}
		// Held makes the sale depend on the lock: a worker that was paused for so long that it has
		// lost it sells nothing.
		sold := kv.IncrOp("sold", 1)
		result, err := client.Txn("shop").
			If(lock.Held()).
			Do(sold).
			Commit(ctx)
		if err != nil {
			return err
		}
		number, err := sold.Result(result)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s sold number %d\n", name, number)
		if err := lock.Unlock(ctx); err != nil {
			return err
		}
	}
	return nil
}
