package shard

import (
	"context"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// take waits for an available item in the caller's goroutine. A parked take is neither in the log
// nor in a goroutine of the shard.
func (s *shard) take(ctx context.Context, t engine.Take) ([]byte, error) {
	p, decided, err := s.enterTake(ctx, t)
	if decided && len(s.host.cfg.Voters) > 1 {
		// Only a replica that has all acknowledged writes may answer that no item is available, or
		// refuse the take.
		if err = s.linearize(ctx); err == nil {
			p, _, err = s.enterTake(ctx, t)
		}
	}
	if p == nil || err != nil {
		return nil, err
	}
	var over, due <-chan time.Time
	if t.Wait > 0 {
		timer := time.NewTimer(t.Wait)
		defer timer.Stop()
		over = timer.C
	}
	wake := new(recall)
	defer wake.stop()
	for {
		due = wake.at(s, p.take)
		select {
		case o := <-p.done:
			return o.Result, o.Err
		case <-due:
			wake.due = 0
			s.proposeTakes(s.exec.Recall(p.take))
		case <-p.take.Moved():
		case <-over:
			if s.exec.Leave(p.take) {
				return s.lastLook(ctx, t)
			}
			over = nil // it is in the log: the caller gets what it took
		case <-ctx.Done():
			if s.exec.Leave(p.take) || !engine.Lingers(ctx) {
				return nil, ctx.Err() // if it is in flight, the result is discarded
			}
			return s.linger(ctx, p)
		case <-s.host.ctx.Done():
			return s.stopped(p)
		}
	}
}

// linger waits for the outcome of a take in flight whose caller is about to leave.
func (s *shard) linger(ctx context.Context, p *proposal) ([]byte, error) {
	timer := time.NewTimer(engine.LingerTime)
	defer timer.Stop()
	select {
	case o := <-p.done:
		return o.Result, o.Err
	case <-timer.C:
		return nil, ctx.Err()
	case <-s.host.ctx.Done():
		return s.stopped(p)
	}
}

// lastLook ends a take whose time is over. On a single node it is certain that no item is
// available. In a cluster the take is repeated without a wait, because this leader may not have
// applied all acknowledged writes yet, or may no longer lead.
func (s *shard) lastLook(ctx context.Context, t engine.Take) ([]byte, error) {
	if len(s.host.cfg.Voters) == 1 {
		return nil, nil
	}
	t.Wait = 0
	return s.take(ctx, t)
}

// stopped returns the result of a take when the host stops, because an outcome may have arrived
// just before.
func (s *shard) stopped(p *proposal) ([]byte, error) {
	parked := s.exec.Leave(p.take)
	select {
	case o := <-p.done:
		return o.Result, o.Err
	default:
	}
	if parked {
		return nil, s.host.stopError()
	}
	return nil, s.unknown(s.host.stopError())
}

// recall is the timer for the next check of a take.
type recall struct {
	timer *time.Timer
	due   int64
}

func (r *recall) at(s *shard, k *engine.Taking) <-chan time.Time {
	due := s.exec.WakeAt(k)
	if due == engine.NoTimer {
		return nil
	}
	if r.timer == nil || due != r.due {
		r.stop()
		r.due, r.timer = due, time.NewTimer(time.Duration(max(due-s.clock.now(), 1))*time.Millisecond)
	}
	return r.timer.C
}

func (r *recall) stop() {
	if r.timer != nil {
		r.timer.Stop()
	}
}

// enterTake parks a take, or proposes it. It returns nil if the state decides the take: the take is
// refused, or no item is available and it does not wait.
func (s *shard) enterTake(ctx context.Context, t engine.Take) (p *proposal, decided bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	if err := s.exec.Check(t.Command); err != nil {
		return nil, false, err
	}
	if err := s.mayAnswer(); err != nil {
		return nil, false, err
	}
	if err := s.host.space.admit(ctx, s.exec, t.Command); err != nil {
		return nil, false, err
	}
	k := engine.NewTaking(ctx, t, s.clock.now)
	p = &proposal{ctx: ctx, namespace: t.Command.Namespace, share: s.admission.shareOf(t.Command.Namespace), take: k,
		done: make(chan engine.Outcome, 1)}
	k.Owner = p
	ready, waits, err := s.exec.Enter(k)
	s.proposeTakes(ready)
	if err != nil || !waits {
		return nil, true, err
	}
	return p, false, nil
}

// proposeTakes queues takes that have items to take, and answers those that have been decided. It
// is called after every operation that may park a take, even if none is ready, because a take
// parked after the loss of leadership was too late to be expelled.
func (s *shard) proposeTakes(ready []engine.ReadyTake) {
	var proposals []*proposal
	for len(ready) > 0 {
		r := ready[0]
		ready = ready[1:]
		p := r.Owner.(*proposal)
		switch err := s.mayPropose(p); {
		case r.Answered:
			p.done <- engine.Outcome{Err: r.Err}
		case err != nil:
			p.done <- engine.Outcome{Err: err}
			ready = append(ready, s.exec.Drop(p.take)...)
		default:
			s.count(p)
			proposals = append(proposals, p)
		}
	}
	if len(proposals) > 0 {
		s.post(func(in *input) { in.proposals = append(in.proposals, proposals...) })
	}
	if !s.role.leading.Load() && s.exec.Parked() {
		s.expel()
	}
}

// mayPropose returns an error if a parked take may not be proposed after all.
func (s *shard) mayPropose(p *proposal) error {
	if s.host.closing.Load() {
		return s.host.stopError()
	}
	if s.host.space.readOnly() && !s.exec.Shrinks(p.take.Command) {
		return s.host.space.refusal()
	}
	return nil
}

// count adds a take to the counted queue, because it is about to be executed.
func (s *shard) count(p *proposal) {
	p.data = s.exec.AppendTake(p.data[:0], p.take)
	p.size = int64(len(p.data))
	s.admission.count(p.share, p.size)
}

// pullTakes returns the takes to propose after a command, because the items that it makes may
// satisfy them.
func (s *shard) pullTakes(m engine.Made, limit int) (takes []*proposal) {
	for _, k := range s.exec.Pull(m, limit) {
		p := k.Owner.(*proposal)
		s.count(p)
		takes = append(takes, p)
	}
	return takes
}

// conclude delivers the outcome of a proposal. A take that found nothing keeps waiting.
func (s *shard) conclude(p *proposal, o engine.Outcome) {
	size := p.size // a take that keeps waiting may be proposed again at once
	if p.take == nil || s.exec.Settle(p.take, o) {
		s.finish(p, o)
		return
	}
	s.admission.leave(p.share, size)
}

// expel refuses the parked takes. Their callers must call the next leader.
func (s *shard) expel() {
	for _, k := range s.exec.Expel() {
		k.Owner.(*proposal).done <- engine.Outcome{Err: s.notLeader()}
	}
}
