package e2e

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/floedb/floe"
)

// callers runs b.N operations from n goroutines.
func callers(b *testing.B, n int, op func(worker, i int)) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for w := range n {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				op(w, int(i))
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

// BenchmarkPutInMemory measures the cost of a write apart from the disk; with one caller, the
// latency of all stages. cmd/internal/bench measures the cost on a disk and the distance from its
// limit.
func BenchmarkPutInMemory(b *testing.B) {
	for _, n := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", n), func(b *testing.B) {
			node, err := floe.Open(floe.Config{Shards: 1})
			if err != nil {
				b.Fatal(err)
			}
			defer node.Close()
			store, value := node.KV("bench"), make([]byte, 256)
			b.ReportAllocs()
			callers(b, n, func(_, i int) {
				if _, err := store.Put(context.Background(), fmt.Sprintf("key-%d", i%1000), value); err != nil {
					b.Error(err)
				}
			})
		})
	}
}
