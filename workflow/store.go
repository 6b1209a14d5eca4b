package workflow

import (
	"context"
	"errors"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/protocol"
)

// Store gives access to the workflows of one namespace. It is cheap to create, safe for concurrent
// use and needs no Close.
type Store struct{ scope engine.Scope }

func newStore(s engine.Scope) *Store { return &Store{s} }

// Namespace returns the namespace of the store.
func (s *Store) Namespace() string { return s.scope.Namespace() }

// Created is the result of Create.
type Created struct {
	Name      string
	Version   string
	Unchanged bool   // the version already exists with the same definition
	Versions  int    // number of startable versions: 1 for a new workflow
	LSN       uint64 // log sequence number of the call
}

// Create creates a workflow or a new version of one. The new version becomes the default for new
// runs; active runs keep theirs. definition is YAML or JSON; see the package documentation.
// Creating an existing version again has no effect, so programs may call Create at every start.
//
// Create, Enable, Disable and Delete return when the change has reached all shards of a spread
// namespace. Create and Enable also wait until the trigger, if any, is no longer TriggerStarting.
// If a shard is unreachable they return after about a second, and that shard receives the change
// later. Operations in transactions do not wait.
//
// Errors: ErrInvalid, a *DefinitionError, for a definition with mistakes; ErrExists if the version
// exists with another definition; ErrInvalid for a definition of more than MaxDefinition bytes, and
// for a workflow with MaxVersions versions.
func (s *Store) Create(ctx context.Context, definition []byte) (Created, error) {
	c, err := compile(definition)
	if err != nil {
		return Created{}, err
	}
	if err := c.isFor(s.Namespace()); err != nil {
		return Created{}, err
	}
	made, err := create.Do(ctx, &s.scope, c.name, c, nil)
	if err != nil {
		return Created{}, err
	}
	s.heard(ctx, c.name)
	return made.of(&c), nil
}

// heard waits until all shards of a spread namespace have the current state of a workflow, and the
// shards of the trigger's stream have its subscription.
func (s *Store) heard(ctx context.Context, name string) {
	engine.Agree(ctx, &s.scope, infoQuery{namespace: s.Namespace(), name: name},
		func(a, b *infoQuery) bool { return a.found == b.found && a.revision == b.revision })
	s.scope.Settled(ctx, func() bool {
		info, err := s.Get(ctx, name)
		return err != nil || info.Trigger == nil || info.Trigger.State != TriggerStarting
	})
}

// Enable allows starts of a disabled workflow again. Errors: ErrNotFound.
func (s *Store) Enable(ctx context.Context, name string) error {
	return s.use(ctx, name, true)
}

// Disable makes new starts of a workflow fail with ErrConflict, and pauses its schedule and
// trigger. Active runs continue. Errors: ErrNotFound.
func (s *Store) Disable(ctx context.Context, name string) error {
	return s.use(ctx, name, false)
}

func (s *Store) use(ctx context.Context, name string, enabled bool) error {
	_, err := enable.Do(ctx, &s.scope, name, enabled, nil)
	if err == nil {
		s.heard(ctx, name)
	}
	return err
}

// DeleteOption is an option of Delete.
type DeleteOption interface{ applyDelete(force *bool) }

type forceOption struct{}

func (forceOption) applyDelete(force *bool) { *force = true }

// Force deletes a workflow even if it has active runs, which continue.
func Force() DeleteOption { return forceOption{} }

// Delete removes a workflow with all its versions. Its ended runs keep their retention. In a spread
// namespace Delete may miss a run that is started at the same time. That run then continues, as
// with Force.
//
// Options: Force. Errors: ErrNotFound; ErrConflict if there are active runs.
func (s *Store) Delete(ctx context.Context, name string, opts ...DeleteOption) error {
	force, err := forced(opts)
	if err != nil {
		return err
	}
	if !force {
		if err := s.checkIdle(ctx, name); err != nil {
			return err
		}
	}
	_, err = remove.Do(ctx, &s.scope, name, force, nil)
	if err == nil {
		s.heard(ctx, name)
	}
	return err
}

func forced(opts []DeleteOption) (force bool, err error) {
	opts, err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyDelete(&force)
	}
	return force, err
}

