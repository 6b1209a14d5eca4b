package engine

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// HomeShard returns the shard that holds the record of a namespace and, unless it is spread, everything in it.
func HomeShard(namespace string, shards int) ShardID {
	return ShardID(xxhash.Sum64String(namespace) % uint64(shards))
}

// NameShard returns the shard of a key, queue, stream partition ... of a spread namespace. If the name holds a {tag}, only
// what stands between the first brace and the next closing one is hashed, so names with a common tag share a shard (the
// rule is that of Redis Cluster; an empty {} counts as no tag).
func NameShard(namespace, name string, shards int) ShardID {
	if _, after, ok := strings.Cut(name, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			name = tag
		}
	}
	var d xxhash.Digest
	d.Reset()
	d.WriteString(namespace)
	d.Write([]byte{0})
	d.WriteString(name)
	return ShardID(d.Sum64() % uint64(shards))
}

// Router finds the shards of a namespace and passes commands and queries through a Door to them. It remembers what can not
// change: the placement of namespaces that exist.
type Router struct {
	door Door

	mu     sync.RWMutex
	spread map[string]bool // namespaces known to exist; at most maxRemembered
}

// maxRemembered bounds the Router's memory to a few MiB; beyond it the home shard is asked each time.
const maxRemembered = 10_000

// NewRouter returns a Router over door.
func NewRouter(door Door) *Router { return &Router{door: door, spread: make(map[string]bool)} }

// Door returns the door below.
func (r *Router) Door() Door { return r.door }

// Spread reports whether the namespace exists as a spread one.
func (r *Router) Spread(ctx context.Context, namespace string) (bool, error) {
	r.mu.RLock()
	spread, known := r.spread[namespace]
	r.mu.RUnlock()
	if known {
		return spread, nil
	}
	return r.askPlacement(ctx, namespace)
}

func (r *Router) askPlacement(ctx context.Context, namespace string) (bool, error) {
	q := NamespaceQuery{Name: namespace}
	if err := r.door.Query(ctx, HomeShard(namespace, r.door.Shards()), &q); err != nil {
		return false, err
	}
	if q.Found {
		r.mu.Lock()
		if len(r.spread) < maxRemembered {
			r.spread[namespace] = q.Info.Spread
		}
		r.mu.Unlock()
	}
	return q.Found && q.Info.Spread, nil
}

// Await waits until the namespace exists: before that nobody can say in which shard what is waited for will be.
func (r *Router) Await(ctx context.Context, namespace string) error {
	r.mu.RLock()
	_, known := r.spread[namespace]
	r.mu.RUnlock()
	if known {
		return nil
	}
	q := NamespaceQuery{Name: namespace, Wait: true}
	return r.door.Query(ctx, HomeShard(namespace, r.door.Shards()), &q)
}

// Shard returns where name of the namespace lives.
func (r *Router) Shard(ctx context.Context, namespace, name string) (ShardID, error) {
	spread, err := r.Spread(ctx, namespace)
	return r.place(namespace, name, spread), err
}

func (r *Router) place(namespace, name string, spread bool) ShardID {
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
	return r.propose(ctx, cmd, func(spread bool) (string, error) { return name, nil })
}

// propose routes the command by the name that route returns for the namespace's placement. A namespace that does not exist yet
// is written as not spread; if it has been created as a spread one meanwhile, the shard refuses and it is routed again.
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
