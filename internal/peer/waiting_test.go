package peer

import (
	"context"
	"sync"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// TestWaitingEndsWithItsCaller: queries that wait at the node end when whoever asked gives up, goes away, or is cut off.
func TestWaitingEndsWithItsCaller(t *testing.T) {
	r := newRig(t)
	honest := r.dial()
	r.well(honest)
	const waiting = 100
	waits := func(n int) func() bool {
		return func() bool {
			s, err := r.host.Stats()
			return err != nil || s.Waiting == n
		}
	}
	p := newProxy(t, r.addr, nil)
	for name, end := range map[string]func(cancel func(), c *Client){
		"gives up":   func(cancel func(), _ *Client) { cancel() },
		"goes away":  func(_ func(), c *Client) { c.Close() },
		"is cut off": func(_ func(), c *Client) { p.close() },
	} {
		addr := r.addr
		if name == "is cut off" {
			addr = p.addr
		}
		c, err := Dial(t.Context(), Config{Wire: testWire()}, []string{addr})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var waiters sync.WaitGroup
		for range waiting {
			waiters.Go(func() { _, _ = engine.StoreOf(kv.Primitive, engine.NewRouter(c), "well", 0).Wait(ctx, "never") })
		}
		await(t, "waiters", waits(waiting))
		end(cancel, c)
		await(t, "the end of the waiters of one who "+name, waits(0))
		cancel()
		waiters.Wait()
		c.Close()
	}
	r.well(honest)
}
