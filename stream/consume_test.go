package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
	"github.com/floedb/floe/stream"
)

// consuming is a running Consume call.
type consuming struct {
	stop  context.CancelCauseFunc
	ended chan error
}

// begin starts to consume, in a bubble.
func begin(t *testing.T, consume func(ctx context.Context) error) *consuming {
	ctx, stop := context.WithCancelCause(t.Context())
	c := &consuming{stop, make(chan error, 1)}
	go func() { c.ended <- consume(ctx) }()
	return c
}

// end cancels the call and checks how it ends.
func (c *consuming) end(t *testing.T) {
	t.Helper()
	c.stop(errEnough)
	if err := <-c.ended; err != nil {
		t.Errorf("Consume = %v, want nil", err)
	}
}

var errEnough = errors.New("that is enough")

// inBubbles runs a test in a bubble with its own node, in a namespace of each kind.
func inBubbles(t *testing.T, f func(t *testing.T, node *floe.Node, s *stream.Store)) {
	t.Helper()
	for name, opts := range map[string][]floe.NamespaceOption{"plain": nil, "spread": {floe.Spread()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node, err := floe.Open(floe.Config{Shards: 3})
				must(t, err)
				defer node.Close()
				must(t, node.Namespaces().Create(t.Context(), "n", opts...))
				f(t, node, node.Stream("n"))
			})
		})
	}
}

// pass advances the time and waits for the effects.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// appendAll appends records with keys: "a:1" is the payload 1 with the key a.
func appendAll(t *testing.T, s *stream.Store, name string, records ...string) {
	t.Helper()
	for _, text := range records {
		key, payload, _ := strings.Cut(text, ":")
		_, err := s.Append(t.Context(), name, stream.Message{Key: key, Payload: []byte(payload)})
		must(t, err)
	}
}

// notes records what handlers do.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (n *notes) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

func (n *notes) sorted() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := slices.Clone(n.lines)
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// TestConsumeOutcomes: the outcome of a record depends on what its handler returns. The stream is
// created later.
func TestConsumeOutcomes(t *testing.T) {
	inBubbles(t, func(t *testing.T, node *floe.Node, s *stream.Store) {
		var seen, reported notes
		name := "{log}"
		c := begin(t, func(ctx context.Context) error {
			return s.Consume(ctx, name, "g", func(ctx context.Context, d stream.Delivery) error {
				seen.add("%s %d", d.Payload, d.Attempt)
				switch body := string(d.Payload); {
				case body == "fails" && d.Attempt < 3, body == "never works":
					return fmt.Errorf("attempt %d failed", d.Attempt)
				case body == "hopeless":
					return fmt.Errorf("handle: %w", stream.Permanent(errors.New("no such address")))
				case body == "panics":
					panic("boom")
				case body == "in a transaction":
					_, err := node.Txn("n").Do(stream.AckOp(name, "g", d.Ref()), kv.PutOp("{log}done", d.Payload)).Commit(ctx)
					return errors.Join(err, stream.ErrSettled)
				}
				return nil
			}, stream.MaxAttempts(3), stream.OnError(func(d *stream.Delivery, err error) {
				if d == nil { // the stream does not exist yet, or Consume leaves
					reported.add("without a record: %v", err)
					return
				}
				reported.add("%s", d.Payload)
			}))
		})
		pass(time.Minute)
		appendAll(t, s, name, ":fine", ":fails", ":never works", ":hopeless", ":panics", ":in a transaction")
		pass(time.Minute)
		c.end(t)
		want := "fails 1, fails 2, fails 3, fine 1, hopeless 1, in a transaction 1, never works 1, never works 2, never works 3, " +
			"panics 1, panics 2, panics 3"
		if got := seen.sorted(); got != want {
			t.Errorf("handled: %s, want %s", got, want)
		}
		var dead notes
		recs, err := s.Read(t.Context(), name+".dlq")
		must(t, err)
		for _, r := range recs {
			reason, _, _ := strings.Cut(r.Headers[stream.HeaderError], "\n")
			dead.add("%s: %s", r.Payload, reason)
		}
		if got := dead.sorted(); got != "hopeless: handle: no such address, never works: attempt 3 failed, panics: handler panicked: boom" {
			t.Errorf("dead letters: %s; headers %v", got, recs[0].Headers)
		}
		info, err := s.Groups(name).Get(t.Context(), "g")
		must(t, err)
		if info.Pending() != 0 || info.Lag() != 0 || len(info.Members) != 0 {
			t.Errorf("GroupStats = %+v, want nothing left", info)
		}
		if len(reported.lines) != 9 {
			t.Errorf("reported %q, want each failure", reported.lines)
		}
	})
}

