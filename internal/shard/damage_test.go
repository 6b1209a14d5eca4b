package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/toy"
)

// badReads fails one read of a table.
type badReads struct {
	vfs.FS
	after *atomic.Int64 // number of good reads before the bad one; negative: none is bad
	met   *atomic.Bool
}

func newBadReads(fsys vfs.FS) badReads {
	f := badReads{fsys, new(atomic.Int64), new(atomic.Bool)}
	f.after.Store(-1)
	return f
}

func (f badReads) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(name, opts...)
	if err != nil || !strings.HasSuffix(name, ".sst") {
		return file, err
	}
	return badTable{file, f}, nil
}

type badTable struct {
	vfs.File
	fs badReads
}

func (f badTable) ReadAt(p []byte, off int64) (int, error) {
	if f.fs.after.Add(-1) == -1 {
		f.fs.met.Store(true)
		return 0, syscall.EIO
	}
	return f.File.ReadAt(p, off)
}

// TestFailedReadLosesNoRows: a snapshot replaces the rows of one shard. If Pebble could not read a
// block meanwhile, it used to take it for the end of the table. The rows of the other shard follow
// in that table.
func TestFailedReadLosesNoRows(t *testing.T) {
	ctx := context.Background()
	fsys := vfs.NewCrashableMem()
	c := config(fsys)
	h := open(t, c)
	for i := range 400 {
		for shard := range engine.ShardID(2) {
			cmd := toy.Command{Kind: toy.Add, Name: fmt.Sprintf("%d-%s", i, strings.Repeat("x", 500)), Delta: 1}.In(homed(shard))
			if _, err := h.Propose(ctx, shard, cmd); err != nil {
				t.Fatal(err)
			}
		}
	}
	closeHost(t, h)
	want := rowsOf(t, fsys, 1)
	failed := 0
	for n := int64(0); ; n++ {
		disk := newBadReads(crash(fsys, nil, 0))
		c := config(disk)
		c.CacheBytes = 1 // every read reaches the disk
		h := open(t, c)
		disk.after.Store(n)
		lower, upper := engine.Bounds(0)
		// It may succeed: Pebble also reads tables for its statistics.
		_ = h.unlessFailed(func() error { return h.db.Excise(ctx, pebble.KeyRange{Start: lower, End: upper}) })
		if !disk.met.Load() {
			disk.after.Store(-1)
			closeHost(t, h)
			break
		}
		failed++
		select {
		case <-h.failed:
		case <-time.After(5 * time.Second):
			t.Errorf("read %d has failed, and the node goes on", n)
		}
		_ = h.Close()
		if got := rowsOf(t, crash(disk.FS.(*vfs.MemFS), nil, 0), 1); got != want {
			t.Errorf("read %d has failed: the other shard has %d rows, want %d", n, got, want)
		}
	}
	if failed < 2 {
		t.Errorf("%d reads have failed, want some of the excision", failed)
	}
}

