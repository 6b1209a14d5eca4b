package shard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// TestFailedSyncStopsTheNode checks that after a failed fsync of the log nothing is acknowledged
// any more, and that every call returns the reason. Everything acknowledged before is there on a
// healthy disk.
func TestFailedSyncStopsTheNode(t *testing.T) {
	ctx := context.Background()
	memory := vfs.NewCrashableMem()
	failing := &failingFS{FS: memory, budget: -1, err: syscall.EIO}
	h := open(t, config(failing))
	ns := homed(0)
	cmd := toy.Command{Kind: toy.Add, Name: "a", Delta: 1}.In(ns)
	if _, err := h.Propose(ctx, 0, cmd); err != nil {
		t.Fatal(err)
	}
	failing.fail()
	if _, err := h.Propose(ctx, 0, cmd); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("Propose on a failing disk = %v, want ErrUnavailable", err)
	}
	<-h.failed
	for name, err := range map[string]error{
		"Propose": func() error { _, err := h.Propose(ctx, 1, cmd); return err }(),
		"Query":   h.Query(ctx, 0, &toy.Counter{Namespace: ns, Name: "a"}),
	} {
		if !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), "input/output error") {
			t.Errorf("%s after the failure = %v, want ErrUnavailable with the cause", name, err)
		}
	}
	if st := stats(t, h); st.State != "failed" || h.Err() == nil {
		t.Errorf("state %q, Err %v; want failed", st.State, h.Err())
	}
	if err := h.Close(); err == nil {
		t.Error("Close of a failed node = nil, want the failure")
	}
	h = open(t, config(crash(memory, rand.New(rand.NewPCG(1, 1)), 0)))
	defer closeHost(t, h)
	q := toy.Counter{Namespace: ns, Name: "a"}
	if err := h.Query(ctx, 0, &q); err != nil || q.Value != 1 {
		t.Errorf("on a healthy disk the counter is %d, %v; want the acknowledged 1", q.Value, err)
	}
}

// TestPanicInApplyStopsTheNode checks that a bug in a machine neither ends the process nor skips
// the command.
func TestPanicInApplyStopsTheNode(t *testing.T) {
	ctx := context.Background()
	fsys := vfs.NewMem()
	h := open(t, config(fsys))
	if _, err := h.Propose(ctx, 0, toy.Command{Kind: toy.Panic}.In(homed(0))); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("Propose of a command that panics = %v, want ErrUnavailable", err)
	}
	<-h.failed
	if err := h.Err(); err == nil || !strings.Contains(err.Error(), "shard 0 at index") || !strings.Contains(err.Error(), "told to panic") {
		t.Errorf("Err = %v, want shard, index and panic", err)
	}
	_ = h.Close()
}

// TestAsyncLosesOnlyATail crashes an Async node so that unsynced data is lost. A prefix of the
// acknowledged writes survives, and no LSN is reused, not even a lost one.
func TestAsyncLosesOnlyATail(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 6))
	ctx := context.Background()
	fsys := vfs.NewCrashableMem()
	ns, value, highest := homed(0), int64(0), uint64(0)
	for round := range 20 {
		c := config(fsys)
		c.Durability, c.SyncInterval, c.MemTableBytes = Async, time.Hour, 256<<10
		h := open(t, c)
		q := toy.Counter{Namespace: ns, Name: "a"}
		if err := h.Query(ctx, 0, &q); err != nil || q.Value > value {
			t.Fatalf("round %d: counter %d, %v; only %d were ever added", round, q.Value, err, value)
		}
		value = q.Value
		for range rng.IntN(50) {
			if _, err := h.Propose(ctx, 0, toy.Command{Kind: toy.Add, Name: "a", Delta: 1}.In(ns)); err != nil {
				t.Fatal(err)
			}
			value++
			if lsn := stats(t, h).Shards[0].LSN; lsn <= highest {
				t.Fatalf("round %d: LSN %d was given out before, up to %d", round, lsn, highest)
			} else {
				highest = lsn
			}
		}
		if round%3 == 0 { // the state becomes durable beyond the log
			must(t, h.db.Flush())
		}
		fsys = crash(fsys, rng, rng.IntN(101))
		closeHost(t, h)
	}
}

