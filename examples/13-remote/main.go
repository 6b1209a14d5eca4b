// Command 13-remote is a node that other processes use: each is a worker, one of them is killed,
// and the next one gets its run.
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
	addr := flag.String("addr", "", "run a worker for the node at this `address`")
	name := flag.String("name", "", "name of the worker")
	hang := flag.Bool("hang", false, "never finish a run")
	flag.Parse()
	var err error
	if *addr != "" {
		err = work(ctx, os.Stdout, *addr, *name, *hang)
	} else {
		err = run(ctx, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run opens a node, invokes an action, and starts two workers for it, one after the other.
func run(ctx context.Context, out io.Writer) error {
	node, err := floe.Open(floe.Config{Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer node.Close()
	press := node.Action("press")
	if _, err := press.Register(ctx, "print", action.Timeout(5*time.Second), action.Backoff(0, 0)); err != nil {
		return err
	}
	invoked, err := press.Invoke(ctx, "print", []byte(`"a book"`))
	if err != nil {
		return err
	}
	if err := killAtWork(command(ctx, node, "ann", "-hang"), out); err != nil {
		return err
	}

	second := command(ctx, node, "bob")
	second.Stdout = out
	if err := second.Start(); err != nil {
		return err
	}
	done, err := press.Wait(ctx, invoked.Run)
	if err := errors.Join(err, second.Process.Signal(os.Interrupt), second.Wait()); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s by %s in attempt %d: %s\n", done.Status, done.WorkerID, done.Attempt, done.Output)
	counted, err := node.KV("press").Get(ctx, "started")
	fmt.Fprintf(out, "started: %s\n", counted.Value)
	return err
}

// command is this program as a worker of the node.
func command(ctx context.Context, node *floe.Node, name string, more ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], append([]string{"-addr", node.Addr().String(), "-name", name}, more...)...)
	cmd.Stderr = os.Stderr
	return cmd
}

// killAtWork starts a worker and kills it after its first line of output.
func killAtWork(worker *exec.Cmd, out io.Writer) error {
	printed, err := worker.StdoutPipe()
	if err != nil {
		return err
	}
	if err := worker.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(printed).ReadString('\n')
	fmt.Fprint(out, line, "killed\n")
	err = errors.Join(err, worker.Process.Kill())
	_ = worker.Wait() // reports the kill
	return err
}

// work connects to the node and executes runs until ctx ends.
func work(ctx context.Context, out io.Writer, addr, name string, hang bool) error {
	db, err := floe.Dial(ctx, []string{addr})
	if err != nil {
		return err
	}
	defer db.Close()
	w := db.Action("press").Worker(action.WorkerConfig{ID: name})
	action.Handle(w, "print", func(ctx context.Context, what string) (string, error) {
		if _, err := db.KV("press").Incr(ctx, "started", 1); err != nil {
			return "", err
		}
		fmt.Fprintf(out, "%s prints %s, attempt %d\n", name, what, action.TaskOf(ctx).Attempt)
		if hang {
			<-ctx.Done()
			return "", ctx.Err()
		}
		return what + " on paper", nil
	})
	return w.Run(ctx)
}
