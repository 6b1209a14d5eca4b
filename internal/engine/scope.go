package engine

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Scope is a namespace as the store of a primitive uses it: access to its shards, and the size
// limit of its values. It is immutable and safe for concurrent use.
type Scope struct {
	router     *Router
	place      *Place
	maxPayload int
}

// Scope returns a namespace with a limit of maxPayload bytes for values and payloads.
func (r *Router) Scope(namespace string, maxPayload int) Scope {
	return Scope{r, r.Place(namespace), maxPayload}
}

// handle returns the store of a primitive in a namespace, and creates it if needed. Repeated calls
// return the same store, so requesting a store for each call allocates no memory. All stores of a
// primitive must have one type.
func handle[S any](r *Router, m MachineID, namespace string, maxPayload int, make func(Scope) *S) *S {
	place := r.Place(namespace)
	if h, ok := place.handles[m].Load().(made); ok && h.maxPayload == maxPayload {
		return h.store.(*S)
	}
	s := make(Scope{r, place, maxPayload})
	place.handles[m].Store(made{s, maxPayload})
	return s
}

// made is a store made by handle.
type made struct {
	store      any
	maxPayload int
}

// Shared returns the value of type T that all users of the scope's router share. make creates it if
// none exists.
func Shared[T any](s *Scope, make func() *T) *T {
	key := (*T)(nil)
	if v, ok := s.router.shared.Load(key); ok {
		return v.(*T)
	}
	v, _ := s.router.shared.LoadOrStore(key, make())
	return v.(*T)
}

// Namespace returns the name of the namespace.
func (s *Scope) Namespace() string { return s.place.namespace }

// MaxPayload returns the maximum size of values and payloads in bytes.
func (s *Scope) MaxPayload() int { return s.maxPayload }

// Other returns another namespace with the same router and limit.
func (s *Scope) Other(namespace string) Scope { return s.router.Scope(namespace, s.maxPayload) }

// Attached returns the value that the router's creator has attached for the stores behind it, such
// as an observer of worker loops, or nil.
func (s *Scope) Attached() any { return s.router.attached }

// Propose sends one operation to the shard of its name, and decodes the result. Errors: those of
// the operation, ErrInvalid for a payload that is too large and for a namespace that cannot be
// written to, those of Door.Propose.
func Propose[T any](ctx context.Context, s *Scope, op Op, decode func([]byte) (T, error)) (none T, err error) {
	cmd, err := op.Limit(s.maxPayload)
	if err != nil {
		return none, err
	}
	cmd.Namespace = s.Namespace()
	if err := CheckWritable(cmd.Namespace); err != nil {
		return none, err
	}
	result, err := s.router.Propose(ctx, op.route(cmd.Namespace, s.NodeShards()), cmd)
	if err != nil {
		return none, err
	}
	return decode(result)
}

// TakeFrom sends one take operation, and waits for an item as specified by t; see Door.Take.
func TakeFrom[T any](ctx context.Context, s *Scope, op Op, t Take, decode func([]byte) (T, error)) (none T, err error) {
	if t.Command, err = op.Limit(s.maxPayload); err != nil {
		return none, err
	}
	t.Command.Namespace = s.Namespace()
	if err := CheckWritable(t.Command.Namespace); err != nil {
		return none, err
	}
	result, err := s.router.Take(ctx, op.route(t.Command.Namespace, s.NodeShards()), t)
	if err != nil {
		return none, err
	}
	return decode(result)
}

// Query sends q to the shard of name.
func (s *Scope) Query(ctx context.Context, name string, q Query) error {
	return s.router.Query(ctx, s.Namespace(), name, q)
}

// QueryShard sends q to a shard.
func (s *Scope) QueryShard(ctx context.Context, shard ShardID, q Query) error {
	return s.router.door.Query(ctx, shard, q)
}

// Cached returns a row of a machine from memory, see CachingDoor, or false if a query is needed.
func (s *Scope) Cached(m MachineID, kind byte, name string) (row []byte, ok bool) {
	return s.router.Cached(s.place, m, kind, name)
}

// Exists reports whether the namespace exists.
func (s *Scope) Exists(ctx context.Context) (bool, error) {
	return s.router.Exists(ctx, s.Namespace())
}

// Await waits until the namespace exists.
func (s *Scope) Await(ctx context.Context) error { return s.router.Await(ctx, s.Namespace()) }

// Spread reports whether the namespace exists and is spread.
func (s *Scope) Spread(ctx context.Context) (bool, error) {
	return s.router.Spread(ctx, s.Namespace())
}

