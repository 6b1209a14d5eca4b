package action

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/call"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/workloop"
)

// Times of a link.
const (
	takeWait     = time.Hour        // of a take; what it gets while it is given up is found by the next census
	suspectAfter = time.Second / 4  // until the census when something that was taken may have been lost on its way
	callTime     = 10 * time.Second // for calls that do not wait
	closeTime    = 2 * time.Second  // to give everything back
	maxSending   = 4                // batches of ends under way
	maxEndSize   = 4 << 20          // of the outputs in a batch
)

// link is what a pool has in a shard. What is not said otherwise is guarded by the pool's mu.
type link struct {
	pool  *pool
	shard engine.ShardID
	route string

	session      *clientSession
	groups       []*poolGroup // as the session has them
	epoch        int          // of the groups
	changing     bool         // the session is about to have others: nothing is wanted
	reserved     map[*source]int
	covered      map[*poolGroup]bool // by the take that waits
	giveUp       context.CancelFunc  // ends that take; nil if there is none
	ends         []*ending
	wanting      int         // batches under way that want something
	suspect      *time.Timer // until the next census, nil: there is no hurry
	urgent       bool        // that time is over
	endHeartbeat context.CancelFunc
	take         chan struct{} // capacity 1: there may be something to take for
	send         chan struct{} // capacity 1: there are ends
}

// seat is a session as the process has it.
type clientSession struct {
	id    uint64
	ctx   context.Context // ends with the session
	lose  context.CancelCauseFunc
	lease time.Duration // for which the process may be silent, as the leader has said; of sendHeartbeats

	held            map[call.Ref]*piece    // by the ref without its tag
	cancelled       map[call.Ref]bool      // those that are, as the last census has said
	reconciliations int                    // counts them
	unknown         map[call.Ref]time.Time // those that the shard had in the last census, and this process does not know of, and since when
}

// ending is an end that is to be sent.
type ending struct {
	end   end
	piece *piece // nil: of a run that this process did not know of
	src   *source
	done  chan error // capacity 1; nil: nobody waits
}

func newLink(p *pool, shard engine.ShardID) *link {
	return &link{
		pool: p, shard: shard, route: engine.RouteTo(p.scope.Namespace(), shard, p.scope.NodeShards()), reserved: make(map[*source]int),
		take: make(chan struct{}, 1), send: make(chan struct{}, 1),
	}
}

func bare(r call.Ref) call.Ref {
	r.Tag = 0
	return r
}

// errSilent is why handlers are cancelled whose process could not reach the shard for so long that their runs are retried elsewhere.
var errSilent = engine.Errorf(ErrConflict, "the shard could not be reached for 30 s")

// run has a session in the shard until ctx ends.
func (l *link) run(ctx context.Context) {
	var pauses pause
	for ctx.Err() == nil {
		id, err := l.open(ctx, 0)
		if err == nil {
			pauses = pause{}
			l.serve(ctx, id)
			continue
		}
		if l.pool.failed(err) {
			return
		}
		if ctx.Err() == nil {
			l.pool.reportError(err)
			pauses.wait(ctx)
		}
	}
}

// open begins a session with the groups of now, or changes those of one.
func (l *link) open(ctx context.Context, session uint64) (id uint64, err error) {
	p := l.pool
	p.mu.Lock()
	c := openBody{session: session, process: p.process}
	groups, epoch := append([]*poolGroup(nil), p.groups...), p.epoch
	for _, g := range groups {
		c.groups = append(c.groups, g.group)
	}
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	id, err = openSession.Do(ctx, &p.scope, l.route, c, nil)
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l.groups, l.epoch = groups, epoch
	return id, nil
}

