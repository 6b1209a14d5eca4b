package queue_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/queue"
)

// TestLimits tries all documented limits of the store, and values beside them. TestMaxInflight
// covers the limit on leases.
func TestLimits(t *testing.T) {
	const most = 5000 // bytes of a payload
	ctx, node := within(t), open(t, floe.Config{Shards: 1, MaxValueSize: most})
	s := node.Queue("default")
	wide := open(t, floe.Config{Shards: 1}).Queue("default")
	text := func(n int64) string { return strings.Repeat("a", int(n)) }
	enqueue := func(o queue.EnqueueOption) error { _, err := s.Enqueue(ctx, "q", nil, o); return err }
	dequeue := func(o ...queue.DequeueOption) error { _, err := s.Dequeue(ctx, "none", o...); return err }
	leased := func() queue.Receipt {
		if _, err := s.Enqueue(ctx, "leased", nil); err != nil {
			t.Fatal(err)
		}
		ms, err := s.Dequeue(ctx, "leased", queue.Lease(time.Hour))
		if err != nil || len(ms) != 1 {
			t.Fatalf("Dequeue = %d messages, %v", len(ms), err)
		}
		return ms[0].Receipt
	}
	nack := func(o ...queue.NackOption) error {
		_, err := s.Nack(ctx, "leased", []queue.Receipt{leased()}, o...)
		return err
	}
	set := func(c queue.Settings) error { return s.Configure(ctx, "set", c) }
	const none, ever = math.MinInt64, math.MaxInt64
	receipts := func(n int64) (all []queue.Receipt) {
		for i := range n {
			all = append(all, queue.Receipt(fmt.Sprintf("%d-1", i+1)))
		}
		return all
	}
	limits := []machinetest.Limit{
		{Name: "bytes of a name", Least: 1, Most: 255, Says: []string{"queue name"},
			Try: func(n int64) error { _, err := s.Enqueue(ctx, text(n), nil); return err }},
		{Name: "bytes of a payload, with a max_value_size of 5,000", Least: none, Most: most,
			Says: []string{"5001", "max_value_size", "5000"}, Try: func(n int64) error {
				_, err := s.Enqueue(ctx, "q", make([]byte, n))
				return err
			}},
		{Name: "bytes of headers", Least: none, Most: queue.MaxHeaderBytes, Says: []string{"headers", "65537", "65536"},
			Try: func(n int64) error {
				return enqueue(queue.Headers(map[string]string{"name": text(n - 4)}))
			}},
		{Name: "bytes of a header's name", Least: 1, Most: 255, Says: []string{"header name"},
			Try: func(n int64) error { return enqueue(queue.Headers(map[string]string{text(n): ""})) }},
		{Name: "priority", Least: 0, Most: queue.MaxPriority, Says: []string{"priority", "255"},
			Try: func(n int64) error { return enqueue(queue.Priority(int(n))) }},
		{Name: "delay in ns", Least: 0, Most: ever, Says: []string{"delay -1ns"},
			Try: func(n int64) error { return enqueue(queue.Delay(time.Duration(n))) }},
		{Name: "bytes of a dedup key", Least: 1, Most: queue.MaxDedupKeyBytes, Says: []string{"dedup key", "1-255"},
			Try: func(n int64) error { return enqueue(queue.DedupKey(text(n))) }},
		{Name: "max attempts", Least: 1, Most: queue.MaxAttemptsLimit, Says: []string{"max attempts", "1-1000000"},
			Try: func(n int64) error { return enqueue(queue.MaxAttempts(int(n))) }},
		{Name: "messages of a batch", Least: 1, Most: queue.MaxBatch, Says: []string{"messages", "1000"}, Try: func(n int64) error {
			_, err := s.EnqueueMany(ctx, "batch", make([]queue.NewMessage, n))
			return err
		}},
		{Name: "bytes of a batch", Least: none, Most: queue.MaxBatchBytes, Says: []string{"4194304"}, Try: func(n int64) error {
			_, err := wide.EnqueueMany(ctx, "wide", batchOf(n))
			return err
		}},
		{Name: "max", Least: 1, Most: queue.MaxBatch, Says: []string{"max", "1-1000"},
			Try: func(n int64) error { return dequeue(queue.Max(int(n))) }},
		{Name: "lease in ns", Least: 1, Most: ever, Says: []string{"lease 0s"},
			Try: func(n int64) error { return dequeue(queue.Lease(time.Duration(n))) }},
		{Name: "wait in ns", Least: 0, Most: ever, Says: []string{"wait -1ns"},
			Try: func(n int64) error { return dequeue(queue.Wait(time.Duration(n))) }},
		{Name: "extension in ns", Least: 1, Most: ever, Says: []string{"lease 0s"}, Try: func(n int64) error {
			_, err := s.Extend(ctx, "leased", leased(), time.Duration(n))
			return err
		}},
		{Name: "delay of a nack in ns", Least: 0, Most: ever, Says: []string{"delay -1ns"},
			Try: func(n int64) error { return nack(queue.Delay(time.Duration(n))) }},
		{Name: "bytes of a reason", Least: none, Most: queue.MaxReasonBytes, Says: []string{"reason", "1025", "1024"},
			Try: func(n int64) error { return nack(queue.ToDLQ(), queue.Reason(text(n))) }},
		{Name: "receipts of an ack", Least: 1, Most: queue.MaxBatch, Says: []string{"receipts", "1000"},
			Try: func(n int64) error { _, err := s.Ack(ctx, "leased", receipts(n)...); return err }},
		{Name: "receipts of a nack", Least: 1, Most: queue.MaxBatch, Says: []string{"receipts", "1000"},
			Try: func(n int64) error { _, err := s.Nack(ctx, "leased", receipts(n)); return err }},
		{Name: "released receipts", Least: 1, Most: queue.MaxBatch, Says: []string{"receipts", "1000"},
			Try: func(n int64) error { _, err := s.Release(ctx, "leased", receipts(n)...); return err }},
		{Name: "settings: max length", Least: 0, Most: ever, Says: []string{"max length -1"},
			Try: func(n int64) error { return set(queue.Settings{MaxLen: n}) }},
		{Name: "settings: max bytes", Least: 0, Most: ever, Says: []string{"max bytes -1"},
			Try: func(n int64) error { return set(queue.Settings{MaxBytes: n}) }},
		{Name: "settings: max attempts", Least: 0, Most: queue.MaxAttemptsLimit, Says: []string{"max attempts"},
			Try: func(n int64) error { return set(queue.Settings{MaxAttempts: int(n)}) }},
		{Name: "settings: longest back-off in ns", Least: 0, Most: ever, Says: []string{"max back-off -1ns"},
			Try: func(n int64) error { return set(queue.Settings{BackoffMax: time.Duration(n)}) }},
		{Name: "settings: shortest back-off in s beside one of 7 s", Least: none, Most: 7,
			Says: []string{"min back-off 8s", "max back-off 7s"}, Try: func(n int64) error {
				return set(queue.Settings{BackoffMin: time.Duration(n) * time.Second, BackoffMax: 7 * time.Second})
			}},
		{Name: "settings: dead letter retention in ns", Least: 0, Most: ever, Says: []string{"dead letter retention -1ns"},
			Try: func(n int64) error { return set(queue.Settings{DeadRetention: time.Duration(n)}) }},
		{Name: "settings: dedup window in ns", Least: 0, Most: ever, Says: []string{"dedup window -1ns"},
			Try: func(n int64) error { return set(queue.Settings{DedupWindow: time.Duration(n)}) }},
		{Name: "limit", Least: 1, Most: queue.MaxPageItems, Says: []string{"limit", "1-1000"},
			Try: func(n int64) error { _, err := s.Page(ctx, queue.Limit(int(n))); return err }},
		{Name: "limit of messages", Least: 1, Most: queue.MaxPageItems, Says: []string{"limit", "1-1000"}, Try: func(n int64) error {
			_, err := s.Messages("q").Page(ctx, queue.Limit(int(n)))
			return err
		}},
		{Name: "bytes of a prefix", Least: none, Most: 255, Says: []string{"prefix", "256", "255"},
			Try: func(n int64) error { _, err := s.Page(ctx, queue.Prefix(text(n))); return err }},
		{Name: "bytes of a filter", Least: none, Most: queue.MaxFilterBytes, Says: []string{"1025", "1024"}, Try: func(n int64) error {
			_, err := s.DeadLetters("q").RequeueAll(ctx, queue.Contains(text(n)))
			return err
		}},
		{Name: "messages of a bounded queue", Least: none, Most: 3, Beyond: queue.ErrBusy, Says: []string{"3"}, Try: func(n int64) error {
			return fill(ctx, s, fmt.Sprint("long", n), queue.Settings{MaxLen: 3}, int(n), 1)
		}},
		{Name: "bytes of a bounded queue", Least: none, Most: 30, Beyond: queue.ErrBusy, Says: []string{"30"}, Try: func(n int64) error {
			return fill(ctx, s, fmt.Sprint("large", n), queue.Settings{MaxBytes: 30}, 1, int(n))
		}},
		{Name: "consumers at once", Least: 1, Most: queue.MaxConcurrency, Says: []string{"concurrency", "1-10000"},
			Try: func(n int64) error {
				ended, cancel := context.WithCancel(ctx)
				cancel()
				return s.Consume(ended, "none", func(context.Context, queue.Message) error { return nil }, queue.Concurrency(int(n)))
			}},
	}
	machinetest.TryLimits(t, limits)
	machinetest.DocumentLimits(t, "package queue", machinetest.Bounds(limits))
}

// batchOf returns messages whose sizes total n bytes. Each counts 16 bytes in addition to its
// payload.
func batchOf(n int64) (all []queue.NewMessage) {
	for n > 0 {
		one := min(n, queue.DefaultMaxPayloadBytes)
		all, n = append(all, queue.NewMessage{Payload: make([]byte, max(one-16, 0))}), n-one
	}
	return all
}

// fill configures a queue and adds messages of the given size.
func fill(ctx context.Context, s *queue.Store, name string, c queue.Settings, messages, size int) error {
	if err := s.Configure(ctx, name, c); err != nil {
		return err
	}
	for range messages {
		if _, err := s.Enqueue(ctx, name, make([]byte, size)); err != nil {
			return err
		}
	}
	return nil
}
