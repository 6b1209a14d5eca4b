package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

func suiteGroups(t *testing.T, db database) {
	ctx := t.Context()
	for _, s := range streamStores(t, db, "groups") {
		if err := s.Create(ctx, "log", stream.Partitions(4)); err != nil {
			t.Fatal(err)
		}
		for i := range 60 {
			ok[stream.Appended](t)(s.Append(ctx, "log", stream.Message{Key: fmt.Sprint("k", i%9), Payload: fmt.Append(nil, i)}))
		}
		for mode := stream.Shared; mode <= stream.KeyShared; mode++ {
			name := mode.String()
			if err := s.Groups("log").Create(ctx, name, stream.InMode(mode), stream.Backoff(0, 0)); err != nil {
				t.Fatal(err)
			}
			if err := s.Groups("log").Create(ctx, name); !errors.Is(err, floe.ErrExists) {
				t.Errorf("%s: second CreateGroup: %v, want ErrExists", name, err)
			}
			seen := make(map[string]bool)
			for len(seen) < 60 {
				ds := ok[[]stream.Delivery](t)(s.ReadGroup(ctx, "log", name, "a", stream.Limit(7)))
				if len(ds) == 0 {
					t.Fatalf("%s %s: %d of 60 records were delivered", s.Namespace(), name, len(seen))
				}
				for _, d := range ds {
					if seen[string(d.Payload)] || d.Attempt != 1 || time.Until(d.Deadline) > 30*time.Second {
						t.Errorf("%s: delivery %+v", name, d)
					}
					seen[string(d.Payload)] = true
				}
				if n := ok[int](t)(s.Ack(ctx, "log", name, stream.RefsOf(ds)...)); n != len(ds) {
					t.Errorf("%s: Ack = %d, want %d", name, n, len(ds))
				}
			}
			info := ok[stream.GroupStats](t)(s.Groups("log").Get(ctx, name))
			if info.Mode != mode || info.Pending() != 0 || info.Lag() != 0 || len(info.Members) != 1 || len(info.Cursors) != 4 ||
				info.AckTimeout != 30*time.Second {
				t.Errorf("%s: Group = %+v", name, info)
			}
		}
		suiteGroupErrors(t, s)
	}
}

func suiteGroupErrors(t *testing.T, s *stream.Store) {
	ctx := t.Context()
	if err := s.Seek(ctx, "log", "shared", stream.FromBeginning()); err != nil {
		t.Fatal(err)
	}
	ds := ok[[]stream.Delivery](t)(s.ReadGroup(ctx, "log", "shared", "b", stream.Limit(1)))
	pending := ok[stream.Page[stream.PendingRecord]](t)(s.Pending("log", "shared").Page(ctx, stream.Limit(10))).Items
	if len(pending) != 1 || pending[0].Consumer != "b" || pending[0].ID != ds[0].ID {
		t.Errorf("Pending = %+v, want what b has", pending)
	}
	if until := ok[time.Time](t)(s.Extend(ctx, "log", "shared", ds[0].Ref(), time.Minute)); time.Until(until) < 50*time.Second {
		t.Errorf("Extend = %v", until)
	}
	if n := ok[int](t)(s.Nack(ctx, "log", "shared", stream.RefsOf(ds), stream.Delay(0), stream.Reason("why"))); n != 1 {
		t.Errorf("Nack = %d", n)
	}
	again := ok[[]stream.Delivery](t)(s.ReadGroup(ctx, "log", "shared", "b", stream.Limit(1), stream.Wait(time.Minute)))
	for len(again) > 0 && again[0].ID != ds[0].ID {
		again = ok[[]stream.Delivery](t)(s.ReadGroup(ctx, "log", "shared", "b", stream.Limit(1), stream.Wait(time.Minute)))
	}
	if again[0].Attempt != 2 {
		t.Errorf("after a Nack: attempt %d", again[0].Attempt)
	}
	if err := s.Leave(ctx, "log", "shared", "b"); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"ReadGroup of no stream":  third(s.ReadGroup(ctx, "none", "g", "a")),
		"Ack of no group":         third(s.Ack(ctx, "log", "none", ds[0].Ref())),
		"Group of no group":       third(s.Groups("log").Get(ctx, "none")),
		"DeleteGroup of no group": s.Groups("log").Delete(ctx, "none"),
		"Pending of no group":     third(s.Pending("log", "none").Page(ctx)),
	} {
		if !errors.Is(err, floe.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", what, err)
		}
	}
	for what, err := range map[string]error{
		"limit 0":       third(s.ReadGroup(ctx, "log", "g", "a", stream.Limit(0))),
		"no consumer":   third(s.ReadGroup(ctx, "log", "g", "")),
		"unknown mode":  s.Groups("log").Create(ctx, "g", stream.InMode(9)),
		"ack timeout 0": s.Groups("log").Create(ctx, "g", stream.AckTimeout(0)),
	} {
		if !errors.Is(err, floe.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		}
	}
	if err := s.Groups("log").Delete(ctx, "shared"); err != nil {
		t.Error(err)
	}
}

func third[T any](_ T, err error) error { return err }

func suiteGroupWait(t *testing.T, db database) {
	for _, s := range streamStores(t, db, "group wait") {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		got := make(chan string, 3)
		for mode := stream.Shared; mode <= stream.KeyShared; mode++ {
			go func() {
				ds, err := s.ReadGroup(ctx, "log", mode.String(), "a", stream.Wait(time.Minute), stream.InMode(mode))
				if err != nil || len(ds) != 1 {
					got <- fmt.Sprintf("%v: %v, %v", mode, ds, err)
					return
				}
				got <- string(ds[0].Payload)
			}()
		}
		ok[stream.Appended](t)(s.Append(ctx, "log", message("first")))
		for range 3 {
			if g := <-got; g != "first" {
				t.Errorf("%s: a waiting ReadGroup got %s", s.Namespace(), g)
			}
		}
		cancel()
	}
}

