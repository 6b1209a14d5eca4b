// Command 10-workflows runs orders through a workflow: paid with one of two banks, approved by a
// person, shipped in parallel, and undone if a step fails.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/workflow"
)

//go:embed order.yaml
var definition []byte

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		return err
	}
	defer node.Close()
	worker := node.Action("shop").Worker(action.WorkerConfig{ID: "clerk-1"})
	for name, f := range handlers(out) {
		if _, err := node.Action("shop").Register(ctx, name); err != nil {
			return err
		}
		action.Handle(worker, name, f)
	}
	flows := node.Workflow("shop")
	if _, err := flows.Create(ctx, definition); err != nil {
		return err
	}

	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(working) }()
	for _, o := range []order{
		{ID: "1", Cents: 1200, Items: []string{"cup", "saucer"}},
		{ID: "2", Cents: 800, Items: []string{"anvil"}},
		{ID: "3", Cents: 25000, Items: []string{"lamp"}, decision: `{"by":"eve"}`},
		{ID: "4", Cents: 99000, Items: []string{"sofa"}, decision: `{"by":"eve","outcome":"rejected"}`},
	} {
		if err = process(ctx, flows, o, out); err != nil {
			break
		}
	}
	stop()
	return errors.Join(err, <-ended)
}

// task is the input of all actions, and handler is a function that executes one.
type (
	task    struct{ Order, Item string }
	handler = func(context.Context, task) (string, error)
)

// handlers returns the functions that the worker executes, by action.
func handlers(out io.Writer) map[string]handler {
	does := func(what string) handler {
		return func(_ context.Context, t task) (string, error) {
			fmt.Fprintf(out, "  order %s: %s\n", t.Order, what)
			return "", nil
		}
	}
	return map[string]handler{
		"reserve": does("reserve the items"), "release": does("release the items"), "refund": does("refund the money"),
		"charge-northbank": func(context.Context, task) (string, error) {
			return "", action.Permanent(errors.New("bank closed"))
		},
		"charge-southbank": func(context.Context, task) (string, error) { return "southbank", nil },
		"ship": func(_ context.Context, t task) (string, error) {
			if t.Item == "anvil" {
				return "", action.Permanent(errors.New("too heavy"))
			}
			return "parcel with " + t.Item, nil
		},
	}
}

// order is the input of the workflow. The decision is the payload of the signal for large orders.
type order struct {
	ID       string   `json:"id"`
	Cents    int      `json:"cents"`
	Items    []string `json:"items"`
	decision string
}

// process starts a run, sends the decision, and waits for the end.
func process(ctx context.Context, flows *workflow.Store, o order, out io.Writer) error {
	input, err := json.Marshal(o)
	if err != nil {
		return err
	}
	started, err := flows.Start(ctx, "order", input, workflow.IdempotencyKey("order-"+o.ID)) // repeated: still one run
	if err != nil {
		return err
	}
	if o.decision != "" {
		if _, err := flows.Signal(ctx, started.Run, "approval", []byte(o.decision)); err != nil {
			return err
		}
	}
	r, err := flows.Wait(ctx, started.Run)
	fmt.Fprintf(out, "%s: %s%s\n", r.Status, r.Output, r.Error)
	return err
}