// checkIdle returns an error if a workflow has active runs in any shard of a spread namespace. The
// home itself checks only its own runs.
func (s *Store) checkIdle(ctx context.Context, name string) error {
	if spread, err := s.scope.Spread(ctx); err != nil || !spread {
		return err
	}
	info, err := s.Get(ctx, name)
	if err != nil {
		return err
	}
	if n := info.Runs.Active; n > 0 {
		return engine.Errorf(ErrConflict, "workflow %q has %d active runs", name, n)
	}
	return nil
}

// StartOption is an option of Start.
type StartOption interface{ applyStart(*startBody) }

type startOption func(*startBody)

func (f startOption) applyStart(b *startBody) { f(b) }

// Version sets the version of the workflow to run; the default is its default version, also named
// "latest".
func Version(v string) StartOption { return startOption(func(b *startBody) { b.version = v }) }

// IdempotencyKey prevents duplicate starts: a start with a key and input that were used before
// returns the earlier run, as long as it is retained. The key has up to 1,024 bytes. Inputs are
// compared byte by byte, so whitespace matters. In a spread namespace a start takes a key or UseID,
// but not both, because each determines the shard of the run.
func IdempotencyKey(key string) StartOption {
	return startOption(func(b *startBody) { b.key = []byte(key) })
}

// UseID sets the id of the run: 1-255 bytes of UTF-8 that do not begin with "wfr-". It must be
// unique among retained runs. In a spread namespace a start takes an id or IdempotencyKey, but not
// both.
func UseID(id RunID) StartOption { return startOption(func(b *startBody) { b.id = string(id) }) }

// Started is the result of a start.
type Started struct {
	Run       RunID
	Status    Status // on return; calls of the first step may be rejected right afterwards, which Runs().Get shows
	Duplicate bool   // the IdempotencyKey was used before with the same input: Run is the earlier run
	LSN       uint64 // log sequence number of the call
}

// Start starts a run of a workflow. input is JSON, and nil means null; the caller may reuse it on
// return. When Start returns nil, the run is committed (see floe.Config.Durability) and its first
// step has begun. After a ctx error or ErrUnknownOutcome the run may or may not exist. With an
// IdempotencyKey or UseID the call can be repeated safely.
//
// Options: Version, IdempotencyKey, UseID. Errors: ErrNotFound if there is no such workflow or
// version; ErrConflict if it is disabled, or the idempotency key was used with another input;
// ErrExists if a run has the id; ErrInvalid for an input that is not JSON, is too long or does not
// match the definition's input_schema, and for both IdempotencyKey and UseID in a spread namespace.
func (s *Store) Start(ctx context.Context, name string, input []byte, opts ...StartOption) (Started, error) {
	op := startOp(name, input, opts)
	res, err := engine.Propose(ctx, &s.scope, op, decodeStarted)
	if errors.Is(err, ErrNotFound) && op.Route == "" { // its home may not have updated all shards yet
		op.Route = name
		return engine.Propose(ctx, &s.scope, op, decodeStarted)
	}
	for range maxHeard {
		if !errors.Is(err, ErrNotFound) || !s.unheard(ctx, name) {
			break
		}
		res, err = engine.Propose(ctx, &s.scope, op, decodeStarted)
	}
	return res, err
}

// The number of retries, and the pause before each, of a start whose key requires a shard that has
// not received the workflow yet.
const (
	maxHeard   = 100
	heardPause = 10 * time.Millisecond
)

// unheard pauses so that the other shards of a spread namespace can receive a workflow. It reports
// whether the workflow exists at its home.
func (s *Store) unheard(ctx context.Context, name string) bool {
	if spread, err := s.scope.Spread(ctx); err != nil || !spread {
		return false
	}
	q := infoQuery{namespace: s.Namespace(), name: name}
	if err := s.scope.Query(ctx, name, &q); err != nil || !q.found {
		return false
	}
	return s.scope.Pause(ctx, heardPause) == nil
}

// StartAndWait combines Start and Wait: it returns the run when it has ended in any final state.
// Options and errors are those of Start.
func (s *Store) StartAndWait(ctx context.Context, name string, input []byte, opts ...StartOption) (Run, error) {
	r, err := s.Start(ctx, name, input, opts...)
	if err != nil {
		return Run{}, err
	}
	return s.Wait(ctx, r.Run)
}

