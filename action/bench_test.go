package action_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/action"
)

// BenchmarkRun has a worker in the node's process carry out runs on an in-memory node, until their
// callers have the results.
func BenchmarkRun(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			node, err := floe.Open(floe.Config{Shards: 1})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			store := node.Action("default")
			w := store.Worker(action.WorkerConfig{Concurrency: 64})
			w.Handle("a", func(context.Context, *action.Task) (any, error) { return nil, nil })
			if _, err := store.Register(ctx, "a"); err != nil {
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
			b.ReportAllocs()
			b.SetParallelism((callers + 1) / 2)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if run, err := store.InvokeAndWait(ctx, "a", []byte(`{"n":1}`)); err != nil || run.Status != action.Completed {
						b.Errorf("%+v, %v", run, err)
						return
					}
				}
			})
		})
	}
}
