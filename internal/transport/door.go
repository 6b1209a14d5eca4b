package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// patience is how long a call waits for a reachable leader before it fails as unavailable. A new
// leader is elected within two election timeouts, of one second each.
const patience = 5 * time.Second

// Pauses between attempts to find the leader.
const (
	minRetry = 5 * time.Millisecond
	maxRetry = 100 * time.Millisecond
)

// Door returns the node's door to all shards, including those that other nodes lead.
func (p *Peer) Door() engine.Door { return (*nodeDoor)(p) }

// StaleDoor returns a Door whose queries are answered by this node's replicas, even if they lag.
func (p *Peer) StaleDoor() engine.Door { return staleDoor{(*nodeDoor)(p)} }

type nodeDoor Peer

// Shards waits for Attach, like all methods of the door, because shards may call each other
// earlier.
func (d *nodeDoor) Shards() int {
	select {
	case <-d.ready:
		return d.host.Shards()
	case <-d.ctx.Done():
		return 1
	}
}

// await returns when a host is attached. Errors: *notSentError; ctx's error.
func (p *Peer) await(ctx context.Context) error {
	select {
	case <-p.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.ctx.Done():
		return &notSentError{reason: errEnded}
	}
}

func (d *nodeDoor) Propose(ctx context.Context, id engine.ShardID, cmd engine.Command) (result []byte, err error) {
	p := (*Peer)(d)
	err = p.untilLed(ctx, everyFailure, func(t *trip) error {
		var err error
		result, err = p.propose(ctx, t, id, cmd)
		return err
	})
	return result, ambiguous(p.own(err))
}

func (d *nodeDoor) Query(ctx context.Context, id engine.ShardID, q engine.Query) error {
	p := (*Peer)(d)
	return p.own(p.untilLed(ctx, everyFailure, func(t *trip) error { return p.query(ctx, t, id, q) }))
}

// own returns the error of a closed Peer if a call failed because this end is being closed.
func (p *Peer) own(err error) error {
	var notSent *notSentError
	if p.draining.Err() != nil && errors.As(err, &notSent) {
		return p.closedError()
	}
	return err
}

// closedError returns the error of calls after this end was closed.
func (p *Peer) closedError() error {
	if p.cfg.Node == 0 {
		return engine.Errorf(engine.ErrClosed, "client is closed")
	}
	return engine.Errorf(engine.ErrClosed, "node is closed")
}

// propose makes one attempt, here or at the leader.
func (p *Peer) propose(ctx context.Context, t *trip, id engine.ShardID, cmd engine.Command) ([]byte, error) {
	if err := p.await(ctx); err != nil {
		return nil, err
	}
	n := p.leader(id)
	if n == nil {
		t.left = time.Now()
		return p.host.Propose(ctx, id, cmd)
	}
	return n.link.call(ctx, request{kind: askPropose, trip: t.brief(), flags: flagDirect, shard: uint64(id), body: cmd.AppendTo(nil)})
}

// query makes one attempt, here or at the leader.
func (p *Peer) query(ctx context.Context, t *trip, id engine.ShardID, q engine.Query) error {
	if err := p.await(ctx); err != nil {
		return err
	}
	n := p.leader(id)
	if n == nil {
		t.left = time.Now()
		return p.host.Query(ctx, id, q)
	}
	results, err := n.link.call(ctx, request{kind: askQuery, trip: t.brief(), flags: flagDirect, shard: uint64(id),
		body: engine.AppendQuery(nil, q)})
	if err != nil {
		return repeatable(err)
	}
	return engine.DecodeResults(q, results)
}

// leader returns the other node that leads the shard. It returns nil if this node leads it or the
// leader is unknown, which the local shard then reports.
func (p *Peer) leader(id engine.ShardID) *node {
	if p.host.Leads(id) {
		return nil
	}
	return p.nodes[p.host.Leader(id)]
}

// trip is one attempt of a call.
type trip struct {
	by   time.Time // deadline of the wait for a connection; zero: as long as opening one takes
	left time.Time // when it was passed to a node, this one or another; zero: not yet
}

// leaderPatience is how long a node waits for a connection to the supposed leader before it checks
// again which node leads. A silent leader may have been replaced in the meantime. The attempt to
// connect continues.
const leaderPatience = 500 * time.Millisecond

