package queue_test

import (
	"fmt"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/queue"
)

// BenchmarkDeliver delivers and acknowledges a message, with few and with many messages before and
// behind it. The cost is the same.
func BenchmarkDeliver(b *testing.B) {
	for _, others := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			jobs := storeOf(newRig(b, 1), "n")
			fillQueue(b, jobs, 2*others)
			for range others / queue.MaxBatch {
				takeBatch(b, jobs, queue.MaxBatch)
			}
			b.ReportAllocs()
			for b.Loop() {
				must(jobs.Enqueue(b.Context(), "q", nil))
				takeBatch(b, jobs, 1)
			}
		})
	}
}

func takeBatch(t testing.TB, jobs *queue.Store, n int) {
	got := must(jobs.Dequeue(t.Context(), "q", queue.Max(n)))
	if len(got) != n {
		t.Fatalf("Dequeue returned %d messages, want %d", len(got), n)
	}
	receipts := make([]queue.Receipt, n)
	for i, m := range got {
		receipts[i] = m.Receipt
	}
	must(jobs.Ack(t.Context(), "q", receipts...))
}

// TestIdleQueues has more queues than are cached: memory stays bounded, and after a restart only
// the queues in use are read.
func TestIdleQueues(t *testing.T) {
	const queues = 60_000
	var machine engine.Machine
	r := newRigOf(t, 1, func() engine.Machine {
		machine = engine.TableOf[queue.Store]().New()
		return machine
	})
	var cmds []engine.Command
	for i := range queues {
		cmds = append(cmds, command(t, queue.EnqueueOp(fmt.Sprint("q", i), []byte("x"))))
		if len(cmds) == 1000 {
			r.Entry(0, cmds...)
			cmds = cmds[:0]
		}
	}
	if n, bytes := queue.Remembered(machine); n == queues || bytes > queue.MaxRemembered+4<<20 {
		t.Errorf("the machine remembers %d of %d queues, in about %d bytes; want at most %d", n, queues, bytes, queue.MaxRemembered)
	}
	r.Restart()
	jobs := storeOf(r, "n")
	if got := must(jobs.Dequeue(t.Context(), "q77")); len(got) != 1 {
		t.Errorf("Dequeue = %+v", got)
	}
	if n, bytes := queue.Remembered(machine); n != 1 || bytes > 4<<10 {
		t.Errorf("after a restart and one message the machine remembers %d queues in %d bytes", n, bytes)
	}
}

// TestAllocations pins the allocations of the hot path in Apply, apart from the rig's own.
func TestAllocations(t *testing.T) {
	r := newRig(t, 1)
	enqueue := command(t, queue.EnqueueOp("q", payload))
	dequeue := command(t, queue.DequeueOp("q"))
	r.Entry(0, enqueue)
	idle := testing.AllocsPerRun(200, func() { r.Entry(0, command(t, engine.OpOfCondition(queue.Held("q", "1-1")))) })
	used := testing.AllocsPerRun(200, func() {
		r.Entry(0, enqueue)
		r.Entry(0, dequeue)
	})
	t.Logf("%.1f allocations for a refused command, %.1f for a message", idle, used)
	if used > 30 {
		t.Errorf("enqueue and dequeue allocate %.1f times", used)
	}
}
