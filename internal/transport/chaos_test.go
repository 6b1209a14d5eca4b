package transport

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	testrig "github.com/floedb/floe/internal/test/machinetest" // this package has a type named rig
	"github.com/floedb/floe/kv"
)

var chaosFlag = flag.Duration("chaos", 1500*time.Millisecond, "how long TestChaos harms connections, at least")

// chaos cuts connections in mid-transfer, delays data, and stalls connections in both directions
// forever.
type chaos struct {
	seed                 uint64
	cut, delayed, stalls atomic.Int64
}

func (x *chaos) tamper(conn int) tamper {
	var mu sync.Mutex // guards rng
	rng := rand.New(rand.NewPCG(x.seed, uint64(conn)))
	stalled, freeze := context.WithCancel(context.Background())
	return func(ctx context.Context, up bool, b []byte) ([]byte, bool) {
		mu.Lock()
		fate, at := rng.IntN(1000), rng.IntN(len(b))
		mu.Unlock()
		switch {
		case stalled.Err() != nil:
		case fate < 10:
			x.cut.Add(1)
			return b[:at], true
		case fate < 12:
			x.stalls.Add(1)
			freeze()
		case fate < 100:
			x.delayed.Add(1)
			wait(ctx, time.Duration(at%20)*time.Millisecond)
		}
		if stalled.Err() != nil {
			return stall(ctx, up, b)
		}
		return b, false
	}
}

// TestChaos counts through connections that are cut, delayed and stalled. An acknowledged increment
// was applied once, a refused one not at all, and one with an unknown outcome at most once.
func TestChaos(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	x := &chaos{seed: testrig.Seed(t)}
	const clients, writers, keys = 4, 8, 4
	var load sync.WaitGroup
	var acked, unknown [keys]atomic.Int64
	ctx, stop := context.WithTimeout(t.Context(), *chaosFlag)
	defer stop()
	var got atomic.Int64
	// The test ends after its time, once a call succeeded and a connection was harmed, however slow
	// the machine is.
	over := func() bool { return ctx.Err() != nil && (got.Load() > 0 && x.harmed() > 0 || t.Failed()) }
	p := newProxy(t, r.addr, nil)
	for range clients {
		c, err := Dial(t.Context(), Config{Wire: testWire()}, []string{p.addr})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		store := engine.StoreOf[kv.Store](engine.NewRouter(c), "chaos", 0)
		for w := range writers {
			load.Go(func() {
				for i := w; !over(); i++ {
					_, err := store.Incr(context.WithoutCancel(ctx), fmt.Sprint(i%keys), 1)
					switch {
					case err == nil:
						acked[i%keys].Add(1)
						got.Add(1)
					case errors.Is(err, engine.ErrUnknownOutcome):
						unknown[i%keys].Add(1)
					case !errors.Is(err, engine.ErrUnavailable):
						t.Errorf("incr: %v", err)
					}
				}
			})
		}
		p.change(x.tamper) // and for the connections that follow the first
	}
	load.Wait()
	p.change(nil)
	direct := engine.StoreOf[kv.Store](engine.NewRouter(r.dial()), "chaos", 0)
	total, doubts := int64(0), int64(0)
	for k := range keys {
		e, err := direct.Get(t.Context(), fmt.Sprint(k))
		if err != nil {
			t.Fatal(err)
		}
		var n int64
		fmt.Sscan(string(e.Value), &n)
		if a, u := acked[k].Load(), unknown[k].Load(); n < a || n > a+u {
			t.Errorf("counter %d is %d, %d increments were acknowledged and %d are in doubt", k, n, a, u)
		}
		total, doubts = total+acked[k].Load(), doubts+unknown[k].Load()
	}
	t.Logf("%d increments acknowledged, %d in doubt; %d cuts, %d stalls, %d delays", total, doubts, x.cut.Load(), x.stalls.Load(),
		x.delayed.Load())
}

// harmed returns how often a connection was harmed.
func (x *chaos) harmed() int64 { return x.cut.Load() + x.stalls.Load() + x.delayed.Load() }
