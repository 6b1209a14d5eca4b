package kv_test

import (
	"bytes"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// TestGetManyInParts: GetMany reads each key once, in as few queries as the bounds on answers and
// requests allow.
func TestGetManyInParts(t *testing.T) {
	r, s := newAsked(t)
	value := bytes.Repeat([]byte("v"), 1<<20-100)
	var large, long []string
	for i := range 40 {
		large = append(large, fmt.Sprintf("large-%02d", i))
		must(s.Put(t.Context(), large[i], value))
	}
	for i := range 600 {
		long = append(long, fmt.Sprintf("%0*d", kv.MaxKeyBytes, i))
	}
	must(s.Put(t.Context(), long[599], []byte("last")))
	for _, c := range []struct {
		what         string
		keys         []string
		found, asked int
	}{
		{"no key", nil, 0, 0},
		{"a key and one that is missing", []string{large[0], "none"}, 1, 1},
		{"one key often", slices.Repeat(large[:1], 100_000), 1, 1},
		{"40 MiB of values, twice", slices.Concat(large, large), 40, 5},
		{"2.4 MB of keys", long, 1, 3},
	} {
		before := r.queries.Load()
		got, err := s.GetMany(t.Context(), c.keys...)
		if asked := int(r.queries.Load() - before); err != nil || len(got) != c.found || asked != c.asked {
			t.Errorf("GetMany of %s = %d entries, %v, with %d queries; want %d with %d", c.what, len(got), err, asked, c.found, c.asked)
		}
		for k, e := range got {
			if e.Key != k || !bytes.Equal(e.Value, value) && string(e.Value) != "last" {
				t.Errorf("GetMany of %s: entry of %.20q has key %.20q and %d bytes", c.what, k, e.Key, len(e.Value))
			}
		}
	}
}

// TestGetManyOfClient reads more through a Client than fits in one answer.
func TestGetManyOfClient(t *testing.T) {
	const size, n = 4 << 20, 41
	node := open(t, floe.Config{MaxValueSize: size, Listen: "127.0.0.1:0"})
	client, err := floe.Dial(t.Context(), []string{node.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var keys []string
	value := make([]byte, size)
	for i := range n {
		keys = append(keys, fmt.Sprint("key", i))
		must(client.KV("default").Put(t.Context(), keys[i], value))
	}
	if n*size <= engine.MaxAnswerBytes {
		t.Fatalf("%d values of %d bytes fit into one answer", n, size)
	}
	if got, err := client.KV("default").GetMany(t.Context(), keys...); err != nil || len(got) != n {
		t.Errorf("GetMany = %d entries, %v, want %d", len(got), err, n)
	}
}

// TestGetManyAsksShardsAtOnce: the shards are queried concurrently. Each query ends only after all
// others have begun.
func TestGetManyAsksShardsAtOnce(t *testing.T) {
	const shards = 4
	ctx := within(t)
	a := &asked{Rig: newRig(t, shards).Rig, t: t}
	router := engine.NewRouter(a)
	if err := engine.NewNamespaces(router).Create(ctx, "wide", true); err != nil {
		t.Fatal(err)
	}
	s := engine.StoreOf[kv.Store](router, "wide", 0)
	var keys []string
	for i := range 100 {
		keys = append(keys, fmt.Sprint("key", i))
		must(s.Put(ctx, keys[i], nil))
	}
	all := make(chan struct{})
	var begun atomic.Int64
	a.between = func(int64) {
		if begun.Add(1) == shards {
			close(all)
		}
		select {
		case <-all:
		case <-ctx.Done():
		}
	}
	if got, err := s.GetMany(ctx, keys...); err != nil || len(got) != len(keys) || begun.Load() != shards {
		t.Errorf("GetMany = %d entries, %v, with %d queries; want %d with %d at once", len(got), err, begun.Load(), len(keys), shards)
	}
}