// SpreadOf is Spread for any namespace.
func (s *Scope) SpreadOf(ctx context.Context, namespace string) (bool, error) {
	return s.router.Spread(ctx, namespace)
}

// Shard returns the shard of a name.
func (s *Scope) Shard(ctx context.Context, name string) (ShardID, error) {
	return s.router.Shard(ctx, s.Namespace(), name)
}

// SpreadShard returns the shard of a name if the namespace is spread.
func (s *Scope) SpreadShard(name string) ShardID {
	return NameShard(s.Namespace(), name, s.router.door.Shards())
}

// Shards returns every shard that may hold a part of the namespace.
func (s *Scope) Shards(ctx context.Context) ([]ShardID, error) {
	return s.router.Shards(ctx, s.Namespace())
}

// NodeShards returns the number of shards of the node.
func (s *Scope) NodeShards() int { return s.router.door.Shards() }

// FanOut sends each shard its own query of parts, concurrently, and returns when all have answered.
// If any has failed, it returns one of the errors.
func FanOut[Q any, P interface {
	*Q
	Query
}](ctx context.Context, s *Scope, shards []ShardID, parts []P) error {
	errs := make([]error, len(shards))
	s.Each(len(shards), func(i int) { errs[i] = s.QueryShard(ctx, shards[i], parts[i]) })
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Each calls f for 0 to n-1, concurrently if the door supports it, and returns when all calls have
// returned.
func (s *Scope) Each(n int, f func(i int)) {
	if n == 1 || s.router.serial != nil {
		for i := range n {
			f(i)
		}
		return
	}
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() { f(i) })
	}
	calls.Wait()
}

// passTime bounds PassOn.
const passTime = time.Second

// remindQuery wakes the next waiters for claimed items of a shard; see View.Claim.
type remindQuery struct{ namespace string }

// OfLeader makes the query require the role write, because it wakes other waiters.
func (*remindQuery) OfLeader() {}

func (*remindQuery) Machine() MachineID { return machineEngine }

// PassOn is for a caller that waited in several shards and takes from one of them. The items that
// the other shards may have offered pass to their next waiters. It does not wait for the shards.
func (s *Scope) PassOn(ctx context.Context, shards []ShardID) {
	if len(shards) == 0 {
		return
	}
	pass := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), passTime)
		defer cancel()
		s.Each(len(shards), func(i int) {
			// A shard that does not receive it wakes its waiters a little later anyway.
			_ = s.QueryShard(ctx, shards[i], &remindQuery{s.Namespace()})
		})
	}
	if s.router.serial != nil {
		pass()
	} else {
		go pass()
	}
}

// AskAll sends all shards of the namespace the same query concurrently, and returns their answers.
func AskAll[Q any, P interface {
	*Q
	Query
}](ctx context.Context, s *Scope, q Q) (parts []P, shards []ShardID, err error) {
	if shards, err = s.Shards(ctx); err != nil {
		return nil, nil, err
	}
	for range shards {
		part := q
		parts = append(parts, &part)
	}
	return parts, shards, FanOut(ctx, s, shards, parts)
}

// Settled polls this many times, with pauses of up to this length: about a second in total.
const (
	maxSettled   = 100
	settledPause = 10 * time.Millisecond
)

// Settled polls until done returns true. It gives up after about a second, or when ctx ends. An
// unreachable shard catches up later.
func (s *Scope) Settled(ctx context.Context, done func() bool) {
	for n := 0; n < maxSettled && !done(); n++ {
		if s.Pause(ctx, min(settledPause, time.Millisecond<<min(n, 4))) != nil {
			return
		}
	}
}

// Pause returns when d has passed, or with the error of ctx. In a simulation, simulated time
// passes.
func (s *Scope) Pause(ctx context.Context, d time.Duration) error {
	if s.router.serial != nil {
		return s.router.serial.Pause(ctx, d)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Agree waits until all shards of a spread namespace have the same version of an object that its
// home shard broadcasts. The caller's next operation then sees the change in any shard. It gives up
// when Settled does.
func Agree[Q any, P interface {
	*Q
	Query
}](ctx context.Context, s *Scope, q Q, same func(a, b P) bool) {
	if spread, err := s.Spread(ctx); err != nil || !spread {
		return
	}
	s.Settled(ctx, func() bool {
		parts, _, err := AskAll[Q, P](ctx, s, q)
		return err != nil || !slices.ContainsFunc(parts, func(p P) bool { return !same(parts[0], p) })
	})
}
