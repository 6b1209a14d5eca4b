package workflow_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/workflow"
)

// Two actions in sequence; a worker in the same program executes them.
func Example() {
	node, err := floe.Open(floe.Config{}) // in memory
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, stop := context.WithCancel(context.Background())
	actions, flows := node.Action("default"), node.Workflow("default")

	type numbers struct{ A, B int }
	w := actions.Worker(action.WorkerConfig{})
	action.Handle(w, "add", func(_ context.Context, in numbers) (int, error) { return in.A + in.B, nil })
	action.Handle(w, "print", func(_ context.Context, sum int) (string, error) { return fmt.Sprint("sum ", sum), nil })
	for _, name := range []string{"add", "print"} {
		if _, err := actions.Register(ctx, name); err != nil {
			log.Fatal(err)
		}
	}
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()

	if _, err := flows.Create(ctx, []byte(`
name: sum
version: "1"
start: { run: "@actions/add", transitions: { success: show, failure: flo.Failed } }
steps:
  show: { run: "@actions/print", input: "$.steps._start.output", transitions: { success: flo.Completed, failure: flo.Failed } }
`)); err != nil {
		log.Fatal(err)
	}
	run, err := flows.StartAndWait(ctx, "sum", []byte(`{"A":2,"B":3}`))
	fmt.Printf("%s: %s, %v\n", run.Status, run.Output, err)

	stop()
	fmt.Println(<-ended)
	// Output:
	// completed: "sum 5", <nil>
	// <nil>
}

// A run waits for a signal for an hour. Its history shows what happened.
func ExampleStore_Signal() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx, flows := context.Background(), node.Workflow("default")
	release := workflow.Definition{Name: "release", Start: workflow.Step{
		Do:          workflow.WaitFor{Signal: "approval", Timeout: time.Hour},
		Transitions: []workflow.Transition{{On: "success", To: "flo.Completed"}, {On: "rejected", To: "flo.Failed"}},
	}}
	if _, err := flows.Create(ctx, release.YAML()); err != nil {
		log.Fatal(err)
	}
	started, err := flows.Start(ctx, "release", nil)
	if err != nil {
		log.Fatal(err)
	}
	status, err := flows.Signal(ctx, started.Run, "approval", []byte(`{"outcome":"rejected","by":"ada"}`))
	fmt.Println(started.Status, status, err)
	for e, err := range flows.History(started.Run).All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Type)
	}
	// Output:
	// waiting failed <nil>
	// workflow_started
	// step_started
	// waiting_for_signal
	// signal_received
	// signal_matched
	// step_completed
	// workflow_failed
}

// A run is started together with the record it is about: both exist, or neither.
func ExampleStartOp() {
	node, err := floe.Open(floe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	ctx := context.Background()
	later := workflow.Definition{Name: "remind", Start: workflow.Step{
		Do: workflow.Sleep{For: 24 * time.Hour}, Transitions: []workflow.Transition{{On: "success", To: "flo.Completed"}},
	}}
	if _, err := node.Workflow("shop").Create(ctx, later.YAML()); err != nil {
		log.Fatal(err)
	}
	place := func() error {
		_, err := node.Txn("shop").If(kv.Absent("order:42")).
			Do(kv.PutOp("order:42", []byte("three socks")), workflow.StartOp("remind", []byte(`42`), workflow.UseID("remind-42"))).
			Commit(ctx)
		return err
	}
	fmt.Println(place())
	fmt.Println(place())
	run, err := node.Workflow("shop").Runs().Get(ctx, "remind-42")
	fmt.Println(run.Status, run.Waits, err)
	// Output:
	// <nil>
	// transaction: condition 0: kv: key "order:42" is at revision 3, want absent
	// waiting a time <nil>
}
