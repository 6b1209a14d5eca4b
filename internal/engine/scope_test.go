package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// depot is a store of the toy.
type depot struct{ engine.Scope }

var _ = engine.Provide(toy.Primitive, func(s engine.Scope) *depot { return &depot{s} })

func TestStoresAreKept(t *testing.T) {
	r := newRig(t, 1)
	router := engine.NewRouter(r)
	store := func(maxPayload int) *depot { return engine.StoreOf[depot](router, "n", maxPayload) }
	if first, again := store(0), store(0); first == again {
		t.Error("a store of a namespace that may not exist is kept")
	}
	r.apply(0, engine.CreateNamespace("n", false))
	if _, err := router.Spread(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	full := store(0)
	expect(t, "default limit", fmt.Sprint(full.Namespace(), " ", full.MaxPayload()), "n 1048576")
	if store(0) != full || store(engine.DefaultMaxPayload) != full {
		t.Error("the store is not the one that was made before")
	}
	small := store(1)
	if expect(t, "limit", small.MaxPayload(), 1); store(1) != small || small == full {
		t.Error("the store has another limit, or is not kept")
	}
	other := small.Other("m")
	expect(t, "other namespace", fmt.Sprint(other.Namespace(), " ", other.MaxPayload()), "m 1")
	type shared struct{ n int }
	made := 0
	a := engine.Shared(&full.Scope, func() *shared { made++; return &shared{made} })
	b := engine.Shared(&other, func() *shared { made++; return &shared{made} })
	if a != b || made != 1 {
		t.Errorf("two scopes share %v and %v, %d made", a, b, made)
	}
	expect(t, "nothing attached", full.Attached(), nil)
	router.Attach("x")
	expect(t, "attached", full.Attached(), "x")
}

// spreadScope is a scope of the spread namespace s behind a door of several shards.
func spreadScope(t *testing.T, door engine.Door) engine.Scope {
	t.Helper()
	router := engine.NewRouter(door)
	if err := engine.NewNamespaces(router).Create(t.Context(), "s", true); err != nil {
		t.Fatal(err)
	}
	return router.Scope("s", 10)
}

func TestScopeProposesAndTakes(t *testing.T) {
	s := &shop{stock: map[string]int{"a": 9}}
	r := newRigOf(t, 2, shopPrimitive(s))
	d := &hookedDoor{rig: r}
	scope := spreadScope(t, d)
	s.step = func(*engine.Tx, string) error { return nil }
	text := func(b []byte) (string, error) {
		if string(b) == "odd" {
			return "", errNo
		}
		return "result " + string(b), nil
	}
	op := func(kind uint8, body string) engine.Op {
		cmd := takeOf(body)
		cmd.Kind, cmd.Namespace = kind, ""
		return engine.Op{Command: cmd, RouteTo: func(ns string, shards int) string { return engine.RouteTo(ns, 1, shards) }, Payload: 10}
	}
	var to []engine.ShardID
	d.propose = func(shard engine.ShardID, _ engine.Command) error { to = append(to, shard); return nil }
	for name, call := range map[string]func(scope *engine.Scope, op engine.Op) (string, error){
		"propose": func(scope *engine.Scope, op engine.Op) (string, error) {
			return engine.Propose(t.Context(), scope, op, text)
		},
		"take": func(scope *engine.Scope, op engine.Op) (string, error) {
			to = append(to, 1)
			return engine.TakeFrom(t.Context(), scope, op, engine.Take{}, text)
		},
	} {
		check := func(what string, scope engine.Scope, op engine.Op, want string) {
			t.Helper()
			got, err := call(&scope, op)
			expect(t, name+" "+what, fmt.Sprint(got, " ", err), want)
		}
		to = nil
		check("", scope, op(1, "a"), "result a <nil>")
		expect(t, name+" to", to, "[1]")
		large := op(1, "a")
		large.Payload = 11
		check("of a large value", scope, large, " value of 11 bytes exceeds max_value_size (10 bytes)")
		check("in a system namespace", scope.Other("_x"), op(1, "a"), ` namespace "_x" is a system namespace and cannot be written`)
		s.stock["odd"] = 1
		check("with a bad result", scope, op(1, "odd"), " no")
		s.look = func(*engine.View, string, bool) (int, int, error) { return 0, 0, errShop }
		d.propose = func(engine.ShardID, engine.Command) error { return errShop }
		check("refused", scope, op(1, "a"), " closed")
		s.look, d.propose = nil, func(shard engine.ShardID, _ engine.Command) error { to = append(to, shard); return nil }
	}
}

// TestEachIsConcurrent: the calls run at once, and all have returned at the end. A serial door has
// them one after the other.
func TestEachIsConcurrent(t *testing.T) {
	r := newRig(t, 2)
	scope := engine.NewRouter(r).Scope("n", 1)
	serial := engine.NewRouter(&serialDoor{hookedDoor: hookedDoor{rig: r}}).Scope("n", 1)
	synctest.Test(t, func(t *testing.T) {
		for n := range 4 {
			var mu sync.Mutex
			var done []int
			meet := make(chan struct{})
			waiting := 0
			scope.Each(n, func(i int) {
				mu.Lock()
				if waiting++; waiting == n {
					close(meet)
				}
				mu.Unlock()
				<-meet // all the others are here
				<-time.After(time.Second)
				mu.Lock()
				done = append(done, i)
				mu.Unlock()
			})
			slices.Sort(done)
			expect(t, fmt.Sprint(n, " calls"), done, []int{0, 1, 2}[:n])
			done = nil
			serial.Each(n, func(i int) { done = append(done, i) })
			expect(t, fmt.Sprint(n, " serial calls"), done, []int{0, 1, 2}[:n])
		}
	})
}

func TestAskAll(t *testing.T) {
	r := newRig(t, 3)
	d := &hookedDoor{rig: r}
	scope := spreadScope(t, d)
	router := engine.NewRouter(r)
	for shard := range engine.ShardID(3) {
		name := engine.RouteTo("s", shard, 3)
		if _, err := router.Propose(t.Context(), name, addTo(name, 10+int64(shard)).In("s")); err != nil {
			t.Fatal(err)
		}
	}
	parts, shards, err := engine.AskAll(t.Context(), &scope, toy.Sum{Namespace: "s"})
	if err != nil || len(parts) != 3 || !slices.Equal(shards, []engine.ShardID{0, 1, 2}) {
		t.Fatalf("AskAll: %v of %v, %v", parts, shards, err)
	}
	for i, p := range parts {
		if p.Sum != 10+int64(i) || p.Namespace != "s" {
			t.Errorf("shard %d answers %+v", i, p)
		}
	}
	for shard := range engine.ShardID(3) {
		d.query = func(s engine.ShardID, _ engine.Query) error { return map[bool]error{true: errDown}[s == shard] }
		_, _, err = engine.AskAll(t.Context(), &scope, toy.Sum{Namespace: "s"})
		expect(t, fmt.Sprint("without shard ", shard), err, "down")
	}
	unknown := engine.NewRouter(d).Scope("x", 1)
	d.query = func(engine.ShardID, engine.Query) error { return errDown }
	parts, shards, err = engine.AskAll(t.Context(), &unknown, toy.Sum{Namespace: "x"})
	if parts != nil || shards != nil || !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("without the placement: %v, %v, %v", parts, shards, err)
	}
	all, err := scope.Shards(t.Context())
	expect(t, "known shards", fmt.Sprint(all, " ", err), "[0 1 2] <nil>")
	all, err = unknown.Shards(t.Context())
	expect(t, "unknown shards", fmt.Sprint(all, " ", err), "[] down")
}

