package auth

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

// door is shard 0 as a Gate sees it, with keys that a test makes.
type door struct {
	engine.Door
	keys     []storedKey
	exists   bool
	revision uint64
	asked    int
	during   func() // nil, or what happens while it is asked
	proposed int
	revoked  string
}

func (d *door) Propose(_ context.Context, _ engine.ShardID, cmd engine.Command) ([]byte, error) {
	d.proposed++
	if cmd.Kind == kindRevoke {
		id, _, err := revoke.Read(cmd)
		d.revoked = string(id)
		return nil, err
	}
	return nil, nil
}

func (d *door) Query(_ context.Context, _ engine.ShardID, q engine.Query) error {
	k := q.(*keysQuery)
	k.exists, k.revision, k.keys = d.exists, d.revision, d.keys
	d.asked++
	if d.during != nil {
		d.during()
	}
	return nil
}

func (d *door) add(t *testing.T, role Role, namespaces ...string) Secret {
	t.Helper()
	id, secret := newSecret()
	k := Key{ID: id, Role: role, Namespaces: namespaces}
	if err := k.check(); err != nil {
		t.Fatal(err)
	}
	d.keys = append(d.keys, storedKey{k, prove(secret)})
	d.exists = true
	d.revision++
	return spell(id, secret)
}

func newTestGate(t *testing.T, d *door) (*Gate, *time.Time) {
	t.Helper()
	g := NewGate(1)
	g.Attach(d, d)
	now := time.UnixMilli(1_800_000_000_000)
	g.Now = func() time.Time { return now }
	if err := g.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g, &now
}

func TestSessionEnds(t *testing.T) {
	d := new(door)
	key := d.add(t, Read)
	g, now := newTestGate(t, d)
	token, ends, err := g.Session(t.Context(), key, "::1")
	if err != nil || !ends.Equal(now.Add(SessionTime)) {
		t.Fatalf("session until %v, %v", ends, err)
	}
	*now = now.Add(SessionTime - time.Millisecond)
	if _, _, err := g.Holder(t.Context(), token); err != nil {
		t.Errorf("a moment before its end: %v", err)
	}
	*now = now.Add(time.Millisecond)
	if _, _, err := g.Holder(t.Context(), token); !errors.Is(err, engine.ErrUnauthorized) {
		t.Errorf("at its end: %v, want ErrUnauthorized", err)
	}
}

// TestKeyExpires: a key with an expiry is good until then, and what was begun with it ends then,
// sessions too.
func TestKeyExpires(t *testing.T) {
	d := new(door)
	d.add(t, Admin)
	key := d.add(t, Write)
	g := NewGate(1)
	g.Attach(d, d)
	now := time.UnixMilli(1_800_000_000_000)
	g.Now = func() time.Time { return now }
	expires := now.Add(time.Hour)
	d.keys[1].Expires = expires
	if err := g.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	token, ends, err := g.Session(t.Context(), key, "::1")
	if err != nil || !ends.Equal(expires) {
		t.Errorf("a session ends at %v, %v, want %v with the key", ends, err, expires)
	}
	now = expires.Add(-time.Millisecond)
	if _, err := g.Enter(t.Context(), key, "::1", false); err != nil {
		t.Errorf("a moment before the expiry: %v", err)
	}
	if _, _, err := g.Holder(t.Context(), token); err != nil {
		t.Errorf("a session, a moment before the expiry: %v", err)
	}
	now = expires
	if _, err := g.Enter(t.Context(), key, "::1", false); !errors.Is(err, engine.ErrUnauthorized) ||
		!strings.Contains(err.Error(), "expired") {
		t.Errorf("at the expiry: %v, want ErrUnauthorized", err)
	}
	if _, _, err := g.Session(t.Context(), key, "::1"); !errors.Is(err, engine.ErrUnauthorized) ||
		!strings.Contains(err.Error(), "expired") {
		t.Errorf("a session at the expiry: %v, want ErrUnauthorized", err)
	}
	if _, _, err := g.Holder(t.Context(), token); !errors.Is(err, engine.ErrUnauthorized) {
		t.Errorf("an old session at the expiry: %v, want ErrUnauthorized", err)
	}
}

