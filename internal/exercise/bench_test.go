package exercise

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

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

// BenchmarkPut stores 256 incompressible bytes at new keys, durably, beside its limit: L1, a bare file with group commit.
func BenchmarkPut(b *testing.B) {
	value := make([]byte, 256)
	for i := range value {
		value[i] = byte(rand.Uint32())
	}
	for _, n := range []int{1, 64, 256, 1024} {
		b.Run(fmt.Sprintf("limit=L1/callers=%d", n), func(b *testing.B) {
			l := newGroupCommit(b)
			callers(b, n, func(_, _ int) { l.append(value) })
		})
		for _, shards := range []int{1, 4} {
			b.Run(fmt.Sprintf("shards=%d/callers=%d", shards, n), func(b *testing.B) {
				node, err := floe.Open(floe.Config{DataDir: b.TempDir(), Shards: shards})
				if err != nil {
					b.Fatal(err)
				}
				defer node.Close()
				ctx := context.Background()
				if err := node.Namespaces().Create(ctx, "bench", floe.Spread()); err != nil {
					b.Fatal(err)
				}
				store := node.KV("bench")
				b.ReportAllocs()
				callers(b, n, func(_, i int) {
					if _, err := store.Put(ctx, fmt.Sprintf("key-%012d", i*7919%1_000_000_007), value); err != nil {
						b.Error(err)
					}
				})
			})
		}
	}
}

// groupCommit is the physical limit of a durable write: appends to one file, as many as have gathered with one fdatasync.
type groupCommit struct {
	f    vfs.File
	mu   sync.Mutex
	cond *sync.Cond
	buf  []byte
	seq  int
	done int
	busy bool
}

func newGroupCommit(b *testing.B) *groupCommit {
	f, err := vfs.Default.Create(filepath.Join(b.TempDir(), "log"), vfs.WriteCategoryUnspecified)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := f.Close(); err != nil {
			b.Error(err)
		}
	})
	g := &groupCommit{f: f}
	g.cond = sync.NewCond(&g.mu)
	return g
}

func (g *groupCommit) append(p []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.buf = append(g.buf, p...)
	g.seq++
	mine := g.seq
	for g.done < mine {
		if g.busy {
			g.cond.Wait()
			continue
		}
		g.busy = true
		buf, upTo := g.buf, g.seq
		g.buf = nil
		g.mu.Unlock()
		_, err := g.f.Write(buf)
		if err == nil {
			err = g.f.SyncData()
		}
		g.mu.Lock()
		if err != nil {
			panic(err)
		}
		g.busy, g.done = false, upTo
		g.cond.Broadcast()
	}
}

// BenchmarkPutInMemory shows what a write costs beside the disk: with one caller, the way through all stages.
func BenchmarkPutInMemory(b *testing.B) {
	for _, n := range []int{1, 64} {
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
