package queue_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/queue"
)

// largest returns the largest effort of a command kind.
func largest(t *testing.T, r *machinetest.Rig, command string) engine.Effort {
	t.Helper()
	return effortOf(t, r.Efforts(), command)
}

func effortOf(t *testing.T, all []engine.Effort, command string) engine.Effort {
	t.Helper()
	for _, e := range all {
		if e.Command == command {
			return e
		}
	}
	t.Fatalf("there was no %s", command)
	return engine.Effort{}
}

// TestLargeLeasesThatEndTogether: messages of a megabyte that become dead letters together are
// moved a few at a time. Moving 600 of them used to write 2.2 GB in one command.
func TestLargeLeasesThatEndTogether(t *testing.T) {
	const n, size = 30, 1 << 20
	r := newRig(t, 1)
	s, ctx := storeOf(r, "n"), t.Context()
	must(0, s.Configure(ctx, "q", queue.Settings{MaxAttempts: 1}))
	for range n {
		must(s.Enqueue(ctx, "q", bytes.Repeat([]byte("x"), size-100)))
	}
	for left := n; left > 0; {
		left -= len(must(s.Dequeue(ctx, "q", queue.Max(n), queue.Lease(time.Second))))
	}
	r.Advance(1000)
	if st := must(s.Get(ctx, "q")); st.Dead != n || st.Inflight != 0 {
		t.Errorf("%d dead letters, %d leased, want %d dead", st.Dead, st.Inflight, n)
	}
	if e := largest(t, r, "engine fire"); e.Bytes > 6*size || e.Count < n/6 {
		t.Errorf("too much at once: %v", e)
	}
}

// TestManyQueuesAreDueTogether: each Fire ends when it has written enough, whatever the number of
// queues. Its reads grow with its writes. Every iterator used to sort all earlier writes: N queues
// with 1,000 due messages each took 0.15, 0.58, 1.8, 7.0 s for N = 25, 50, 100, 200.
func TestManyQueuesAreDueTogether(t *testing.T) {
	const queues, messages = 40, 250
	r := newRig(t, 1)
	s, ctx := storeOf(r, "n"), t.Context()
	for i := range queues {
		name := fmt.Sprint("q", i)
		must(0, s.Configure(ctx, name, queue.Settings{MaxAttempts: 2, BackoffMin: queue.NoBackoff}))
		must(s.EnqueueMany(ctx, name, make([]queue.NewMessage, messages)))
		must(s.Dequeue(ctx, name, queue.Max(messages), queue.Lease(time.Hour-time.Duration(r.Now()-machinetest.Epoch)*time.Millisecond)))
	}
	r.Advance(3_600_000)
	for i := range queues {
		if st := must(s.Get(ctx, fmt.Sprint("q", i))); st.Ready != messages || st.Expired != messages {
			t.Fatalf("queue %d: %+v, want %d messages ready again", i, st, messages)
		}
	}
	e := largest(t, r, "engine fire")
	if e.Count < 2 || e.Rows > 1<<13 || e.Looks > 4*e.Rows {
		t.Errorf("%v, want few rows in many Fires, and no more looks than a few for each", e)
	}
}

// TestTakingPassesNothingOver: a dequeue's reads grow with the messages it takes, not with the
// number of delayed or already delivered ones. That also holds when the queue was not in memory.
// With 100,000 delayed messages of 10 KB it used to read a gigabyte and block its shard.
func TestTakingPassesNothingOver(t *testing.T) {
	for _, others := range []int{100, 30_000} {
		r := newRig(t, 1)
		s, ctx := storeOf(r, "n"), t.Context()
		must(0, s.Configure(ctx, "q", queue.Settings{BackoffMin: time.Hour}))
		fillQueue(t, s, others)
		for left := others; left > 0; {
			left -= len(must(s.Dequeue(ctx, "q", queue.Max(min(left, queue.MaxBatch)), queue.Lease(time.Second))))
		}
		r.Advance(1000) // all of them are waiting for their second attempt
		delayed := make([]queue.NewMessage, min(others, queue.MaxBatch))
		for i := range delayed {
			delayed[i] = queue.NewMessage{Options: []queue.EnqueueOption{queue.Delay(time.Hour)}}
		}
		for left := others; left > 0; left -= len(delayed) {
			must(s.EnqueueMany(ctx, "q", delayed))
		}
		for _, priority := range []int{queue.DefaultPriority + 1, queue.DefaultPriority, 0} {
			must(s.Enqueue(ctx, "q", nil, queue.Priority(priority)))
		}
		r.Restart()
		s = storeOf(r, "n")
		for _, want := range []int{0, queue.DefaultPriority, queue.DefaultPriority + 1} {
			if got := must(s.Dequeue(ctx, "q")); len(got) != 1 || got[0].Priority != want {
				t.Fatalf("Dequeue = %+v, want the message of priority %d", got, want)
			}
		}
		if e := effortOf(t, r.Executor(0).Efforts(), "queue dequeue"); e.Looks > 20 || e.Steps > 40 {
			t.Errorf("beside %d messages that cannot be delivered: %v", 2*others, e)
		}
	}
}

