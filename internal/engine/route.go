package engine

import (
	"context"
	"errors"
	"math/bits"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
)

// GlobalShard holds the data without a namespace, see Primitive.Global.
const GlobalShard ShardID = 0

// HomeShard returns the shard that holds the record of a namespace and, unless it is spread,
// everything in it.
func HomeShard(namespace string, shards int) ShardID {
	return ShardID(xxhash.Sum64String(namespace) % uint64(shards))
}

// NameShard returns the shard of a key, queue, stream partition ... of a spread namespace. If the
// name contains a {tag}, only the text between the first opening brace and the next closing one is
// hashed, so names with a common tag share a shard. The rule is that of Redis Cluster; an empty {}
// is not a tag.
func NameShard(namespace, name string, shards int) ShardID {
	return shardOf(xxhash.Sum64String(namespace), xxhash.Sum64String(tagOf(name)), shards)
}

// RouteTo returns a name that routes to a shard in a spread namespace.
func RouteTo(namespace string, shard ShardID, shards int) string {
	for i := 0; ; i++ {
		if name := strconv.Itoa(i); NameShard(namespace, name, shards) == shard {
			return name
		}
	}
}

// Tagged reports whether a name contains a {tag}.
func Tagged(name string) bool { return len(tagOf(name)) != len(name) }

func tagOf(name string) string {
	if _, after, ok := strings.Cut(name, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			return tag
		}
	}
	return name
}

// shardOf places a name by its hash and that of its namespace, so that equal names in different
// namespaces are spread.
func shardOf(namespace, name uint64, shards int) ShardID {
	return ShardID((name ^ bits.RotateLeft64(namespace, 32)) % uint64(shards))
}

// Router finds the shards of a namespace and passes commands and queries to them through a Door. It
// caches a Place for each namespace that exists or was deleted: the placement, which cannot change,
// and other data that is expensive to find.
type Router struct {
	door    Door
	caching CachingDoor // door, if it is one
	serial  SerialDoor  // door, if it is one

	attached any // see Attach

	shared   sync.Map      // see Shared
	places   sync.Map      // name -> *Place of namespaces known to exist: read by each call, on all processors
	anywhere atomic.Uint64 // counts items that may go to any shard

	mu    sync.Mutex // guards count, and additions
	count int        // of places, at most maxRemembered
}

// maxRemembered limits the Router's memory to about 10 MiB. Beyond it an arbitrary namespace is
// evicted, and looked up again when it is used.
const maxRemembered = 10_000

// SerialDoor is a Door for one goroutine, as in simulations: shards are queried one after the other
// instead of concurrently, and the door decides when time has passed.
type SerialDoor interface {
	Door
	// Pause returns when d has passed, or with the error of ctx.
	Pause(ctx context.Context, d time.Duration) error
}

// NewRouter returns a Router over door.
func NewRouter(door Door) *Router {
	r := &Router{door: door}
	r.caching, _ = door.(CachingDoor)
	r.serial, _ = door.(SerialDoor)
	return r
}

// Attach passes a value to the stores behind the router, see Scope.Attached. It must be called
// before any store exists.
func (r *Router) Attach(v any) { r.attached = v }

// Door returns the door below.
func (r *Router) Door() Door { return r.door }

// known returns the place of a namespace that is known to exist, or nil.
func (r *Router) known(namespace string) *Place {
	p, _ := r.places.Load(namespace)
	place, _ := p.(*Place)
	return place
}

// note records that the namespace exists.
func (r *Router) note(namespace string, spread bool) {
	p := r.newPlace(namespace)
	p.settle(spread)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count == maxRemembered {
		for name := range r.places.Range {
			r.places.Delete(name)
			r.count--
			break
		}
	}
	if _, had := r.places.LoadOrStore(namespace, p); !had {
		r.count++
	}
}

// Spread reports whether the namespace exists and is spread.
func (r *Router) Spread(ctx context.Context, namespace string) (bool, error) {
	if p := r.known(namespace); p != nil {
		return p.spread(), nil
	}
	return r.askPlacement(ctx, namespace)
}

func (r *Router) askPlacement(ctx context.Context, namespace string) (bool, error) {
	if err := CheckName("namespace", namespace); err != nil {
		return false, err
	}
	q := NamespaceQuery{Name: namespace}
	if err := r.door.Query(ctx, HomeShard(namespace, r.door.Shards()), &q); err != nil {
		return false, err
	}
	if q.Found {
		r.note(namespace, q.Info.Spread)
	}
	return q.Found && q.Info.Spread, nil
}

// Exists reports whether the namespace exists. It does not use the cache, whose entry stays when
// the namespace is deleted.
func (r *Router) Exists(ctx context.Context, namespace string) (bool, error) {
	if err := CheckName("namespace", namespace); err != nil {
		return false, err
	}
	q := NamespaceQuery{Name: namespace}
	err := r.door.Query(ctx, HomeShard(namespace, r.door.Shards()), &q)
	return q.Found, err
}

// Await waits until the namespace exists. Before that, the shard of its contents is unknown.
func (r *Router) Await(ctx context.Context, namespace string) error {
	if r.known(namespace) != nil {
		return nil
	}
	if err := CheckName("namespace", namespace); err != nil {
		return err
	}
	q := NamespaceQuery{Name: namespace, Wait: true}
	return r.door.Query(ctx, HomeShard(namespace, r.door.Shards()), &q)
}

// Shard returns the shard of a name in the namespace.
func (r *Router) Shard(ctx context.Context, namespace, name string) (ShardID, error) {
	spread, err := r.Spread(ctx, namespace)
	return r.place(namespace, name, spread), err
}