// TestConsumeHostileErrors: an error whose methods panic counts as an ordinary failure, and so does
// an OnError that panics.
func TestConsumeHostileErrors(t *testing.T) {
	inBubbles(t, func(t *testing.T, node *floe.Node, s *stream.Store) {
		name, hostile := "{log}", machinetest.HostileErrors()
		for what := range hostile {
			appendAll(t, s, name, ":"+what)
		}
		c := begin(t, func(ctx context.Context) error {
			return s.Consume(ctx, name, "g", func(_ context.Context, d stream.Delivery) error { return hostile[string(d.Payload)] },
				stream.MaxAttempts(1), stream.OnError(func(*stream.Delivery, error) { panic("in OnError") }))
		})
		pass(time.Minute)
		c.end(t)
		recs, err := s.Read(t.Context(), name+".dlq")
		must(t, err)
		if len(recs) != len(hostile) {
			t.Errorf("%d dead letters, want %d", len(recs), len(hostile))
		}
		for _, r := range recs {
			if !strings.Contains(r.Headers[stream.HeaderError], "panicked") {
				t.Errorf("dead letter %s: %q, want a panic", r.Payload, r.Headers[stream.HeaderError])
			}
		}
	})
}

// TestConsumeHoldsRecords: a handler that takes longer than the ack timeout keeps its record.
func TestConsumeHoldsRecords(t *testing.T) {
	inBubbles(t, func(t *testing.T, node *floe.Node, s *stream.Store) {
		must(t, s.Create(t.Context(), "log", stream.Partitions(4)))
		for i := range 20 {
			appendAll(t, s, "log", fmt.Sprintf("k%d:x", i))
		}
		var runs atomic.Int32
		consume := func(ctx context.Context) error {
			return s.Consume(ctx, "log", "g", func(ctx context.Context, d stream.Delivery) error {
				if runs.Add(1); d.Attempt != 1 {
					t.Errorf("attempt %d of %s", d.Attempt, d.Key)
				}
				<-time.After(5 * time.Minute)
				return ctx.Err()
			}, stream.Concurrency(20), stream.AckTimeout(3*time.Second))
		}
		c := begin(t, consume)
		pass(time.Minute)
		other := begin(t, consume)
		pass(10 * time.Minute)
		c.end(t)
		other.end(t)
		if info, err := s.Groups("log").Get(t.Context(), "g"); err != nil || runs.Load() != 20 || info.Pending() != 0 {
			t.Errorf("%d runs, %+v, %v", runs.Load(), info, err)
		}
	})
}

// TestConsumeKeepsKeysInOrder: despite failures and slow handlers, the records of a key are handled
// one after the other. None overtakes another, and other keys proceed.
func TestConsumeKeepsKeysInOrder(t *testing.T) {
	inBubbles(t, func(t *testing.T, node *floe.Node, s *stream.Store) {
		const keys, each = 7, 20
		must(t, s.Create(t.Context(), "log", stream.Partitions(3)))
		for i := range each {
			for k := range keys {
				appendAll(t, s, "log", fmt.Sprintf("k%d:%02d", k, i))
			}
		}
		var mu sync.Mutex
		busy, next, tries, most := make(map[string]bool), make(map[string]int), make(map[string]int), 0
		handle := func(ctx context.Context, d stream.Delivery) error {
			mu.Lock()
			if n := fmt.Sprintf("%02d", next[d.Key]); busy[d.Key] || string(d.Payload) != n {
				t.Errorf("key %s: %s is handled, %s is next; another one runs: %v", d.Key, d.Payload, n, busy[d.Key])
			}
			busy[d.Key] = true
			most = max(most, len(busy))
			tries[d.Key]++
			try := tries[d.Key]
			mu.Unlock()
			<-time.After(time.Duration(try%4) * time.Second)
			mu.Lock()
			defer mu.Unlock()
			delete(busy, d.Key)
			switch {
			case try%5 == 0:
				return errEnough
			case try%13 == 0:
				next[d.Key]++
				return stream.Permanent(errEnough) // the records behind it proceed
			}
			next[d.Key]++
			return nil
		}
		var all []*consuming
		for range 2 {
			all = append(all, begin(t, func(ctx context.Context) error {
				return s.Consume(ctx, "log", "g", handle, stream.Concurrency(5), stream.InMode(stream.KeyShared), stream.MaxAttempts(0))
			}))
		}
		pass(10 * time.Minute)
		for _, c := range all {
			c.end(t)
		}
		if most < 5 {
			t.Errorf("at most %d keys were handled at once", most)
		}
		for k, n := range next {
			if n != each {
				t.Errorf("%d records of key %s are done, want %d", n, k, each)
			}
		}
		if info, err := s.Groups("log").Get(t.Context(), "g"); err != nil || info.Pending() != 0 || info.Lag() != 0 {
			t.Errorf("GroupStats = %+v, %v", info, err)
		}
	})
}

