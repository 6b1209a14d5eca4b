package floe

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/auth"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/primitive"
)

// Role says what the holder of a key may do.
type Role string

// The roles; each includes those before.
const (
	RoleRead  Role = "read"  // look at data
	RoleWrite Role = "write" // change data
	RoleAdmin Role = "admin" // make and revoke keys, and look at the namespaces that begin with "_"
)

// Key is an API key without its secret.
type Key struct {
	ID         string // 16 hexadecimal digits
	Name       string // what its owner calls it, "" if nothing
	Role       Role
	Namespaces []string // that it is for, in order; nil: all
	CreatedAt  time.Time
	ExpiresAt  time.Time // when it stops being good, zero: never
	LastUsedAt time.Time // within about five minutes; zero: never used. Only List fills it in
}

func newKey(k auth.Key) Key {
	return Key{ID: k.ID, Name: k.Name, Role: Role(k.Role.String()), Namespaces: slices.Clone(k.Namespaces), CreatedAt: k.Created,
		ExpiresAt: k.Expires, LastUsedAt: k.Used}
}

// Keys are the API keys of a node or cluster. As long as there is no key store, everybody who can
// reach a node may do everything; from Bootstrap on clients and users of the dashboard need a key.
// A program that has opened a Node may do everything with it: it needs none.
//
// Of a key, which is floe_sk_<id>_<secret>, the nodes keep a hash. Whoever is connected with a key
// that is revoked is cut off: his calls that wait end with ErrUnauthorized, and his sessions are
// over, on the node that was asked before Revoke returns, on others as soon as they hear of it.
type Keys struct {
	gate  *gatekeeper
	grant *auth.Grant // of who uses them; nil: somebody who may do everything
}

// allowed returns ErrUnauthorized for who may not change the keys.
func (k *Keys) allowed() error {
	if k.grant == nil {
		return nil
	}
	return k.grant.Require(auth.Admin)
}

// KeyOption describes a new key.
type KeyOption interface{ applyKey(*keyOptions) }

// BootstrapOption describes the first key. Each one is a KeyOption too.
type BootstrapOption interface {
	KeyOption
	applyFirst(*keyOptions)
}

type keyOption func(*keyOptions)

func (f keyOption) applyKey(o *keyOptions) { f(o) }

type firstOption struct{ keyOption }

func (f firstOption) applyFirst(o *keyOptions) { f.applyKey(o) }

type keyOptions struct {
	name       string
	namespaces []string
	expires    *time.Time
	keep       func(Key, string) error
}

// KeyName sets the display name of a key, at most 255 bytes without control characters.
func KeyName(name string) BootstrapOption {
	return firstOption{func(o *keyOptions) { o.name = name }}
}

// ForNamespaces makes a key good for these namespaces only, 1 to 64. An admin key is for all. With
// such a key no workflows can be created and no jobs of stream processing submitted or restored:
// their definitions can reach into other namespaces.
func ForNamespaces(names ...string) KeyOption {
	return keyOption(func(o *keyOptions) {
		o.namespaces = slices.Clone(names)
		slices.Sort(o.namespaces)
	})
}

// KeyExpires makes a key good until a time, in steps of a millisecond, which has to be in the
// future. Connections and sessions that were begun with it end then. It stays in the list until it
// is revoked.
func KeyExpires(at time.Time) KeyOption { return keyOption(func(o *keyOptions) { o.expires = &at }) }

// KeepKey has keep called with a key, and as its holder shows it, before there is the key: it is
// not made if keep fails, and what keep has stored is of no use if it could not be made. So no key
// is lost because the program ends, or can not write, when it has just been made: of the first one
// that would lock everybody out.
func KeepKey(keep func(k Key, key string) error) BootstrapOption {
	return firstOption{func(o *keyOptions) { o.keep = keep }}
}

// Bootstrap makes the key store, with a first key, an admin's. It returns the key as its holder
// shows it, which nobody can ever read again. Through a Client that works from the machine of the
// node only.
//
// Options: KeyName, KeepKey. Errors: ErrExists if there is a key store; ErrInvalid for malformed
// options; that of KeepKey.
func (k *Keys) Bootstrap(ctx context.Context, opts ...BootstrapOption) (Key, string, error) {
	if err := k.allowed(); err != nil {
		return Key{}, "", err
	}
	key, keep, err := described(0, opts)
	if err != nil {
		return Key{}, "", err
	}
	return k.created(ctx, "bootstrap with")(k.gate.gate.Bootstrap(ctx, key, keep))
}