// Get returns a run. Errors: ErrNotFound if the namespace has no such run or no longer retains it;
// ErrInvalid for an invalid id.
func (l Runs) Get(ctx context.Context, id RunID) (Run, error) { return l.store.run(ctx, id, false) }

// Wait returns a run when it has ended. The run is kept for at least 10 s, regardless of its
// workflow's retention. Errors: those of Runs.Get, and ctx's error.
func (s *Store) Wait(ctx context.Context, id RunID) (Run, error) {
	return s.run(engine.Lasting(ctx), id, true)
}

func (s *Store) run(ctx context.Context, id RunID, wait bool) (Run, error) {
	t, err := s.aim(id)
	if err != nil {
		return Run{}, err
	}
	q := runQuery{namespace: s.Namespace(), target: t, wait: wait}
	if err := s.ask(ctx, id, &q); err != nil {
		return Run{}, err
	}
	if !q.found {
		return Run{}, noRun(id)
	}
	return q.run, nil
}

// aim returns the shard and target of a run's id. Errors: ErrInvalid, ErrNotFound.
func (s *Store) aim(id RunID) (t target, err error) {
	if !id.own() {
		return target{id: string(id)}, checkRunID(string(id))
	}
	p, err := id.parse()
	if err != nil {
		return t, err
	}
	if p.namespace != s.Namespace() || int(p.shard) >= s.scope.NodeShards() {
		return t, noRun(id)
	}
	return target{number: number{p.run, p.tag}}, nil
}

// ask sends a query to the shard of a run.
func (s *Store) ask(ctx context.Context, id RunID, q engine.Query) error {
	if p, err := id.parse(); err == nil {
		return s.scope.QueryShard(ctx, p.shard, q)
	}
	return s.scope.Query(ctx, string(id), q)
}

// Signal sends a signal to a run. A step that waits for a signal of the type continues; otherwise
// the signal is kept until a step waits for it. payload is JSON, and nil means null. Signal returns
// the new state of the run.
//
// A payload must match the schema that the definition declares for the type, and that of the step
// that waits for it. If no step is waiting, it must match the schema of at least one of the
// definition's steps that wait for the type, if there are any. Each step takes the oldest pending
// signal that matches its own schema and leaves the others.
//
// Errors: ErrNotFound; ErrConflict if the run has ended; ErrBusy if MaxSignals or MaxSignalBytes
// are already pending; ErrInvalid for a payload that is not JSON, is too long, or does not match.
func (s *Store) Signal(ctx context.Context, id RunID, signal string, payload []byte) (Status, error) {
	return s.change(ctx, signalOp(id, signal, payload), id)
}

// Cancel ends a run. It cancels the pending call or wait and compensates the run as defined;
// meanwhile the run is still Running. reason may be empty. Cancel returns the new state of the run.
//
// Errors: ErrNotFound; ErrConflict if the run has ended or is compensating; ErrInvalid for a reason
// of more than 1,024 bytes and for an invalid id.
func (s *Store) Cancel(ctx context.Context, id RunID, reason string) (Status, error) {
	return s.change(ctx, cancelOp(id, reason), id)
}

// RetryOption is an option of Retry.
type RetryOption interface{ applyRetry(*retryBody) }

type retryOption func(*retryBody)

func (f retryOption) applyRetry(b *retryBody) { f(b) }

// FromStep sets the step from which the run continues; the default is the failed step.
func FromStep(step string) RetryOption { return retryOption(func(b *retryBody) { b.step = step }) }

// ReplaceInput sets the input of the step, as JSON; the default is the input in the definition.
func ReplaceInput(input []byte) RetryOption {
	return retryOption(func(b *retryBody) { b.input = orNull(input) })
}

