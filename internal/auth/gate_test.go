package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
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
		r, err := decodeRevoke(cmd)
		d.revoked = r.id
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
	g.now = func() time.Time { return now }
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

// TestRevoked: what is done with a key ends when it is revoked, also by an answer that comes in the wrong order.
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
	g.learn(&late, g.now())
	if err := grant.Err(); !errors.Is(err, engine.ErrUnauthorized) || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("the grant of a revoked key: %v", err)
	}
	if _, err := g.Enter(t.Context(), key, "192.0.2.1", false); !errors.Is(err, engine.ErrUnauthorized) {
		t.Errorf("a revoked key: %v", err)
	}
}

// TestRightKeyPassesWrongOnes: a right key is let in, and has its session, however many wrong ones come from its address; each of these is told. For keys that are
// not known the leader is asked once a second only.
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
		if _, err := g.Enter(t.Context(), spell(unknown, make([]byte, secretBytes)), "2001:db8::2", false); !errors.Is(err, engine.ErrBusy) {
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

// TestNewKeyIsFound: a key that was made a moment ago is good before the Gate has heard of it.
func TestNewKeyIsFound(t *testing.T) {
	d := new(door)
	d.add(t, Admin)
	g, now := newTestGate(t, d)
	*now = now.Add(time.Second)
	if _, err := g.Enter(t.Context(), d.add(t, Read), "192.0.2.1", false); err != nil {
		t.Error(err)
	}
}

// TestNothingIsKnown: who comes before the Gate knows whether there are keys is let do nothing, and is sent away when it knows.
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
		if tok, ok := parseToken(Secret(text)); ok && tok.signedBy(&p) && string(sign(id, secret, tok.ends)) != text {
			t.Errorf("%q is signed, and is none that was made", text)
		}
	})
}

func FuzzCommand(f *testing.F) {
	id, secret := newSecret()
	c := createCommand{Key{ID: id, Role: Write, Namespaces: []string{"a", "b"}}, prove(secret)}
	f.Add(kindCreate, encode(c.code))
	r := revokeCommand{id}
	f.Add(kindRevoke, encode(r.code))
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		cmd := engine.Command{Machine: engine.MachineKeys, Kind: kind, Body: body}
		if admit(cmd, 0) != nil || kind == kindRevoke {
			return
		}
		c, _ := decodeCreate(cmd)
		if again, err := decodeCreate(command(kind, c.code)); err != nil || fmt.Sprint(again) != fmt.Sprint(c) {
			t.Errorf("%+v becomes %+v, %v", c, again, err)
		}
	})
}

// TestAttemptsAtOnce: attempts that begin before others have failed count as well. Of a hundred at a time ten hear that their key was wrong, the others when to
// try again.
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

// TestRevokeTakesTheMiddle: who gives all of a key where its id is asked for means its id, and the secret does not get into the log.
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
