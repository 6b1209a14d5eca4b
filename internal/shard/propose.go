package shard

import (
	"context"
	"fmt"
	"slices"

	"github.com/floedb/floe/internal/engine"
)

// propose queues a command and waits for its outcome.
func (s *shard) propose(ctx context.Context, cmd engine.Command) ([]byte, error) {
	p, err := s.submit(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return s.outcome(ctx, p)
}

// outcome waits for the outcome of a proposal.
func (s *shard) outcome(ctx context.Context, p *proposal) ([]byte, error) {
	select {
	case o := <-p.done:
		s.host.recycle(p)
		return o.Result, o.Err
	case <-ctx.Done():
		return nil, ctx.Err() // it may still be applied
	case <-s.host.ctx.Done():
	}
	// The host is stopping, but an outcome may have arrived just before.
	select {
	case o := <-p.done:
		return o.Result, o.Err
	default:
		return nil, s.unknown(s.host.stopError())
	}
}

// keepProposal is the largest buffer that a proposal keeps for the next one.
const keepProposal = 4 << 10

// recycle reuses a proposal whose outcome has been received, because there are no other references
// to it.
func (h *Host) recycle(p *proposal) {
	p.ctx, p.namespace, p.share, p.lane = nil, "", nil, nil
	if cap(p.data) <= keepProposal {
		h.proposals.Put(p)
	}
}

func (h *Host) newProposal() *proposal {
	if p, ok := h.proposals.Get().(*proposal); ok {
		return p
	}
	return &proposal{done: make(chan engine.Outcome, 1)}
}

// submit queues a command, unless the queue is full.
func (s *shard) submit(ctx context.Context, cmd engine.Command) (*proposal, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.role.halted.Load(); err != nil {
		return nil, err
	}
	if err := s.exec.Check(cmd); err != nil {
		return nil, err
	}
	if err := s.host.space.admit(ctx, s.exec, cmd); err != nil {
		return nil, err
	}
	p := s.host.newProposal()
	p.ctx, p.namespace, p.share, p.size = ctx, cmd.Namespace, s.admission.shareOf(cmd.Namespace), int64(cmd.Size())
	if err := s.admission.enterInTurn(p); err != nil {
		return nil, err
	}
	p.data = cmd.AppendTo(slices.Grow(p.data[:0], cmd.Size()))
	if p.makes = p.makes[:0]; s.exec.Parked() {
		s.exec.Makes(cmd, func(m engine.Made) { p.makes = append(p.makes, m) })
	}
	s.post(func(in *input) { in.proposals = append(in.proposals, p) })
	return p, nil
}

// unknown returns the error of a write whose outcome is no longer awaited. It matches
// ErrUnknownOutcome and the reason.
func (s *shard) unknown(reason error) error {
	return &unknownOutcome{shard: s.id, reason: reason}
}

type unknownOutcome struct {
	shard  engine.ShardID
	reason error
}

func (e *unknownOutcome) Error() string {
	return fmt.Sprintf("outcome unknown: shard %d: %v", e.shard, e.reason)
}

func (e *unknownOutcome) Unwrap() []error { return []error{engine.ErrUnknownOutcome, e.reason} }

// abandon ends the proposals in flight when leadership is lost. The next leader may or may not
// apply them.
func (s *shard) abandon() {
	err := engine.Errorf(engine.ErrUnknownOutcome, "outcome unknown: shard %d: leadership was lost", s.id)
	for _, batch := range s.pending.takeAll() {
		for _, p := range batch {
			s.finish(p, engine.Outcome{Err: err})
			if p.take != nil {
				s.proposeTakes(s.exec.Drop(p.take))
			}
		}
	}
}

// finish answers the caller of a proposal.
func (s *shard) finish(p *proposal, o engine.Outcome) {
	if p.fire && o.Err == nil {
		s.mail.put(func(in *input) { in.fired = true })
	}
	if p.done == nil {
		return
	}
	share, size := p.share, p.size // the caller may reuse the proposal
	p.done <- o
	// This must follow the outcome, because Close ends the remaining waits once the queue is empty.
	s.admission.leave(share, size)
}
