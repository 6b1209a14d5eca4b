package shard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// spaceRig is the space of a node on a disk whose free space the test sets.
type spaceRig struct {
	*space
	t  *testing.T
	fs *allocating
}

const (
	testMinFree = 16 << 20
	testPiece   = 16 * ballastBlock
)

// newSpaceRig returns a space with a number of pieces of ballast, and as much free space as given.
func newSpaceRig(t *testing.T, free int64, pieces int) *spaceRig {
	t.Helper()
	fsys := &allocating{FS: vfs.NewMem(), free: free, takes: testPiece}
	must(t, fsys.MkdirAll("d", 0o700))
	for i := range pieces {
		must(t, writeFile(fsys.FS, (&ballast{fs: fsys, dir: "d"}).name(i), make([]byte, testPiece)))
	}
	s := newSpace(t.Context(), &Config{FS: fsys, Dir: "d", Logger: discard(), MinFreeBytes: testMinFree, DiskInterval: time.Millisecond})
	t.Cleanup(func() { s.close(); s.abandon() })
	if volume := s.open(ballastPieces * testPiece); volume != 1<<40 {
		t.Errorf("the volume has %d bytes", volume)
	}
	return &spaceRig{s, t, fsys}
}

func (r *spaceRig) expect(when string, level int32) {
	r.t.Helper()
	if got := r.level.Load(); got != level || r.readOnly() != (level != plenty) {
		r.t.Errorf("%s: level %d, want %d", when, got, level)
	}
}

// TestLevels: the level and the next mark for each amount of free space.
func TestLevels(t *testing.T) {
	for _, c := range []struct {
		free    int64
		pieces  int
		waiting bool
		first   int32 // level after a look at a disk with space before
		then    int32 // and of another one
		mark    int64
	}{
		{testMinFree, 0, false, plenty, plenty, testMinFree},
		{testMinFree - 1, 0, false, low, low, testMinFree / 16},
		{testMinFree / 16, 0, false, low, low, testMinFree / 16},
		{testMinFree/16 - 1, 0, false, low, exhausted, math.MinInt64},
		{testMinFree/16 - 1, keptPieces, false, low, exhausted, math.MinInt64},
		{testMinFree/16 - 1, keptPieces + 1, false, low, low, math.MinInt64},
		{testMinFree - 1, ballastPieces, true, low, exhausted, testMinFree / 16},
		{testMinFree, ballastPieces, true, plenty, plenty, testMinFree},
	} {
		r := newSpaceRig(t, 10*testMinFree, c.pieces)
		if r.fs.free = c.free; c.waiting {
			r.waiting.Store(1)
		}
		r.look()
		r.expect("at first", c.first)
		r.look()
		if r.expect("then", c.then); r.mark.Load() != c.mark || r.free.Load() != c.free {
			t.Errorf("%+v: mark %d, free %d", c, r.mark.Load(), r.free.Load())
		}
	}
	r := newSpaceRig(t, 10*testMinFree, 0)
	if r.asked = 0; r.minFree.Load() != testMinFree {
		t.Errorf("%d bytes are kept free", r.minFree.Load())
	}
	if r.look(); r.minFree.Load() != defaultMinFree {
		t.Errorf("by default %d bytes are kept free", r.minFree.Load())
	}
}

// TestWrote: the disk is checked once what was written may have reached the next mark.
func TestWrote(t *testing.T) {
	r := newSpaceRig(t, 2*testMinFree, 0)
	r.wrote(testMinFree)
	if got := r.free.Load(); got != testMinFree {
		t.Errorf("at the mark %d bytes are taken as free, want %d without a look", got, testMinFree)
	}
	r.wrote(1)
	if got := r.free.Load(); got != 2*testMinFree {
		t.Errorf("below the mark %d bytes are taken as free, want those of the disk", got)
	}
	r.fs.silent = true
	if r.look(); r.free.Load() != math.MaxInt64 || r.readOnly() {
		t.Errorf("of an unknown usage %d bytes are taken as free", r.free.Load())
	}
	if r.noticed(syscall.ENOSPC); r.free.Load() != 0 || r.errors.Load() != 1 {
		t.Errorf("after an error %d bytes are taken as free, with %d errors", r.free.Load(), r.errors.Load())
	}
	r.expect("after an error", low)
	r.tick()
	r.expect("at the first tick after it", low)
	r.waiting.Store(1)
	r.tick()
	r.expect("while the log waits", low)
	r.waiting.Store(0)
	r.tick()
	r.expect("at the next tick", plenty)
}

