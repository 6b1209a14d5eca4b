package action

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
	"github.com/floedb/floe/internal/workloop"
)

// Times of a link.
const (
	takeWait     = time.Hour        // maximum wait of a take; a reconciliation finds the runs of an interrupted one
	suspectAfter = time.Second / 4  // from the suspicion that a call or an answer was lost to the reconciliation
	callTime     = 10 * time.Second // timeout of calls that do not wait
	closeTime    = 2 * time.Second  // timeout of closing a session
	maxSending   = 4                // concurrent batches of ends
	maxEndSize   = 4 << 20          // bytes of outputs at which a batch is full
)

// link connects a pool to a shard. It keeps a session open there and runs three loops on it:
// takeAll takes runs for free workers, sendAll sends the ends of attempts, and sendHeartbeats keeps
// the session alive. Fields are guarded by the pool's mu unless stated otherwise.
type link struct {
	pool  *pool
	shard engine.ShardID
	route string

	session      *clientSession
	groups       []*poolGroup        // in the session
	epoch        int                 // pool.epoch of groups
	changing     bool                // the session's groups are about to change: batches want no runs
	reserved     map[*source]int     // slots that pending takes and batches may fill
	covered      map[*poolGroup]bool // groups in the pending take
	giveUp       context.CancelFunc  // cancels the pending take; nil: none
	ends         []*ending           // not sent yet
	wanting      int                 // batches in progress that want runs
	suspect      *time.Timer         // until an early reconciliation; nil: none is planned
	urgent       bool                // the early reconciliation is due
	endHeartbeat context.CancelFunc  // cancels awaitCancelled; nil: it is not waiting
	take         chan struct{}       // capacity 1: takeAll has something to do
	send         chan struct{}       // capacity 1: sendAll has something to do
}

// clientSession is the process's view of its session in a shard.
type clientSession struct {
	id    uint64
	ctx   context.Context // ends with the session
	lose  context.CancelCauseFunc
	lease time.Duration // silence after which the shard ends the session; used by sendHeartbeats only

	held            map[protocol.Ref]*piece    // attempts of this process, by ref without tag
	cancelled       map[protocol.Ref]bool      // cancelled runs, as of the latest reconciliation
	reconciliations int                        // number of reconciliations started
	unknown         map[protocol.Ref]time.Time // runs that the shard has in the session and this process does not, and since when
}

// ending is an end to be sent.
type ending struct {
	end   end
	piece *piece // nil: the run was unknown to this process
	src   *source
	done  chan error // capacity 1; nil: no caller waits
}

func newLink(p *pool, shard engine.ShardID) *link {
	return &link{
		pool: p, shard: shard, route: engine.RouteTo(p.scope.Namespace(), shard, p.scope.NodeShards()), reserved: make(map[*source]int),
		take: make(chan struct{}, 1), send: make(chan struct{}, 1),
	}
}

func bare(r protocol.Ref) protocol.Ref {
	r.Tag = 0
	return r
}

// errSilent is the cause of cancelling handlers when the shard was unreachable for a lease: their
// runs are retried by other workers.
var errSilent = engine.Errorf(ErrConflict, "the shard could not be reached for 30 s")

// run keeps a session open in the shard until ctx ends.
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

// open opens a session with the pool's current groups. If a session is given, it updates the groups
// of that session.
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

// serve runs the loops of a session until it is lost or ctx ends. When ctx ends, serve closes the
// session.
func (l *link) serve(ctx context.Context, id uint64) {
	s := &clientSession{id: id, lease: leaseMillis * time.Millisecond, held: make(map[protocol.Ref]*piece),
		cancelled: make(map[protocol.Ref]bool), unknown: make(map[protocol.Ref]time.Time)}
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

// endSession detaches the session from the link and cancels its handlers.
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

// close closes the session in the shard, which releases its runs.
func (l *link) close(s *clientSession) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	for more := true; more; {
		var err error
		if more, err = closeSession.Do(ctx, &l.pool.scope, l.route, sessionBody{session: s.id}, nil); err != nil {
			return // the shard ends the session when its lease is over
		}
	}
}

// handleError handles the error of a call and reports whether the session is lost. A temporary
// error leads to an early reconciliation, because the call or its answer may have been lost.
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

