// Command 09-actions charges orders with an action: a worker executes it, with typed input and
// output, retries, and one run for repeated invocations.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Order is the input of the action charge, and Receipt is its output.
type (
	Order struct {
		Number, Cents int
		Customer      string
	}
	Receipt struct{ Order, Paid, Attempt int }
)

func run(ctx context.Context, out io.Writer) error {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		return err
	}
	defer node.Close()
	actions := node.Action("shop")
	if _, err := actions.Register(ctx, "charge", action.Timeout(10*time.Second), action.MaxAttempts(3),
		action.Backoff(10*time.Millisecond, time.Second), action.MaxRunningPerKey(1)); err != nil {
		return err
	}

	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- work(working, actions) }()
	err = invoke(ctx, actions, out)
	stop()
	return errors.Join(err, <-ended)
}

// work executes runs until ctx ends, and then finishes those it has started.
func work(ctx context.Context, actions *action.Store) error {
	w := actions.Worker(action.WorkerConfig{ID: "till-1", Concurrency: 4})
	action.Handle(w, "charge", charge)
	return w.Run(ctx)
}

// charge fails once for bob and always for mallory.
func charge(ctx context.Context, o Order) (Receipt, error) {
	attempt := action.TaskOf(ctx).Attempt
	switch {
	case o.Customer == "mallory":
		return Receipt{}, action.Permanent(action.Code("stolen_card", errors.New("the card is stolen")))
	case o.Customer == "bob" && attempt == 1:
		return Receipt{}, errors.New("bank unreachable")
	}
	return Receipt{o.Number, o.Cents, attempt}, nil
}

func invoke(ctx context.Context, actions *action.Store, out io.Writer) error {
	for _, o := range []Order{{1, 1000, "ann"}, {2, 250, "bob"}} {
		r, err := action.Invoke[Receipt](ctx, actions, "charge", o, action.ConcurrencyKey(o.Customer))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "order %d: paid %d cents in attempt %d\n", r.Order, r.Paid, r.Attempt)
	}

	_, err := action.Invoke[Receipt](ctx, actions, "charge", Order{3, 99, "mallory"})
	var failed *action.RunError
	if !errors.As(err, &failed) {
		return fmt.Errorf("order 3: %w", err)
	}
	fmt.Fprintf(out, "order 3: %s after %d attempt: %s (%s)\n", failed.Run.Status, failed.Run.Attempt, failed.Run.Error, failed.Run.Code)

	input := []byte(`{"Number": 4, "Cents": 5, "Customer": "eve"}`)
	for range 2 { // the customer clicks twice
		invoked, err := actions.Invoke(ctx, "charge", input, action.IdempotencyKey("order-4"))
		if err != nil {
			return err
		}
		run, err := actions.Wait(ctx, invoked.Run)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "order 4: duplicate %t, %s: %s\n", invoked.Duplicate, run.Status, run.Output)
	}

	later, err := actions.Invoke(ctx, "charge", input, action.Delay(24*time.Hour))
	if err != nil {
		return err
	}
	if err := actions.Cancel(ctx, later.Run, "ordered by mistake"); err != nil {
		return err
	}
	info, err := actions.Get(ctx, "charge")
	fmt.Fprintf(out, "%d completed, %d failed, %d cancelled\n", info.Runs.Completed, info.Runs.Failed, info.Runs.Cancelled)
	return err
}
