package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

var errDown = engine.Errorf(engine.ErrUnavailable, "down")

// outcome applies a command alone and returns its result and error.
func (r *rig) outcome(shard engine.ShardID, cmd engine.Command) string {
	r.t.Helper()
	o := r.apply(shard, cmd)[0]
	return fmt.Sprint(o.Result, " ", o.Err)
}

// lives describes a namespace in each shard: found, deleted (gone), or unknown (-).
func (r *rig) lives(name string) string {
	r.t.Helper()
	var all []string
	for shard := range r.execs {
		q := engine.NamespaceQuery{Name: name}
		if err := r.Query(context.Background(), engine.ShardID(shard), &q); err != nil {
			r.t.Fatal(err)
		}
		switch {
		case q.Found && q.Gone:
			r.t.Errorf("%q is both there and deleted", name)
		case q.Found:
			all = append(all, fmt.Sprint("found ", q.Info.CreatedAt.UnixMilli()))
		case q.Gone:
			all = append(all, "gone")
		default:
			all = append(all, "-")
		}
	}
	return strings.Join(all, ", ")
}

func TestCreateAndDeleteCommands(t *testing.T) {
	r := newRig(t, 1)
	at := func(step, got, want string) {
		t.Helper()
		expect(t, step, got, want)
	}
	bad := `namespace name "a\n" holds the control character U+000A`
	at("create with a bad name", r.outcome(0, engine.CreateNamespace("a\n", false)), "[] "+bad)
	at("delete with a bad name", r.outcome(0, engine.DeleteNamespace("a\n")), "[] "+bad)
	at("delete an unknown one", r.outcome(0, engine.DeleteNamespace("n")), "[0] <nil>")
	at("create", r.outcome(0, engine.CreateNamespace("n", false)), "[] <nil>")
	at("create again", r.outcome(0, engine.CreateNamespace("n", false)), `[] namespace "n" already exists`)
	at("create again, spread", r.outcome(0, engine.CreateNamespace("n", true)), `[] namespace "n" already exists`)

	r.apply(0, addTo("a", 1).In("n"))
	at("delete with contents", r.outcome(0, engine.DeleteNamespace("n")), `[] namespace "n" is not empty: 1 workflow`)
	r.apply(0, engine.CreateNamespace("m", false))
	at("delete", r.outcome(0, engine.DeleteNamespace("m")), "[0] <nil>")
	at("delete again", r.outcome(0, engine.DeleteNamespace("m")), "[0] <nil>")
	at("deleted", r.lives("m"), "gone")
	r.restart()
	at("deleted, after a restart", r.lives("m"), "gone")
	at("recreate as spread", r.outcome(0, engine.CreateNamespace("m", true)),
		`[] namespace "m" was deleted: it can only be recreated not spread`)
	r.now = 2000
	at("recreate", r.outcome(0, engine.CreateNamespace("m", false)), "[1] <nil>")
	at("recreated", r.lives("m"), "found 2000")
	r.restart()
	at("recreated, after a restart", r.lives("m"), "found 2000")

	r.apply(0, engine.DeleteNamespace("m"))
	r.now = 3000
	at("write to a deleted one, refused", r.outcome(0, addTo("a", -1).In("m")), `[] toy: counter "a" would be -1`)
	at("not written to", r.lives("m"), "gone")
	at("write that finds nothing", r.outcome(0, toy.Command{Kind: toy.Clear, Name: "a", Target: "b"}.In("m")), "[] <nil>")
	at("not written to", r.lives("m"), "gone")
	at("write to a deleted one", r.outcome(0, addTo("a", 0).In("m")), "[0] <nil>")
	at("written to", r.lives("m"), "found 3000")
	r.restart()
	at("written to, after a restart", r.lives("m"), "found 3000")

	r.apply(0, engine.CreateNamespace("s", true), engine.DeleteNamespace("s"))
	spread := addTo("a", 1).In("s")
	spread.Spread = true
	at("write to a deleted spread one", r.outcome(0, spread),
		`[] namespace "s" was deleted: create it again, spread as it was, before you write to it`)
	at("recreate as not spread", r.outcome(0, engine.CreateNamespace("s", false)),
		`[] namespace "s" was deleted: it can only be recreated spread`)
	at("deleted", r.lives("s"), "gone")
}

