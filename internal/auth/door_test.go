package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/internal/test/toy"
)

// TestQueryArrivesAsItWas: what one process asks and another answers is the same there.
func TestQueryArrivesAsItWas(t *testing.T) {
	wire := engine.NewWire([]engine.Primitive{Primitive()})
	_, secret := newSecret()
	whole := Key{
		ID: "0123456789abcdef", Name: "name", Role: Write, Namespaces: []string{"a", "b"}, Created: time.UnixMilli(1),
		Expires: time.UnixMilli(2), Used: time.UnixMilli(3),
	}
	asked := keysQuery{wait: true, not: 7, used: true}
	answered := asked
	answered.exists, answered.revision, answered.ended = true, 9, [][32]byte{{1}, {31: 2}}
	answered.keys = []storedKey{{whole, prove(secret)}, {Key{ID: "0123456789abcdff", Role: Admin}, prove(nil)}}
	got, err := wire.DecodeQuery(engine.AppendQuery(nil, &asked))
	if err != nil || !reflect.DeepEqual(got, engine.Query(&asked)) {
		t.Fatalf("arrives as %+v, %v", got, err)
	}
	if err := engine.DecodeResults(got, engine.AppendResults(nil, &answered)); err != nil ||
		!reflect.DeepEqual(got, engine.Query(&answered)) {
		t.Errorf("the answer arrives as %+v, %v, want %+v", got, err, &answered)
	}
}

// TestDocumentedNumbers: numbers that the documentation names.
func TestDocumentedNumbers(t *testing.T) {
	got := []any{MaxKeys, MaxNamespaces, MaxMade, MaxEnded, SessionTime, maxFailures, failureTime, knowTime, usedEvery}
	want := []any{1000, 64, 1000, 100, 12 * time.Hour, 10, time.Minute, 5 * time.Second, 5 * time.Minute}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestRoles: a role is what its name says.
func TestRoles(t *testing.T) {
	for name, role := range map[string]Role{"read": Read, "write": Write, "admin": Admin} {
		if got, err := ParseRole(name); got != role || err != nil || role.String() != name {
			t.Errorf("%s is role %v, %v, which is called %s", name, got, err, role)
		}
	}
	for _, name := range []string{"", "root"} {
		if _, err := ParseRole(name); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", name, err)
		}
	}
	if none, beyond := Role(0).String(), (Admin + 1).String(); none != "role 0" || beyond != "role 4" {
		t.Errorf("roles that there are not are called %s and %s", none, beyond)
	}
}

// TestChanges: what the audit says of each command.
func TestChanges(t *testing.T) {
	const id = "0123456789abcdef"
	k, none := Key{ID: id, Role: Write}, engine.Nothing{}
	for _, c := range []struct {
		cmd  engine.Command
		what string
	}{
		{withKey(bootstrap, k), "bootstrap with key " + id + ", write"}, {withKey(create, k), "create key " + id + ", write"},
		{commandOf(revoke, id, none), "revoke key " + id}, {commandOf(end, id, endBody{}), "end a session of key " + id},
		{commandOf(used, "", usedBody{}), ""}, {commandOf(makes, id, makeBody{}), ""},
		{engine.Command{Machine: engine.MachineTest, Kind: kindRevoke, Body: commandOf(revoke, id, none).Body}, ""},
	} {
		if what, ok := Changes(c.cmd); what != c.what || ok != (what != "") {
			t.Errorf("command %d of machine %d: %q, %t, want %q", c.cmd.Kind, c.cmd.Machine, what, ok, c.what)
		}
	}
}

