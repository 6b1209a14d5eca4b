// Command actions has orders handled: by a function that is retried when it fails, one customer
// after the other, and once however often it is asked for.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// order is the input of the action charge, receipt its output.
type order struct {
	Number   int
	Customer string
	Cents    int
}

type receipt struct {
	Order int
	Paid  int
}

// shop charges orders.
type shop struct {
	*action.Store
	mu  sync.Mutex // guards out
	out io.Writer
}

func (s *shop) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format+"\n", args...)
}

func run(ctx context.Context, out io.Writer) error {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		return err
	}
	defer node.Close()
	s := &shop{Store: node.Action("shop"), out: out}
	if _, err := s.Register(ctx, "charge", action.Timeout(10*time.Second), action.MaxAttempts(3),
		action.Backoff(20*time.Millisecond, time.Second), action.MaxRunningPerKey(1)); err != nil {
		return err
	}

	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.work(working) }()
	err = errors.Join(s.trade(ctx), s.figures(ctx))
	stop()
	return errors.Join(err, <-ended)
}

// work is a worker: here in the same program, elsewhere behind floe.Dial. It ends with ctx, when
// the handlers that run have returned.
func (s *shop) work(ctx context.Context) error {
	w := s.Worker(action.WorkerConfig{ID: "till-1", Concurrency: 4})
	action.Handle(w, "charge", s.charge)
	return w.Run(ctx)
}

// charge is the handler. The card of order 2 works the second time only, and a stolen
// card never works.
func (s *shop) charge(ctx context.Context, o order) (receipt, error) {
	switch attempt := action.TaskOf(ctx).Attempt; {
	case o.Customer == "mallory":
		return receipt{}, action.Permanent(action.Code("stolen_card", errors.New("the card is stolen")))
	case o.Number == 2 && attempt == 1:
		return receipt{}, errors.New("the bank does not answer")
	case o.Number == 2:
		s.say("order 2 is charged in attempt %d", attempt)
	}
	return receipt{o.Number, o.Cents}, nil
}

// trade has orders charged: typed and waited for, and by their JSON.
func (s *shop) trade(ctx context.Context) error {
	for _, o := range []order{{1, "ada", 1000}, {2, "bob", 250}} {
		r, err := action.Invoke[receipt](ctx, s.Store, "charge", o, action.ConcurrencyKey(o.Customer))
		if err != nil {
			return err
		}
		s.say("order %d: %d cents paid", r.Order, r.Paid)
	}
	_, err := action.Invoke[receipt](ctx, s.Store, "charge", order{3, "mallory", 99})
	var failed *action.RunError
	if !errors.As(err, &failed) {
		return fmt.Errorf("order 3: %w", err)
	}
	s.say("order 3 is %s after %d attempt: %s (%s)", failed.Run.Status, failed.Run.Attempt, failed.Run.Error, failed.Run.Code)

	// The customer presses the button twice; it is one run.
	input := []byte(`{"Number": 4, "Customer": "eve", "Cents": 5}`)
	for range 2 {
		i, err := s.Invoke(ctx, "charge", input, action.IdempotencyKey("order 4"), action.Priority(10))
		if err != nil {
			return err
		}
		run, err := s.Wait(ctx, i.Run)
		if err != nil {
			return err
		}
		s.say("order 4: a duplicate: %t, %s with %s", i.Duplicate, run.Status, run.Output)
	}

	// What is for later can be taken back.
	i, err := s.Invoke(ctx, "charge", input, action.Delay(24*time.Hour))
	if err != nil {
		return err
	}
	return s.Cancel(ctx, i.Run, "ordered by mistake")
}

// figures prints what has become of all runs.
func (s *shop) figures(ctx context.Context) error {
	info, err := s.Get(ctx, "charge")
	if err != nil {
		return err
	}
	r := info.Runs
	s.say("%d runs: %d completed, %d failed, %d cancelled", r.Total, r.Completed, r.Failed, r.Cancelled)
	return nil
}
