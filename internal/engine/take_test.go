package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// shop is a Taker whose stock the test sets. A command's body is a name: of the item to take (kind
// 1), or of the step to run (kind 2).
type shop struct {
	engine.Machine
	stock map[string]int // by item
	look  func(v *engine.View, item string, waits bool) (n, most int, err error)
	looks int
	step  func(tx *engine.Tx, name string) error
}

func (*shop) Restore(*engine.View) error { return nil }

func (s *shop) Takeable(v *engine.View, cmd engine.Command, waits bool) (n, most int, err error) {
	s.looks++
	if s.look != nil {
		return s.look(v, string(cmd.Body), waits)
	}
	return s.stock[string(cmd.Body)], 1, v.WaitOn(goods(string(cmd.Body)))
}

func (*shop) Took(kind uint8, result []byte, err error) bool {
	return kind == 1 && (err != nil || len(result) > 0)
}

func (*shop) Makes(cmd engine.Command, made func(engine.Made)) {
	made(engine.Made{Topic: engine.TopicOf(engine.MachineTest, cmd.Namespace, cmd.Body), N: int(cmd.Kind)})
}

func (s *shop) Apply(tx *engine.Tx, cmd engine.Command) ([]byte, error) {
	if cmd.Kind == 2 {
		return nil, s.step(tx, string(cmd.Body))
	}
	if s.stock[string(cmd.Body)] == 0 {
		return nil, nil
	}
	s.stock[string(cmd.Body)]--
	return cmd.Body, nil
}

// goods is the topic of an item in namespace n.
func goods(item string) engine.Topic { return engine.TopicOf(engine.MachineTest, "n", []byte(item)) }

// sharing is a shop that adds the number of waiting takes to each take.
type sharing struct{ *shop }

func (sharing) Share(cmd engine.Command, waiting int) engine.Command {
	cmd.Body = fmt.Append(cmd.Body, " of ", waiting)
	return cmd
}

func shopPrimitive(m engine.Machine) engine.Primitive {
	admit := func(engine.Command, int) error { return nil }
	return engine.Primitive{ID: engine.MachineTest, Name: "shop", New: func() engine.Machine { return m },
		Commands: []engine.CommandType{
			{Kind: 1, Name: "take", From: engine.FromUsers, Admit: admit}, {Kind: 2, Name: "step", From: engine.FromUsers, Admit: admit},
		}}
}

// market is a rig of one shard with a shop in namespace n, and a machine without takes.
type market struct {
	*rig
	*shop
	x *engine.Executor
}

func newMarket(t *testing.T) *market {
	t.Helper()
	s := &shop{stock: make(map[string]int)}
	r := newRigOf(t, 1, shopPrimitive(s), (&scripted{id: engine.MachineTest2}).primitive())
	r.apply(0, engine.CreateNamespace("n", false))
	return &market{r, s, r.execs[0]}
}

func takeOf(item string) engine.Command {
	return engine.Command{Machine: engine.MachineTest, Kind: 1, Namespace: "n", Body: []byte(item)}
}

// taking is a take of an item, called by a name in the test.
func (m *market) taking(name, item string, wait time.Duration) *engine.Taking {
	k := engine.NewTaking(context.Background(), engine.Take{Command: takeOf(item), Wait: wait}, func() int64 { return m.now })
	k.Owner = name
	return k
}

// enter admits a take and returns what became of it.
func (m *market) enter(k *engine.Taking) string {
	ready, waits, err := m.x.Enter(k)
	return fmt.Sprint(shown(ready), " ", waits, " ", err)
}

// wait parks a take of an item for an hour.
func (m *market) wait(name, item string) *engine.Taking {
	m.t.Helper()
	k := m.taking(name, item, time.Hour)
	if got := m.enter(k); got != "[] true <nil>" {
		m.t.Fatalf("%s does not wait: %s", name, got)
	}
	return k
}

