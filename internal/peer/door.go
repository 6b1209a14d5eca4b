package peer

import (
	"context"
	"errors"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// patience is how long a call waits for a leader that can be reached before it fails as unavailable. A new one is there within two
// election timeouts, of one second each.
const patience = 5 * time.Second

// Pauses between attempts to find the leader.
const (
	minRetry = 5 * time.Millisecond
	maxRetry = 100 * time.Millisecond
)

// Door returns the door of a node to all shards, whichever node leads them.
func (p *Peer) Door() engine.Door { return (*nodeDoor)(p) }

// StaleDoor returns a Door whose queries are answered by this node's replicas as they are.
func (p *Peer) StaleDoor() engine.Door { return staleDoor{(*nodeDoor)(p)} }

type nodeDoor Peer

// Shards waits for Attach, like all of the door: shards may have something for each other before.
func (d *nodeDoor) Shards() int {
	select {
	case <-d.ready:
		return d.host.Shards()
	case <-d.ctx.Done():
		return 1
	}
}

// await returns when there is a host. Errors: *notSentError.
func (p *Peer) await(ctx context.Context) error {
	select {
	case <-p.ready:
		return nil
	case <-ctx.Done():
		return &notSentError{ctx.Err()}
	case <-p.ctx.Done():
		return &notSentError{errEnded}
	}
}

func (d *nodeDoor) Propose(ctx context.Context, id engine.ShardID, cmd engine.Command) (result []byte, err error) {
	p := (*Peer)(d)
	err = p.untilLed(ctx, func(by time.Time) error {
		var err error
		result, err = p.propose(ctx, by, id, cmd)
		return err
	})
	return result, ambiguous(p.own(err))
}

func (d *nodeDoor) Query(ctx context.Context, id engine.ShardID, q engine.Query) error {
	p := (*Peer)(d)
	return p.own(p.untilLed(ctx, func(by time.Time) error { return p.query(ctx, by, id, q) }))
}

// own makes a call that has failed because this end is being closed say so.
func (p *Peer) own(err error) error {
	var notSent *notSentError
	if p.draining.Err() != nil && errors.As(err, &notSent) {
		return engine.Errorf(engine.ErrClosed, "closed")
	}
	return err
}

// propose makes one attempt, here or where the leader is.
func (p *Peer) propose(ctx context.Context, by time.Time, id engine.ShardID, cmd engine.Command) ([]byte, error) {
	if err := p.await(ctx); err != nil {
		return nil, err
	}
	n := p.leader(id)
	if n == nil {
		return p.host.Propose(ctx, id, cmd)
	}
	return n.link.call(ctx, request{kind: askPropose, by: by, flags: flagDirect, shard: uint64(id), body: cmd.AppendTo(nil)})
}

// query makes one attempt, here or where the leader is.
func (p *Peer) query(ctx context.Context, by time.Time, id engine.ShardID, q engine.Query) error {
	if err := p.await(ctx); err != nil {
		return err
	}
	n := p.leader(id)
	if n == nil {
		return p.host.Query(ctx, id, q)
	}
	results, err := n.link.call(ctx, request{kind: askQuery, by: by, flags: flagDirect, shard: uint64(id), body: engine.AppendQuery(nil, q)})
	if err != nil {
		return repeatable(err)
	}
	return engine.DecodeResults(q, results)
}

// leader returns the other node that leads the shard, or nil if this one does or nobody is known to: then it is the local shard that says so.
func (p *Peer) leader(id engine.ShardID) *node {
	if p.host.Leads(id) {
		return nil
	}
	return p.nodes[p.host.Leader(id)]
}

// untilLed makes an attempt, and further ones while all that failed is that the leader was not found or could not be reached. An attempt is told
// until when that may go on.
func (p *Peer) untilLed(ctx context.Context, attempt func(by time.Time) error) error {
	deadline, somewhere := time.Now().Add(patience), false
	for pause := minRetry; ; pause = min(2*pause, maxRetry) {
		began := time.Now()
		err := attempt(deadline)
		if err == nil || !nowhere(err) || ctx.Err() != nil {
			return err
		}
		// A query that was somewhere begins anew when it is lost: once, or as often as it has waited there.
		var lost *lostError
		if time.Since(began) > patience || !somewhere && errors.As(err, &lost) {
			deadline, pause, somewhere = time.Now().Add(patience), minRetry, true
		}
		if time.Now().After(deadline) || p.ctx.Err() != nil {
			return err
		}
		if wait(ctx, pause); p.ctx.Err() != nil || ctx.Err() != nil {
			return err
		}
	}
}

// nowhere reports whether a call has certainly not been carried out, because the one who was asked could not do it and another may.
func nowhere(err error) bool {
	var notLeader *engine.NotLeaderError
	var notSent *notSentError
	return errors.As(err, &notLeader) || errors.As(err, &notSent) && !errors.Is(err, engine.ErrUnauthorized)
}

// ambiguous makes the error of a write say that it may have happened, if it may.
func ambiguous(err error) error {
	var lost *lostError
	if errors.As(err, &lost) {
		return &unknownError{err}
	}
	return err
}

type unknownError struct{ reason error }

func (e *unknownError) Error() string   { return "outcome unknown: " + e.reason.Error() }
func (e *unknownError) Unwrap() []error { return []error{engine.ErrUnknownOutcome, e.reason} }

// repeatable makes the error of a read say that it may be asked again.
func repeatable(err error) error {
	var lost *lostError
	if errors.As(err, &lost) {
		return &notSentError{lost}
	}
	return err
}

type staleDoor struct{ *nodeDoor }

func (d staleDoor) Query(ctx context.Context, id engine.ShardID, q engine.Query) error {
	return d.host.QueryStale(ctx, id, q)
}
