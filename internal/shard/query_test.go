package shard

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// endless is the toy with a query that reads rows forever.
type endless struct {
	engine.Machine
	began chan struct{}
}

func (e endless) sum(v *engine.View, _ *toy.Sum) error {
	it, err := v.Iter(nil, []byte{0xff})
	if err != nil {
		return err
	}
	e.began <- struct{}{}
	for it.First() {
	}
	return it.Close()
}

// TestLongQueriesEnd: a query over many rows ends when its caller leaves, and does not delay Close,
// even on a replica that may lag.
func TestLongQueriesEnd(t *testing.T) {
	noLeaks(t)
	began := make(chan struct{})
	c := config(vfs.NewMem())
	p := toy.Primitive()
	own := p.New
	p.New = func() engine.Machine { return endless{own(), began} }
	p.Queries[1] = engine.QueryRow(p.Queries[1].Kind, "sum", endless.sum)
	c.Primitives = []engine.Primitive{p}
	h := open(t, c)
	if _, err := h.Propose(t.Context(), 0, toy.Command{Kind: toy.Add, Name: "a", Delta: 1}.In(homed(0))); err != nil {
		t.Fatal(err)
	}
	ask := func(ctx context.Context, query func(context.Context, engine.ShardID, engine.Query) error) chan error {
		done := make(chan error, 1)
		go func() { done <- query(ctx, 0, &toy.Sum{Namespace: homed(0)}) }()
		select {
		case <-began:
		case err := <-done: // it timed out before it began
			done <- err
		}
		return done
	}
	ctx, cancel := context.WithCancel(t.Context())
	asked := ask(ctx, h.Query)
	cancel()
	if err := <-asked; !errors.Is(err, context.Canceled) {
		t.Errorf("a query whose caller has gone: %v", err)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(time.Millisecond))
	defer cancel()
	if err := <-ask(late, h.Query); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a query whose time is over: %v", err)
	}
	query, stale := ask(t.Context(), h.Query), ask(t.Context(), h.QueryStale)
	closeHost(t, h)
	for _, asked := range []chan error{query, stale} {
		if err := <-asked; !errors.Is(err, engine.ErrClosed) {
			t.Errorf("a query while the node closes: %v", err)
		}
	}
}

// TestSettle: a read that needs a time waits until the state has reached it, and ends with its
// caller, the leadership and the host. Reads that wait for an index outlive the leadership.
func TestSettle(t *testing.T) {
	noLeaks(t)
	ctx, clock := testContext(t), &fakeClock{wall: 1_000_000}
	c := config(vfs.NewMem())
	c.Shards, c.Clock = 1, Clock{clock}
	st := openStepped(t, c)
	s := st.host.shards[0]
	waiting := func() int {
		s.reads.mu.Lock()
		defer s.reads.mu.Unlock()
		return len(s.reads.all)
	}
	settle := func(ctx context.Context, at int64) <-chan error {
		t.Helper()
		before, done := waiting(), make(chan error, 1)
		go func() { done <- s.settle(ctx, at) }()
		until(ctx, t, "a read that waits", func() bool { return waiting() > before })
		return done
	}
	must(t, s.settle(ctx, 1_000_000))
	next := settle(ctx, 1_000_001)
	clock.advance(time.Millisecond)
	_, err := stepped(t, st, 0, engine.Skip(0))
	must(t, err)
	must(t, <-next)
	if n := waiting(); n != 0 {
		t.Errorf("%d reads wait, want none", n)
	}

	caller, cancel := context.WithCancel(ctx)
	left := settle(caller, 1_000_009)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has gone got %v", err)
	}
	if err := s.linearize(caller); !errors.Is(err, context.Canceled) {
		t.Errorf("a linearizable read of a caller that has gone: %v", err)
	}
	indexed := &read{done: make(chan error, 1)}
	s.admit([]readable{{index: 1 << 40, reads: []*read{indexed}}})
	lost := settle(ctx, 1_000_009)
	s.unsettle()
	var notLeader *engine.NotLeaderError
	if err := <-lost; !errors.As(err, &notLeader) {
		t.Errorf("with the leadership lost: %v", err)
	}
	if n := waiting(); n != 1 || len(indexed.done) != 0 {
		t.Errorf("%d reads wait, want the one for an index", n)
	}
	s.role.leading.Store(false)
	if err := s.settle(ctx, 1_000_009); !errors.As(err, &notLeader) {
		t.Errorf("without the leadership: %v", err)
	}
	s.role.leading.Store(true)
	closed := settle(ctx, 1_000_009)
	must(t, st.Close())
	if err := <-closed; !errors.Is(err, engine.ErrClosed) {
		t.Errorf("of a closed host: %v", err)
	}
	if err := s.linearize(ctx); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("a linearizable read of a closed host: %v", err)
	}
}
