package workloop

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// Config configures a loop. Source and Handle are required.
type Config[T any] struct {
	Source Source[T]
	// Handle processes a piece. Its ctx has the values of Run's. It ends only when the piece is
	// lost or cancelled, or after the Grace. context.Cause returns the reason.
	//
	// Methods of a user's values, such as Error, As and MarshalJSON, may panic and are called in
	// Handle only. Handle stores the parts that Settle needs in the piece.
	Handle func(ctx context.Context, piece T) error
	// Each makes the loop call Handle for every piece, even if its context has already ended.
	// Otherwise a piece whose context has ended is released without a call of Handle, if the source
	// is a Releaser.
	Each bool
	// Concurrency is the maximum number of pieces that run at once. 0 means 1.
	Concurrency int
	// Hold is the maximum number of pieces held, including those that wait in lanes. 0 means four
	// times the Concurrency.
	Hold int
	// Grace is how long handlers may continue after the loop ends, before they are cancelled.
	Grace time.Duration
	// OnError is called with every error. Errors of handlers and Settle come with the piece, and
	// errors of other calls with nil. It may be nil. It is called concurrently, and its panics are
	// dropped.
	OnError func(piece *T, err error)

	Observer Observer                    // nil: none
	Status   Status                      // Kind, Namespace, Name and Worker, for the Observer
	Process  func(piece T) (name string) // name under which a piece is counted; nil: Status.Name
}

// lastWords is the time that handlers have to return after the end of the loop has cancelled them.
const lastWords = 5 * time.Second

// lastCalls is the time for the final calls of Settle and Release.
const lastCalls = 2 * time.Second

// Loop takes pieces and processes them. It runs once.
type Loop[T any] struct {
	cfg      Config[T]
	source   Source[T]
	renewer  Renewer[T]  // the source, if it implements the interface, else nil
	releaser Releaser[T] // likewise
	laner    Laner[T]    // likewise

	values    context.Context // parent of the handlers' contexts
	settling  context.Context // of calls of Settle: ends with the loop
	giveUp    context.CancelFunc
	changed   chan struct{} // capacity 1: a slot became free, or a handler returned
	renewSoon chan struct{} // capacity 1: a lease is due before nextDue

	mu       sync.Mutex // guards what follows; held during no call of the source or of the user
	status   Status
	held     map[*held[T]]struct{}
	lanes    map[string]*lane[T]
	serial   uint64 // pieces taken
	load     int    // slots in use
	nextDue  time.Time
	counters counters
	missed   int   // results that could not be sent
	why      error // of the last of them
	stopped  error // cause with which drain cancelled all handlers, also later ones; nil: it has not
}

// held is a piece that the loop holds.
type held[T any] struct {
	piece  T
	lane   string
	serial uint64
	ctx    context.Context
	cancel context.CancelCauseFunc

	// Guarded by the loop's mu.
	running  bool
	suspect  bool // an earlier piece of its lane failed: the source may have taken it back
	returned bool // its handler returned
	lease    time.Duration
	until    time.Time // end of its lease by this process's clock; zero: never
	renewAt  time.Time
	expired  bool // its lease ended by this process's clock
	lost     bool // the source reported it as lost, or it was released
	stopped  bool // cancelled because the loop ended
}

// New returns a loop that has not started.
func New[T any](cfg Config[T]) *Loop[T] {
	cfg.Concurrency = max(cfg.Concurrency, 1)
	if cfg.Hold <= 0 {
		cfg.Hold = 4 * cfg.Concurrency
	}
	cfg.Hold = max(cfg.Hold, cfg.Concurrency)
	l := &Loop[T]{
		cfg: cfg, source: cfg.Source, changed: make(chan struct{}, 1), renewSoon: make(chan struct{}, 1), status: cfg.Status,
		held: make(map[*held[T]]struct{}), lanes: make(map[string]*lane[T]), counters: make(counters),
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

// Run takes and processes pieces until ctx ends. It returns when all handlers have returned or were
// abandoned. The end of ctx is not an error.
//
// Errors: a *BlockedError, an *UnsettledError, or a permanent error of Take.
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

// Status returns the loop's current load and counts.
func (l *Loop[T]) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	s.Load, s.Processes = l.load, l.counters.list()
	return s
}

// Cancel cancels the contexts of the held pieces for which which returns true, with the given
// cause, and returns their number. If the cause is a *LostError, the pieces are not settled. Cancel
// does not find a piece that a Take is about to return, so the source must cancel it again later,
// or not return it. which is called under a lock and must not call the loop.
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

// takeAll takes pieces until ctx ends or a Take fails permanently.
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

// awaitRoom waits for free slots and returns the number of pieces to take, or 0 if ctx has ended.
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

// begin starts taken pieces or queues them in their lanes.
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

// run runs the handler of a piece and settles it.
func (l *Loop[T]) run(h *held[T]) {
	if h.suspect && !l.confirm(h) {
		l.drop(h)
		return
	}
	exited := newPanicError(nil, nil) // if the handler neither returns nor panics, it called runtime.Goexit
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

// settle calls Settle, with retries, until it succeeds or the piece is lost.
func (l *Loop[T]) settle(h *held[T], r Result) error {
	var pauses backoff
	for unknown := false; ; {
		err := l.source.Settle(l.settling, h.piece, r)
		switch {
		case unknown && errors.Is(err, engine.ErrConflict):
			return nil // an earlier attempt has probably settled it
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

// finish removes a piece that has run.
func (l *Loop[T]) finish(h *held[T], failed bool) {
	name := l.cfg.Status.Name
	if l.cfg.Process != nil {
		name = l.cfg.Process(h.piece)
	}
	h.cancel(nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, h)
	l.counters.count(name, failed)
	l.nextLocked(h, failed)
}

// drop removes a piece that has not run.
func (l *Loop[T]) drop(h *held[T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropLocked(h)
	l.nextLocked(h, true)
}

// nextLocked frees the slot of a piece and starts the next one of its lane.
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

// giveBack releases pieces that did not run to their end. If that fails, the source delivers them
// again when their leases end.
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

// signal sends to a channel of capacity 1 unless the channel is full.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
