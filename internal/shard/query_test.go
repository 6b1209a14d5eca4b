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
