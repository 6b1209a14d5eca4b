package shard

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/raftlog"
	"github.com/floedb/floe/internal/test/toy"
	"github.com/floedb/floe/kv"
)

// readFaults is a file system in which one reading operation fails.
type readFaults struct {
	vfs.FS
	stats bool   // a Stat by name counts
	until string // no operation fails from the third opening of the file with this name

	mu     sync.Mutex // guards all below
	left   int        // operations until then
	opened int
	hit    bool
}

var errUnreadable = &fs.PathError{Op: "read", Path: "disk", Err: syscall.EIO}

func (f *readFaults) fails() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.opened == 3 {
		return false
	}
	f.left--
	f.hit = f.hit || f.left == 0
	return f.left == 0
}

func (f *readFaults) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if f.mu.Lock(); f.PathBase(name) == f.until && f.opened < 3 {
		f.opened++
	}
	f.mu.Unlock()
	if f.fails() {
		return nil, errUnreadable
	}
	file, err := f.FS.Open(name, opts...)
	if err != nil {
		return nil, err
	}
	return &faultyReads{file, f}, nil
}

func (f *readFaults) OpenDir(name string) (vfs.File, error) {
	if f.fails() {
		return nil, errUnreadable
	}
	return f.FS.OpenDir(name)
}

func (f *readFaults) List(dir string) ([]string, error) {
	if f.fails() {
		return nil, errUnreadable
	}
	return f.FS.List(dir)
}

func (f *readFaults) Stat(name string) (vfs.FileInfo, error) {
	if f.stats && f.fails() {
		return nil, errUnreadable
	}
	return f.FS.Stat(name)
}

type faultyReads struct {
	vfs.File
	fs *readFaults
}

func (f *faultyReads) Read(p []byte) (int, error) {
	if f.fs.fails() {
		return 0, errUnreadable
	}
	return f.File.Read(p)
}

func (f *faultyReads) ReadAt(p []byte, off int64) (int, error) {
	if f.fs.fails() {
		return 0, errUnreadable
	}
	return f.File.ReadAt(p, off)
}

func (f *faultyReads) Stat() (vfs.FileInfo, error) {
	if f.fs.fails() {
		return nil, errUnreadable
	}
	return f.File.Stat()
}

// TestVerifyCanNotRead: if a read fails, Verify returns the error or reports a problem, also with a
// damaged log, when it checks the rows on disk. Exempt is the log's mark, a hint. The third opening
// of FORMAT begins the replay, where Pebble also reads in the background.
func TestVerifyCanNotRead(t *testing.T) {
	fsys, _ := crashedPuts(t)
	whole := take(t, fsys)
	for _, damaged := range []bool{false, true} {
		image := whole
		if damaged {
			image = make(map[string][]byte)
			for name, b := range whole {
				image[name] = b
			}
			segment := whole.names(".ual")[0]
			cut := append([]byte(nil), whole[segment]...)
			cut[len(cut)/2] ^= 0x10
			image[segment] = cut
		}
		mem := image.put(t)
		sound := verify(t, mem).Problems
		if len(sound) > 0 != damaged {
			t.Fatalf("without a fault: %q", sound)
		}
		var unnoticed []int
		n := 1
		for ; ; n++ {
			faults := &readFaults{FS: mem, left: n, until: "FORMAT"}
			r, err := Verify(t.Context(), VerifyConfig{Dir: "node", FS: faults, Primitives: []engine.Primitive{engine.TableOf[kv.Store]()}})
			if !faults.hit {
				break
			}
			if err == nil && slices.Equal(r.Problems, sound) {
				unnoticed = append(unnoticed, n)
			}
			if err != nil && !strings.Contains(err.Error(), syscall.EIO.Error()) {
				t.Errorf("damaged=%t: operation %d: %v", damaged, n, err)
			}
		}
		if len(unnoticed) > 1 || n < 20 {
			t.Errorf("damaged=%t: of %d failed operations %v are not reported, want at most one", damaged, n-1, unnoticed)
		}
	}
}

// TestFormatFile: each file operation on FORMAT, and on the directories above it, reports its
// failure.
func TestFormatFile(t *testing.T) {
	want := format{Version: FormatVersion, Shards: 2, NodeID: 1, Voters: []uint64{1}}
	n := 1
	for ; ; n++ {
		faults := &readFaults{FS: vfs.NewMem(), left: n, stats: true}
		err := makeDir(faults, "a/b/node")
		if err == nil {
			err = writeFormat(faults, "a/b/node", want)
		}
		var got *format
		if err == nil {
			got, err = readFormat(faults, "a/b/node")
		}
		if !faults.hit {
			must(t, err)
			if got.Shards != 2 {
				t.Errorf("FORMAT is read as %+v", got)
			}
			break
		}
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("operation %d has failed: %v, %+v", n, err, got)
		}
	}
	if n < 8 {
		t.Errorf("%d operations read", n)
	}
	fsys := vfs.NewMem()
	must(t, writeFile(fsys, "file", []byte("x")))
	for dir, is := range map[string]error{"file": engine.ErrInvalid, "file/node": nil} {
		if _, err := lockDir(fsys, dir); err == nil || is != nil && !errors.Is(err, is) {
			t.Errorf("a directory at %s: %v", dir, err)
		}
	}
	must(t, makeDir(fsys, "d"))
	must(t, makeDir(fsys, "d"))
	if f, err := readFormat(fsys, "d"); f != nil || err != nil {
		t.Errorf("FORMAT of an empty directory: %v, %v", f, err)
	}
}