// notify applies a step that does f, and returns the takes that are ready then.
func (m *market) notify(f func(tx *engine.Tx)) string {
	m.step = func(tx *engine.Tx, _ string) error { f(tx); return nil }
	cmd := takeOf("step")
	cmd.Kind = 2
	if o := m.apply(0, cmd)[0]; o.Err != nil {
		m.t.Error(o.Err)
	}
	return fmt.Sprint(shown(m.x.Ready()))
}

// shown returns the names of takes, with "=" and the error behind those that are answered.
func shown(ready []engine.ReadyTake) (names []string) {
	for _, r := range ready {
		name := fmt.Sprint(r.Owner)
		if r.Answered {
			name += fmt.Sprint("=", r.Err)
		} else if r.Err != nil {
			name += fmt.Sprint(" with error ", r.Err)
		}
		names = append(names, name)
	}
	return names
}

func pulled(takes []*engine.Taking) string {
	var names []string
	for _, k := range takes {
		names = append(names, fmt.Sprint(k.Owner))
	}
	return strings.Join(names, " ")
}

// expect compares what a test got with what it wants.
func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

var errShop = engine.Errorf(engine.ErrConflict, "closed")

func TestTakeEnters(t *testing.T) {
	for name, c := range map[string]struct {
		stock  int
		wait   time.Duration
		err    error
		want   string
		parked bool
	}{
		"none":             {0, 0, nil, "[] false <nil>", false},
		"some":             {1, 0, nil, "[k] true <nil>", false},
		"maybe":            {engine.Any, 0, nil, "[k] true <nil>", false},
		"waits for none":   {0, 1, nil, "[] true <nil>", true},
		"waits for some":   {1, 1, nil, "[k] true <nil>", false},
		"waits for maybe":  {engine.Any, 1, nil, "[k] true <nil>", false},
		"refused":          {0, 0, errShop, "[] false closed", false},
		"refused, waits":   {0, 1, errShop, "[] false closed", false},
		"refused but some": {1, 1, errShop, "[] false closed", false},
	} {
		m := newMarket(t)
		m.look = func(v *engine.View, _ string, waits bool) (int, int, error) {
			if waits != (c.wait > 0) {
				t.Errorf("%s: Takeable got waits = %t", name, waits)
			}
			v.Freeze() // the snapshot is released, or the database does not close
			_ = v.WaitOn(goods("a"))
			return c.stock, 1, c.err
		}
		expect(t, name, m.enter(m.taking("k", "a", c.wait)), c.want)
		expect(t, name+", parked", m.x.Parked(), c.parked)
	}
	m := newMarket(t)
	k := engine.NewTaking(t.Context(), engine.Take{Command: (&stage{}).cmd(&scripted{id: engine.MachineTest2}, "x")}, epoch)
	if _, _, err := m.x.Enter(k); !errors.Is(err, engine.ErrInvalid) || err.Error() != "machine 14 has no takes" {
		t.Errorf("a take of a machine without takes: %v", err)
	}
}

// epoch is the clock of takes whose turn does not matter.
func epoch() int64 { return 0 }

// TestTakeIsRoutedLikeACommand: a take looks for items only where its commands would find them.
func TestTakeIsRoutedLikeACommand(t *testing.T) {
	r := newRigOf(t, 2, shopPrimitive(&shop{stock: map[string]int{"a": 1}}))
	for _, ns := range []string{"plain", "spread"} {
		r.apply(engine.HomeShard(ns, 2), engine.CreateNamespace(ns, ns == "spread"))
	}
	for _, c := range []struct {
		ns           string
		spread, home bool
		ok           bool
	}{
		{"plain", false, true, true}, {"plain", true, true, false},
		{"spread", true, true, true}, {"spread", false, true, false},
		{"new", false, true, true}, {"new", true, true, false},
		{"new", false, false, false}, {"new", true, false, true},
	} {
		shard := engine.HomeShard(c.ns, 2)
		if !c.home {
			shard = 1 - shard
		}
		cmd := takeOf("a")
		cmd.Namespace, cmd.Spread = c.ns, c.spread
		ready, waits, err := r.execs[shard].Enter(engine.NewTaking(t.Context(), engine.Take{Command: cmd}, epoch))
		if (err == nil) != c.ok || waits != c.ok || (len(ready) == 1) != c.ok ||
			err != nil && err.Error() != "command was routed with an outdated placement" {
			t.Errorf("%+v: %d ready, waits %t, %v", c, len(ready), waits, err)
		}
	}
}

