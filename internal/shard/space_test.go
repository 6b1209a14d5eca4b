package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/kv"
)

// smallConfig is a node for disks of a few MiB.
func smallConfig(fsys vfs.FS) Config {
	return Config{
		Dir: "/node", Shards: 2, FS: fsys, Primitives: []engine.Primitive{engine.TableOf[kv.Store]()},
		SegmentBytes: 64 << 10, MaxLogBytes: 512 << 10,
		MinFreeBytes: 1 << 20, BallastBytes: 512 << 10, DiskInterval: 20 * time.Millisecond,
	}
}

// filler writes to a node until its disk is full, and records what must be there.
type filler struct {
	t     *testing.T
	rng   *rand.Rand
	host  *Host
	store *kv.Store
	want  map[string][]byte // acknowledged
	n     int
}

func (f *filler) attach(h *Host) {
	f.host, f.store = h, engine.StoreOf[kv.Store](engine.NewRouter(h), "full", h.MaxValue())
}

func (f *filler) put() error {
	f.n++
	key, value := fmt.Sprintf("key/%06d", f.n), make([]byte, f.rng.IntN(32<<10))
	for i := range value {
		value[i] = byte(f.rng.Uint32())
	}
	_, err := f.store.Put(f.t.Context(), key, value)
	if err == nil {
		f.want[key] = value
	}
	return err
}

// try puts a key when there may be no space: the put is then refused, or waits for a log that waits
// for space.
func (f *filler) try() {
	f.t.Helper()
	short, cancel := context.WithTimeout(f.t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := f.store.Put(short, "refused", nil)
	switch {
	case err == nil:
		f.want["refused"] = []byte{}
	case errors.Is(err, engine.ErrReadOnly), errors.Is(err, engine.ErrUnknownOutcome), errors.Is(err, context.DeadlineExceeded):
	default:
		f.t.Fatalf("put on a full disk: %v", err)
	}
}

// fill puts keys until the node refuses.
func (f *filler) fill() {
	f.t.Helper()
	for range 100_000 {
		err := f.put()
		if errors.Is(err, engine.ErrReadOnly) && errors.Is(err, engine.ErrUnavailable) {
			return
		}
		if err != nil {
			f.t.Fatalf("put %d while the disk fills up: %v", f.n, err)
		}
	}
	f.t.Fatal("the disk never got full")
}

// check reads everything.
func (f *filler) check(when string) {
	f.t.Helper()
	for key, want := range f.want {
		e, err := f.store.Get(f.t.Context(), key)
		if want == nil {
			if !errors.Is(err, engine.ErrNotFound) {
				f.t.Fatalf("%s: Get(%s) = %v, want it deleted", when, key, err)
			}
		} else if err != nil || !bytes.Equal(e.Value, want) {
			f.t.Fatalf("%s: Get(%s) = %d bytes, %v; want the %d bytes that were acknowledged", when, key, len(e.Value), err, len(want))
		}
	}
}

// deletes deletes n keys, alone and in a transaction, which must work on a full disk.
func (f *filler) deletes(n int) {
	f.t.Helper()
	ctx := f.t.Context()
	for key, value := range f.want {
		if n == 0 {
			return
		}
		if value == nil {
			continue
		}
		n--
		err := f.store.Touch(ctx, key, time.Hour)
		if err == nil && n%2 == 0 {
			_, err = f.store.Delete(ctx, key)
		} else if err == nil {
			_, err = engine.NewTxn(engine.NewRouter(f.host), "full", 1<<20).If(kv.Present(key)).Do(kv.DeleteOp(key)).Commit(ctx)
		}
		if err != nil {
			f.t.Fatalf("delete of %s on a full disk: %v", key, err)
		}
		f.want[key] = nil
	}
}

// refused checks which calls a read-only node refuses.
func (f *filler) refused() {
	f.t.Helper()
	ctx, router := f.t.Context(), engine.NewRouter(f.host)
	put := func() error { _, err := f.store.Put(ctx, "more", nil); return err }
	incr := func() error { _, err := f.store.Incr(ctx, "more", 1); return err }
	txn := func() error {
		_, err := engine.NewTxn(router, "full", 1<<20).Do(kv.DeleteOp("key/000001"), kv.PutOp("more", nil)).Commit(ctx)
		return err
	}
	create := func() error { return engine.NewNamespaces(router).Create(ctx, "more", false) }
	snapshot := func() error { return f.host.ReceiveSnapshot(0, snapshotMessage(), strings.NewReader("")) }
	for name, call := range map[string]func() error{
		"Put": put, "Incr": incr, "Txn": txn, "Create": create, "ReceiveSnapshot": snapshot,
	} {
		if err := call(); !errors.Is(err, engine.ErrReadOnly) {
			f.t.Errorf("%s on a full disk = %v, want ErrReadOnly", name, err)
		}
	}
}

func snapshotMessage() *raftpb.Message {
	return &raftpb.Message{
		Type:     raftpb.MsgSnap.Enum(),
		Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: new(uint64(7)), Term: new(uint64(1))}},
	}
}

