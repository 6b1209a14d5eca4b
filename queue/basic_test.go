package queue_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/queue"
)

func TestLife(t *testing.T) {
	jobs, ctx := openStore(t), within(t)
	if got, err := jobs.Dequeue(ctx, "mail"); err != nil || len(got) != 0 {
		t.Fatalf("Dequeue of no queue = %v, %v; want nothing", got, err)
	}
	for i, p := range []int{100, 50, 100, 0} {
		e, err := jobs.Enqueue(ctx, "mail", fmt.Appendf(nil, "body %d", i), queue.Priority(p))
		if err != nil || e.Seq != uint64(i+1) {
			t.Fatalf("Enqueue %d = %+v, %v", i, e, err)
		}
	}
	got := must(jobs.Dequeue(ctx, "mail", queue.Max(10)))
	var order []uint64
	for _, m := range got {
		order = append(order, m.Seq)
		if want := fmt.Sprintf("body %d", m.Seq-1); string(m.Payload) != want || m.Attempts != 1 || m.State != queue.Leased {
			t.Errorf("message %d = %+v, want payload %q", m.Seq, m, want)
		}
	}
	if fmt.Sprint(order) != "[4 2 1 3]" {
		t.Fatalf("order = %v, want [4 2 1 3]", order)
	}
	if _, err := jobs.Ack(ctx, "mail", got[0].Receipt, got[1].Receipt); err != nil {
		t.Fatal(err)
	}
	var stale *queue.ReceiptError
	if _, err := jobs.Ack(ctx, "mail", got[2].Receipt, got[1].Receipt); !errors.As(err, &stale) || !errors.Is(err, floe.ErrConflict) ||
		stale.Receipt != got[1].Receipt {
		t.Fatalf("Ack of an acked one = %v, want a ReceiptError of %s", err, got[1].Receipt)
	}
	if _, err := jobs.Nack(ctx, "mail", []queue.Receipt{got[2].Receipt}, queue.Delay(0), queue.Reason("no")); err != nil {
		t.Fatal(err)
	}
	again := must(jobs.Dequeue(ctx, "mail"))
	if len(again) != 1 || again[0].Seq != 1 || again[0].Attempts != 2 || again[0].LastError != "no" {
		t.Fatalf("Dequeue after Nack = %+v", again)
	}
	if _, err := jobs.Nack(ctx, "mail", []queue.Receipt{again[0].Receipt}, queue.ToDLQ(), queue.Reason("never")); err != nil {
		t.Fatal(err)
	}
	dead := must(jobs.DeadLetters("mail").Page(ctx)).Items
	if len(dead) != 1 || dead[0].Seq != 1 || dead[0].LastError != "never" || string(dead[0].Payload) != "body 0" {
		t.Fatalf("DeadLetters = %+v", dead)
	}
	s := must(jobs.Get(ctx, "mail"))
	if s.Ready != 0 || s.Inflight != 1 || s.Dead != 1 || s.Acked != 2 || s.Enqueued != 4 || s.Dequeued != 5 {
		t.Fatalf("Stats = %+v", s)
	}
	if err := jobs.DeadLetters("mail").Requeue(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if n, err := jobs.Purge(ctx, "mail"); n != 2 || err != nil {
		t.Fatalf("Purge = %d, %v, want 2", n, err)
	}
	if err := jobs.Delete(ctx, "mail"); err != nil {
		t.Fatal(err)
	}
	if _, err := jobs.Get(ctx, "mail"); !errors.Is(err, floe.ErrNotFound) {
		t.Fatalf("Stats of a deleted queue: %v", err)
	}
}

func TestWaitAndLeaseEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := must(floe.Open(floe.Config{Shards: 1}))
		defer node.Close()
		jobs, ctx := node.Queue("new"), t.Context()
		start := time.Now()
		if got, err := jobs.Dequeue(ctx, "q", queue.Wait(time.Second)); len(got) > 0 || err != nil {
			t.Fatalf("Dequeue = %v, %v", got, err)
		}
		if waited := time.Since(start); waited != time.Second {
			t.Fatalf("waited %v, want 1s", waited)
		}
		got := make(chan []queue.Message)
		go func() { got <- must(jobs.Dequeue(ctx, "q", queue.Wait(time.Hour), queue.Lease(time.Minute))) }()
		synctest.Wait()
		must(jobs.Enqueue(ctx, "q", []byte("x"), queue.Delay(10*time.Second)))
		start = time.Now()
		m := (<-got)[0]
		if waited := time.Since(start); waited < 10*time.Second || waited > 11*time.Second {
			t.Fatalf("a message delayed by 10s came after %v", waited)
		}
		again := must(jobs.Dequeue(ctx, "q", queue.Wait(time.Hour)))[0]
		if waited := time.Since(start); waited < 71*time.Second || waited > 73*time.Second || again.Attempts != 2 ||
			again.LastError != "lease expired" {
			t.Fatalf("after a lease of 1m and a back-off of 1s it came after %v: %+v", waited, again)
		}
		if _, err := jobs.Ack(ctx, "q", m.Receipt); !errors.Is(err, floe.ErrConflict) {
			t.Fatalf("Ack with the old receipt: %v", err)
		}
	})
}

// TestGetDeadLetter: only a dead letter is found among the dead letters.
func TestGetDeadLetter(t *testing.T) {
	ctx, s := t.Context(), openStore(t)
	for range 2 {
		must(s.Enqueue(ctx, "q", []byte("x")))
	}
	got := must(s.Dequeue(ctx, "q", queue.Max(2)))
	must(s.Nack(ctx, "q", []queue.Receipt{got[0].Receipt}, queue.ToDLQ(), queue.Reason("why")))
	if m, err := s.DeadLetters("q").Get(ctx, 1); err != nil || m.Seq != 1 || m.State != queue.Dead || m.LastError != "why" {
		t.Errorf("the dead letter: %+v, %v", m, err)
	}
	for seq := range uint64(4) {
		if m, err := s.DeadLetters("q").Get(ctx, seq); seq != 1 && (!errors.Is(err, queue.ErrNotFound) || m.Seq != 0) {
			t.Errorf("message %d: %+v, %v", seq, m, err)
		}
	}
}