// TestPassOn: the next waiter of an item that was offered to a caller is woken, also after the
// caller's context has ended.
func TestPassOn(t *testing.T) {
	r := newRig(t, 3)
	wire := engine.NewWire(nil)
	for _, serial := range []bool{true, false} {
		var mu sync.Mutex
		var asked []engine.ShardID
		door := askedDoor{r, func(ctx context.Context, shard engine.ShardID, q engine.Query) error {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, shard)
			if deadline, ok := ctx.Deadline(); ctx.Err() != nil || !ok || time.Until(deadline) != time.Second {
				t.Errorf("a query until %v: %v", deadline, ctx.Err())
			}
			sent, err := wire.DecodeQuery(engine.AppendQuery(nil, q))
			if _, leaders := q.(engine.LeaderQuery); err != nil || !leaders {
				t.Errorf("the query is for leaders: %t, %v", leaders, err)
				return err
			}
			ns, _ := engine.NamespaceOf(q)
			to, _ := engine.NamespaceOf(sent)
			expect(t, "namespace", ns+to, "ss")
			return nil
		}}
		scope := engine.NewRouter(&door).Scope("s", 1)
		if serial {
			scope = engine.NewRouter(&askedSerial{door}).Scope("s", 1)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		synctest.Test(t, func(t *testing.T) {
			scope.PassOn(ctx, nil)
			scope.PassOn(ctx, []engine.ShardID{2})
			if serial {
				expect(t, "serial, one", asked, "[2]")
			}
			synctest.Wait()
			scope.PassOn(ctx, []engine.ShardID{1, 0})
			if serial {
				expect(t, "serial", asked, "[2 1 0]")
			}
			synctest.Wait()
			slices.Sort(asked)
			expect(t, "all", asked, "[0 1 2]")
		})
	}
}