// TestTakeWaitsForItsNamespace: a take in a namespace that does not exist is routed again if the
// namespace is created as a spread one.
func TestTakeWaitsForItsNamespace(t *testing.T) {
	for _, spread := range []bool{true, false} {
		m := newMarket(t)
		cmd := takeOf("a")
		cmd.Namespace = "later"
		k := engine.NewTaking(t.Context(), engine.Take{Command: cmd, Wait: time.Hour}, epoch)
		k.Owner = "k"
		expect(t, "enter", m.enter(k), "[] true <nil>")
		m.apply(0, engine.CreateNamespace("later", spread))
		want := "[]"
		if spread {
			want = "[k=command was routed with an outdated placement]"
		}
		expect(t, fmt.Sprint("created, spread ", spread), shown(m.x.Ready()), want)
	}
}

// TestTakesReserve: items are promised to one take only, but a take that does not wait is never
// made to.
func TestTakesReserve(t *testing.T) {
	m := newMarket(t)
	m.look = func(v *engine.View, _ string, _ bool) (int, int, error) { return 2, 0, v.WaitOn(goods("a")) }
	expect(t, "first", m.enter(m.taking("a", "a", 1)), "[a] true <nil>")
	expect(t, "second", m.enter(m.taking("b", "a", 1)), "[b] true <nil>")
	expect(t, "third", m.enter(m.taking("c", "a", 1)), "[] true <nil>")
	expect(t, "without waiting", m.enter(m.taking("d", "a", 0)), "[d] true <nil>")
}

// TestTakesProceedInTurn: a take that has waited elsewhere comes before those that arrived earlier.
func TestTakesProceedInTurn(t *testing.T) {
	m := newMarket(t)
	m.wait("first", "a")
	m.now += 100
	for _, c := range []struct {
		name   string
		waited time.Duration
	}{{"late", 99 * time.Millisecond}, {"elsewhere", 101 * time.Millisecond}} {
		k := engine.NewTaking(t.Context(), engine.Take{Command: takeOf("a"), Wait: time.Hour, Waited: c.waited},
			func() int64 { return m.now })
		k.Owner = c.name
		expect(t, c.name, m.enter(k), "[] true <nil>")
	}
	expect(t, "pulled", pulled(m.x.Pull(engine.Made{Topic: goods("a"), N: 3}, 3)), "elsewhere first late")
}

func TestTakeAfter(t *testing.T) {
	k := engine.Take{Wait: 5 * time.Second, Waited: time.Second}
	expect(t, "in time", k.After(3*time.Second), engine.Take{Wait: 2 * time.Second, Waited: 4 * time.Second})
	expect(t, "late", k.After(6*time.Second), engine.Take{Waited: 7 * time.Second})
}

func TestTakesAreShared(t *testing.T) {
	s := &shop{stock: make(map[string]int)}
	for name, c := range map[string]struct {
		machine engine.Machine
		want    string
	}{"divides": {sharing{s}, "a of 3"}, "does not": {s, "a"}} {
		r := newRigOf(t, 1, shopPrimitive(c.machine))
		m := &market{r, s, r.execs[0]}
		m.wait("b", "a")
		m.wait("c", "a")
		k := m.taking("k", "a", 0)
		s.stock["a"] = 1
		expect(t, name, m.enter(k), "[k] true <nil>")
		cmd, err := engine.DecodeCommand(m.x.AppendTake([]byte("_"), k)[1:])
		expect(t, name, fmt.Sprintf("%s %v %s", cmd.Namespace, err, cmd.Body), "n <nil> "+c.want)
		s.stock["a"] = 0
	}
}

