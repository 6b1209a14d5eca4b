package action

import (
	"context"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

// beatAll says that the session is alive, hears which of its runs are cancelled, and finds those that this process does not know of: the answer that told of them
// was lost.
func (l *link) beatAll(s *seat) {
	heard, told := time.Now(), false
	var pauses pause
	for s.ctx.Err() == nil {
		began := time.Now()
		err := l.census(s)
		if err == nil {
			heard, told, pauses = began, false, pause{}
			err = l.listen(s)
		}
		if err == nil || l.noted(s, err) {
			continue
		}
		if time.Since(heard) > s.lease && !told {
			told = true
			l.cancelAll(s, errSilent)
		}
		l.pool.tell(err)
		pauses.wait(s.ctx)
	}
}

// beatEvery returns how often the session is heard of: three times in a lease.
func (s *seat) beatEvery() time.Duration { return s.lease / 3 }

// census asks what the session has.
func (l *link) census(s *seat) error {
	p := l.pool
	p.mu.Lock()
	if l.doubt != nil {
		l.doubt.Stop()
		l.doubt = nil
	}
	l.urgent = false
	s.censuses++
	serial := s.censuses
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.ctx, s.beatEvery())
	defer cancel()
	began := time.Now()
	q := beatQuery{namespace: p.scope.Namespace(), session: s.id, census: true}
	if err := p.scope.QueryShard(ctx, l.shard, &q); err != nil {
		return err
	}
	if d := duration(q.lease); d > 0 {
		s.lease = min(s.lease, d)
	}
	p.mu.Lock()
	strange := make(map[protocol.Ref]time.Time)
	for _, ref := range q.held {
		if s.held[ref] != nil {
			continue
		}
		since, known := s.strange[ref]
		if !known {
			since = began
		}
		if began.Sub(since) < doubtAfter { // its answer may be on its way: another census may have been taken just before
			strange[ref] = since
			continue
		}
		l.ends = append(l.ends, &ending{end: end{ref: ref, how: released}, src: nobody})
		signal(l.send)
	}
	if s.strange = strange; len(strange) > 0 {
		l.doubtLocked()
	}
	p.mu.Unlock()
	l.cancelRefs(s, q.cancelled, serial)
	return nil
}

// nobody is the worker of runs that no worker has.
var nobody = &source{closed: true}

// listen waits until there are runs that are cancelled, which the next census names, or it is time for that.
func (l *link) listen(s *seat) error {
	p := l.pool
	ctx, cancel := context.WithTimeout(engine.Lasting(s.ctx), s.beatEvery())
	defer cancel()
	q := beatQuery{namespace: p.scope.Namespace(), session: s.id}
	p.mu.Lock()
	if l.urgent { // nobody listened when it was said
		p.mu.Unlock()
		return nil
	}
	l.endBeat = cancel
	for ref := range s.cancelled {
		if len(q.known) < maxHeld {
			q.known = append(q.known, ref)
		}
	}
	p.mu.Unlock()
	err := p.scope.QueryShard(ctx, l.shard, &q)
	p.mu.Lock()
	l.endBeat = nil
	p.mu.Unlock()
	if ctx.Err() != nil {
		return s.ctx.Err()
	}
	return err
}

// cancelRefs cancels the handlers of the runs that a census has named as cancelled. A run that was begun before may have come back by Retry while the answer was on its
// way, which then is about the attempt before. If it is not, listen returns at once, and the next census names it again.
func (l *link) cancelRefs(s *seat, refs []protocol.Ref, census int) {
	l.pool.mu.Lock()
	var pieces []*piece
	s.cancelled = make(map[protocol.Ref]bool)
	for _, ref := range refs {
		one := s.held[bare(ref)]
		if one != nil && one.taken.begun > 1 && one.census >= census {
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
func (l *link) cancelAll(s *seat, cause error) {
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

// doubtLocked has a census taken soon.
func (l *link) doubtLocked() {
	if l.doubt != nil || l.seat == nil {
		return
	}
	l.doubt = time.AfterFunc(doubtAfter, func() {
		l.pool.mu.Lock()
		defer l.pool.mu.Unlock()
		if l.urgent = true; l.endBeat != nil {
			l.endBeat()
		}
	})
}
