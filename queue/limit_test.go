package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/queue"
)

// TestInvalid: an error for invalid arguments names the argument, its value and the limit.
func TestInvalid(t *testing.T) {
	ctx, node := within(t), open(t, floe.Config{Shards: 1, MaxValueSize: 1000})
	jobs := node.Queue("default")
	enqueue := func(opts ...queue.EnqueueOption) func() error {
		return func() error { _, err := jobs.Enqueue(ctx, "q", nil, opts...); return err }
	}
	dequeue := func(opts ...queue.DequeueOption) func() error {
		return func() error { _, err := jobs.Dequeue(ctx, "q", opts...); return err }
	}
	nack := func(opts ...queue.NackOption) func() error {
		return func() error { _, err := jobs.Nack(ctx, "q", []queue.Receipt{"1-1"}, opts...); return err }
	}
	configure := func(s queue.Settings) func() error {
		return func() error { return jobs.Configure(ctx, "q", s) }
	}
	long := strings.Repeat("x", 1025)
	for _, c := range []struct {
		call string
		f    func() error
		says []string
	}{
		{"priority -1", enqueue(queue.Priority(-1)), []string{"priority -1", "255"}},
		{"priority 256", enqueue(queue.Priority(256), queue.Priority(1)), []string{"priority 256", "255"}},
		{"delay", enqueue(queue.Delay(-time.Second)), []string{"delay -1s"}},
		{"dedup key", enqueue(queue.DedupKey("")), []string{"dedup key", "1-255"}},
		{"long dedup key", enqueue(queue.DedupKey(long[:256])), []string{"256", "255"}},
		{"max attempts 0", enqueue(queue.MaxAttempts(0)), []string{"max attempts 0", "1000000"}},
		{"max attempts", enqueue(queue.MaxAttempts(1_000_001)), []string{"1000001"}},
		{"payload", func() error { _, err := jobs.Enqueue(ctx, "q", []byte(long)); return err }, []string{"1025", "1000"}},
		{"no messages", func() error { _, err := jobs.EnqueueMany(ctx, "q", nil); return err }, []string{"0 messages", "1000"}},
		{"many messages", func() error { _, err := jobs.EnqueueMany(ctx, "q", make([]queue.NewMessage, 1001)); return err },
			[]string{"1001 messages"}},
		{"one of many", func() error {
			_, err := jobs.EnqueueMany(ctx, "q", []queue.NewMessage{{}, {Options: []queue.EnqueueOption{queue.Priority(300)}}})
			return err
		}, []string{"priority 300"}},
		{"max 0", dequeue(queue.Max(0)), []string{"max 0", "1000"}},
		{"max", dequeue(queue.Max(1001)), []string{"max 1001"}},
		{"lease", dequeue(queue.Lease(0)), []string{"lease 0s"}},
		{"wait", dequeue(queue.Wait(-1)), []string{"wait -1ns"}},
		{"wait in a transaction", func() error {
			_, err := node.Txn("default").Do(queue.DequeueOp("q", queue.Wait(time.Second))).Commit(ctx)
			return err
		}, []string{"cannot wait 1s"}},
		{"receipt", func() error { _, err := jobs.Ack(ctx, "q", "1"); return err }, []string{`"1"`}},
		{"no receipts", func() error { _, err := jobs.Ack(ctx, "q"); return err }, []string{"0 receipts"}},
		{"receipt twice", func() error { _, err := jobs.Ack(ctx, "q", "1-1", "2-1", "1-1"); return err },
			[]string{"duplicate receipt 1-1"}},
		{"nack of no receipts", func() error { _, err := jobs.Nack(ctx, "q", nil); return err }, []string{"0 receipts", "1-1000"}},
		{"nack of a receipt twice", func() error { _, err := jobs.Nack(ctx, "q", []queue.Receipt{"1-1", "2-1", "1-1"}); return err },
			[]string{"duplicate receipt 1-1"}},
		{"nack of a bad receipt", func() error { _, err := jobs.Nack(ctx, "q", []queue.Receipt{"1-1", "2"}); return err }, []string{`"2"`}},
		{"receipts", func() error { _, err := jobs.Ack(ctx, "q", make([]queue.Receipt, 1001)...); return err },
			[]string{"1001 receipts", "1000"}},
		{"nack delay", nack(queue.Delay(-1)), []string{"delay -1ns"}},
		{"nack both", nack(queue.Delay(1), queue.ToDLQ()), []string{"mutually exclusive"}},
		{"reason", nack(queue.Reason(long)), []string{"1025", "1024"}},
		{"extend", func() error { _, err := jobs.Extend(ctx, "q", "1-1", 0); return err }, []string{"lease 0s"}},
		{"max length", configure(queue.Settings{MaxLen: -1}), []string{"max length -1"}},
		{"attempts", configure(queue.Settings{MaxAttempts: 1_000_001}), []string{"1000001", "1000000"}},
		{"back-off", configure(queue.Settings{BackoffMin: time.Hour, BackoffMax: time.Minute}),
			[]string{"min back-off 1h", "max back-off 1m"}},
		{"retention", configure(queue.Settings{DeadRetention: -1}), []string{"dead letter retention -1ns"}},
		{"limit 0", func() error { _, err := jobs.Messages("q").Page(ctx, queue.Limit(0)); return err }, []string{"limit 0", "1000"}},
		{"limit", func() error { _, err := jobs.Page(ctx, queue.Limit(1001)); return err }, []string{"limit 1001"}},
		{"cursor", func() error { _, err := jobs.Messages("q").Page(ctx, queue.Cursor("256-1")); return err }, []string{`"256-1"`}},
		{"dead cursor", func() error { _, err := jobs.DeadLetters("q").Page(ctx, queue.Cursor("x")); return err }, []string{`"x"`}},
		{"state", func() error { _, err := jobs.Messages("q").Page(ctx, queue.InState(queue.Dead)); return err }, []string{"state dead"}},
		{"filter", func() error { _, err := jobs.DeadLetters("q").RequeueAll(ctx, queue.Contains(long)); return err },
			[]string{"1025", "1024"}},
		{"system namespace", func() error { _, err := node.Queue("_x").Enqueue(ctx, "q", nil); return err }, []string{"_x"}},
	} {
		err := c.f()
		if !errors.Is(err, queue.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", c.call, err)
			continue
		}
		for _, part := range c.says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", c.call, err, part)
			}
		}
	}
	for _, name := range []string{"", "a\x00", strings.Repeat("n", 256), "\xff", "a\u202eb"} {
		for call, f := range map[string]func() error{
			"Enqueue":     func() error { _, err := jobs.Enqueue(ctx, name, nil); return err },
			"Dequeue":     func() error { _, err := jobs.Dequeue(ctx, name); return err },
			"Ack":         func() error { _, err := jobs.Ack(ctx, name, "1-1"); return err },
			"Purge":       func() error { _, err := jobs.Purge(ctx, name); return err },
			"Delete":      func() error { return jobs.Delete(ctx, name) },
			"Stats":       func() error { _, err := jobs.Get(ctx, name); return err },
			"Messages":    func() error { _, err := jobs.Messages(name).Page(ctx); return err },
			"DeadLetters": func() error { _, err := jobs.DeadLetters(name).Page(ctx); return err },
			"Requeue":     func() error { return jobs.DeadLetters(name).Requeue(ctx, 1) },
		} {
			if err := f(); !errors.Is(err, queue.ErrInvalid) {
				t.Errorf("%s(%q): %v, want ErrInvalid", call, name, err)
			}
		}
	}
}