// TestTalliesOfOtherShards: counts of shards that do not exist are ignored.
func TestTalliesOfOtherShards(t *testing.T) {
	noLeaks(t)
	fsys := vfs.NewMem()
	h := open(t, config(fsys))
	must(t, h.Query(t.Context(), 0, &toy.Counter{Namespace: homed(0), Name: "a"}))
	h.AddTraffic(5, 7)
	closeHost(t, h)
	b, err := readFile(fsys, "node/"+talliesName)
	must(t, err)
	kept, err := decodeTallies(b)
	must(t, err)
	if len(kept.shards) != 2 || kept.totals.calls == 0 || kept.totals.received != 5 || kept.totals.sent != 7 {
		t.Fatalf("the counts are %+v", kept)
	}
	for _, other := range []engine.ShardID{2, 3, 255} {
		kept.shards = append(kept.shards, shardTallies{other, []engine.Tally{{Machine: engine.MachineTest, Of: 1, N: 1}}})
	}
	must(t, writeFile(fsys, "node/"+talliesName, withSum(codec.Encode(nil, &kept, (*tallies).code))))
	h = open(t, config(fsys))
	if st := stats(t, h); h.earlier != kept.totals.calls || st.Port.BytesReceived != 5 || st.Port.BytesSent != 7 ||
		h.tallied != kept.totals.sum() {
		t.Errorf("it resumes with %d calls, %+v, %d in all; want those of %+v", h.earlier, st.Port, h.tallied, kept)
	}
	closeHost(t, h)
	c := VerifyConfig{Dir: "node", FS: fsys, Primitives: config(fsys).Primitives}
	if r, err := Verify(t.Context(), c); err != nil || len(r.Problems) > 0 {
		t.Errorf("Verify reports %q, %v", r.Problems, err)
	}
	must(t, writeFile(fsys, "node/"+talliesName, []byte("damaged")))
	if r, err := Verify(t.Context(), c); err != nil || len(r.Problems) != 1 ||
		!strings.Contains(r.Problems[0], "node/COUNTS: wrong checksum") {
		t.Errorf("of damaged counts Verify reports %q, %v", r.Problems, err)
	}
	h = open(t, config(fsys))
	if h.earlier != 0 {
		t.Errorf("with damaged counts it resumes with %d", h.earlier)
	}
	closeHost(t, h)
}

// countedFS counts the files created under a name.
type countedFS struct {
	vfs.FS
	name string
	n    int
}

func (f *countedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if f.PathBase(name) == f.name {
		f.n++
	}
	return f.FS.Create(name, c)
}

// TestFormatIsRewritten: FORMAT is written when a directory is created, converted, or opened by
// another build.
func TestFormatIsRewritten(t *testing.T) {
	noLeaks(t)
	fsys := &countedFS{FS: vfs.NewMem(), name: "FORMAT.tmp"}
	for i, c := range []struct {
		build            string
		version          int // before; 0: as it is
		writes           int
		created, written string
	}{
		{"", 0, 1, "", ""}, {"", 0, 0, "", ""}, {"b1", 0, 1, "", "b1"}, {"b1", 0, 0, "", "b1"}, {"b2", 0, 1, "", "b2"},
		{"", 0, 0, "", "b2"},
		{"b2", oldestFormat, 1, "", "b2"}, {"b2", 0, 0, "", "b2"},
	} {
		if c.version != 0 {
			f, err := readFormat(fsys, "node")
			must(t, err)
			f.Version = c.version
			must(t, writeFormat(fsys.FS, "node", *f))
		}
		cfg := config(fsys)
		fsys.n, cfg.Build = 0, c.build
		closeHost(t, open(t, cfg))
		f, err := readFormat(fsys, "node")
		must(t, err)
		if fsys.n != c.writes || f.Version != FormatVersion || f.Created != c.created || f.Written != c.written {
			t.Errorf("step %d: %d writes, %+v; want %+v", i, fsys.n, f, c)
		}
	}
	cfg := config(vfs.NewMem())
	cfg.Build = "b1"
	closeHost(t, open(t, cfg))
	if f, err := readFormat(cfg.FS, "node"); err != nil || f.Created != "b1" || f.Written != "b1" {
		t.Errorf("created by a build: %+v, %v", f, err)
	}
}

