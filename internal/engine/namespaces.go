package engine

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
)

// Namespaces creates and lists the namespaces of a node.
type Namespaces struct{ router *Router }

// NewNamespaces returns the namespaces behind a router.
func NewNamespaces(router *Router) *Namespaces { return &Namespaces{router} }

// NamespaceOption changes what Create makes.
type NamespaceOption func(*namespaceOptions)

type namespaceOptions struct{ spread bool }

// Spread makes the namespace spread over all shards by key, stream partition, queue, series and run: for data that outgrows
// one core or one leader. Transactions in it need names with a common {tag}.
func Spread() NamespaceOption { return func(o *namespaceOptions) { o.spread = true } }

// Create makes a namespace. A first write to a name creates it as well, not spread.
//
// Errors: ErrExists if it exists; ErrInvalid for a name that is not 1-255 bytes of UTF-8 without control characters, or
// that starts with "_" and so belongs to floe itself.
func (n *Namespaces) Create(ctx context.Context, name string, opts ...NamespaceOption) error {
	if err := CheckWritable(name); err != nil {
		return err
	}
	var o namespaceOptions
	for _, opt := range opts {
		opt(&o)
	}
	_, err := n.router.Door().Propose(ctx, HomeShard(name, n.router.Door().Shards()), CreateNamespace(name, o.spread))
	return err
}

// Get returns what is known of a namespace, its counts summed over its shards, or ErrNotFound.
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

// merge adds one shard's knowledge; the home shard's record says when the namespace was created.
func merge(into *NamespaceInfo, part NamespaceInfo, home bool) {
	sum := into.Counts.plus(part.Counts)
	if home || into.Name == "" {
		*into = part
	}
	into.Counts = sum
}

// Page returns up to limit namespaces whose names come after the given one, in order of their names.
func (n *Namespaces) Page(ctx context.Context, after string, limit int) ([]NamespaceInfo, error) {
	byName := make(map[string]*NamespaceInfo)
	shards := n.router.Door().Shards()
	for shard := range shards {
		q := NamespacesQuery{After: after, Limit: limit}
		if err := n.router.Door().Query(ctx, ShardID(shard), &q); err != nil {
			return nil, err
		}
		for _, part := range q.Infos {
			if byName[part.Name] == nil {
				byName[part.Name] = new(NamespaceInfo)
			}
			merge(byName[part.Name], part, HomeShard(part.Name, shards) == ShardID(shard))
		}
	}
	infos := make([]NamespaceInfo, 0, len(byName))
	for _, info := range byName {
		infos = append(infos, *info)
	}
	slices.SortFunc(infos, func(a, b NamespaceInfo) int { return strings.Compare(a.Name, b.Name) })
	return infos[:min(limit, len(infos))], nil
}

// All iterates over all namespaces in order of their names. Each pair is a namespace and nil, or a zero value and an
// error, after which iteration ends.
func (n *Namespaces) All(ctx context.Context) iter.Seq2[NamespaceInfo, error] {
	const pageSize = 500
	return Paginate(func(after string) ([]NamespaceInfo, string, bool, error) {
		page, err := n.Page(ctx, after, pageSize)
		if err != nil || len(page) == 0 {
			return nil, "", false, err
		}
		return page, page[len(page)-1].Name, len(page) == pageSize, nil
	})
}

// Paginate turns a listing by pages into an iterator. next returns the page after a cursor (first the zero value), the
// cursor behind it, and whether more may follow.
func Paginate[T any, C cmp.Ordered](next func(after C) (page []T, cursor C, more bool, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var cursor C
		for more := true; more; {
			var page []T
			var err error
			page, cursor, more, err = next(cursor)
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, item := range page {
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}
