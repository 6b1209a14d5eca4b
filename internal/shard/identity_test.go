package shard

import (
	"errors"
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
	for range 3 {
		if err := judge.Meet(start(fsys)); err != nil {
			t.Fatalf("a node that was started again: %v", err)
		}
	}
	if _, err := vfs.Clone(fsys, old, "node", "node"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		start(fsys) // nobody meets it
	}
	if err := judge.Meet(start(fsys)); err != nil {
		t.Fatalf("a node that was started some times since: %v", err)
	}
	for i := range 10 {
		if err := judge.Meet(start(old)); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("start %d of an older copy: %v, want ErrConflict", i+1, err)
		}
	}
	if err := judge.Meet(start(fsys)); err != nil {
		t.Errorf("the newest one, started again: %v", err)
	}
	for range maxPast + 10 {
		judge.identity.format.Past = append(judge.identity.format.Past, "0123456789abcdef")
	}
	if err := judge.Identify(); err != nil || len(judge.Past()) != maxPast {
		t.Errorf("%d past runs are kept, %v, want %d", len(judge.Past()), err, maxPast)
	}
}