// TestCommandsThatCanNotBe: what no Gate sends is refused, before it gets into the log and when it
// is there.
func TestCommandsThatCanNotBe(t *testing.T) {
	const id, other = "0123456789abcdef", "0123456789abcdff"
	now := time.UnixMilli(machinetest.Epoch)
	uses := func(n int) engine.Command { return commandOf(used, "", usedBody{make([]use, n)}) }
	made := func(n int) engine.Command {
		var m makeBody
		for i := range n {
			m.namespaces = append(m.namespaces, fmt.Sprint(i))
		}
		return commandOf(makes, id, m)
	}
	body := func(kind uint8) engine.Command {
		return engine.Command{Machine: engine.MachineKeys, Kind: kind, Body: []byte{0xff}}
	}
	for name, c := range map[string]struct {
		exists bool
		cmd    engine.Command
		want   error
		says   string
		admits bool // what is wrong depends on the state
	}{
		"a malformed creation":        {true, body(kindCreate), engine.ErrMalformed, "key: command", false},
		"a malformed revocation":      {true, body(kindRevoke), engine.ErrMalformed, "key: command", false},
		"a malformed end":             {true, body(kindEnd), engine.ErrMalformed, "key: command", false},
		"malformed uses":              {true, body(kindUsed), engine.ErrMalformed, "key: command", false},
		"too many uses":               {true, uses(MaxKeys + 1), engine.ErrInvalid, "1001 keys are not in 0-1000", false},
		"many uses":                   {true, uses(MaxKeys), nil, "", true},
		"malformed namespaces":        {true, body(kindMake), engine.ErrMalformed, "key: command", false},
		"too many namespaces":         {true, made(MaxMade + 1), engine.ErrInvalid, "1001 namespaces are not in 0-1000", false},
		"many namespaces":             {true, made(MaxMade), nil, "", true},
		"a namespace of the system":   {true, commandOf(makes, id, makeBody{[]string{"a", "_b"}}), engine.ErrInvalid, "_b", false},
		"namespaces of no key at all": {true, commandOf(makes, other, makeBody{[]string{"a"}}), engine.ErrUnauthorized, other, true},
		"no role":                     {true, withKey(create, Key{ID: other}), engine.ErrInvalid, "role 0", false},
		"a short id":                  {true, withKey(create, Key{ID: other[1:], Role: Read}), engine.ErrInvalid, "malformed id", false},
		"a long id": {true, withKey(create, Key{ID: other + "0", Role: Read}), engine.ErrInvalid, "malformed id",
			false},
		"an id that is there": {true, withKey(create, Key{ID: id, Role: Read}), engine.ErrExists, id, true},
		"another id":          {true, withKey(create, Key{ID: other, Role: Read}), nil, "", true},
		"an expiry now": {true, withKey(create, Key{ID: other, Role: Read, Expires: now}), engine.ErrInvalid,
			"not in the future", true},
		"an expiry in a moment": {true, withKey(create, Key{ID: other, Role: Read, Expires: now.Add(time.Millisecond)}), nil, "",
			true},
		"a second store":          {true, withKey(bootstrap, Key{ID: other, Role: Admin}), engine.ErrExists, "key store", true},
		"a key without a store":   {false, withKey(create, Key{ID: other, Role: Admin}), engine.ErrConflict, "no key store", true},
		"a first key of no admin": {false, withKey(bootstrap, Key{ID: other, Role: Write}), engine.ErrInvalid, "admin", true},
		"a first key that expires": {false, withKey(bootstrap, Key{ID: other, Role: Admin, Expires: now.Add(time.Hour)}),
			engine.ErrInvalid, "cannot expire", true},
		"a first key":                   {false, withKey(bootstrap, Key{ID: other, Role: Admin}), nil, "", true},
		"a revocation without a store":  {false, commandOf(revoke, id, engine.Nothing{}), engine.ErrConflict, "no key store", true},
		"a revocation of the last key":  {true, commandOf(revoke, id, engine.Nothing{}), engine.ErrConflict, "last admin", true},
		"a revocation of no key at all": {true, commandOf(revoke, other, engine.Nothing{}), engine.ErrNotFound, other, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := machinetest.New(t, 1, Primitive())
			if c.exists {
				r.Entry(0, withKey(bootstrap, Key{ID: id, Role: Admin}))
			}
			p := Primitive()
			if err := p.Admit(c.cmd, 0); (err == nil) != c.admits ||
				err != nil && (!errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("it is admitted with %v", err)
			}
			count := func() (n int) {
				for _, row := range r.Rows(0) {
					if row.Machine == engine.MachineKeys {
						n++
					}
				}
				return n
			}
			before := count()
			out, stopped := r.Try(0, c.cmd)
			if stopped != errors.Is(c.want, engine.ErrMalformed) ||
				!stopped && (!errors.Is(out.Err, c.want) || out.Err != nil && !strings.Contains(out.Err.Error(), c.says)) {
				t.Errorf("it is answered %v (stops: %t), want %v", out.Err, stopped, c.want)
			}
			if !stopped && c.want != nil && count() != before {
				t.Error("it was refused, and has changed rows")
			}
		})
	}
}