// TestTakingReadsAhead: the window reads about as many messages as are taken, and more at a time
// during a long run of small calls.
func TestTakingReadsAhead(t *testing.T) {
	r := newRig(t, 1)
	s := storeOf(r, "n")
	fillQueue(t, s, 5000)
	r.Restart()
	s = storeOf(r, "n")
	takeBatch(t, s, 1)
	if e := effortOf(t, r.Executor(0).Efforts(), "queue dequeue"); e.Looks > 20 {
		t.Errorf("one message: %v", e)
	}
	for range 3000 {
		takeBatch(t, s, 1)
	}
	if e := effortOf(t, r.Executor(0).Efforts(), "queue dequeue"); e.Sum.Iters > 30 {
		t.Errorf("3,000 messages: %d iterators, want some", e.Sum.Iters)
	}
}

// TestDeletedQueuesLeaveNoRanges: a deleted range slows down every later iterator. Queues with few
// messages are therefore deleted row by row. Neither they nor empty queues leave ranges.
func TestDeletedQueuesLeaveNoRanges(t *testing.T) {
	ranges := func(r *machinetest.Rig) (n uint64) {
		must(0, r.DB().Flush())
		for _, level := range must(r.DB().SSTables(pebble.WithProperties())) {
			for _, table := range level {
				n += table.Properties.NumRangeDeletions
			}
		}
		return n
	}
	r := newRig(t, 1)
	for range 20 {
		for _, op := range append(someOps(), queue.PurgeOp("fresh"), queue.DeleteOp("fresh"), queue.DeleteOp("q"),
			queue.ConfigureOp("q", queue.Settings{}), queue.DeleteOp("q")) {
			r.Entry(0, command(t, op))
		}
	}
	r.Verify()
	if n := ranges(r); n != 0 {
		t.Errorf("queues with few messages left %d ranges", n)
	}
	s := storeOf(r, "n")
	for _, op := range []engine.Operation{queue.PurgeOp("q"), queue.DeleteOp("q")} {
		fillQueue(t, s, 1000)
		r.Entry(0, command(t, op))
		r.Verify()
	}
	if n := ranges(r); n == 0 || n > 12 {
		t.Errorf("two times 1,000 messages left %d ranges, want a few", n)
	}
	for _, command := range []string{"queue purge", "queue delete"} {
		if e := largest(t, r, command); e.Rows > 100 || e.Looks > 50 {
			t.Errorf("%v, want few rows", e)
		}
	}
}

// TestLeasesAreNotLoadedByCommands: the first command on a queue after a restart reads the same
// amount, whatever the number of leases. Loading a million leases used to block the shard.
func TestLeasesAreNotLoadedByCommands(t *testing.T) {
	looks := func(n int) (most int64) {
		r := newRig(t, 1)
		s, ctx := storeOf(r, "n"), t.Context()
		fillQueue(t, s, n+1)
		var leased []queue.Message
		for len(leased) < n {
			leased = append(leased, must(s.Dequeue(ctx, "q", queue.Max(min(n-len(leased), queue.MaxBatch)), queue.Lease(time.Hour)))...)
		}
		for _, first := range []func(s *queue.Store){
			func(s *queue.Store) { must(s.Ack(ctx, "q", leased[0].Receipt)) },
			func(s *queue.Store) { must(s.Extend(ctx, "q", leased[1].Receipt, 2*time.Hour)) },
			func(s *queue.Store) { must(s.Nack(ctx, "q", []queue.Receipt{leased[2].Receipt})) },
			func(s *queue.Store) { takeBatch(t, s, 1) },
		} {
			r.Restart()
			first(storeOf(r, "n"))
			r.Verify()
			for _, e := range r.Executor(0).Efforts() {
				most = max(most, int64(e.Looks), int64(e.Steps))
			}
		}
		return most
	}
	if few, many := looks(2000), looks(4000); many > few || many > 50 {
		t.Errorf("%d looks beside 2,000 leases, %d beside 4,000", few, many)
	}
}
