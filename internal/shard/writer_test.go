package shard

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// TestAsyncIsDurableSoon: a write acknowledged by an Async node survives a power failure after a
// while, even if nothing else happens.
func TestAsyncIsDurableSoon(t *testing.T) {
	noLeaks(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	fsys := vfs.NewCrashableMem()
	c := config(fsys)
	c.Durability, c.SyncInterval = Async, 10*time.Millisecond
	h := open(t, c)
	defer closeHost(t, h)
	for range 3 { // the first write is synced at once, because of the LSNs that it reserves
		if _, err := h.Propose(ctx, 0, toy.Command{Kind: toy.Add, Name: "a", Delta: 1}.In(homed(0))); err != nil {
			t.Fatal(err)
		}
	}
	until(ctx, t, "what was acknowledged is not durable", func() bool {
		left := open(t, config(crash(fsys, nil, 0)))
		defer closeHost(t, left)
		q := toy.Counter{Namespace: homed(0), Name: "a"}
		must(t, left.Query(ctx, 0, &q))
		return q.Value == 3
	})
}

// TestAsyncDelivers: messages between shards wait until the entry that sent them is durable. With
// Async that comes after the command was applied, and nothing else may happen then.
func TestAsyncDelivers(t *testing.T) {
	noLeaks(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c := config(vfs.NewMem())
	c.Durability, c.SyncInterval = Async, 10*time.Millisecond
	h := open(t, c)
	defer closeHost(t, h)
	w := workload{door: h}
	must(t, engine.NewNamespaces(engine.NewRouter(h)).Create(ctx, toySpread, true))
	from, to := "", ""
	for i := 0; from == "" || to == ""; i++ {
		if engine.NameShard(toySpread, name(i), 2) == 0 {
			from = name(i)
		} else {
			to = name(i)
		}
	}
	must(t, w.do(ctx, toySpread, toy.Command{Kind: toy.Add, Name: from, Delta: 10}))
	for n := int64(1); n <= 3; n++ {
		must(t, w.do(ctx, toySpread, toy.Command{Kind: toy.Send, Name: from, Target: to, Delta: 1}))
		until(ctx, t, "a message does not arrive", func() bool {
			q := toy.Counter{Namespace: toySpread, Name: to}
			must(t, h.Query(ctx, 1, &q))
			return q.Value == n
		})
	}
}
