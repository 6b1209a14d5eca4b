package action

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/protocol"
)

// Store gives access to the actions of one namespace. It is cheap to create, safe for concurrent
// use and needs no Close.
type Store struct {
	scope engine.Scope
	turns atomic.Uint64 // counts the calls of Await that ask several shards
}

func newStore(s engine.Scope) *Store { return &Store{scope: s} }

// Namespace returns the namespace of the store.
func (s *Store) Namespace() string { return s.scope.Namespace() }

// Register creates an action or replaces all its settings. Settings without an option get their
// default. It returns the version, which counts registrations. Existing runs keep the timeout and
// the number of attempts they were invoked with. A disabled action stays disabled.
//
// In a spread namespace Register, Enable, Disable and Delete return when the change has reached all
// shards. If a shard is unreachable they return after about a second, and that shard receives the
// change later. Operations in transactions do not wait.
//
// Options: Owner, Description, Timeout (30 s), MaxAttempts (4), Backoff (1 s to 5 min), Retain (7
// days, 10,000 runs), MaxRunning, MaxRunningPerKey, RateLimit (none). Errors: ErrInvalid for a name
// that is not 1-255 bytes of UTF-8 without control characters, and for options out of range.
func (s *Store) Register(ctx context.Context, name string, opts ...RegisterOption) (version int, err error) {
	return tell(ctx, s, name, registerOp(name, opts), register.Decode)
}

// tell changes the registration of an action and waits until the change has reached all shards of a
// spread namespace.
func tell[T any](ctx context.Context, s *Store, name string, op engine.Op, decode func([]byte) (T, error)) (T, error) {
	res, err := engine.Propose(ctx, &s.scope, op, decode)
	if err == nil {
		engine.Agree(ctx, &s.scope, infoQuery{namespace: s.Namespace(), name: name},
			func(a, b *infoQuery) bool { return a.found == b.found && a.revision == b.revision })
	}
	return res, err
}

// Enable allows invocations of a disabled action again. Errors: ErrNotFound.
func (s *Store) Enable(ctx context.Context, name string) error {
	_, err := tell(ctx, s, name, enable.Op(name, true, nil), enable.Decode)
	return err
}

// Disable makes new invocations of an action fail with ErrConflict. Existing runs continue. Errors:
// ErrNotFound.
func (s *Store) Disable(ctx context.Context, name string) error {
	_, err := tell(ctx, s, name, enable.Op(name, false, nil), enable.Decode)
	return err
}

// Delete removes an action, its retained runs and its idempotency keys. With Force its runs are
// cancelled in the background, in batches. Until that is complete, Runs may show some of them as
// pending or running. While handlers in a shard still have cancelled runs, Runs keeps listing the
// action's runs in that shard.
//
// Options: Force, which cancels runs that have not ended. Errors: ErrNotFound; ErrConflict if there
// are such runs. In a spread namespace a run that is invoked in another shard during Delete is
// cancelled. Disable the action first if that matters.
func (s *Store) Delete(ctx context.Context, name string, opts ...DeleteOption) error {
	op, force := deleteOp(name, opts)
	if op.Err == nil && !force {
		if err := s.checkEnded(ctx, name); err != nil {
			return err
		}
	}
	_, err := tell(ctx, s, name, op, remove.Decode)
	return err
}

// checkEnded returns ErrConflict if an action of a spread namespace has active runs outside its
// home shard. The home checks its own runs.
func (s *Store) checkEnded(ctx context.Context, name string) error {
	if spread, err := s.scope.Spread(ctx); err != nil || !spread {
		return err
	}
	parts, _, err := engine.AskAll(ctx, &s.scope, infoQuery{namespace: s.Namespace(), name: name})
	if err != nil {
		return err
	}
	active := int64(0)
	for _, p := range parts {
		if p.found {
			active += p.info.Runs.Pending + p.info.Runs.Running
		}
	}
	return checkActive(name, active)
}

// checkActive returns ErrConflict if an action has runs that have not ended.
func checkActive(name string, n int64) error {
	if n == 0 {
		return nil
	}
	return engine.Errorf(ErrConflict, "action %q has %d runs that have not ended", name, n)
}

