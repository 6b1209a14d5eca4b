package shard

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/queue"
	"github.com/floedb/floe/stream"
)

// takeOf is a take from an empty queue of the default namespace, and its shard.
func takeOf(t *testing.T, wait time.Duration) (engine.Take, engine.ShardID) {
	t.Helper()
	cmd, err := engine.OpOf(queue.DequeueOp("q")).Limit(0)
	must(t, err)
	cmd.Namespace = "default"
	return engine.Take{Command: cmd, Wait: wait}, engine.HomeShard("default", 2)
}

// parkedTake starts a take and returns when it is parked; the channel receives its error.
func parkedTake(ctx context.Context, t *testing.T, h *Host) <-chan error {
	t.Helper()
	take, id := takeOf(t, time.Hour)
	done := make(chan error, 1)
	go func() {
		_, err := h.Take(ctx, id, take)
		done <- err
	}()
	until(ctx, t, "a take that is parked", h.shards[id].exec.Parked)
	return done
}

func queueHost(t *testing.T) *Host {
	t.Helper()
	c := config(vfs.NewMem())
	c.Primitives = []engine.Primitive{engine.TableOf[queue.Store]()}
	return open(t, c)
}

func TestTakeEndsWithHostAndCaller(t *testing.T) {
	noLeaks(t)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	h := queueHost(t)
	caller, gone := context.WithCancel(ctx)
	done := parkedTake(caller, t, h)
	gone()
	if err := <-done; err != context.Canceled {
		t.Errorf("the caller who has gone got %v", err)
	}
	done = parkedTake(ctx, t, h)
	closeHost(t, h)
	if err := <-done; !errors.Is(err, engine.ErrClosed) || errors.Is(err, engine.ErrUnknownOutcome) {
		t.Errorf("a take that was parked when the node closed got %v", err)
	}
}

// TestTakesOfALeaderThatLeadsNoMore: a take parked after the loss of leadership, once the existing
// ones had been refused, used to wait where no leader would serve it.
func TestTakesOfALeaderThatLeadsNoMore(t *testing.T) {
	noLeaks(t)
	c := newCluster(t, seed(t), func(c *Config) { c.Primitives = []engine.Primitive{engine.TableOf[queue.Store]()} })
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	take, id := takeOf(t, 0)
	if result, err := c.Take(ctx, id, take); len(result) > 0 || err != nil {
		t.Fatalf("the take got %q, %v", result, err)
	}
	take.Wait = time.Millisecond
	if result, err := c.Take(ctx, id, take); len(result) > 0 || err != nil {
		t.Fatalf("the take whose time is over got %q, %v", result, err)
	}
	old := c.leaderOf(ctx, id, 0)
	h := c.host(old)
	done := parkedTake(ctx, t, h)
	enqueue, err := engine.OpOf(queue.EnqueueOp("q", []byte("m"))).Limit(1 << 20)
	must(t, err)
	enqueue.Namespace = "default"
	_, err = h.Propose(ctx, id, enqueue)
	must(t, err)
	if err := <-done; err != nil {
		t.Errorf("a take that a message has arrived for got %v", err)
	}
	done = parkedTake(ctx, t, h)
	s := h.shards[id]
	s.mail.put(func(in *input) { in.transfer = old%3 + 1 })
	var notLeader *engine.NotLeaderError
	if err := <-done; !errors.As(err, &notLeader) {
		t.Errorf("a take that was parked when leadership was lost got %v", err)
	}
	until(ctx, t, "another leader", func() bool { return !h.Leads(id) })

	take.Wait = time.Hour
	p := &proposal{ctx: ctx, share: s.admission.shareOf(""), take: engine.NewTaking(ctx, take, s.clock.now),
		done: make(chan engine.Outcome, 1)}
	p.take.Owner = p
	if _, waits, err := s.exec.Enter(p.take); !waits || err != nil {
		t.Fatalf("Enter = %v, %v", waits, err)
	}
	s.proposeTakes(nil)
	select {
	case o := <-p.done:
		if !errors.As(o.Err, &notLeader) {
			t.Errorf("the take got %v", o.Err)
		}
	default:
		t.Error("the take waits at a node that does not lead")
	}
}