// TestCreateAwayFromHome: a shard other than the home has only parts of spread namespaces.
func TestCreateAwayFromHome(t *testing.T) {
	r := newRig(t, 2)
	away := 1 - engine.HomeShard("s", 2)
	expect(t, "not spread", r.outcome(away, engine.CreateNamespace("s", false)), "[] command was routed with an outdated placement")
	expect(t, "spread", r.outcome(away, engine.CreateNamespace("s", true)), "[] <nil>")
	expect(t, "spread again", r.outcome(away, engine.CreateNamespace("s", true)), "[] <nil>")
	r.apply(away, engine.DeleteNamespace("s"))
	expect(t, "spread and deleted", r.outcome(away, engine.CreateNamespace("s", true)), "[1] <nil>")
}

// TestDeleteRemovesWhatIsLeft: machines remove rows that no counter shows, in parts, before their
// namespace goes; its reads are counted anew.
func TestDeleteRemovesWhatIsLeft(t *testing.T) {
	one, two := newScripted(engine.MachineTest), newScripted(engine.MachineTest2)
	r := newRigOf(t, 1, one.primitive(), two.primitive())
	r.apply(0, engine.CreateNamespace("other", false), engine.CreateNamespace("n", false))
	read := func() { r.see(func(v *engine.View) { v.CountRead("n") }) }
	reads := func() int64 {
		q := engine.NamespaceQuery{Name: "n"}
		if err := r.Query(t.Context(), 0, &q); err != nil {
			t.Fatal(err)
		}
		return q.Info.Counts.KeyReads
	}
	read()
	read()
	expect(t, "reads", reads(), 2)
	var left []string
	leave := func(name string, n int) func(tx *engine.Tx) bool {
		return func(tx *engine.Tx) bool {
			left = append(left, fmt.Sprint(name, " of ", tx.NamespaceName()))
			if n--; n < 0 {
				return false
			}
			set(tx, name)
			return true
		}
	}
	one.leave, two.leave = leave("one", 1), leave("two", 2)
	delete := func() string {
		left = nil
		return fmt.Sprint(r.outcome(0, engine.DeleteNamespace("n")), " ", left)
	}
	// MachineTest2 has the smaller number.
	expect(t, "first", delete(), "[1] <nil> [two of n one of n]")
	expect(t, "second", delete(), "[1] <nil> [two of n one of n]")
	if dump := r.dump(0); !strings.Contains(dump, "00000e74776f = 76\n") || !strings.Contains(dump, "00000f6f6e65 = 76\n") {
		t.Errorf("the machines have not written rows of their own:\n%s", dump)
	}
	expect(t, "third", delete(), "[0] <nil> [two of n one of n]")
	expect(t, "fourth", delete(), "[0] <nil> []")
	expect(t, "namespace", r.lives("n"), "gone")
	r.apply(0, engine.CreateNamespace("n", false))
	expect(t, "reads of the new one", reads(), 0)
}

// TestRecreationWakes: queries that wait for a namespace receive it when it is created or written
// to again.
func TestRecreationWakes(t *testing.T) {
	r := newRig(t, 1)
	synctest.Test(t, func(t *testing.T) {
		for name, cmd := range map[string]engine.Command{
			"create": engine.CreateNamespace("create", false), "write": addTo("a", 0).In("write"),
		} {
			r.apply(0, engine.CreateNamespace(name, false), engine.DeleteNamespace(name))
			done := make(chan error, 2)
			for range 2 {
				go func() { done <- engine.NewRouter(r).Await(t.Context(), name) }()
			}
			synctest.Wait()
			expect(t, name+": waiting", r.execs[0].Waiting(), 2)
			r.apply(0, cmd)
			synctest.Wait()
			expect(t, name, len(done), 2)
			expect(t, name, errors.Join(<-done, <-done), "<nil>")
		}
	})
}

