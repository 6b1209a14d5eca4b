package engine

import (
	"errors"
	"testing"
)

// TestTooManyNamespaces checks that a shard rejects namespaces beyond its limit, also when a write
// would create one.
func TestTooManyNamespaces(t *testing.T) {
	x := &Executor{shards: 1}
	x.dir.byID = make([]*namespace, MaxNamespaces)
	tx := &Tx{x: x}
	if _, err := tx.applyCreateNamespace(CreateNamespace("one more", false)); !errors.Is(err, ErrInvalid) {
		t.Errorf("creating one too many = %v, want ErrInvalid", err)
	}
	if err := tx.admit(Command{Machine: MachineKV, Kind: 1, Namespace: "one more"}); !errors.Is(err, ErrInvalid) {
		t.Errorf("writing to one too many = %v, want ErrInvalid", err)
	}
	if len(x.dir.byID) != MaxNamespaces || len(tx.onRollback) > 0 {
		t.Errorf("%d namespaces afterwards, want %d", len(x.dir.byID), MaxNamespaces)
	}
}

// TestVisibleAfterRollback: a namespace is not visible if its creation is rolled back during a
// query's lookup and another one gets its number. Otherwise rows of the other namespace would be
// read as its own for as long as the pointer is cached.
func TestVisibleAfterRollback(t *testing.T) {
	d := &directory{byName: make(map[string]*namespace)}
	d.add(&namespace{name: "rolled back"})
	looked, given := false, false
	d.looked = func() {
		looked = true
		if !d.mu.TryLock() {
			return // no other lookup can intervene
		}
		d.mu.Unlock()
		d.removeLast()
		d.add(&namespace{name: "other"})
		d.committed.Store(1)
		given = true
	}
	if ns := d.visible("rolled back"); ns != nil {
		t.Errorf("%q with number %d is visible, which %q has", ns.name, ns.id, d.get(ns.id).name)
	}
	if given || !looked {
		t.Error("the number could be given to another namespace during the lookup")
	}
}