// TestConsumeMany: batches are acknowledged or redelivered as a whole.
func TestConsumeMany(t *testing.T) {
	inBubbles(t, func(t *testing.T, node *floe.Node, s *stream.Store) {
		msgs := make([]stream.Message, 1000)
		for i := range msgs {
			msgs[i].Payload = fmt.Append(nil, i)
		}
		_, err := s.AppendMany(t.Context(), "log", msgs)
		must(t, err)
		var sizes notes
		handled := make(map[string]int)
		c := begin(t, func(ctx context.Context) error {
			return s.ConsumeMany(ctx, "log", "g", 300, func(ctx context.Context, ds []stream.Delivery) error {
				sizes.add("%d", len(ds))
				for _, d := range ds {
					handled[string(d.Payload)]++
				}
				fails := len(ds) == 100 && ds[0].Attempt == 1
				clear(ds) // the slice belongs to the handler
				if fails {
					return errEnough
				}
				return nil
			}, stream.OnError(func(d *stream.Delivery, _ error) { *d = stream.Delivery{} }))
		})
		pass(time.Minute)
		c.end(t)
		if got := sizes.sorted(); got != "100, 100, 300, 300, 300" || len(handled) != 1000 {
			t.Errorf("batches of %s, %d records", got, len(handled))
		}
		if info, err := s.Groups("log").Get(t.Context(), "g"); err != nil || info.Pending() != 0 {
			t.Errorf("%+v, %v; want none pending", info, err)
		}
	})
}

// TestConsumeNoAck: each record is handled once, whatever the handler returns, also in a group with
// some acknowledging consumers.
func TestConsumeNoAck(t *testing.T) {
	inBubbles(t, func(t *testing.T, node *floe.Node, s *stream.Store) {
		for i := range 300 {
			appendAll(t, s, "log", fmt.Sprintf("k%d:%d", i%10, i))
		}
		var mu sync.Mutex
		once, acked := make(map[string]int), make(map[string]int)
		opts := []stream.ConsumeOption{stream.Concurrency(8), stream.InMode(stream.KeyShared), stream.Consumer("once")}
		loose := begin(t, func(ctx context.Context) error {
			return s.Consume(ctx, "log", "g", func(ctx context.Context, d stream.Delivery) error {
				mu.Lock()
				once[string(d.Payload)]++
				mu.Unlock()
				<-time.After(time.Second)
				return errEnough
			}, append(opts, stream.NoAck())...)
		})
		strict := begin(t, func(ctx context.Context) error {
			return s.Consume(ctx, "log", "g", func(ctx context.Context, d stream.Delivery) error {
				mu.Lock()
				defer mu.Unlock()
				acked[string(d.Payload)]++
				if d.Attempt == 1 {
					return errEnough
				}
				return nil
			}, append(opts, stream.Consumer("strict"))...)
		})
		pass(10 * time.Minute)
		loose.end(t)
		strict.end(t)
		for i := range 300 {
			if p := fmt.Sprint(i); once[p]+acked[p] < 1 || once[p] > 1 || acked[p] > 2 {
				t.Errorf("record %s was handled %d times without and %d times with acknowledgement", p, once[p], acked[p])
			}
		}
		if len(once) == 0 || len(acked) == 0 {
			t.Errorf("%d records to one, %d to the other", len(once), len(acked))
		}
	})
}

// TestConsumeDrains: records not finished in time are delivered to other consumers, and the attempt
// does not count.
func TestConsumeDrains(t *testing.T) {
	inBubbles(t, func(t *testing.T, node *floe.Node, s *stream.Store) {
		for i := range 5 {
			appendAll(t, s, "log", fmt.Sprintf(":%d", i))
		}
		c := begin(t, func(ctx context.Context) error {
			return s.Consume(ctx, "log", "g", func(ctx context.Context, d stream.Delivery) error {
				if string(d.Payload) == "0" {
					<-time.After(9 * time.Second)
					return ctx.Err()
				}
				<-ctx.Done()
				if context.Cause(ctx) != errEnough {
					t.Errorf("the cause is %v, want that of the context of Consume", context.Cause(ctx))
				}
				return ctx.Err()
			}, stream.Concurrency(4), stream.MaxAttempts(1))
		})
		pass(time.Second)
		c.end(t)
		var rest notes
		c = begin(t, func(ctx context.Context) error {
			return s.Consume(ctx, "log", "g", func(ctx context.Context, d stream.Delivery) error {
				rest.add("%s", d.Payload)
				return nil
			})
		})
		pass(time.Second)
		c.end(t)
		if got := rest.sorted(); got != "1, 2, 3, 4" {
			t.Errorf("the next one got %s, want 1, 2, 3, 4", got)
		}
	})
}

