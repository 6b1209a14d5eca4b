package auth

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// Grant holds the rights of a caller, and lasts until its key is revoked or expires. Without a key
// store, callers without a key have an open grant.
type Grant struct {
	key     storedKey
	local   bool  // the caller is on this machine; open grants only
	open    bool  // there is no key store
	gate    *Gate // of a key's grant
	unknown error // why the grant has no rights yet; nil: it has
	ctx     context.Context
	end     context.CancelCauseFunc
	active  *atomic.Bool  // used since the last use was recorded
	made    *namespaces   // namespaces recorded as created by the key
	full    *atomic.Int64 // when the last further namespace was refused, ms
	noted   time.Time     // used by the caller of NoteUses only
}

func newGrant(k storedKey) *Grant {
	g := &Grant{key: k, active: new(atomic.Bool), full: new(atomic.Int64), made: new(namespaces)}
	g.ctx, g.end = context.WithCancelCause(context.Background())
	return g
}

// expire ends the grant when its key expires.
func (g *Grant) expire(now time.Time) {
	if g.key.Expires.IsZero() {
		return
	}
	t := time.AfterFunc(g.key.Expires.Sub(now), func() { g.end(g.key.expired(g.key.Expires)) })
	g.AfterEnd(func() { t.Stop() })
}

// use records that the key is in use.
func (g *Grant) use() {
	if !g.active.Load() {
		g.active.Store(true)
	}
}

// Key returns the key. The key of an open grant has no ID.
func (g *Grant) Key() Key { return g.key.Key }

// IsOpen reports whether the grant is open, because there is no key store.
func (g *Grant) IsOpen() bool { return g.open }

// Done is closed when the grant has ended.
func (g *Grant) Done() <-chan struct{} { return g.ctx.Done() }

// Err returns why the grant has ended, an ErrUnauthorized, or nil if it has not.
func (g *Grant) Err() error { return context.Cause(g.ctx) }

// AfterEnd calls f when the grant has ended, unless stop is called first.
func (g *Grant) AfterEnd(f func()) (stop func() bool) { return context.AfterFunc(g.ctx, f) }

