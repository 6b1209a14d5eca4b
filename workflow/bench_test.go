package workflow_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
	"github.com/floedb/floe/workflow"
)

// BenchmarkRun measures runs of three steps on an in-memory node with a worker in its process,
// until their callers receive the result.
func BenchmarkRun(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			node, err := floe.Open(floe.Config{Shards: 1})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			w := node.Action("default").Worker(action.WorkerConfig{Concurrency: 64})
			w.Handle("a", func(context.Context, *action.Task) (any, error) { return nil, nil })
			if _, err := node.Action("default").Register(ctx, "a"); err != nil {
				b.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- w.Run(ctx) }()
			b.Cleanup(func() {
				cancel()
				if err := <-ended; err != nil {
					b.Error(err)
				}
				if err := node.Close(); err != nil {
					b.Error(err)
				}
			})
			flows := node.Workflow("default")
			if _, err := flows.Create(ctx, []byte(chain(3))); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetParallelism((callers + 1) / 2)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if run, err := flows.StartAndWait(ctx, "chain", []byte(`{"n":1}`)); err != nil || run.Status != workflow.Completed {
						b.Errorf("%+v, %v", run, err)
						return
					}
				}
			})
		})
	}
}
