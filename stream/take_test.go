package stream_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
)

// entries returns the number of log entries of a node.
func entries(t testing.TB, node *floe.Node) (n uint64) {
	t.Helper()
	stats, err := node.Stats(t.Context())
	must(t, err)
	for _, s := range stats.Shards {
		n += s.Commit
	}
	return n
}

// TestEmptyPollsOfGroupsWriteNothing: each empty poll of a consumer used to write an entry, in a
// spread namespace one per shard.
func TestEmptyPollsOfGroupsWriteNothing(t *testing.T) {
	node, err := floe.Open(floe.Config{Shards: 3, Listen: "127.0.0.1:0"})
	must(t, err)
	defer node.Close()
	ctx := t.Context()
	client, err := floe.Dial(ctx, []string{node.Addr().String()})
	must(t, err)
	defer client.Close()

	for mode := stream.Shared; mode <= stream.KeyShared; mode++ {
		t.Run(mode.String(), func(t *testing.T) {
			name := mode.String()
			must(t, node.Stream("default").Create(ctx, name, stream.Partitions(5)))
			poll := func(s *stream.Store) {
				t.Helper()
				if ds, err := s.ReadGroup(ctx, name, "g", "a", stream.InMode(mode)); len(ds) > 0 || err != nil {
					t.Fatalf("ReadGroup = %v, %v", ds, err)
				}
			}
			poll(node.Stream("default"))
			before := entries(t, node)
			for range 20 {
				poll(node.Stream("default"))
				poll(client.Stream("default"))
				for _, missing := range []string{"default", "nowhere"} {
					if _, err := client.Stream(missing).ReadGroup(ctx, "missing", "g", "a"); !errors.Is(err, stream.ErrNotFound) {
						t.Fatalf("ReadGroup of a stream that there is not = %v", err)
					}
				}
			}
			if wrote := entries(t, node) - before; wrote != 0 {
				t.Errorf("80 empty polls wrote %d entries", wrote)
			}
		})
	}
}

// TestRareEmptyPollsWriteNothing: a consumer that polls only now and then writes nothing either,
// also outside a spread namespace, and stays a member.
func TestRareEmptyPollsWriteNothing(t *testing.T) {
	inNodes(t, func(t *testing.T, node *floe.Node, s *stream.Store, mode stream.Mode) {
		before := uint64(0)
		for i := range 100 {
			if i == 10 {
				before = entries(t, node)
			}
			ds, err := s.ReadGroup(t.Context(), "log", "g", "a", stream.InMode(mode), stream.AckTimeout(10*time.Second))
			if len(ds) > 0 || err != nil {
				t.Fatalf("ReadGroup = %v, %v", ds, err)
			}
			<-time.After(8 * time.Second)
		}
		if wrote := entries(t, node) - before; wrote != 0 {
			t.Errorf("90 empty polls wrote %d entries", wrote)
		}
		if info, err := s.Groups("log").Get(t.Context(), "g"); err != nil || len(info.Members) != 1 {
			t.Errorf("members: %+v, %v", info.Members, err)
		}
	})
}

// waiter is a waiting consumer.
type waiter struct {
	name string
	stop context.CancelFunc
	got  chan []stream.Delivery
}

func startWaiter(t *testing.T, s *stream.Store, name string, opts ...stream.GroupReadOption) *waiter {
	ctx, cancel := context.WithCancel(t.Context())
	w := &waiter{name, cancel, make(chan []stream.Delivery, 1)}
	go func() {
		ds, err := s.ReadGroup(ctx, "log", "g", name, append(opts, stream.Wait(100*time.Hour))...)
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: ReadGroup: %v", name, err)
		}
		w.got <- ds
	}()
	return w
}

// idleTime is many times the ack timeout of the waiting consumers. Each second of it runs the ticks
// of three shards, which costs processor time but no wall-clock time.
const idleTime = 5 * time.Minute

// inNodes runs a test in an ordinary and in a spread namespace, for each mode, with a stream of
// several partitions.
func inNodes(t *testing.T, test func(t *testing.T, node *floe.Node, s *stream.Store, mode stream.Mode)) {
	for _, namespace := range []string{"default", "wide"} {
		for mode := stream.Shared; mode <= stream.KeyShared; mode++ {
			t.Run(namespace+" "+mode.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					node, err := floe.Open(floe.Config{Shards: 3})
					must(t, err)
					defer node.Close()
					must(t, node.Namespaces().Create(t.Context(), "wide", floe.Spread()))
					s := node.Stream(namespace)
					must(t, s.Create(t.Context(), "log", stream.Partitions(5)))
					test(t, node, s, mode)
				})
			})
		}
	}
}