// TestManyDue: more leases end at once than one firing of the timer processes.
func TestManyDue(t *testing.T) {
	const n = 2*queue.MaxDue + 10
	r := newRig(t, 1)
	jobs, ctx := storeOf(r, "n"), within(t)
	must(0, jobs.Configure(ctx, "q", queue.Settings{BackoffMin: queue.NoBackoff, MaxAttempts: 1}))
	fillQueue(t, jobs, n)
	for range 3 {
		must(jobs.Dequeue(ctx, "q", queue.Max(1000), queue.Lease(time.Second)))
	}
	r.Verify()
	r.Pass(1000)
	if fired := r.Fire(); fired != 3 {
		t.Errorf("%d timers fired, want 3 for %d leases", fired, n)
	}
	r.Verify()
	if s := must(jobs.Get(ctx, "q")); s.Dead != n || s.Expired != n || s.Inflight != 0 {
		t.Errorf("Stats = %+v, want %d dead letters", s, n)
	}
	if n, err := jobs.DeadLetters("q").RequeueAll(ctx, queue.Contains("0123")); n != 2*queue.MaxDue+10 || err != nil {
		t.Errorf("RequeueAll = %d, %v", n, err)
	}
	r.Restart()
	r.Verify()
	must(0, jobs.Configure(ctx, "q", queue.Settings{MaxLen: 2005}))
	got := must(jobs.Dequeue(ctx, "q", queue.Max(100)))
	for _, m := range got {
		must(jobs.Nack(ctx, "q", []queue.Receipt{m.Receipt}, queue.ToDLQ()))
	}
	if n, err := jobs.DeadLetters("q").RequeueAll(ctx); n != 95 || !errors.Is(err, queue.ErrBusy) {
		t.Errorf("RequeueAll into a bounded queue = %d, %v; want 95 and ErrBusy", n, err)
	}
	must(0, jobs.Delete(ctx, "q"))
	r.Verify()
}

