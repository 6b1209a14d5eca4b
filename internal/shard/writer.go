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
// gather; the next round takes them all with one write and one fsync, so a busy disk makes batches
// larger and an idle one adds no delay. Rounds are the work of a goroutine. After each it lets the
// shards propose what has been queued meanwhile, itself: another goroutine would have to wait
// behind all the callers that have their answers. A shard that has nothing else to do may run a
// round instead.
type logWriter struct {
	log        *raftlog.Log
	durability Durability
	interval   time.Duration
	failed     func(error)
	synced     func()                   // called after a sync that was not part of a round, in Async
	retry      func(func() error) error // see space.retry

	writeUpdates func() error // made once

	next  func()       // lets shards go on after a round, and propose what has been queued meanwhile
	calls func() int64 // how many the host has had

	syncs meter.Histogram

	mu      sync.Mutex // guards the fields below; no I/O under it
	pending []queuedAppend
	closed  bool

	waiting atomic.Int64 // len(pending)
	busy    atomic.Bool  // the goroutine is in a round, and lets shards go on afterwards

	roundMu sync.Mutex // guards the fields below, and rounds against each other
	batch   []queuedAppend
	updates []raftlog.Update
	dirty   bool          // something is written and not synced
	took    time.Duration // the last sync
	armed   bool          // the goroutine knows that it has to sync

	wake chan struct{} // capacity 1
	done chan struct{}
}

// queuedAppend is an update and what to do when it is as durable as asked.
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

// enqueue adds an append to the next round. Somebody has to poke the writer, or to take the round.
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

// tryRound takes a round in the caller's goroutine, or leaves it to the writer's if one is under
// way. It reports whether it did.
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

// close returns when the goroutine has ended. Appends that are still queued are dropped: nobody has
// been told of them.
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

// maxYields bounds how often the goroutine lets others go first.
const maxYields = 4

// gather lets callers go ahead who are ready to, so that the round takes their commands too: those
// who have just had their answers come back at once. It goes on while any does.
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

// A sync that takes slowSync or longer is worth waiting for those whose commands were in the round
// before and are being applied now: else they and the others take turns, each in every other round.
// The wait is a part of what the sync takes.
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

// round is a round of the goroutine's. It reports whether a sync has to follow that nobody has been
// told of yet.
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

// roundLocked writes everything that is queued, syncs it if it has to be durable now, and then says
// so.
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

// write hands all updates of the batch to the log at once.
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
