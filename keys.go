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

// Role is the set of rights of a key.
type Role string

// The roles; each includes those before it.
const (
	RoleRead  Role = "read"  // read data
	RoleWrite Role = "write" // change data
	RoleAdmin Role = "admin" // create and revoke keys, and read namespaces that begin with "_"
)

// Key is an API key without its secret.
type Key struct {
	ID         string // 16 hexadecimal digits
	Name       string // what its owner calls it, "" if nothing
	Role       Role
	Namespaces []string // namespaces it is valid for, in order; nil: all
	CreatedAt  time.Time
	ExpiresAt  time.Time // expiry, zero: never
	LastUsedAt time.Time // accurate to about five minutes; zero: never used. Only List fills it in
}

func newKey(k auth.Key) Key {
	return Key{ID: k.ID, Name: k.Name, Role: Role(k.Role.String()), Namespaces: slices.Clone(k.Namespaces), CreatedAt: k.Created,
		ExpiresAt: k.Expires, LastUsedAt: k.Used}
}

// Keys manages the API keys of a node or cluster. Without a key store, anyone who can reach a node
// has full access. After Bootstrap, clients and users of the dashboard need a key. A program that
// has opened a Node has full access to it and needs no key.
//
// A key has the form floe_sk_<id>_<secret>; the nodes store only a hash. Revoking a key cuts off
// its connections: waiting calls fail with ErrUnauthorized and sessions end. On the node that
// handles the call, this happens before Revoke returns; on others, as soon as the change reaches
// them.
type Keys struct {
	gate  *gatekeeper
	grant *auth.Grant // of the caller; nil: full access
}

// allowed returns ErrUnauthorized unless the caller may change the keys.
func (k *Keys) allowed() error {
	if k.grant == nil {
		return nil
	}
	return k.grant.Require(auth.Admin)
}

// KeyOption describes a new key.
type KeyOption interface{ applyKey(*keyOptions) }

// BootstrapOption describes the first key. Every BootstrapOption is also a KeyOption.
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

// ForNamespaces restricts a key to the given namespaces, 1 to 64 of them. An admin key is valid for
// all. A restricted key cannot create workflows, or submit or restore stream-processing jobs: their
// definitions can reach into other namespaces.
func ForNamespaces(names ...string) KeyOption {
	return keyOption(func(o *keyOptions) {
		o.namespaces = slices.Clone(names)
		slices.Sort(o.namespaces)
	})
}

// KeyExpires makes a key valid until the given time, which must be in the future and is accurate to
// the millisecond. Connections and sessions opened with the key end then. The key stays in the list
// until it is revoked.
func KeyExpires(at time.Time) KeyOption { return keyOption(func(o *keyOptions) { o.expires = &at }) }

// KeepKey sets a function that stores a key before it is created. It is called with the key, and
// with the form its holder presents. If keep fails, the key is not created; if the creation fails,
// the stored key is useless. So no key is lost if the program exits, or cannot write, right after
// creating it. Losing the first key would lock out everyone.
func KeepKey(keep func(k Key, key string) error) BootstrapOption {
	return firstOption{func(o *keyOptions) { o.keep = keep }}
}

// Bootstrap creates the key store and a first key with the role admin. It returns the key in the
// form its holder presents, which cannot be read again. Through a Client it works only from the
// machine of the node.
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

// Create creates a key and returns it in the form its holder presents, which cannot be read again.
// A key with the role write for all namespaces can create 1,000 namespaces, including those since
// deleted. After that, commands that name a new namespace are refused with ErrUnauthorized. An
// admin key has no such limit.
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

// audit records a change of the keys by the host program or by a holder within it. The node records
// changes made through a Client.
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
// Options: Limit, Cursor. Errors: ErrInvalid for a limit that is not 1-1000 and for a malformed
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

// Revoke permanently revokes the key with an id. Errors: ErrNotFound; ErrConflict if there is no
// key store, and for the last admin key without an expiry; ErrUnauthorized without the role admin.
func (k *Keys) Revoke(ctx context.Context, id string) error {
	if err := k.allowed(); err != nil {
		return err
	}
	err := k.gate.gate.Revoke(ctx, id)
	k.audit(ctx, "revoke key "+id, err)
	return err
}

// Enabled reports whether there is a key store. Errors: ErrUnavailable while that is not known yet;
// ErrUnauthorized through a Client whose key does not have the role admin.
func (k *Keys) Enabled(ctx context.Context) (bool, error) {
	if err := k.gate.start(ctx); err != nil {
		return false, err
	}
	return k.gate.gate.Enabled(ctx)
}

// MayLook reports whether stale reads (see Stale) may be answered while it is unknown whether keys
// exist. That is so if no leader is reachable and the local replica has no keys. Through a Client
// it is false.
func (k *Keys) MayLook() bool { return k.gate.gate.MayLook() }

