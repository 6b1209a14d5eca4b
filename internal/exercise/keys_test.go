package exercise

import (
	"errors"
	"testing"

	"github.com/floedb/floe"
)

// TestKeysEverywhere: a key that was made through one node is good on the others at once, and its sessions too; when it is revoked through another one, what is done
// with it ends everywhere.
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
		client, err := floe.Dial(ctx, []string{n.Addr().String()}, floe.WithAPIKey(secret))
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
	client, err := floe.Dial(ctx, []string{c.nodes[2].Addr().String()}, floe.WithAPIKey(admin))
	if err != nil {
		t.Fatalf("the admin's key: %v", err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
}
