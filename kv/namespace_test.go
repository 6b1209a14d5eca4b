package kv_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
	"github.com/floedb/floe/kv"
)

// TestDeletedNamespace: a namespace is deleted in all of its shards or in none. If a client fails
// halfway, the shards that deleted it refuse writes until the namespace is deleted or created
// again.
func TestDeletedNamespace(t *testing.T) {
	ctx := t.Context()
	tables := []engine.Primitive{engine.TableOf[kv.Store]()}
	r := machinetest.New(t, 3, tables...)
	all, keys := engine.NewNamespaces(r.Router()), engine.StoreOf[kv.Store](r.Router(), "n", 1<<20)
	home := engine.HomeShard("n", 3)
	put := func() (refused int) {
		t.Helper()
		for i := range 30 {
			_, err := keys.Put(ctx, fmt.Sprint("k", i), nil)
			if errors.Is(err, engine.ErrNotFound) {
				refused++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		return refused
	}
	empty := func() {
		t.Helper()
		for i := range 30 {
			if _, err := keys.Delete(ctx, fmt.Sprint("k", i)); err != nil && !errors.Is(err, engine.ErrNotFound) {
				t.Fatal(err)
			}
		}
	}
	if err := all.Create(ctx, "n", true); err != nil {
		t.Fatal(err)
	}
	put()
	empty()
	if _, err := keys.Put(ctx, engine.RouteTo("n", home, 3), nil); err != nil {
		t.Fatal(err)
	}
	if err := all.Delete(ctx, "n"); !errors.Is(err, engine.ErrConflict) ||
		!strings.Contains(err.Error(), `namespace "n" is not empty: 1 key`) {
		t.Errorf("Delete of a namespace with a key: %v", err)
	}
	for i := range 30 {
		if versions, err := engine.Collect(keys.History(fmt.Sprint("k", i)).All(ctx)); err != nil || len(versions) != 2 {
			t.Errorf("after a deletion that was refused k%d has the versions %+v, %v", i, versions, err)
		}
	}
	if n := put(); n != 0 {
		t.Errorf("%d writes are refused after a deletion that was", n)
	}
	empty()
	if _, err := keys.Delete(ctx, engine.RouteTo("n", home, 3)); err != nil {
		t.Fatal(err)
	}
	// A client begins to delete it and fails halfway.
	part := (home + 1) % 3
	left := 0
	for ; ; left++ {
		if res, err := r.Propose(ctx, part, engine.DeleteNamespace("n")); err != nil {
			t.Fatal(err)
		} else if res[0] == 0 {
			break
		}
	}
	if left == 0 {
		t.Error("nothing was left of keys that were deleted")
	}
	if n := put(); n == 0 || n == 30 {
		t.Errorf("%d of 30 writes are refused where one of three shards has deleted the namespace", n)
	}
	if err := all.Create(ctx, "n", true); !errors.Is(err, engine.ErrExists) {
		t.Errorf("Create: %v, want ErrExists", err)
	}
	if n := put(); n != 0 {
		t.Errorf("%d writes are refused after the namespace was created again", n)
	}
	empty()
	if err := all.Delete(ctx, "n"); err != nil {
		t.Fatal(err)
	}
	if n := put(); n != 30 {
		t.Errorf("%d of 30 writes are refused in a namespace that was deleted", n)
	}
	if err := all.Create(ctx, "n", false); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("Create with another placement: %v, want ErrConflict", err)
	}
	if err := all.Create(ctx, "n", true); err != nil {
		t.Fatal(err)
	}
	if n := put(); n != 0 {
		t.Errorf("%d writes are refused in a namespace that was made anew", n)
	}
	info, err := all.Get(ctx, "n")
	if err != nil || info.Counts.Keys != 30 || info.Counts.KeySets != 30 || info.Counts.DeadKeys != 0 ||
		info.CreatedAt.UnixMilli() != r.Now() {
		t.Errorf("made anew it is %+v, %v", info, err)
	}
	if _, err := r.Propose(ctx, (engine.HomeShard("other", 3)+1)%3, engine.CreateNamespace("other", false)); err == nil {
		t.Error("a namespace was created in a shard that is not its home")
	}
	r.Verify()
	for shard := range engine.ShardID(3) {
		machinetest.EqualReplicas(t, r.Log(shard), tables, machinetest.Replica{},
			machinetest.Replica{Name: "crashes behind each entry", Commit: 1, Restart: 1})
	}
}