// serve works with a session until ctx ends, when it is closed, or the session is lost.
func (l *link) serve(ctx context.Context, id uint64) {
	s := &clientSession{id: id, lease: leaseMillis * time.Millisecond, held: make(map[call.Ref]*piece), cancelled: make(map[call.Ref]bool), unknown: make(map[call.Ref]time.Time)}
	s.ctx, s.lose = context.WithCancelCause(context.Background())
	stop := context.AfterFunc(ctx, func() { s.lose(ctx.Err()) })
	defer stop()
	l.pool.mu.Lock()
	l.session = s
	l.pool.mu.Unlock()
	var all sync.WaitGroup
	for _, work := range []func(*clientSession){l.takeAll, l.sendAll, l.sendHeartbeats} {
		all.Go(func() { work(s) })
	}
	all.Wait()
	l.endSession(s)
	if ctx.Err() != nil {
		l.close(s)
	}
}

// endSession cancels what the session had.
func (l *link) endSession(s *clientSession) {
	lost := &workloop.LostError{Err: context.Cause(s.ctx)}
	p := l.pool
	p.mu.Lock()
	l.session = nil
	clear(l.reserved)
	for _, e := range l.ends {
		e.reply(lost)
	}
	l.ends = nil
	if l.suspect != nil {
		l.suspect.Stop()
		l.suspect = nil
	}
	l.urgent = false
	var pieces []*piece
	for _, one := range s.held {
		pieces = append(pieces, one)
	}
	clear(s.held)
	p.mu.Unlock()
	for _, one := range pieces {
		one.stopTimer()
		one.cancel(lost)
	}
}

// close ends a session: what it has is given back.
func (l *link) close(s *clientSession) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	for more := true; more; {
		var err error
		if more, err = closeSession.Do(ctx, &l.pool.scope, l.route, sessionBody{session: s.id}, nil); err != nil {
			return // it ends by itself, when nobody hears of it
		}
	}
}

// noted looks at the error of a call: the session may be lost, or something on its way. It reports whether the session is.
func (l *link) handleError(s *clientSession, err error) (lost bool) {
	var unknown *sessionError
	switch {
	case err == nil:
	case s.ctx.Err() != nil:
		return true
	case errors.As(err, &unknown):
		s.lose(err)
		return true
	case l.pool.failed(err):
		s.lose(err)
		return true
	case workloop.Passing(err):
		l.pool.mu.Lock()
		l.suspectLocked()
		l.pool.mu.Unlock()
	}
	return false
}

// takeAll waits for runs, on behalf of all workers that are free.
func (l *link) takeAll(s *clientSession) {
	p := l.pool
	var pauses pause
	for s.ctx.Err() == nil {
		if !l.current(s) {
			continue
		}
		p.mu.Lock()
		if l.epoch != p.epoch { // who has changed that had no take to interrupt
			p.mu.Unlock()
			continue
		}
		wants := p.wantsLocked(l, maxTaken)
		ctx, cancel := context.WithCancel(engine.Lasting(s.ctx))
		l.giveUp, l.covered = cancel, make(map[*poolGroup]bool)
		for _, w := range wants {
			l.covered[w.src.group] = true
		}
		c := l.workLocked(s, nil, wants)
		p.mu.Unlock()
		if len(wants) == 0 {
			l.awaitWanted(s)
			l.settleTake(nil)
			cancel()
			continue
		}
		got, err := engine.TakeFrom(ctx, &p.scope, takeRuns.Op(l.route, *c, nil), engine.Take{Wait: takeWait}, takeRuns.Decode)
		l.settleTake(wants)
		interrupted := ctx.Err() != nil
		cancel()
		if err == nil {
			pauses = pause{}
			l.accept(s, wants, got.taken)
			continue
		}
		if !l.handleError(s, err) && !interrupted {
			p.reportError(err)
			pauses.wait(s.ctx)
		}
	}
}

// settleTake notes that no take waits any more.
func (l *link) settleTake(wants []wanted) {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	l.giveUp, l.covered = nil, nil
	l.unreserveLocked(wants)
}

func (l *link) unreserveLocked(wants []wanted) {
	for _, w := range wants {
		if l.reserved[w.src] -= w.slots; l.reserved[w.src] <= 0 {
			delete(l.reserved, w.src)
		}
	}
}