// Retry continues a run that has failed or timed out from the failed step; its history continues
// too. The step's calls reuse the idempotency key of its last visit. They use the key of the new
// visit if the step gets another input or if the last visit was compensated, because the work must
// then be done again. Retry returns the new state of the run.
//
// Options: FromStep, ReplaceInput. Errors: ErrNotFound; ErrConflict if the run has not failed,
// never reached the step, or has compensated steps before it; ErrInvalid for a step that the
// definition does not have, and for an input that is not JSON.
func (s *Store) Retry(ctx context.Context, id RunID, opts ...RetryOption) (Status, error) {
	return s.change(ctx, retryOp(id, opts), id)
}

func (s *Store) change(ctx context.Context, op engine.Op, id RunID) (Status, error) {
	if _, err := s.aim(id); err != nil {
		return 0, err
	}
	return engine.Propose(ctx, &s.scope, op, decodeChanged)
}

// of returns the result of creating a version.
func (v *created) of(b *createBody) Created {
	return Created{b.name, b.version, v.unchanged, int(v.versions), v.lsn}
}

func decodeStarted(b []byte) (Started, error) {
	v, err := start.Decode(b)
	return Started{v.name(), v.status, v.duplicate, v.lsn}, err
}

func decodeChanged(b []byte) (Status, error) {
	v, err := signal.Decode(b)
	return v.status, err
}

func startOp(name string, input []byte, opts []StartOption) engine.Op {
	var route string
	op := start.Make(name, func(b *startBody) error {
		b.input = input
		opts, err := engine.Given(opts)
		for _, opt := range opts {
			opt.applyStart(b)
		}
		if route = b.id; b.id == "" && len(b.key) > 0 {
			route = protocol.BatchRoute(name, string(b.key))
		}
		return err
	})
	op.Route = route
	op.Decode = func(b []byte) (any, error) { return decodeStarted(b) }
	return op
}

// runOp returns an operation on a run.
func runOp[B any](row *engine.CommandRow[*work, B, changed], id RunID, fill func(*B, number) error) engine.Op {
	var p runLocation
	var err error
	given := string(id)
	if id.own() {
		given = ""
		p, err = id.parse()
	} else {
		err = checkRunID(given)
	}
	op := row.Make(given, func(b *B) error {
		if err != nil {
			return err
		}
		return fill(b, number{p.run, p.tag})
	})
	op.Route = string(id)
	if id.own() && err == nil {
		op.RouteTo = routeTo(p.shard)
	}
	op.Decode = func(b []byte) (any, error) { return decodeChanged(b) }
	return op
}

func signalOp(id RunID, kind string, payload []byte) engine.Op {
	return runOp(signal, id, func(b *signalBody, of number) error {
		*b = signalBody{of, kind, payload}
		return nil
	})
}

func cancelOp(id RunID, reason string) engine.Op {
	return runOp(cancel, id, func(b *cancelBody, of number) error {
		*b = cancelBody{of, []byte(reason)}
		return nil
	})
}

func retryOp(id RunID, opts []RetryOption) engine.Op {
	return runOp(retry, id, func(b *retryBody, of number) error {
		b.number = of
		opts, err := engine.Given(opts)
		for _, opt := range opts {
			opt.applyRetry(b)
		}
		return err
	})
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

// Problem is a mistake in a definition.
type Problem struct {
	Line     int
	Severity Severity
	Code     string // type of problem, such as "unknown-key"
	Message  string
}

// Severity is whether a problem prevents the creation of a definition.
type Severity uint8

// The severities.
const (
	Warning Severity = iota + 1
	Error
)

// String returns "warning" or "error".
func (s Severity) String() string {
	switch s {
	case Warning:
		return "warning"
	case Error:
		return "error"
	}
	return "unknown"
}

// Validate returns the problems of a definition in the order of its lines, or none if it is valid.
// It does not contact a node, so it does not check that actions exist.
func Validate(definition []byte) []Problem {
	_, problems := flow.Parse(definition)
	return problemsOf(problems)
}

// DefinitionNamespace returns the namespace in a definition, "" if none. Errors: *DefinitionError.
func DefinitionNamespace(definition []byte) (string, error) {
	c, err := compile(definition)
	return c.namespace, err
}

func problemsOf(problems []flow.Problem) (all []Problem) {
	for _, p := range problems {
		severity := Warning
		if p.Severity == flow.Error {
			severity = Error
		}
		all = append(all, Problem{p.Line, severity, p.Code, p.Message})
	}
	return all
}
