package workflow

import (
	"context"
	"errors"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/flow"
	"github.com/floedb/floe/internal/protocol"
)

// Store holds the workflows of one namespace. It is cheap to make, safe for concurrent use and
// needs no Close.
type Store struct{ scope engine.Scope }

func newStore(s engine.Scope) *Store { return &Store{s} }

// Namespace returns the namespace of the store.
func (s *Store) Namespace() string { return s.scope.Namespace() }

// Created says what Create has done.
type Created struct {
	Name      string
	Version   string
	Unchanged bool   // the version was there before, with this very definition
	Versions  int    // how many there are now that can be started: 1 for a new workflow
	LSN       uint64 // log sequence number of the call
}

// Create makes a workflow known, or another version of one: it is the default one for runs that
// start from now on; those that run keep theirs. definition is YAML or JSON, see the package's
// documentation. One that is there already changes nothing, so that programs may create theirs
// whenever they start.
//
// Create, Enable, Disable and Delete return when all shards of a spread namespace know what has
// changed, and Create and Enable when the trigger, if there is one, no longer is TriggerStarting;
// or after about a second if a shard can not be reached: it hears of that later. Operations in
// transactions do not wait.
//
// Errors: ErrInvalid, a *DefinitionError, for a definition with mistakes; ErrExists if the version
// is there with another definition; ErrInvalid for one of more than MaxDefinition bytes, and for a
// workflow with MaxVersions versions.
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

// heard waits until all shards of a spread namespace know of a workflow what its home does, and
// those of a stream of the trigger.
func (s *Store) heard(ctx context.Context, name string) {
	engine.Agree(ctx, &s.scope, infoQuery{namespace: s.Namespace(), name: name},
		func(a, b *infoQuery) bool { return a.found == b.found && a.revision == b.revision })
	s.scope.Settled(ctx, func() bool {
		info, err := s.Get(ctx, name)
		return err != nil || info.Trigger == nil || info.Trigger.State != TriggerStarting
	})
}

// Enable lets a disabled workflow be started again. Errors: ErrNotFound.
func (s *Store) Enable(ctx context.Context, name string) error {
	return s.use(ctx, name, true)
}

// Disable refuses starts of a workflow from now on, with ErrConflict, and pauses its schedule and
// trigger. What was started before goes on. Errors: ErrNotFound.
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

// DeleteOption changes what Delete does.
type DeleteOption interface{ applyDelete(force *bool) }

type forceOption struct{}

func (forceOption) applyDelete(force *bool) { *force = true }

// Force deletes a workflow also if runs of it are active: they go on.
func Force() DeleteOption { return forceOption{} }

// Delete removes a workflow with all its versions. Its ended runs stay for as long as they would
// have. In a spread namespace a run that is started at the same time may be missed: then it goes
// on, as if the call had Force.
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

// checkIdle refuses the deletion of a workflow with active runs in any shard of a spread namespace:
// its home knows of its own alone.
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

// StartOption says something of a run that is started.
type StartOption interface{ applyStart(*startBody) }

type startOption func(*startBody)

func (f startOption) applyStart(b *startBody) { f(b) }

// Version sets which version of the workflow runs; the default is its default one, which "latest"
// means too.
func Version(v string) StartOption { return startOption(func(b *startBody) { b.version = v }) }

// IdempotencyKey makes repeated starts one: a start with a key that was used before, and the same
// input, returns the run of then, for as long as that is kept. The key has up to 1,024 bytes.
// Inputs are compared byte by byte, so different whitespace makes a different input. In a spread
// namespace a start takes a key or UseID, not both: each says in which shard the run is.
func IdempotencyKey(key string) StartOption {
	return startOption(func(b *startBody) { b.key = []byte(key) })
}

// UseID sets the id of the run: 1-255 bytes of UTF-8 that do not begin with "wfr-". Another run may
// not have it, for as long as one is kept. In a spread namespace a start takes an id or
// IdempotencyKey, not both.
func UseID(id RunID) StartOption { return startOption(func(b *startBody) { b.id = string(id) }) }

// Started says which run a start has made.
type Started struct {
	Run       RunID
	Status    Status // when the start was taken; what its first step calls may be refused right behind it, which Runs().Get shows
	Duplicate bool   // the IdempotencyKey was used before, with the same input: Run is that of then
	LSN       uint64 // log sequence number of the call
}