// current makes the session have the groups of now. It reports whether it has.
func (l *link) current(s *clientSession) bool {
	p := l.pool
	p.mu.Lock()
	if l.changing = l.epoch != p.epoch; !l.changing {
		p.mu.Unlock()
		return true
	}
	busy := l.wanting > 0
	p.mu.Unlock()
	if busy { // they have the numbers that groups had before
		l.awaitWanted(s)
		return false
	}
	if _, err := l.open(s.ctx, s.id); err != nil && !l.handleError(s, err) {
		p.reportError(err)
		var pauses pause
		pauses.wait(s.ctx)
	}
	return false
}

func (l *link) awaitWanted(s *clientSession) {
	select {
	case <-l.take:
	case <-s.ctx.Done():
	}
}

// wantedLocked notes that a worker of a group is free.
func (l *link) wantedLocked(g *poolGroup) {
	if !l.covered[g] {
		l.interruptLocked()
	}
}

// interruptLocked has the take that waits be another one.
func (l *link) interruptLocked() {
	if l.giveUp != nil {
		l.giveUp()
	}
	signal(l.take)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// workLocked returns the command with ends and wants.
func (l *link) workLocked(s *clientSession, ends []*ending, wants []wanted) *workBody {
	c := &workBody{session: s.id}
	for _, e := range ends {
		c.ends = append(c.ends, e.end)
	}
	for _, w := range wants {
		c.wants = append(c.wants, want{group: l.indexOf(w.src.group), worker: w.src.worker, slots: w.slots})
	}
	return c
}

func (l *link) indexOf(g *poolGroup) int {
	for i, other := range l.groups {
		if other == g {
			return i
		}
	}
	return -1
}

// proposeWork proposes a command with ends. A node whose disk is full takes those alone, if they are small.
func proposeWork(ctx context.Context, s *engine.Scope, op engine.Op, c *workBody) (worked, error) {
	got, err := engine.Propose(ctx, s, op, takeRuns.Decode)
	if errors.Is(err, engine.ErrReadOnly) {
		if settle, ok := settleOp(op, c); ok {
			return engine.Propose(ctx, s, settle, settleRuns.Decode)
		}
	}
	return got, err
}

// accept hands runs that were taken to the workers that wanted them.
func (l *link) accept(s *clientSession, wants []wanted, all []taken) {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range all {
		t := &all[i]
		ref := bare(t.ref)
		before := s.held[ref]
		known := before != nil && !before.sent && before.taken.begun == t.begun // else the attempt before is over, and its handler has not returned
		if t.want < 0 || t.want >= len(wants) || known || s.ctx.Err() != nil {
			continue // the census finds it, if it is the session's
		}
		one := &piece{Task: taskOf(l.shard, t), taken: *t, link: l, owner: s, src: wants[t.want].src, reconciliation: s.reconciliations}
		one.Task.touch, one.Task.session, one.Task.settled = one.extend, s.id, new(atomic.Bool)
		one.concluded = one.back() // unless its handler is called
		s.held[ref] = one
		delete(s.unknown, ref)
		l.keepLocked(ref)
		if s.cancelled[ref] {
			l.cancelledBeforeLocked(s, one)
		}
		if one.src.closed || one.src.free <= 0 {
			one.freed = true
			l.giveBackLocked(one)
			continue
		}
		one.src.free--
		one.src.buffer = append(one.src.buffer, one)
		one.limitLocked(duration(t.timeout))
		signal(one.src.ready)
		one.src.changedLocked()
	}
}

// cancelledBeforeLocked is told of a run that has come when it was known to be cancelled. If it was begun before, that may have been said of the attempt before: the run
// was retried, and has to be asked about again.
func (l *link) cancelledBeforeLocked(s *clientSession, p *piece) {
	if p.taken.begun == 1 {
		p.cause = ErrCancelled
		return
	}
	delete(s.cancelled, bare(p.taken.ref))
	if l.endHeartbeat != nil {
		l.endHeartbeat()
	}
}

// keepLocked takes back that a stranger is about to be given back: the answer by which the process has it was only late.
func (l *link) keepLocked(ref call.Ref) {
	l.ends = slices.DeleteFunc(l.ends, func(e *ending) bool { return e.src == noWorker && bare(e.end.ref) == ref })
}

// giveBackLocked gives a piece back that was not begun. Nobody waits for that.
func (l *link) giveBackLocked(p *piece) {
	if p.timer != nil {
		p.timer.Stop()
	}
	if l.session != p.owner {
		return
	}
	p.sent = true
	l.ends = append(l.ends, &ending{end: p.back(), piece: p, src: p.src})
	signal(l.send)
}

// freeLocked notes that a slot is free again.
func (l *link) freeLocked(p *piece) {
	if !p.freed {
		p.freed = true
		if !p.src.closed {
			p.src.free++
		}
	}
}

// forget ends what the process has of a piece: the shard has it no more.
func (l *link) forget(p *piece) {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	l.dropLocked(p.owner, p.taken.ref, p)
}

// returned is told that a handler has returned. If its piece was lost nobody settles it. The shard hears of one whose time was over all the same: its clock has ended the
// attempt by then, and the workflow that has invoked the run may wait for the handler before it compensates that.
func (l *link) returned(p *piece) {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	var lost *workloop.LostError
	if errors.As(p.cause, &lost) || p.late { // it may have been cancelled before its time was over
		l.freeLocked(p)
		if p.late && l.session == p.owner {
			late := end{ref: p.taken.ref, attempt: p.taken.attempt, begun: p.taken.begun, how: failed, code: CodeTimeout, message: errTimeLimit.Error(), delay: -1}
			l.ends = append(l.ends, &ending{end: late, piece: p, src: p.src})
			signal(l.send)
		}
		p.src.idleLocked()
	}
}

func (l *link) dropLocked(s *clientSession, ref call.Ref, p *piece) {
	ref = bare(ref)
	if one := s.held[ref]; one == p {
		delete(s.held, ref)
		delete(s.unknown, ref)
	}
}

// settle sends how a piece has ended. What the shard says to that, or why it could not be asked, comes through the channel.
func (l *link) settle(p *piece, e end) <-chan error {
	done := make(chan error, 1)
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	l.freeLocked(p)
	if p.owner != l.session {
		done <- &workloop.LostError{Err: context.Cause(p.owner.ctx)}
		return done
	}
	p.sent = true
	l.ends = append(l.ends, &ending{e, p, p.src, done})
	p.src.changedLocked()
	signal(l.send)
	return done
}

func await(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *ending) reply(err error) {
	if e.done != nil {
		e.done <- err
	}
}

// sendAll sends ends, together with what the workers want whose slots are free by them.
func (l *link) sendAll(s *clientSession) {
	slots := make(chan struct{}, maxSending)
	var all sync.WaitGroup
	defer all.Wait()
	for {
		select {
		case <-l.send:
		case <-s.ctx.Done():
			return
		}
		for {
			select {
			case slots <- struct{}{}:
			case <-s.ctx.Done():
				return
			}
			batch, wants, c := l.batch(s)
			if len(batch) == 0 {
				<-slots
				break
			}
			all.Go(func() {
				l.sendBatch(s, batch, wants, c)
				<-slots
			})
		}
	}
}

// batch takes ends that are sent together.
func (l *link) batch(s *clientSession) (batch []*ending, wants []wanted, c *workBody) {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	size := 0
	for len(batch) < maxEnds && len(batch) < len(l.ends) && size < maxEndSize {
		e := l.ends[len(batch)]
		size += len(e.end.output)
		batch = append(batch, e)
	}
	if l.ends = l.ends[len(batch):]; len(l.ends) == 0 {
		l.ends = nil
	}
	if !l.changing && l.epoch == p.epoch {
		wants = l.wantsAfterLocked(batch)
	}
	if len(wants) > 0 {
		l.wanting++
	}
	return batch, wants, l.workLocked(s, batch, wants)
}

// wantsAfterLocked reserves what workers want instead of what they have ended.
func (l *link) wantsAfterLocked(batch []*ending) (wants []wanted) {
	at := make(map[*source]int)
	for _, e := range batch {
		if e.end.how == released || e.src.closed || e.src.free <= l.reserved[e.src] {
			continue
		}
		l.reserved[e.src]++
		i, known := at[e.src]
		if !known {
			i = len(wants)
			at[e.src] = i
			wants = append(wants, wanted{src: e.src})
		}
		wants[i].slots++
	}
	return wants
}

var errOver = engine.Errorf(ErrConflict, "the attempt was over: its result came too late")

func (l *link) sendBatch(s *clientSession, batch []*ending, wants []wanted, c *workBody) {
	p := l.pool
	ctx, cancel := context.WithTimeout(s.ctx, callTime)
	defer cancel()
	got, err := proposeWork(ctx, &p.scope, takeRuns.Op(l.route, *c, nil), c)
	if errors.Is(err, ErrInvalid) {
		l.sendOnes(s, batch, wants, err)
		return
	}
	if err == nil && len(got.verdicts) != len(batch) {
		err = engine.Errorf(engine.ErrUnknownOutcome, "action: %d verdicts for %d ends", len(got.verdicts), len(batch))
	}
	if l.handleError(s, err) {
		err = &workloop.LostError{Err: err}
	}
	p.mu.Lock()
	l.unwantLocked(wants)
	for i, e := range batch {
		if err != nil {
			if e.done == nil { // nobody tries it again: the census does, which finds what this process does not have
				l.dropLocked(s, e.end.ref, e.piece)
			}
			e.reply(err)
			continue
		}
		l.dropLocked(s, e.end.ref, e.piece)
		if got.verdicts[i] == overtaken && (e.piece == nil || !e.piece.settled.Load()) { // else a transaction may have ended it
			e.reply(errOver)
		} else {
			e.reply(nil)
		}
	}
	p.mu.Unlock()
	if err == nil {
		l.accept(s, wants, got.taken)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range batch {
		e.src.idleLocked()
	}
}

// unwantLocked takes back what a batch wanted.
func (l *link) unwantLocked(wants []wanted) {
	l.unreserveLocked(wants)
	if len(wants) == 0 {
		return
	}
	if l.wanting--; l.wanting == 0 && l.changing {
		signal(l.take)
	}
}

// sendOnes sends the ends of a refused batch one by one, because one of them is the reason: the limits of the node may be smaller than when the handler returned. A
// result that is refused alone fails its run.
func (l *link) sendOnes(s *clientSession, batch []*ending, wants []wanted, refusal error) {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	l.unwantLocked(wants)
	if e := batch[0]; len(batch) == 1 && e.end.how != completed {
		l.dropLocked(s, e.end.ref, e.piece)
		e.reply(refusal)
		e.src.idleLocked()
		return
	} else if len(batch) == 1 {
		e.end.refuse(CodeOutputTooLarge, shorten(refusal.Error(), MaxErrorBytes))
	}
	for i := range batch {
		one := batch[i : i+1]
		c := l.workLocked(s, one, nil)
		l.pool.mu.Unlock()
		l.sendBatch(s, one, nil, c)
		l.pool.mu.Lock()
	}
}

// extend is Task.Touch.
func (p *piece) extend(ctx context.Context, d time.Duration) error {
	c := touchBody{session: p.owner.id, ref: p.taken.ref, attempt: p.taken.attempt, begun: p.taken.begun, extend: millis(d)}
	pool := p.link.pool
	if _, err := touchRun.Do(ctx, &pool.scope, p.link.route, c, nil); err != nil {
		return err
	}
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if p.cause == nil && !p.freed {
		p.limitLocked(d)
	}
	return nil
}