// TestVerifyReportsKeys changes one row at a time: Verify has to say so.
func TestVerifyReportsKeys(t *testing.T) {
	const id = "0123456789abcdef"
	for name, c := range map[string]struct {
		kind   byte // of the row
		change func(row machinetest.Row) (k, value []byte)
		want   string
	}{
		"store garbage": {rowStore, func(row machinetest.Row) ([]byte, []byte) { return row.Key, row.Value[:1] }, "store row"},
		"store lost": {rowStore, func(row machinetest.Row) ([]byte, []byte) { return row.Key, nil },
			"2 keys, 1 of admins; the store counts 0 and 0"},
		"keys counted wrongly": {rowStore, func(row machinetest.Row) ([]byte, []byte) { return row.Key, encode((&store{9, 3, 1}).code) },
			"the store counts 3 and 1"},
		"admins counted wrongly": {rowStore, func(row machinetest.Row) ([]byte, []byte) { return row.Key, encode((&store{9, 2, 2}).code) },
			"the store counts 2 and 2"},
		"key lost":    {rowKeys, func(row machinetest.Row) ([]byte, []byte) { return row.Key, nil }, "1 keys, 0 of admins"},
		"key garbage": {rowKeys, func(row machinetest.Row) ([]byte, []byte) { return row.Key, row.Value[:9] }, "malformed"},
		"key of another id": {rowKeys, func(row machinetest.Row) ([]byte, []byte) {
			return append([]byte{rowKeys}, "f123456789abcdef"...), row.Value
		}, `row "kf123456789abcdef" is of key "` + id},
		"key that cannot be": {rowKeys, func(row machinetest.Row) ([]byte, []byte) {
			var k storedKey
			mustDecode(row.Value, k.code)
			k.Role = 9
			return row.Key, encode(k.code)
		}, "role 9"},
		"use garbage": {rowUsed, func(row machinetest.Row) ([]byte, []byte) { return row.Key, []byte{0xff} }, "row of a use"},
		"use with more": {rowUsed, func(row machinetest.Row) ([]byte, []byte) { return append(row.Key, 0), row.Value },
			"18 bytes, want 17"},
		"use of no key": {rowUsed, func(row machinetest.Row) ([]byte, []byte) { return usedRow("f123456789abcdef"), row.Value },
			"there is no such key"},
		"made of no key": {rowMade, func(row machinetest.Row) ([]byte, []byte) {
			return slices.Concat(row.Key[:1], []byte("f123456789abcdef"), row.Key[17:]), []byte{}
		}, "there is no such key"},
		"made of no name":   {rowMade, func(row machinetest.Row) ([]byte, []byte) { return row.Key[:17], []byte{} }, "row of a namespace"},
		"made with a value": {rowMade, func(row machinetest.Row) ([]byte, []byte) { return row.Key, []byte{1} }, "value of 1 bytes"},
		"end garbage": {rowEnded, func(row machinetest.Row) ([]byte, []byte) { return row.Key, []byte{0xff} },
			"row of a ended session"},
		"end without a hash": {rowEnded, func(row machinetest.Row) ([]byte, []byte) { return row.Key[:17], row.Value },
			"17 bytes, want 49"},
		"end of no key": {rowEnded, func(row machinetest.Row) ([]byte, []byte) {
			return slices.Concat(row.Key[:1], []byte("f123456789abcdef"), row.Key[17:]), row.Value
		}, "there is no such key"},
	} {
		t.Run(name, func(t *testing.T) {
			r := machinetest.New(t, 1, Primitive())
			for _, cmd := range []engine.Command{
				withKey(bootstrap, Key{ID: id, Role: Admin}), withKey(create,
					Key{ID: "1123456789abcdef", Role: Read, Expires: time.UnixMilli(machinetest.Epoch + 1)}),
				commandOf(end, id, endBody{[32]byte{7}, time.UnixMilli(machinetest.Epoch + 1000)}), commandOf(used, "",
					usedBody{[]use{{id, time.UnixMilli(machinetest.Epoch)}}}),
				commandOf(makes, id, makeBody{[]string{"n"}}),
			} {
				if out := r.Entry(0, cmd)[0]; out.Err != nil {
					t.Fatal(out.Err)
				}
			}
			r.Verify()
			for _, row := range r.Rows(0) {
				if row.Machine == engine.MachineKeys && row.Key[0] == c.kind {
					k, value := c.change(machinetest.Row{Key: bytes.Clone(row.Key), Value: bytes.Clone(row.Value)})
					r.Tamper(0, machinetest.Row{Machine: engine.MachineKeys, Key: k, Value: value})
					break
				}
			}
			if said := strings.Join(r.Problems(0), "\n"); !strings.Contains(said, c.want) {
				t.Errorf("Verify reports\n%s\nwant %q", said, c.want)
			}
			if name == "key that cannot be" {
				return // its role has no name in JSON
			}
			var q keysQuery
			if err := r.Query(t.Context(), 0, &q); strings.HasSuffix(name, "garbage") && (c.kind == rowStore || c.kind == rowKeys) &&
				!isMalformed(err) {
				t.Errorf("a query of it: %v, want a malformed record", err)
			}
			q.used = true
			if err := r.Query(t.Context(), 0, &q); name == "use garbage" && !isMalformed(err) {
				t.Errorf("a query of uses: %v, want a malformed record", err)
			}
		})
	}
}

