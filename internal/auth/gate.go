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

// Gate is what a process knows of the keys, and lets in who shows one. It is safe for concurrent
// use.
type Gate struct {
	ask    engine.Door // to the leader of the shard
	follow engine.Door // to a replica that is near

	Now func() time.Time // the clock: time.Now, unless it is set before Run

	Wrong func(from string) // hears of each wrong key, and must not wait; set before Run; nil: nobody does

	known   chan struct{} // closed when state is there
	unkeyed atomic.Bool   // the replica at hand says that there are no keys, and the leader did not answer
	over    chan struct{} // closed when it has stopped running
	waiting *Grant        // of those who come before
	state   atomic.Pointer[state]
	failed  failures
	seen    namespaces
	refresh sync.Mutex // held by a caller that asks because something was not there

	mu       sync.Mutex // guards what follows, and changes of state; no I/O under it
	sessions map[[sha256.Size]byte]checked
}

// state is all keys at a revision.
type state struct {
	exists   bool
	revision uint64
	grants   map[string]*Grant              // by id
	nobody   *Grant                         // nil: there is a key store
	neighbor *Grant                         // nobody, on this machine
	ended    map[[sha256.Size]byte]struct{} // sessions that were ended before their time, by the hashes of their tokens
	asked    time.Time                      // when the question was sent that it answers
}

// checked is a token whose signature has been looked at.
type checked struct {
	grant *Grant
	ends  time.Time
}

// maxSessions bounds the tokens whose signatures are remembered.
const maxSessions = 10_000

// NewGate returns a Gate of a node, 0 being none, that knows nothing until it is attached and runs.
func NewGate(node uint64) *Gate {
	waiting := newGrant(storedKey{})
	waiting.unknown = &engine.NotLeaderError{Shard: engine.GlobalShard, Node: node}
	return &Gate{waiting: waiting, Now: time.Now, known: make(chan struct{}), over: make(chan struct{}),
		sessions: make(map[[sha256.Size]byte]checked)}
}

// Attach gives the Gate the doors by which it asks and follows shard 0. It is called before Run and
// everything that asks.
func (g *Gate) Attach(ask, follow engine.Door) { g.ask, g.follow = ask, follow }

// Known reports whether the Gate knows whether there are keys.
func (g *Gate) Known() bool { return g.state.Load() != nil }

// askPause is how long the Gate waits after a question that was not answered.
const askPause = 50 * time.Millisecond

// Run keeps the Gate's knowledge until ctx is done or the shard is closed. What is known first is
// what the leader says: a replica that has just begun does not know that there are keys, and must
// not let anybody in.
//
// A replica that knows that there are keys is believed at once: it may be behind, but not about
// that.
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

// goesOn waits a moment after an error, and reports whether there is any use in asking again.
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

// Refresh asks the leader.
func (g *Gate) Refresh(ctx context.Context) error {
	var q keysQuery
	asked := g.Now()
	if err := g.ask.Query(ctx, engine.GlobalShard, &q); err != nil {
		return err
	}
	g.learn(&q, asked)
	return nil
}

// learn takes an answer, unless a later one was here first.
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
		s.nobody = newGrant(storedKey{})
		s.nobody.open = true
		neighbor := *s.nobody
		neighbor.local = true
		s.neighbor = &neighbor
	}
	g.state.Store(s)
	if old == nil {
		close(g.known)
		g.waiting.end(engine.Errorf(engine.ErrUnavailable, "it was not known yet whether there are keys"))
		return
	}
	clear(g.sessions)
	if old.nobody != nil && s.exists {
		old.nobody.end(errKeysNow)
	}
	for id, grant := range old.grants {
		if s.grants[id] == nil {
			grant.end(engine.Errorf(engine.ErrUnauthorized, "key %s was revoked", id))
		}
	}
}

var (
	errKeysNow  = engine.Errorf(engine.ErrUnauthorized, "there is a key store now: show a key")
	errWrongKey = engine.Errorf(engine.ErrUnauthorized, "unknown or wrong API key")
	errNoKey    = engine.Errorf(engine.ErrUnauthorized, "an API key is needed")
	errToken    = engine.Errorf(engine.ErrUnauthorized, "missing, invalid or expired session token")
)

// knowTime is how long a caller waits for the Gate to know: as long as any call waits for a leader.
const knowTime = 5 * time.Second

// await returns the state as soon as there is one.
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
		return nil, engine.Errorf(engine.ErrUnavailable, "whether there are keys is not known yet: %v", ctx.Err())
	}
}

// Enabled reports whether there is a key store.
func (g *Gate) Enabled(ctx context.Context) (bool, error) {
	s, err := g.await(ctx)
	return err == nil && s.exists, err
}

// Wait returns the grant of those who come while it is not known whether there are keys: of nothing
// but looking how the node is, until it is known. nil if it is.
func (g *Gate) Wait() *Grant {
	if g.Known() {
		return nil
	}
	return g.waiting
}

// MayLook reports whether stale reads may be answered although it is not known whether there are
// keys: the replica that answers them, which knows of none, is all that is left when no leader can
// be found.
func (g *Gate) MayLook() bool { return !g.Known() && g.unkeyed.Load() }