// TestTick: a tick completes the ballast and ends read-only mode if enough space remains.
func TestTick(t *testing.T) {
	const enough = testMinFree / 2 * 3
	for _, c := range []struct {
		free, missing int64 // pieces
		level         int32
		waiting       bool
		then          int32
		left          int64 // missing pieces
	}{
		{enough + 2*testPiece, 2, low, false, plenty, 0},
		{enough + 2*testPiece - 1, 2, low, false, low, 2},
		{enough, 0, low, false, plenty, 0},
		{enough - 1, 0, low, false, low, 0},
		{enough + 2*testPiece, 2, low, true, exhausted, 2},
		{enough + 2*testPiece, 2, plenty, false, plenty, 1}, // one at a time
		{enough + 2*testPiece - 1, 2, plenty, false, plenty, 2},
	} {
		r := newSpaceRig(t, c.free, int(ballastPieces-c.missing))
		if r.level.Store(c.level); c.waiting {
			r.waiting.Store(1)
		}
		r.tick()
		if r.level.Load() != c.then || r.ballast.missing() != c.left*testPiece || r.free.Load() > r.fs.free+testPiece {
			t.Errorf("%+v: level %d, %d bytes of ballast are missing", c, r.level.Load(), r.ballast.missing())
		}
	}
}

// TestRelease: a needed operation may take pieces of the ballast, but for the last two, which are
// for Open.
func TestRelease(t *testing.T) {
	for opened, most := range map[bool]int{true: ballastPieces - keptPieces, false: ballastPieces} {
		r := newSpaceRig(t, 10*testMinFree, ballastPieces)
		r.opened.Store(opened)
		if r.full(syscall.EMFILE) || r.ballast.missing() != 0 {
			t.Error("a missing descriptor has released ballast")
		}
		released := 0
		for r.full(syscall.ENOSPC) {
			released++
		}
		r.expect("without space", low)
		if released != most || r.ballast.missing() != int64(most)*testPiece || r.errors.Load() != int64(most)+2 {
			t.Errorf("opened=%t: %d pieces are released, want %d; %d errors", opened, released, most, r.errors.Load())
		}
	}
}

// TestApplicable: a command that shrinks is admitted if the data in memory can be flushed, or if it
// is the only one and there is room for it.
func TestApplicable(t *testing.T) {
	for _, c := range []struct {
		bytes            int64
		crowded, busy    bool
		waits            bool // a flush
		flushable, alone bool
	}{
		{testMinFree / 5 * 4, false, true, false, true, false},
		{testMinFree/5*4 + 4, false, true, false, false, false},
		{testMinFree/5*4 + 4, false, false, false, false, true},
		{testMinFree/5*4 + 4, true, false, false, false, false},
		{0, true, true, false, true, false},
		{0, false, true, true, false, false},
		{0, false, false, true, false, true},
		{0, true, false, true, false, false},
	} {
		r := newSpaceRig(t, testMinFree, 0)
		r.unflushed = func() (int64, bool) { return c.bytes, c.crowded }
		r.underWay = func() bool { return c.busy }
		if c.waits {
			r.flush.waiting.Store(1)
		}
		if got := r.applicable(); got != (c.flushable || c.alone) {
			t.Errorf("%+v: applicable %t", c, got)
		}
	}
	r := newSpaceRig(t, testMinFree, ballastPieces)
	r.opened.Store(true)
	if got := r.flushable(); got != testMinFree+ballastPieces/2*testPiece {
		t.Errorf("%d bytes can be flushed", got)
	}
	r.free.Store(-5)
	if got := r.flushable(); got != ballastPieces/2*testPiece {
		t.Errorf("without space %d bytes can be flushed", got)
	}
	r.free.Store(math.MaxInt64)
	if got := r.flushable(); got != math.MaxInt64 {
		t.Errorf("of an unknown usage %d bytes can be flushed", got)
	}
}

// TestAwaitSpace: waiting ends with its context, and is useless without patience.
func TestAwaitSpace(t *testing.T) {
	r := newSpaceRig(t, testMinFree, 0)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if !r.await(t.Context()) {
		t.Error("a moment later there is no retry")
	}
	if r.pause = time.Hour; r.await(gone) {
		t.Error("a wait whose context is done retries")
	}
	if r.since = time.Now().Add(-openPatience); r.worthWaiting() {
		t.Error("Open waits for longer than its patience")
	}
	if r.opened.Store(true); !r.worthWaiting() {
		t.Error("an open host does not wait")
	}
	if r.patient = false; r.await(t.Context()) {
		t.Error("a simulator waits")
	}
	calls := 0
	if err := r.retry(func() error {
		if calls++; calls < 3 {
			r.ballast.have[7], r.ballast.piece = true, testPiece // there is ballast to release
			must(t, writeFile(r.fs.FS, r.ballast.name(7), nil))
			return syscall.ENOSPC
		}
		if r.waiting.Load() != 1 {
			t.Error("a wait is not counted")
		}
		return nil
	}); err != nil || calls != 3 || r.waiting.Load() != 0 {
		t.Errorf("retry = %v after %d calls, %d still wait", err, calls, r.waiting.Load())
	}
	r.stopping = gone
	if err := r.retry(func() error { return syscall.ENOSPC }); err != errStopping {
		t.Errorf("retry of a host that stops: %v", err)
	}
	if err := r.retry(func() error { return syscall.EIO }); err != syscall.EIO {
		t.Errorf("retry of another error: %v", err)
	}
}