func TestMakes(t *testing.T) {
	m := newMarket(t)
	step := takeOf("b")
	step.Kind = 2
	other := (&stage{}).cmd(&scripted{id: engine.MachineTest2}, "x")
	txn := txnOf(takeOf("a"), other, step)
	for _, c := range []struct {
		name string
		cmd  engine.Command
		want []engine.Made
	}{
		{"command", step, []engine.Made{{Topic: goods("b"), N: 2}}},
		{"machine without takes", other, nil},
		{"transaction", txn, []engine.Made{{Topic: goods("a"), N: 1}, {Topic: goods("b"), N: 2}}},
		{"malformed transaction", cut(txn), nil},
		{"delivery with the body of a transaction", engine.Command{Kind: 3, Namespace: "n", Body: txn.Body}, nil},
	} {
		var got []engine.Made
		m.x.Makes(c.cmd, func(made engine.Made) { got = append(got, made) })
		expect(t, c.name, got, c.want)
	}
}

// TestTakeLooksTwice: a change between the first look at the state and the parking is not missed.
func TestTakeLooksTwice(t *testing.T) {
	pull := func(m *market) {
		m.t.Helper()
		expect(m.t, "pulled meanwhile", pulled(m.x.Pull(engine.Made{Topic: goods("a"), N: 1}, 1)), "k")
	}
	for name, c := range map[string]struct {
		second func(m *market, v *engine.View) (int, error)
		want   string
		parked bool
		looks  int
	}{
		"nothing": {func(*market, *engine.View) (int, error) { return 0, nil }, "[] true <nil>", true, 2},
		"one":     {func(*market, *engine.View) (int, error) { return 1, nil }, "[k] true <nil>", false, 3},
		"maybe":   {func(*market, *engine.View) (int, error) { return engine.Any, nil }, "[k] true <nil>", false, 2},
		"refusal": {func(*market, *engine.View) (int, error) { return 0, errShop }, "[] false closed", false, 2},
		"refusal, pulled meanwhile": {func(m *market, _ *engine.View) (int, error) { pull(m); return 0, errShop },
			"[] true <nil>", false, 2},
		"maybe, pulled meanwhile": {func(m *market, _ *engine.View) (int, error) { pull(m); return engine.Any, nil },
			"[] true <nil>", false, 2},
		"other topic": {func(_ *market, v *engine.View) (int, error) { return 0, v.WaitOn(goods("b")) }, "[] true <nil>", true, 3},
	} {
		m := newMarket(t)
		m.look = func(v *engine.View, _ string, _ bool) (n, most int, err error) {
			if m.looks > 1 {
				n, err = c.second(m, v)
			}
			if name != "other topic" || m.looks == 1 {
				_ = v.WaitOn(goods("a"))
			}
			return n, 1, err
		}
		expect(t, name, m.enter(m.taking("k", "a", time.Hour)), c.want)
		expect(t, name+", parked", m.x.Parked(), c.parked)
		expect(t, name+", looks", m.looks, c.looks)
		if name == "other topic" {
			expect(t, "takes of a", pulled(m.x.Pull(engine.Made{Topic: goods("a"), N: 1}, 1)), "")
			expect(t, "takes of b", pulled(m.x.Pull(engine.Made{Topic: goods("b"), N: 1}, 1)), "k")
		}
	}
}

