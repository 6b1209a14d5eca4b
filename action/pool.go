package action

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/workers"
	"github.com/floedb/floe/internal/workloop"
)

// pools holds the pools of a process that share a router, by namespace.
type pools struct {
	mu  sync.Mutex // guards all and pool.members; held during no call
	all map[string]*pool
}

// pool takes runs for all workers of a process in a namespace. It has a link with a session to each
// shard. A link has one pending take for all free workers, and sends the results of handlers in
// batches, which also take new runs for the freed slots.
//
//	source.Take ◄── buffer ◄── link ◄── take that waits, or answer to ends
//	source.Settle ──► link ──► ends, with wants
//
// A free worker is offered to every shard. If several shards assign runs to the same slot, the
// extra runs are released.
type pool struct {
	owner   *pools
	scope   engine.Scope
	process string
	members int // sources; guarded by owner.mu
	stop    context.CancelFunc
	ended   chan struct{}

	mu     sync.Mutex // guards what follows, and fields elsewhere that say so; held during no call
	links  []*link
	groups []*poolGroup  // in the order of their numbers in sessions
	epoch  int           // counts changes of groups
	err    error         // final error of the pool
	dead   chan struct{} // closed when err is set
}

// poolGroup is a set of workers with the same labels and handlers.
type poolGroup struct {
	group
	sources int
	idle    []*source // free workers, in round-robin order; some may be busy again
}

// source is a worker in the pool and the source of its loop. Its fields are guarded by the pool's
// mu, except those that Run sets before it starts.
type source struct {
	pool      *pool
	worker    string
	group     *poolGroup
	loop      *workloop.Loop[*piece]
	report    func(error)
	reporting atomic.Int32  // concurrent calls of report
	ready     chan struct{} // capacity 1: the buffer has pieces

	slots  int
	free   int // slots without a run, or whose end is being sent
	listed bool
	closed bool
	buffer []*piece
	member *workers.Member
}

// piece is an attempt that is assigned to a worker.
type piece struct {
	Task
	taken taken
	link  *link
	owner *clientSession
	src   *source
	timer *time.Timer // for the time limit

	reconciliation int // number of reconciliations that the session had started when the piece arrived

	concluded end // from the handler's result

	// Guarded by the pool's mu.
	freed bool  // its slot is free
	sent  bool  // its end is sent or queued: the run may come back as another piece before the answer does
	cause error // why it ended before its handler returned
	late  bool  // it exceeded its time limit
}

// enroll adds a worker to the pool of its namespace.
func enroll(s *engine.Scope, worker string, g group, slots int) (*source, error) {
	all := engine.Shared(s, func() *pools { return &pools{all: make(map[string]*pool)} })
	all.mu.Lock()
	p := all.all[s.Namespace()]
	if p == nil {
		p = &pool{owner: all, scope: *s, process: processName(), ended: make(chan struct{}), dead: make(chan struct{})}
		ctx, stop := context.WithCancel(context.Background())
		p.stop = stop
		all.all[s.Namespace()] = p
		go p.run(ctx)
	}
	p.members++
	all.mu.Unlock()
	src := &source{pool: p, worker: worker, ready: make(chan struct{}, 1), slots: slots}
	if err := p.join(src, g); err != nil {
		src.leave()
		return nil, err
	}
	return src, nil
}

// join adds a worker to the group with its labels and handlers.
func (p *pool) join(src *source, g group) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := len(g.names)
	for _, known := range p.groups {
		if known.labels == g.labels && slices.Equal(known.names, g.names) {
			src.group = known
			known.sources++
			return nil
		}
		names += len(known.names)
	}
	if len(p.groups) == maxGroups || names > maxNames {
		return engine.Errorf(ErrInvalid,
			"action: the workers of a process have at most %d different sets of labels and handlers, with %d names", maxGroups, maxNames)
	}
	src.group = &poolGroup{group: g, sources: 1}
	p.groups = append(p.groups, src.group)
	p.changedLocked()
	return nil
}

// changedLocked makes all links update the groups of their sessions.
func (p *pool) changedLocked() {
	p.epoch++
	for _, l := range p.links {
		l.interruptLocked()
	}
}

// begin makes all slots of the worker free to take runs.
func (s *source) begin() {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if !s.closed {
		s.free = s.slots
		s.idleLocked()
	}
}

// close stops taking runs and releases the buffered ones.
func (s *source) close() {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.closed, s.free = true, 0
	for _, p := range s.buffer {
		p.link.giveBackLocked(p)
	}
	s.buffer = nil
	for _, l := range s.pool.links {
		l.interruptLocked()
	}
	s.changedLocked()
}

// leave removes the worker from the pool. If it is the last one, leave stops the pool and waits for
// it.
func (s *source) leave() {
	s.close()
	p := s.pool
	p.mu.Lock()
	if g := s.group; g != nil {
		if g.sources--; g.sources == 0 {
			p.groups = slices.DeleteFunc(p.groups, func(other *poolGroup) bool { return other == g })
			p.changedLocked()
		}
	}
	p.mu.Unlock()
	p.owner.mu.Lock()
	p.members--
	last := p.members == 0
	if last {
		delete(p.owner.all, p.scope.Namespace())
	}
	p.owner.mu.Unlock()
	if last {
		p.stop()
		<-p.ended
	}
}

func (s *source) setMember(m *workers.Member) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.member = m
}

// changedLocked schedules a report to the worker registry.
func (s *source) changedLocked() { s.member.Changed() }

// idleLocked offers the worker's free slots to all links.
func (s *source) idleLocked() {
	if s.free <= 0 || s.closed {
		return
	}
	if !s.listed {
		s.listed = true
		s.group.idle = append(s.group.idle, s)
	}
	for _, l := range s.pool.links {
		l.wantedLocked(s.group)
	}
}