// writable waits until the node accepts writes again.
func (f *filler) writable() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	until(ctx, f.t, "the end of read-only", func() bool {
		if f.host.space.readOnly() {
			return false
		}
		err := f.put()
		if err != nil && !errors.Is(err, engine.ErrReadOnly) { // an earlier refusal may be noticed only now
			f.t.Fatalf("put with space again: %v", err)
		}
		return err == nil
	})
}

// TestFullDisk fills disks of random sizes repeatedly. Acknowledged writes are there, and reads and
// deletes work when nothing else does. A crash changes none of that, and with free space the node
// recovers automatically.
func TestFullDisk(t *testing.T) {
	noLeaks(t)
	s := seed(t)
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	rng := rand.New(rand.NewPCG(s, 11))
	small := newSmallFS(vfs.NewCrashableMem(), int64(4+rng.IntN(4))<<20)
	f := &filler{t: t, rng: rng, want: make(map[string][]byte)}
	f.attach(open(t, smallConfig(small)))
	for round := range rounds {
		f.fill()
		small.set(func() { small.ceiling = 900 << 10 }) // compactions may free more, and may have done so already
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		until(ctx, t, "read-only", f.host.space.readOnly)
		cancel()
		f.check("full")
		f.refused()
		f.deletes(5)
		if st := stats(t, f.host); st.State != "ok" || !st.Disk.ReadOnly || st.Nodes[0].Status != "read-only" {
			t.Errorf("round %d: state %q, disk %+v, node %q; want a read-only node in state ok", round, st.State, st.Disk,
				st.Nodes[0].Status)
		}
		if rng.IntN(2) == 0 {
			clone := newSmallFS(crash(small.mem, rng, rng.IntN(101)), small.capacity)
			// Blocks of files that come back after a crash were not free yet, so others cannot have
			// taken them.
			clone.others, clone.ceiling = max(min(small.others, clone.capacity-clone.used), 0), small.ceiling
			closeHost(t, f.host)
			small = clone
			f.attach(open(t, smallConfig(small)))
			f.check("full, after a crash")
		}
		small.set(func() { small.capacity, small.others, small.ceiling = small.capacity+int64(2+rng.IntN(4))<<20, 0, 0 })
		f.writable()
	}
	f.check("in the end")
	closeHost(t, f.host)
	t.Logf("%d of %d puts acknowledged, disk of %d bytes", len(f.want), f.n, small.capacity)
}