// isMalformed reports whether an error of another node comes of a row that does not decode.
func isMalformed(err error) bool {
	return err != nil && strings.Contains(err.Error(), codec.ErrCorrupt.Error())
}

// TestQueryWaits: a query is answered at once, or when the keys have changed since the revision it
// knows; and in shard 0 only.
func TestQueryWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := machinetest.New(t, 2, Primitive())
		if err := r.Query(t.Context(), 1, new(keysQuery)); !errors.Is(err, engine.ErrInvalid) ||
			!strings.Contains(err.Error(), "shard 0, not 1") {
			t.Errorf("in shard 1: %v", err)
		}
		r.Entry(0, withKey(bootstrap, Key{ID: "0123456789abcdef", Role: Admin}))
		q := keysQuery{wait: true}
		if err := r.Query(t.Context(), 0, &q); err != nil || !q.exists || len(q.keys) != 1 || q.revision == 0 {
			t.Fatalf("%+v, %v", q, err)
		}
		for _, cmd := range []engine.Command{
			withKey(create, Key{ID: "1123456789abcdef", Role: Read}),
			commandOf(end, "1123456789abcdef", endBody{ends: time.UnixMilli(machinetest.Epoch + 1)}),
			commandOf(revoke, "1123456789abcdef", engine.Nothing{}),
		} {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			next := keysQuery{wait: true, not: q.revision}
			if err := r.Query(ctx, 0, &next); !errors.Is(err, context.Canceled) {
				t.Errorf("before command %d a query that waits is answered: %v", cmd.Kind, err)
			}
			answered := make(chan error, 1)
			bounded, stop := context.WithTimeout(t.Context(), 30*time.Second)
			defer stop()
			go func() { answered <- r.Query(bounded, 0, &next) }()
			synctest.Wait()
			if out := r.Entry(0, cmd)[0]; out.Err != nil {
				t.Fatal(out.Err)
			}
			if err := <-answered; err != nil || next.revision <= q.revision {
				t.Errorf("after command %d: revision %d behind %d, %v", cmd.Kind, next.revision, q.revision, err)
			}
			q = next
		}
		if len(q.keys) != 1 || len(q.ended) != 0 || len(r.Rows(0)) == 0 {
			t.Errorf("a revoked key leaves %+v", q)
		}
	})
}

// failingDoor answers nothing while err is set.
type failingDoor struct {
	mu sync.Mutex // serialises queries
	door
	err error
}

func (d *failingDoor) Query(ctx context.Context, id engine.ShardID, q engine.Query) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		d.asked++
		return d.err
	}
	return d.door.Query(ctx, id, q)
}

func (d *failingDoor) Propose(ctx context.Context, id engine.ShardID, cmd engine.Command) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return nil, d.err
	}
	return d.door.Propose(ctx, id, cmd)
}