// TestTableGateAwaits: a table waits for its pauses, unless the host closes or opens the state.
func TestTableGateAwaits(t *testing.T) {
	r := newSpaceRig(t, testMinFree, 0)
	gate := &r.flush
	gate.pauses.Store(3)
	gate.longest.Store(10)
	if gate.await() || gate.pauses.Load() != 3 || gate.waiting.Load() != 0 {
		t.Error("a table waits while the state is opened")
	}
	r.database.Store(true)
	if !gate.await() || gate.pauses.Load() != 0 || gate.longest.Load() != 7 || gate.waiting.Load() != 0 {
		t.Errorf("after the wait: %d pauses, at most %d, %d wait", gate.pauses.Load(), gate.longest.Load(), gate.waiting.Load())
	}
	gate.min.Store(testMinFree + 1)
	if !gate.await() || gate.longest.Load() != 0 {
		t.Errorf("after the longest wait there are %d pauses more", gate.longest.Load())
	}
	gate.pauses.Store(1)
	if r.close(); gate.await() || gate.waiting.Load() != 0 {
		t.Error("a table is begun when the host has closed")
	}
}

// TestTableGateWrites: a table for a compaction takes at most half of the free space, and a flush
// takes ballast.
func TestTableGateWrites(t *testing.T) {
	for _, c := range []struct {
		spares  bool
		written int64
		err     error
		n       int
	}{
		{false, 1000, nil, 10}, {true, 500, nil, 10}, {true, 501, errReserved, 0}, {false, 501, nil, 10},
	} {
		r := newSpaceRig(t, testMinFree, 0)
		r.free.Store(510)
		r.mark.Store(math.MinInt64)
		gate := &r.flush
		if c.spares {
			gate = &r.compaction
		}
		gate.written.Store(c.written)
		n, err := gate.write(make([]byte, 10), func(p []byte) (int, error) { return len(p), nil })
		if n != c.n || err != c.err || gate.written.Load() != c.written+int64(c.n) || r.free.Load() != 510-int64(c.n) {
			t.Errorf("%+v: %d, %v; %d written, %d free", c, n, err, gate.written.Load(), r.free.Load())
		}
	}
	r := newSpaceRig(t, 10*testMinFree, ballastPieces)
	r.opened.Store(true)
	var tries []int
	n, err := r.flush.write(make([]byte, 10), func(p []byte) (int, error) {
		tries = append(tries, len(p))
		return 1, syscall.ENOSPC
	})
	if n != ballastPieces/2+1 || err != syscall.ENOSPC || fmt.Sprint(tries) != "[10 9 8 7 6]" ||
		r.ballast.missing() != ballastPieces/2*testPiece {
		t.Errorf("without space: %d, %v after tries of %v bytes; %d of ballast are missing", n, err, tries, r.ballast.missing())
	}
}

// TestGiveUp: an operation without space is a failure only where no waiting is possible.
func TestGiveUp(t *testing.T) {
	for _, c := range []struct {
		patient, opened, closing, table, database, park bool
		fails                                           bool
	}{
		{patient: true, opened: true}, {fails: true}, {closing: true}, {table: true}, {table: true, database: true, fails: true},
		{patient: true, opened: true, park: false, table: true, database: true},
	} {
		r := newSpaceRig(t, testMinFree, 0)
		if r.patient = c.patient; c.closing {
			r.close()
		}
		r.opened.Store(c.opened)
		r.database.Store(c.database)
		var failed error
		w := &watchedFS{FS: r.fs, space: r.space, failed: func(err error) { failed = err }, park: c.park}
		if err := w.giveUp("write", "file", c.table, syscall.ENOSPC); err != syscall.ENOSPC || (failed != nil) != c.fails {
			t.Errorf("%+v: %v, the host has failed with %v", c, err, failed)
		}
	}
	var failed error
	w := &watchedFS{failed: func(err error) { failed = err }}
	for err, fails := range map[error]bool{nil: false, fs.ErrNotExist: false, fs.ErrExist: false, syscall.EIO: true,
		&fs.PathError{Op: "x", Path: "y", Err: fs.ErrNotExist}: false, &fs.PathError{Op: "x", Path: "y", Err: syscall.EIO}: true} {
		failed = nil
		if got := w.check("write", "file", err); got != err || (failed != nil) != fails || fails && !errors.Is(failed, err) {
			t.Errorf("%v: %v, the host has failed with %v", err, got, failed)
		}
		if err == syscall.EIO && failed.Error() != "write file: input/output error" {
			t.Errorf("an error without a name becomes %v", failed)
		}
	}
}