// TestTornCreation checks that a directory whose creation was interrupted at any file operation can
// be created again.
func TestTornCreation(t *testing.T) {
	full := vfs.NewCrashableMem()
	counter := &failingFS{FS: full, budget: -1}
	h := open(t, config(counter))
	closeHost(t, h)
	for k := int64(0); k < counter.ops.Load(); k++ {
		fsys := vfs.NewCrashableMem()
		failing := &failingFS{FS: fsys, budget: k, err: syscall.EIO}
		if h, err := Open(config(failing)); err == nil {
			_ = h.Close() // the operation may happen only here
		}
		after := fsys.CrashClone(vfs.CrashCloneCfg{})
		h, err := Open(config(after))
		if err != nil {
			t.Fatalf("open after a crash at operation %d of the creation: %v", k, err)
		}
		closeHost(t, h)
	}
}

// failingFS fails every writing operation from the budget-th on; a negative budget never fails.
type failingFS struct {
	vfs.FS
	budget  int64
	err     error
	ops     atomic.Int64
	failing atomic.Bool
}

// fail makes all operations fail from now on.
func (f *failingFS) fail() { f.failing.Store(true) }

func (f *failingFS) op() error {
	if n := f.ops.Add(1); f.failing.Load() || f.budget >= 0 && n > f.budget {
		return &fs.PathError{Op: "injected", Path: fmt.Sprint(n), Err: f.err}
	}
	return nil
}

func (f *failingFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.op(); err != nil {
		return nil, err
	}
	file, err := f.FS.Create(name, c)
	return &failingFile{file, f}, err
}

func (f *failingFS) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	return &failingFile{file, f}, err
}

func (f *failingFS) Rename(a, b string) error {
	if err := f.op(); err != nil {
		return err
	}
	return f.FS.Rename(a, b)
}

func (f *failingFS) Remove(name string) error {
	if err := f.op(); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

type failingFile struct {
	vfs.File
	fs *failingFS
}

func (f *failingFile) Write(p []byte) (int, error) {
	if err := f.fs.op(); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f *failingFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.fs.op(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f *failingFile) Sync() error {
	if err := f.fs.op(); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *failingFile) SyncData() error {
	if err := f.fs.op(); err != nil {
		return err
	}
	return f.File.SyncData()
}

// TestMalformedCommand: a command that does not decode, written by a build with another layout,
// stops the host with its name and is not skipped. This happens each time the directory is opened,
// and Verify reports it.
func TestMalformedCommand(t *testing.T) {
	ctx, fsys := t.Context(), vfs.NewCrashableMem()
	h := open(t, config(fsys))
	cmd := toy.Command{Kind: toy.Add, Name: "a", Delta: 1}.In(homed(0))
	cmd.Body = cmd.Body[:len(cmd.Body)-1]
	const want = "toy: command 1 (add) does not decode"
	if _, err := h.Propose(ctx, 0, cmd); err == nil || errors.Is(err, engine.ErrInvalid) {
		t.Errorf("Propose = %v, want a host that has failed", err)
	}
	if err := h.Err(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the host failed with %v, want %q", err, want)
	}
	_ = h.Close() // it returns the reason of its failure
	fsys = fsys.CrashClone(vfs.CrashCloneCfg{})
	if h, err := Open(config(fsys)); err == nil {
		_ = h.Close()
		t.Error("Open succeeded")
	} else if fsys = fsys.CrashClone(vfs.CrashCloneCfg{}); !strings.Contains(err.Error(), want) || errors.Is(err, engine.ErrInvalid) {
		t.Errorf("Open = %v, want %q", err, want)
	}
	r, err := Verify(ctx, VerifyConfig{Dir: "node", FS: fsys, Primitives: []engine.Primitive{toy.Primitive()}})
	if err != nil || !strings.Contains(strings.Join(r.Problems, "\n"), want) {
		t.Errorf("Verify = %v, %v; want %q", r.Problems, err, want)
	}
}

// TestRemovedDirectory: a node fails if its directory is removed while it runs. It used to continue
// with files that were no longer reachable.
func TestRemovedDirectory(t *testing.T) {
	fsys := vfs.NewMem()
	h, err := Open(Config{Dir: "node", FS: fsys, Shards: 1, DiskInterval: time.Millisecond,
		Primitives: []engine.Primitive{toy.Primitive()}})
	must(t, err)
	must(t, fsys.RemoveAll("node"))
	select {
	case <-h.failed:
	case <-testContext(t).Done():
		t.Fatal("the node does not notice that its directory is gone")
	}
	if err := h.Err(); err == nil || !strings.Contains(err.Error(), "data directory node was removed") {
		t.Errorf("it failed with %v", err)
	}
	if _, err := h.Propose(t.Context(), 0, engine.Skip(0)); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("a write: %v", err)
	}
	_ = h.Close()
}
