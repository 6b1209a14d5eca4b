package queue_test

import (
	"errors"
	"testing"
	"time"

	"github.com/floedb/floe/queue"
)

func TestNackMany(t *testing.T) {
	r := newRig(t, 1)
	ctx, s := t.Context(), storeOf(r, "n")
	for range 4 {
		must(s.Enqueue(ctx, "q", []byte("x")))
	}
	var receipts []queue.Receipt
	for _, m := range must(s.Dequeue(ctx, "q", queue.Max(4))) {
		receipts = append(receipts, m.Receipt)
	}
	must(s.Ack(ctx, "q", receipts[3]))

	var stale *queue.ReceiptError
	if n, err := s.Nack(ctx, "q", receipts, queue.ToDLQ()); n != 0 || !errors.As(err, &stale) || stale.Receipt != receipts[3] {
		t.Errorf("Nack with an acknowledged one = %d, %v", n, err)
	}
	if st := must(s.Get(ctx, "q")); st.Inflight != 3 || st.Dead != 0 {
		t.Errorf("after a refused Nack = %+v, want 3 leased", st)
	}
	if n, err := s.Nack(ctx, "q", receipts[:3], queue.Delay(time.Second), queue.Reason("later")); n != 3 || err != nil {
		t.Errorf("Nack = %d, %v", n, err)
	}
	if got := must(s.Dequeue(ctx, "q", queue.Max(4))); len(got) != 0 {
		t.Errorf("Dequeue before the delay = %+v", got)
	}
	r.Advance(1000)
	got := must(s.Dequeue(ctx, "q", queue.Max(4)))
	for i, m := range got {
		if m.Seq != uint64(i)+1 || m.Attempts != 2 || m.LastError != "later" {
			t.Errorf("message %d = %+v", i, m)
		}
	}
	if len(got) != 3 {
		t.Errorf("Dequeue = %d messages, want 3", len(got))
	}
	r.Verify()
}
