package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// Gate authenticates callers by their keys. It is safe for concurrent use.
type Gate struct {
	ask    engine.Door // door to the leader of the shard
	follow engine.Door // door to a nearby replica

	Now func() time.Time // the clock: time.Now, unless it is set before Run

	Wrong func(from string) // called for each wrong key; must not block; set before Run; nil: not called

	known   chan struct{} // closed when state is set
	unkeyed atomic.Bool   // the local replica has no keys, and the leader did not answer
	over    chan struct{} // closed when Run has returned
	waiting *Grant        // of callers that arrive before the state is known
	state   atomic.Pointer[state]
	failed  failures
	seen    namespaces
	refresh sync.Mutex // held by a caller that queries the leader for an unknown key

	mu       sync.Mutex // guards the fields below and changes of state; no I/O while it is held
	sessions map[[sha256.Size]byte]checked
}

// state holds all keys at a revision.
type state struct {
	exists    bool
	revision  uint64
	grants    map[string]*Grant              // by id
	anonymous *Grant                         // grant of callers without a key; nil: there is a key store
	neighbor  *Grant                         // the anonymous grant for callers on this machine
	ended     map[[sha256.Size]byte]struct{} // token hashes of sessions ended before they expired
	asked     time.Time                      // when the query was sent that returned this state
}

// checked is a token whose signature has been verified.
type checked struct {
	grant *Grant
	ends  time.Time
}

// maxSessions is the maximum number of cached tokens whose signatures have been verified.
const maxSessions = 10_000

// NewGate returns a Gate of a node, 0 for none. It has no keys until it is attached and runs.
func NewGate(node uint64) *Gate {
	waiting := newGrant(storedKey{})
	waiting.unknown = &engine.NotLeaderError{Shard: engine.GlobalShard, Node: node}
	return &Gate{waiting: waiting, Now: time.Now, known: make(chan struct{}), over: make(chan struct{}),
		sessions: make(map[[sha256.Size]byte]checked)}
}

// Attach sets the doors by which the Gate queries and follows shard 0. Call it before Run and
// before any request.
func (g *Gate) Attach(ask, follow engine.Door) { g.ask, g.follow = ask, follow }

// Known reports whether the Gate has a state, and so whether it is known if there is a key store.
func (g *Gate) Known() bool { return g.state.Load() != nil }

// askPause is the pause after a failed query.
const askPause = 50 * time.Millisecond

// Run keeps the state of the Gate up to date until ctx is done or the shard is closed. The first
// state comes from the leader, because a replica that has just started may not have the keys yet,
// and must not admit callers without a key.
//
// If a replica has a key store, its answer is used at once. It may lag, but the key store exists.
func (g *Gate) Run(ctx context.Context) {
	defer close(g.over)
	defer g.waiting.end(engine.ErrClosed)
	q, asked := keysQuery{}, g.Now()
	answered := g.follow.Query(ctx, engine.GlobalShard, &q) == nil
	if answered && q.exists {
		g.learn(&q, asked)
	}
	err := g.Refresh(ctx)
	g.unkeyed.Store(err != nil && answered && !q.exists)
	for err != nil && g.goesOn(ctx, err) {
		err = g.Refresh(ctx)
	}
	for err == nil || g.goesOn(ctx, err) {
		asked := g.Now()
		q := keysQuery{wait: true, not: g.state.Load().revision}
		if err = g.follow.Query(engine.Lasting(ctx), engine.GlobalShard, &q); err == nil {
			g.learn(&q, asked)
		}
	}
}

