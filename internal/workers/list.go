package workers

import (
	"context"
	"slices"

	"github.com/floedb/floe/internal/engine"
)

// Filter selects workers. An empty field matches all workers.
type Filter struct {
	Type    string
	Handles string // a name in the worker's Handles
}

// Page returns a page of the namespace's workers over all shards, ordered by ID. l has no prefix.
// Errors: ErrInvalid.
func Page(ctx context.Context, s *engine.Scope, l engine.Listing, f Filter) (page engine.Page[Info], err error) {
	if err := l.Check(); err != nil {
		return page, err
	}
	q := listQuery{namespace: s.Namespace(), after: l.Cursor, limit: l.Limit}
	spread, err := s.Spread(ctx)
	if err != nil {
		return page, err
	}
	if !spread { // in a spread namespace one shard may have only part of a polling worker
		q.typ, q.handles = f.Type, f.Handles
	}
	parts, _, err := engine.AskAll(ctx, s, q)
	if err != nil {
		return page, err
	}
	found := func(q *listQuery) ([]Info, bool, string) { return q.items, q.more, q.next }
	page = engine.Merge(parts, l.Limit, found, func(i Info) string { return i.ID },
		func(same []Info) (Info, bool) { return merge(same), true })
	if spread {
		page.Items = slices.DeleteFunc(page.Items, func(i Info) bool {
			return f.Type != "" && i.Type != f.Type || f.Handles != "" && !slices.Contains(i.Handles, f.Handles)
		})
	}
	return page, nil
}

// Find returns a worker. Errors: ErrNotFound, ErrInvalid.
func Find(ctx context.Context, s *engine.Scope, id string) (Info, error) {
	if err := CheckID(id); err != nil {
		return Info{}, err
	}
	parts, _, err := engine.AskAll(ctx, s, workerQuery{namespace: s.Namespace(), id: id})
	if err != nil {
		return Info{}, err
	}
	var found []Info
	for _, p := range parts {
		if p.found {
			found = append(found, p.info)
		}
	}
	if len(found) == 0 {
		return Info{}, notFound(id)
	}
	return merge(found), nil
}

// Handlers returns the number of workers per handled name, for names from first to last. It counts
// workers of the given type that are not Unhealthy.
func Handlers(ctx context.Context, s *engine.Scope, typ, first, last string) (map[string]int, error) {
	parts, _, err := engine.AskAll(ctx, s, handlersQuery{namespace: s.Namespace(), typ: typ, first: first, last: last})
	if err != nil {
		return nil, err
	}
	counts, pollers := make(map[string]int), make(map[string]pollerHandles)
	for _, p := range parts {
		for _, h := range p.counts {
			counts[h.name] += h.n
		}
		for _, h := range p.pollers {
			pollers[h.id] = h.with(pollers[h.id])
		}
	}
	for _, h := range pollers {
		for _, name := range h.names {
			if h.alive {
				counts[name]++
			}
		}
	}
	return counts, nil
}

// with merges two shards' records of a worker.
func (h pollerHandles) with(o pollerHandles) pollerHandles {
	switch {
	case o.registered:
		h.names = o.names
	case !h.registered:
		h.names = slices.Compact(slices.Sorted(slices.Values(slices.Concat(h.names, o.names))))
	}
	h.registered, h.alive = h.registered || o.registered, h.alive || o.alive
	return h
}

// Register registers a polling worker. Unlike Join it sends no reports later.
// Errors: ErrInvalid, ErrBusy.
func Register(ctx context.Context, s *engine.Scope, w Worker) error {
	w.normalize()
	_, err := join.Do(ctx, s, "", joinBody{[]joining{{worker: w}}}, w.Check())
	return err
}

// Heartbeat reports that a polling worker is alive, its load, and its totals since it registered.
// Processes of KindOfRuns are ignored, because the shards count runs of actions themselves.
//
// Errors: ErrNotFound if the worker must register again; ErrInvalid for negative numbers and for
// duplicate processes.
func Heartbeat(ctx context.Context, s *engine.Scope, id string, load int, processes []Process) error {
	if err := CheckID(id); err != nil {
		return err
	}
	if load < 0 {
		return engine.Errorf(engine.ErrInvalid, "worker %q: negative load %d", id, load)
	}
	present := statsOf(processes)
	if err := present.check(); err != nil {
		return engine.Errorf(engine.ErrInvalid, "worker %q: %v", id, err)
	}
	shard, err := s.Shard(ctx, id)
	if err != nil {
		return err
	}
	q := reportQuery{namespace: s.Namespace(), list: []report{{id: id, load: load, present: present}}}
	if err := s.QueryShard(ctx, shard, &q); err != nil {
		return err
	}
	if len(q.unknown) > 0 {
		return notRegistered(id)
	}
	return nil
}

// Leave removes a worker from the registry, or with drain marks it as draining.
// Errors: ErrNotFound, ErrInvalid.
func Leave(ctx context.Context, s *engine.Scope, id string, drain bool) error {
	_, err := leave.Do(ctx, s, "", leaveBody{drain, []leaving{{id: id}}}, nil)
	return err
}
