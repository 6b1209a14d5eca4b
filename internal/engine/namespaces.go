package engine

import (
	"cmp"
	"context"
	"errors"
)

// Namespaces creates and lists the namespaces of a node.
type Namespaces struct{ router *Router }

// NewNamespaces returns the namespaces behind a router.
func NewNamespaces(router *Router) *Namespaces { return &Namespaces{router} }

// Create creates a namespace, which is spread over all shards if spread is set. The first write to
// a name also creates it, not spread.
//
// Errors: ErrExists if it exists; ErrInvalid for a name that is not 1-255 bytes of UTF-8 without
// control characters, or that starts with "_" and so belongs to floe itself.
func (n *Namespaces) Create(ctx context.Context, name string, spread bool) error {
	if err := CheckWritable(name); err != nil {
		return err
	}
	door := n.router.Door()
	again, err := door.Propose(ctx, HomeShard(name, door.Shards()), CreateNamespace(name, spread))
	if spread && (len(again) > 0 || errors.Is(err, ErrExists)) {
		if err := n.found(ctx, name); err != nil {
			return err
		}
	}
	return err
}

// found makes all shards accept writes to a spread namespace again, including those in which it was
// deleted.
func (n *Namespaces) found(ctx context.Context, name string) error {
	return n.elsewhere(name, func(shard ShardID) error {
		q := NamespaceQuery{Name: name}
		err := n.router.Door().Query(ctx, shard, &q)
		if err == nil && q.Gone {
			_, err = n.router.Door().Propose(ctx, shard, CreateNamespace(name, true))
		}
		return err
	})
}

// elsewhere calls f for each shard but the home of a namespace, until it fails.
func (n *Namespaces) elsewhere(name string, f func(ShardID) error) error {
	shards := n.router.Door().Shards()
	for shard := range ShardID(shards) {
		if shard == HomeShard(name, shards) {
			continue
		}
		if err := f(shard); err != nil {
			return err
		}
	}
	return nil
}

// Delete removes an empty namespace, with the history of its deleted keys and the runs of deleted
// workflows. The name stays reserved: it keeps its placement and still counts towards
// MaxNamespaces.
//
// Errors: ErrNotFound; ErrConflict, which lists the contents of the namespace; ErrInvalid for
// "default" and for names that users cannot write to.
func (n *Namespaces) Delete(ctx context.Context, name string) error {
	if err := checkDeletable(name); err != nil {
		return err
	}
	// Each shard checks again. This check prevents a namespace with contents from losing its
	// history and settings in the shards that are empty.
	info, err := n.Get(ctx, name)
	if err == nil {
		err = info.Counts.checkEmpty(name)
	}
	if err != nil {
		return err
	}
	if info.Spread { // the home last: if another shard refuses, the namespace still exists
		err = n.elsewhere(name, func(shard ShardID) error { return n.deleteIn(ctx, shard, name) })
	}
	if err == nil {
		err = n.deleteIn(ctx, HomeShard(name, n.router.Door().Shards()), name)
	}
	if info.Spread && errors.Is(err, ErrConflict) {
		return cmp.Or(n.found(ctx, name), err)
	}
	return err
}

func (n *Namespaces) deleteIn(ctx context.Context, shard ShardID, name string) error {
	for {
		left, err := n.router.Door().Propose(ctx, shard, DeleteNamespace(name))
		if err != nil || len(left) == 0 || left[0] == 0 {
			return err
		}
	}
}

// Get returns the description of a namespace, with counts summed over its shards, or ErrNotFound.
func (n *Namespaces) Get(ctx context.Context, name string) (NamespaceInfo, error) {
	shards, err := n.router.Shards(ctx, name)
	if err != nil {
		return NamespaceInfo{}, err
	}
	home := HomeShard(name, n.router.Door().Shards())
	var info NamespaceInfo
	found := false
	for _, shard := range shards {
		q := NamespaceQuery{Name: name}
		if err := n.router.Door().Query(ctx, shard, &q); err != nil {
			return NamespaceInfo{}, err
		}
		if q.Found {
			merge(&info, q.Info, shard == home)
			found = found || shard == home
		}
	}
	if !found {
		return NamespaceInfo{}, Errorf(ErrNotFound, "namespace %q not found", name)
	}
	return info, nil
}

// merge adds one shard's description. The home shard's record has the time of creation.
func merge(into *NamespaceInfo, part NamespaceInfo, home bool) {
	sum := into.Counts
	sum.add(part.Counts)
	if home || into.Name == "" {
		*into = part
	}
	into.Counts = sum
}

// Page returns a page of the namespaces in name order. The names are its cursors.
func (n *Namespaces) Page(ctx context.Context, l Listing) (page Page[NamespaceInfo], err error) {
	if err := l.Check(); err != nil {
		return page, err
	}
	type shardNamespace struct {
		NamespaceInfo
		home bool
	}
	var parts []shardNamespace
	shards := n.router.Door().Shards()
	for shard := range shards {
		q := NamespacesQuery{Prefix: l.Prefix, After: l.Cursor, Limit: l.Limit + 1}
		if err := n.router.Door().Query(ctx, ShardID(shard), &q); err != nil {
			return page, err
		}
		for _, info := range q.Infos {
			parts = append(parts, shardNamespace{info, HomeShard(info.Name, shards) == ShardID(shard)})
		}
	}
	all := func(parts []shardNamespace) ([]shardNamespace, bool, string) { return parts, false, "" }
	return Merge([][]shardNamespace{parts}, l.Limit, all, func(p shardNamespace) string { return p.Name },
		func(same []shardNamespace) (info NamespaceInfo, ok bool) {
			for _, p := range same {
				merge(&info, p.NamespaceInfo, p.home)
			}
			return info, true
		}), nil
}
