package e2e

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
)

func suiteQueue(t *testing.T, db database) {
	ctx, s := t.Context(), db.Queue("suite")
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(s.Configure(ctx, "q", queue.Settings{MaxLen: 6, BackoffMin: queue.NoBackoff, MaxAttempts: 2}))
	first := ok[queue.Enqueued](t)(s.Enqueue(ctx, "q", []byte("a"), queue.DedupKey("k")))
	again := ok[queue.Enqueued](t)(s.Enqueue(ctx, "q", []byte("b"), queue.DedupKey("k")))
	if first.Seq != 1 || first.Duplicate || !again.Duplicate || again.Seq != 1 {
		t.Errorf("Enqueue = %+v, and with the same key %+v", first, again)
	}
	many := ok[[]queue.Enqueued](t)(s.EnqueueMany(ctx, "q", []queue.NewMessage{
		{Payload: []byte("urgent"), Options: []queue.EnqueueOption{queue.Priority(0)}}, {Payload: []byte("later"),
			Options: []queue.EnqueueOption{queue.Delay(time.Hour)}}, {},
	}))
	if len(many) != 3 || many[2].Seq != 4 || many[0].LSN == 0 {
		t.Errorf("EnqueueMany = %+v", many)
	}
	suiteQueueHeaders(t, db)
	got := ok[[]queue.Message](t)(s.Dequeue(ctx, "q", queue.Max(10), queue.Lease(time.Minute)))
	if len(got) != 3 || string(got[0].Payload) != "urgent" || got[0].Priority != 0 || got[1].Seq != 1 || len(got[2].Payload) != 0 ||
		time.Until(got[0].LeaseUntil) < 50*time.Second {
		t.Fatalf("Dequeue = %+v", got)
	}
	if until := ok[time.Time](t)(s.Extend(ctx, "q", got[1].Receipt, time.Hour)); time.Until(until) < 50*time.Minute {
		t.Errorf("Extend = %v", until)
	}
	var stale *queue.ReceiptError
	ok[int](t)(s.Ack(ctx, "q", got[0].Receipt))
	if _, err := s.Ack(ctx, "q", got[1].Receipt, got[0].Receipt); !errors.As(err, &stale) || stale.Receipt != got[0].Receipt ||
		stale.Queue != "q" || !errors.Is(err, floe.ErrConflict) {
		t.Errorf("Ack of what was acked: %#v", err)
	}
	ok[int](t)(s.Nack(ctx, "q", []queue.Receipt{got[1].Receipt}, queue.Reason("once")))
	second := ok[[]queue.Message](t)(s.Dequeue(ctx, "q"))
	if len(second) != 1 || second[0].Attempts != 2 || second[0].LastError != "once" || second[0].Receipt == got[1].Receipt {
		t.Fatalf("Dequeue after Nack = %+v", second)
	}
	ok[int](t)(s.Nack(ctx, "q", []queue.Receipt{second[0].Receipt}, queue.Reason("twice")))
	do(s.DeadLetters("q").Requeue(ctx, 1))
	if err := s.DeadLetters("q").Delete(ctx, 1); !errors.Is(err, floe.ErrNotFound) {
		t.Errorf("DeleteDead of what was requeued: %v", err)
	}
	enqueue, dequeue := queue.EnqueueOp("next", []byte("x")), queue.DequeueOp("q")
	res := ok[*floe.TxnResult](t)(db.Txn("suite").If(queue.Held("q", got[2].Receipt)).Do(
		queue.AckOp("q", got[2].Receipt), enqueue, kv.PutOp("done", nil), dequeue,
	).Commit(ctx))
	added, taken := ok[queue.Enqueued](t)(enqueue.Result(res)), ok[[]queue.Message](t)(dequeue.Result(res))
	if added.Seq != 1 || len(taken) != 1 || taken[0].Seq != 1 || taken[0].Attempts != 1 {
		t.Errorf("Commit has enqueued %+v and dequeued %+v", added, taken)
	}
	if _, err := db.Txn("suite").If(queue.Held("q", got[2].Receipt)).Do(queue.EnqueueOp("next", nil)).Commit(ctx); !errors.Is(err,
		floe.ErrConflict) {
		t.Errorf("Commit with a receipt that was acked: %v", err)
	}
	for range 4 {
		ok[queue.Enqueued](t)(s.Enqueue(ctx, "q", nil))
	}
	if _, err := s.Enqueue(ctx, "q", nil); !errors.Is(err, floe.ErrBusy) {
		t.Errorf("Enqueue into a full queue: %v", err)
	}
	do(s.Pause(ctx, "q"))
	if got := ok[[]queue.Message](t)(s.Dequeue(ctx, "q")); len(got) > 0 {
		t.Errorf("Dequeue of a paused queue = %+v", got)
	}
	do(s.Resume(ctx, "q"))
	if n := ok[int64](t)(s.Purge(ctx, "q")); n != 6 {
		t.Errorf("Purge = %d, want 6", n)
	}
	stats := ok[queue.Stats](t)(s.Get(ctx, "q"))
	if stats.Enqueued != 8 || stats.Acked != 2 || stats.Purged != 6 || stats.Dequeued != 5 || stats.Duplicates != 1 ||
		stats.Settings.MaxLen != 6 || stats.Settings.BackoffMin != queue.NoBackoff {
		t.Errorf("Stats = %+v", stats)
	}
	do(s.Delete(ctx, "q"))
	if err := s.Delete(ctx, "q"); !errors.Is(err, floe.ErrNotFound) {
		t.Errorf("Delete of a deleted queue: %v", err)
	}
}

