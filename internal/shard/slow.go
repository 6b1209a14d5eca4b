package shard

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of slowness.
const (
	defaultSlowDisk  = 2 * time.Second
	defaultStuckDisk = 20 * time.Second
)

// slowness watches disk operations while they run. It logs slow ones. If one hangs, it fails the
// host, because callers would wait forever, as would other nodes for this one.
type slowness struct {
	slow, stuck time.Duration
	log         *slog.Logger
	failed      func(error)
	count       atomic.Int64 // slow operations
	over        *sync.Pool   // of *operation that were quick, for reuse
}

func newSlowness(c *Config, failed func(error)) *slowness {
	return &slowness{slow: c.SlowDisk, stuck: c.StuckDisk, log: c.Logger, failed: failed, over: new(sync.Pool)}
}

// operation is an operation in flight. As long as the disk is fast, it costs only a timer.
type operation struct {
	*slowness
	what, name string
	start      time.Time

	mu    sync.Mutex // guards the fields below
	timer *time.Timer
	late  bool
	ended bool
}

func (s *slowness) begin(what, name string) *operation {
	o, again := s.over.Get().(*operation)
	if !again {
		o = new(operation)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.slowness, o.what, o.name, o.start, o.ended = s, what, name, time.Now(), false
	if again {
		o.timer.Reset(s.slow)
	} else {
		o.timer = time.AfterFunc(s.slow, o.overdue)
	}
	return o
}

// overdue is called when the operation has taken as long as a slow one, and again when it is stuck.
func (o *operation) overdue() {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.ended:
	case !o.late:
		o.late = true
		o.count.Add(1)
		o.log.Warn("disk: slow", "operation", o.what, "file", o.name, "since", o.slow)
		o.timer.Reset(o.stuck - o.slow)
	default:
		o.failed(fmt.Errorf("%s %s: the disk has not answered for %v", o.what, o.name, o.stuck))
	}
}

func (o *operation) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	if o.timer.Stop() && !o.late {
		// overdue has not started and will not. The pool must not retain the host.
		over := o.over
		o.slowness = nil
		over.Put(o)
		return
	}
	if o.late {
		o.log.Warn("disk: slow operation has ended", "operation", o.what, "file", o.name, "took", time.Since(o.start))
	}
}
