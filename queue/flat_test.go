package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/queue"
)

// TestFlatCost compares what it takes to deliver and ack a message when few were before it and are behind it, and when many were and are.
func TestFlatCost(t *testing.T) {
	const many = 100_000
	r := newRig(t, 1)
	small, large, ctx := r.store("small"), r.store("large"), within(t)
	fillQueue(t, large, 2*many)
	for range many / queue.MaxBatch {
		takeBatch(t, large, queue.MaxBatch)
	}
	fillQueue(t, small, 3000)
	// Rounds are shorter than what the system lets a program run at a time, and the fastest one counts, so other programs do not matter.
	round := func(jobs *queue.Store) time.Duration {
		start := time.Now()
		for range 20 {
			must(jobs.Enqueue(ctx, "q", nil))
			takeBatch(t, jobs, 1)
		}
		return time.Since(start)
	}
	fast, slow := time.Hour, time.Hour
	for range 100 {
		fast, slow = min(fast, round(small)), min(slow, round(large))
	}
	t.Logf("20 messages: %v, and after and before %d others %v", fast, many, slow)
	if slow > 3*fast {
		t.Errorf("20 messages took %v, and after and before %d others %v", fast, many, slow)
	}
	r.restart()
	takeBatch(t, large, 1)
}

func takeBatch(t *testing.T, jobs *queue.Store, n int) {
	got := must(jobs.Dequeue(t.Context(), "q", queue.Max(n)))
	if len(got) != n {
		t.Fatalf("Dequeue returned %d messages, want %d", len(got), n)
	}
	receipts := make([]queue.Receipt, n)
	for i, m := range got {
		receipts[i] = m.Receipt
	}
	must(0, jobs.Ack(t.Context(), "q", receipts...))
}

// TestIdleQueues has more queues than are remembered: memory stays bounded, and after a restart only those that are used are read.
func TestIdleQueues(t *testing.T) {
	const queues = 60_000
	var machine engine.Machine
	r := newRigOf(t, 1, func() engine.Machine {
		machine = queue.Primitive().New()
		return machine
	})
	var cmds []engine.Command
	for i := range queues {
		cmds = append(cmds, command(t, queue.EnqueueOp(fmt.Sprint("q", i), []byte("x"))))
		if len(cmds) == 1000 {
			r.entry(0, cmds...)
			cmds = cmds[:0]
		}
	}
	if n, bytes := queue.Remembered(machine); n == queues || bytes > queue.MaxRemembered+4<<20 {
		t.Errorf("the machine remembers %d of %d queues, in about %d bytes; want at most %d", n, queues, bytes, queue.MaxRemembered)
	}
	r.restart()
	jobs := r.store("n")
	if got := must(jobs.Dequeue(t.Context(), "q77")); len(got) != 1 {
		t.Errorf("Dequeue = %+v", got)
	}
	if n, bytes := queue.Remembered(machine); n != 1 || bytes > 4<<10 {
		t.Errorf("after a restart and one message the machine remembers %d queues in %d bytes", n, bytes)
	}
}

// TestAllocations pins what the hot path allocates in Apply, beside what the rig itself does.
func TestAllocations(t *testing.T) {
	r := newRig(t, 1)
	enqueue := command(t, queue.EnqueueOp("q", payload))
	dequeue := command(t, queue.DequeueOp("q"))
	r.entry(0, enqueue)
	idle := testing.AllocsPerRun(200, func() { r.entry(0, command(t, engine.Op(queue.Held("q", "1-1")))) })
	used := testing.AllocsPerRun(200, func() {
		r.entry(0, enqueue)
		r.entry(0, dequeue)
	})
	t.Logf("%.1f allocations for a refused command, %.1f for a message", idle, used)
	if used > 30 {
		t.Errorf("enqueue and dequeue allocate %.1f times", used)
	}
}