// TestIdleConsumersOfGroupsWriteNothing: a waiting consumer used to write an entry every half ack
// timeout to stay a member.
func TestIdleConsumersOfGroupsWriteNothing(t *testing.T) {
	inNodes(t, func(t *testing.T, node *floe.Node, s *stream.Store, mode stream.Mode) {
		var all []*waiter
		for i := range 3 {
			all = append(all, startWaiter(t, s, fmt.Sprint("c", i), stream.InMode(mode), stream.AckTimeout(10*time.Second)))
			<-time.After(time.Second)
		}
		<-time.After(time.Minute)
		before := entries(t, node)
		<-time.After(idleTime)
		if wrote := entries(t, node) - before; wrote != 0 {
			t.Errorf("three consumers that wait for %v wrote %d entries", idleTime, wrote)
		}
		info, err := s.Groups("log").Get(t.Context(), "g")
		if err != nil || len(info.Members) != 3 {
			t.Errorf("members: %+v, %v", info.Members, err)
		}
		_, err = s.Append(t.Context(), "log", text("1"))
		must(t, err)
		got := <-firstOf(all)
		if len(got) != 1 {
			t.Errorf("got %d records, want 1", len(got))
		}
		for _, w := range all {
			w.stop()
		}
	})
}

// firstOf returns the deliveries of the first consumer that gets any.
func firstOf(all []*waiter) <-chan []stream.Delivery {
	c := make(chan []stream.Delivery, len(all))
	for _, w := range all {
		go func() { c <- <-w.got }()
	}
	return c
}

// TestAWaitingConsumerThatIsLostIsMissed: a consumer lost while waiting gives up its place to
// others, and leaves the group after a time.
func TestAWaitingConsumerThatIsLostIsMissed(t *testing.T) {
	inNodes(t, func(t *testing.T, _ *floe.Node, s *stream.Store, mode stream.Mode) {
		opts := []stream.GroupReadOption{stream.InMode(mode), stream.AckTimeout(10 * time.Second)}
		lost := startWaiter(t, s, "lost", opts...)
		<-time.After(time.Second)
		other := startWaiter(t, s, "other", opts...)
		<-time.After(idleTime)
		lost.stop()
		<-time.After(15 * time.Second)
		for range 10 { // including keys of the lost consumer
			_, err := s.Append(t.Context(), "log", text("1"))
			must(t, err)
		}
		if ds := <-other.got; len(ds) == 0 {
			t.Error("nobody got the records")
		}
		<-time.After(20 * time.Second)
		info, err := s.Groups("log").Get(t.Context(), "g")
		if err != nil || len(info.Members) != 1 || info.Members[0].Consumer != "other" {
			t.Errorf("members: %+v, %v", info.Members, err)
		}
		for n := 1; n < 10; { // the other consumer proceeds and gets all records
			ds, err := s.ReadGroup(t.Context(), "log", "g", "other", stream.Wait(time.Hour), stream.NoAck())
			if must(t, err); len(ds) == 0 {
				t.Fatalf("got %d records, want 10", n)
			}
			n += len(ds)
		}
	})
}

// TestReadGroupWaitsForItsStream: waiting for a missing stream or namespace used to poll for it
// continuously.
func TestReadGroupWaitsForItsStream(t *testing.T) {
	for _, namespace := range []string{"default", "wide", "later", "later and wide"} {
		synctest.Test(t, func(t *testing.T) {
			node, err := floe.Open(floe.Config{Shards: 3})
			must(t, err)
			defer node.Close()
			must(t, node.Namespaces().Create(t.Context(), "wide", floe.Spread()))
			s := node.Stream(namespace)
			w := startWaiter(t, s, "c")
			<-time.After(time.Minute)
			before := entries(t, node)
			<-time.After(idleTime)
			if wrote := entries(t, node) - before; wrote != 0 {
				t.Errorf("%s: a consumer that waits for a stream wrote %d entries", namespace, wrote)
			}
			if namespace == "later and wide" {
				must(t, node.Namespaces().Create(t.Context(), namespace, floe.Spread()))
				<-time.After(time.Second)
				must(t, s.Create(t.Context(), "log", stream.Partitions(7)))
				<-time.After(time.Second)
			}
			_, err = s.Append(t.Context(), "log", text("1"), stream.Partition(0))
			must(t, err)
			if ds := <-w.got; len(ds) != 1 {
				t.Errorf("%s: got %d records, want 1", namespace, len(ds))
			}
		})
	}
}

