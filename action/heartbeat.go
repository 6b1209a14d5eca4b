package action

import (
	"context"
	"time"

	"github.com/floedb/floe/internal/call"
	"github.com/floedb/floe/internal/engine"
)

// sendHeartbeats says that the session is alive, hears which of its runs are cancelled, and finds those that this process does not know of: the answer that told of them
// was lost.
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

// heartbeatEvery returns how often the session is heard of: three times in a lease.
func (s *clientSession) heartbeatEvery() time.Duration { return s.lease / 3 }

// census asks what the session has.
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
	unknown := make(map[call.Ref]time.Time)
	for _, ref := range q.held {
		if s.held[ref] != nil {
			continue
		}
		since, known := s.unknown[ref]
		if !known {
			since = began
		}
		if began.Sub(since) < suspectAfter { // its answer may be on its way: another census may have been taken just before
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

// nobody is the worker of runs that no worker has.
var noWorker = &source{closed: true}

// listen waits until there are runs that are cancelled, which the next census names, or it is time for that.
func (l *link) awaitCancelled(s *clientSession) error {
	p := l.pool
	ctx, cancel := context.WithTimeout(engine.Lasting(s.ctx), s.heartbeatEvery())
	defer cancel()
	q := heartbeatQuery{namespace: p.scope.Namespace(), session: s.id}
	p.mu.Lock()
	if l.urgent { // nobody listened when it was said
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

// cancelRefs cancels the handlers of the runs that a census has named as cancelled. A run that was begun before may have come back by Retry while the answer was on its
// way, which then is about the attempt before. If it is not, listen returns at once, and the next census names it again.
func (l *link) cancelRefs(s *clientSession, refs []call.Ref, serial int) {
	l.pool.mu.Lock()
	var pieces []*piece
	s.cancelled = make(map[call.Ref]bool)
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

// cancelAll cancels all handlers of a session.
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

// suspectLocked has a census taken soon.
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