// Create makes a key, and returns it as its holder shows it, which nobody can ever read again. A
// key with the role write that is for all namespaces can create 1,000 of them, deleted ones
// included: then commands that name a new one are refused with ErrUnauthorized. An admin key has no
// such limit.
//
// Options: KeyName, ForNamespaces, KeyExpires, KeepKey. Errors: ErrInvalid for an unknown role or
// malformed options; ErrConflict if there is no key store; ErrBusy if there are 1000 keys;
// ErrUnauthorized without the role admin; that of KeepKey.
func (k *Keys) Create(ctx context.Context, role Role, opts ...KeyOption) (Key, string, error) {
	r, err := auth.ParseRole(string(role))
	if err != nil {
		return Key{}, "", err
	}
	if err := k.allowed(); err != nil {
		return Key{}, "", err
	}
	key, keep, err := described(r, opts)
	if err != nil {
		return Key{}, "", err
	}
	return k.created(ctx, "create")(k.gate.gate.Create(ctx, key, keep))
}

func described[O KeyOption](role auth.Role, opts []O) (auth.Key, auth.Keep, error) {
	opts, err := engine.Given(opts)
	if err != nil {
		return auth.Key{}, nil, err
	}
	var o keyOptions
	for _, opt := range opts {
		opt.applyKey(&o)
	}
	key := auth.Key{Name: o.name, Role: role, Namespaces: o.namespaces}
	if o.expires != nil {
		if o.expires.IsZero() {
			return key, nil, engine.Errorf(engine.ErrInvalid, "key: expiry at the zero time; leave it out for a key that never expires")
		}
		key.Expires = *o.expires
	}
	if o.keep == nil {
		return key, nil, nil
	}
	return key, func(k auth.Key, secret auth.Secret) error { return o.keep(newKey(k), string(secret)) }, nil
}

func (k *Keys) created(ctx context.Context, verb string) func(auth.Key, auth.Secret, error) (Key, string, error) {
	return func(made auth.Key, secret auth.Secret, err error) (Key, string, error) {
		what := verb + " a key"
		if made.ID != "" {
			what = verb + " key " + made.ID + ", " + made.Role.String()
		}
		k.audit(ctx, what, err)
		if err != nil {
			return Key{}, "", err
		}
		return newKey(made), string(secret), nil
	}
}

// audit notes what the host program, or a holder in it, has done to the keys. What is done through
// a Client the node notes.
func (k *Keys) audit(ctx context.Context, what string, err error) {
	if _, remote := k.gate.db.(*Client); remote {
		return
	}
	k.gate.note(ctx, AuditKeysStream, k.grant, AuditEntry{Action: what}, err)
}

// Get returns a key by its id. Errors: ErrNotFound; ErrConflict if there is no key store;
// ErrUnauthorized without the role admin.
func (k *Keys) Get(ctx context.Context, id string) (Key, error) {
	keys, err := k.list(ctx)
	if err != nil {
		return Key{}, err
	}
	if i := slices.IndexFunc(keys, func(key Key) bool { return key.ID == id }); i >= 0 {
		return keys[i], nil
	}
	return Key{}, engine.Errorf(ErrNotFound, "key %.64q not found", id)
}

// Page returns a page of the keys, in order of their ids.
//
// Options: Limit, Cursor. Errors: ErrInvalid for a limit that is not 1-1000 and for what is no
// cursor; ErrConflict if there is no key store; ErrUnauthorized without the role admin.
func (k *Keys) Page(ctx context.Context, opts ...PageOption) (page Page[Key], err error) {
	l, err := engine.ListingOf(opts)
	if err != nil {
		return page, err
	}
	keys, err := k.list(ctx)
	if err != nil {
		return page, err
	}
	return engine.PageIn(keys, l, func(key Key) string { return key.ID }), nil
}

