package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// TestCutAtEachByte cuts the first connection of a client after each byte of its conversation, in
// either direction. The client reconnects, reports the outcome of every write as far as it is
// known, and leaks nothing.
func TestCutAtEachByte(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) }) // when the node is closed
	r := newRig(t)
	var passed [2]atomic.Int64 // bytes of an uncut conversation: down, up
	direction := map[bool]int{true: 1}
	converse(t, r, "uncut", func(int) tamper {
		return func(_ context.Context, up bool, b []byte) ([]byte, bool) {
			passed[direction[up]].Add(int64(len(b)))
			return b, false
		}
	})
	const atOnce = 32
	places := make(chan struct{}, atOnce)
	var cuts sync.WaitGroup
	var unknown atomic.Int64
	for _, up := range []bool{false, true} {
		for n := range int(passed[direction[up]].Load()) + 1 {
			places <- struct{}{}
			cuts.Go(func() {
				defer func() { <-places }()
				unknown.Add(converse(t, r, fmt.Sprintf("cut after %d bytes, up: %t", n, up), func(conn int) tamper {
					if conn > 0 {
						return nil
					}
					return cutAfter(n, up)
				}))
			})
		}
	}
	cuts.Wait()
	t.Logf("cut at %d bytes from the client and %d to it: %d writes in doubt", passed[1].Load(), passed[0].Load(), unknown.Load())
	if unknown.Load() == 0 {
		t.Error("no write was ever in doubt: the answer's way was not cut")
	}
}

// converse writes and reads through a proxy, and returns the number of writes with an unknown
// outcome.
func converse(t *testing.T, r *rig, name string, how func(conn int) tamper) (unknown int64) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	p := newProxy(t, r.addr, how)
	defer p.close()
	c, err := Dial(ctx, Config{Wire: testWire()}, []string{p.addr})
	if err != nil {
		t.Errorf("%s: dial: %v", name, err)
		return 0
	}
	defer c.Close()
	store, acked := engine.StoreOf[kv.Store](engine.NewRouter(c), "cut", 0), int64(0)
	for range 2 {
		_, err := store.Incr(ctx, name, 1)
		switch {
		case err == nil:
			acked++
		case errors.Is(err, engine.ErrUnknownOutcome):
			unknown++
		default:
			t.Errorf("%s: incr: %v", name, err)
		}
		e, err := store.Get(ctx, name)
		if errors.Is(err, engine.ErrNotFound) && acked == 0 {
			continue
		}
		var n int64
		fmt.Sscan(string(e.Value), &n)
		if err != nil || n < acked || n > acked+unknown {
			t.Errorf("%s: get: %d, %v; %d increments were acknowledged and %d are in doubt", name, n, err, acked, unknown)
		}
	}
	if unknown > 1 {
		t.Errorf("%s: %d writes are in doubt, only one connection was cut", name, unknown)
	}
	return unknown
}

// TestAnswerLost cuts the connection after a request has passed and before its answer does: a write
// has an unknown outcome, a read is repeated.
func TestAnswerLost(t *testing.T) {
	r := newRig(t)
	var armed atomic.Bool // for the next request that names the key
	p := newProxy(t, r.addr, func(int) tamper {
		var asked atomic.Bool
		return func(_ context.Context, up bool, b []byte) ([]byte, bool) {
			if up && bytes.Contains(b, []byte("the key")) && armed.CompareAndSwap(true, false) {
				asked.Store(true)
			}
			if !up && asked.Load() {
				return nil, true
			}
			return b, false
		}
	})
	c, err := Dial(t.Context(), Config{Wire: testWire()}, []string{p.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, store := t.Context(), engine.StoreOf[kv.Store](engine.NewRouter(c), "lost", 0)
	if n, err := store.Incr(ctx, "the key", 1); err != nil || n.Value != 1 {
		t.Fatalf("incr: %d, %v", n.Value, err)
	}
	armed.Store(true)
	if n, err := store.Incr(ctx, "the key", 1); !errors.Is(err, engine.ErrUnknownOutcome) || !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("incr whose answer is lost: %d, %v, want ErrUnknownOutcome", n, err)
	}
	armed.Store(true)
	if e, err := store.Get(ctx, "the key"); err != nil || string(e.Value) != "1" && string(e.Value) != "2" {
		t.Errorf("get whose answer is lost: %q, %v, want 1 or 2", e.Value, err)
	}
	if armed.Load() {
		t.Error("the answer to the get was not lost")
	}
}
