package stream_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/stream"
)

// follower collects what a Follow yields, in a bubble of synctest.
type follower struct {
	t     *testing.T
	store *stream.Store
	mu    sync.Mutex // guards what follows
	got   []string
	err   error
}

func follow(t *testing.T, s *stream.Store, name string, opts ...stream.FollowOption) *follower {
	f := &follower{t: t, store: s}
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() {
		for rec, err := range s.Follow(ctx, name, opts...) {
			f.mu.Lock()
			if f.err = err; err == nil {
				f.got = append(f.got, string(rec.Payload))
			}
			f.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		cancel()
		following.Wait()
		if !errors.Is(f.err, context.Canceled) {
			t.Errorf("Follow(%q) ended with %v, want that of its context", name, f.err)
		}
	})
	return f
}

// want checks everything followed so far.
func (f *follower) want(want string) {
	f.t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if got := strings.Join(f.got, " "); got != want {
		f.t.Errorf("followed %q, want %q", got, want)
	}
}

// inBubble runs a test with a store in a namespace that does not exist yet, and one in a spread
// namespace.
func inBubble(t *testing.T, f func(t *testing.T, r *machinetest.Rig, s *stream.Store)) {
	t.Run("at home", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, s := newStore(t)
			f(t, r, s)
		})
	})
	t.Run("spread", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, s := newSpread(t, 4)
			f(t, r, s)
		})
	})
}

func create(t testing.TB, s *stream.Store, name string, opts ...stream.CreateOption) {
	t.Helper()
	if err := s.Create(t.Context(), name, opts...); err != nil {
		t.Fatalf("Create(%q): %v", name, err)
	}
}

func remove(t testing.TB, s *stream.Store, name string) {
	t.Helper()
	if err := s.Delete(t.Context(), name, stream.Force()); err != nil {
		t.Fatalf("Delete(%q): %v", name, err)
	}
}

// appendInTurn appends records to a stream, each at its own time and after the previous one has
// been read. A follower of several shards gets records that arrive during its reads in an order
// that depends on which shard it reads first.
func appendInTurn(t *testing.T, r *machinetest.Rig, s *stream.Store, payloads ...string) {
	t.Helper()
	for _, p := range payloads {
		appendTexts(t, s, "log", p)
		r.Advance(1)
		synctest.Wait()
	}
}

func TestFollow(t *testing.T) {
	inBubble(t, func(t *testing.T, r *machinetest.Rig, s *stream.Store) {
		waits := follow(t, s, "log")
		waits.want("")
		create(t, s, "log", stream.Partitions(5))
		waits.want("")
		appendInTurn(t, r, s, "a", "b", "c")
		waits.want("a b c")
		fromEnd := follow(t, s, "log", stream.FromEnd())
		fromEnd.want("")
		appendInTurn(t, r, s, "d")
		fromEnd.want("d")
		waits.want("a b c d")
		if n, err := s.Trim(t.Context(), "log", stream.MaxLen(0)); err != nil || n != 4 {
			t.Errorf("Trim = %d, %v", n, err)
		}
		appendInTurn(t, r, s, "e", "f")
		fromEnd.want("d e f")
		waits.want("a b c d e f")
		follow(t, s, "log").want("e f")
	})
}

// TestFollowFromEndOfNothing: a follower that waits for a missing stream gets its first records,
// even if it asked for new ones only.
func TestFollowFromEndOfNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, r *machinetest.Rig, s *stream.Store) {
		f := follow(t, s, "log", stream.FromEnd())
		f.want("")
		txn := r.Txn(s.Namespace()).Do(stream.CreateOp("log"), stream.AppendOp("log", text("a")), stream.AppendOp("log", text("b")))
		if _, err := txn.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.want("a b")
	})
}

