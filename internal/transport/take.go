package transport

import (
	"context"
	"errors"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// appendTake appends a take: wait | waited (uvarints, us, at most maxTakeWait) | command.
func appendTake(dst []byte, t engine.Take) []byte {
	dst = codec.AppendUvarint(dst, uint64((min(t.Wait, maxTakeWait) + time.Microsecond - 1).Microseconds()))
	dst = codec.AppendUvarint(dst, uint64(min(t.Waited, maxTakeWait).Microseconds()))
	return t.Command.AppendTo(dst)
}

// maxTakeWait bounds the times in a take from another process. No call waits longer.
const maxTakeWait = 100 * 365 * 24 * time.Hour

// decodeTake decodes the output of appendTake. Errors: ErrInvalid.
func decodeTake(b []byte) (t engine.Take, err error) {
	r := codec.NewReader(b)
	wait, waited := r.Uvarint(), r.Uvarint()
	if limit := uint64(maxTakeWait / time.Microsecond); r.Err() != nil || wait > limit || waited > limit {
		return t, engine.Errorf(engine.ErrInvalid, "malformed take")
	}
	t.Wait, t.Waited = time.Duration(wait)*time.Microsecond, time.Duration(waited)*time.Microsecond
	if t.Command, err = engine.DecodeCommand(r.Rest()); err != nil {
		return t, engine.Errorf(engine.ErrInvalid, "%v", err)
	}
	return t, nil
}

// untilTaken makes attempts at a take until its time is over. If the answer of a waiting take was
// lost, the take is repeated, perhaps at the next leader, and keeps its turn. Items taken by the
// lost attempt have no owner, and become available again when their leases expire. If they cannot,
// the outcome is unknown.
func (p *Peer) untilTaken(ctx context.Context, e endurance, t engine.Take, attempt func(engine.Take, *trip) ([]byte, error)) (result []byte,
	err error) {
	began, waits, asked := time.Now(), t.Wait > 0, false
	err = p.untilLed(ctx, e, func(trip *trip) error {
		now := t.After(time.Since(began))
		if waits && now.Wait == 0 && asked {
			result = nil
			return nil
		}
		asked = true
		var err error
		if result, err = attempt(now, trip); err != nil && waits && !t.Once {
			err = repeatableTake(err)
		}
		return err
	})
	return result, ambiguous(p.own(err))
}

// repeatableTake is repeatable for a take that waits. The forwarding node, or the former leader,
// may not have its outcome either.
func repeatableTake(err error) error {
	if errors.Is(err, engine.ErrUnknownOutcome) {
		return &notSentError{reason: err}
	}
	return repeatable(err)
}

// Take sends a take to the leader of the shard; see engine.Door.
func (d *Client) Take(ctx context.Context, id engine.ShardID, t engine.Take) ([]byte, error) {
	return d.peer.untilTaken(ctx, enduranceOf(ctx), t, func(t engine.Take, trip *trip) ([]byte, error) {
		return d.ask(ctx, id, request{kind: askTake, trip: trip, shard: uint64(id), body: appendTake(nil, t)})
	})
}

func (d *nodeDoor) Take(ctx context.Context, id engine.ShardID, t engine.Take) ([]byte, error) {
	p := (*Peer)(d)
	return p.untilTaken(ctx, everyFailure, t, func(t engine.Take, trip *trip) ([]byte, error) { return p.take(ctx, trip, id, t) })
}

// take makes one attempt, here or at the leader.
func (p *Peer) take(ctx context.Context, trip *trip, id engine.ShardID, t engine.Take) ([]byte, error) {
	if err := p.await(ctx); err != nil {
		return nil, err
	}
	n := p.leader(id)
	if n == nil {
		trip.left = time.Now()
		return p.host.Take(ctx, id, t)
	}
	return n.link.call(ctx, request{kind: askTake, trip: trip.brief(), flags: flagDirect, shard: uint64(id), body: appendTake(nil, t)})
}

// carryOutTake is carryOut for a take. The take waits here if here is set, and otherwise at the
// leader.
func (v *visitor) carryOutTake(ctx context.Context, id engine.ShardID, q *request, here bool) ([]byte, error) {
	t, err := decodeTake(q.body)
	if err != nil {
		return nil, err
	}
	p := v.peer
	if !v.node {
		if err := v.admit(ctx, t.Command); err != nil {
			v.changed(ctx, t.Command, err)
			return nil, err
		}
	}
	var result []byte
	if here {
		result, err = p.host.Take(ctx, id, t)
	} else {
		result, err = p.take(ctx, new(trip), id, t)
	}
	if err == nil && result != nil { // else nothing was taken
		v.changed(ctx, t.Command, nil)
	}
	return result, ambiguous(err)
}
