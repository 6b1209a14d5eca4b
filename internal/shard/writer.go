package shard

import (
	"sync"
	"time"

	"github.com/floedb/floe/internal/ual"
)

// logWriter is the one goroutine that appends to the log, for all shards of the host. While it writes and syncs, appends
// gather; the next round takes them all with one write and one fsync, so a busy disk makes batches larger and an idle one
// adds no delay.
type logWriter struct {
	log        *ual.Log
	durability Durability
	interval   time.Duration
	failed     func(error)
	synced     func() // called after a sync that was not part of a round, in Async

	mu      sync.Mutex // guards the fields below; no I/O under it
	pending []queuedAppend
	closed  bool

	wake chan struct{} // capacity 1
	done chan struct{}
}

// queuedAppend is an update and what to do when it is as durable as asked.
type queuedAppend struct {
	update   *ual.Update // nil: only wait for what was queued before
	mustSync bool
	done     func()
}

func newLogWriter(log *ual.Log, c *Config, failed func(error), synced func()) *logWriter {
	w := &logWriter{
		log: log, durability: c.Durability, interval: c.SyncInterval, failed: failed, synced: synced,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	go w.run()
	return w
}

func (w *logWriter) enqueue(a queuedAppend) {
	w.mu.Lock()
	w.pending = append(w.pending, a)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// close returns when the goroutine has ended. Appends that are still queued are dropped: nobody has been told of them.
func (w *logWriter) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
	<-w.done
}

func (w *logWriter) run() {
	defer close(w.done)
	var dirty bool // written but not synced
	var later <-chan time.Time
	timer := time.NewTimer(w.interval)
	timer.Stop()
	defer timer.Stop()
	var batch []queuedAppend
	var updates []ual.Update
	for {
		select {
		case <-w.wake:
		case <-later:
			later = nil
			if err := w.log.Sync(); err != nil {
				w.failed(err)
				return
			}
			dirty = false
			w.synced()
		}
		w.mu.Lock()
		batch, w.pending = w.pending, batch[:0]
		closed := w.closed
		w.mu.Unlock()
		if closed {
			return
		}
		var mustSync, wrote bool
		var err error
		if updates, mustSync, wrote, err = w.write(batch, updates[:0]); err != nil {
			w.failed(err)
			return
		}
		dirty = dirty || wrote
		if dirty && mustSync {
			if err := w.log.Sync(); err != nil {
				w.failed(err)
				return
			}
			dirty = false
		}
		if dirty && later == nil {
			timer.Reset(w.interval)
			later = timer.C
		}
		for _, a := range batch {
			a.done()
		}
		clear(batch)
	}
}

// write hands all updates to the log at once.
func (w *logWriter) write(batch []queuedAppend, updates []ual.Update) (_ []ual.Update, mustSync, wrote bool, err error) {
	for _, a := range batch {
		if a.update != nil {
			updates = append(updates, *a.update)
			mustSync = mustSync || a.mustSync || w.durability == Sync
		}
	}
	if len(updates) == 0 {
		return updates, false, false, nil
	}
	err = w.log.Write(updates)
	clear(updates)
	return updates, mustSync, true, err
}