// All iterates over the keys, in the order of Page and by the contract of Namespaces.All. Options
// and errors are those of Page.
func (k *Keys) All(ctx context.Context, opts ...PageOption) iter.Seq2[Key, error] {
	return engine.All(ctx, k.Page, opts)
}

func (k *Keys) list(ctx context.Context) ([]Key, error) {
	if err := k.allowed(); err != nil {
		return nil, err
	}
	all, err := k.gate.gate.List(ctx)
	if err != nil {
		return nil, err
	}
	keys := make([]Key, 0, len(all))
	for _, one := range all {
		keys = append(keys, newKey(one))
	}
	return keys, nil
}

// Revoke ends a key for good, by its id. Errors: ErrNotFound; ErrConflict if there is no key store,
// and for the last admin key that never expires; ErrUnauthorized without the role admin.
func (k *Keys) Revoke(ctx context.Context, id string) error {
	if err := k.allowed(); err != nil {
		return err
	}
	err := k.gate.gate.Revoke(ctx, id)
	k.audit(ctx, "revoke key "+id, err)
	return err
}

// Enabled reports whether there is a key store. Errors: ErrUnavailable while that is not known yet;
// through a Client ErrUnauthorized, if its key is no admin's.
func (k *Keys) Enabled(ctx context.Context) (bool, error) {
	if err := k.gate.start(ctx); err != nil {
		return false, err
	}
	return k.gate.gate.Enabled(ctx)
}

// MayLook reports whether stale reads (see Stale) may be answered although it is not known whether
// there are keys: no leader can be found, and the replica of this node, which is all that is left,
// knows of none. Through a Client it is false.
func (k *Keys) MayLook() bool { return k.gate.gate.MayLook() }

// OpenSession returns a token for a key, which is good for 12 hours, on every node, unless the key
// expires or is revoked before or CloseSession is called; and when it ends. from is the address of
// whoever shows the key, without a port.
//
// Errors: ErrUnauthorized for a wrong key, and if there is no key store; ErrBusy for a wrong one
// after 10 of them within a minute from an address.
func (k *Keys) OpenSession(ctx context.Context, key, from string) (token string, ends time.Time, err error) {
	if err := k.gate.start(ctx); err != nil {
		return "", time.Time{}, err
	}
	secret, ends, err := k.gate.gate.Session(ctx, auth.Secret(key), from)
	return string(secret), ends, err
}

// CloseSession ends a session before its time: its token is good for nothing any more, on the node
// that was asked before CloseSession returns, on others as soon as they hear of it. Requests that
// were begun with it go on. It does nothing if there is no key store.
//
// Errors: ErrUnauthorized for a token that is not good; ErrBusy if 100 sessions of the key that
// would not be over yet have been ended.
func (k *Keys) CloseSession(ctx context.Context, token string) error {
	if err := k.gate.start(ctx); err != nil {
		return err
	}
	return k.gate.gate.EndSession(ctx, auth.Secret(token))
}

// Authenticate returns who has a session token. If there is no key store that is somebody who may
// do everything, whatever the token. Errors: ErrUnauthorized for a token that is none, or whose
// time or key is over; ErrUnavailable while the keys are not known yet.
func (k *Keys) Authenticate(ctx context.Context, token string) (*Holder, error) {
	if err := k.gate.start(ctx); err != nil {
		return nil, err
	}
	grant, ends, err := k.gate.gate.Holder(ctx, auth.Secret(token))
	if err != nil {
		return nil, err
	}
	return &Holder{grant: grant, ends: ends, of: k.gate}, nil
}

// AuthenticateKey is Authenticate for the key itself, from an address without a port, as Prometheus
// and other programs show it with each request. Errors: those of OpenSession.
func (k *Keys) AuthenticateKey(ctx context.Context, key, from string) (*Holder, error) {
	if err := k.gate.start(ctx); err != nil {
		return nil, err
	}
	grant, err := k.gate.gate.Enter(ctx, auth.Secret(key), from, false)
	if err != nil {
		return nil, err
	}
	return &Holder{grant: grant, of: k.gate}, nil
}

// Holder is who has shown a key or a session, for as long as it is good.
type Holder struct {
	grant *auth.Grant
	ends  time.Time
	of    *gatekeeper
}