// TestExpiryEndsGrants: calls that are under way when a key expires end, and so does nothing of a
// key with the longest expiry there is.
func TestExpiryEndsGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(door)
		d.add(t, Admin)
		short, long := d.add(t, Write), d.add(t, Write)
		d.keys[1].Expires = time.Now().Add(time.Hour)
		d.keys[2].Expires = time.UnixMilli(math.MaxInt64)
		g := NewGate(1)
		g.Attach(d, d)
		if err := g.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		grants := make([]*Grant, 2)
		for i, key := range []Secret{short, long} {
			var err error
			if grants[i], err = g.Enter(t.Context(), key, "::1", false); err != nil {
				t.Fatal(err)
			}
		}
		token, _, err := g.Session(t.Context(), short, "::1")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := g.Holder(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		<-grants[0].Done()
		if _, _, err := g.Holder(t.Context(), token); !errors.Is(err, engine.ErrUnauthorized) || !strings.Contains(err.Error(), "expired") {
			t.Errorf("its session: %v", err)
		}
		if passed := time.Until(d.keys[1].Expires); passed != 0 {
			t.Errorf("the grant ended %v before the expiry", passed)
		}
		if err := grants[0].Err(); !errors.Is(err, engine.ErrUnauthorized) || !strings.Contains(err.Error(), "expired") {
			t.Errorf("the grant ended with %v", err)
		}
		if err := grants[1].Err(); err != nil {
			t.Errorf("the grant of the other key: %v", err)
		}
		d.keys, d.revision = d.keys[:1], d.revision+1
		if err := g.Refresh(t.Context()); err != nil { // ends the timer of the other key
			t.Fatal(err)
		}
	})
}