// OpenSession returns a session token for a key, and when it expires. The token is valid for 12
// hours on every node, unless the key expires or is revoked earlier or CloseSession is called. from
// is the address of the client that presents the key, without a port.
//
// Errors: ErrUnauthorized for a wrong key, and if there is no key store; ErrBusy for a wrong key
// after 10 wrong keys from one address within a minute.
func (k *Keys) OpenSession(ctx context.Context, key, from string) (token string, ends time.Time, err error) {
	if err := k.gate.start(ctx); err != nil {
		return "", time.Time{}, err
	}
	secret, ends, err := k.gate.gate.Session(ctx, auth.Secret(key), from)
	return string(secret), ends, err
}

// CloseSession ends a session early. Its token becomes invalid on the node that handles the call
// before CloseSession returns, and on others as soon as the change reaches them. Requests already
// started with the token continue. CloseSession does nothing if there is no key store.
//
// Errors: ErrUnauthorized for an invalid token; ErrBusy if the key already has 100 closed sessions
// that have not yet expired.
func (k *Keys) CloseSession(ctx context.Context, token string) error {
	if err := k.gate.start(ctx); err != nil {
		return err
	}
	return k.gate.gate.EndSession(ctx, auth.Secret(token))
}

// Authenticate returns the holder of a session token. If there is no key store, the holder has full
// access regardless of the token. Errors: ErrUnauthorized for a malformed token, or if the session
// has ended or its key is no longer valid; ErrUnavailable while the keys are not known yet.
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

// AuthenticateKey is Authenticate for the key itself, presented from an address without a port.
// Prometheus and other programs present a key with each request. Errors: those of OpenSession.
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

// Holder is a caller authenticated by a key or a session, for as long as that is valid.
type Holder struct {
	grant *auth.Grant
	ends  time.Time
	of    *gatekeeper
}

// Key returns the key. If there is no key store, it has no ID and the role admin.
func (h *Holder) Key() Key {
	if h.grant.IsOpen() {
		return Key{Role: RoleAdmin}
	}
	return newKey(h.grant.Key())
}

// Ends returns when the session expires, or the zero time if the holder has none.
func (h *Holder) Ends() time.Time { return h.ends }

// Require returns ErrUnauthorized unless the holder's role includes role.
func (h *Holder) Require(role Role) error {
	r, err := auth.ParseRole(string(role))
	if err != nil {
		return err
	}
	return h.grant.Require(r)
}

// RequireNamespace returns ErrUnauthorized unless the key is valid for a namespace.
func (h *Holder) RequireNamespace(name string) error { return h.grant.About(name) }

// While returns a context that is done when ctx is, or when the key is revoked. The caller must
// call its cancel function.
func (h *Holder) While(ctx context.Context) (context.Context, context.CancelFunc) {
	return h.grant.While(ctx)
}

// Err returns ErrUnauthorized if the key has been revoked, or nil.
func (h *Holder) Err() error { return h.grant.Err() }

// DB returns the node or client restricted to the holder's rights. Other operations fail with
// ErrUnauthorized before they reach a shard. It needs no Close.
func (h *Holder) DB() DB {
	if h.grant.IsOpen() {
		return h.of.db
	}
	return h.of.view(h.grant)
}

// gatekeeper checks the keys of a node or a client, and keeps the audit.
type gatekeeper struct {
	gate *auth.Gate
	base *stores
	db   DB
	log  *slog.Logger

	wrongTold atomic.Int64 // when wrong keys were last logged, in ms
	wrong     atomic.Int64 // wrong keys since then

	audited atomic.Bool // the audit streams exist
	sums    sums

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	begin   sync.Once

	mu    sync.Mutex // guards views
	views map[*auth.Grant]*granted
}

// open creates the gate in front of base.
func (g *gatekeeper) open(node uint64, base *stores, db DB, log *slog.Logger) {
	g.gate, g.base, g.db, g.log = auth.NewGate(node), base, db, log
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.views = make(map[*auth.Grant]*granted)
	if _, remote := db.(*Client); !remote {
		g.gate.Wrong = g.wrongKey
	}
}

// run makes the gate load the keys and follow their changes, until close.
func (g *gatekeeper) run() {
	g.begin.Do(func() {
		g.running.Go(func() { g.gate.Run(g.ctx) })
		if _, remote := g.db.(*Client); !remote {
			g.running.Go(g.runAudit)
		}
	})
}

// start is run for a Client. It is called on first use, because few Clients need keys. If the
// Client's own key may not read them, start fails at once.
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

// view returns the stores behind a door that checks the holder's rights. It is kept as long as the
// grant exists, because its namespace cache is costly to build.
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

// granted is the DB that Holder.DB returns.
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