// takeAll takes runs for all free workers, with one pending take at a time.
func (l *link) takeAll(s *clientSession) {
	p := l.pool
	var pauses pause
	for s.ctx.Err() == nil {
		if !l.current(s) {
			continue
		}
		p.mu.Lock()
		if l.epoch != p.epoch { // the groups changed while no take was pending
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

// settleTake records the end of the pending take and releases its reservations.
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

// current updates the session's groups if the pool's changed. It reports whether they were up to
// date.
func (l *link) current(s *clientSession) bool {
	p := l.pool
	p.mu.Lock()
	if l.changing = l.epoch != p.epoch; !l.changing {
		p.mu.Unlock()
		return true
	}
	busy := l.wanting > 0
	p.mu.Unlock()
	if busy { // batches in progress refer to groups by their old numbers
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

// wantedLocked renews the pending take if it does not cover the group of a worker that became free.
func (l *link) wantedLocked(g *poolGroup) {
	if !l.covered[g] {
		l.interruptLocked()
	}
}

// interruptLocked cancels the pending take, so that takeAll starts another one.
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

// workLocked returns the body of a command with ends and wants.
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

// proposeWork proposes a command with ends. If the disk is full, it proposes the ends alone, which
// the node accepts if they are small.
func proposeWork(ctx context.Context, s *engine.Scope, op engine.Op, c *workBody) (worked, error) {
	got, err := engine.Propose(ctx, s, op, takeRuns.Decode)
	if errors.Is(err, engine.ErrReadOnly) {
		if settle, ok := settleOp(op, c); ok {
			return engine.Propose(ctx, s, settle, settleRuns.Decode)
		}
	}
	return got, err
}

// accept gives taken runs to the workers that wanted them.
func (l *link) accept(s *clientSession, wants []wanted, all []taken) {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range all {
		t := &all[i]
		ref := bare(t.ref)
		before := s.held[ref]
		// otherwise the previous attempt is over, but its handler has not returned
		known := before != nil && !before.sent && before.taken.begun == t.begun
		if t.want < 0 || t.want >= len(wants) || known || s.ctx.Err() != nil {
			continue // a reconciliation finds the run if the session holds it
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

// cancelledBeforeLocked handles a run that was known as cancelled before it was accepted. If this
// is not its first attempt, the cancellation may belong to an earlier attempt of a retried run, so
// a reconciliation queries the shard again.
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

// keepLocked drops the release of a run that was unknown to this process, because the answer with
// the run was only late.
func (l *link) keepLocked(ref protocol.Ref) {
	l.ends = slices.DeleteFunc(l.ends, func(e *ending) bool { return e.src == noWorker && bare(e.end.ref) == ref })
}

// giveBackLocked releases a piece that was not started, without waiting for the result.
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

// freeLocked frees the slot of a piece.
func (l *link) freeLocked(p *piece) {
	if !p.freed {
		p.freed = true
		if !p.src.closed {
			p.src.free++
		}
	}
}

// forget removes a piece that the shard no longer assigns to the session.
func (l *link) forget(p *piece) {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	l.dropLocked(p.owner, p.taken.ref, p)
}

// returned handles the return of a handler whose piece is not settled, because it was lost or late.
// The end of a late one is still sent. The shard's clock has ended the attempt by then, but a
// workflow that invoked the run may wait for the handler before it compensates the run.
func (l *link) returned(p *piece) {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	var lost *workloop.LostError
	if errors.As(p.cause, &lost) || p.late { // a late piece may have another cause: an earlier cancellation
		l.freeLocked(p)
		if p.late && l.session == p.owner {
			late := end{ref: p.taken.ref, attempt: p.taken.attempt, begun: p.taken.begun, how: failed, code: CodeTimeout,
				message: errTimeLimit.Error(), delay: -1}
			l.ends = append(l.ends, &ending{end: late, piece: p, src: p.src})
			signal(l.send)
		}
		p.src.idleLocked()
	}
}

func (l *link) dropLocked(s *clientSession, ref protocol.Ref, p *piece) {
	ref = bare(ref)
	if one := s.held[ref]; one == p {
		delete(s.held, ref)
		delete(s.unknown, ref)
	}
}

// settle queues the end of a piece. The channel receives the shard's verdict or the error of the
// call.
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

// sendAll sends ends in batches. A batch also wants runs for the slots that its ends free.
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

// batch removes the next ends from the queue and returns them with the command that sends them.
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

// wantsAfterLocked reserves the slots that the batch's ends free and returns wants for them.
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
			if e.done == nil { // no caller retries: a reconciliation finds the run and releases it
				l.dropLocked(s, e.end.ref, e.piece)
			}
			e.reply(err)
			continue
		}
		l.dropLocked(s, e.end.ref, e.piece)
		// otherwise a transaction may have ended the attempt
		if got.verdicts[i] == overtaken && (e.piece == nil || !e.piece.settled.Load()) {
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

// unwantLocked withdraws the wants of a batch.
func (l *link) unwantLocked(wants []wanted) {
	l.unreserveLocked(wants)
	if len(wants) == 0 {
		return
	}
	if l.wanting--; l.wanting == 0 && l.changing {
		signal(l.take)
	}
}

// sendOnes sends the ends of a rejected batch one by one, because one of them is invalid. The
// node's limits may be lower than when its handler returned. An output that is rejected alone fails
// its run.
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

// extend implements Task.Extend.
func (p *piece) extend(ctx context.Context, d time.Duration) (until time.Time, err error) {
	c := touchBody{session: p.owner.id, ref: p.taken.ref, attempt: p.taken.attempt, begun: p.taken.begun, extend: millis(d)}
	pool := p.link.pool
	if until, err = touchRun.Do(ctx, &pool.scope, p.link.route, c, nil); err != nil {
		return until, err
	}
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if p.cause == nil && !p.freed {
		p.limitLocked(d)
	}
	return until, nil
}