// rowsOf counts the rows of a shard in the state of a closed node.
func rowsOf(t *testing.T, fsys vfs.FS, shard engine.ShardID) (n int) {
	t.Helper()
	opts := Config{}.StateOptions()
	opts.FS, opts.ReadOnly = fsys, true
	opts.Logger = pebbleLogger{log: slog.New(slog.DiscardHandler), failed: func(err error) { t.Error(err) }}
	db, err := pebble.Open("node/state", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	lower, upper := engine.Bounds(shard)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		t.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDamagedManifestCostsNoTables: if the end of its manifest is cut off, Pebble considers tables
// obsolete. It used to remove them before the state was checked against the log.
func TestDamagedManifestCostsNoTables(t *testing.T) {
	ctx := context.Background()
	fsys := vfs.NewCrashableMem()
	c := config(fsys)
	c.SegmentBytes = 4 << 10
	h := open(t, c)
	for i := range 40 {
		if _, err := h.Propose(ctx, 0, toy.Command{Kind: toy.Add, Name: fmt.Sprint(i % 5), Delta: 1}.In(homed(0))); err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 {
			if err := h.db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	closeHost(t, h)
	var manifest string
	for _, name := range list(t, fsys, "node/state") {
		if strings.HasPrefix(name, "MANIFEST-") {
			manifest = "node/state/" + name
		}
	}
	info, err := fsys.Stat(manifest)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for size := info.Size() - 1; size >= 0; size -= 1 + info.Size()/60 {
		disk := crash(fsys, nil, 0)
		cut(t, disk, manifest, size)
		before := tablesOf(t, disk)
		h, err := Open(config(disk))
		if err == nil {
			closeHost(t, h)
			continue
		}
		refused++
		if after := tablesOf(t, disk); !slices.Equal(before, after) {
			t.Fatalf("with %d bytes of its manifest Open says %v, and leaves the tables %v of %v", size, err, after, before)
		}
	}
	if refused == 0 {
		t.Error("the node opens with whatever is left of its manifest")
	}
}

// TestRefusedNodeKeepsItsLog: a log has lost its end, and the state of some shards may be ahead of
// it. These shards used to continue in a new segment, before a later shard was refused for the same
// end.
func TestRefusedNodeKeepsItsLog(t *testing.T) {
	ctx := context.Background()
	fsys := vfs.NewCrashableMem()
	h := open(t, config(fsys))
	for i := range 10 {
		for shard := range engine.ShardID(2) {
			if _, err := h.Propose(ctx, shard, toy.Command{Kind: toy.Add, Name: fmt.Sprint(i), Delta: 1}.In(homed(shard))); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The first shard is in the middle of installing a snapshot, the other one is not.
	if err := h.shards[0].announceInstall(h.shards[0].exec.Applied().Index); err != nil {
		t.Fatal(err)
	}
	h.fail(errors.New("killed"))
	_ = h.Close()
	const segment = "node/log/00000001.ual"
	refused, whole := 0, string(contentOf(t, fsys, segment))
	for size := h.ual.Size() - 1; size > 0; size -= 67 {
		disk := crash(fsys, nil, 0)
		cut(t, disk, segment, size)
		h, err := Open(config(disk))
		if err == nil {
			closeHost(t, h)
			continue
		}
		if strings.Contains(err.Error(), "shard 1: the log in node/log ends") {
			refused++
		}
		if logs := list(t, disk, "node/log"); !slices.Equal(logs, []string{"00000001.ual"}) ||
			string(contentOf(t, disk, segment)) != whole[:size] {
			t.Fatalf("with %d bytes of its log Open says %v, and leaves %q", size, err, logs)
		}
	}
	if refused == 0 {
		t.Error("no cut makes the log end before the state of the second shard")
	}
}

func contentOf(t *testing.T, fsys vfs.FS, name string) []byte {
	t.Helper()
	file, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	content, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func list(t *testing.T, fsys vfs.FS, dir string) []string {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func tablesOf(t *testing.T, fsys vfs.FS) []string {
	t.Helper()
	return slices.DeleteFunc(list(t, fsys, "node/state"), func(name string) bool { return !strings.HasSuffix(name, ".sst") })
}

// cut makes a file end after size bytes.
func cut(t *testing.T, fsys vfs.FS, name string, size int64) {
	t.Helper()
	err := func() error {
		from, err := fsys.Open(name)
		if err != nil {
			return err
		}
		defer from.Close()
		data := make([]byte, size)
		if _, err := from.ReadAt(data, 0); err != nil {
			return err
		}
		to, err := fsys.Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		defer to.Close()
		if _, err := to.Write(data); err != nil {
			return err
		}
		return to.Sync()
	}()
	if err != nil {
		t.Fatal(err)
	}
}

// orderFS records the order in which files are created and directories synced.
type orderFS struct {
	vfs.FS
	mu  sync.Mutex // guards ops
	ops []string
}

func (f *orderFS) note(op, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ops = append(f.ops, op+" "+f.PathBase(name))
}

func (f *orderFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f.note("create", name)
	return f.FS.Create(name, c)
}

func (f *orderFS) OpenDir(name string) (vfs.File, error) {
	dir, err := f.FS.OpenDir(name)
	return orderDir{dir, name, f}, err
}

type orderDir struct {
	vfs.File
	name string
	fs   *orderFS
}

func (d orderDir) Sync() error {
	d.fs.note("sync", d.name)
	return d.File.Sync()
}

// TestMarkerFollowsItsManifest: a power failure may keep a name and lose an older one of the same
// directory, unless that has been synced. The marker names the manifest that Pebble reads.
func TestMarkerFollowsItsManifest(t *testing.T) {
	fsys := &orderFS{FS: vfs.NewMem()}
	for range 3 {
		closeHost(t, open(t, config(fsys)))
	}
	markers := 0
	for i, op := range fsys.ops { // no operation is added any more
		_, manifest, isMarker := strings.Cut(op, "create marker.manifest.")
		if !isMarker {
			continue
		}
		markers++
		_, manifest, _ = strings.Cut(manifest, ".")
		created := slices.Index(fsys.ops[:i], "create "+manifest)
		if created < 0 || !slices.Contains(fsys.ops[created:i], "sync state") {
			t.Errorf("%q is the operation %d; %s is created by %d and not synced between: %q", op, i, manifest, created,
				fsys.ops[max(created, 0):i])
		}
	}
	if markers < 3 {
		t.Errorf("%d manifests have been marked, want one at least each time the node opens: %q", markers, fsys.ops)
	}
}