// TestLeaderDoesNotAnswer: what the leader is needed for fails with what it says; all else goes on.
func TestLeaderDoesNotAnswer(t *testing.T) {
	d := new(failingDoor)
	key := d.add(t, Admin)
	g := NewGate(1)
	g.Attach(d, d)
	now := time.UnixMilli(1_800_000_000_000)
	g.Now = func() time.Time { return now }
	if err := g.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	id, secret := newSecret()
	d.err = errors.New("away")
	now = now.Add(time.Hour)
	token, _, err := g.Session(t.Context(), key, "::1")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time its signature is known
		if grant, ends, err := g.Holder(t.Context(), token); err != nil || grant.Key().ID != d.keys[0].ID ||
			!ends.Equal(now.Add(SessionTime)) {
			t.Errorf("a session of a key that is known: until %v, %v", ends, err)
		}
	}
	if len(g.sessions) != 1 {
		t.Errorf("%d signatures are known, want 1", len(g.sessions))
	}
	for name, f := range map[string]func() error{
		"refresh":   func() error { return g.Refresh(t.Context()) },
		"enter":     func() error { _, err := g.Enter(t.Context(), spell(id, secret), "::1", false); return err },
		"session":   func() error { _, _, err := g.Session(t.Context(), spell(id, secret), "::1"); return err },
		"holder":    func() error { _, _, err := g.Holder(t.Context(), sign(id, secret, now.Add(time.Hour))); return err },
		"end":       func() error { return g.EndSession(t.Context(), token) },
		"list":      func() error { _, err := g.List(t.Context()); return err },
		"revoke":    func() error { return g.Revoke(t.Context(), id) },
		"create":    func() error { _, _, err := g.Create(t.Context(), Key{Role: Read}, nil); return err },
		"bootstrap": func() error { _, _, err := g.Bootstrap(t.Context(), Key{}, nil); return err },
		"bootstrap and tell": func() error {
			_, _, err := g.Bootstrap(t.Context(), Key{}, func(Key, Secret) error { return nil })
			return err
		},
		"note that it is used": func() error { return g.NoteUses(t.Context()) },
	} {
		if err := f(); !errors.Is(err, d.err) {
			t.Errorf("%s: %v, want %v", name, err, d.err)
		}
	}
	if len(g.failed.by) != 0 {
		t.Errorf("keys that could not be looked up count as wrong: %v", g.failed.by)
	}
	d.err = nil
	if err := g.NoteUses(t.Context()); err != nil || d.proposed != 0 {
		t.Errorf("uses are noted again within %v: %d commands, %v", usedEvery, d.proposed, err)
	}
}

// TestSessionsWithoutStore: without a key store every key is refused, and sessions have no holder.
func TestSessionsWithoutStore(t *testing.T) {
	d := new(door)
	g, _ := newTestGate(t, d)
	if on, err := g.Enabled(t.Context()); on || err != nil {
		t.Errorf("there is a key store: %t, %v", on, err)
	}
	if _, _, err := g.Session(t.Context(), spell(newSecret()), "::1"); !errors.Is(err, engine.ErrUnauthorized) ||
		!strings.Contains(err.Error(), "no key store") {
		t.Errorf("a session: %v", err)
	}
	if grant, ends, err := g.Holder(t.Context(), "x"); err != nil || !grant.IsOpen() || !ends.IsZero() {
		t.Errorf("a holder: %v, %v", ends, err)
	}
	if err := g.EndSession(t.Context(), "x"); err != nil || d.proposed != 0 {
		t.Errorf("the end of a session: %v, %d commands", err, d.proposed)
	}
	if _, err := g.List(t.Context()); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("a list: %v, want ErrConflict", err)
	}
	d.add(t, Read)
	if err := g.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if on, err := g.Enabled(t.Context()); !on || err != nil {
		t.Errorf("there is a key store: %t, %v", on, err)
	}
	for _, from := range []bool{true, false} {
		if _, err := g.Enter(t.Context(), "", "::1", from); !errors.Is(err, errNoKey) {
			t.Errorf("without a key: %v", err)
		}
	}
	if _, _, err := g.Holder(t.Context(), "x"); !errors.Is(err, errToken) {
		t.Errorf("with what is no token: %v", err)
	}
}

