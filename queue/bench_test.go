package queue_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/queue"
)

// callers is the number of goroutines that call a store in the benchmarks.
const callers = 64

// parallel runs f in that many goroutines, on a node on disk.
func parallel(b *testing.B, prepare func(node *floe.Node), f func(node *floe.Node) error) {
	node := open(b, floe.Config{DataDir: b.TempDir(), Shards: 1})
	prepare(node)
	b.ReportAllocs()
	b.SetParallelism(callers / runtime.GOMAXPROCS(0))
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := f(node); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
}

var payload = bytes.Repeat([]byte("01234567"), 32)

// BenchmarkPut is the baseline for the other benchmarks.
func BenchmarkPut(b *testing.B) {
	keys := make(chan string, callers)
	for i := range callers {
		keys <- fmt.Sprint(i)
	}
	parallel(b, func(*floe.Node) {}, func(node *floe.Node) error {
		key := <-keys
		_, err := node.KV("default").Put(b.Context(), key, payload)
		keys <- key
		return err
	})
}

func BenchmarkEnqueue(b *testing.B) {
	parallel(b, func(*floe.Node) {}, func(node *floe.Node) error {
		_, err := node.Queue("default").Enqueue(b.Context(), "q", payload)
		return err
	})
}

// BenchmarkRoundTrip takes a message from enqueue to ack, one call per step, with other messages
// behind it.
func BenchmarkRoundTrip(b *testing.B) {
	for _, behind := range []int{0, 1_000_000} {
		b.Run(fmt.Sprintf("behind=%d", behind), func(b *testing.B) {
			fill := func(node *floe.Node) { fillQueue(b, node.Queue("default"), behind) }
			parallel(b, fill, func(node *floe.Node) error {
				jobs := node.Queue("default")
				if _, err := jobs.Enqueue(b.Context(), "q", payload); err != nil {
					return err
				}
				got, err := jobs.Dequeue(b.Context(), "q")
				if err != nil || len(got) == 0 {
					return fmt.Errorf("got %d messages: %w", len(got), err)
				}
				_, err = jobs.Ack(b.Context(), "q", got[0].Receipt)
				return err
			})
		})
	}
}

// BenchmarkBatches is the same with ten messages per call.
func BenchmarkBatches(b *testing.B) {
	messages := make([]queue.NewMessage, 10)
	for i := range messages {
		messages[i].Payload = payload
	}
	parallel(b, func(*floe.Node) {}, func(node *floe.Node) error {
		jobs := node.Queue("default")
		if _, err := jobs.EnqueueMany(b.Context(), "q", messages); err != nil {
			return err
		}
		got, err := jobs.Dequeue(b.Context(), "q", queue.Max(10))
		if err != nil || len(got) == 0 {
			return err
		}
		receipts := make([]queue.Receipt, len(got))
		for i, m := range got {
			receipts[i] = m.Receipt
		}
		_, err = jobs.Ack(b.Context(), "q", receipts...)
		return err
	})
}

// fillQueue adds n messages of lower priority than others.
func fillQueue(tb testing.TB, jobs *queue.Store, n int) {
	messages := make([]queue.NewMessage, min(n, queue.MaxBatch))
	for i := range messages {
		messages[i] = queue.NewMessage{Payload: payload}
	}
	for left := n; left > 0; left -= len(messages) {
		messages = messages[:min(left, len(messages))]
		if _, err := jobs.EnqueueMany(tb.Context(), "q", messages); err != nil {
			tb.Fatal(err)
		}
	}
}