// TestIsolatedLeaderDoesNotRefuseTakes: a leader that did not know yet of its loss of leadership
// used to report a missing stream that the next leader had created.
func TestIsolatedLeaderDoesNotRefuseTakes(t *testing.T) {
	noLeaks(t)
	c := newCluster(t, seed(t), func(c *Config) { c.Primitives = []engine.Primitive{engine.TableOf[stream.Store]()} })
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	id := engine.HomeShard("default", 2)
	old := c.leaderOf(ctx, id, 0)
	c.net.Isolate(old)
	create, err := engine.OpOf(stream.CreateOp("s")).Limit(0)
	must(t, err)
	create.Namespace = "default"
	if _, err := c.host(c.leaderOf(ctx, id, old)).Propose(ctx, id, create); err != nil {
		t.Fatal(err)
	}
	read, err := engine.OpOf(stream.ReadGroupOp("s", "g", "c")).Limit(0)
	must(t, err)
	read.Namespace = "default"
	asked, cancelAsked := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancelAsked()
	if _, err := c.host(old).Take(asked, id, engine.Take{Command: read}); err == nil || errors.Is(err, engine.ErrNotFound) {
		t.Errorf("the isolated leader said %v of a stream that was acknowledged", err)
	}
	c.net.Heal()
}

// TestPutOffPullsNothing: a command that had been put off used to pull another take ahead of the
// take put off behind it.
func TestPutOffPullsNothing(t *testing.T) {
	noLeaks(t)
	h := queueHost(t)
	defer closeHost(t, h)
	s := h.shards[0]
	p := &proposal{share: s.admission.shareOf(""), data: engine.Skip(0).AppendTo(nil), makes: []engine.Made{{Topic: 1, N: 1}},
		done: make(chan engine.Outcome, 1)}
	s.admission.queued.Add(1)
	s.admission.bytes.Add(int64(len(p.data)))
	a := &s.applier
	a.mu.Lock()
	a.outcomes, a.answers = []engine.Outcome{{Err: engine.ErrPutOff}}, []answer{{proposals: []*proposal{p}}}
	err := a.commit()
	a.mu.Unlock()
	must(t, err)
	if o := <-p.done; o.Err != nil {
		t.Errorf("the command got %v", o.Err)
	}
	if len(p.makes) > 0 {
		t.Error("what was put off pulls takes again")
	}
}

// TestTakesOfAHost: waiting takes get what arrives, and are checked again at the
// times that their machine asks for. Afterwards nothing is counted as queued.
func TestTakesOfAHost(t *testing.T) {
	noLeaks(t)
	ctx := testContext(t)
	clock := &fakeClock{wall: 1_000_000}
	c := config(vfs.NewMem())
	c.Shards, c.Clock = 1, Clock{clock}
	c.Primitives = []engine.Primitive{engine.TableOf[queue.Store](), engine.TableOf[stream.Store]()}
	h := open(t, c)
	defer closeHost(t, h)
	router := engine.NewRouter(h)
	q, s := engine.StoreOf[queue.Store](router, "default", 0), engine.StoreOf[stream.Store](router, "default", 0)
	got := make(chan string, 1)
	for _, payload := range []string{"a", "b", "c"} {
		go func() {
			m, err := q.Dequeue(ctx, "q", queue.Wait(time.Hour))
			if err != nil || len(m) != 1 {
				got <- fmt.Sprint(len(m), err)
				return
			}
			got <- string(m[0].Payload)
		}()
		until(ctx, t, "a take that waits", h.shards[0].exec.Parked)
		_, err := q.Enqueue(ctx, "q", []byte(payload))
		must(t, err)
		if p := <-got; p != payload {
			t.Errorf("a waiting take got %q, want %q", p, payload)
		}
	}

	must(t, s.Create(ctx, "s"))
	write := func() {
		t.Helper()
		_, err := s.Append(ctx, "s", stream.Message{Payload: []byte("r")})
		must(t, err)
	}
	write()
	// A consumer that has just received a record must call again within half the timeout.
	_, err := s.ReadGroup(ctx, "s", "g", "c", stream.AckTimeout(2*time.Millisecond))
	must(t, err)
	read := make(chan error, 1)
	go func() {
		all, err := s.ReadGroup(ctx, "s", "g", "c", stream.Wait(time.Hour))
		if err == nil && len(all) != 1 {
			err = fmt.Errorf("%d records", len(all))
		}
		read <- err
	}()
	until(ctx, t, "a read that waits", h.shards[0].exec.Parked)
	before := h.Applied(0)
	clock.advance(time.Millisecond)
	until(ctx, t, "the read that is due to be proposed", func() bool { return h.Applied(0) > before })
	write()
	must(t, <-read)
	until(ctx, t, "an empty queue", func() bool {
		a := &h.shards[0].admission
		return a.queued.Load() == 0 && a.bytes.Load() == 0
	})
}