// Key returns the key. It has no ID if there is no key store, and then the role admin.
func (h *Holder) Key() Key {
	if h.grant.IsOpen() {
		return Key{Role: RoleAdmin}
	}
	return newKey(h.grant.Key())
}

// Ends returns when the session is over, zero if it is none.
func (h *Holder) Ends() time.Time { return h.ends }

// Require returns ErrUnauthorized unless the holder's role is at least this one.
func (h *Holder) Require(role Role) error {
	r, err := auth.ParseRole(string(role))
	if err != nil {
		return err
	}
	return h.grant.Require(r)
}

// RequireNamespace returns ErrUnauthorized unless the key is for a namespace.
func (h *Holder) RequireNamespace(name string) error { return h.grant.About(name) }

// While returns a context that is done when ctx is, or when the key is revoked. Its cancel function
// has to be called.
func (h *Holder) While(ctx context.Context) (context.Context, context.CancelFunc) {
	return h.grant.While(ctx)
}

// Err returns ErrUnauthorized if the key has been revoked, or nil.
func (h *Holder) Err() error { return h.grant.Err() }

// DB returns the node, or the client, as far as the holder may use it: what he may not is
// ErrUnauthorized, before it reaches a shard. It needs no Close.
func (h *Holder) DB() DB {
	if h.grant.IsOpen() {
		return h.of.db
	}
	return h.of.view(h.grant)
}

// gatekeeper is the gate of a node or a client, and what belongs to it.
type gatekeeper struct {
	gate *auth.Gate
	base *stores
	db   DB
	log  *slog.Logger

	wrongTold atomic.Int64 // when wrong keys were logged last, in ms
	wrong     atomic.Int64 // keys since

	audited atomic.Bool // the streams of the audit are there
	sums    sums

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	begin   sync.Once

	mu    sync.Mutex // guards views
	views map[*auth.Grant]*granted
}

// open makes the gate of what the stores are of.
func (g *gatekeeper) open(node uint64, base *stores, db DB, log *slog.Logger) {
	g.gate, g.base, g.db, g.log = auth.NewGate(node), base, db, log
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.views = make(map[*auth.Grant]*granted)
	if _, remote := db.(*Client); !remote {
		g.gate.Wrong = g.wrongKey
	}
}

// run makes the gate learn what keys there are, until close.
func (g *gatekeeper) run() {
	g.begin.Do(func() {
		g.running.Go(func() { g.gate.Run(g.ctx) })
		if _, remote := g.db.(*Client); !remote {
			g.running.Go(g.runAudit)
		}
	})
}

// start is run for a Client. Few Clients have anything to do with keys; that its own key does not
// let it is said at once.
func (g *gatekeeper) start(ctx context.Context) error {
	if g.gate.Known() {
		return nil
	}
	if _, remote := g.db.(*Client); !remote {
		return nil
	}
	if err := g.gate.Refresh(ctx); err != nil {
		return err
	}
	g.run()
	return nil
}

func (g *gatekeeper) close() {
	g.cancel()
	g.begin.Do(func() {})
	g.running.Wait()
}

// view returns the stores behind a door that looks what the holder may do. It is kept as long as
// there is the grant: what it knows of namespaces is costly to find.
func (g *gatekeeper) view(grant *auth.Grant) *granted {
	g.mu.Lock()
	defer g.mu.Unlock()
	if v := g.views[grant]; v != nil {
		return v
	}
	v := &granted{g.base.through(grant), g, grant}
	g.views[grant] = v
	grant.AfterEnd(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.views, grant)
	})
	return v
}

// granted is what Holder.DB returns.
type granted struct {
	stores
	of    *gatekeeper
	grant *auth.Grant
}

func (g *granted) Stats(ctx context.Context) (Stats, error) { return g.of.db.Stats(ctx) }
func (g *granted) Keys() *Keys                              { return &Keys{g.of, g.grant} }
func (g *granted) Close() error                             { return nil }

// through returns the stores behind the doors of a holder.
func (s *stores) through(grant *auth.Grant) stores {
	wire := engine.NewWire(primitive.All())
	all := stores{router: engine.NewRouter(grant.Door(wire, s.router.Door())), stale: engine.NewRouter(grant.Door(wire, s.stale.Door())),
		maxValue: s.maxValue}
	all.attach()
	return all
}
