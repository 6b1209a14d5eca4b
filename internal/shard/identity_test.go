package shard

import (
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/toy"
)

// TestMeetOlderCopy: a directory that was put back to what it was is refused at each of its starts, however high they count. It was let in as soon as it had
// been started as often as the one before.
func TestMeetOlderCopy(t *testing.T) {
	open := func(fsys vfs.FS) *Host {
		t.Helper()
		h, err := Open(Config{Dir: "node", FS: fsys, Shards: 1, Primitives: []engine.Primitive{toy.Primitive()}})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Identify(); err != nil {
			t.Fatal(err)
		}
		return h
	}
	start := func(fsys vfs.FS) (Identity, []string) {
		t.Helper()
		h := open(fsys)
		defer h.Close()
		return h.Identity(), h.Past()
	}
	fsys, old := vfs.NewMem(), vfs.NewMem()
	judge := open(vfs.NewMem())
	defer judge.Close()
	meet := func(id Identity, past []string) error { return judge.Meet(id, past, "") }
	for range 3 {
		if err := meet(start(fsys)); err != nil {
			t.Fatalf("a node that was started again: %v", err)
		}
	}
	if _, err := vfs.Clone(fsys, old, "node", "node"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		start(fsys) // nobody meets it
	}
	if err := meet(start(fsys)); err != nil {
		t.Fatalf("a node that was started some times since: %v", err)
	}
	for i := range 10 {
		if err := meet(start(old)); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("start %d of an older copy: %v, want ErrConflict", i+1, err)
		}
	}
	if err := meet(start(fsys)); err != nil {
		t.Errorf("the newest one, started again: %v", err)
	}
	for range maxPast + 10 {
		judge.identity.format.Past = append(judge.identity.format.Past, "0123456789abcdef")
	}
	if err := judge.Identify(); err != nil || len(judge.Past()) != maxPast {
		t.Errorf("%d past runs are kept, %v, want %d", len(judge.Past()), err, maxPast)
	}
}

// TestForeignCluster: a directory of another cluster is named by the node that has it, which fails once most nodes agree; it used to call the others
// wiped. The others name that node, and go on.
func TestForeignCluster(t *testing.T) {
	voters := []uint64{1, 2, 3}
	open := func(node uint64) *Host {
		t.Helper()
		h, err := Open(Config{Dir: "node", FS: vfs.NewMem(), Shards: 1, NodeID: node, Voters: voters, Primitives: []engine.Primitive{toy.Primitive()}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { h.Close() })
		if err := h.Identify(); err != nil {
			t.Fatal(err)
		}
		return h
	}
	meet := func(h, other *Host) error { return h.Meet(other.Identity(), other.Past(), other.Cluster()) }
	var here, there []*Host
	for _, cluster := range []*[]*Host{&here, &there} {
		for _, node := range voters {
			*cluster = append(*cluster, open(node))
		}
		for range 2 { // that who meets somebody before node 1 knows what cluster it is
			for _, a := range *cluster {
				for _, b := range *cluster {
					if err := meet(a, b); a != b && err != nil {
						t.Fatalf("node %d meets node %d: %v", a.Identity().Node, b.Identity().Node, err)
					}
				}
			}
		}
	}
	stray := there[2]
	stray.identity.theirs = nil // started again, among others
	for i, h := range here[:2] {
		if err := meet(h, stray); !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), "node 3 comes with a data directory of another cluster") {
			t.Errorf("node %d says %v", i+1, err)
		}
		err := meet(stray, h)
		if !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("the stray says %v of node %d", err, i+1)
		}
		if failed := stray.Err(); (failed != nil) != (i == 1) || i == 1 && !strings.Contains(failed.Error(), "the data directory node belongs to another cluster than those of the nodes [1 2]") {
			t.Errorf("after node %d the stray has failed with %v", i+1, failed)
		}
		if err := h.Err(); err != nil {
			t.Errorf("node %d has failed: %v", i+1, err)
		}
	}
}