// askedDoor is a door whose queries the test answers.
type askedDoor struct {
	engine.Door
	query func(ctx context.Context, shard engine.ShardID, q engine.Query) error
}

func (d *askedDoor) Query(ctx context.Context, shard engine.ShardID, q engine.Query) error {
	return d.query(ctx, shard, q)
}

type askedSerial struct{ askedDoor }

func (*askedSerial) Pause(context.Context, time.Duration) error { return nil }

func TestSettled(t *testing.T) {
	d := &serialDoor{hookedDoor: hookedDoor{rig: newRig(t, 2)}}
	scope := engine.NewRouter(d).Scope("n", 1)
	settle := func(after int) (calls int) {
		d.pauses = nil
		scope.Settled(t.Context(), func() bool { calls++; return calls > after })
		return calls
	}
	expect(t, "at once", settle(0), 1)
	expect(t, "pauses", d.pauses, "[]")
	expect(t, "later", settle(6), 7)
	expect(t, "pauses", d.pauses, "[1ms 2ms 4ms 8ms 10ms 10ms]")
	expect(t, "never", settle(1000), 100)
	expect(t, "pauses", len(d.pauses), 100)
	d.broken = errNo
	expect(t, "ended", settle(1000), 1)
	d.broken = nil
	d.pauses = nil
	expect(t, "pause", scope.Pause(t.Context(), time.Hour), "<nil>")
	expect(t, "pauses", d.pauses, "[1h0m0s]")

	real := engine.NewRouter(d.rig).Scope("n", 1)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		expect(t, "pause", real.Pause(t.Context(), time.Hour), "<nil>")
		expect(t, "time", time.Since(start), time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		expect(t, "ended pause", real.Pause(ctx, time.Hour), context.DeadlineExceeded)
		expect(t, "time", time.Since(start), time.Hour+time.Minute)
	})
}

func TestAgree(t *testing.T) {
	d := &serialDoor{hookedDoor: hookedDoor{rig: newRig(t, 2)}}
	scope := spreadScope(t, d)
	asked := 0
	d.query = func(shard engine.ShardID, q engine.Query) error {
		if sum, ok := q.(*toy.Sum); ok {
			asked++
			if asked == 5 {
				return errDown
			}
			sum.Count = int64(shard)
		}
		return nil
	}
	agree := func(s engine.Scope, same func(round int, a, b *toy.Sum) bool) int {
		asked, d.pauses = 0, nil
		engine.Agree(t.Context(), &s, toy.Sum{Namespace: "s"}, func(a, b *toy.Sum) bool { return same((asked+1)/2, a, b) })
		return asked
	}
	// Each part is compared with that of shard 0.
	expect(t, "agreed", agree(scope, func(_ int, a, b *toy.Sum) bool { return a.Count == 0 && a.Count <= b.Count }), 2)
	expect(t, "agreed later", agree(scope, func(round int, _, b *toy.Sum) bool { return round == 2 || b.Count == 0 }), 4)
	expect(t, "pauses", len(d.pauses), 1)
	expect(t, "until a shard fails", agree(scope, func(int, *toy.Sum, *toy.Sum) bool { return false }), 6)
	none := func(int, *toy.Sum, *toy.Sum) bool { return true }
	expect(t, "unknown namespace", agree(scope.Other("x"), none), 0)
	d.query = func(_ engine.ShardID, q engine.Query) error {
		if _, ok := q.(*toy.Sum); ok {
			asked++
		}
		return errDown
	}
	expect(t, "without the placement", agree(scope.Other("y"), none), 0)
}