// TestConsumeLosesRecords: a handler is notified if its group has been moved or deleted.
func TestConsumeLosesRecords(t *testing.T) {
	for name, lose := range map[string]func(ctx context.Context, s *stream.Store) error{
		"seek":   func(ctx context.Context, s *stream.Store) error { return s.Seek(ctx, "log", "g", stream.FromEnd()) },
		"group":  func(ctx context.Context, s *stream.Store) error { return s.Groups("log").Delete(ctx, "g") },
		"stream": func(ctx context.Context, s *stream.Store) error { return s.Delete(ctx, "log", stream.Force()) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, func(t *testing.T, node *floe.Node, s *stream.Store) {
				appendAll(t, s, "log", ":1", ":2", ":3")
				var causes notes
				c := begin(t, func(ctx context.Context) error {
					return s.Consume(ctx, "log", "g", func(ctx context.Context, d stream.Delivery) error {
						if d.Attempt > 1 || len(causes.sorted()) > 10 {
							return nil
						}
						<-ctx.Done()
						causes.add("%v", errors.Is(context.Cause(ctx), stream.ErrConflict))
						return nil
					}, stream.Concurrency(3))
				})
				pass(time.Second)
				must(t, lose(t.Context(), s))
				pass(time.Minute)
				if name == "seek" {
					c.end(t)
				} else if err := <-c.ended; !errors.Is(err, stream.ErrNotFound) {
					t.Errorf("Consume = %v, want ErrNotFound", err)
				}
				if got := causes.sorted(); strings.Count(got, "true") != 3 {
					t.Errorf("causes that are ErrConflict: %s", got)
				}
			})
		})
	}
}

func TestConsumeRefuses(t *testing.T) {
	node := floe.OpenMemory(t)
	s, none := node.Stream("n"), func(context.Context, stream.Delivery) error { return nil }
	for _, opts := range [][]stream.ConsumeOption{
		{stream.Concurrency(0)}, {stream.Concurrency(stream.MaxConcurrency + 1)}, {stream.Grace(-1)}, {stream.Consumer("\n")},
		{stream.AckTimeout(0)},
		{stream.MaxAttempts(-1)}, {stream.InMode(9)},
	} {
		if err := s.Consume(t.Context(), "log", "g", none, opts...); !errors.Is(err, stream.ErrInvalid) {
			t.Errorf("Consume = %v, want ErrInvalid", err)
		}
	}
	for _, names := range [][2]string{{"", "g"}, {"log", ""}, {"log", "\n"}} {
		if err := s.Consume(t.Context(), names[0], names[1], none); !errors.Is(err, stream.ErrInvalid) {
			t.Errorf("Consume of %q = %v, want ErrInvalid", names, err)
		}
	}
	if err := s.ConsumeMany(t.Context(), "log", "g", 0, nil); !errors.Is(err, stream.ErrInvalid) {
		t.Errorf("ConsumeMany of no records = %v, want ErrInvalid", err)
	}
	if _, err := s.Nack(t.Context(), "log", "g", []stream.Ref{{Offset: 1}}, stream.ToDLQ(), stream.Delay(0)); !errors.Is(err,
		stream.ErrInvalid) {
		t.Errorf("Nack with a delay, to the dead letters = %v, want ErrInvalid", err)
	}
}