// suiteGroupStops lets consumers stop repeatedly while holding records, nack records with different
// delays, and take some for good.
func suiteGroupStops(t *testing.T, db database) {
	ctx := t.Context()
	for _, s := range streamStores(t, db, "group stops") {
		if err := s.Create(ctx, "log", stream.Partitions(2)); err != nil {
			t.Fatal(err)
		}
		for i := range 12 {
			ok[stream.Appended](t)(s.Append(ctx, "log", stream.Message{Key: fmt.Sprint("k", i%4), Payload: fmt.Append(nil, i)}))
		}
		for mode := stream.Shared; mode <= stream.KeyShared; mode++ {
			name := mode.String()
			if err := s.Groups("log").Create(ctx, name, stream.InMode(mode), stream.MaxAttempts(2), stream.Backoff(0, 0)); err != nil {
				t.Fatal(err)
			}
			read := func(consumer string, opts ...stream.GroupReadOption) []stream.Delivery {
				return ok[[]stream.Delivery](t)(s.ReadGroup(ctx, "log", name, consumer, opts...))
			}
			for i := range 6 {
				consumer := fmt.Sprint("c", i%2)
				if ds := read(consumer); len(ds) != 12 || ds[0].Attempt != i+1 {
					t.Fatalf("%s %s: read %d got %d records, want 12 as attempt %d", s.Namespace(), name, i, len(ds), i+1)
				}
				if err := s.Leave(ctx, "log", name, consumer); err != nil {
					t.Fatal(err)
				}
			}
			ds := read("a")
			first, later := ds[:1], ds[len(ds)-1:]
			ok[int](t)(s.Nack(ctx, "log", name, stream.RefsOf(later), stream.Delay(time.Hour), stream.Reason("later")))
			ok[int](t)(s.Nack(ctx, "log", name, stream.RefsOf(first), stream.Delay(0), stream.Reason("now")))
			if err := s.Leave(ctx, "log", name, "a"); err != nil {
				t.Fatal(err)
			}
			got := 0
			for ds := read("b", stream.NoAck(), stream.Limit(5)); len(ds) > 0; ds = read("b", stream.NoAck(), stream.Limit(5)) {
				for got += len(ds); len(ds) > 0; ds = ds[1:] {
					if ds[0].ID == later[0].ID {
						t.Errorf("%s: %+v came before its time", name, ds[0])
					}
				}
			}
			info := ok[stream.GroupStats](t)(s.Groups("log").Get(ctx, name))
			if got != 11 || info.Pending() != 1 || info.Lag() != 0 || len(info.Members) != 1 {
				t.Errorf("%s %s: %d records were taken for good, want 11: %+v", s.Namespace(), name, got, info)
			}
		}
		if _, err := s.Read(ctx, stream.DeadLetters("log")); !errors.Is(err, floe.ErrNotFound) {
			t.Errorf("%s: dead letters: %v, want ErrNotFound", s.Namespace(), err)
		}
	}
}

// suiteMixed does in one step what takes several systems elsewhere: it consumes a message, changes
// a key and appends an event.
func suiteMixed(t *testing.T, db database) {
	ctx := t.Context()
	store, q, s := db.KV("mixed"), db.Queue("mixed"), db.Stream("mixed")
	ok[queue.Enqueued](t)(q.Enqueue(ctx, "orders", []byte("book")))
	msgs := ok[[]queue.Message](t)(q.Dequeue(ctx, "orders"))
	commit := func(guard ...floe.Condition) error {
		_, err := db.Txn("mixed").If(guard...).Do(
			queue.AckOp("orders", msgs[0].Receipt), kv.IncrOp("sold", 1), stream.AppendOp("events", message("sold")),
			queue.EnqueueOp("mail", []byte("thanks")),
		).Commit(ctx)
		return err
	}
	var refused *floe.TxnError
	if err := commit(kv.Present("stock")); !errors.As(err, &refused) || !refused.Condition || !errors.Is(err, floe.ErrConflict) {
		t.Errorf("a transaction whose condition does not hold: %v", err)
	}
	if _, err := store.Get(ctx, "sold"); !errors.Is(err, floe.ErrNotFound) {
		t.Errorf("what a refused transaction would have written: %v", err)
	}
	if err := commit(kv.Absent("stock")); err != nil {
		t.Fatal(err)
	}
	if err := commit(); !errors.As(err, &refused) || refused.Condition || refused.Index != 0 || !errors.Is(err, floe.ErrConflict) {
		t.Errorf("the same message acknowledged again: %v", err)
	}
	if e := ok[kv.Entry](t)(store.Get(ctx, "sold")); string(e.Value) != "1" {
		t.Errorf("sold %s", e.Value)
	}
	recs := ok[[]stream.Record](t)(s.Read(ctx, "events"))
	mail := ok[queue.Stats](t)(q.Get(ctx, "mail"))
	orders := ok[queue.Stats](t)(q.Get(ctx, "orders"))
	if len(recs) != 1 || mail.Ready != 1 || orders.Inflight != 0 || orders.Ready != 0 {
		t.Errorf("events %v, mail %+v, orders %+v", recs, mail, orders)
	}
}