// Take implements workloop.Source.
func (s *source) Take(ctx context.Context, most int) ([]*piece, error) {
	for {
		s.pool.mu.Lock()
		n := min(most, len(s.buffer))
		all := slices.Clone(s.buffer[:n])
		s.buffer = s.buffer[n:]
		s.pool.mu.Unlock()
		if n > 0 {
			return all, nil
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.pool.dead:
			return nil, s.pool.err
		}
	}
}

// Settle implements workloop.Source.
func (s *source) Settle(ctx context.Context, p *piece, r workloop.Result) error {
	p.stopTimer()
	return await(ctx, p.link.settle(p, p.end(r)))
}

// Release implements workloop.Releaser.
func (s *source) Release(ctx context.Context, pieces []*piece) error {
	var sent []<-chan error
	for _, p := range pieces {
		p.stopTimer()
		sent = append(sent, p.link.settle(p, p.back()))
	}
	var errs []error
	for i, done := range sent {
		err := await(ctx, done)
		if err != nil {
			pieces[i].link.forget(pieces[i]) // a reconciliation releases the run
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// back returns the end that releases the attempt, which then does not count.
func (p *piece) back() end {
	return end{ref: p.taken.ref, attempt: p.taken.attempt, begun: p.taken.begun, how: released}
}

// over returns the cause if the piece ended before its handler started, else nil.
func (p *piece) over() error {
	p.src.pool.mu.Lock()
	defer p.src.pool.mu.Unlock()
	return p.cause
}

func (p *piece) stopTimer() {
	p.src.pool.mu.Lock()
	defer p.src.pool.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
}

// cancel cancels the handler of a piece. The caller does not hold the pool's mu.
func (p *piece) cancel(cause error) {
	p.src.pool.mu.Lock()
	if p.cause == nil {
		p.cause = cause
	}
	loop := p.src.loop
	p.src.pool.mu.Unlock()
	loop.Cancel(func(other *piece) bool { return other == p }, cause)
}

var errTimeLimit = errors.New("the attempt has exceeded its time limit")

// limitLocked ends a piece after its time limit. The shard's clock decides whether the run is
// retried or has timed out.
func (p *piece) limitLocked(d time.Duration) {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.timer = time.AfterFunc(d, func() {
		p.src.pool.mu.Lock()
		p.late = true
		p.src.pool.mu.Unlock()
		p.cancel(&workloop.LostError{Err: errTimeLimit})
		p.link.forget(p)
	})
}

// run opens the links and serves them until ctx ends.
func (p *pool) run(ctx context.Context) {
	defer close(p.ended)
	var pauses pause
	for {
		shards, err := p.scope.Shards(ctx)
		if err == nil {
			p.open(shards)
			break
		}
		if p.failed(err) || !pauses.wait(ctx) {
			return
		}
	}
	var links sync.WaitGroup
	for _, l := range p.links {
		links.Go(func() { l.run(ctx) })
	}
	links.Wait()
}

func (p *pool) open(shards []engine.ShardID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, shard := range shards {
		p.links = append(p.links, newLink(p, shard))
	}
}

// failed reports whether an error ends the pool because retries would not help.
func (p *pool) failed(err error) bool {
	if !errors.Is(err, engine.ErrClosed) && !errors.Is(err, engine.ErrUnauthorized) && !errors.Is(err, ErrInvalid) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
		close(p.dead)
	}
	return true
}

// reportError reports an error of the pool to all its idle workers.
func (p *pool) reportError(err error) {
	p.mu.Lock()
	var all []*source
	for _, g := range p.groups {
		all = append(all, g.idle...)
	}
	p.mu.Unlock()
	for _, s := range all {
		if s.report != nil {
			s.callOnError(err)
		}
	}
}

// Limits for an OnError that does not return. The pool calls the OnError of every worker, and must
// continue serving the others.
const (
	onErrorTime  = time.Second / 2
	maxReporting = 4 // concurrent calls per worker; further errors are not reported
)

// callOnError calls the worker's OnError and waits up to onErrorTime for it.
func (s *source) callOnError(err error) {
	if s.reporting.Add(1) > maxReporting {
		s.reporting.Add(-1)
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer s.reporting.Add(-1)
		workloop.Callback(func() { s.report(err) })
	}()
	select {
	case <-done:
	case <-time.After(onErrorTime):
	}
}

// wanted is the number of runs that a worker wants from a shard.
type wanted struct {
	src   *source
	slots int
}

// wantsLocked reserves up to slots free slots for a link and returns them by worker. Groups share
// the slots, and the workers of a group take turns.
func (p *pool) wantsLocked(l *link, slots int) (all []wanted) {
	perGroup := max(1, slots/max(1, len(l.groups)))
	for _, g := range l.groups {
		left := min(perGroup, slots)
		for n := len(g.idle); n > 0 && left > 0; n-- {
			s := g.idle[0]
			g.idle = g.idle[1:]
			if s.free <= 0 || s.closed {
				s.listed = false
				continue
			}
			g.idle = append(g.idle, s)
			if k := min(s.free-l.reserved[s], left); k > 0 {
				all = append(all, wanted{s, k})
				l.reserved[s] += k
				left, slots = left-k, slots-k
			}
		}
	}
	return all
}

// pause is an exponential back-off: each wait is twice as long as the one before, up to 5 s.
type pause struct{ d time.Duration }

func (p *pause) wait(ctx context.Context) bool {
	p.d = min(cmp.Or(2*p.d, 50*time.Millisecond), 5*time.Second)
	t := time.NewTimer(p.d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