// TestReadGroupWhoseGroupGoes: a waiting consumer used to recreate its group when it was deleted.
// In a spread namespace it kept sleeping when the group existed again.
func TestReadGroupWhoseGroupGoes(t *testing.T) {
	inNodes(t, func(t *testing.T, node *floe.Node, s *stream.Store, mode stream.Mode) {
		ctx := t.Context()
		for _, name := range []string{"one", "log"} {
			if name == "one" {
				must(t, s.Create(ctx, name))
			}
			wait := func() chan error {
				ended := make(chan error, 1)
				go func() {
					ds, err := s.ReadGroup(ctx, name, "g", "c", stream.InMode(mode), stream.Wait(100*time.Hour))
					if err == nil && (len(ds) != 1 || string(ds[0].Payload) != "new") {
						err = fmt.Errorf("got %s", deliveries(ds))
					}
					ended <- err
				}()
				pass(time.Minute)
				return ended
			}
			for what, end := range map[string]func() error{
				"the group":  func() error { return s.Groups(name).Delete(ctx, "g") },
				"the stream": func() error { return errors.Join(s.Delete(ctx, name), s.Create(ctx, name, stream.Partitions(5))) },
			} {
				ended := wait()
				must(t, end())
				pass(time.Second)
				if err := <-ended; !errors.Is(err, stream.ErrNotFound) {
					t.Errorf("%s: %s is deleted: ReadGroup = %v, want ErrNotFound", name, what, err)
				}
				if _, err := s.Groups(name).Get(ctx, "g"); !errors.Is(err, stream.ErrNotFound) {
					t.Errorf("%s: %s is deleted: GroupStats = %v, want ErrNotFound", name, what, err)
				}
			}
			for what, again := range map[string][]floe.Op{
				"the group": {stream.DeleteGroupOp(name, "g"), stream.CreateGroupOp(name, "g", stream.InMode(mode))},
				"the stream": {stream.DeleteOp(name, stream.Force()), stream.CreateOp(name, stream.Partitions(5)),
					stream.CreateGroupOp(name, "g", stream.InMode(mode))},
			} {
				ended := wait()
				_, err := node.Txn(s.Namespace()).Do(again...).Commit(ctx)
				must(t, err)
				pass(time.Minute)
				_, err = s.Append(ctx, name, text("new"))
				must(t, err)
				pass(time.Second)
				select {
				case err := <-ended:
					if err != nil {
						t.Errorf("%s: %s is created again: ReadGroup = %v", name, what, err)
					}
				default:
					t.Fatalf("%s: %s was created again, and ReadGroup waits for the old one", name, what)
				}
				must(t, s.Groups(name).Delete(ctx, "g"))
				_, err = s.Trim(ctx, name, stream.MaxLen(0))
				must(t, err)
			}
		}
	})
}

// TestReadGroupFromTheEndOfAStreamToCome: all records of a stream that a group waited for are new,
// also to a group that begins at the end.
func TestReadGroupFromTheEndOfAStreamToCome(t *testing.T) {
	inBubbles(t, func(t *testing.T, _ *floe.Node, s *stream.Store) {
		w := startWaiter(t, s, "c", stream.FromEnd())
		var consumed notes
		c := begin(t, func(ctx context.Context) error {
			return s.Consume(ctx, "log", "other", func(_ context.Context, d stream.Delivery) error {
				consumed.add("%s", d.Payload)
				return nil
			}, stream.FromEnd())
		})
		pass(time.Minute)
		_, err := s.Append(t.Context(), "log", text("1"))
		must(t, err)
		pass(time.Second)
		if got := deliveries(<-w.got); got != "1" {
			t.Errorf("ReadGroup got %q, want the record that made the stream", got)
		}
		c.end(t)
		if got := consumed.sorted(); got != "1" {
			t.Errorf("Consume got %q, want the record that made the stream", got)
		}
	})
}

// TestReadGroupTogether: readers that wait in a spread namespace all get their records at once when
// several arrive in two shards. One reader used to be woken for both shards and read from one. No
// reader was then woken for the other shard's record for up to a second, and then only one reader a
// second.
func TestReadGroupTogether(t *testing.T) {
	t.Run("two", func(t *testing.T) { testReadGroupTogether(t, 2, 100) })
	t.Run("many", func(t *testing.T) { testReadGroupTogether(t, 60, 5) })
}

func testReadGroupTogether(t *testing.T, readers, rounds int) {
	synctest.Test(t, func(t *testing.T) {
		node, err := floe.Open(floe.Config{Shards: 3})
		must(t, err)
		defer node.Close()
		ctx := t.Context()
		must(t, node.Namespaces().Create(ctx, "wide", floe.Spread()))
		s := node.Stream("wide")
		must(t, s.Create(ctx, "log", stream.Partitions(6)))
		must(t, s.Groups("log").Create(ctx, "g"))
		for round := range rounds {
			var read, came sync.WaitGroup
			began := time.Now().Add(time.Second)
			for i := range readers {
				read.Go(func() {
					c := fmt.Sprint("c", i)
					ds, err := s.ReadGroup(ctx, "log", "g", c, stream.Limit(1), stream.Wait(time.Minute))
					if err != nil || len(ds) != 1 {
						t.Errorf("round %d: %d records, %v", round, len(ds), err)
						return
					}
					if late := time.Since(began); late > 0 {
						t.Errorf("round %d: read after %v", round, late)
					}
					if _, err := s.Ack(ctx, "log", "g", ds[0].Ref()); err != nil {
						t.Error(err)
					}
				})
			}
			<-time.After(time.Until(began))
			for p := range 2 {
				came.Go(func() {
					if _, err := s.AppendMany(ctx, "log", make([]stream.Message, readers/2), stream.Partition((round+p)%6)); err != nil {
						t.Error(err)
					}
				})
			}
			came.Wait()
			read.Wait()
		}
	})
}