func TestDeleteNamespaces(t *testing.T) {
	m := newScripted(engine.MachineTest)
	count := func(n int64) func(*engine.Tx) error {
		return func(tx *engine.Tx) error { set(tx, "k"); tx.Count(countSteps, n); return nil }
	}
	m.steps["add"], m.steps["remove"] = count(1), count(-1)
	r := newRigOf(t, 3, m.primitive())
	do := func(shard engine.ShardID, step string) {
		cmd := (&stage{}).cmd(m, step)
		cmd.Namespace, cmd.Spread = "s", true
		expect(t, step, r.apply(shard, cmd)[0].Err, "<nil>")
	}
	var deleted []engine.ShardID // where it was proposed
	d := &hookedDoor{rig: r}
	deleting := func(_ engine.ShardID) error { return nil }
	queries := 0
	d.query = func(engine.ShardID, engine.Query) error { queries++; return nil }
	d.propose = func(shard engine.ShardID, cmd engine.Command) error {
		if cmd.Kind != engine.DeleteNamespace("").Kind {
			return nil
		}
		deleted = append(deleted, shard)
		return deleting(shard)
	}
	ns := engine.NewNamespaces(engine.NewRouter(d))
	home := engine.HomeShard("s", 3)
	others := slices.DeleteFunc([]engine.ShardID{0, 1, 2}, func(s engine.ShardID) bool { return s == home })
	at := func(first, second, atHome string) string { // in the others, and at home
		all := make([]string, 3)
		all[others[0]], all[others[1]], all[home] = first, second, atHome
		return strings.Join(all, ", ")
	}
	create := func() string { return fmt.Sprint(ns.Create(t.Context(), "s", true)) }
	del := func(name string) string { deleted = nil; return fmt.Sprint(ns.Delete(t.Context(), name)) }
	const there = "found 1000"

	expect(t, "default", del("default"), `namespace "default" cannot be deleted: it always exists`)
	expect(t, "system", del("_x"), `namespace "_x" is a system namespace and cannot be written`)
	expect(t, "unknown", del("s"), `namespace "s" not found`)
	queries = 0
	expect(t, "create", create(), "<nil>")
	expect(t, "create plain", ns.Create(t.Context(), "plain", false), "<nil>")
	expect(t, "create plain again", ns.Create(t.Context(), "plain", false), `namespace "plain" already exists`)
	expect(t, "queries of a creation that concerns one shard", queries, 0)
	d.query = nil
	do(others[1], "add")
	expect(t, "created", r.lives("s"), at("-", there, there))
	expect(t, "with contents", del("s"), `namespace "s" is not empty: 1 workflow`)
	expect(t, "with contents, proposed", deleted, "[]")
	do(others[1], "remove")
	expect(t, "empty", del("s"), "<nil>")
	expect(t, "deleted", r.lives("s"), at("-", "gone", "gone"))
	expect(t, "proposed", deleted, []engine.ShardID{others[0], others[1], home})
	expect(t, "deleted again", del("s"), `namespace "s" not found`)
	expect(t, "create again", create(), "<nil>")
	expect(t, "created again", r.lives("s"), at("-", there, there))

	left := 2
	m.leave = func(tx *engine.Tx) bool {
		if left--; left >= 0 {
			set(tx, "left")
			return true
		}
		return false
	}
	expect(t, "with rows", del("s"), "<nil>")
	expect(t, "with rows, proposed", deleted, []engine.ShardID{others[0], others[1], others[1], others[1], home})
	expect(t, "create again", create(), "<nil>")

	// A part is missing.
	exists := `namespace "s" already exists`
	r.apply(others[1], engine.DeleteNamespace("s"))
	d.query = func(shard engine.ShardID, _ engine.Query) error {
		return map[bool]error{true: errDown}[shard == others[1]]
	}
	expect(t, "create, unreachable", create(), "down")
	expect(t, "not repaired", r.lives("s"), at("-", "gone", there))
	expect(t, "delete, unreachable", del("s"), "down")
	d.query = nil
	hook := d.propose
	d.propose = func(shard engine.ShardID, _ engine.Command) error {
		return map[bool]error{true: errDown}[shard == others[1]]
	}
	expect(t, "create, not repaired", create(), "down")
	d.propose = hook
	expect(t, "create, repaired", create(), exists)
	expect(t, "repaired", r.lives("s"), at("-", there, there))
	expect(t, "create, nothing to repair", create(), exists)

	// Another shard refuses.
	for _, shard := range []engine.ShardID{others[0], home} {
		deleting = func(s engine.ShardID) error { return map[bool]error{true: errDown}[s == shard] }
		expect(t, "refused", del("s"), "down")
		expect(t, "at home", strings.Split(r.lives("s"), ", ")[home], there)
	}
	deleting = func(engine.ShardID) error { return nil }
	expect(t, "repaired", create(), exists)
	// The home gets contents meanwhile.
	deleting = func(s engine.ShardID) error {
		if s == others[1] {
			do(home, "add")
		}
		return nil
	}
	expect(t, "contents meanwhile", del("s"), `namespace "s" is not empty: 1 workflow`)
	expect(t, "all are back", r.lives("s"), at("-", there, there))
	do(home, "remove")
	deleting = func(s engine.ShardID) error {
		if s == home {
			d.query = func(engine.ShardID, engine.Query) error { return errDown }
			return errNo
		}
		return nil
	}
	expect(t, "contents meanwhile, unreachable", del("s"), "down")
	d.query, deleting = nil, func(engine.ShardID) error { return errNo }
	expect(t, "plain, refused", del("plain"), "no")
	deleting = func(engine.ShardID) error { return nil }
	expect(t, "plain", del("plain"), "<nil>")
	expect(t, "plain, proposed", deleted, []engine.ShardID{engine.HomeShard("plain", 3)})
	expect(t, "plain, deleted", del("plain"), `namespace "plain" not found`)
	expect(t, "create plain", ns.Create(t.Context(), "plain", false), "<nil>")
	deleting = func(engine.ShardID) error { return errNothing }
	expect(t, "plain, without a result", del("plain"), "<nil>")
}

