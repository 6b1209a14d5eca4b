package shard

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/meter"
	"github.com/floedb/floe/internal/raftlog"
)

// logWriter appends to the log, for all shards of the host. While it writes and syncs, appends
// gather. The next round takes them all with one write and one fsync, so a busy disk makes batches
// larger and an idle disk adds no delay. A goroutine runs the rounds. After each it steps the
// shards itself, to propose the commands queued in the meantime. Another goroutine would be
// scheduled after all the callers just answered. A shard that has nothing else to do may run a
// round instead.
type logWriter struct {
	log        *raftlog.Log
	durability Durability
	interval   time.Duration
	failed     func(error)
	synced     func()                   // called after a sync that was not part of a round, in Async
	retry      func(func() error) error // see space.retry

	writeUpdates func() error // made once

	next  func()       // continues the shards after a round, to propose what was queued meanwhile
	calls func() int64 // number of calls of the host so far

	syncs meter.Histogram

	mu      sync.Mutex // guards the fields below; no I/O under it
	pending []queuedAppend
	closed  bool

	waiting atomic.Int64 // len(pending)
	busy    atomic.Bool  // the goroutine is in a round, and continues the shards afterwards

	roundMu sync.Mutex // guards the fields below, and rounds against each other
	batch   []queuedAppend
	updates []raftlog.Update
	dirty   bool          // there are unsynced writes
	took    time.Duration // the last sync
	armed   bool          // the goroutine is due to sync

	wake chan struct{} // capacity 1
	done chan struct{}
}

// queuedAppend is an update, and a function to call once it has the requested durability.
type queuedAppend struct {
	update   *raftlog.Update // nil: only wait for what was queued before
	mustSync bool
	done     func()
}

func newLogWriter(log *raftlog.Log, c *Config, failed func(error), synced func()) *logWriter {
	w := &logWriter{
		log: log, durability: c.Durability, interval: c.SyncInterval, failed: failed, synced: synced,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	w.writeUpdates = func() error { return w.log.Write(w.updates) }
	return w
}

// enqueue adds an append to the next round. The caller must poke the writer, or run the round.
func (w *logWriter) enqueue(a queuedAppend) {
	w.mu.Lock()
	w.pending = append(w.pending, a)
	w.mu.Unlock()
	w.waiting.Add(1)
}

func (w *logWriter) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// tryRound runs a round in the caller's goroutine, unless one is in progress. It reports whether it
// ran one.
func (w *logWriter) tryRound() (bool, error) {
	if !w.roundMu.TryLock() {
		w.poke()
		return false, nil
	}
	defer w.roundMu.Unlock()
	err := w.roundLocked()
	if w.dirty && !w.armed {
		w.poke()
	}
	return true, err
}

// close returns when the goroutine has ended. Appends still queued are dropped: they were not
// acknowledged.
func (w *logWriter) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.poke()
	<-w.done
}

func (w *logWriter) run() {
	defer close(w.done)
	var later <-chan time.Time
	timer := time.NewTimer(w.interval)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-w.wake:
		case <-later:
			later = nil
			if err := w.syncLate(); err != nil {
				w.failed(err)
				return
			}
			w.synced()
		}
		w.mu.Lock()
		closed := w.closed
		w.mu.Unlock()
		if closed {
			return
		}
		for more := true; more; more = w.waiting.Load() > 0 {
			w.busy.Store(true)
			w.gather()
			w.linger()
			arm, err := w.round()
			w.busy.Store(false)
			if err != nil {
				w.failed(err)
				return
			}
			if arm {
				timer.Reset(w.interval)
				later = timer.C
			}
			w.next()
		}
	}
}

// maxYields bounds how often the goroutine yields.
const maxYields = 4

// gather lets runnable callers go first, so that the round includes their commands, because callers
// just answered often return at once. It continues while any do.
func (w *logWriter) gather() {
	before := w.calls()
	for range maxYields {
		runtime.Gosched()
		now := w.calls()
		if now == before {
			break
		}
		before = now
	}
	w.next()
}

// If a sync takes slowSync or longer, it is worth waiting for callers whose commands were in the
// last round and are now being applied. Otherwise they and the others would alternate, each in
// every other round. The wait is a fraction of the sync's duration.
const (
	slowSync   = time.Millisecond
	lingerPart = 5
)

// linger waits for more commands if syncs are slow.
func (w *logWriter) linger() {
	if w.waiting.Load() == 0 {
		return
	}
	w.roundMu.Lock()
	took := w.took
	w.took = 0 // once a round
	w.roundMu.Unlock()
	if took < slowSync {
		return
	}
	t := time.NewTimer(min(took/lingerPart, slowSync))
	<-t.C
	w.next()
}

// round runs a round of the goroutine. It reports whether a sync must follow that is not scheduled
// yet.
func (w *logWriter) round() (arm bool, err error) {
	w.roundMu.Lock()
	defer w.roundMu.Unlock()
	if err := w.roundLocked(); err != nil {
		return false, err
	}
	arm = w.dirty && !w.armed
	w.armed = w.dirty
	return arm, nil
}

func (w *logWriter) syncLate() error {
	w.roundMu.Lock()
	defer w.roundMu.Unlock()
	w.armed = false
	return w.sync()
}

// roundLocked writes all queued updates, syncs them if they must be durable now, and then notifies.
func (w *logWriter) roundLocked() error {
	w.mu.Lock()
	w.batch, w.pending = w.pending, w.batch[:0]
	w.mu.Unlock()
	w.waiting.Add(-int64(len(w.batch)))
	mustSync, err := w.write()
	if err == nil && mustSync {
		err = w.sync()
	}
	if err != nil {
		return err
	}
	for _, a := range w.batch {
		a.done()
	}
	clear(w.batch)
	return nil
}

func (w *logWriter) sync() error {
	if !w.dirty {
		return nil
	}
	w.dirty = false
	start := time.Now()
	err := w.log.Sync()
	w.took = time.Since(start)
	w.syncs.Observe(w.took)
	return err
}

// write passes all updates of the batch to the log at once.
func (w *logWriter) write() (mustSync bool, err error) {
	w.updates = w.updates[:0]
	for _, a := range w.batch {
		if a.update != nil {
			w.updates = append(w.updates, *a.update)
			mustSync = mustSync || a.mustSync || w.durability == Sync
		}
	}
	if len(w.updates) == 0 {
		return false, nil
	}
	w.dirty = true
	err = w.retry(w.writeUpdates)
	clear(w.updates)
	return mustSync, err
}
