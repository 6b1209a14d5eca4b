package shard

import (
	"context"
	"sync"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// courier delivers the outbox of a shard while this node leads it: to each target one batch at a time, in order, until the
// target has applied it; then the sender forgets it. A delivery that fails, or whose outcome is unknown, is repeated: the
// target drops what it has seen.
type courier struct {
	shard *shard
	wake  chan struct{} // capacity 1

	mu     sync.Mutex // guards active
	active map[engine.ShardID]bool
}

// Bounds of the pause after a failed delivery.
const (
	minCourierPause = 10 * time.Millisecond
	maxCourierPause = 2 * time.Second
)

func (c *courier) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run starts a delivery for every target that has messages waiting and none under way.
func (c *courier) run() {
	defer c.shard.host.running.Done()
	defer c.shard.guard()
	for {
		select {
		case <-c.wake:
		case <-c.shard.host.ctx.Done():
			return
		}
		if !c.shard.leading.Load() {
			continue
		}
		for _, target := range c.shard.exec.PendingTargets() {
			if c.begin(target) {
				c.shard.host.running.Add(1)
				go c.deliver(target)
			}
		}
	}
}

func (c *courier) begin(target engine.ShardID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active[target] {
		return false
	}
	c.active[target] = true
	return true
}

// end allows the next delivery; what arrived just before would otherwise be overlooked.
func (c *courier) end(target engine.ShardID) {
	c.mu.Lock()
	delete(c.active, target)
	c.mu.Unlock()
}

func (c *courier) deliver(target engine.ShardID) {
	s := c.shard
	defer s.host.running.Done()
	defer s.guard()
	ctx := s.host.ctx
	pause := minCourierPause
	after := engine.LSN(0)
	for s.leading.Load() && ctx.Err() == nil {
		d, ok, err := s.exec.NextDelivery(target, after, s.log.Durable())
		if err != nil {
			s.host.fail(err)
			break
		}
		if !ok {
			break
		}
		last, err := c.hand(ctx, d)
		if err != nil {
			s.host.log.Debug("delivery between shards failed", "from", s.id, "to", target, "error", err)
			pause = c.wait(ctx, pause)
			continue
		}
		after, pause = last, minCourierPause
	}
	c.end(target)
	if s.leading.Load() && c.more(target, after) {
		c.poke()
	}
}

// hand proposes a delivery to its target and then forgets here what the target is done with: all messages up to last.
func (c *courier) hand(ctx context.Context, d engine.Delivery) (last engine.LSN, err error) {
	result, err := c.shard.host.door().Propose(ctx, d.Target, d.Command)
	if err != nil {
		return 0, err
	}
	if last, err = engine.Delivered(result); err != nil {
		return 0, err
	}
	_, err = c.shard.host.Propose(ctx, c.shard.id, engine.Forget(d.Target, last))
	return last, err
}

func (h *Host) door() engine.Door {
	if h.cfg.Door != nil {
		return h.cfg.Door
	}
	return h
}

func (c *courier) wait(ctx context.Context, pause time.Duration) time.Duration {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return min(2*pause, maxCourierPause)
}

// more looks once again after a delivery has ended: a message committed in between found it still active.
func (c *courier) more(target engine.ShardID, after engine.LSN) bool {
	_, ok, err := c.shard.exec.NextDelivery(target, after, c.shard.log.Durable())
	return ok && err == nil
}