// Enter lets in who shows a key at a port, "" being none; near says that he does so on this
// machine. Errors: ErrUnauthorized; ErrBusy after too many wrong keys from the address;
// ErrUnavailable while the keys are not known.
func (g *Gate) Enter(ctx context.Context, key Secret, from string, near bool) (*Grant, error) {
	s, err := g.await(ctx)
	switch {
	case err != nil:
		return nil, err
	case !s.exists && near:
		return s.neighbor, nil
	case !s.exists:
		return s.nobody, nil
	case key == "":
		return nil, errNoKey
	}
	grant, _, err := g.holder(ctx, key, from)
	return grant, err
}

// holder returns what a key is good for, and its secret. A right key is let in however many wrong
// ones came from the same address: a process there that goes on with a revoked one must not keep
// others out.
func (g *Gate) holder(ctx context.Context, key Secret, from string) (*Grant, []byte, error) {
	tooMany := g.failed.check(from, g.Now())
	wanted := g.Now()
	if tooMany != nil { // the leader is asked once in a while only, however many ids are invented
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

// askAgain is how old the Gate's knowledge may be for an address from which too many wrong keys
// came.
const askAgain = time.Second

// fitting returns the grant that find has for a key, and the key's secret; ok is false if there is
// none with that secret.
func (g *Gate) fitting(key Secret, find func(id string) *Grant) (grant *Grant, secret []byte, ok bool) {
	id, secret, ok := key.parse()
	if ok {
		grant = find(id)
	}
	p := new(proof) // compared for an unknown key too, so that both take the same time
	if grant != nil {
		p = &grant.key.proof
	}
	fits := p.fits(secret)
	return grant, secret, fits && grant != nil
}

// find returns the grant of a key. One that is not known may have been made a moment ago: then the
// leader is asked, for all who want to know at once, unless it has been since wanted.
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

// Session returns a session token for a key, and when it ends. Errors: those of Enter;
// ErrUnauthorized too when there is no key store.
func (g *Gate) Session(ctx context.Context, key Secret, from string) (Secret, time.Time, error) {
	s, err := g.await(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	if !s.exists {
		return "", time.Time{}, engine.Errorf(engine.ErrUnauthorized, "there is no key store: everything is open, and no key is good")
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

// Holder returns what a session token is good for, and until when. Where there is no key store it
// is nobody's grant, whatever the token. Errors: ErrUnauthorized; ErrUnavailable while the keys are
// not known.
func (g *Gate) Holder(ctx context.Context, s Secret) (*Grant, time.Time, error) {
	all, err := g.await(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	if !all.exists {
		return all.nobody, time.Time{}, nil
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

// EndSession ends a session before its time, here before EndSession returns, on other nodes as soon
// as they hear of it. Errors: those of Holder; ErrBusy if MaxEnded sessions of the key have been
// ended that would not be over yet.
func (g *Gate) EndSession(ctx context.Context, s Secret) error {
	grant, ends, err := g.Holder(ctx, s)
	if err != nil || grant.open {
		return err
	}
	return g.change(ctx, end.Op(grant.key.ID, endBody{hash: sha256.Sum256([]byte(s)), ends: ends}, nil))
}

// NoteUses proposes when keys were used since the last call, at most once every usedEvery for each.
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

// usedEvery is how often, at most, a node notes that a key was used.
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

// remember keeps what was checked with what was known: not what has ended meanwhile.
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

// Keep is told a key, and the secret of it, before there is the key. It is not made if Keep fails.
// nil does nothing.
type Keep func(Key, Secret) error

// Bootstrap makes the key store, with a first admin key. Errors: ErrExists; keep's.
func (g *Gate) Bootstrap(ctx context.Context, k Key, keep Keep) (Key, Secret, error) {
	k.Role, k.Namespaces = Admin, nil
	if keep != nil { // it is better not told a key that there will not be
		switch _, err := g.List(ctx); {
		case err == nil:
			return k, "", errStore
		case !errors.Is(err, errNoStore):
			return k, "", err
		}
	}
	return g.add(ctx, bootstrap, k, keep)
}

// Create makes a key. Errors: ErrInvalid; ErrConflict without a key store; ErrBusy if there are too
// many; keep's.
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

// Revoke ends a key, by its id or by all of it, and all that was begun with it: here before Revoke
// returns, on other nodes as soon as they hear of it. Errors: ErrNotFound; ErrConflict for the last
// admin key; ErrInvalid for what is no id.
func (g *Gate) Revoke(ctx context.Context, id string) error {
	if whole, _, ok := Secret(id).parse(); ok { // whoever shows all of a key means its id, and the rest should not get into the log
		id = whole
	}
	if strings.HasPrefix(id, keyPrefix) {
		return engine.Errorf(engine.ErrInvalid, "key: that is no id: of floe_sk_<id>_<secret> it is the middle")
	}
	return g.change(ctx, revoke.Op(id, engine.Nothing{}, nil))
}

// change proposes a change. That it cannot be seen here yet is no reason to call it failed.
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

// List returns all keys, by id. Errors: ErrConflict without a key store.
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

// Changes reports whether a command changes keys: then a node that has passed it on refreshes its
// Gate before it answers. what says in a few words which, for the audit.
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
