// Command worker-process has runs carried out by another process, which is killed in the middle of
// one and started again.
package main

import (
	"bufio"
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
	"github.com/floedb/floe/action"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	addr := flag.String("addr", "", "be a worker of the node at this address")
	name := flag.String("name", "", "of the worker")
	hangs := flag.Bool("hangs", false, "never finish what was begun")
	flag.Parse()
	var err error
	if *addr != "" {
		err = work(ctx, os.Stdout, *addr, *name, *hangs)
	} else {
		err = serve(ctx, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve opens a node, invokes an action, and starts a worker for it, which it kills; then another
// one.
func serve(ctx context.Context, out io.Writer) error {
	node, err := floe.Open(floe.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer node.Close()
	press := node.Action("press")
	if _, err := press.Register(ctx, "print", action.Timeout(time.Second), action.Backoff(0, 0)); err != nil {
		return err
	}
	i, err := press.Invoke(ctx, "print", []byte(`"a book"`))
	if err != nil {
		return err
	}

	first := worker(ctx, node.Addr().String(), "ann", "-hangs")
	says, err := first.StdoutPipe()
	if err != nil {
		return err
	}
	if err := first.Start(); err != nil {
		return err
	}
	begun, err := bufio.NewReader(says).ReadString('\n')
	if err != nil {
		return errors.Join(err, first.Wait())
	}
	fmt.Fprint(out, begun+"ann is killed\n")
	if err := first.Process.Kill(); err != nil {
		return err
	}
	_ = first.Wait() // it was killed

	second := worker(ctx, node.Addr().String(), "bob")
	second.Stdout = out
	if err := second.Start(); err != nil {
		return err
	}
	run, err := press.Wait(ctx, i.Run)
	if err := errors.Join(err, second.Process.Signal(os.Interrupt), second.Wait()); err != nil {
		return err
	}
	fmt.Fprintf(out, "the run is %s by %s in attempt %d: %s\n", run.Status, run.WorkerID, run.Attempt, run.Output)
	return nil
}

// worker is this program as a worker of the node at addr.
func worker(ctx context.Context, addr, name string, more ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], append([]string{"-addr", addr, "-name", name}, more...)...)
	cmd.Stderr = os.Stderr
	return cmd
}

// work is the worker: it connects, and carries out what there is until ctx ends.
func work(ctx context.Context, out io.Writer, addr, name string, hangs bool) error {
	client, err := floe.Dial(ctx, []string{addr})
	if err != nil {
		return err
	}
	defer client.Close()
	w := client.Action("press").Worker(action.WorkerConfig{ID: name})
	action.Handle(w, "print", func(ctx context.Context, what string) (string, error) {
		fmt.Fprintf(out, "%s prints %s, attempt %d\n", name, what, action.TaskOf(ctx).Attempt)
		if hangs {
			<-ctx.Done()
			return "", ctx.Err()
		}
		return what + " on paper", nil
	})
	return w.Run(ctx)
}