// TestYield: delayed removals are executed when there is no other space, once.
func TestYield(t *testing.T) {
	w := &watchedFS{FS: vfs.NewMem()}
	if w.yield() {
		t.Error("there are no removals to delay")
	}
	w.held = new(heldRemovals)
	if w.yield() || w.held.released {
		t.Error("no removal is delayed")
	}
	must(t, writeFile(w.FS, "old", nil))
	w.held.create("new")
	if w.held.hold("new") || !w.held.hold("old") {
		t.Error("files that existed before are held, others are not")
	}
	if !w.yield() || len(list(t, w.FS, "/")) != 0 || w.yield() || w.held.hold("old") {
		t.Errorf("files %v are left", list(t, w.FS, "/"))
	}
}

// TestMarkersFollowTheirDirectory: a marker is created after its directory was synced, or not at
// all. Other files are created at once.
func TestMarkersFollowTheirDirectory(t *testing.T) {
	r := newSpaceRig(t, testMinFree, 0)
	for name, c := range map[string]struct {
		fs   func(fsys vfs.FS) vfs.FS
		file string
		ok   bool
	}{
		"directory unreadable": {func(fsys vfs.FS) vfs.FS { return &readFaults{FS: fsys, left: 1} }, "marker.1", false},
		"sync fails":           {func(fsys vfs.FS) vfs.FS { return &failingFS{FS: fsys, err: syscall.EIO} }, "marker.1", false},
		"all is well":          {func(fsys vfs.FS) vfs.FS { return fsys }, "marker.1", true},
		"no marker":            {func(fsys vfs.FS) vfs.FS { return &readFaults{FS: fsys, left: 1} }, "other", true},
	} {
		mem, failed := vfs.NewMem(), error(nil)
		must(t, mem.MkdirAll("d", 0o700))
		w := &watchedFS{FS: c.fs(mem), space: r.space, slow: newSlowness(&Config{Logger: discard(), SlowDisk: time.Hour}, nil),
			failed: func(err error) { failed = err }, stopped: func() bool { return false }}
		f, err := w.Create("d/"+c.file, vfs.WriteCategoryUnspecified)
		if (err == nil) != c.ok || (failed == nil) != c.ok || (f != nil) != c.ok || len(list(t, mem, "d")) != int(b2i(c.ok)) {
			t.Errorf("%s: %v, the host has failed with %v; files %v", name, err, failed, list(t, mem, "d"))
		}
		if f != nil {
			must(t, f.Close())
		}
	}
}

// TestWatchedReads: a failed read of the state fails the host; the end of a file does not.
func TestWatchedReads(t *testing.T) {
	mem := vfs.NewMem()
	must(t, writeFile(mem, "f", []byte("abc")))
	for _, left := range []int{0, 2, 3} { // the opening is the first operation
		var failed error
		w := &watchedFS{FS: &readFaults{FS: mem, left: left}, park: true, failed: func(err error) { failed = err }}
		f, err := w.Open("f")
		must(t, err)
		b := make([]byte, 5)
		n, first := f.Read(b)
		m, second := f.ReadAt(b, 1)
		if (left == 2) != errors.Is(first, syscall.EIO) || (left == 3) != errors.Is(second, syscall.EIO) ||
			left == 0 && (n != 3 || m != 2) || (failed != nil) != (left > 0) || left > 0 && !strings.HasPrefix(failed.Error(), "read f: ") {
			t.Errorf("fault %d: %d, %v and %d, %v; the host has failed with %v", left, n, first, m, second, failed)
		}
		must(t, f.Close())
	}
}

// TestReserve: an Async node reserves LSNs before it has used up half of those that it reserved.
func TestReserve(t *testing.T) {
	noLeaks(t)
	for _, durability := range []Durability{Sync, Async} {
		c := config(vfs.NewMem())
		c.Shards, c.Durability = 1, durability
		s := openStepped(t, c)
		l := &s.host.shards[0].loop
		for _, c := range []struct {
			visible, skipTo, reserved, then uint64
		}{
			{100, 0, 100 + reserveAhead/2 + 1, 0}, {100, 0, 100 + reserveAhead/2, 100 + reserveAhead}, {100, 0, 0, 100 + reserveAhead},
			{100, 200, 200 + reserveAhead/2 + 1, 0}, {100, 200, 200 + reserveAhead/2, 200 + reserveAhead},
		} {
			for _, writes := range []bool{true, false} {
				want := c.then
				if durability == Sync || !writes {
					want = 0
				}
				var u raftlog.Update
				a := queuedAppend{}
				if writes {
					a.update = &u
				}
				l.shard.progress.visibleLSN.Store(c.visible)
				l.core.skipTo, l.reserved = engine.LSN(c.skipTo), c.reserved
				l.reserve(&u, &a)
				if u.Reserve != want || a.mustSync != (want > 0) || l.reserved != max(want, c.reserved) {
					t.Errorf("%v, writes=%t, %+v: %d are reserved, at once %t", durability, writes, c, u.Reserve, a.mustSync)
				}
			}
		}
		l.core.skipTo = 0
		must(t, s.Crash())
	}
}
