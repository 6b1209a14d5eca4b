package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/check"
	"github.com/floedb/floe/kv"
)

// gallery is a set of keys in one shard that writers change and watchers watch. A watcher that
// loses its leader resumes, or starts over.
type gallery struct {
	*check.Watch
	cluster *cluster
	end     atomic.Uint64 // revision of the last change, once it is made; watchers continue until they see it

	changes, events, resumed, restarted, compacted atomic.Int64
}

const (
	gallerySpace = "watched"
	galleryKeys  = 600 // more than two pages of a snapshot
)

func newGallery(c *cluster) *gallery { return &gallery{Watch: check.NewWatch(), cluster: c} }

func (g *gallery) store(client int) *kv.Store {
	return engine.StoreOf[kv.Store](engine.NewRouter(&door{cluster: g.cluster, first: client}), gallerySpace, 0)
}

// run lets two writers work until stop, and two watchers until they see the last change.
func (g *gallery) run(ctx context.Context, seed uint64, stop <-chan struct{}, running *sync.WaitGroup, failed func(error)) {
	var writing sync.WaitGroup
	for n := range 2 {
		rng, store, count := rand.New(rand.NewPCG(seed, 2000+uint64(n))), g.store(n), 0
		writing.Go(func() {
			every(stop, func() {
				count++
				failed(g.change(ctx, store, rng, fmt.Sprintf("%d.%d", n, count)))
			})
		})
	}
	running.Go(func() {
		writing.Wait()
		failed(g.finish(ctx))
	})
	for n := range 2 {
		running.Go(func() { failed(g.view(ctx, g.store(n), n == 0)) })
	}
}

// change writes or deletes a key, and sometimes lets it expire.
func (g *gallery) change(ctx context.Context, store *kv.Store, rng *rand.Rand, value string) error {
	call, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	e := kv.Event{Type: kv.EventPut, Key: fmt.Sprint("key/", rng.IntN(galleryKeys)), Value: []byte(value)}
	var w kv.Written
	var err error
	switch n := rng.IntN(8); {
	case n == 0:
		e.Type, e.Value = kv.EventDelete, nil
		w, err = store.Delete(call, e.Key)
	case n == 1:
		g.Possible(kv.Event{Type: kv.EventExpire, Key: e.Key})
		w, err = store.Put(call, e.Key, e.Value, kv.TTL(time.Duration(1+rng.IntN(50))*time.Millisecond))
	default:
		w, err = store.Put(call, e.Key, e.Value)
	}
	switch {
	case err == nil:
		e.Revision = w.Revision
		g.Committed(e)
		g.changes.Add(1)
	case isDoubt(err):
		g.Possible(e)
	case !errors.Is(err, engine.ErrNotFound):
		return fmt.Errorf("change %s: %w", e.Key, err)
	}
	return nil
}

// finish makes the last change, when the cluster is healthy again.
func (g *gallery) finish(ctx context.Context) error {
	store := g.store(0)
	for n := 0; ; n++ {
		e := kv.Event{Type: kv.EventPut, Key: "key/end", Value: fmt.Append(nil, n)}
		w, err := store.Put(ctx, e.Key, e.Value)
		if err == nil {
			e.Revision = w.Revision
			g.Committed(e)
			g.end.Store(w.Revision)
			return nil
		}
		if !isDoubt(err) || ctx.Err() != nil {
			return fmt.Errorf("last change: %w", err)
		}
		g.Possible(e)
	}
}

// view watches until the last change. A resuming watcher continues where it was when it loses its
// leader; others start over.
func (g *gallery) view(ctx context.Context, store *kv.Store, resuming bool) error {
	v, at := g.View(), uint64(0)
	for {
		// The last change may have been reported before it was known to be the last.
		if end := g.end.Load(); end != 0 && at >= end {
			return v.Check(at)
		}
		err := g.look(ctx, store, v, &at)
		switch {
		case err == nil:
		case !isDoubt(err) || ctx.Err() != nil:
			return fmt.Errorf("watch: %w", err)
		case resuming && at > 0:
			g.resumed.Add(1)
			v.Resume(at)
		default:
			g.restarted.Add(1)
			v.Restart()
			at = 0
		}
	}
}

// look runs one watch, from a revision on or, with 0, from a snapshot, until the end. It sometimes
// stops early, as if the connection were lost.
func (g *gallery) look(ctx context.Context, store *kv.Store, v *check.Viewer, at *uint64) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	opts := []kv.WatchOption{kv.Progress()}
	if *at > 0 {
		opts = append(opts, kv.FromRevision(*at))
	}
	for e, err := range store.Watch(ctx, "key/", opts...) {
		if err != nil {
			return err
		}
		if err := v.Event(e); err != nil {
			return err
		}
		g.events.Add(1)
		switch e.Type {
		case kv.EventCompacted:
			g.compacted.Add(1)
			*at = 0
		case kv.EventProgress:
			*at = e.Revision
			if end := g.end.Load(); end != 0 && e.Revision >= end {
				return nil
			}
		}
	}
	return errors.New("the watch ended by itself")
}
