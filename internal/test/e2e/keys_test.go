package e2e

import (
	"errors"
	"fmt"
	"testing"

	"github.com/floedb/floe"
)

// TestKeysEverywhere: a key created through one node is valid on the others at once, and so are its
// sessions. When it is revoked through another node, everything authenticated by it ends on all
// nodes.
func TestKeysEverywhere(t *testing.T) {
	t.Parallel()
	c := &three{t: t, nodes: make([]*floe.Node, 3), shards: 2}
	c.open()
	ctx := t.Context()
	_, admin, err := c.nodes[0].Keys().Bootstrap(ctx)
	if err != nil {
		t.Fatal(err)
	}
	k, secret, err := c.nodes[1].Keys().Create(ctx, floe.RoleWrite)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := c.nodes[2].Keys().OpenSession(ctx, secret, "192.0.2.1")
	if err != nil {
		t.Fatalf("a session at another node than that where the key was made: %v", err)
	}
	holder, err := c.nodes[0].Keys().Authenticate(ctx, token)
	if err != nil {
		t.Fatalf("the session at a third node: %v", err)
	}
	ended := make(chan error, 3)
	for _, n := range c.nodes {
		client, err := floe.Dial(ctx, []string{n.Addr().String()}, floe.APIKey(secret))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		store := client.KV("keyed")
		if err := putAnyway(t, store); err != nil {
			t.Fatal(err)
		}
		go func() {
			for _, err := range store.Watch(ctx, "other") {
				ended <- err
				return
			}
			ended <- nil
		}()
	}
	if err := c.nodes[1].Keys().Revoke(ctx, k.ID); err != nil {
		t.Fatal(err)
	}
	for range c.nodes {
		if err := <-ended; !errors.Is(err, floe.ErrUnauthorized) {
			t.Errorf("a watch with a revoked key: %v, want ErrUnauthorized", err)
		}
	}
	await(t, "the session has ended at all nodes", func() bool {
		for _, n := range c.nodes {
			if _, err := n.Keys().Authenticate(ctx, token); !errors.Is(err, floe.ErrUnauthorized) {
				return false
			}
		}
		return errors.Is(holder.Err(), floe.ErrUnauthorized)
	})
	client, err := floe.Dial(ctx, []string{c.nodes[2].Addr().String()}, floe.APIKey(admin))
	if err != nil {
		t.Fatalf("the admin's key: %v", err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
}

// TestNamespacesOfAKey: a key can create 1,000 namespaces, and no more by any means: through the
// client port and a view of the node, by a write, by Create, by the sink of a job and by the
// trigger of a workflow. It can still use existing namespaces.
func TestNamespacesOfAKey(t *testing.T) {
	t.Parallel()
	node, err := floe.Open(floe.Config{Shards: 2, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.Close() })
	ctx := t.Context()
	if _, _, err := node.Keys().Bootstrap(ctx); err != nil {
		t.Fatal(err)
	}
	_, secret, err := node.Keys().Create(ctx, floe.RoleWrite)
	if err != nil {
		t.Fatal(err)
	}
	client, err := floe.Dial(ctx, []string{node.Addr().String()}, floe.APIKey(secret))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	holder, err := node.Keys().AuthenticateKey(ctx, secret, "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	view := holder.DB()
	const most = 1000
	dbs := []floe.DB{client, view}
	for i := range most {
		if _, err := dbs[i%2].KV(fmt.Sprint("n", i)).Put(ctx, "k", nil); err != nil {
			t.Fatalf("namespace %d: %v", i, err)
		}
	}
	const job = "kind: Processing\nname: j\nsources: [{ name: in, stream: { name: in } }]\nsinks: [{ name: out, stream: { name: out, " +
		"namespace: other } }]\n"
	const flow = "kind: Workflow\nname: w\nversion: 1.0.0\ntrigger: { stream: s, namespace: other }\n" +
		"start: { run: \"@actions/a\", transitions: { success: done, failure: done } }\nterminals: { done: { status: completed } }\n"
	for i, db := range dbs {
		ways := map[string]func() error{
			"put":       func() error { _, err := db.KV("more").Put(ctx, "k", nil); return err },
			"take":      func() error { _, err := db.Stream("more").ReadGroup(ctx, "s", "g", "c"); return err },
			"namespace": func() error { return db.Namespaces().Create(ctx, "more", floe.Spread()) },
			"job":       func() error { _, err := db.Processing("n0").Submit(ctx, []byte(job)); return err },
			"workflow":  func() error { _, err := db.Workflow("n0").Create(ctx, []byte(flow)); return err },
		}
		for way, f := range ways {
			if err := f(); !errors.Is(err, floe.ErrUnauthorized) {
				t.Errorf("%d, %s: %v, want ErrUnauthorized", i, way, err)
			}
		}
		if _, err := db.KV("n7").Put(ctx, "k", nil); err != nil {
			t.Errorf("a namespace that exists: %v", err)
		}
	}
	for _, ns := range []string{"more", "other"} {
		if _, err := node.Namespaces().Get(ctx, ns); !errors.Is(err, floe.ErrNotFound) {
			t.Errorf("namespace %s: %v", ns, err)
		}
	}
}
