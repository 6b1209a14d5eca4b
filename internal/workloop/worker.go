package workloop

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// Config says what a loop does. Source and Handle are required.
type Config[T any] struct {
	Source Source[T]
	// Handle works a piece off. Its ctx has the values of Run's, but ends only when the piece is lost or cancelled, or the Grace is over: context.Cause says why.
	//
	// Handle is where methods of a user's values may be called, such as Error, As and MarshalJSON, because it may panic: what Settle needs to know of them, Handle
	// keeps in the piece.
	Handle func(ctx context.Context, piece T) error
	// Each says that Handle is called for every piece that was begun, and looks itself whether its context has ended by then. Else Handle is not called for a piece that can
	// be given back when its context has ended.
	Each bool
	// Concurrency is how many pieces are run at once. 0 means 1.
	Concurrency int
	// Hold bounds how many pieces the loop has, those that wait in lanes included. 0 means four times the Concurrency.
	Hold int
	// Grace is how long handlers may go on when the loop ends, before they are cancelled. 0 means not at all.
	Grace time.Duration
	// OnError is called with every failure, unless it is nil: of handlers and Settles with their piece, all else with nil. Several goroutines may call it at
	// once. A panic of OnError is recovered and dropped.
	OnError func(piece *T, err error)

	Observer Observer                    // nil: none
	Status   Status                      // Kind, Namespace, Name and Worker are what the Observer is told
	Process  func(piece T) (name string) // under which name the runs of a piece are counted; nil: Status.Name
}

// lastWords is how long handlers may take to return when their context has been cancelled because the loop ends.
const lastWords = 5 * time.Second

// lastCalls is how long calls may take by which the loop hands over what it has when all else is over.
const lastCalls = 2 * time.Second

// Loop is a loop that works pieces off. It is run once.
type Loop[T any] struct {
	cfg      Config[T]
	source   Source[T]
	renewer  Renewer[T]  // source, if it is one, else nil; likewise:
	releaser Releaser[T] //
	laner    Laner[T]

	values    context.Context // of handlers
	settling  context.Context // of Settles: ends when all is over
	giveUp    context.CancelFunc
	changed   chan struct{} // capacity 1: slots or room have become free
	renewSoon chan struct{} // capacity 1: something is to be renewed earlier than was known

	mu      sync.Mutex // guards what follows; no call of the source or of a user under it
	status  Status
	held    map[*held[T]]struct{}
	lanes   map[string]*lane[T]
	serial  uint64 // pieces taken
	load    int    // slots in use
	nextDue time.Time
	tallies tallies
	missed  int   // results that could not be handed over
	why     error // of the last of them
	stopped error // why the handlers have been cancelled, those that begin from now on too; nil: they have not
}

// held is a piece that the loop has.
type held[T any] struct {
	piece  T
	lane   string
	serial uint64
	ctx    context.Context
	cancel context.CancelCauseFunc

	// Guarded by the loop's mu.
	running  bool
	doubtful bool // one before it in its lane has failed: it may have been taken back
	returned bool // its handler has
	lease    time.Duration
	until    time.Time // when its lease ends, as far as this process can tell; zero: never
	renewAt  time.Time
	expired  bool // until has passed
	lost     bool // the source has said that it is not the loop's any more, or it has been given back
	stopped  bool // cancelled because the loop has ended
}

// New returns a loop that does nothing yet.
func New[T any](cfg Config[T]) *Loop[T] {
	cfg.Concurrency = max(cfg.Concurrency, 1)
	if cfg.Hold <= 0 {
		cfg.Hold = 4 * cfg.Concurrency
	}
	cfg.Hold = max(cfg.Hold, cfg.Concurrency)
	l := &Loop[T]{
		cfg: cfg, source: cfg.Source, changed: make(chan struct{}, 1), renewSoon: make(chan struct{}, 1), status: cfg.Status,
		held: make(map[*held[T]]struct{}), lanes: make(map[string]*lane[T]), tallies: make(tallies),
	}
	l.status.Began, l.status.Max = time.Now(), cfg.Concurrency
	l.releaser, _ = cfg.Source.(Releaser[T])
	l.laner, _ = cfg.Source.(Laner[T])
	if r, ok := cfg.Source.(Renewer[T]); ok {
		if r.Lease() > 0 {
			l.renewer = r
		}
	}
	return l
}

// Run takes pieces and works them off until ctx ends, and returns when all handlers have returned, or have been given up. Errors: a *BlockedError; an
// *UnsettledError; that of a Take that can not succeed. That ctx has ended is none.
func (l *Loop[T]) Run(ctx context.Context) error {
	l.values = context.WithoutCancel(ctx)
	l.settling, l.giveUp = context.WithCancel(l.values)
	if l.cfg.Observer != nil {
		defer l.cfg.Observer.Join(l.Status)()
	}
	renewing := make(chan struct{})
	go func() {
		defer close(renewing)
		l.renewAll(l.settling)
	}()
	failed := l.takeAll(ctx)
	blocked := l.drain(cmp.Or(failed, context.Cause(ctx)))
	l.giveUp()
	<-renewing
	return errors.Join(failed, blocked)
}

// Status says how the loop is doing.
func (l *Loop[T]) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	s.Load, s.Processes = l.load, l.tallies.list()
	return s
}

