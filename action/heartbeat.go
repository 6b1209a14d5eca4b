package action

import (
	"context"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

// sendHeartbeats keeps the session alive until it ends. Each turn is a reconciliation followed by a
// wait for cancelled runs; both are heartbeats. If the shard does not answer for a lease,
// sendHeartbeats cancels all handlers.
func (l *link) sendHeartbeats(s *clientSession) {
	answered, reported := time.Now(), false
	var pauses pause
	for s.ctx.Err() == nil {
		began := time.Now()
		err := l.reconcile(s)
		if err == nil {
			answered, reported, pauses = began, false, pause{}
			err = l.awaitCancelled(s)
		}
		if err == nil || l.handleError(s, err) {
			continue
		}
		if time.Since(answered) > s.lease && !reported {
			reported = true
			l.cancelAll(s, errSilent)
		}
		l.pool.reportError(err)
		pauses.wait(s.ctx)
	}
}

// heartbeatEvery returns the interval between heartbeats: a third of the lease.
func (s *clientSession) heartbeatEvery() time.Duration { return s.lease / 3 }

// reconcile compares the runs that the session holds in the shard with those of this process. It
// cancels the handlers of cancelled runs. A run that is unknown here was in a lost answer, and
// reconcile releases it once it has been unknown for suspectAfter.
func (l *link) reconcile(s *clientSession) error {
	p := l.pool
	p.mu.Lock()
	if l.suspect != nil {
		l.suspect.Stop()
		l.suspect = nil
	}
	l.urgent = false
	s.reconciliations++
	serial := s.reconciliations
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.ctx, s.heartbeatEvery())
	defer cancel()
	began := time.Now()
	q := heartbeatQuery{namespace: p.scope.Namespace(), session: s.id, reconcile: true}
	if err := p.scope.QueryShard(ctx, l.shard, &q); err != nil {
		return err
	}
	if d := duration(q.lease); d > 0 {
		s.lease = min(s.lease, d)
	}
	p.mu.Lock()
	unknown := make(map[protocol.Ref]time.Time)
	for _, ref := range q.held {
		if s.held[ref] != nil {
			continue
		}
		since, known := s.unknown[ref]
		if !known {
			since = began
		}
		if began.Sub(since) < suspectAfter { // the answer with the run may still arrive
			unknown[ref] = since
			continue
		}
		l.ends = append(l.ends, &ending{end: end{ref: ref, how: released}, src: noWorker})
		signal(l.send)
	}
	if s.unknown = unknown; len(unknown) > 0 {
		l.suspectLocked()
	}
	p.mu.Unlock()
	l.cancelRefs(s, q.cancelled, serial)
	return nil
}

// noWorker is the source of ends of runs that are unknown to this process.
var noWorker = &source{closed: true}

// awaitCancelled waits until runs of the session are cancelled, or until the next reconciliation is
// due. The reconciliation names the runs.
func (l *link) awaitCancelled(s *clientSession) error {
	p := l.pool
	ctx, cancel := context.WithTimeout(engine.Lasting(s.ctx), s.heartbeatEvery())
	defer cancel()
	q := heartbeatQuery{namespace: p.scope.Namespace(), session: s.id}
	p.mu.Lock()
	if l.urgent { // it became due when there was no wait to cancel
		p.mu.Unlock()
		return nil
	}
	l.endHeartbeat = cancel
	for ref := range s.cancelled {
		if len(q.known) < maxHeld {
			q.known = append(q.known, ref)
		}
	}
	p.mu.Unlock()
	err := p.scope.QueryShard(ctx, l.shard, &q)
	p.mu.Lock()
	l.endHeartbeat = nil
	p.mu.Unlock()
	if ctx.Err() != nil {
		return s.ctx.Err()
	}
	return err
}

// cancelRefs cancels the handlers of the runs that a reconciliation named as cancelled. It skips a
// run that was retried and accepted after the reconciliation was sent, because the answer may be
// about the earlier attempt. If it is not, awaitCancelled returns at once and the next
// reconciliation names the run again.
func (l *link) cancelRefs(s *clientSession, refs []protocol.Ref, serial int) {
	l.pool.mu.Lock()
	var pieces []*piece
	s.cancelled = make(map[protocol.Ref]bool)
	for _, ref := range refs {
		one := s.held[bare(ref)]
		if one != nil && one.taken.begun > 1 && one.reconciliation >= serial {
			continue
		}
		if s.cancelled[bare(ref)] = true; one != nil && one.cause == nil {
			pieces = append(pieces, one)
		}
	}
	l.pool.mu.Unlock()
	for _, one := range pieces {
		one.cancel(ErrCancelled)
	}
}

// cancelAll cancels all handlers of the session.
func (l *link) cancelAll(s *clientSession, cause error) {
	l.pool.mu.Lock()
	var pieces []*piece
	for _, one := range s.held {
		pieces = append(pieces, one)
	}
	l.pool.mu.Unlock()
	for _, one := range pieces {
		one.cancel(cause)
	}
}

// suspectLocked plans an early reconciliation, because a call or its answer may have been lost.
func (l *link) suspectLocked() {
	if l.suspect != nil || l.session == nil {
		return
	}
	l.suspect = time.AfterFunc(suspectAfter, func() {
		l.pool.mu.Lock()
		defer l.pool.mu.Unlock()
		if l.urgent = true; l.endHeartbeat != nil {
			l.endHeartbeat()
		}
	})
}
