package engine

import (
	"context"
	"fmt"
	"testing"
)

// memoryDoor is a node in which every namespace exists and every row is in memory.
type memoryDoor struct {
	asked  int
	spread bool
}

func (d *memoryDoor) Shards() int { return 4 }

func (d *memoryDoor) Propose(context.Context, ShardID, Command) ([]byte, error) { return nil, nil }

func (d *memoryDoor) Take(context.Context, ShardID, Take) ([]byte, error) { return nil, nil }

func (d *memoryDoor) Query(_ context.Context, _ ShardID, q Query) error {
	d.asked++
	n := q.(*NamespaceQuery)
	n.Found, n.Info = true, NamespaceInfo{Name: n.Name, Spread: d.spread}
	return nil
}

func (d *memoryDoor) Cached(shard ShardID, p *Place, _ MachineID, _ byte, name string, _ uint64) ([]byte, bool) {
	return fmt.Append(nil, shard, p.namespace, name), true
}

// TestCachedThroughFreshHandles: a handle answers from memory from its first call on, as soon as
// any caller has looked up the namespace's placement. It does not matter whether the handle was
// taken before or after that.
func TestCachedThroughFreshHandles(t *testing.T) {
	for _, spread := range []bool{false, true} {
		d := &memoryDoor{spread: spread}
		r := NewRouter(d)
		early := r.Place("ns")
		if _, ok := r.Cached(early, MachineKV, 'c', "k"); ok {
			t.Errorf("spread %t: answered from memory, where the namespace might not exist", spread)
		}
		for _, key := range []string{"k", "{t}k"} {
			shard, err := r.Shard(t.Context(), "ns", key)
			if err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprint(shard, "ns", key)
			for name, p := range map[string]*Place{"before": early, "after": r.Place("ns")} {
				if row, ok := r.Cached(p, MachineKV, 'c', key); !ok || string(row) != want {
					t.Errorf("spread %t: first call through the handle taken %s = %q, %t, want %q", spread, name, row, ok, want)
				}
			}
		}
		if first, second := r.Place("ns"), r.Place("ns"); first != second {
			t.Errorf("spread %t: two places of one namespace", spread)
		}
		if d.asked != 1 {
			t.Errorf("spread %t: asked %d times for the placement, want 1", spread, d.asked)
		}
	}
}

// TestRouterForgetsPlaces: the Router's cache is bounded even with more namespaces, and an evicted
// one is found again.
func TestRouterForgetsPlaces(t *testing.T) {
	d := &memoryDoor{}
	r := NewRouter(d)
	for i := range maxRemembered + 100 {
		name := fmt.Sprint("ns", i)
		if _, err := r.Spread(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if r.known(name) == nil {
			t.Fatalf("%s is not remembered", name)
		}
	}
	n := 0
	for range r.places.Range {
		n++
	}
	if n != maxRemembered || r.count != n {
		t.Errorf("%d places are remembered and %d counted, want %d", n, r.count, maxRemembered)
	}
	for i := range 200 {
		name := fmt.Sprint("ns", i)
		if _, err := r.Spread(t.Context(), name); err != nil || r.known(name) == nil {
			t.Fatalf("%s is not found again: %v", name, err)
		}
	}
}
