package sim

import (
	"context"
	"errors"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
)

// Take passes the take to a node that leads, and waits there as long as the take requires; see
// engine.Door. If the node refuses it because it no longer leads, Take tries the next one.
// Sometimes the client goes away while it waits.
func (c *client) Take(_ context.Context, id engine.ShardID, t engine.Take) ([]byte, error) {
	began := c.sim.now
	for {
		result, err := c.takeOnce(id, t.After(c.sim.now-began))
		var notLeader *engine.NotLeaderError
		if t.Wait == 0 || !errors.As(err, &notLeader) || c.sim.now-began >= t.Wait || !c.sleep(10*time.Millisecond) {
			return result, err
		}
	}
}

func (c *client) takeOnce(id engine.ShardID, t engine.Take) ([]byte, error) {
	call, err := c.dial(id)
	if err != nil {
		return nil, err
	}
	k, err := call.enter(id, t)
	if err != nil || k == nil {
		return nil, err
	}
	defer k.gone()
	s := c.sim
	wait, vanishes := t.Wait, s.rng.IntN(4) == 0
	if vanishes {
		wait = s.random(wait + 1)
	}
	o, known := k.await(s.now + wait)
	if vanishes && !known {
		k.gone()
		c.sleep(s.random(100 * time.Millisecond)) // the node has not been notified yet
	}
	if !known && call.node.host == call.host && call.host.Leave(id, k.ticket) {
		call.node.open--
		return nil, nil
	}
	if !known {
		o, known = k.await(s.now + patience)
	}
	if !known {
		s.orphans = append(s.orphans, orphan{call.node, call.host, k.ended})
		return nil, engine.Errorf(engine.ErrUnknownOutcome, "outcome unknown: no answer")
	}
	if vanishes && errors.Is(o.Err, context.Canceled) {
		return nil, nil // it was not proposed
	}
	return o.Result, o.Err
}

// taking is a take at a node.
type taking struct {
	*call
	shard   engine.ShardID
	ticket  *shard.Ticket
	gone    context.CancelFunc
	outcome engine.Outcome
}

// enter passes the take to the node; nil if there is nothing to take and it does not wait.
func (c *call) enter(id engine.ShardID, t engine.Take) (*taking, error) {
	ctx, cancel := context.WithCancel(context.Background())
	ticket, decided, err := c.host.Take(ctx, id, t)
	if decided {
		// Only the leader may report that there is nothing, or why it refuses.
		if err = c.linearize(id); err == nil && c.node.host == c.host {
			ticket, _, err = c.host.Take(ctx, id, t)
		}
	}
	if ticket == nil || err != nil {
		cancel()
		return nil, err
	}
	c.node.open++
	return &taking{call: c, shard: id, ticket: ticket, gone: cancel}, nil
}

// await waits for the outcome until a time.
func (k *taking) await(until time.Duration) (engine.Outcome, bool) {
	k.deadline = until
	known := k.call.await(k.ended)
	return k.outcome, known
}

func (k *taking) ended() (ended bool) {
	k.host.Recall(k.shard, k.ticket)
	if k.outcome, ended = k.ticket.Outcome(); ended {
		k.node.open--
	}
	return ended
}