// Invoke creates a run of an action. A worker executes the run at least once, and it has one
// result. input is JSON, and nil means null; the caller may reuse it on return. When Invoke returns
// nil, the run is committed (see floe.Config.Durability). After a ctx error or ErrUnknownOutcome
// the run may or may not exist. With an IdempotencyKey the call can be repeated safely.
//
// Options: Priority, Delay, Expire, IdempotencyKey, Labels, ConcurrencyKey, and Timeout and
// MaxAttempts to override those of the action. Errors: ErrNotFound if the action is not registered;
// ErrConflict if it is disabled, or if the idempotency key was used with a different input
// (compared by bytes); ErrInvalid for an input that is not JSON or too long, and for options out of
// range.
func (s *Store) Invoke(ctx context.Context, name string, input []byte, opts ...InvokeOption) (Invoked, error) {
	op := invokeOp(name, input, opts)
	pauses := pause{d: time.Millisecond}
	for asked := 1; ; asked++ {
		i, err := engine.Propose(ctx, &s.scope, op, invokeRun.Decode)
		var misplaced *placeError
		switch {
		case errors.As(err, &misplaced):
			op.Route = misplaced.route
		case errors.Is(err, ErrNotFound) && op.Route != name: // its home may not have updated all shards yet
			op.Route = name
		default:
			return i, err
		}
		if asked > 2 && !pauses.wait(ctx) { // the shards still differ about the action
			return i, ctx.Err()
		}
	}
}

// InvokeAndWait combines Invoke and Wait: it returns the run when it has ended in any final state.
//
// The run is kept for at least 10 s, regardless of the action's retention. Options and errors are
// those of Invoke; ErrNotFound also if the action is deleted before the run has ended, and if an
// IdempotencyKey refers to an ended run that is no longer retained. After an error the run may
// still exist.
func (s *Store) InvokeAndWait(ctx context.Context, name string, input []byte, opts ...InvokeOption) (Run, error) {
	i, err := s.Invoke(ctx, name, input, append(slices.Clip(opts), awaited)...)
	if err != nil {
		return Run{}, err
	}
	return s.Wait(ctx, i.Run)
}

// awaited is the option used by InvokeAndWait.
var awaited = invokeOption(func(o *invokeOptions) { o.Awaited = true })

// Get returns a run. Errors: ErrNotFound if the run does not exist or is no longer retained;
// ErrInvalid for an invalid id.
func (l Runs) Get(ctx context.Context, id RunID) (Run, error) { return l.store.run(ctx, id, false) }

// Wait returns a run when it has ended. Errors: those of Runs.Get, ctx's error, and ErrNotFound if
// the action is deleted during the wait.
func (s *Store) Wait(ctx context.Context, id RunID) (Run, error) {
	return s.run(engine.Lasting(ctx), id, true)
}

func (s *Store) run(ctx context.Context, id RunID, wait bool) (Run, error) {
	p, err := id.parse()
	if err != nil {
		return Run{}, err
	}
	if int(p.shard) >= s.scope.NodeShards() {
		return Run{}, noRun(p.Ref, p.shard)
	}
	q := runQuery{namespace: s.Namespace(), ref: p.Ref, wait: wait}
	if err := s.scope.QueryShard(ctx, p.shard, &q); err != nil {
		return Run{}, err
	}
	if !q.found {
		return Run{}, noRun(p.Ref, p.shard)
	}
	return q.run, nil
}

// Cancel ends a run. A pending run never starts. If a handler has the run, its context is cancelled
// and its result is discarded. reason may be empty. The run is Cancelled at once; its slots in the
// action's limits become free when the handler has returned.
//
// Errors: ErrNotFound; ErrConflict if the run has ended; ErrInvalid for a reason of more than 1,024
// bytes and for an invalid id.
func (s *Store) Cancel(ctx context.Context, id RunID, reason string) error {
	_, err := engine.Propose(ctx, &s.scope, cancelOp(id, reason), cancelRun.Decode)
	return err
}

func registerOp(name string, opts []RegisterOption) engine.Op {
	o := registerOptions{spec: defaultSpec}
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyRegister(&o)
	}
	return register.Op(name, o.spec, o.err)
}

func deleteOp(name string, opts []DeleteOption) (op engine.Op, force bool) {
	opts, err := engine.Given(opts)
	for _, opt := range opts {
		opt.applyDelete(&force)
	}
	return remove.Op(name, force, err), force
}

func invokeOp(name string, input []byte, opts []InvokeOption) engine.Op {
	o := invokeOptions{Invoke: protocol.Invoke{Input: input, Priority: DefaultPriority}}
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyInvoke(&o)
	}
	op := invokeRun.Op(name, o.Invoke, o.err)
	switch op.Route = ""; {
	case engine.Tagged(name):
		op.Route = name
	case o.IdempotencyKey != "":
		op.Route = keyRoute(name, o.IdempotencyKey)
	}
	return op
}

func cancelOp(id RunID, reason string) engine.Op {
	p, err := id.parse()
	return at(p.shard, cancelRun.Op("", protocol.Cancel{Ref: p.Ref, Reason: reason}, err))
}

// routeTo routes an operation to a shard.
func routeTo(shard engine.ShardID) func(string, int) string {
	return func(namespace string, shards int) string {
		if int(shard) >= shards {
			shard = 0 // no such shard exists, as any shard can report
		}
		return engine.RouteTo(namespace, shard, shards)
	}
}

// millis converts a non-negative duration to ms, rounded up.
func millis(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Millisecond) + 1
}