// While returns a context that ends with ctx or the grant. Its cause is the reason.
func (g *Grant) While(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(g.ctx, func() { cancel(g.Err()) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// Require returns ErrUnauthorized unless the role is at least need.
func (g *Grant) Require(need Role) error {
	if g.open || g.key.Role >= need {
		return nil
	}
	return engine.Errorf(engine.ErrUnauthorized, "this takes the role %s, key %s has %s", need, g.key.ID, g.key.Role)
}

// Sees reports whether the grant includes a namespace.
func (g *Grant) Sees(namespace string) bool { return g.About(namespace) == nil }

// About returns ErrUnauthorized unless the grant includes a namespace.
func (g *Grant) About(namespace string) error {
	switch {
	case g.open || g.key.Role == Admin:
		return nil
	case engine.IsSystem(namespace):
		return engine.Errorf(engine.ErrUnauthorized, "namespace %.255q requires the role admin", namespace)
	case !g.restricted():
		return nil
	}
	for _, ns := range g.key.Namespaces {
		if ns == namespace {
			return nil
		}
	}
	return engine.Errorf(engine.ErrUnauthorized, "key %s is not for namespace %.255q", g.key.ID, namespace)
}

func (g *Grant) restricted() bool { return len(g.key.Namespaces) > 0 }

// Command returns ErrUnauthorized if the caller may not send the command. wire describes the kinds
// of commands.
func (g *Grant) Command(wire *engine.Wire, cmd engine.Command) error {
	g.use()
	if g.restricted() && wire.Reaches(cmd) {
		return engine.Errorf(engine.ErrUnauthorized, "key %s is limited to some namespaces, and a definition can reach others", g.key.ID)
	}
	if g.unknown != nil {
		return g.unknown
	}
	if cmd.Machine != engine.MachineKeys {
		if err := g.Require(Write); err != nil {
			return err
		}
		return g.About(cmd.Namespace)
	}
	if g.open && cmd.Kind == kindBootstrap && !g.local {
		return engine.Errorf(engine.ErrUnauthorized, "a key store can only be created from the node's own machine")
	}
	return g.Require(Admin)
}

// Introduce counts the namespaces that a command is the first to name, before it is sent. A key
// creates up to MaxMade of them. Keys restricted to some namespaces are bounded by these, and admin
// keys have no such limit. Errors: ErrUnauthorized; ErrUnavailable.
func (g *Grant) Introduce(ctx context.Context, wire *engine.Wire, cmd engine.Command) error {
	if g.gate == nil || g.open || g.restricted() || g.key.Role == Admin {
		return nil
	}
	reached := wire.Reached(cmd)
	if len(reached) == 0 && g.gate.seen.has(cmd.Namespace) { // the usual case
		return nil
	}
	return g.gate.introduce(ctx, g, append(reached, cmd.Namespace))
}

// Query returns ErrUnauthorized if the caller may not send the query.
func (g *Grant) Query(q engine.Query) error {
	g.use()
	if g.unknown != nil {
		return g.unknown
	}
	if q.Machine() == engine.MachineKeys {
		return g.Require(Admin)
	}
	if _, ok := q.(*engine.NamespacesQuery); ok {
		return nil // see Ask
	}
	if _, ok := q.(engine.LeaderQuery); ok {
		if err := g.Require(Write); err != nil {
			return err
		}
	}
	if ns, ok := engine.NamespaceOf(q); ok {
		return g.About(ns)
	}
	if g.restricted() {
		return engine.Errorf(engine.ErrUnauthorized, "key %s is limited to some namespaces, and this call covers all", g.key.ID)
	}
	return nil
}

// finder is a query for one object by its ID. Without a namespace it searches all of them.
type finder interface {
	engine.Query
	SearchIn(namespace string) // "": all
	Found() bool
}

// Ask runs a query for the caller. A listing of namespaces contains only those of the grant, and a
// search covers only those.
func (g *Grant) Ask(q engine.Query, ask func(engine.Query) error) error {
	if f, ok := q.(finder); ok && g.restricted() {
		if ns, _ := engine.NamespaceOf(q); ns == "" {
			return g.find(f, ask)
		}
	}
	if err := g.Query(q); err != nil {
		return err
	}
	list, ok := q.(*engine.NamespacesQuery)
	if !ok || g.open || g.key.Role == Admin {
		return ask(q)
	}
	if g.restricted() {
		return g.askEach(list, ask)
	}
	// Filtering out other namespaces would shorten a page, and a short page means the last one. So
	// a page may take several queries.
	var seen []engine.NamespaceInfo
	page := *list
	for {
		page.Infos = nil
		if err := ask(&page); err != nil {
			return err
		}
		for _, info := range page.Infos {
			if g.Sees(info.Name) && len(seen) < list.Limit {
				seen = append(seen, info)
			}
		}
		if len(page.Infos) < page.Limit || len(seen) == list.Limit {
			list.Infos = seen
			return nil
		}
		page.After = page.Infos[len(page.Infos)-1].Name
	}
}

// askEach makes a page from the key's namespaces, regardless of the number of others.
func (g *Grant) askEach(list *engine.NamespacesQuery, ask func(engine.Query) error) error {
	names := slices.Compact(slices.Sorted(slices.Values(g.key.Namespaces)))
	list.Infos = nil
	for _, name := range names {
		if name <= list.After || !strings.HasPrefix(name, list.Prefix) || !g.Sees(name) || len(list.Infos) == list.Limit {
			continue
		}
		one := engine.NamespaceQuery{Name: name}
		if err := ask(&one); err != nil {
			return err
		}
		if one.Found {
			list.Infos = append(list.Infos, one.Info)
		}
	}
	return nil
}

// find searches the key's namespaces one after the other. It does not disclose whether the object
// exists in another namespace.
func (g *Grant) find(f finder, ask func(engine.Query) error) error {
	for _, name := range g.key.Namespaces {
		f.SearchIn(name)
		if err := g.Query(f); err != nil {
			return err
		}
		if err := ask(f); err != nil || f.Found() {
			return err
		}
	}
	f.SearchIn("")
	return nil
}

// Door returns a door that enforces the grant.
func (g *Grant) Door(wire *engine.Wire, door engine.Door) engine.Door {
	return &grantedDoor{door, wire, g}
}

// grantedDoor checks each call before it passes it on.
type grantedDoor struct {
	engine.Door
	wire  *engine.Wire
	grant *Grant
}

func (d *grantedDoor) Propose(ctx context.Context, id engine.ShardID, cmd engine.Command) ([]byte, error) {
	if err := d.mayPropose(ctx, cmd); err != nil {
		return nil, err
	}
	return d.Door.Propose(ctx, id, cmd)
}

func (d *grantedDoor) Take(ctx context.Context, id engine.ShardID, t engine.Take) ([]byte, error) {
	if err := d.mayPropose(ctx, t.Command); err != nil {
		return nil, err
	}
	ctx, cancel := d.grant.While(ctx)
	defer cancel()
	result, err := d.Door.Take(ctx, id, t)
	return result, d.grant.Explain(err)
}

func (d *grantedDoor) Query(ctx context.Context, id engine.ShardID, q engine.Query) error {
	if err := d.allowed(nil); err != nil {
		return err
	}
	ctx, cancel := d.grant.While(ctx)
	defer cancel()
	return d.grant.Explain(d.grant.Ask(q, func(q engine.Query) error { return d.Door.Query(ctx, id, q) }))
}

func (d *grantedDoor) mayPropose(ctx context.Context, cmd engine.Command) error {
	err := d.allowed(d.grant.Command(d.wire, cmd))
	if err == nil {
		err = d.grant.Introduce(ctx, d.wire, cmd)
	}
	return err
}

func (d *grantedDoor) allowed(err error) error {
	if ended := d.grant.Err(); ended != nil {
		return ended
	}
	return err
}

// Explain replaces an error caused by the end of the grant with the reason for the end.
func (g *Grant) Explain(err error) error {
	if ended := g.Err(); err != nil && ended != nil {
		return ended
	}
	return err
}