func TestTakesAreNotified(t *testing.T) {
	a := goods("a")
	stock := func(n int) func(m *market) { return func(m *market) { m.stock["a"] = n } }
	for name, c := range map[string]struct {
		before func(m *market) // the takes w, x, y of item a and z of b are waiting
		notify func(tx *engine.Tx)
		want   string
		looks  int // -1: any
	}{
		"none":              {stock(0), func(tx *engine.Tx) { tx.Notify(a, 3) }, "[]", 1},
		"for no item":       {stock(3), func(tx *engine.Tx) { tx.Notify(a, 0) }, "[]", 0},
		"another topic":     {stock(3), func(tx *engine.Tx) { tx.Notify(goods("c"), 3) }, "[]", 0},
		"no topic":          {stock(3), func(tx *engine.Tx) { tx.Notify(0, 3) }, "[]", 0},
		"the namespace":     {stock(3), func(tx *engine.Tx) { tx.Notify(engine.TopicOf(0, "n", nil), 3) }, "[]", 0},
		"one":               {stock(1), func(tx *engine.Tx) { tx.Notify(a, 3) }, "[w]", 2},
		"two of three":      {stock(3), func(tx *engine.Tx) { tx.Notify(a, 2) }, "[w x]", 1},
		"three":             {stock(3), func(tx *engine.Tx) { tx.Notify(a, 3) }, "[w x y]", 1},
		"more than waits":   {stock(9), func(tx *engine.Tx) { tx.Notify(a, 9) }, "[w x y]", 1},
		"maybe one":         {stock(engine.Any), func(tx *engine.Tx) { tx.Notify(a, 1) }, "[w]", 1},
		"maybe two":         {stock(engine.Any), func(tx *engine.Tx) { tx.Notify(a, 2) }, "[w x]", 2},
		"all":               {stock(1), func(tx *engine.Tx) { tx.Notify(a, -1) }, "[w x y]", 3},
		"all, with nothing": {stock(0), func(tx *engine.Tx) { tx.Notify(a, -1) }, "[]", 3},
		"refusal": {func(m *market) {
			m.stock["a"] = 1
			m.look = func(v *engine.View, item string, _ bool) (int, int, error) {
				if m.looks <= 2 { // the refused take looks once more
					return 0, 0, errShop
				}
				return m.stock[item], 1, v.WaitOn(goods(item))
			}
		}, func(tx *engine.Tx) { tx.Notify(a, 1) }, "[w=closed x]", 3},
		"other topic": {func(m *market) {
			m.stock["a"] = 1
			m.look = func(v *engine.View, item string, _ bool) (int, int, error) {
				if m.looks <= 3 {
					return 0, 1, v.WaitOn(goods("b"))
				}
				return m.stock[item], 1, v.WaitOn(goods(item))
			}
		}, func(tx *engine.Tx) { tx.Notify(a, 1) }, "[x]", 4},
		"more at the next look": {func(m *market) {
			m.look = func(v *engine.View, item string, _ bool) (int, int, error) { return m.looks, 1, v.WaitOn(goods(item)) }
		}, func(tx *engine.Tx) { tx.Notify(a, 2) }, "[w x]", 2},
	} {
		m := newMarket(t)
		for _, k := range []string{"w", "x", "y"} {
			m.wait(k, "a")
		}
		m.wait("z", "b")
		c.before(m)
		m.looks = 0
		expect(t, name, m.notify(c.notify), c.want)
		expect(t, name+", looks", m.looks, c.looks)
		expect(t, name+", once more", shown(m.x.Ready()), "[]")
	}
}

// TestTakesOfGoneCallers: a take whose caller is gone takes nothing, and the next one proceeds.
func TestTakesOfGoneCallers(t *testing.T) {
	for _, stock := range []int{1, engine.Any} {
		m := newMarket(t)
		ctx, cancel := context.WithCancel(t.Context())
		gone := engine.NewTaking(ctx, engine.Take{Command: takeOf("a"), Wait: time.Hour}, func() int64 { return m.now })
		expect(t, "enter", m.enter(gone), "[] true <nil>")
		m.wait("x", "a")
		cancel()
		m.stock["a"] = stock
		expect(t, fmt.Sprint("with stock ", stock), m.notify(func(tx *engine.Tx) { tx.Notify(goods("a"), 1) }), "[x]")
	}
}