// TestMaxInflight: a shard reaches its limit of leases, over several queues.
func TestMaxInflight(t *testing.T) {
	r := newRigOf(t, 1, queue.NewCramped)
	jobs, other, ctx := storeOf(r, "n"), storeOf(r, "other"), within(t)
	fillQueue(t, jobs, 10)
	fillQueue(t, other, 10)
	first := must(jobs.Dequeue(ctx, "q", queue.Max(3), queue.Lease(time.Minute)))
	if got := must(other.Dequeue(ctx, "q", queue.Max(3), queue.Lease(time.Minute))); len(got) != 2 {
		t.Errorf("Dequeue with 3 of 5 leases taken returned %d messages, want 2", len(got))
	}
	for range 2 {
		if _, err := jobs.Dequeue(ctx, "q"); !errors.Is(err, queue.ErrBusy) || !strings.Contains(err.Error(), "the limit is 5") {
			t.Errorf("Dequeue with all leases taken: %v, want ErrBusy and the limit", err)
		}
		r.Verify()
		r.Restart()
	}
	must(jobs.Ack(ctx, "q", first[0].Receipt))
	must(other.Purge(ctx, "q"))
	r.Verify()
	if got := must(jobs.Dequeue(ctx, "q", queue.Max(5))); len(got) != 3 {
		t.Errorf("Dequeue after an Ack and a Purge returned %d messages, want 3", len(got))
	}
	r.Pass(time.Minute.Milliseconds())
	r.Fire()
	r.Verify()
	must(0, jobs.Delete(ctx, "q"))
	r.Verify()
}

// TestManyKeys deletes a queue with more dedup keys than one command forgets.
func TestManyKeys(t *testing.T) {
	r := newRig(t, 1)
	jobs, ctx := storeOf(r, "n"), within(t)
	for i := range 1500 {
		must(jobs.Enqueue(ctx, "q", nil, queue.DedupKey(fmt.Sprint(i))))
	}
	must(0, jobs.Delete(ctx, "q"))
	r.Verify()
	if e := must(jobs.Enqueue(ctx, "q", nil, queue.DedupKey("1"))); e.Duplicate || e.Seq != 1 {
		t.Errorf("Enqueue after Delete = %+v, want a queue of its own", e)
	}
	r.Verify()
	if fired := r.Fire(); fired != 2 {
		t.Errorf("%d timers fired, want 2", fired)
	}
	r.Verify()
	r.Pass(time.Hour.Milliseconds())
	r.Fire()
	for _, row := range r.Rows(0) {
		if row.Machine == 3 && (row.Key[0] == 'k' || row.Key[0] == 'j' || row.Key[0] == 'g') {
			t.Errorf("row %q is left", row.Key)
		}
	}
}

// TestDequeueBytes: the bytes that one call returns are bounded.
func TestDequeueBytes(t *testing.T) {
	r := newRig(t, 1)
	jobs, ctx := storeOf(r, "n"), within(t)
	for range 6 {
		must(jobs.Enqueue(ctx, "q", make([]byte, 1<<20)))
	}
	for _, want := range []int{3, 3, 0} {
		if got := must(jobs.Dequeue(ctx, "q", queue.Max(10))); len(got) != want {
			t.Errorf("Dequeue(Max(10)) returned %d messages of 1 MiB, want %d", len(got), want)
		}
		r.Verify()
	}
	page := must(jobs.Messages("q").Page(ctx))
	if len(page.Items) != 5 || page.Cursor != "100-5" {
		t.Errorf("Messages returned %d messages of 1 MiB and cursor %q", len(page.Items), page.Cursor)
	}
	if _, err := jobs.EnqueueMany(ctx, "q", slices.Repeat([]queue.NewMessage{{Payload: make([]byte, 1<<20)}}, 4)); !errors.Is(err,
		queue.ErrInvalid) {
		t.Errorf("EnqueueMany of 4 MiB and more: %v, want ErrInvalid", err)
	}
}