// TestRoutes: among others, names keep their shards, which hold their rows.
func TestRoutes(t *testing.T) {
	for _, c := range []struct {
		ns, name    string
		home, shard engine.ShardID
	}{
		{"orders", "a", 117, 148}, {"orders", "user:1", 117, 60}, {"orders", "{t}x", 117, 171},
		{"default", "a", 150, 209}, {"default", "user:1", 150, 121}, {"default", "y{t}", 150, 238},
	} {
		expect(t, "home of "+c.ns, engine.HomeShard(c.ns, 256), c.home)
		expect(t, "shard of "+c.ns+" "+c.name, engine.NameShard(c.ns, c.name, 256), c.shard)
	}
	for shard := range engine.ShardID(5) {
		name := engine.RouteTo("n", shard, 5)
		var i int
		for ; engine.NameShard("n", fmt.Sprint(i), 5) != shard; i++ {
		}
		expect(t, fmt.Sprint("route to ", shard), name, fmt.Sprint(i))
	}
	for name, want := range map[string]bool{"a": false, "": false, "a{b}": true, "{b}": true, "{}": false, "{b": false} {
		expect(t, fmt.Sprintf("tagged %q", name), engine.Tagged(name), want)
	}
}

func TestRouterFails(t *testing.T) {
	s := &shop{stock: map[string]int{"a": 9}}
	r := newRigOf(t, 3, shopPrimitive(s))
	d := &hookedDoor{rig: r}
	spreadScope(t, r)
	down := func(from int) { // the placement cannot be read from this query on
		n := 0
		d.query = func(_ engine.ShardID, q engine.Query) error {
			if q, ok := q.(*engine.NamespaceQuery); ok {
				if n++; n >= from {
					return errDown
				}
				q.Name = "unknown" // the answer is outdated
			}
			return nil
		}
	}
	do := map[string]func(ns string) error{
		"Spread": func(ns string) error { _, err := engine.NewRouter(d).Spread(t.Context(), ns); return err },
		"Query": func(ns string) error {
			return engine.NewRouter(d).Query(t.Context(), ns, "k", &engine.NamespaceQuery{Name: "s"})
		},
		"Propose": func(ns string) error {
			cmd := takeOf("a")
			cmd.Namespace = ns
			_, err := engine.NewRouter(d).Propose(t.Context(), "k", cmd)
			return err
		},
		"Take": func(ns string) error {
			cmd := takeOf("a")
			cmd.Namespace = ns
			_, err := engine.NewRouter(d).Take(t.Context(), "k", engine.Take{Command: cmd})
			return err
		},
	}
	for name, f := range do {
		down(99)
		if err := f("a\n"); err == nil || !strings.Contains(err.Error(), "control character") {
			t.Errorf("%s with a bad name: %v", name, err)
		}
		down(1)
		expect(t, name, f("s"), "down")
	}
	for _, name := range []string{"Propose", "Take"} {
		down(2)
		expect(t, name+", routed again", do[name]("s"), "down")
	}
	for _, name := range []string{"Propose", "Take"} {
		n := 0
		d.query = func(_ engine.ShardID, q engine.Query) error {
			if q, ok := q.(*engine.NamespaceQuery); ok {
				if n++; n == 1 {
					q.Name = "unknown"
				}
			}
			return nil
		}
		expect(t, name+", routed again", do[name]("s"), "<nil>")
		expect(t, name+", queries", n, 2)
	}
	expect(t, "items left", s.stock["a"], 7)
	// A router that is always wrong ends.
	for _, name := range []string{"Propose", "Take"} {
		d.query = func(_ engine.ShardID, q engine.Query) error {
			if q, ok := q.(*engine.NamespaceQuery); ok {
				q.Name = "unknown"
			}
			return nil
		}
		expect(t, name+", always misrouted", do[name]("s"), "command was routed with an outdated placement")
	}
	d.query = nil
	s.look = func(*engine.View, string, bool) (int, int, error) { return 0, 0, errShop }
	expect(t, "Take, refused", do["Take"]("s"), "closed")
}

// TestNamelessItemsGoToTheShardsInTurn: an item without a name may be in any shard of a spread
// namespace.
func TestNamelessItemsGoToTheShardsInTurn(t *testing.T) {
	d := &hookedDoor{rig: newRig(t, 3)}
	scope := spreadScope(t, d)
	router := engine.NewRouter(d)
	var to []engine.ShardID
	d.propose = func(shard engine.ShardID, _ engine.Command) error { to = append(to, shard); return nil }
	for range 4 {
		if _, err := router.Propose(t.Context(), "", addTo("a", 1).In("s")); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, "shards", to, "[1 2 0 1]")
	shard, err := scope.Shard(t.Context(), "k")
	expect(t, "shard of a name", fmt.Sprint(shard, " ", err), fmt.Sprint(engine.NameShard("s", "k", 3), " <nil>"))
	expect(t, "shard of a name", scope.SpreadShard("k"), engine.NameShard("s", "k", 3))
}