// TestConsumeTakesOnNewSettings: Consume used to keep renewing by the ack timeout that the group
// had at its start, and lost records of a group with a shorter one.
func TestConsumeTakesOnNewSettings(t *testing.T) {
	for name, change := range map[string]func(ctx context.Context, node *floe.Node, s *stream.Store) error{
		"configured": func(ctx context.Context, _ *floe.Node, s *stream.Store) error {
			return s.Groups("log").Configure(ctx, "g", stream.AckTimeout(10*time.Second))
		},
		"created again": func(ctx context.Context, node *floe.Node, s *stream.Store) error {
			_, err := node.Txn("n").Do(stream.DeleteGroupOp("log", "g"),
				stream.CreateGroupOp("log", "g", stream.AckTimeout(10*time.Second))).Commit(ctx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, func(t *testing.T, node *floe.Node, s *stream.Store) {
				must(t, s.Create(t.Context(), "log", stream.Partitions(4)))
				must(t, s.Groups("log").Create(t.Context(), "g", stream.AckTimeout(time.Hour)))
				var handled notes
				c := begin(t, func(ctx context.Context) error {
					return s.Consume(ctx, "log", "g", func(ctx context.Context, d stream.Delivery) error {
						select {
						case <-ctx.Done():
							handled.add("%s#%d %v", d.Payload, d.Attempt, context.Cause(ctx))
						case <-time.After(2 * time.Minute):
							handled.add("%s#%d", d.Payload, d.Attempt)
						}
						return nil
					}, stream.Concurrency(8))
				})
				pass(time.Minute)
				must(t, change(t.Context(), node, s))
				for p := range 4 {
					_, err := s.Append(t.Context(), "log", text("%d", p), stream.Partition(p))
					must(t, err)
				}
				pass(10 * time.Minute)
				c.end(t)
				if got := handled.sorted(); got != "0#1, 1#1, 2#1, 3#1" {
					t.Errorf("handled %s", got)
				}
			})
		})
	}
}

// TestConfiguringKeepsNobody: a consumer whose last poll was empty and that is silent since leaves
// its group when it is due, however often the group is configured.
func TestConfiguringKeepsNobody(t *testing.T) {
	inBubbles(t, func(t *testing.T, _ *floe.Node, s *stream.Store) {
		for mode := stream.Shared; mode <= stream.Exclusive; mode++ {
			name := mode.String()
			create(t, s, name, stream.Partitions(4))
			must(t, s.Groups(name).Create(t.Context(), "g", stream.InMode(mode), stream.AckTimeout(10*time.Second)))
			if _, err := s.ReadGroup(t.Context(), name, "g", "silent", stream.Wait(time.Second)); err != nil {
				t.Fatal(err)
			}
			appendAll(t, s, name, "a", "b", "c", "d", "e", "f", "g", "h")
			got := 0
			for range 40 {
				must(t, s.Groups(name).Configure(t.Context(), "g", stream.AckTimeout(10*time.Second)))
				ds, err := s.ReadGroup(t.Context(), name, "g", "b", stream.Limit(100))
				if err != nil {
					t.Fatal(err)
				}
				got += len(ds)
				if _, err := s.Ack(t.Context(), name, "g", stream.RefsOf(ds)...); err != nil {
					t.Fatal(err)
				}
				pass(time.Second)
			}
			if info, err := s.Groups(name).Get(t.Context(), "g"); err != nil || got != 8 || len(info.Members) != 1 {
				t.Errorf("%s: b got %d of 8 records; %+v, %v: want b as the only member", name, got, info, err)
			}
		}
	})
}

// TestConfiguringTakesNothingAway: a much shorter ack timeout used to apply at once, also to time
// already passed. A busy consumer then lost its record to a waiting one. It keeps the deadline it
// had, and renews by the new ack timeout from then on.
func TestConfiguringTakesNothingAway(t *testing.T) {
	for _, mode := range []stream.Mode{stream.Shared, stream.Exclusive, stream.KeyShared} {
		t.Run(mode.String(), func(t *testing.T) {
			inBubbles(t, func(t *testing.T, _ *floe.Node, s *stream.Store) {
				must(t, s.Create(t.Context(), "log", stream.Partitions(3)))
				must(t, s.Groups("log").Create(t.Context(), "g", stream.InMode(mode), stream.AckTimeout(5*time.Minute)))
				var handled notes
				consume := func(ctx context.Context) error {
					return s.Consume(ctx, "log", "g", func(ctx context.Context, d stream.Delivery) error {
						select {
						case <-ctx.Done():
							handled.add("%s#%d %v", d.Payload, d.Attempt, context.Cause(ctx))
						case <-time.After(10 * time.Minute):
							handled.add("%s#%d", d.Payload, d.Attempt)
						}
						return nil
					}, stream.Concurrency(3))
				}
				busy := begin(t, consume)
				pass(time.Minute)
				for p := range 3 {
					_, err := s.Append(t.Context(), "log", text("%d", p), stream.Partition(p))
					must(t, err)
				}
				pass(time.Minute)
				idle := begin(t, consume)
				pass(80 * time.Second) // the busy consumer renews every 100 s
				for range 3 {
					must(t, s.Groups("log").Configure(t.Context(), "g", stream.AckTimeout(2*time.Second)))
					pass(5 * time.Second)
				}
				pass(10 * time.Minute)
				busy.end(t)
				idle.end(t)
				if got, want := handled.sorted(), "0#1, 1#1, 2#1"; got != want {
					t.Errorf("handled: %s, want %s", got, want)
				}
			})
		})
	}
}
