package check

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/shard"
	"github.com/floedb/floe/kv"
)

func stepper(t *testing.T, fsys vfs.FS) *shard.Stepper {
	t.Helper()
	s, err := shard.OpenStepper(shard.Config{Dir: "node", Shards: 1, FS: fsys, Primitives: []engine.Primitive{engine.TableOf[kv.Store]()}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestReplica(t *testing.T) {
	fsys := vfs.NewMem()
	s := stepper(t, fsys)
	expect(t, "empty", Replica(s), "")
	s.Campaign(0)
	round := func() {
		s.Step(0, 0)
		expect(t, "between steps", errors.Join(s.WriteLog(), s.Apply(0), Replica(s)), "")
	}
	for !s.State(0).Leads {
		round()
	}
	cmd, err := engine.OpOf(kv.PutOp("k", []byte("v"))).Limit(100)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Namespace = "n"
	if _, err := s.Submit(0, cmd); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		round()
	}
	if s.State(0).Applied.LSN != 1 {
		t.Fatalf("the write was not applied: %+v", s.State(0))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	db, err := pebble.Open("node/state", &pebble.Options{FS: fsys, FormatMajorVersion: pebble.FormatNewest, DisableWAL: true})
	if err != nil {
		t.Fatal(err)
	}
	key := []byte("\x00\x00\x01c\x00\x00\x00\x00k")
	if err := errors.Join(db.Delete(key, pebble.NoSync), db.Flush(), db.Close()); err != nil {
		t.Fatal(err)
	}
	s = stepper(t, fsys)
	expect(t, "without a row", Replica(s), `shard 0: kv: namespace "n": its row counts 1 keys, found 0`)
	if err := s.Crash(); err != nil {
		t.Fatal(err)
	}
}