// TestWaitersTakeTurns has more waiting consumers than messages. The consumers that came first get
// one message each; the others keep waiting.
func TestWaitersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := must(floe.Open(floe.Config{Shards: 1}))
		defer node.Close()
		jobs := node.Queue("default")
		type got struct {
			who      int
			messages []queue.Message
		}
		results := make(chan got)
		ctx, cancel := context.WithCancel(t.Context())
		for who := range 20 {
			go func() {
				messages, err := jobs.Dequeue(ctx, "q", queue.Wait(time.Hour))
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				results <- got{who, messages}
			}()
			synctest.Wait()
			<-time.After(time.Millisecond)
		}
		must(jobs.EnqueueMany(t.Context(), "q", make([]queue.NewMessage, 5)))
		var first []int
		for range 5 {
			g := <-results
			if len(g.messages) != 1 {
				t.Errorf("consumer %d got %d messages", g.who, len(g.messages))
			}
			first = append(first, g.who)
		}
		if slices.Sort(first); fmt.Sprint(first) != "[0 1 2 3 4]" {
			t.Errorf("consumers %v got messages, want those who came first", first)
		}
		synctest.Wait()
		cancel()
		for range 15 {
			if g := <-results; len(g.messages) > 0 {
				t.Errorf("consumer %d got a message that is not there", g.who)
			}
		}
	})
}

// TestPauseAndResume: a consumer waits while its queue is paused, until it is resumed.
func TestPauseAndResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := must(floe.Open(floe.Config{Shards: 1}))
		defer node.Close()
		jobs, ctx := node.Queue("n"), t.Context()
		must(jobs.Enqueue(ctx, "q", nil))
		must(0, jobs.Pause(ctx, "q"))
		got := make(chan int)
		go func() { got <- len(must(jobs.Dequeue(ctx, "q", queue.Wait(time.Hour)))) }()
		synctest.Wait()
		must(jobs.Enqueue(ctx, "q", nil))
		synctest.Wait()
		select {
		case n := <-got:
			t.Fatalf("Dequeue of a paused queue returned %d messages", n)
		default:
		}
		must(0, jobs.Resume(ctx, "q"))
		if n := <-got; n != 1 {
			t.Errorf("Dequeue returned %d messages after Resume, want 1", n)
		}
	})
}

// TestShortMaxBackoff: a BackoffMax below the default of BackoffMin is accepted. It used to be
// refused, with an error that named a BackoffMin of 0s.
func TestShortMaxBackoff(t *testing.T) {
	jobs, ctx := openStore(t), within(t)
	must(0, jobs.Configure(ctx, "q", queue.Settings{BackoffMax: 500 * time.Millisecond}))
	if s := must(jobs.Get(ctx, "q")).Settings; s.BackoffMin != 500*time.Millisecond || s.BackoffMax != 500*time.Millisecond {
		t.Errorf("back-off of %v to %v, want 500ms", s.BackoffMin, s.BackoffMax)
	}
}

// TestLongWaits: a Node and a Client both accept a wait of more than 100 years. The Client used to
// refuse it.
func TestLongWaits(t *testing.T) {
	node := open(t, floe.Config{Shards: 1, Listen: "127.0.0.1:0"})
	ctx := within(t)
	client := must(floe.Dial(ctx, []string{node.Addr().String()}))
	defer client.Close()
	for name, h := range map[string]handles{"node": node, "client": client} {
		jobs := h.Queue("default")
		must(jobs.Enqueue(ctx, "q", nil))
		if got, err := jobs.Dequeue(ctx, "q", queue.Wait(math.MaxInt64), queue.Lease(math.MaxInt64)); len(got) != 1 || err != nil {
			t.Errorf("%s: Dequeue = %v, %v", name, got, err)
		}
	}
}