// goesOn waits after an error and reports whether to query again.
func (g *Gate) goesOn(ctx context.Context, err error) bool {
	if errors.Is(err, engine.ErrClosed) {
		return false
	}
	t := time.NewTimer(askPause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Refresh updates the state from the leader.
func (g *Gate) Refresh(ctx context.Context) error {
	var q keysQuery
	asked := g.Now()
	if err := g.ask.Query(ctx, engine.GlobalShard, &q); err != nil {
		return err
	}
	g.learn(&q, asked)
	return nil
}

// learn stores an answer, unless a newer one is already stored.
func (g *Gate) learn(q *keysQuery, asked time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.state.Load()
	if old != nil && q.revision < old.revision {
		return
	}
	if old != nil && q.revision == old.revision {
		same := *old
		same.asked = asked
		g.state.Store(&same)
		return
	}
	s := &state{exists: q.exists, revision: q.revision, grants: make(map[string]*Grant), asked: asked,
		ended: make(map[[sha256.Size]byte]struct{})}
	for _, hash := range q.ended {
		s.ended[hash] = struct{}{}
	}
	for _, k := range q.keys {
		if old != nil && old.grants[k.ID] != nil {
			s.grants[k.ID] = old.grants[k.ID]
			continue
		}
		s.grants[k.ID] = newGrant(k)
		s.grants[k.ID].gate = g
		s.grants[k.ID].expire(g.Now())
	}
	if !s.exists {
		s.anonymous = newGrant(storedKey{})
		s.anonymous.open = true
		neighbor := *s.anonymous
		neighbor.local = true
		s.neighbor = &neighbor
	}
	g.state.Store(s)
	if old == nil {
		close(g.known)
		g.waiting.end(engine.Errorf(engine.ErrUnavailable, "API keys were not loaded yet"))
		return
	}
	clear(g.sessions)
	if old.anonymous != nil && s.exists {
		old.anonymous.end(errKeysNow)
	}
	for id, grant := range old.grants {
		if s.grants[id] == nil {
			grant.end(engine.Errorf(engine.ErrUnauthorized, "key %s was revoked", id))
		}
	}
}

var (
	errKeysNow  = engine.Errorf(engine.ErrUnauthorized, "authentication required: no API key given")
	errWrongKey = engine.Errorf(engine.ErrUnauthorized, "unknown or wrong API key")
	errNoKey    = engine.Errorf(engine.ErrUnauthorized, "authentication required: no API key given")
	errToken    = engine.Errorf(engine.ErrUnauthorized, "missing, invalid or expired session token")
)

// knowTime is how long a caller waits for the first state, which is as long as any call waits for a
// leader.
const knowTime = 5 * time.Second

// await waits for the first state and returns the current one.
func (g *Gate) await(ctx context.Context) (*state, error) {
	select {
	case <-g.known:
		return g.state.Load(), nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, knowTime)
	defer cancel()
	select {
	case <-g.known:
		return g.state.Load(), nil
	case <-g.over:
		return nil, engine.Errorf(engine.ErrClosed, "closed")
	case <-ctx.Done():
		return nil, engine.Errorf(engine.ErrUnavailable, "cannot check API keys yet: %v", ctx.Err())
	}
}

// Enabled reports whether there is a key store.
func (g *Gate) Enabled(ctx context.Context) (bool, error) {
	s, err := g.await(ctx)
	return err == nil && s.exists, err
}

// Wait returns the grant of callers that arrive before the state is known, or nil if it is known.
// Until then the grant allows only reading the status of the node.
func (g *Gate) Wait() *Grant {
	if g.Known() {
		return nil
	}
	return g.waiting
}

// MayLook reports whether stale reads are allowed before the state is known. They are if no leader
// can be found and the local replica, which answers them, has no keys.
func (g *Gate) MayLook() bool { return !g.Known() && g.unkeyed.Load() }

// Enter authenticates a caller by its key. from is the caller's address, "" if none exists; near
// means that the caller is on this machine. Errors: ErrUnauthorized; ErrBusy after too many wrong
// keys from the address; ErrUnavailable before the keys are known.
func (g *Gate) Enter(ctx context.Context, key Secret, from string, near bool) (*Grant, error) {
	s, err := g.await(ctx)
	switch {
	case err != nil:
		return nil, err
	case !s.exists && near:
		return s.neighbor, nil
	case !s.exists:
		return s.anonymous, nil
	case key == "":
		return nil, errNoKey
	}
	grant, _, err := g.holder(ctx, key, from)
	return grant, err
}

// holder returns the grant of a key, and its secret. A correct key is accepted regardless of the
// number of wrong ones from the address, because a process that keeps using a revoked key must not
// lock out others.
func (g *Gate) holder(ctx context.Context, key Secret, from string) (*Grant, []byte, error) {
	tooMany := g.failed.check(from, g.Now())
	wanted := g.Now()
	if tooMany != nil { // limits queries to the leader, even if each attempt has a new ID
		wanted = wanted.Add(-askAgain)
	}
	var unknown error
	grant, secret, ok := g.fitting(key, func(id string) (grant *Grant) {
		grant, unknown = g.find(ctx, id, wanted)
		return grant
	})
	switch {
	case unknown != nil:
		return nil, nil, unknown
	case ok:
		err := grant.key.expired(g.Now())
		if err == nil {
			grant.use()
		}
		return grant, secret, err
	case tooMany == nil:
		tooMany = g.failed.note(from, g.Now())
	}
	if g.Wrong != nil {
		g.Wrong(source(from))
	}
	return nil, nil, tooMany
}

// askAgain is the accepted age of the state for addresses that sent too many wrong keys.
const askAgain = time.Second

// fitting returns the grant that find returns for a key, and the key's secret; ok is false unless
// the secret matches.
func (g *Gate) fitting(key Secret, find func(id string) *Grant) (grant *Grant, secret []byte, ok bool) {
	id, secret, ok := key.parse()
	if ok {
		grant = find(id)
	}
	p := new(proof) // compared for an unknown key too, so that the time is the same
	if grant != nil {
		p = &grant.key.proof
	}
	fits := p.fits(secret)
	return grant, secret, fits && grant != nil
}

// find returns the grant of a key. An unknown key may have been created a moment ago, so find
// refreshes the state from the leader unless it is as recent as wanted. Concurrent callers share a
// refresh.
func (g *Gate) find(ctx context.Context, id string, wanted time.Time) (*Grant, error) {
	if grant := g.state.Load().grants[id]; grant != nil {
		return grant, nil
	}
	g.refresh.Lock()
	defer g.refresh.Unlock()
	if g.state.Load().asked.Before(wanted) {
		if err := g.Refresh(ctx); err != nil {
			return nil, err
		}
	}
	return g.state.Load().grants[id], nil
}

// Session returns a session token for a key, and when it expires. Errors: those of Enter;
// ErrUnauthorized if there is no key store.
func (g *Gate) Session(ctx context.Context, key Secret, from string) (Secret, time.Time, error) {
	s, err := g.await(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	if !s.exists {
		return "", time.Time{}, engine.Errorf(engine.ErrUnauthorized, "no key store: access is open, and API keys are not accepted")
	}
	grant, secret, err := g.holder(ctx, key, from)
	if err != nil {
		return "", time.Time{}, err
	}
	ends := g.Now().Add(SessionTime)
	if at := grant.key.Expires; !at.IsZero() && at.Before(ends) {
		ends = at
	}
	return sign(grant.key.ID, secret, ends), ends, nil
}

// Holder returns the grant of a session token and when the session ends. Without a key store it
// returns the open grant for any token. Errors: ErrUnauthorized; ErrUnavailable before the keys are
// known.
func (g *Gate) Holder(ctx context.Context, s Secret) (*Grant, time.Time, error) {
	all, err := g.await(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	if !all.exists {
		return all.anonymous, time.Time{}, nil
	}
	hash := sha256.Sum256([]byte(s))
	if c, ok := g.checked(hash); ok {
		return c.grant, c.ends, c.valid(g.Now())
	}
	t, ok := parseToken(s)
	if !ok {
		return nil, time.Time{}, errToken
	}
	grant, err := g.find(ctx, t.id, g.Now())
	if err != nil {
		return nil, time.Time{}, err
	}
	known := g.state.Load()
	if _, over := known.ended[hash]; over {
		return nil, time.Time{}, errToken
	}
	if grant == nil || !t.signedBy(&grant.key.proof) {
		return nil, time.Time{}, errToken
	}
	c := checked{grant, t.ends}
	g.remember(known, hash, c)
	return grant, t.ends, c.valid(g.Now())
}

// EndSession ends a session before it expires. It ends on this node before EndSession returns, and
// on other nodes when they receive the change. Errors: those of Holder; ErrBusy if the key has
// MaxEnded ended sessions that have not expired.
func (g *Gate) EndSession(ctx context.Context, s Secret) error {
	grant, ends, err := g.Holder(ctx, s)
	if err != nil || grant.open {
		return err
	}
	return g.change(ctx, end.Op(grant.key.ID, endBody{hash: sha256.Sum256([]byte(s)), ends: ends}, nil))
}

// NoteUses records when keys were used since the last call, at most once per usedEvery for each
// key.
func (g *Gate) NoteUses(ctx context.Context) error {
	s := g.state.Load()
	if s == nil {
		return nil
	}
	var u usedBody
	for _, id := range slices.Sorted(maps.Keys(s.grants)) {
		if grant, now := s.grants[id], g.Now(); grant.active.Load() && now.Sub(grant.noted) >= usedEvery {
			grant.active.Store(false)
			grant.noted = now
			u.keys = append(u.keys, use{id, now})
		}
	}
	if len(u.keys) == 0 {
		return nil
	}
	return g.propose(ctx, used.Op("", u, nil))
}

// usedEvery is the minimum time between two recorded uses of a key by a node.
const usedEvery = 5 * time.Minute

func (c *checked) valid(now time.Time) error {
	if err := c.grant.Err(); err != nil {
		return err
	}
	if !now.Before(c.ends) {
		return errToken
	}
	c.grant.use()
	return nil
}

func (g *Gate) checked(hash [sha256.Size]byte) (checked, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.sessions[hash]
	return c, ok
}

// remember caches a checked token, unless the state has changed since the check.
func (g *Gate) remember(known *state, hash [sha256.Size]byte, c checked) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state.Load().revision != known.revision {
		return
	}
	if len(g.sessions) >= maxSessions {
		clear(g.sessions)
	}
	g.sessions[hash] = c
}

// Keep receives a new key and its secret before the key is created. If Keep fails, the key is not
// created. A nil Keep is not called.
type Keep func(Key, Secret) error

// Bootstrap creates the key store with a first admin key. Errors: ErrExists; errors of keep.
func (g *Gate) Bootstrap(ctx context.Context, k Key, keep Keep) (Key, Secret, error) {
	k.Role, k.Namespaces = Admin, nil
	if keep != nil { // do not pass keep a key that will not be created
		switch _, err := g.List(ctx); {
		case err == nil:
			return k, "", errStore
		case !errors.Is(err, errNoStore):
			return k, "", err
		}
	}
	return g.add(ctx, bootstrap, k, keep)
}

// Create creates a key. Errors: ErrInvalid; ErrConflict without a key store; ErrBusy if there are
// too many keys; errors of keep.
func (g *Gate) Create(ctx context.Context, k Key, keep Keep) (Key, Secret, error) {
	return g.add(ctx, create, k, keep)
}

func (g *Gate) add(ctx context.Context, row *engine.CommandRow[*change, storedKey, engine.Nothing], k Key, keep Keep) (Key, Secret, error) {
	var secret []byte
	k.ID, secret = newSecret()
	op := row.Op(k.ID, storedKey{Key: k, proof: prove(secret)}, nil)
	if op.Err != nil {
		return k, "", op.Err
	}
	k.Created = g.Now().Truncate(time.Millisecond)
	if keep != nil {
		if err := keep(k, spell(k.ID, secret)); err != nil {
			return k, "", err
		}
	}
	if err := g.change(ctx, op); err != nil {
		return k, "", err
	}
	return k, spell(k.ID, secret), nil
}

// Revoke revokes a key and ends all connections and sessions opened with it. They end on this node
// before Revoke returns, and on other nodes when they receive the change. id is the key's ID or the
// complete key. Errors: ErrNotFound; ErrConflict for the last admin key; ErrInvalid for a malformed
// ID.
func (g *Gate) Revoke(ctx context.Context, id string) error {
	if whole, _, ok := Secret(id).parse(); ok { // use the ID of a complete key: its secret must not reach the log
		id = whole
	}
	if strings.HasPrefix(id, keyPrefix) {
		return engine.Errorf(engine.ErrInvalid, "key: invalid id: use the middle part of floe_sk_<id>_<secret>")
	}
	return g.change(ctx, revoke.Op(id, engine.Nothing{}, nil))
}

// change proposes a change and refreshes the state. A failed refresh does not make the change fail.
func (g *Gate) change(ctx context.Context, op engine.Op) error {
	if err := g.propose(ctx, op); err != nil {
		return err
	}
	if g.Known() {
		_ = g.Refresh(ctx)
	}
	return nil
}

func (g *Gate) propose(ctx context.Context, op engine.Op) error {
	if op.Err != nil {
		return op.Err
	}
	_, err := g.ask.Propose(ctx, engine.GlobalShard, op.Command)
	return err
}

// List returns all keys, ordered by ID. Errors: ErrConflict without a key store.
func (g *Gate) List(ctx context.Context) (keys []Key, err error) {
	q := keysQuery{used: true}
	if err := g.ask.Query(ctx, engine.GlobalShard, &q); err != nil {
		return nil, err
	}
	if !q.exists {
		return nil, errNoStore
	}
	for _, k := range q.keys {
		keys = append(keys, k.Key)
	}
	return keys, nil
}

// Changes reports whether a command changes keys. If so, a node that forwarded it refreshes its
// Gate before it answers. what describes the change for the audit.
func Changes(cmd engine.Command) (what string, ok bool) {
	if cmd.Machine != engine.MachineKeys {
		return "", false
	}
	switch cmd.Kind {
	case kindRevoke:
		id, _, _ := revoke.Read(cmd)
		return "revoke key " + string(id), true
	case kindEnd:
		id, _, _ := end.Read(cmd)
		return "end a session of key " + string(id), true
	case kindUsed, kindMake:
		return "", false
	}
	verb := "create"
	if cmd.Kind == kindBootstrap {
		verb = "bootstrap with"
	}
	id, k, _ := create.Read(cmd)
	return verb + " key " + string(id) + ", " + k.Role.String(), true
}