// TestOthersFillTheDisk lets others take everything to the last byte, including released pieces of
// ballast. The node then cannot write, but it answers, it starts again after a crash, and recovers
// when there is space.
func TestOthersFillTheDisk(t *testing.T) {
	noLeaks(t)
	s := seed(t)
	rng := rand.New(rand.NewPCG(s, 12))
	small := newSmallFS(vfs.NewCrashableMem(), 16<<20)
	f := &filler{t: t, rng: rng, want: make(map[string][]byte)}
	f.attach(open(t, smallConfig(small)))
	for range 100 {
		must(t, f.put())
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	until(ctx, t, "the ballast", func() bool { return f.host.ballastMissing() == 0 })
	for range 20 {
		small.eat(0)
		f.try()
	}
	f.check("full")
	clone := newSmallFS(crash(small.mem, rng, 100), small.capacity)
	clone.eat(0)
	closeHost(t, f.host)
	f.attach(open(t, smallConfig(clone)))
	f.check("full, after a crash")
	// Space that the node freed when it was opened is taken by others as well.
	until(ctx, t, "the node to be read-only", func() bool {
		clone.eat(0)
		f.try()
		return f.host.space.readOnly()
	})
	clone.takenByOthers(0)
	f.writable()
	f.check("in the end")
	closeHost(t, f.host)
}

func (h *Host) ballastMissing() int64 {
	_, missing := h.writing()
	return missing
}

// writing reports whether the node is read-only, and how much of its ballast was missing then: a
// write that finds no space changes both.
func (h *Host) writing() (readOnly bool, missing int64) {
	h.space.mu.Lock()
	defer h.space.mu.Unlock()
	return h.space.readOnly(), h.space.ballast.missing()
}

// TestNoSpaceAtEveryOperation makes the k-th operation on the disk, or several from there on, find
// no space, although there is some a moment later. Callers do not notice.
func TestNoSpaceAtEveryOperation(t *testing.T) {
	noLeaks(t)
	s := seed(t)
	run := func(small *smallFS) int {
		f := &filler{t: t, rng: rand.New(rand.NewPCG(s, 13)), want: make(map[string][]byte)}
		f.attach(open(t, smallConfig(small)))
		for range 60 {
			for err := f.put(); err != nil; err = f.put() {
				if !errors.Is(err, engine.ErrReadOnly) {
					t.Fatalf("put: %v", err)
				}
				f.writable()
			}
		}
		f.check("while open")
		if err := f.host.Err(); err != nil {
			t.Fatalf("the node has failed: %v", err)
		}
		closeHost(t, f.host)
		f.attach(open(t, smallConfig(small)))
		f.check("after opening again")
		closeHost(t, f.host)
		return small.ops
	}
	ops := run(newSmallFS(vfs.NewCrashableMem(), 64<<20))
	step := 8
	switch {
	case testing.Short():
		step = 50
	case *longFlag:
		step = 1
	}
	tried := 0
	for k := 1 + int(s%uint64(step)); k <= ops; k += step {
		small := newSmallFS(vfs.NewCrashableMem(), 64<<20)
		small.silent = k%2 == 0
		small.denyFrom, small.denyTo = k, k+1+k%7*3
		run(small)
		if t.Failed() {
			t.Fatalf("with no space for operations %d to %d", k, small.denyTo-1)
		}
		tried++
	}
	t.Logf("%d operations, %d tried", ops, tried)
}

// TestWatermark checks when read-only mode begins and ends if others use the disk.
func TestWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		small := newSmallFS(vfs.NewCrashableMem(), 16<<20)
		var log lockedLog
		c := smallConfig(small)
		c.Logger, c.MinFreeBytes, c.DiskInterval = log.logger(), 512<<10, time.Second
		h := open(t, c)
		defer closeHost(t, h)
		settle := func() { <-time.After(2 * defaultDiskInterval) }
		<-time.After(10 * time.Second)
		if n := h.ballastMissing(); n != 0 {
			t.Fatalf("%d bytes of ballast are missing after 10 s", n)
		}
		for _, step := range []struct {
			leave    int64
			readOnly bool
		}{
			{600 << 10, false}, {520 << 10, false}, {500 << 10, true}, {600 << 10, true}, {760 << 10, true}, {800 << 10, false}, {100 << 10,
				true}, {8 << 20, false},
		} {
			small.takenByOthers(0)
			small.eat(step.leave)
			settle()
			if got := h.space.readOnly(); got != step.readOnly {
				t.Errorf("with %d bytes free: read-only %v, want %v", step.leave, got, step.readOnly)
			}
		}
		if enter, leave := log.count("disk: read-only"), log.count("disk: space is available again"); enter != 2 || leave != 2 {
			t.Errorf("%d lines for entering and %d for leaving read-only, want 2 and 2:\n%s", enter, leave, log.text())
		}
	})
}

// TestQuota checks that read-only mode does not end before space is really available, whatever the
// file system reports.
func TestQuota(t *testing.T) {
	noLeaks(t)
	s := seed(t)
	small := newSmallFS(vfs.NewCrashableMem(), 8<<20)
	small.quota = true
	f := &filler{t: t, rng: rand.New(rand.NewPCG(s, 14)), want: make(map[string][]byte)}
	f.attach(open(t, smallConfig(small)))
	f.fill()
	small.set(func() { small.ceiling = 1 }) // compactions may free some
	for range 200 {
		<-time.After(2 * time.Millisecond)
		// Space that a compaction freed earlier may have become ballast: then it was really
		// available.
		readOnly, n := f.host.writing()
		if readOnly {
			continue
		}
		if n > 0 {
			t.Errorf("the node left read-only though it cannot write: %d bytes of ballast are missing", n)
		}
		f.try()
	}
	f.check("over quota")
	small.set(func() { small.ceiling, small.others, small.capacity = 0, 0, 2*small.capacity })
	f.writable()
	f.check("in the end")
	closeHost(t, f.host)
}

// lockedLog collects the lines of a log.
type lockedLog struct {
	mu sync.Mutex // guards b
	b  strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *lockedLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lockedLog) count(message string) int { return strings.Count(l.text(), message) }
