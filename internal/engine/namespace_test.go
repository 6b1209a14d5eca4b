package engine

import (
	"errors"
	"testing"
)

// TestTooManyNamespaces checks that a shard does not take more namespaces than it can hold, also when a write would create one.
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