// brief limits how long the attempt waits for a connection.
func (t *trip) brief() *trip {
	if by := time.Now().Add(leaderPatience); t.by.IsZero() || by.Before(t.by) {
		t.by = by
	}
	return t
}

// stayed is the minimum time of an attempt at a node after which its failure starts a new series,
// because a query waited there.
const stayed = time.Second

// endurance determines which failures to find or reach a leader count towards the patience of a
// call.
type endurance uint8

const (
	everyFailure endurance = iota // for calls of a node, whose state others can see, and for Dial
	answers                       // only answers of nodes that cannot help: a client reconnects until ctx ends
	noFailure                     // the call continues until ctx ends
)

// enduranceOf returns the endurance of a client's call.
func enduranceOf(ctx context.Context) endurance {
	if engine.IsLasting(ctx) {
		return noFailure
	}
	return answers
}

func (e endurance) counts(err error) bool {
	switch e {
	case everyFailure:
		return true
	case answers:
		var notSent *notSentError
		return !errors.As(err, &notSent) || notSent.answered
	}
	return false
}

// untilLed repeats attempts that fail only because the leader was not found or not reachable, until
// ctx ends or the endurance is exhausted.
func (p *Peer) untilLed(ctx context.Context, e endurance, attempt func(*trip) error) error {
	since := time.Now() // the first of a series of failures
	last := since
	for pause := minRetry; ; pause = min(2*pause, maxRetry) {
		var t trip
		if e == everyFailure {
			t.by = since.Add(patience)
		}
		err := attempt(&t)
		if err == nil || !nowhere(err) || ctx.Err() != nil {
			return ended(ctx, err)
		}
		now, counts := time.Now(), e.counts(err)
		if !t.left.IsZero() && now.Sub(t.left) > stayed || counts && now.Sub(last) > patience {
			since, pause = now, minRetry
		}
		if counts {
			last = now
		}
		if counts && now.Sub(since) > patience || p.ctx.Err() != nil {
			return err
		}
		if wait(ctx, pause); p.ctx.Err() != nil || ctx.Err() != nil {
			return ended(ctx, err)
		}
	}
}

// ended returns the error of a call. If the call may have failed because ctx has ended, that is
// ctx's error.
func ended(ctx context.Context, err error) error {
	var lost *lostError
	switch cause := ctx.Err(); {
	case err == nil || cause == nil || errors.Is(err, cause) && !errors.Is(err, engine.ErrUnavailable):
		return err
	case !nowhere(err) && !errors.As(err, &lost) && !errors.Is(err, engine.ErrUnknownOutcome):
		return err // it was certainly refused
	case cause == context.DeadlineExceeded:
		return &overdueError{cause, err}
	default:
		return cause
	}
}

// overdueError is the error of a call past its deadline. It matches only the error of its ctx, but
// its text includes what the call was waiting for.
type overdueError struct{ cause, waited error }

func (e *overdueError) Error() string { return fmt.Sprintf("%v: %v", e.cause, e.waited) }
func (e *overdueError) Unwrap() error { return e.cause }

// As finds the cause of the wait, so that callers can react to it.
func (e *overdueError) As(target any) bool {
	switch target.(type) {
	case **os.SyscallError, **net.DNSError, **tls.CertificateVerificationError:
		return errors.As(e.waited, target)
	}
	return false
}

// nowhere reports whether a call was certainly not executed, because the called node could not
// execute it but another node may.
func nowhere(err error) bool {
	var notLeader *engine.NotLeaderError
	var notSent *notSentError
	return errors.As(err, &notLeader) || errors.As(err, &notSent) && !errors.Is(err, engine.ErrUnauthorized)
}

// ambiguous marks the error of a write that may have been applied.
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

// repeatable marks the error of a read as retryable.
func repeatable(err error) error {
	var lost *lostError
	if errors.As(err, &lost) {
		return &notSentError{reason: lost}
	}
	return err
}

type staleDoor struct{ *nodeDoor }

func (d staleDoor) Query(ctx context.Context, id engine.ShardID, q engine.Query) error {
	if _, ok := q.(engine.LeaderQuery); ok {
		return d.nodeDoor.Query(ctx, id, q)
	}
	return d.host.QueryStale(ctx, id, q)
}