// TestEndSession: a session ends at once on the node that ends it, and on others when they learn of
// it. Other sessions of the key stay valid.
func TestEndSession(t *testing.T) {
	r, ctx := machinetest.New(t, 1, Primitive()), t.Context()
	now := time.UnixMilli(machinetest.Epoch)
	var gates [2]*Gate
	for i := range gates {
		gates[i] = NewGate(uint64(i + 1))
		gates[i].Attach(r, r)
		gates[i].Now = func() time.Time { return now }
		if err := gates[i].Refresh(ctx); err != nil {
			t.Fatal(err)
		}
	}
	g, other := gates[0], gates[1]
	_, key, err := g.Bootstrap(ctx, Key{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	session := func() Secret {
		t.Helper()
		token, _, err := g.Session(ctx, key, "::1")
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	good := func(g *Gate, token Secret) bool { _, _, err := g.Holder(ctx, token); return err == nil }
	first, second := session(), session()
	if err := other.Refresh(ctx); err != nil || !good(g, first) || !good(other, first) || !good(g, second) {
		t.Fatalf("two sessions are not good: %v", err)
	}
	if err := g.EndSession(ctx, first); err != nil {
		t.Fatal(err)
	}
	if good(g, first) || !good(g, second) {
		t.Errorf("after its end the session is good: %t, and another one: %t", good(g, first), good(g, second))
	}
	if err := other.Refresh(ctx); err != nil || good(other, first) || !good(other, second) {
		t.Errorf("after its end the session is good at another node: %t, and another one: %t, %v", good(other, first), good(other, second),
			err)
	}
	if err := g.EndSession(ctx, first); !errors.Is(err, engine.ErrUnauthorized) {
		t.Errorf("end a session twice: %v, want ErrUnauthorized", err)
	}
	for i := 1; i < MaxEnded; i++ {
		if err := g.EndSession(ctx, session()); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(time.Millisecond)
	last := session()
	if err := g.EndSession(ctx, last); !errors.Is(err, engine.ErrBusy) || !good(g, last) {
		t.Errorf("end one more than %d: %v, want ErrBusy", MaxEnded, err)
	}
	// The others have ended when that one still has a millisecond.
	r.Pass(now.UnixMilli() - machinetest.Epoch + SessionTime.Milliseconds() - 1)
	now = now.Add(SessionTime - time.Millisecond)
	if err := g.EndSession(ctx, last); err != nil || good(g, last) {
		t.Errorf("end a session when others have been forgotten: %v", err)
	}
	var q keysQuery
	if err := r.Query(ctx, engine.GlobalShard, &q); err != nil || len(q.ended) != 1 {
		t.Errorf("%d ended sessions are kept, want 1, %v", len(q.ended), err)
	}
	r.Verify()
}

// TestUses: when a key was used is noted, at most every five minutes, and is not a change that
// anybody hears of.
func TestUses(t *testing.T) {
	r, ctx := machinetest.New(t, 1, Primitive()), t.Context()
	now := time.UnixMilli(machinetest.Epoch)
	g := NewGate(1)
	g.Attach(r, r)
	g.Now = func() time.Time { return now }
	if err := errors.Join(g.NoteUses(ctx), g.Refresh(ctx)); err != nil {
		t.Fatal(err)
	}
	k, key, err := g.Bootstrap(ctx, Key{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	revision := g.state.Load().revision
	noted := func(want int64) {
		t.Helper()
		if err := g.NoteUses(ctx); err != nil {
			t.Fatal(err)
		}
		list, err := g.List(ctx)
		if err != nil || len(list) != 1 || want == 0 != list[0].Used.IsZero() || want != 0 && list[0].Used.UnixMilli() != want {
			t.Errorf("used at %v, %v, want %d", list, err, want)
		}
	}
	pass := func(d time.Duration) {
		now = now.Add(d)
		r.Pass(d.Milliseconds())
	}
	pass(time.Minute)
	noted(0)
	token, _, err := g.Session(ctx, key, "::1")
	if err != nil {
		t.Fatal(err)
	}
	first := now.UnixMilli()
	noted(first)
	pass(usedEvery - time.Millisecond)
	if _, _, err := g.Holder(ctx, token); err != nil {
		t.Fatal(err)
	}
	noted(first)
	pass(time.Millisecond)
	noted(now.UnixMilli())
	second := now.UnixMilli()
	pass(time.Hour)
	noted(second)
	grant, err := g.Enter(ctx, key, "::1", false)
	if err != nil {
		t.Fatal(err)
	}
	noted(now.UnixMilli())
	pass(time.Hour)
	if err := grant.Query(&engine.NamespacesQuery{}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute) // this node's clock is ahead of the shard's: no later than that
	noted(now.Add(-time.Minute).UnixMilli())
	if err := g.Refresh(ctx); err != nil || g.state.Load().revision != revision {
		t.Errorf("revision %d, %v, want %d", g.state.Load().revision, err, revision)
	}
	late := usedBody{[]use{{k.ID, time.UnixMilli(first)}, {"0123456789abcdef", now}}}
	if _, err := r.Propose(ctx, engine.GlobalShard, commandOf(used, "", late)); err != nil {
		t.Fatal(err)
	}
	noted(now.Add(-time.Minute).UnixMilli())
	r.Verify()
}

// TestRevoked: calls of a key end when it is revoked, even if an older list of keys arrives later.
func TestRevoked(t *testing.T) {
	d := new(door)
	d.add(t, Admin)
	key := d.add(t, Write)
	g, _ := newTestGate(t, d)
	grant, err := g.Enter(t.Context(), key, "192.0.2.1", false)
	if err != nil {
		t.Fatal(err)
	}
	late := keysQuery{exists: true, revision: d.revision, keys: d.keys}
	d.keys, d.revision = d.keys[:1], d.revision+1
	if err := g.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.learn(&late, g.Now())
	if err := grant.Err(); !errors.Is(err, engine.ErrUnauthorized) || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("the grant of a revoked key: %v", err)
	}
	if _, err := g.Enter(t.Context(), key, "192.0.2.1", false); !errors.Is(err, engine.ErrUnauthorized) {
		t.Errorf("a revoked key: %v", err)
	}
}

// TestRightKeyPassesWrongOnes: a valid key is accepted, and keeps its session, however many wrong
// keys come from its address; each of those is reported. The leader is asked about unknown keys at
// most once a second.
func TestRightKeyPassesWrongOnes(t *testing.T) {
	d := new(door)
	key := d.add(t, Admin)
	g, now := newTestGate(t, d)
	wrong, told := key[:len(key)-1]+"x", 0
	g.Wrong = func(from string) {
		if told++; from != "2001:db8::/64" {
			t.Errorf("a wrong key from %s", from)
		}
	}
	for i := range 2 * maxFailures {
		want := engine.ErrUnauthorized
		if i >= maxFailures {
			want = engine.ErrBusy
		}
		if _, err := g.Enter(t.Context(), wrong, "2001:db8::1", false); !errors.Is(err, want) {
			t.Errorf("wrong key %d: %v, want %v", i+1, err, want)
		}
	}
	if _, err := g.Enter(t.Context(), key, "2001:db8::2", false); err != nil {
		t.Errorf("the right one: %v", err)
	}
	if _, _, err := g.Session(t.Context(), key, "2001:db8::3"); err != nil {
		t.Errorf("a session from the same network: %v", err)
	}
	if _, _, err := g.Session(t.Context(), wrong, "2001:db8::3"); !errors.Is(err, engine.ErrBusy) {
		t.Errorf("a session with a wrong key: %v, want ErrBusy", err)
	}
	if told != 2*maxFailures+1 {
		t.Errorf("%d wrong keys were told, want %d", told, 2*maxFailures+1)
	}
	*now = now.Add(2 * time.Second)
	asked := 0
	d.during = func() { asked++ }
	unknown, _ := newSecret()
	for range 20 {
		if _, err := g.Enter(t.Context(), spell(unknown, make([]byte, secretBytes)), "2001:db8::2", false); !errors.Is(err,
			engine.ErrBusy) {
			t.Errorf("an invented key: %v, want ErrBusy", err)
		}
	}
	if asked != 1 {
		t.Errorf("the leader was asked %d times for 20 invented keys, want once", asked)
	}
	*now = now.Add(2 * time.Second)
	if _, err := g.Enter(t.Context(), d.add(t, Read), "2001:db8::2", false); err != nil {
		t.Errorf("a key that was made a moment ago: %v", err)
	}
}

// TestNewKeyIsFound: a new key works before the Gate has loaded it.
func TestNewKeyIsFound(t *testing.T) {
	d := new(door)
	d.add(t, Admin)
	g, now := newTestGate(t, d)
	*now = now.Add(time.Second)
	if _, err := g.Enter(t.Context(), d.add(t, Read), "192.0.2.1", false); err != nil {
		t.Error(err)
	}
}

// TestNothingIsKnown: who comes before the Gate knows whether there are keys is let do nothing, and
// is sent away when it knows.
func TestNothingIsKnown(t *testing.T) {
	g := NewGate(3)
	grant := g.Wait()
	var notLeader *engine.NotLeaderError
	if err := grant.Query(&engine.NamespacesQuery{}); !errors.As(err, &notLeader) || notLeader.Node != 3 {
		t.Errorf("a query: %v", err)
	}
	if err := grant.Command(nil, engine.CreateNamespace("n", false)); !errors.As(err, &notLeader) {
		t.Errorf("a command: %v", err)
	}
	g.Attach(new(door), new(door))
	if err := g.Refresh(t.Context()); err != nil || grant.Err() == nil || g.Wait() != nil {
		t.Errorf("when it is known: %v, %v, %v", err, grant.Err(), g.Wait())
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	key := spell(newSecret())
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "key", key)
	all := log.String() + fmt.Sprintf("%v %+v %#v %s %q", key, struct{ K Secret }{key}, key, key, key)
	if strings.Contains(all, string(key)[20:]) || !strings.Contains(all, "***") {
		t.Errorf("a secret prints: %s", all)
	}
}

func FuzzToken(f *testing.F) {
	id, secret := newSecret()
	f.Add(string(sign(id, secret, time.UnixMilli(1_800_000_000_000))))
	f.Add(tokenPrefix + "AAAA")
	p := prove(secret)
	f.Fuzz(func(t *testing.T, text string) {
		if tok, ok := parseToken(Secret(text)); ok && tok.signedBy(&p) && string(signAs(id, secret, tok.nonce, tok.ends)) != text {
			t.Errorf("%q is signed, and is none that was made", text)
		}
	})
}

func FuzzCommand(f *testing.F) {
	id, secret := newSecret()
	k := storedKey{Key: Key{Role: Write, Namespaces: []string{"a", "b"}, Expires: time.UnixMilli(1)}, proof: prove(secret)}
	at := time.UnixMilli(7)
	for _, cmd := range []engine.Command{
		commandOf(create, id, k), commandOf(revoke, id, engine.Nothing{}), commandOf(end, id, endBody{[32]byte{7}, at}),
		commandOf(used, "", usedBody{[]use{{id, at}, {}}}), commandOf(makes, id, makeBody{[]string{"n"}}),
	} {
		f.Add(cmd.Kind, cmd.Body)
	}
	p := Primitive()
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		cmd := engine.Command{Machine: engine.MachineKeys, Kind: kind, Body: body}
		if p.Admit(cmd, 0) == nil {
			machinetest.SameInJSON(t, p, cmd)
		}
	})
}

// TestAttemptsAtOnce: attempts that begin before others have failed count as well. Of a hundred at
// a time ten hear that their key was wrong, the others when to try again.
func TestAttemptsAtOnce(t *testing.T) {
	d := new(door)
	d.add(t, Admin)
	g, now := newTestGate(t, d)
	wrong := 0
	for range 100 {
		if errors.Is(g.failed.note("192.0.2.1", *now), engine.ErrUnauthorized) {
			wrong++
		}
	}
	if wrong != maxFailures || len(g.failed.by["192.0.2.1"]) != maxFailures {
		t.Errorf("%d hear that their key was wrong, %d are remembered, want %d", wrong, len(g.failed.by["192.0.2.1"]), maxFailures)
	}
	*now = now.Add(10 * time.Second)
	_, _, err := g.Session(t.Context(), "wrong", "192.0.2.1")
	var later interface{ RetryAfter() time.Duration }
	if !errors.Is(err, engine.ErrBusy) || !errors.As(err, &later) || later.RetryAfter() != failureTime-10*time.Second {
		t.Errorf("a session: %v, want ErrBusy for 50 s", err)
	}
}

// TestRevokeTakesTheMiddle: who gives all of a key where its id is asked for means its id, and the
// secret does not get into the log.
func TestRevokeTakesTheMiddle(t *testing.T) {
	d := new(door)
	d.add(t, Admin)
	key := d.add(t, Write)
	g, _ := newTestGate(t, d)
	if err := g.Revoke(t.Context(), string(key)); err != nil || d.revoked != d.keys[1].ID {
		t.Errorf("with all of the key: %v, %q", err, d.revoked)
	}
	if err := g.Revoke(t.Context(), string(key)+"0"); !errors.Is(err, engine.ErrInvalid) || d.revoked != d.keys[1].ID {
		t.Errorf("with more than that: %v, %q", err, d.revoked)
	}
}

// TestUnknownForGood: who comes before the Gate knows whether there are keys is sent away when his
// time is over, or the Gate has ended.
func TestUnknownForGood(t *testing.T) {
	g := NewGate(1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls := map[string]func(ctx context.Context) error{
		"enabled": func(ctx context.Context) error { _, err := g.Enabled(ctx); return err },
		"enter":   func(ctx context.Context) error { _, err := g.Enter(ctx, "x", "::1", true); return err },
		"session": func(ctx context.Context) error { _, _, err := g.Session(ctx, "x", "::1"); return err },
		"holder":  func(ctx context.Context) error { _, _, err := g.Holder(ctx, "x"); return err },
		"end":     func(ctx context.Context) error { return g.EndSession(ctx, "x") },
	}
	for name, call := range calls {
		if err := call(ctx); !errors.Is(err, engine.ErrUnavailable) ||
			err.Error() != "cannot check API keys yet: context canceled" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := g.NoteUses(t.Context()); err != nil {
		t.Errorf("there is nothing to note: %v", err)
	}
	if g.Known() || g.MayLook() || g.Wait() == nil {
		t.Error("something is known")
	}
	d := &failingDoor{err: engine.ErrClosed}
	g.Attach(d, d)
	g.Run(t.Context())
	for name, call := range calls {
		if err := call(t.Context()); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("%s, when it has ended: %v", name, err)
		}
	}
	if d.asked != 2 {
		t.Errorf("it asks %d times, want twice: what is near, and the leader", d.asked)
	}
}

// TestEndedSessions: an end counts once, for sessions of keys that there are and that go on.
func TestEndedSessions(t *testing.T) {
	r := machinetest.New(t, 1, Primitive())
	revision := func() uint64 {
		t.Helper()
		var q keysQuery
		if err := r.Query(t.Context(), 0, &q); err != nil {
			t.Fatal(err)
		}
		return q.revision
	}
	do := func(cmd engine.Command) {
		t.Helper()
		if _, err := r.Propose(t.Context(), 0, cmd); err != nil {
			t.Fatal(err)
		}
	}
	const id, other = "0123456789abcdef", "fedcba9876543210"
	ends := func(of string, in time.Duration, changes bool) {
		t.Helper()
		before := revision()
		do(commandOf(end, of, endBody{[32]byte{byte(in / time.Second)}, time.UnixMilli(r.Now()).Add(in)}))
		if (revision() != before) != changes {
			t.Errorf("the end of a session of %s in %v changes something: %t", of, in, !changes)
		}
	}
	ends(id, time.Hour, false) // there is no store
	do(withKey(bootstrap, Key{ID: id, Role: Admin}))
	ends(id, 0, false)
	ends(id, time.Millisecond, true)
	ends(id, time.Minute, true)
	ends(id, time.Minute, false)
	ends(other, time.Minute, false)
	r.Pass(time.Minute.Milliseconds())
	ends(id, time.Hour, true) // the others are forgotten
	var q keysQuery
	if err := r.Query(t.Context(), 0, &q); err != nil || len(q.ended) != 1 {
		t.Errorf("%d sessions are remembered, %v", len(q.ended), err)
	}
	if text, err := Secret("x").MarshalText(); string(text) != "***" || err != nil {
		t.Errorf("a secret is %q, %v", text, err)
	}
}

// TestParseToken: the parts of a token, at their limits. Anything else is rejected.
func TestParseToken(t *testing.T) {
	id, secret := newSecret()
	nonce := []byte("12345678")
	latest := time.UnixMilli(1 << 50)
	for _, ends := range []time.Time{time.UnixMilli(0), time.UnixMilli(1), latest} {
		got, ok := parseToken(signAs(id, secret, nonce, ends))
		if p := prove(secret); !ok || got.id != id || string(got.nonce) != string(nonce) || !got.ends.Equal(ends) || !got.signedBy(&p) {
			t.Errorf("a token until %v is %+v, %t", ends, got, ok)
		}
	}
	good := string(signAs(id, secret, nonce, time.UnixMilli(5)))
	raw, err := base64.RawURLEncoding.DecodeString(good[len(tokenPrefix):])
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(b []byte) []byte) string {
		return tokenPrefix + base64.RawURLEncoding.EncodeToString(change(slices.Clone(raw)))
	}
	for name, text := range map[string]string{
		"no prefix":       good[len(tokenPrefix):],
		"another prefix":  "floe_sk_" + good[len(tokenPrefix):],
		"nothing":         tokenPrefix,
		"too late":        string(signAs(id, secret, nonce, latest.Add(time.Millisecond))),
		"another version": with(func(b []byte) []byte { b[0]++; return b }),
		"a byte less":     with(func(b []byte) []byte { return b[1:] }),
		"two bytes more":  with(func(b []byte) []byte { return slices.Insert(b, 17, 0, 0) }),
		"long":            with(func(b []byte) []byte { return append(b, make([]byte, 300)...) }),
		"no base64":       good[:len(good)-1] + "!",
		"padded":          good + "=",
	} {
		if got, ok := parseToken(Secret(text)); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestRunFollows: Run learns each change that the near replica answers, and ends with the shard.
func TestRunFollows(t *testing.T) {
	d := &changingDoor{}
	d.add(t, Admin)
	g := NewGate(1)
	g.Attach(d, d)
	d.changes = func(asked int) error {
		switch asked {
		case 3, 4, 6: // after the near replica and the leader
			if known := g.state.Load().revision; known != d.revision {
				t.Errorf("before question %d revision %d is known, want %d", asked, known, d.revision)
			}
			d.add(t, Read)
		case 5:
			return engine.ErrUnavailable
		case 7:
			return engine.ErrClosed
		}
		return nil
	}
	g.Run(t.Context())
	if s := g.state.Load(); s.revision != 4 || len(s.grants) != 4 || d.questions != 7 {
		t.Errorf("revision %d with %d keys is known after %d answers, want 4, 4, 7", s.revision, len(s.grants), d.questions)
	}
}

// changingDoor is a door that changes before it answers.
type changingDoor struct {
	door
	questions int
	changes   func(asked int) error
}

func (d *changingDoor) Query(ctx context.Context, shard engine.ShardID, q engine.Query) error {
	d.questions++
	if err := d.changes(d.questions); err != nil {
		return err
	}
	return d.door.Query(ctx, shard, q)
}

// TestSessionsAreForgotten: a session is remembered unless the keys have changed since the check.
func TestSessionsAreForgotten(t *testing.T) {
	d := new(door)
	d.add(t, Admin)
	g, _ := newTestGate(t, d)
	before := g.state.Load()
	g.remember(before, [32]byte{1}, checked{})
	if _, ok := g.checked([32]byte{1}); !ok {
		t.Error("a session is not remembered")
	}
	d.add(t, Read)
	if err := g.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.remember(before, [32]byte{2}, checked{})
	if len(g.sessions) != 0 {
		t.Errorf("after a change %d sessions are remembered", len(g.sessions))
	}
	for i := range maxSessions + 1 {
		g.remember(g.state.Load(), [32]byte{byte(i), byte(i >> 8), byte(i >> 16), 1}, checked{})
		if want := i%maxSessions + 1; len(g.sessions) != want {
			t.Fatalf("%d sessions are remembered, want %d", len(g.sessions), want)
		}
	}
}

// TestRevokedIsGone: nothing is left of a revoked key: neither its use nor its sessions and
// namespaces.
func TestRevokedIsGone(t *testing.T) {
	r := machinetest.New(t, 1, Primitive())
	do := func(cmd engine.Command) {
		t.Helper()
		if _, err := r.Propose(t.Context(), 0, cmd); err != nil {
			t.Fatal(err)
		}
	}
	const admin, other = "0123456789abcdef", "fedcba9876543210"
	now := time.UnixMilli(r.Now())
	do(withKey(bootstrap, Key{ID: admin, Role: Admin}))
	want := len(r.Rows(0))
	do(withKey(create, Key{ID: other, Role: Write}))
	do(commandOf(used, "", usedBody{[]use{{other, now}}}))
	do(commandOf(makes, other, makeBody{[]string{"m", "n"}}))
	do(commandOf(end, other, endBody{[32]byte{1}, now.Add(time.Hour)}))
	do(commandOf(revoke, other, engine.Nothing{}))
	if got := len(r.Rows(0)); got != want {
		t.Errorf("%d rows are left, want %d", got, want)
	}
	r.EachRead(map[string]func() (any, error){
		"keys": func() (any, error) { var q keysQuery; err := r.Query(t.Context(), 0, &q); return q, err },
		"uses": func() (any, error) { q := keysQuery{used: true}; err := r.Query(t.Context(), 0, &q); return q, err },
	})
	r.EachReadOfVerify()
}

// TestVerifyMade: Verify reports a key that has created more namespaces than it may.
func TestVerifyMade(t *testing.T) {
	for n, want := range map[int]int{MaxMade: 0, MaxMade + 1: 1} {
		r := machinetest.New(t, 1, Primitive())
		const admin = "0123456789abcdef"
		if _, err := r.Propose(t.Context(), 0, withKey(bootstrap, Key{ID: admin, Role: Admin})); err != nil {
			t.Fatal(err)
		}
		r.Distrust()
		for i := range n {
			r.Tamper(0, machinetest.Row{Machine: engine.MachineKeys, Key: append(append([]byte{rowMade}, admin...), fmt.Sprint("n", i)...),
				Value: []byte{}})
		}
		if got := r.Problems(0); len(got) != want ||
			want > 0 && !strings.Contains(got[0], "has created 1001 namespaces, the limit is 1000") {
			t.Errorf("%d namespaces: %q", n, got)
		}
	}
}

// TestMalformedTimes: times with two encodings, and IDs that are not text, are refused.
func TestMalformedTimes(t *testing.T) {
	p := Primitive()
	const id = "0123456789abcdef"
	with := func(cmd engine.Command, more []byte) engine.Command {
		cmd.Body = append(slices.Clone(cmd.Body), more...)
		return cmd
	}
	long := codec.AppendVarint([]byte{1}, time.Time{}.UnixMilli()) // the zero time as any other
	endsAt := engine.Command{Machine: engine.MachineKeys, Kind: kindEnd, Body: append(codec.AppendString(nil, id), make([]byte, 32)...)}
	readKey := withKey(create, Key{ID: id, Role: Read})
	for name, c := range map[string]struct {
		cmd engine.Command
		ok  bool
	}{
		"a use":               {commandOf(used, "", usedBody{[]use{{id, time.UnixMilli(7)}}}), true},
		"at no time":          {commandOf(used, "", usedBody{[]use{{id, time.Time{}}}}), true},
		"no text":             {commandOf(used, "", usedBody{[]use{{"a\xff", time.UnixMilli(7)}}}), false},
		"ends":                {with(endsAt, codec.AppendVarint([]byte{1}, 7)), true},
		"ends at zero":        {with(endsAt, codec.AppendVarint([]byte{1}, 0)), true},
		"ends never":          {with(endsAt, []byte{0}), true},
		"ends never, long":    {with(endsAt, long), false},
		"expires":             {withKey(create, Key{ID: id, Role: Read, Expires: time.UnixMilli(7)}), true},
		"expires never":       {readKey, true},
		"expires never, long": {with(readKey, []byte{0}), false},
		"as any other":        {with(readKey, long), false},
	} {
		if err := p.Admit(c.cmd, 0); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