// place returns the shard of a name. An item that can be in any shard of a spread namespace has no
// name. Such items go to the shards in turn.
func (r *Router) place(namespace, name string, spread bool) ShardID {
	if spread && name == "" {
		return ShardID(r.anywhere.Add(1) % uint64(r.door.Shards()))
	}
	if spread {
		return NameShard(namespace, name, r.door.Shards())
	}
	return HomeShard(namespace, r.door.Shards())
}

// Shards returns every shard that may hold a part of the namespace.
func (r *Router) Shards(ctx context.Context, namespace string) ([]ShardID, error) {
	spread, err := r.Spread(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if !spread {
		return []ShardID{HomeShard(namespace, r.door.Shards())}, nil
	}
	all := make([]ShardID, r.door.Shards())
	for i := range all {
		all[i] = ShardID(i)
	}
	return all, nil
}

// Place caches the placement of a namespace, for frequent readers. It is safe for concurrent use.
type Place struct {
	namespace string
	placement atomic.Int32              // unknown until the namespace exists
	hash      uint64                    // of the namespace
	shards    []atomic.Pointer[placed]  // by shard
	handles   [maxMachines]atomic.Value // of type made: the latest store of each machine, see handle
}

// Placements of a namespace.
const (
	unknownPlacement = iota
	atHome
	spreadOut
)

// placed is the namespace as seen by one executor.
type placed struct {
	x        *Executor
	restored int64
	ns       *namespace
}

// Place returns the place of a namespace. It is always the same one once the namespace is known to
// exist.
func (r *Router) Place(namespace string) *Place {
	if p := r.known(namespace); p != nil {
		return p
	}
	return r.newPlace(namespace)
}

func (r *Router) newPlace(namespace string) *Place {
	p := &Place{namespace: namespace}
	if r.caching != nil {
		p.hash, p.shards = xxhash.Sum64String(namespace), make([]atomic.Pointer[placed], r.door.Shards())
	}
	return p
}

func (p *Place) settle(spread bool) {
	if spread {
		p.placement.Store(spreadOut)
	} else {
		p.placement.Store(atHome)
	}
}

func (p *Place) spread() bool { return p.placement.Load() == spreadOut }

// at returns the namespace in x, or nil if it is not there.
func (p *Place) at(x *Executor) *namespace {
	ref := &p.shards[x.shard]
	if at := ref.Load(); at != nil && at.x == x && at.restored == x.dir.restored.Load() {
		return at.ns
	}
	restored := x.dir.restored.Load()
	ns := x.dir.visible(p.namespace)
	if ns != nil {
		ref.Store(&placed{x, restored, ns})
	}
	return ns
}

// Cached returns a row from memory, see CachingDoor, or false if a query is needed.
func (r *Router) Cached(p *Place, m MachineID, kind byte, name string) (row []byte, ok bool) {
	if r.caching == nil {
		return nil, false
	}
	placement := p.placement.Load()
	if placement == unknownPlacement { // when the handle was made
		known := r.known(p.namespace)
		if known == nil {
			return nil, false
		}
		placement = known.placement.Load()
		p.placement.Store(placement)
	}
	hash := xxhash.Sum64String(name)
	shard := ShardID(p.hash % uint64(len(p.shards)))
	if placement == spreadOut {
		tagged := hash
		if tag := tagOf(name); len(tag) != len(name) {
			tagged = xxhash.Sum64String(tag)
		}
		shard = shardOf(p.hash, tagged, len(p.shards))
	}
	return r.caching.Cached(shard, p, m, kind, name, hash)
}

// Query sends q to the shard of name.
func (r *Router) Query(ctx context.Context, namespace, name string, q Query) error {
	shard, err := r.Shard(ctx, namespace, name)
	if err != nil {
		return err
	}
	return r.door.Query(ctx, shard, q)
}

// Propose routes the command by the name and proposes it.
func (r *Router) Propose(ctx context.Context, name string, cmd Command) ([]byte, error) {
	if p := r.known(cmd.Namespace); p != nil {
		cmd.Spread = p.spread()
		return r.door.Propose(ctx, r.place(cmd.Namespace, name, cmd.Spread), cmd)
	}
	return r.propose(ctx, cmd, func(spread bool) (string, error) { return name, nil })
}

// propose routes the command by the name that route returns for the namespace's placement. A
// namespace that does not exist yet is assumed not to be spread. If it has since been created as a
// spread one, the shard refuses the command, which is then routed again.
func (r *Router) propose(ctx context.Context, cmd Command, route func(spread bool) (string, error)) ([]byte, error) {
	spread, err := r.Spread(ctx, cmd.Namespace)
	if err != nil {
		return nil, err
	}
	for again := false; ; again = true {
		name, err := route(spread)
		if err != nil {
			return nil, err
		}
		cmd.Spread = spread
		result, err := r.door.Propose(ctx, r.place(cmd.Namespace, name, spread), cmd)
		if again || !errors.Is(err, errMisrouted) {
			return result, err
		}
		if spread, err = r.askPlacement(ctx, cmd.Namespace); err != nil {
			return nil, err
		}
	}
}

// Take routes a take by the name, see Door. A take for a namespace that does not exist waits at its
// home. If the namespace is then created as a spread one, the take is routed again and its wait
// starts over.
func (r *Router) Take(ctx context.Context, name string, t Take) ([]byte, error) {
	for again := false; ; again = true {
		spread, err := r.Spread(ctx, t.Command.Namespace)
		if err != nil {
			return nil, err
		}
		t.Command.Spread = spread
		result, err := r.door.Take(ctx, r.place(t.Command.Namespace, name, spread), t)
		if again || !errors.Is(err, errMisrouted) {
			return result, err
		}
		if _, err := r.askPlacement(ctx, t.Command.Namespace); err != nil {
			return nil, err
		}
	}
}