// TestNamespaceInParts: the home shard says when a namespace was created, all its shards what it
// holds.
func TestNamespaceInParts(t *testing.T) {
	r := newRig(t, 2)
	router := engine.NewRouter(r)
	ns := engine.NewNamespaces(router)
	names := []string{homeOf(t, 0, 2), homeOf(t, 1, 2)}
	for _, name := range names {
		if err := ns.Create(t.Context(), name, true); err != nil {
			t.Fatal(err)
		}
	}
	r.now = 2000
	for _, name := range names {
		for shard := range engine.ShardID(2) {
			c := engine.RouteTo(name, shard, 2)
			if _, err := router.Propose(t.Context(), c, addTo(c, 1).In(name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(what string, info engine.NamespaceInfo, err error) {
		t.Helper()
		if err != nil || info.CreatedAt.UnixMilli() != 1000 || info.Counts.Workflows != 2 || !info.Spread {
			t.Errorf("%s: %+v, %v", what, info, err)
		}
	}
	page, err := ns.Page(t.Context(), engine.Listing{Limit: 2})
	if err != nil || len(page.Items) != 2 || page.Cursor != "" {
		t.Fatalf("Page: %+v, %v", page, err)
	}
	for i, name := range names {
		info, err := ns.Get(t.Context(), name)
		check("Get "+name, info, err)
		check("Page", page.Items[i], nil)
	}
	r.apply(1-engine.HomeShard("part", 2), engine.CreateNamespace("part", true))
	page, err = ns.Page(t.Context(), engine.Listing{Limit: 9, Prefix: "part"})
	expect(t, "without its home", fmt.Sprint(len(page.Items), page.Items[0].Name, " ", page.Items[0].Spread, err), "1part true <nil>")
	page, err = ns.Page(t.Context(), engine.Listing{Limit: 1})
	expect(t, "cursor", fmt.Sprint(len(page.Items), page.Cursor, err), "1"+min(names[0], names[1])+"<nil>")
}

func TestAdmitDeletion(t *testing.T) {
	w := engine.NewWire(nil)
	cmd := engine.DeleteNamespace("n")
	expect(t, "good", w.Admit(cmd, 1), "<nil>")
	cmd.Body = []byte{1}
	expect(t, "with a body", w.Admit(cmd, 1), "delete namespace: a body of 1 bytes")
	expect(t, "default", w.Admit(engine.DeleteNamespace("default"), 1), `namespace "default" cannot be deleted: it always exists`)
}

// TestNamespacesFail: errors of the door, and rows that cannot be read, reach the caller.
func TestNamespacesFail(t *testing.T) {
	r := newRig(t, 2)
	d := &hookedDoor{rig: r}
	router := engine.NewRouter(d)
	ns := engine.NewNamespaces(router)
	if err := errors.Join(ns.Create(t.Context(), "s", true), ns.Create(t.Context(), "known", true)); err != nil {
		t.Fatal(err)
	}
	if _, err := ns.Get(t.Context(), "known"); err != nil {
		t.Fatal(err)
	}
	get := func(name string) error { _, err := ns.Get(t.Context(), name); return err }
	page := func(limit int) error { _, err := ns.Page(t.Context(), engine.Listing{Limit: limit}); return err }
	exists := func(name string) string { return fmt.Sprint(router.Exists(t.Context(), name)) }
	bad := `namespace name "a\n" holds the control character U+000A`
	for name, err := range map[string]error{
		"Get": get("a\n"), "Await": router.Await(t.Context(), "a\n"), "Delete": ns.Delete(t.Context(), "a\n"),
	} {
		expect(t, name+" of a bad name", err, bad)
	}
	expect(t, "Exists of a bad name", exists("a\n"), "false "+bad)
	expect(t, "Exists", exists("s"), "true <nil>")
	expect(t, "Exists of another", exists("x"), "false <nil>")
	expect(t, "Await", router.Await(t.Context(), "known"), "<nil>")
	expect(t, "Page of none", page(0), "limit 0 is not in 1-1000")
	d.query = func(engine.ShardID, engine.Query) error { return errDown }
	for name, err := range map[string]error{
		"Get": get("s"), "Get of a known one": get("known"), "Page": page(1), "Delete": ns.Delete(t.Context(), "s"),
		"Await": router.Await(t.Context(), "s"),
	} {
		expect(t, name, err, "down")
	}
	expect(t, "Await of a known one", router.Await(t.Context(), "known"), "<nil>")
	expect(t, "Exists", exists("s"), "false down")

	d.query = nil
	r.tampered = true
	for shard := range 2 {
		for id := range 2 {
			r.set(string([]byte{0, byte(shard), 0, 'n', 0, 0, 0, byte(id)}), []byte{9})
		}
	}
	for name, err := range map[string]error{"Get": get("s"), "Page": page(1)} {
		if err == nil || err.Error() != "namespace row: malformed record: version 9" {
			t.Errorf("%s of rows that cannot be read: %v", name, err)
		}
	}
	expect(t, "Exists", exists("s"), "false namespace row: malformed record: version 9")
	for shard := range 2 {
		for id := range 2 {
			if err := r.db.Delete([]byte{0, byte(shard), 0, 'n', 0, 0, 0, byte(id)}, pebble.NoSync); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect(t, "Exists without a row", exists("s"), "false <nil>")
}

// TestNamespacesOfSnapshot: after a snapshot the namespaces are those of the snapshot, even if they
// were listed before.
func TestNamespacesOfSnapshot(t *testing.T) {
	r := newRig(t, 1)
	list := func() (names []string) {
		t.Helper()
		q := engine.NamespacesQuery{Limit: 9}
		if err := r.Query(t.Context(), 0, &q); err != nil {
			t.Fatal(err)
		}
		for _, ns := range q.Infos {
			names = append(names, ns.Name)
		}
		return names
	}
	r.apply(0, addTo("k", 1).In("a"), addTo("k", 1).In("b"))
	for range 2 {
		if got := list(); !slices.Equal(got, []string{"a", "b"}) {
			t.Fatalf("there are %q", got)
		}
	}
	lower, _ := engine.Bounds(0)
	row := append(append(lower, 0), "n\x00\x00\x00\x00"...)
	value, closer, err := r.db.Get(row)
	if err != nil {
		t.Fatal(err)
	}
	value = bytes.Replace(value, []byte("a"), []byte("z"), 1)
	if err := errors.Join(closer.Close(), r.db.Set(row, value, pebble.NoSync), r.execs[0].Restore()); err != nil {
		t.Fatal(err)
	}
	if got := list(); !slices.Equal(got, []string{"b", "z"}) {
		t.Errorf("behind the snapshot there are %q", got)
	}
	r.apply(0, addTo("k", 1).In("bb"))
	if got := list(); !slices.Equal(got, []string{"b", "bb", "z"}) {
		t.Errorf("after a new one there are %q", got)
	}
}
