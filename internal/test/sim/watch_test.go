package sim

import (
	"errors"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/check"
	"github.com/floedb/floe/kv"
)

// watched is the prefix of the watched keys of the plain namespace.
const watched = "k"

// watcher watches changes, and resumes from a revision or with a snapshot after an error.
type watcher struct {
	*client
	viewer   *check.Viewer
	progress uint64 // everything up to this revision was reported
}

// errAllTold ends a watch when no client writes any more.
var errAllTold = engine.Errorf(engine.ErrUnavailable, "nobody is to wait any more")

func watchWork(c *client) {
	w := &watcher{client: c, viewer: c.sim.verdict.watch.View()}
	c.sim.verdict.watchers = append(c.sim.verdict.watchers, w)
	for !c.ended && !c.sim.resting {
		c.sim.verdict.note(w.watch())
		if !c.sleep(c.sim.random(100 * time.Millisecond)) {
			return
		}
		w.again()
	}
}

// again prepares the next call of watch.
func (w *watcher) again() {
	if w.progress > 0 && w.sim.rng.IntN(3) > 0 && !w.sim.verdict.lossy {
		w.viewer.Resume(w.progress)
		return
	}
	w.progress = 0
	w.viewer.Restart()
}

// watch returns the error that ended it.
func (w *watcher) watch() error {
	opts := []kv.WatchOption{kv.Progress()}
	if w.progress > 0 {
		opts = append(opts, kv.FromRevision(w.progress))
	}
	for e, err := range engine.StoreOf[kv.Store](w.router, plain, maxValue).Watch(ctx, watched, opts...) {
		if err != nil {
			return err
		}
		w.sim.trace.add(w.sim.now, "event", uint64(w.id), uint64(e.Type), e.Revision)
		if e.Type == kv.EventProgress {
			w.progress = e.Revision
		}
		if err := w.viewer.Event(e); err != nil && !w.sim.verdict.lossy {
			w.sim.failf("watcher %d: %w", w.id, err)
		}
	}
	return errAllTold
}

// finish lets c read the watcher's remaining events, and checks that none is missing.
func (w *watcher) finish(c *client) {
	w.client = c
	for {
		w.again()
		err := w.watch()
		if errors.Is(err, errAllTold) && w.progress > 0 {
			break
		}
		if !c.sleep(10 * time.Millisecond) {
			return
		}
	}
	if err := w.viewer.Check(w.progress); err != nil && !w.sim.verdict.lossy {
		w.sim.failf("watcher %d: %w", w.id, err)
	}
}