// Start starts a run of a workflow. input is JSON, nil means null; it may be reused on return. When
// Start returns nil the run is committed (see floe.Config.Durability), and its first step is under
// way. After a ctx error or ErrUnknownOutcome there may or may not be one: with an IdempotencyKey
// or UseID the call can be repeated without harm.
//
// Options: Version, IdempotencyKey, UseID. Errors: ErrNotFound if there is no such workflow or
// version; ErrConflict if it is disabled, or the idempotency key was used with another input;
// ErrExists if a run has the id; ErrInvalid for an input that is no JSON, too long, or not as the
// definition's input_schema says, and for both IdempotencyKey and UseID in a spread namespace.
func (s *Store) Start(ctx context.Context, name string, input []byte, opts ...StartOption) (Started, error) {
	op := startOp(name, input, opts)
	res, err := engine.Propose(ctx, &s.scope, op, decodeStarted)
	if errors.Is(err, ErrNotFound) && op.Route == "" { // its home may not have told all shards yet
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

// How often, and after which pause, a start is tried again whose key binds it to a shard that has
// not heard of the workflow yet.
const (
	maxHeard   = 100
	heardPause = 10 * time.Millisecond
)

// unheard reports whether the home of a workflow of a spread namespace knows it, after a pause in
// which others hear of it.
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

// StartAndWait is Start and Wait: it returns the run when it has ended, however it has. Options and
// errors are those of Start.
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

// Wait returns a run when it has ended. However little its workflow retains, it is kept for 10 s at
// least. Errors: those of Runs.Get, and ctx's.
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

// aim returns what a run is called in its shard. Errors: ErrInvalid, ErrNotFound.
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

// Signal tells a run something: the step that waits for a signal of the type goes on, or, if none
// does, the signal is kept until one does. payload is JSON, nil means null. It returns the state of
// the run after it.
//
// A payload must match the schema that the definition declares for the type, and that of the step
// that waits for it. If none does, it must match that of at least one step of the definition that
// waits for the type, if there are any; each step takes the oldest signal kept that matches its own
// schema, and leaves others where they are.
//
// Errors: ErrNotFound; ErrConflict if the run has ended; ErrBusy if MaxSignals or MaxSignalBytes
// are kept already; ErrInvalid for a payload that is no JSON, too long, or does not match.
func (s *Store) Signal(ctx context.Context, id RunID, signal string, payload []byte) (Status, error) {
	return s.change(ctx, signalOp(id, signal, payload), id)
}

// Cancel ends a run: what it waits for is cancelled, and what it has done is compensated as its
// definition says, during which it is still Running. reason may be empty. It returns the state of
// the run after it.
//
// Errors: ErrNotFound; ErrConflict if the run has ended, or is being compensated; ErrInvalid for a
// reason of more than 1,024 bytes and for what is no id.
func (s *Store) Cancel(ctx context.Context, id RunID, reason string) (Status, error) {
	return s.change(ctx, cancelOp(id, reason), id)
}

// RetryOption changes what Retry does.
type RetryOption interface{ applyRetry(*retryBody) }

type retryOption func(*retryBody)

func (f retryOption) applyRetry(b *retryBody) { f(b) }

// FromStep sets the step from which the run goes on; the default is the one that has failed.
func FromStep(step string) RetryOption { return retryOption(func(b *retryBody) { b.step = step }) }

// ReplaceInput sets the input of the step, as JSON; the default is what the definition says.
func ReplaceInput(input []byte) RetryOption {
	return retryOption(func(b *retryBody) { b.input = orNull(input) })
}

// Retry makes a run that has failed or timed out go on from the step that has failed: its history
// goes on too. What the step calls sees the idempotency key of its last visit, unless it gets
// another input, or what that visit has done was compensated: then it has to be done anew, under
// the key of the new visit. It returns the state of the run after it.
//
// Options: FromStep, ReplaceInput. Errors: ErrNotFound; ErrConflict if the run has not failed, was
// never at the step, or what steps before it have done was compensated; ErrInvalid for a step that
// the definition does not have, and for an input that is no JSON.
func (s *Store) Retry(ctx context.Context, id RunID, opts ...RetryOption) (Status, error) {
	return s.change(ctx, retryOp(id, opts), id)
}

func (s *Store) change(ctx context.Context, op engine.Op, id RunID) (Status, error) {
	if _, err := s.aim(id); err != nil {
		return 0, err
	}
	return engine.Propose(ctx, &s.scope, op, decodeChanged)
}

// of returns what the creation of a version has done.
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

// runOp makes an operation about a run.
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

// routeTo routes what is about something in a shard.
func routeTo(shard engine.ShardID) func(string, int) string {
	return func(namespace string, shards int) string {
		if int(shard) >= shards {
			shard = 0 // there is no such thing, as any shard can tell
		}
		return engine.RouteTo(namespace, shard, shards)
	}
}

// Problem is something that is wrong with a definition.
type Problem struct {
	Line     int
	Severity Severity
	Code     string // what kind of problem it is, such as "unknown-key"
	Message  string
}

// Severity says whether a definition can be created all the same.
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

// Validate returns what is wrong with a definition, in the order of its lines; nothing if all is
// well. It asks no node: that an action exists is not checked.
func Validate(definition []byte) []Problem {
	_, problems := flow.Parse(definition)
	return problemsOf(problems)
}

// DefinitionNamespace returns the namespace that a definition names, "" if it names none. Errors:
// *DefinitionError.
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