// TestFollowOverDelete: a stream that is recreated is followed from its beginning, wherever its
// partitions are.
func TestFollowOverDelete(t *testing.T) {
	inBubble(t, func(t *testing.T, r *machinetest.Rig, s *stream.Store) {
		create(t, s, "log")
		appendTexts(t, s, "log", "a", "b")
		all, end := follow(t, s, "log"), follow(t, s, "log", stream.FromEnd())
		late := follow(t, s, "log", stream.From(stream.ID{Millis: machinetest.Epoch * 2}))
		all.want("a b")
		remove(t, s, "log")
		all.want("a b")
		r.Advance(1)
		create(t, s, "log", stream.Partitions(8))
		for p := 7; p >= 0; p-- {
			if _, err := s.Append(t.Context(), "log", text("%d", p), stream.Partition(p)); err != nil {
				t.Fatal(err)
			}
			r.Advance(1)
			synctest.Wait()
		}
		all.want("a b 7 6 5 4 3 2 1 0")
		end.want("7 6 5 4 3 2 1 0")
		late.want("7 6 5 4 3 2 1 0")
		remove(t, s, "log")
		appendTexts(t, s, "log", "c")
		all.want("a b 7 6 5 4 3 2 1 0 c")
	})
}

// TestFollowFromFuture: following from an ID that the stream has not reached yields nothing until
// it does.
func TestFollowFromFuture(t *testing.T) {
	inBubble(t, func(t *testing.T, r *machinetest.Rig, s *stream.Store) {
		create(t, s, "log", stream.Partitions(3))
		from := stream.ID{Millis: machinetest.Epoch + 10}
		early, never := follow(t, s, "log", stream.From(from)), follow(t, s, "none", stream.After(from))
		appendTexts(t, s, "log", "a", "b", "c", "d")
		appendTexts(t, s, "none", "a")
		later := follow(t, s, "log", stream.From(from))
		early.want("")
		appendTexts(t, s, "log", "e")
		r.Advance(10)
		appendInTurn(t, r, s, "f", "g", "h")
		early.want("f g h")
		later.want("f g h")
		never.want("")
		wantRead(t, s, "log", "", stream.From(stream.ID{Millis: machinetest.Epoch + 13}))
	})
}

func TestReadWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, r *machinetest.Rig, s *stream.Store) {
		read := func(opts ...stream.ReadOption) chan string {
			got := make(chan string, 1)
			go func() {
				recs, err := s.Read(t.Context(), "log", append(opts, stream.Wait(time.Minute))...)
				if err != nil {
					t.Errorf("Read: %v", err)
				}
				got <- payloads(recs)
			}()
			synctest.Wait()
			return got
		}
		first := read(stream.Partition(0))
		create(t, s, "log", stream.Partitions(4))
		second := read(stream.Partition(3))
		if _, err := s.Append(t.Context(), "log", text("three"), stream.Partition(3)); err != nil {
			t.Fatal(err)
		}
		if got := <-second; got != "three" {
			t.Errorf("Read of partition 3 = %q", got)
		}
		if got := <-first; got != "" {
			t.Errorf("Read of partition 0 = %q after a minute, want nothing", got)
		}
		done, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Read(done, "log", stream.Partition(0), stream.Wait(time.Minute)); !errors.Is(err, context.Canceled) {
			t.Errorf("Read with a context that is done = %v", err)
		}
		// However short the wait, available records are returned.
		wantRead(t, s, "log", "three", stream.Wait(1))
		wantRead(t, s, "log", "", stream.Wait(1), stream.Partition(2))
	})
}

// slowDoor blocks every query that has a deadline.
type slowDoor struct{ *machinetest.Rig }

func (d slowDoor) Query(ctx context.Context, shard engine.ShardID, q engine.Query) error {
	if _, bounded := ctx.Deadline(); bounded {
		<-ctx.Done()
		return ctx.Err()
	}
	return d.Rig.Query(ctx, shard, q)
}

// TestWaitDoesNotBoundTheRead: a short wait used to cut off the first read.
func TestWaitDoesNotBoundTheRead(t *testing.T) {
	r, s := newStore(t)
	appendTexts(t, s, "log", "a")
	slow := engine.StoreOf[stream.Store](engine.NewRouter(slowDoor{r}), "n", 0)
	wantRead(t, slow, "log", "a", stream.Wait(time.Millisecond))
	wantRead(t, slow, "log", "", stream.Wait(time.Millisecond), stream.FromTime(time.UnixMilli(machinetest.Epoch+1)))
}
