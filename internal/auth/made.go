package auth

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// namespaces is a set of namespaces that exist or have existed. Names are not reused.
type namespaces struct {
	mu   sync.RWMutex // guards seen
	seen map[string]bool
}

// maxSeen is the maximum number of cached names, a few MB.
const maxSeen = 20_000

func (n *namespaces) has(name string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.seen[name]
}

func (n *namespaces) add(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen == nil || len(n.seen) >= maxSeen {
		n.seen = make(map[string]bool)
	}
	n.seen[name] = true
}

// fullTime is how long a key at its limit of namespaces is refused without asking shard 0.
const fullTime = time.Second

// introduce records in shard 0 which of the names a key is about to create.
func (g *Gate) introduce(ctx context.Context, grant *Grant, names []string) error {
	var m makeBody
	for _, name := range names {
		if g.seen.has(name) || grant.made.has(name) || engine.CheckWritable(name) != nil { // an invalid name creates nothing
			continue
		}
		q := engine.NamespaceQuery{Name: name}
		if err := g.follow.Query(ctx, engine.HomeShard(name, g.follow.Shards()), &q); err != nil {
			return err
		}
		if q.Found || q.Gone {
			g.seen.add(name)
		} else if !slices.Contains(m.namespaces, name) {
			m.namespaces = append(m.namespaces, name)
		}
	}
	if len(m.namespaces) == 0 {
		return nil
	}
	id := grant.key.ID
	if now := g.Now().UnixMilli(); now-grant.full.Load() < fullTime.Milliseconds() {
		return madeAll(id, m.namespaces[0])
	}
	err := g.propose(ctx, makes.Op(id, m, nil))
	switch {
	case err == nil: // each counts towards the limit once, even if it is never created
		for _, name := range m.namespaces {
			grant.made.add(name)
		}
	case errors.Is(err, engine.ErrUnauthorized):
		grant.full.Store(g.Now().UnixMilli())
	}
	return err
}

func madeAll(id, namespace string) error {
	return engine.Errorf(engine.ErrUnauthorized,
		"namespace %q: key %s has created %d namespaces, the limit: a key with the role admin can create more", namespace, id, MaxMade)
}