func TestTakesWithin(t *testing.T) {
	m := newMarket(t)
	shelf, other := goods("shelf"), goods("other")
	some, none := engine.NoSlots(), engine.NoSlots()
	some.Add(3)
	none.Add(4)
	m.look = func(v *engine.View, item string, _ bool) (int, int, error) {
		v.Only(some)
		err := v.WaitTurnWithin(shelf, goods(item), 0)
		return m.stock[item], 1, errors.Join(err, v.WaitTurnWithin(other, goods("more"), 0))
	}
	within := func(parent engine.Topic, n int, of engine.Slots) string {
		return m.notify(func(tx *engine.Tx) { tx.NotifyWithin(parent, n, of) })
	}
	m.wait("w", "a")
	m.wait("x", "a")
	m.wait("z", "b")
	m.stock = map[string]int{"a": 9, "b": 9}
	expect(t, "of another parent", within(other, -1, some), "[]")
	expect(t, "of another kind", within(shelf, -1, none), "[]")
	expect(t, "one each", within(shelf, 1, some), "[w z]")
	expect(t, "all", within(shelf, -1, some), "[x]")

	m.stock = map[string]int{}
	for _, k := range []string{"u", "v"} {
		m.wait(k, "b")
	}
	pull := func(made engine.Made, limit int) string { return pulled(m.x.Pull(made, limit)) }
	expect(t, "pull another kind", pull(engine.Made{Topic: shelf, N: 2, Within: true, Of: none}, 9), "")
	expect(t, "pull of a parent", pull(engine.Made{Topic: shelf, N: 1, Within: true, Of: some}, 9), "u")
	expect(t, "pull none", pull(engine.Made{Topic: goods("b"), N: 2}, 0), "")
	expect(t, "pull", pull(engine.Made{Topic: goods("b"), N: 2}, 9), "v")
}

// TestPullByCause: the items of a command with a cause are expected where earlier ones were made.
func TestPullByCause(t *testing.T) {
	m := newMarket(t)
	shelf, cause := goods("shelf"), goods("cause")
	m.look = func(v *engine.View, item string, _ bool) (int, int, error) {
		return 0, 1, v.WaitTurnWithin(shelf, goods(item), 0)
	}
	park := func() {
		for i := range 9 {
			for _, k := range []string{"x", "y"} {
				m.wait(fmt.Sprint(k, i), fmt.Sprint(i))
			}
		}
	}
	pull := func(n, limit int) string {
		return pulled(m.x.Pull(engine.Made{Topic: shelf, N: n, Cause: cause}, limit))
	}
	expect(t, "without waiting takes", pull(1, 9), "")
	park()
	expect(t, "unknown, limited", pull(5, 3), "x0 x1 x2")
	m.x.Expel()
	park()
	expect(t, "unknown", pull(5, 99), "x0 x1 x2 x3 x4 x5 x6 x7")
	m.x.Expel()
	park()
	expect(t, "made", m.notify(func(tx *engine.Tx) {
		tx.Cause(cause)
		tx.Cause(cause)
		tx.Notify(goods("4"), 1)
		tx.Notify(goods("7"), 1)
	}), "[]")
	expect(t, "known, limited", pull(1, 1), "x7")
	expect(t, "known", pull(2, 9), "y7 x4 y4")
	expect(t, "without the cause", pulled(m.x.Pull(engine.Made{Topic: goods("1"), N: 1}, 9)), "x1")
}

