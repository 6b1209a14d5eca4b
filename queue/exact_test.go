package queue_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/floedb/floe/queue"
)

// manyDue exceeds what one command processes of the items due at once. Items beyond that are
// unchanged, and must not be used as if they were.
const manyDue = 2500

// leaseMany fills a queue and leases all messages, for a second.
func leaseMany(t *testing.T, s *queue.Store, settings queue.Settings) (leased []queue.Message) {
	t.Helper()
	ctx := t.Context()
	if err := s.Configure(ctx, "q", settings); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < manyDue; n += 500 {
		if _, err := s.EnqueueMany(ctx, "q", make([]queue.NewMessage, 500)); err != nil {
			t.Fatal(err)
		}
	}
	for len(leased) < manyDue {
		got, err := s.Dequeue(ctx, "q", queue.Max(500), queue.Lease(time.Second))
		if err != nil || len(got) == 0 {
			t.Fatalf("Dequeue = %d messages, %v", len(got), err)
		}
		leased = append(leased, got...)
	}
	return leased
}

// TestAckExactlyAtTheEnd: a lease that ends now has ended, even if more leases end now than one
// command processes.
func TestAckExactlyAtTheEnd(t *testing.T) {
	r := newRig(t, 1)
	s, ctx := storeOf(r, "n"), t.Context()
	leased := leaseMany(t, s, queue.Settings{})
	last, other := leased[manyDue-1], leased[manyDue-2]
	r.Pass(999)
	if _, err := s.Ack(ctx, "q", other.Receipt); err != nil {
		t.Errorf("Ack a millisecond before the end: %v", err)
	}
	r.Pass(1)
	var refused *queue.ReceiptError
	if _, err := s.Ack(ctx, "q", last.Receipt); !errors.As(err, &refused) || refused.Reason != "lease expired" {
		t.Errorf("Ack at the end: %v, want that the lease has expired", err)
	}
	if _, err := s.Nack(ctx, "q", []queue.Receipt{last.Receipt}); !errors.As(err, &refused) {
		t.Errorf("Nack at the end: %v, want that the lease has expired", err)
	}
	if _, err := s.Extend(ctx, "q", last.Receipt, time.Hour); !errors.As(err, &refused) {
		t.Errorf("Extend at the end: %v, want that the lease has expired", err)
	}
	r.Fire()
	r.Verify()
}

// TestDequeueExactlyAtTheEnd: without a back-off, a message is available again at the instant its
// lease ends.
func TestDequeueExactlyAtTheEnd(t *testing.T) {
	r := newRig(t, 1)
	s, ctx := storeOf(r, "n"), t.Context()
	leaseMany(t, s, queue.Settings{BackoffMin: queue.NoBackoff})
	r.Pass(999)
	if got, err := s.Dequeue(ctx, "q"); err != nil || len(got) > 0 {
		t.Errorf("Dequeue a millisecond before the end = %d messages, %v", len(got), err)
	}
	r.Pass(1)
	if got, err := s.Dequeue(ctx, "q"); err != nil || len(got) != 1 || got[0].Seq != 1 || got[0].Attempts != 2 {
		t.Errorf("Dequeue at the end = %+v, %v, want the first message", got, err)
	}
	r.Fire()
	r.Verify()
}

// TestDedupExactlyAtTheEnd: a key whose window ends now no longer counts, even if more windows end
// now than one command processes.
func TestDedupExactlyAtTheEnd(t *testing.T) {
	r := newRig(t, 1)
	s, ctx := storeOf(r, "n"), t.Context()
	key := func(i int) queue.EnqueueOption { return queue.DedupKey(fmt.Sprintf("key %04d", i)) }
	for n := 0; n < manyDue; n += 500 {
		batch := make([]queue.NewMessage, 500)
		for i := range batch {
			batch[i].Options = []queue.EnqueueOption{key(n + i)}
		}
		if _, err := s.EnqueueMany(ctx, "q", batch); err != nil {
			t.Fatal(err)
		}
	}
	again := func(i int, want bool) {
		t.Helper()
		if got, err := s.Enqueue(ctx, "q", nil, key(i)); err != nil || got.Duplicate != want {
			t.Errorf("Enqueue of key %d = %+v, %v, want a duplicate: %v", i, got, err, want)
		}
	}
	const window = 60 * 60 * 1000
	r.Pass(window - 1)
	again(manyDue-1, true)
	r.Pass(1)
	again(manyDue-1, false)
	again(manyDue-1, true) // for another hour
	r.Fire()
	r.Verify()
}

// TestRedriveStopsWhereTheQueueIsFull: a dead letter that does not fit is not skipped in favour of
// a smaller one behind it.
func TestRedriveStopsWhereTheQueueIsFull(t *testing.T) {
	r := newRig(t, 1)
	s, ctx := storeOf(r, "n"), t.Context()
	for _, size := range []int{10, 100, 10} {
		if _, err := s.Enqueue(ctx, "q", make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		got, err := s.Dequeue(ctx, "q")
		if err != nil || len(got) != 1 {
			t.Fatalf("Dequeue = %v, %v", got, err)
		}
		if _, err := s.Nack(ctx, "q", []queue.Receipt{got[0].Receipt}, queue.ToDLQ()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Configure(ctx, "q", queue.Settings{MaxBytes: 50}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.DeadLetters("q").RequeueAll(ctx); n != 1 || !errors.Is(err, queue.ErrBusy) {
		t.Errorf("RequeueAll into a queue with room for the first one = %d, %v, want 1 and ErrBusy", n, err)
	}
	dead, err := s.DeadLetters("q").Page(ctx)
	if err != nil || len(dead.Items) != 2 || dead.Items[0].Seq != 2 {
		t.Errorf("dead letters are %+v, %v, want 2 and 3", dead.Items, err)
	}
	if err := s.Configure(ctx, "q", queue.Settings{}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.DeadLetters("q").RequeueAll(ctx); n != 2 || err != nil {
		t.Errorf("RequeueAll with room = %d, %v, want 2", n, err)
	}
	r.Verify()
}
