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

// pools are those of a process that share a router, by namespace.
type pools struct {
	mu  sync.Mutex // guards all, and members of each pool; nothing is called under it
	all map[string]*pool
}

// pool takes runs for all workers of a process in a namespace. It has a link to each shard, which has a session there: one take of it waits, on behalf of all
// workers that are free, and what their handlers return is sent in batches, together with what they want instead.
//
//	source.Take ◄── buffer ◄── link ◄── take that waits, or answer to ends
//	source.Settle ──► link ──► ends, with wants
//
// A worker that is free is free for every shard: where runs come from several at once, those that are too many are given back.
type pool struct {
	owner   *pools
	scope   engine.Scope
	process string
	members int // sources; guarded by owner.mu
	stop    context.CancelFunc
	ended   chan struct{}

	mu     sync.Mutex // guards what follows, and what is said so elsewhere; nothing is called under it
	links  []*link
	groups []*poolGroup  // in the order in which sessions have them
	epoch  int           // counts changes of groups
	err    error         // that ended it before its time
	dead   chan struct{} // closed when there is one
}

// poolGroup is workers that take the same: they have the same labels and handlers.
type poolGroup struct {
	group
	sources int
	idle    []*source // those that are free, in turn; some may be no more
}

// source is a worker in the pool: the source of its loop. Guarded by the pool's mu, but for what Run sets before it begins.
type source struct {
	pool      *pool
	worker    string
	group     *poolGroup
	loop      *workloop.Loop[*piece]
	report    func(error)
	reporting atomic.Int32  // reports under way
	ready     chan struct{} // capacity 1: the buffer has pieces

	slots  int
	free   int // slots whose runs nobody has, or is being told the end of
	listed bool
	closed bool
	buffer []*piece
	member *workers.Member
}

// piece is an attempt that a worker has.
type piece struct {
	Task
	taken taken
	link  *link
	owner *clientSession
	src   *source
	timer *time.Timer // of the time limit

	reconciliation int // the last one of the session that had been sent when it came

	concluded end // by what the handler has returned

	// Guarded by the pool's mu.
	freed bool  // its slot is
	sent  bool  // its end is, or is about to be: the run may come back as another piece before the answer does
	cause error // why it is over before its handler has returned
	late  bool  // its time is over
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

// join gives a worker its group.
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
		return engine.Errorf(ErrInvalid, "action: the workers of a process have at most %d different sets of labels and handlers, with %d names", maxGroups, maxNames)
	}
	src.group = &poolGroup{group: g, sources: 1}
	p.groups = append(p.groups, src.group)
	p.changedLocked()
	return nil
}

// changedLocked has all sessions take what the groups are now.
func (p *pool) changedLocked() {
	p.epoch++
	for _, l := range p.links {
		l.interruptLocked()
	}
}

// begin makes the worker take runs.
func (s *source) begin() {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if !s.closed {
		s.free = s.slots
		s.idleLocked()
	}
}

// close ends that. What it has got and not begun is given back.
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

// leave takes the worker out of the pool, whose end it waits for if it is the last one.
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

// changedLocked has the list of workers show how it is now.
func (s *source) changedLocked() { s.member.Changed() }

// idleLocked notes that the worker is free, if it is.
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

// Take is of workloop.Source.
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

// Settle is of workloop.Source.
func (s *source) Settle(ctx context.Context, p *piece, r workloop.Result) error {
	p.stopTimer()
	return await(ctx, p.link.settle(p, p.end(r)))
}

// Release is of workloop.Releaser.
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
			pieces[i].link.forget(pieces[i]) // the census gives it back
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// back is the end of an attempt that does not count.
func (p *piece) back() end {
	return end{ref: p.taken.ref, attempt: p.taken.attempt, begun: p.taken.begun, how: released}
}

// over returns why the piece is over before its handler has begun, nil if it is not.
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

// cancel cancels the handler of a piece. It is not called under the pool's mu.
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

// limitLocked ends a piece when its time limit has passed: the shard, whose clock decides, has the run retried, or timed out.
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

// run keeps the links until ctx ends.
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

// failed reports whether an error ends the pool: none that comes to an end by itself.
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

// tell tells workers what keeps the pool from working: all of them, as all suffer from it.
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

// What a pool bears of an OnError that does not return: it is called for all workers of the process, and the sessions of the others must go on.
const (
	onErrorTime  = time.Second / 2
	maxReporting = 4 // calls of one worker; what goes wrong while they are under way is not reported
)

// tell calls OnError, and waits for it for a while.
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

// wanted is what a worker wants of a shard.
type wanted struct {
	src   *source
	slots int
}

// wantsLocked returns what workers want of a shard, up to some slots, and reserves it there. It goes through the groups in turn, and in each through the workers.
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

// pause waits between attempts: up to twice as long as before each time.
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
