package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
	"github.com/floedb/floe/stream/processing"
	"github.com/floedb/floe/workflow"
)

// TestFullQueueHoldsNoWorkflow: while outputs of jobs in all shards wait for a full queue,
// workflows that call an action in the shard of that queue continue.
func TestFullQueueHoldsNoWorkflow(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n, err := floe.Open(floe.Config{Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if err := n.Namespaces().Create(ctx, "s", floe.Spread()); err != nil {
		t.Fatal(err)
	}
	work := "work"
	for i := 0; engine.NameShard("s", work, 4) != engine.NameShard("s", "pay", 4); i++ {
		work = fmt.Sprint("work", i)
	}
	queues, streams := n.Queue("s"), n.Stream("s")
	if err := queues.Configure(ctx, work, queue.Settings{MaxLen: 1}); err != nil {
		t.Fatal(err)
	}
	job, err := n.Processing("s").Submit(ctx, fmt.Appendf(nil, `
name: tasks
sources: [{ name: in, stream: { name: in, partitions: all } }]
sinks: [{ name: work, queue: { name: %s } }]
`, work))
	if err != nil {
		t.Fatal(err)
	}
	if err := streams.Create(ctx, "in", stream.Partitions(8)); err != nil {
		t.Fatal(err)
	}
	for i := range 80 {
		if _, err := streams.Append(ctx, "in", stream.Message{Key: fmt.Sprint(i), Payload: []byte("1")}); err != nil {
			t.Fatal(err)
		}
	}
	jobNow := func() processing.Detail {
		j, err := n.Processing("s").Get(ctx, job.Job)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for jobNow().Metrics.Backlog == 0 {
		<-poll.C
	}

	actions, flows := n.Action("s"), n.Workflow("s")
	if _, err := actions.Register(ctx, "pay", action.MaxRunning(3)); err != nil {
		t.Fatal(err)
	}
	worker, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		w := actions.Worker(action.WorkerConfig{Concurrency: 3})
		ended <- w.Handle("pay", func(context.Context, *action.Task) (any, error) { return nil, nil }).Run(worker)
	}()
	order := workflow.Definition{Name: "order", Start: workflow.Step{
		Do: workflow.Call{Target: "@actions/pay"}, Transitions: []workflow.Transition{{On: "success", To: "flo.Completed"}},
	}}
	if _, err := flows.Create(ctx, order.YAML()); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		run, err := flows.StartAndWait(ctx, "order", nil)
		if err != nil || run.Status != workflow.Completed {
			t.Fatalf("run %+v, %v", run, err)
		}
	}
	stop()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if j := jobNow(); j.Metrics.Backlog == 0 {
		t.Errorf("nothing of the job waits: %+v", j.Metrics)
	}
}