func suiteQueueListings(t *testing.T, db database) {
	ctx := t.Context()
	if err := db.Namespaces().Create(ctx, "spread queues", floe.Spread()); err != nil {
		t.Fatal(err)
	}
	for _, ns := range []string{"queues", "spread queues"} {
		s := db.Queue(ns)
		var names []string
		for i := range 30 {
			name := fmt.Sprintf("queue %02d", i)
			ok[queue.Enqueued](t)(s.Enqueue(ctx, name, []byte(strings.Repeat("x", i)), queue.MaxAttempts(1)))
			names = append(names, name)
		}
		var got []string
		for q, err := range s.All(ctx, queue.Limit(7)) {
			if err != nil {
				t.Fatal(err)
			}
			if q.Ready != 1 || q.Bytes != int64(len(got)) {
				t.Errorf("%s: %+v", ns, q)
			}
			got = append(got, q.Name)
		}
		if !slices.Equal(got, names) {
			t.Errorf("%s: All = %q", ns, got)
		}
		for i := range 20 {
			ok[queue.Enqueued](t)(s.Enqueue(ctx, "dead", fmt.Appendf(nil, "body %d", i), queue.Priority(i%3)))
		}
		for _, m := range ok[[]queue.Message](t)(s.Dequeue(ctx, "dead", queue.Max(15))) {
			if _, err := s.Nack(ctx, "dead", []queue.Receipt{m.Receipt}, queue.ToDLQ(),
				queue.Reason(fmt.Sprintf("reason %d", m.Seq%2))); err != nil {
				t.Fatal(err)
			}
		}
		last, n := queue.Message{}, 0
		for m, err := range s.Messages("dead").All(ctx, queue.Limit(2)) {
			if err != nil || m.Priority < last.Priority || m.Priority == last.Priority && m.Seq <= last.Seq || m.State != queue.Ready {
				t.Fatalf("%s: %+v, %v after %+v", ns, m, err, last)
			}
			last = m
			n++
		}
		page := ok[queue.Page[queue.Message]](t)(s.DeadLetters("dead").Page(ctx, queue.Contains("reason 1"), queue.Limit(4),
			queue.NoPayload()))
		if n != 5 || len(page.Items) != 4 || page.Cursor == "" || page.Items[0].LastError != "reason 1" || page.Items[0].Payload != nil ||
			page.Items[0].Size != 6 || page.Items[0].DiedAt.IsZero() {
			t.Errorf("%s: %d messages are left, DeadLetters = %+v", ns, n, page)
		}
		if n := ok[int64](t)(s.DeadLetters("dead").RequeueAll(ctx, queue.Contains("reason 0"))); n == 0 || n == 15 {
			t.Errorf("%s: RequeueAll = %d", ns, n)
		}
	}
}

