package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/internal/test/toy"
)

// grantOf returns what the holder of a key may do.
func grantOf(role Role, namespaces ...string) *Grant {
	return newGrant(storedKey{Key: Key{ID: "0123456789abcdef", Role: role, Namespaces: namespaces}})
}

// aboutAll is a query about all namespaces.
type aboutAll struct{ engine.Query }

func (aboutAll) Machine() engine.MachineID { return engine.MachineTest }

// telling is a query that tells the leader something.
type telling struct {
	engine.Query
	namespace string
}

func (*telling) OfLeader()                 {}
func (*telling) Machine() engine.MachineID { return engine.MachineTest }

// TestGrants: what each key is good for: commands and queries in its namespaces and in others,
// about all of them, and about keys.
func TestGrants(t *testing.T) {
	p := toy.Primitive()
	p.Commands = slices.Clone(p.Commands)
	for i := range p.Commands {
		if p.Commands[i].Kind == toy.Send { // stands for what goes on in other namespaces
			p.Commands[i].Reaches = func(engine.Command) []string { return nil }
		}
	}
	wire := engine.NewWire([]engine.Primitive{p})
	nobody := newGrant(storedKey{})
	nobody.open = true
	neighbor := *nobody
	neighbor.local = true
	key := Key{ID: "0123456789abcdef", Role: Read}
	bootstrap, createKey, revokeKey := withKey(bootstrap, key), withKey(create, key), commandOf(revoke, key.ID, engine.Nothing{})
	write, reach := toy.Command{Kind: toy.Add, Name: "n", Delta: 1}, toy.Command{Kind: toy.Send, Name: "n"}
	allowed := map[string]func(*Grant) error{
		"read a":      func(g *Grant) error { return g.Query(&engine.NamespaceQuery{Name: "a"}) },
		"read b":      func(g *Grant) error { return g.Query(&engine.NamespaceQuery{Name: "b"}) },
		"read system": func(g *Grant) error { return g.Query(&engine.NamespaceQuery{Name: engine.SystemNamespace}) },
		"tell a":      func(g *Grant) error { return g.Query(&telling{namespace: "a"}) },
		"tell b":      func(g *Grant) error { return g.Query(&telling{namespace: "b"}) },
		"read all":    func(g *Grant) error { return g.Query(aboutAll{}) },
		"read keys":   func(g *Grant) error { return g.Query(new(keysQuery)) },
		"write a":     func(g *Grant) error { return g.Command(wire, write.In("a")) },
		"write b":     func(g *Grant) error { return g.Command(wire, write.In("b")) },
		"reach":       func(g *Grant) error { return g.Command(wire, reach.In("a")) },
		"bootstrap":   func(g *Grant) error { return g.Command(wire, bootstrap) },
		"create":      func(g *Grant) error { return g.Command(wire, createKey) },
		"revoke":      func(g *Grant) error { return g.Command(wire, revokeKey) },
	}
	everything := []string{"tell a", "tell b", "read a", "read b", "read system", "read all", "read keys", "write a", "write b", "reach",
		"bootstrap", "create", "revoke"}
	for name, c := range map[string]struct {
		grant *Grant
		may   []string
	}{
		"nobody":          {nobody, slices.DeleteFunc(slices.Clone(everything), func(what string) bool { return what == "bootstrap" })},
		"nobody, near":    {&neighbor, everything},
		"an admin":        {grantOf(Admin), everything},
		"a writer":        {grantOf(Write), []string{"tell a", "tell b", "read a", "read b", "read all", "write a", "write b", "reach"}},
		"a reader":        {grantOf(Read), []string{"read a", "read b", "read all"}},
		"a writer for a":  {grantOf(Write, "a"), []string{"tell a", "read a", "write a"}},
		"a reader for a":  {grantOf(Read, "a"), []string{"read a"}},
		"a reader for ab": {grantOf(Read, "a", "b"), []string{"read a", "read b"}},
	} {
		for what, may := range allowed {
			if err := may(c.grant); (err == nil) != slices.Contains(c.may, what) || err != nil && !errors.Is(err, engine.ErrUnauthorized) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}

// TestNamespacesOfGrant: a listing of namespaces has those that the holder may see, in pages that
// are full up to the last one.
func TestNamespacesOfGrant(t *testing.T) {
	all := []string{engine.SystemNamespace}
	for i := range 20 {
		all = append(all, fmt.Sprintf("n%02d", i))
	}
	pages := func(q engine.Query) error {
		if one, ok := q.(*engine.NamespaceQuery); ok {
			one.Found, one.Info.Name = slices.Contains(all, one.Name), one.Name
			return nil
		}
		list := q.(*engine.NamespacesQuery)
		for _, name := range all {
			if name > list.After && len(list.Infos) < list.Limit {
				list.Infos = append(list.Infos, engine.NamespaceInfo{Name: name})
			}
		}
		return nil
	}
	for _, c := range []struct {
		grant *Grant
		after string
		want  []string
	}{
		{grantOf(Admin), "", all[:3]}, {grantOf(Read), "", all[1:4]}, {grantOf(Read, "n01", "n08", "n15", "n19"), "",
			[]string{"n01", "n08", "n15"}},
		{grantOf(Read, "n01", "n08", "n15", "n19"), "n15", []string{"n19"}}, {grantOf(Read, "x"), "", nil},
	} {
		q := &engine.NamespacesQuery{After: c.after, Limit: 3}
		if err := c.grant.Ask(q, pages); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, info := range q.Infos {
			got = append(got, info.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v after %q: %v, want %v", c.grant.Key(), c.after, got, c.want)
		}
	}
}

// TestKeyStoreSendsAway: whoever came in while there was no key store, from near or afar, is sent
// away when there is one.
func TestKeyStoreSendsAway(t *testing.T) {
	d := new(door)
	g, _ := newTestGate(t, d)
	near, errNear := g.Enter(t.Context(), "", "127.0.0.1", true)
	far, errFar := g.Enter(t.Context(), "", "192.0.2.1", false)
	if err := errors.Join(errNear, errFar); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	far.AfterEnd(func() { close(ended) })
	d.add(t, Admin)
	if err := g.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-ended
	if !errors.Is(near.Err(), engine.ErrUnauthorized) || !errors.Is(far.Err(), engine.ErrUnauthorized) {
		t.Errorf("from near: %v, from afar: %v", near.Err(), far.Err())
	}
	if _, err := g.Enter(t.Context(), "", "127.0.0.1", true); !errors.Is(err, engine.ErrUnauthorized) {
		t.Errorf("without a key: %v", err)
	}
}

// TestKeysThatCanNotBe: keys that nobody should have are refused before they are proposed, and what
// Keep says stops one that could.
func TestKeysThatCanNotBe(t *testing.T) {
	d := new(door)
	d.add(t, Admin)
	g, _ := newTestGate(t, d)
	many := make([]string, MaxNamespaces+1)
	for i := range many {
		many[i] = fmt.Sprintf("n%03d", i)
	}
	for name, k := range map[string]Key{
		"no role": {}, "an unknown role": {Role: Admin + 1}, "an admin of a namespace": {Role: Admin, Namespaces: []string{"a"}},
		"a namespace twice":      {Role: Read, Namespaces: []string{"a", "a"}},
		"namespaces in no order": {Role: Read, Namespaces: []string{"b", "a"}}, "a system namespace": {Role: Write,
			Namespaces: []string{"_system"}},
		"too many namespaces": {Role: Read, Namespaces: many}, "a name with a control character": {Role: Read, Name: "a\n"},
	} {
		if _, _, err := g.Create(t.Context(), k, nil); !errors.Is(err, engine.ErrInvalid) || d.proposed > 0 {
			t.Errorf("%s: %v, %d commands", name, err, d.proposed)
		}
	}
	if _, _, err := g.Create(t.Context(), Key{Role: Read, Namespaces: many[1:]}, nil); err != nil || d.proposed != 1 {
		t.Errorf("as many namespaces as may be: %v, %d commands", err, d.proposed)
	}
	lost := errors.New("lost")
	var told Secret
	_, secret, err := g.Create(t.Context(), Key{Role: Read}, func(_ Key, s Secret) error { told = s; return lost })
	if !errors.Is(err, lost) || secret != "" || told == "" || d.proposed != 1 {
		t.Errorf("a key that is not kept: %v, %d commands", err, d.proposed)
	}
	_, _, err = g.Bootstrap(t.Context(), Key{}, func(Key, Secret) error { t.Error("told a key that there will not be"); return nil })
	if !errors.Is(err, engine.ErrExists) || d.proposed != 1 {
		t.Errorf("a second bootstrap: %v, %d commands", err, d.proposed)
	}
}

// TestBoundsOfMemory: neither sessions nor addresses that wrong keys come from are remembered
// without bound.
func TestBoundsOfMemory(t *testing.T) {
	d := new(door)
	key := d.add(t, Read)
	g, now := newTestGate(t, d)
	grant, err := g.Enter(t.Context(), key, "192.0.2.1", false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxSessions + 10 {
		g.remember(g.state.Load(), [32]byte{byte(i), byte(i >> 8)}, checked{grant: grant})
		if n := len(g.sessions); n > maxSessions || i < maxSessions && n != i+1 {
			t.Fatalf("%d sessions are remembered of %d, the limit is %d", n, i+1, maxSessions)
		}
	}
	for i := range maxRemembered + 10 {
		if err := g.failed.note(fmt.Sprintf("10.0.%d.%d", i>>8, i&255), *now); !errors.Is(err, engine.ErrUnauthorized) {
			t.Fatal(err)
		}
		if n := len(g.failed.by); n > maxRemembered || i < maxRemembered && n != i+1 {
			t.Fatalf("%d addresses are remembered of %d, the limit is %d", n, i+1, maxRemembered)
		}
	}
	*now = now.Add(failureTime)
	_ = g.failed.note("192.0.2.9", *now)
	if n := len(g.failed.by); n != 1 {
		t.Errorf("%d addresses are remembered when the time of all others is over", n)
	}
}

// TestOneAddress: an address is one however it is written, and a network of IPv6 is one.
func TestOneAddress(t *testing.T) {
	for _, pair := range [][2]string{{"192.0.2.1", "::ffff:192.0.2.1"}, {"2001:db8::1", "2001:db8::ffff:1"},
		{"fe80::1%eth0", "fe80::1%eth1"}, {"::1", "::1"}} {
		if source(pair[0]) != source(pair[1]) {
			t.Errorf("%s and %s: %s, %s", pair[0], pair[1], source(pair[0]), source(pair[1]))
		}
	}
	for _, pair := range [][2]string{{"192.0.2.1", "192.0.2.2"}, {"2001:db8::1", "2001:db8:0:1::1"}, {"::1", "127.0.0.1"},
		{"odd", "odder"}} {
		if source(pair[0]) == source(pair[1]) {
			t.Errorf("%s and %s are one: %s", pair[0], pair[1], source(pair[0]))
		}
	}
}

// TestTooManyKeys: there are no more keys than MaxKeys, and when one goes there is room again.
func TestTooManyKeys(t *testing.T) {
	r, g, ctx := machinetest.New(t, 1, Primitive()), NewGate(1), context.Background()
	g.Attach(r, r)
	if _, _, err := g.Bootstrap(ctx, Key{}, nil); err != nil {
		t.Fatal(err)
	}
	id := ""
	for range MaxKeys - 1 {
		k, _, err := g.Create(ctx, Key{Role: Read}, nil)
		if err != nil {
			t.Fatal(err)
		}
		id = k.ID
	}
	if _, _, err := g.Create(ctx, Key{Role: Read}, nil); !errors.Is(err, engine.ErrBusy) {
		t.Errorf("a key too many: %v, want ErrBusy", err)
	}
	if err := g.Revoke(ctx, id); err != nil {
		t.Fatal(err)
	}
	if _, _, err := g.Create(ctx, Key{Role: Read}, nil); err != nil {
		t.Errorf("when one has gone: %v", err)
	}
}

// sought is a query for a thing that is in one namespace, whichever.
type sought struct {
	engine.Query
	namespace string
	found     bool
}

func (*sought) Machine() engine.MachineID   { return engine.MachineTest }
func (s *sought) SearchIn(namespace string) { s.namespace = namespace }
func (s *sought) Found() bool               { return s.found }

// TestSearchOfGrant: what is named by its id alone is looked for in the namespaces of the key and
// nowhere else.
func TestSearchOfGrant(t *testing.T) {
	failed := errors.New("failed")
	for _, c := range []struct {
		grant  *Grant
		in     string // given
		place  string // where it is
		asked  []string
		found  bool
		denied bool
	}{
		{grantOf(Admin), "", "b", []string{""}, true, false},
		{grantOf(Read), "", "b", []string{""}, true, false},
		{grantOf(Read, "b"), "", "b", []string{"b"}, true, false},
		{grantOf(Read, "a", "b", "c"), "", "b", []string{"a", "b"}, true, false},
		{grantOf(Read, "a", "b"), "", "c", []string{"a", "b"}, false, false},
		{grantOf(Read, "a", "b"), "b", "b", []string{"b"}, true, false},
		{grantOf(Read, "a", "b"), "c", "c", nil, false, true},
	} {
		var asked []string
		q := &sought{namespace: c.in}
		err := c.grant.Ask(q, func(q engine.Query) error {
			s := q.(*sought)
			asked = append(asked, s.namespace)
			s.found = s.namespace == c.place || s.namespace == ""
			return nil
		})
		if errors.Is(err, engine.ErrUnauthorized) != c.denied || err != nil && !c.denied || q.found != c.found ||
			!slices.Equal(asked, c.asked) {
			t.Errorf("%v looks in %q for what is in %q: asked %q, found %t, %v; want %q, %t", c.grant.Key().Namespaces, c.in, c.place,
				asked, q.found, err, c.asked, c.found)
		}
	}
	if err := grantOf(Read, "a").Ask(new(sought), func(engine.Query) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("a search that fails: %v", err)
	}
}

// search is a search for an object in one namespace after the other.
type search struct {
	engine.Query
	namespace string
	in        string // where the object is
	asked     []string
}

func (*search) Machine() engine.MachineID   { return engine.MachineTest }
func (s *search) SearchIn(namespace string) { s.namespace = namespace }
func (s *search) Found() bool               { return s.in == s.namespace }
func (s *search) Arguments(f *codec.Fields) { f.Namespace(&s.namespace) }

// TestSearchesOfGrant: a search covers the namespaces of a key, in turn, until it has found
// something, and ends with the key. Other queries are passed on as they are.
func TestSearchesOfGrant(t *testing.T) {
	away := errors.New("away")
	for name, c := range map[string]struct {
		grant *Grant
		in    string
		fails string // namespace
		want  []string
		err   error
	}{
		"restricted":     {grantOf(Read, "a", "b", "c"), "b", "", []string{"a", "b"}, nil},
		"in none":        {grantOf(Read, "a", "b", "c"), "d", "", []string{"a", "b", "c"}, nil},
		"fails":          {grantOf(Read, "a", "b", "c"), "c", "b", []string{"a", "b"}, away},
		"not restricted": {grantOf(Read), "d", "", []string{""}, nil},
		"admin":          {grantOf(Admin), "d", "", []string{""}, nil},
	} {
		q := &search{in: c.in}
		err := c.grant.Ask(q, func(engine.Query) error {
			if q.asked = append(q.asked, q.namespace); c.fails != "" && q.namespace == c.fails {
				return away
			}
			return nil
		})
		if !errors.Is(err, c.err) || !slices.Equal(q.asked, c.want) {
			t.Errorf("%s: %v, asked in %q, want %q", name, err, q.asked, c.want)
		}
		if c.in == "d" && q.namespace != "" {
			t.Errorf("%s: nothing is found, and the search is one in %q", name, q.namespace)
		}
	}
	unknown := grantOf(Read, "a")
	unknown.unknown = away
	if err := unknown.Ask(&search{}, func(engine.Query) error { t.Error("asked"); return nil }); err != away {
		t.Errorf("a search before the keys are known: %v", err)
	}
	open := newGrant(storedKey{})
	open.open = true
	for name, grant := range map[string]*Grant{"open": open, "admin": grantOf(Admin), "reader": grantOf(Read), "of a": grantOf(Read, "a")} {
		q, asked := &engine.NamespaceQuery{Name: "a"}, 0
		if err := grant.Ask(q, func(got engine.Query) error {
			if asked++; got != q {
				t.Errorf("%s: another query is asked", name)
			}
			return away
		}); err != away || asked != 1 {
			t.Errorf("%s: %v after %d questions", name, err, asked)
		}
	}
	list := &engine.NamespacesQuery{Limit: 3}
	if err := open.Ask(list, func(got engine.Query) error {
		if got != list {
			t.Error("an open listing is filtered")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
