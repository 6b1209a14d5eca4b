package shard

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/floedb/floe/internal/engine"
)

// waitingReads holds reads whose index or time the state has not reached.
type waitingReads struct {
	mu  sync.Mutex // guards all; nothing is called under it
	all []readable
}

// query answers from this replica, which must be the leader's, because others may lag.
func (s *shard) query(ctx context.Context, q engine.Query) error {
	if err := s.mayAnswer(); err != nil {
		return err
	}
	if len(s.host.cfg.Voters) > 1 {
		if err := s.linearize(ctx); err != nil {
			return err
		}
	}
	return s.ask(ctx, q, s.mayAnswer)
}

// queryStale answers from this replica, even if it lags.
func (s *shard) queryStale(ctx context.Context, q engine.Query) error { return s.ask(ctx, q, nil) }

func (s *shard) ask(ctx context.Context, q engine.Query, may func() error) error {
	r := engine.Replica{Now: s.clock.now, Mono: s.clock.mono, May: may, Stale: may == nil, Stop: s.host.ctx.Done()}
	if may != nil {
		r.Settle = s.settle
	}
	err := s.exec.Query(ctx, q, r)
	if errors.Is(err, engine.ErrClosed) {
		return s.host.stopError()
	}
	return err
}

func (s *shard) mayAnswer() error {
	if err := s.role.halted.Load(); err != nil {
		return err
	}
	if s.role.leading.Load() {
		return nil
	}
	return s.notLeader()
}

func (s *shard) notLeader() error {
	return &engine.NotLeaderError{Shard: s.id, Node: s.host.cfg.NodeID, Leader: s.role.leader.Load()}
}

// linearize waits until this replica is confirmed as leader and has applied everything acknowledged
// before. A leader that was cut off or paused detects another leader here.
func (s *shard) linearize(ctx context.Context) error {
	r := &read{done: make(chan error, 1)}
	s.mail.put(func(in *input) { in.reads = append(in.reads, r) })
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-s.host.ctx.Done():
		return s.host.stopError()
	}
}

// settle waits until the state has reached a time that the shard's clock has already reached. The
// timers due at that time are about to fire.
func (s *shard) settle(ctx context.Context, at int64) error {
	r := &read{done: make(chan error, 1)}
	s.admit([]readable{{stamp: at, reads: []*read{r}}})
	if err := s.mayAnswer(); err != nil { // it may have lost leadership before the read was registered
		return err
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-s.host.ctx.Done():
		return s.host.stopError()
	}
}

// unsettle ends reads that wait for a time, because this node no longer leads and its timers may
// never fire.
func (s *shard) unsettle() {
	s.reads.mu.Lock()
	defer s.reads.mu.Unlock()
	s.reads.all = slices.DeleteFunc(s.reads.all, func(r readable) bool {
		if r.stamp == 0 {
			return false
		}
		for _, one := range r.reads {
			one.done <- s.notLeader()
		}
		return true
	})
}

// admit continues reads whose index is visible to queries; the others wait for the applier.
func (s *shard) admit(reads []readable) {
	s.reads.mu.Lock()
	s.reads.all = append(s.reads.all, reads...)
	s.reads.mu.Unlock()
	s.admitVisible()
}

func (s *shard) admitVisible() {
	s.reads.mu.Lock()
	defer s.reads.mu.Unlock()
	visible, stamp := s.exec.Visible(), s.exec.Stamp()
	s.reads.all = slices.DeleteFunc(s.reads.all, func(r readable) bool {
		if r.index > visible || r.stamp > stamp {
			return false
		}
		for _, one := range r.reads {
			one.done <- nil
		}
		return true
	})
}
