package auth

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

// TestKeysModel makes and revokes keys at random, beside a map that says who may come in: with
// keys, with sessions, and with neither. Replicas that crash behind each entry have the same rows.
func TestKeysModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(machinetest.Seed(t), 0))
	r := machinetest.New(t, 1, Primitive())
	r.FailReads(nil)
	now := time.UnixMilli(machinetest.Epoch)
	gates := make([]*Gate, 2) // the second one hears of keys in the end
	for i := range gates {
		gates[i] = NewGate(uint64(i + 1))
		gates[i].Attach(r, r)
		gates[i].Now = func() time.Time { return now }
		if err := gates[i].Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	g, ctx := gates[0], t.Context()
	type holder struct {
		Key
		secret, token Secret
		grant         *Grant
	}
	there, gone := make(map[string]*holder), make(map[string]*holder)
	admins := func() (n int) {
		for _, h := range there {
			if h.Role == Admin {
				n++
			}
		}
		return n
	}
	made := func(k Key, secret Secret, err error, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Fatalf("a key of %s: %v, want %v", k.Role, err, want)
		}
		if err != nil {
			return
		}
		h := &holder{Key: k, secret: secret}
		now = now.Add(time.Second) // what is new is asked for
		if h.token, _, err = g.Session(ctx, secret, "192.0.2.1"); err != nil {
			t.Fatal(err)
		}
		if h.grant, err = g.Enter(ctx, secret, "192.0.2.1", false); err != nil {
			t.Fatal(err)
		}
		there[k.ID] = h
	}
	for range 150 {
		now = now.Add(time.Second)
		r.Pass(1000)
		switch n := rng.IntN(10); {
		case n < 1:
			k, secret, err := g.Bootstrap(ctx, Key{}, nil)
			want := error(nil)
			if len(there) > 0 {
				want = engine.ErrExists
			}
			made(k, secret, err, want)
		case n < 6:
			k := Key{Role: Role(1 + rng.IntN(3))}
			if k.Role < Admin && rng.IntN(2) == 0 {
				k.Namespaces = []string{"a"}
			}
			want := error(nil)
			if len(there) == 0 {
				want = engine.ErrConflict
			}
			k, secret, err := g.Create(ctx, k, nil)
			made(k, secret, err, want)
		case len(there) > 0:
			id := slices.Sorted(maps.Keys(there))[rng.IntN(len(there))]
			h, want := there[id], error(nil)
			if h.Role == Admin && admins() == 1 {
				want = engine.ErrConflict
			}
			if err := g.Revoke(ctx, id); !errors.Is(err, want) {
				t.Fatalf("revoke a key of %s, of %d admins: %v, want %v", h.Role, admins(), err, want)
			} else if err == nil {
				delete(there, id)
				gone[id] = h
			}
		}
		list, err := g.List(ctx)
		if err != nil && len(there) > 0 || len(list) != len(there) {
			t.Fatalf("%d keys are listed, %v, want %d", len(list), err, len(there))
		}
		for id, h := range there {
			if _, _, err := g.Holder(ctx, h.token); err != nil || h.grant.Err() != nil {
				t.Fatalf("the session of key %s: %v, its grant: %v", id, err, h.grant.Err())
			}
		}
		for id, h := range gone {
			if _, _, err := g.Holder(ctx, h.token); !errors.Is(err, engine.ErrUnauthorized) || h.grant.Err() == nil {
				t.Fatalf("the session of key %s, which was revoked: %v, its grant: %v", id, err, h.grant.Err())
			}
		}
	}
	if len(there) == 0 {
		return
	}
	other := gates[1]
	if err := other.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	for _, h := range there {
		if got, err := other.Enter(ctx, h.secret, "192.0.2.2", false); err != nil || got.Key().Role != h.Role {
			t.Errorf("key %s at another node: %v", h.ID, err)
		}
		forged := Secret(string(h.secret[:len(h.secret)-8]) + "00000000")
		if _, err := other.Enter(ctx, forged, "192.0.2.3", false); !errors.Is(err, engine.ErrUnauthorized) &&
			!errors.Is(err, engine.ErrBusy) {
			t.Errorf("a key with another secret: %v", err)
		}
		_, secret := newSecret()
		if _, _, err := other.Holder(ctx, sign(h.ID, secret, now.Add(time.Hour))); !errors.Is(err, engine.ErrUnauthorized) {
			t.Errorf("a token with the signature of another key: %v", err)
		}
	}
	for _, h := range gone {
		if _, err := other.Enter(ctx, h.secret, "192.0.2.4", false); err == nil || strings.Contains(err.Error(), string(h.secret)) {
			t.Errorf("a revoked key at another node: %v", err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(there)) {
		if there[id].Role != Admin {
			continue
		}
		want := error(nil)
		if admins() == 1 {
			want = engine.ErrConflict
		}
		if err := g.Revoke(ctx, id); !errors.Is(err, want) {
			t.Errorf("revoke one of %d admin keys: %v, want %v", admins(), err, want)
		} else if err == nil {
			delete(there, id)
		}
	}
	machinetest.EqualReplicas(t, r.Log(0), []engine.Primitive{Primitive()}, machinetest.Replica{},
		machinetest.Replica{Name: "crashes behind each entry", Commit: 1, Restart: 1})
}
