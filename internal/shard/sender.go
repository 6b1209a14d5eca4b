package shard

import (
	"context"
	"sync"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// sender delivers the outbox of a shard while this node leads it: one goroutine for each target
// with waiting messages takes the steps of an engine.Dispatch.
type sender struct {
	shard *shard
	wake  chan struct{} // capacity 1

	mu         sync.Mutex                       // guards all below
	active     map[engine.ShardID]chan struct{} // of capacity 1: holds a pending wake-up
	term       uint64
	dispatches map[engine.ShardID]*engine.Dispatch // of this term; each used by its active goroutine
}

// Bounds of the pause after a delivery that failed as a whole.
const (
	minSenderPause = 10 * time.Millisecond
	maxSenderPause = 2 * time.Second
)

func (c *sender) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run ensures that a goroutine delivers to every target with waiting messages.
func (c *sender) run() {
	defer c.shard.host.running.Done()
	defer c.shard.guard()
	for {
		select {
		case <-c.wake:
		case <-c.shard.host.ctx.Done():
			return
		}
		if !c.shard.role.leading.Load() {
			c.wakeAll()
			continue
		}
		for _, target := range c.shard.exec.PendingTargets() {
			if wake := c.begin(target); wake != nil {
				c.shard.host.running.Add(1)
				go c.deliver(target, wake)
			}
		}
	}
}

// begin returns the wake-up channel of a new delivery. If one is active already, it wakes that one.
func (c *sender) begin(target engine.ShardID) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if wake := c.active[target]; wake != nil {
		rouse(wake)
		return nil
	}
	wake := make(chan struct{}, 1)
	c.active[target] = wake
	return wake
}

func (c *sender) wakeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, wake := range c.active {
		rouse(wake)
	}
}

func rouse(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// end reports whether a delivery may end. It may not if messages have arrived since its last check.
func (c *sender) end(target engine.ShardID, wake chan struct{}) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-wake:
		return false
	default:
		delete(c.active, target)
		return true
	}
}

func (c *sender) deliver(target engine.ShardID, wake chan struct{}) {
	s := c.shard
	defer s.host.running.Done()
	defer s.guard()
	ctx := s.host.ctx
	pause := minSenderPause
	for ctx.Err() == nil {
		if !s.role.leading.Load() {
			if c.end(target, wake) {
				return
			}
			continue
		}
		d := c.dispatch(target, s.role.term.Load())
		step, until, ok, err := d.Next(c.now(), s.log.Durable())
		if err != nil {
			s.host.fail(err)
			return
		}
		if !ok && until == engine.NoTimer {
			if c.end(target, wake) {
				return
			}
			continue
		}
		if !ok {
			c.wait(ctx, wake, time.Duration(until-c.now())*time.Millisecond)
			continue
		}
		if pause = c.take(ctx, d, step, pause); pause > minSenderPause {
			c.wait(ctx, nil, pause/2)
		}
	}
}

// dispatch returns the Dispatch of a target while this node leads in a term.
func (c *sender) dispatch(target engine.ShardID, term uint64) *engine.Dispatch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.term != term || c.dispatches == nil {
		c.term, c.dispatches = term, make(map[engine.ShardID]*engine.Dispatch)
	}
	d := c.dispatches[target]
	if d == nil {
		d = c.shard.exec.NewDispatch(target)
		c.dispatches[target] = d
	}
	return d
}

// take takes a step and returns the pause after the next failure, which is the shortest if this
// step did not fail.
func (c *sender) take(ctx context.Context, d *engine.Dispatch, step engine.Step, pause time.Duration) time.Duration {
	s := c.shard
	door := s.host.door()
	if step.Shard == s.id {
		door = s.host // where the command is applied before the next step
	}
	result, err := door.Propose(ctx, step.Shard, step.Command)
	d.Done(result, err, c.now())
	if err == nil {
		return minSenderPause
	}
	s.host.log.Debug("delivery between shards failed", "from", s.id, "to", step.Shard, "error", err)
	return min(2*pause, maxSenderPause)
}

// now returns monotonic time in ms.
func (c *sender) now() int64 { return c.shard.host.cfg.Clock.Source.Mono().Milliseconds() }

func (h *Host) door() engine.Door {
	if h.cfg.Door != nil {
		return h.cfg.Door
	}
	return h
}

func (c *sender) wait(ctx context.Context, wake chan struct{}, pause time.Duration) {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake:
	case <-ctx.Done():
	}
}
