package auth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/internal/test/toy"
)

// TestNamespacesOfKeys: a key creates as many namespaces as documented, by commands, by parts of
// transactions that reach into others, and whatever it tried before; those that exist count for
// nobody, and admins and keys for some namespaces are not counted.
func TestNamespacesOfKeys(t *testing.T) {
	p := toy.Primitive()
	p.Commands = append(p.Commands[:0:0], p.Commands...)
	for i := range p.Commands {
		if p.Commands[i].Kind == toy.Send {
			p.Commands[i].Reaches = func(engine.Command) []string { return []string{"other1", "other2"} }
		}
	}
	r := machinetest.New(t, 3, p, Primitive())
	wire := engine.NewWire([]engine.Primitive{p, Primitive()})
	g, ctx := NewGate(1), t.Context()
	g.Attach(r, r)
	now := time.UnixMilli(machinetest.Epoch)
	g.Now = func() time.Time { return now }
	if err := g.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	if _, _, err := g.Bootstrap(ctx, Key{}, nil); err != nil {
		t.Fatal(err)
	}
	enter := func(k Key) *Grant {
		t.Helper()
		_, secret, err := g.Create(ctx, k, nil)
		if err != nil {
			t.Fatal(err)
		}
		grant, err := g.Enter(ctx, secret, "192.0.2.1", false)
		if err != nil {
			t.Fatal(err)
		}
		return grant
	}
	writer := enter(Key{Role: Write})
	write := func(grant *Grant, namespace string) error {
		t.Helper()
		cmd := toy.Command{Kind: toy.Add, Name: "n", Delta: 1}
		_, err := grant.Door(wire, r).Propose(ctx, engine.HomeShard(namespace, 3), cmd.In(namespace))
		return err
	}
	note := func(from, to int) error {
		var m makeBody
		for i := from; i < to; i++ {
			m.namespaces = append(m.namespaces, fmt.Sprint("n", i))
		}
		_, err := r.Propose(ctx, engine.GlobalShard, commandOf(makes, writer.key.ID, m))
		return err
	}
	full := fmt.Sprintf("key %s has created 1000 namespaces", writer.key.ID)
	refused := func(err error) {
		t.Helper()
		if !errors.Is(err, engine.ErrUnauthorized) || !strings.Contains(err.Error(), full) {
			t.Errorf("%v, want ErrUnauthorized with %q", err, full)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	must(note(0, 997)) // as if as many commands had failed
	must(write(writer, "n5"))
	must(write(writer, "n5"))
	must(write(writer, "n997"))
	reach := toy.Command{Kind: toy.Send, Name: "n", Target: "n"}
	must(writer.Introduce(ctx, wire, reach.In("n997"))) // 1000 with two others
	must(writer.Introduce(ctx, wire, reach.In("n997")))
	refused(write(writer, "n1000"))
	refused(note(1000, 1001))
	refused(write(writer, "n7")) // for a moment what was counted before, too
	now = now.Add(fullTime)
	must(write(writer, "n7"))
	refused(write(writer, "n1000"))
	must(note(996, 998)) // counted already
	refused(note(999, 1001))
	now = now.Add(fullTime)
	must(write(writer, "n6"))
	must(write(enter(Key{Role: Admin}), "n1001"))
	must(write(writer, "n1001"))
	must(write(enter(Key{Role: Write, Namespaces: []string{"n1002"}}), "n1002"))
	must(write(enter(Key{Role: Write}), "n1003"))
	if info, err := engine.NewNamespaces(engine.NewRouter(r)).Get(ctx, "n1000"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("namespace of a refused write: %+v, %v", info, err)
	}
	r.Restart()
	refused(write(writer, "n1000"))
	must(g.Revoke(ctx, writer.key.ID))
	if err := note(0, 1); !errors.Is(err, engine.ErrUnauthorized) {
		t.Errorf("of a revoked key: %v", err)
	}
	r.Replay(func() int { return 1 }, func() bool { return false })
}

// TestNamesRemembered: what is remembered of names is bounded.
func TestNamesRemembered(t *testing.T) {
	var n namespaces
	for i := range maxSeen + 5 {
		n.add(fmt.Sprint(i))
	}
	if len(n.seen) > maxSeen || !n.has(fmt.Sprint(maxSeen+4)) || n.has("x") {
		t.Errorf("%d names", len(n.seen))
	}
}

// TestIntroduceFails: a namespace that can not be looked up is neither counted nor remembered.
func TestIntroduceFails(t *testing.T) {
	away := errors.New("away")
	d := new(door)
	d.add(t, Admin)
	key := d.add(t, Write)
	g, _ := newTestGate(t, d)
	grant, err := g.Enter(t.Context(), key, "192.0.2.1", false)
	if err != nil {
		t.Fatal(err)
	}
	g.Attach(d, unreachable{err: away})
	if err := g.introduce(t.Context(), grant, []string{"n"}); err != away || d.proposed > 0 || g.seen.has("n") || grant.made.has("n") {
		t.Errorf("a namespace that can not be looked up: %v; %d commands", err, d.proposed)
	}
	g.Attach(d, unreachable{})
	if err := g.introduce(t.Context(), grant, []string{"n", "n"}); err != nil || d.proposed != 1 || !grant.made.has("n") {
		t.Errorf("a new one: %v; %d commands", err, d.proposed)
	}
	if err := g.introduce(t.Context(), grant, []string{"n", "_x", ""}); err != nil || d.proposed != 1 {
		t.Errorf("counted already, or invalid: %v; %d commands", err, d.proposed)
	}
}

// unreachable is a door to shards without namespaces that may fail.
type unreachable struct {
	engine.Door
	err error
}

func (unreachable) Shards() int                                                 { return 3 }
func (u unreachable) Query(context.Context, engine.ShardID, engine.Query) error { return u.err }
