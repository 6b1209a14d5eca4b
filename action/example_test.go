package action_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/kv"
)

func Example() {
	node, err := floe.Open(floe.Config{}) // in memory
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, stop := context.WithCancel(context.Background())
	actions := node.Action("default")
	if _, err := actions.Register(ctx, "add", action.Owner("maths")); err != nil {
		log.Fatal(err)
	}

	type numbers struct{ A, B int }
	w := actions.Worker(action.WorkerConfig{ID: "worker-1"})
	action.Handle(w, "add", func(_ context.Context, in numbers) (int, error) { return in.A + in.B, nil })
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()

	sum, err := action.Invoke[int](ctx, actions, "add", numbers{2, 3})
	fmt.Println(sum, err)

	stop() // the worker finishes what it has
	fmt.Println(<-ended)
	// Output:
	// 5 <nil>
	// <nil>
}

// A handler's error says whether another attempt makes sense, and can name the outcome of a run.
func ExampleWorker_Handle() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, stop := context.WithCancel(context.Background())
	actions := node.Action("default")
	if _, err := actions.Register(ctx, "review", action.Backoff(0, 0)); err != nil {
		log.Fatal(err)
	}

	w := actions.Worker(action.WorkerConfig{}).Handle("review", func(_ context.Context, t *action.Task) (any, error) {
		var amount int
		if err := t.Decode(&amount); err != nil {
			return nil, err // permanent, with the code bad_input
		}
		switch {
		case t.Attempt == 1:
			return nil, errors.New("the rates could not be fetched") // retried
		case amount > 1000:
			return nil, action.Permanent(action.Code("limit", errors.New("too much")))
		}
		return action.Outcome("approved", map[string]int{"amount": amount}), nil
	})
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()

	for _, input := range []string{`100`, `5000`, `"many"`} {
		run, err := actions.InvokeAndWait(ctx, "review", []byte(input))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s, attempt %d, %s %s%s\n", input, run.Status, run.Attempt, run.Outcome, run.Code, run.Output)
	}
	stop()
	fmt.Println(<-ended)
	// Output:
	// 100: completed, attempt 2, approved {"amount":100}
	// 5000: failed, attempt 2, failure limit
	// "many": failed, attempt 1, failure bad_input
	// <nil>
}

// A worker of another runtime makes each call on its own.
func ExampleStore_Await() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, actions := context.Background(), node.Action("default")
	actions.Register(ctx, "resize")
	actions.Invoke(ctx, "resize", []byte(`{"image": 7}`))

	tasks, err := actions.Await(ctx, "python-1", []string{"resize"}, action.Max(10))
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range tasks {
		fmt.Printf("attempt %d of %s: %s\n", t.Attempt, t.Action, t.Input)
		if err := actions.Complete(ctx, t.Run, "python-1", []byte(`"done"`)); err != nil {
			log.Fatal(err)
		}
		run, _ := actions.Runs().Get(ctx, t.Run)
		fmt.Printf("%s by %s: %s\n", run.Status, run.WorkerID, run.Output)
	}
	// Output:
	// attempt 1 of resize: {"image": 7}
	// completed by python-1: "done"
}

// What a handler writes and the end of its attempt are one transaction: it is written once, however
// often the run is begun.
func ExampleCompleteOp() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx := context.Background()
	actions := node.Action("shop")
	if _, err := actions.Register(ctx, "charge"); err != nil {
		log.Fatal(err)
	}
	if _, err := actions.Invoke(ctx, "charge", []byte(`{"order":42}`)); err != nil {
		log.Fatal(err)
	}

	tasks, err := actions.Await(ctx, "worker-1", []string{"charge"}) // a Handler has such a Task too
	if err != nil || len(tasks) != 1 {
		log.Fatal(len(tasks), err)
	}
	charge := func() error {
		_, err := node.Txn("shop").
			If(action.Held(&tasks[0])).
			Do(kv.IncrOp("charged", 1), action.CompleteOp(&tasks[0], []byte(`"paid"`))).
			Commit(ctx)
		return err
	}
	fmt.Println(charge())
	fmt.Println(errors.Is(charge(), floe.ErrConflict)) // the attempt is over
	charged, err := node.KV("shop").Get(ctx, "charged")
	fmt.Println(string(charged.Value), err)
	// Output:
	// <nil>
	// true
	// 1 <nil>
}