// TestRun: what a Gate knows while it runs, by who answers it.
func TestRun(t *testing.T) {
	away := errors.New("away")
	for name, c := range map[string]struct {
		keys            bool
		leader, replica error
		known, look     bool
	}{
		"all answer, no keys":              {false, nil, nil, true, false},
		"all answer":                       {true, nil, nil, true, false},
		"no leader":                        {true, away, nil, true, false},
		"no leader, and no keys near":      {false, away, nil, false, true},
		"no leader, and no replica":        {false, away, away, false, false},
		"no leader, and it is closed":      {false, engine.ErrClosed, away, false, false},
		"no replica, and a leader answers": {true, nil, away, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leader, replica := &failingDoor{err: c.leader}, &failingDoor{err: c.replica}
				if c.keys {
					leader.add(t, Admin)
					replica.door = leader.door
				}
				g := NewGate(1)
				g.Attach(leader, replica)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				replica.during = func() { // a replica that has answered once has no more to say
					replica.err = away
				}
				go func() { g.Run(ctx); close(ended) }()
				synctest.Wait()
				if g.Known() != c.known || g.MayLook() != c.look || (g.Wait() == nil) != c.known {
					t.Errorf("known: %t, may look: %t, want %t, %t", g.Known(), g.MayLook(), c.known, c.look)
				}
				closed := errors.Is(c.leader, engine.ErrClosed)
				start := time.Now()
				_, err := g.Enabled(ctx)
				switch passed := time.Since(start); {
				case c.known && (err != nil || passed > 0), closed && (!errors.Is(err, engine.ErrClosed) || passed > 0):
					t.Errorf("Enabled returned after %v: %v", passed, err)
				case !c.known && !closed && (!errors.Is(err, engine.ErrUnavailable) || passed != knowTime):
					t.Errorf("Enabled returned after %v: %v, want ErrUnavailable after %v", passed, err, knowTime)
				}
				synctest.Wait()
				leader.mu.Lock()
				if n := leader.asked; !c.known && !closed && n != 1+int(knowTime/askPause) {
					t.Errorf("the leader was asked %d times in %v", n, knowTime)
				}
				leader.mu.Unlock()
				if !closed {
					leader.mu.Lock()
					leader.err = nil
					leader.mu.Unlock()
					<-time.After(askPause)
					synctest.Wait()
					if on, err := g.Enabled(ctx); on != c.keys || err != nil || g.MayLook() {
						t.Errorf("when the leader answers: %t, %v", on, err)
					}
				}
				cancel()
				<-ended
				if !errors.Is(context.Cause(g.waiting.ctx), engine.ErrClosed) && !errors.Is(g.waiting.Err(), engine.ErrUnavailable) {
					t.Errorf("who waited is told %v", g.waiting.Err())
				}
			})
		})
	}
}

// echo is a door that is asked, and may do something meanwhile.
type echo struct {
	engine.Door
	during func(context.Context) error
}

func (e echo) Propose(ctx context.Context, _ engine.ShardID, _ engine.Command) ([]byte, error) {
	return []byte("proposed"), e.during(ctx)
}

func (e echo) Take(ctx context.Context, _ engine.ShardID, _ engine.Take) ([]byte, error) {
	return []byte("taken"), e.during(ctx)
}

func (e echo) Query(ctx context.Context, _ engine.ShardID, _ engine.Query) error {
	return e.during(ctx)
}