func TestTakesSettle(t *testing.T) {
	m := newMarket(t)
	m.stock["a"] = 1
	began := func(k *engine.Taking) *engine.Taking {
		t.Helper()
		expect(t, "enter", m.enter(k), fmt.Sprintf("[%v] true <nil>", k.Owner))
		return k
	}
	settle := func(k *engine.Taking, result string, err error) string {
		answered := m.x.Settle(k, engine.Outcome{Result: []byte(result), Err: err})
		return fmt.Sprint(answered, " ", shown(m.x.Ready()))
	}
	expect(t, "took", settle(began(m.taking("k", "a", time.Hour)), "a", nil), "true []")
	expect(t, "refused", settle(began(m.taking("k", "a", time.Hour)), "", errShop), "true []")
	expect(t, "found nothing, no wait", settle(began(m.taking("k", "a", 0)), "", nil), "true []")
	expect(t, "parked", m.x.Parked(), false)

	k := began(m.taking("k", "a", 1))
	m.stock["a"] = 0
	expect(t, "found nothing", settle(k, "", nil), "false []")
	expect(t, "parked", m.x.Parked(), true)
	expect(t, "leaves", m.x.Leave(k), true)
	expect(t, "parked", m.x.Parked(), false)

	m.stock["a"] = 1
	k = began(m.taking("k", "a", time.Hour))
	expect(t, "leaves in flight", m.x.Leave(k), false)
	expect(t, "found nothing", settle(k, "", nil), "false [k=<nil>]")

	k = began(m.taking("k", "a", time.Hour))
	m.look = func(*engine.View, string, bool) (int, int, error) { return 0, 0, errShop }
	expect(t, "found nothing, then refused", settle(k, "", nil), "false [k=closed]")
	m.look = nil

	k = began(m.taking("k", "a", time.Hour))
	m.wait("next", "a")
	expect(t, "has left an item", settle(k, "", errShop), "true [next]")
	k = m.wait("last", "a") // the item is reserved
	m.stock["a"] = 2
	expect(t, "another item", shown(m.x.Recall(k)), "[last]")
	m.wait("behind", "a")
	m.stock["a"] = 2
	expect(t, "dropped", shown(m.x.Drop(k)), "[behind]")
}

// TestTakeIsRecalled: a take looks again at a time that it has named.
func TestTakeIsRecalled(t *testing.T) {
	m := newMarket(t)
	at := []int64{500, 400, 450}
	m.look = func(v *engine.View, item string, _ bool) (int, int, error) {
		for _, at := range at {
			v.WakeAt(at)
		}
		return m.stock[item], 1, v.WaitOn(goods(item))
	}
	k := m.wait("k", "a")
	expect(t, "wake", m.x.WakeAt(k), 400)
	select {
	case <-k.Moved():
	default:
		t.Error("the time to wake up has not moved")
	}
	at = nil
	expect(t, "recalled", shown(m.x.Recall(k)), "[]")
	expect(t, "wake", m.x.WakeAt(k), int64(engine.NoTimer))
	m.stock["a"], m.looks = 1, 0
	expect(t, "recalled", shown(m.x.Recall(k)), "[k]")
	expect(t, "recalled in flight", shown(m.x.Recall(k)), "[]")
	expect(t, "looks", m.looks, 3)
}

func TestTakesAreExpelled(t *testing.T) {
	m := newMarket(t)
	for _, k := range []string{"w", "x", "y"} {
		m.wait(k, k)
	}
	expect(t, "expelled", pulled(m.x.Expel()), "w x y")
	expect(t, "parked", m.x.Parked(), false)
}

// TestWaitersAreBounded: the last query or take that may wait does so, the next one is refused.
func TestWaitersAreBounded(t *testing.T) {
	m := newMarket(t)
	for range engine.MaxWaiters {
		if _, waits, err := m.x.Enter(m.taking("", "a", time.Hour)); !waits || err != nil {
			t.Fatalf("a take within the limit: waits %t, %v", waits, err)
		}
	}
	expect(t, "waiting", m.x.Waiting(), engine.MaxWaiters)
	_, err := m.Take(t.Context(), 0, engine.Take{Command: takeOf("a"), Wait: time.Hour})
	_, waits, refused := m.x.Enter(m.taking("", "a", time.Hour))
	for name, err := range map[string]error{
		"take": refused, "take alone": err,
		"query": m.Query(t.Context(), 0, &engine.NamespaceQuery{Name: "later", Wait: true}),
	} {
		if !errors.Is(err, engine.ErrBusy) || err.Error() != "100000 queries and takes wait in this shard, the limit is 100000" || waits {
			t.Errorf("a %s beyond the limit: %v", name, err)
		}
	}
	m.x.Expel()
}