// Cancel cancels the contexts of the handlers of some pieces with a cause, and returns how many there were. With a cause that is a *LostError they are not
// settled. A piece that a Take is about to return is not among them: who has learned that it is cancelled has to say so again, or to say so with the Take.
// which is called under a lock: it must not call the loop.
func (l *Loop[T]) Cancel(which func(piece T) bool, cause error) (found int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for h := range l.held {
		if !which(h.piece) {
			continue
		}
		found++
		if isLost(cause) {
			l.loseLocked(h)
		}
		h.cancel(cause)
	}
	return found
}

// takeAll takes until ctx ends, or it is of no use.
func (l *Loop[T]) takeAll(ctx context.Context) error {
	var pauses backoff
	for {
		n := l.awaitRoom(ctx)
		if n == 0 {
			return nil
		}
		began := time.Now()
		pieces, err := l.source.Take(ctx, n)
		if len(pieces) > 0 {
			l.begin(ctx, pieces)
			pauses.reset()
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && final(err):
			return err
		case err != nil:
			l.report(nil, err)
		case len(pieces) > 0 || time.Since(began) >= minPause:
			continue
		}
		if !pauses.wait(ctx) {
			return nil
		}
	}
}

// awaitRoom waits until slots are free, and returns how many pieces may be taken; 0 when ctx has ended.
func (l *Loop[T]) awaitRoom(ctx context.Context) int {
	for ctx.Err() == nil {
		l.mu.Lock()
		n := min(l.cfg.Concurrency-l.load, l.cfg.Hold-len(l.held))
		l.mu.Unlock()
		if n > 0 {
			return n
		}
		select {
		case <-l.changed:
		case <-ctx.Done():
		}
	}
	return 0
}

// begin runs pieces that have been taken, or queues them in their lanes.
func (l *Loop[T]) begin(ctx context.Context, pieces []T) {
	if ctx.Err() != nil && l.releaser != nil {
		l.giveBack(pieces)
		return
	}
	now, lease := time.Now(), l.lease()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range pieces {
		l.serial++
		h := &held[T]{piece: p, serial: l.serial}
		h.ctx, h.cancel = context.WithCancelCause(l.values)
		l.held[h] = struct{}{}
		l.leaseLocked(h, now, lease)
		if l.enterLocked(h) {
			l.runLocked(h)
		}
	}
}

func (l *Loop[T]) runLocked(h *held[T]) {
	h.running = true
	l.load++
	if l.stopped != nil {
		h.stopped = true
		h.cancel(l.stopped)
	}
	go l.run(h)
}

// run runs the handler of a piece and all that comes behind it.
func (l *Loop[T]) run(h *held[T]) {
	if h.doubtful && !l.confirm(h) {
		l.drop(h)
		return
	}
	exited := newPanicError(nil, nil) // unless the handler returns or panics, it has ended this goroutine
	r := Result{Err: exited, Panic: exited}
	defer func() { l.conclude(h, r) }()
	l.handle(h, &r)
}

// conclude settles a piece and frees its slot.
func (l *Loop[T]) conclude(h *held[T], r Result) {
	l.mu.Lock()
	h.returned = true
	signal(l.changed) // a drain waits for handlers to return
	r.Cause, r.Stopped = context.Cause(h.ctx), h.stopped
	lost := h.lost
	l.mu.Unlock()
	if r.Err != nil && !r.GiveBack() {
		l.report(&h.piece, r.Err)
	}
	err := r.Cause
	if !lost {
		err = l.settle(h, r)
	}
	if err != nil {
		l.report(&h.piece, err)
	}
	if !lost && err != nil && (Passing(err) || errors.Is(err, engine.ErrClosed)) {
		l.mu.Lock()
		l.missed++
		l.why = err
		l.mu.Unlock()
	}
	l.finish(h, r.Err != nil || err != nil)
}

// settle tells the source, until it has heard, or the piece is lost.
func (l *Loop[T]) settle(h *held[T], r Result) error {
	var pauses backoff
	for unknown := false; ; {
		err := l.source.Settle(l.settling, h.piece, r)
		switch {
		case unknown && errors.Is(err, engine.ErrConflict):
			return nil // it is settled already, as far as anybody can tell
		case err == nil || !Passing(err) || l.isLost(h):
			return err
		}
		unknown = unknown || errors.Is(err, engine.ErrUnknownOutcome)
		l.report(&h.piece, err)
		if !pauses.wait(l.settling) {
			return err
		}
	}
}

// finish lets go of a piece that has been run.
func (l *Loop[T]) finish(h *held[T], failed bool) {
	name := l.cfg.Status.Name
	if l.cfg.Process != nil {
		name = l.cfg.Process(h.piece)
	}
	h.cancel(nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, h)
	l.tallies.count(name, failed)
	l.nextLocked(h, failed)
}

// drop lets go of a piece that was not run.
func (l *Loop[T]) drop(h *held[T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropLocked(h)
	l.nextLocked(h, true)
}

// nextLocked frees the slot of a piece, and runs the one behind it.
func (l *Loop[T]) nextLocked(h *held[T], failed bool) {
	l.load--
	if next := l.leaveLocked(h, failed); next != nil {
		l.runLocked(next)
	}
	signal(l.changed)
}

func (l *Loop[T]) isLost(h *held[T]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return h.lost
}

// giveBack gives pieces back that were not run to their end. Those that can not be come back by themselves, when their leases end.
func (l *Loop[T]) giveBack(pieces []T) {
	if len(pieces) == 0 || l.releaser == nil {
		return
	}
	ctx, cancel := context.WithTimeout(l.values, lastCalls)
	defer cancel()
	if err := l.releaser.Release(ctx, pieces); err != nil {
		l.report(nil, err)
	}
}

// signal sends to a channel of capacity 1, unless it holds a signal already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