func suiteQueueWait(t *testing.T, db database) {
	ctx, s := t.Context(), db.Queue("awaited")
	start := time.Now()
	if got := ok[[]queue.Message](t)(s.Dequeue(ctx, "q", queue.Wait(20*time.Millisecond))); len(got) > 0 ||
		time.Since(start) < 20*time.Millisecond {
		t.Errorf("Dequeue = %+v after %v", got, time.Since(start))
	}
	const consumers, messages = 5, 20
	got := make(chan queue.Message)
	for range consumers {
		go func() {
			for {
				batch, err := s.Dequeue(ctx, "q", queue.Wait(time.Minute))
				if err != nil || len(batch) != 1 {
					t.Errorf("Dequeue = %+v, %v", batch, err)
					return
				}
				if string(batch[0].Payload) == "over" {
					got <- batch[0]
					return
				}
				if _, err := s.Ack(ctx, "q", batch[0].Receipt); err != nil {
					t.Errorf("Ack: %v", err)
				}
				got <- batch[0]
			}
		}()
	}
	seen := make(map[uint64]bool)
	for range messages {
		e := ok[queue.Enqueued](t)(s.Enqueue(ctx, "q", []byte("work")))
		if m := <-got; m.Seq != e.Seq || seen[m.Seq] {
			t.Errorf("message %d came after message %d was enqueued", m.Seq, e.Seq)
		}
		seen[e.Seq] = true
	}
	for range consumers {
		ok[queue.Enqueued](t)(s.Enqueue(ctx, "q", []byte("over"), queue.Delay(time.Millisecond)))
	}
	for range consumers {
		<-got
	}
}

// suiteQueueHeaders follows a message with headers through all of its states.
func suiteQueueHeaders(t *testing.T, db database) {
	ctx, s := t.Context(), db.Queue("queue headers")
	headers := map[string]string{"trace": "7", "source": "\x00\xff", "empty": ""}
	check := func(when string, ms []queue.Message) queue.Message {
		t.Helper()
		if len(ms) != 1 || !maps.Equal(ms[0].Headers, headers) || ms[0].Size != 1 {
			t.Fatalf("%s: %+v, want the headers %q", when, ms, headers)
		}
		return ms[0]
	}
	ok[*floe.TxnResult](t)(db.Txn("queue headers").Do(queue.EnqueueOp("q", []byte("x"), queue.Headers(headers))).Commit(ctx))
	check("messages", ok[queue.Page[queue.Message]](t)(s.Messages("q").Page(ctx)).Items)
	check("messages without payload", ok[queue.Page[queue.Message]](t)(s.Messages("q").Page(ctx, queue.NoPayload())).Items)
	m := check("dequeue", ok[[]queue.Message](t)(s.Dequeue(ctx, "q")))
	if _, err := s.Nack(ctx, "q", []queue.Receipt{m.Receipt}, queue.ToDLQ()); err != nil {
		t.Fatal(err)
	}
	check("dead letters", ok[queue.Page[queue.Message]](t)(s.DeadLetters("q").Page(ctx)).Items)
	if n := ok[int64](t)(s.DeadLetters("q").RequeueAll(ctx)); n != 1 {
		t.Errorf("RequeueAll = %d", n)
	}
	check("dequeue after redrive", ok[[]queue.Message](t)(s.Dequeue(ctx, "q")))
	for what, h := range map[string]map[string]string{
		"without a name": {"": "x"}, "with a control character": {"a\n": "x"},
		"of 64 KiB and a byte": {"n": strings.Repeat("v", queue.MaxHeaderBytes)},
	} {
		if _, err := s.Enqueue(ctx, "q", nil, queue.Headers(h)); !errors.Is(err, floe.ErrInvalid) {
			t.Errorf("Enqueue with a header %s: %v, want ErrInvalid", what, err)
		}
	}
	ok[queue.Enqueued](t)(s.Enqueue(ctx, "q", nil, queue.Headers(map[string]string{"n": strings.Repeat("v", queue.MaxHeaderBytes-1)})))
}