func TestTakeAlone(t *testing.T) {
	m := newMarket(t)
	take := func(wait time.Duration) string {
		result, err := m.Take(t.Context(), 0, engine.Take{Command: takeOf("a"), Wait: wait})
		return fmt.Sprintf("%q %v", result, err)
	}
	before := m.x.Applied().Index
	expect(t, "none", take(0), `"" <nil>`)
	expect(t, "entries", m.x.Applied().Index-before, 0)
	m.stock["a"] = 2
	expect(t, "some", take(0), `"a" <nil>`)
	expect(t, "some at once", take(time.Hour), `"a" <nil>`)
	m.stock["a"], m.fail = 1, errDown
	expect(t, "not proposed", take(0), `"" down`)
	expect(t, "not proposed, wait", take(time.Hour), `"" down`)
	m.stock["a"], m.fail = 0, nil
	for looks := range 2 { // refused at the first look, then at the second
		m.looks = 0
		m.look = func(v *engine.View, _ string, _ bool) (int, int, error) {
			if m.looks > looks {
				return 0, 0, errShop
			}
			return 0, 1, v.WaitOn(goods("a"))
		}
		expect(t, fmt.Sprint("refused at look ", looks+1), take(time.Hour), `"" closed`)
	}
	// The item is gone when the take is applied.
	m.looks, before = 0, m.x.Applied().Index
	m.look = func(v *engine.View, _ string, _ bool) (int, int, error) { return 1, 1, v.WaitOn(goods("a")) }
	expect(t, "gone", take(0), `"" <nil>`)
	expect(t, "entries", m.x.Applied().Index-before, 1)
	m.looks = 0
	m.look = func(v *engine.View, _ string, _ bool) (int, int, error) {
		if m.looks == 3 {
			m.stock["a"] = 1
		}
		return 1, 1, v.WaitOn(goods("a"))
	}
	expect(t, "gone, then another", take(time.Hour), `"a" <nil>`)
	expect(t, "entries", m.x.Applied().Index-before, 3)
	expect(t, "waiters left", m.x.Waiting(), 0)
}

// TestTakeAloneWaits follows the topics of its latest look.
func TestTakeAloneWaits(t *testing.T) {
	m := newMarket(t)
	parent := goods("old shelf")
	m.look = func(v *engine.View, item string, _ bool) (int, int, error) {
		return m.stock[item], 1, v.WaitTurnWithin(parent, goods(item), 0)
	}
	synctest.Test(t, func(t *testing.T) {
		done := make(chan string, 1)
		take := func(ctx context.Context) {
			result, err := m.Take(ctx, 0, engine.Take{Command: takeOf("a"), Wait: time.Hour})
			done <- fmt.Sprintf("%q %v", result, err)
		}
		start := time.Now()
		take(t.Context())
		expect(t, "nothing comes", <-done, `"" <nil>`)
		expect(t, "it has waited", time.Since(start), time.Hour)

		ctx, cancel := context.WithCancel(t.Context())
		go take(ctx)
		synctest.Wait()
		cancel()
		expect(t, "canceled", <-done, `"" context canceled`)

		go take(t.Context())
		synctest.Wait()
		for _, next := range []string{"shelf", "new shelf"} {
			looks := m.looks
			m.notify(func(tx *engine.Tx) { tx.NotifyWithin(goods("none"), -1, engine.Slots{}) })
			synctest.Wait()
			expect(t, "looks after a change of another shelf", m.looks, looks)
			from := parent
			parent = goods(next)
			m.notify(func(tx *engine.Tx) { tx.NotifyWithin(from, -1, engine.Slots{}) })
			synctest.Wait()
			expect(t, "looks after a change of its shelf", m.looks, looks+2)
		}
		m.stock["a"] = 1
		m.notify(func(tx *engine.Tx) { tx.NotifyWithin(parent, 1, engine.Slots{}) })
		expect(t, "an item comes", <-done, `"a" <nil>`)
		expect(t, "waiters left", m.x.Waiting(), 0)
	})
}