// TestDoorOfGrant: through its door the holder does what he may, until the grant ends: then what is
// under way says why.
func TestDoorOfGrant(t *testing.T) {
	wire := engine.NewWire([]engine.Primitive{toy.Primitive()})
	write := (&toy.Command{Kind: toy.Add, Name: "n", Delta: 1}).In("a")
	failed, gone := errors.New("failed"), engine.Errorf(engine.ErrUnauthorized, "gone")
	calls := map[string]func(engine.Door) (string, error){
		"propose": func(d engine.Door) (string, error) { b, err := d.Propose(t.Context(), 0, write); return string(b), err },
		"take": func(d engine.Door) (string, error) {
			b, err := d.Take(t.Context(), 0, engine.Take{Command: write})
			return string(b), err
		},
		"query": func(d engine.Door) (string, error) {
			return "", d.Query(t.Context(), 0, &engine.NamespaceQuery{Name: "a"})
		},
	}
	answers := map[string]string{"propose": "proposed", "take": "taken"}
	for name, call := range calls {
		fine := func(context.Context) error { return nil }
		door := func(g *Grant, during func(context.Context) error) engine.Door {
			return g.Door(wire, echo{during: during})
		}
		if got, err := call(door(grantOf(Write, "a"), fine)); err != nil || got != answers[name] {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if _, err := call(door(grantOf(Write, "a"), func(context.Context) error { return failed })); !errors.Is(err, failed) {
			t.Errorf("%s that fails: %v", name, err)
		}
		untouched := func(context.Context) error { t.Errorf("%s gets through", name); return nil }
		if _, err := call(door(grantOf(Write, "b"), untouched)); !errors.Is(err, engine.ErrUnauthorized) {
			t.Errorf("%s without leave: %v", name, err)
		}
		over := grantOf(Write, "a")
		over.end(gone)
		if _, err := call(door(over, untouched)); !errors.Is(err, gone) {
			t.Errorf("%s when the grant has ended: %v", name, err)
		}
		if name == "propose" { // what was proposed is not called back
			continue
		}
		ends := grantOf(Write, "a")
		_, err := call(door(ends, func(ctx context.Context) error {
			ends.end(gone)
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), gone) {
				t.Errorf("%s ends because of %v", name, context.Cause(ctx))
			}
			return ctx.Err()
		}))
		if !errors.Is(err, gone) {
			t.Errorf("%s while the grant ends: %v", name, err)
		}
		late := grantOf(Write, "a")
		if _, err := call(door(late, func(context.Context) error { late.end(gone); return nil })); err != nil {
			t.Errorf("%s that succeeds as the grant ends: %v", name, err)
		}
	}
	ctx, cancel := grantOf(Read).While(t.Context())
	if cancel(); ctx.Err() == nil {
		t.Error("a context goes on when it was cancelled")
	}
}

// TestListOfPrefix: a listing for the namespaces of a key takes the prefix and the errors of the
// door.
func TestListOfPrefix(t *testing.T) {
	ask := func(q engine.Query) error {
		one := q.(*engine.NamespaceQuery)
		one.Found, one.Info.Name = true, one.Name
		return nil
	}
	q := &engine.NamespacesQuery{Prefix: "b", Limit: 9}
	if err := grantOf(Read, "a", "b1", "b2", "c").Ask(q, ask); err != nil || len(q.Infos) != 2 || q.Infos[0].Name != "b1" ||
		q.Infos[1].Name != "b2" {
		t.Errorf("%+v, %v", q.Infos, err)
	}
	failed := errors.New("failed")
	for _, g := range []*Grant{grantOf(Read, "b"), grantOf(Read), grantOf(Admin)} {
		if err := g.Ask(&engine.NamespacesQuery{Limit: 9}, func(engine.Query) error { return failed }); !errors.Is(err, failed) {
			t.Errorf("a listing that fails for %+v: %v", g.Key(), err)
		}
	}
}

// TestTokensThatCanNotBe: a malformed token is refused even if its signature is right.
func TestTokensThatCanNotBe(t *testing.T) {
	id, secret := newSecret()
	good := sign(id, secret, time.UnixMilli(1<<50))
	if tok, ok := parseToken(good); !ok || tok.id != id || tok.ends.UnixMilli() != 1<<50 {
		t.Errorf("a token of %s until 1<<50: %+v, %t", id, tok, ok)
	}
	if tok, ok := parseToken(sign(id, secret, time.UnixMilli(1))); !ok || tok.ends.UnixMilli() != 1 { // the shortest one
		t.Errorf("a token until 1: %+v, %t", tok, ok)
	}
	for name, s := range map[string]Secret{
		"nothing": "", "no prefix": good[1:], "no base64": good + "*", "more": good +
			"A", "too late": sign(id, secret, time.UnixMilli(1<<50+1)),
		"very long": tokenPrefix + Secret(strings.Repeat("A", 257)), "short": good[:len(good)/2],
	} {
		if _, ok := parseToken(s); ok {
			t.Errorf("%s is a token", name)
		}
	}
	key := string(spell(id, secret))
	for name, s := range map[string]string{
		"nothing": "", "no prefix": key[1:], "no secret": key[:len(keyPrefix)+16], "a short secret": key[:len(key)-2],
		"a long secret": key + "00", "no hex": key[:len(key)-1] + "x",
		"a short id": keyPrefix + key[len(keyPrefix)+1:],
	} {
		if _, _, ok := Secret(s).parse(); ok {
			t.Errorf("%s is a key", name)
		}
	}
}
