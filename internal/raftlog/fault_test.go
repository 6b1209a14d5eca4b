package raftlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// shortWriteFS writes half of what it is given when its injector says so, and reports what the
// injector returned.
type shortWriteFS struct {
	vfs.FS
	inject func() error
}

func (s shortWriteFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	return shortWriteFile{f, s.inject}, nil
}

func (s shortWriteFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.ReuseForWrite(from, to, c)
	if err != nil {
		return nil, err
	}
	return shortWriteFile{f, s.inject}, nil
}

type shortWriteFile struct {
	vfs.File
	inject func() error
}

func (s shortWriteFile) WriteAt(p []byte, off int64) (int, error) {
	err := s.inject()
	if err == nil {
		return s.File.WriteAt(p, off)
	}
	n, writeErr := s.File.WriteAt(p[:len(p)/2], off)
	if errors.Is(err, errShort) {
		err = nil // As some file systems do on a full disk: fewer bytes, no error.
	}
	return n, errors.Join(err, writeErr)
}

var errShort = errors.New("short write")

func isSync(op errorfs.Op) bool {
	return op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData
}

// TestFaultAtEveryIOPoint fails the k-th operation of a random workload, for every k, and goes on:
// the log stays right, or stays broken when it was a sync, and a crash right after the fault, or
// any time later, loses nothing that was synced.
func TestFaultAtEveryIOPoint(t *testing.T) {
	seed := rand.Uint64()
	for k := 0; ; k++ {
		what := fmt.Sprintf("seed %d: fault at operation %d", seed, k)
		if !faultAt(t, what, seed, k) {
			if k < 40 {
				t.Errorf("%s: workload has only %d operations, want at least 40", what, k)
			}
			return
		}
	}
}

func faultAt(t *testing.T, what string, seed uint64, k int) (faulted bool) {
	mem := vfs.NewCrashableMem()
	n, counting, syncFailed := 0, false, false
	fs := beforeWrites(mem, func(op errorfs.Op) error {
		if !counting {
			return nil
		}
		n++
		if n-1 != k {
			return nil
		}
		faulted, syncFailed = true, isSync(op) && !strings.HasSuffix(op.Path, spareSuffix)
		return errorfs.ErrInjected
	})
	l := mustOpen(t, small(fs))
	counting = true
	d := newDriver(seed, l, 3)
	for range 40 {
		if err := d.step(); err != nil {
			if !errors.Is(err, errorfs.ErrInjected) {
				t.Fatalf("%s: %v", what, err)
			}
			d.afterFault(t, what, mem)
			if syncFailed {
				checkBroken(t, what, l)
				return true
			}
		}
	}
	err := l.Close()
	if syncFailed {
		return true
	}
	if err != nil && !errors.Is(err, errorfs.ErrInjected) {
		t.Fatalf("%s: Close: %v", what, err)
	}
	if err == nil {
		d.synced = len(d.history)
	}
	l, _ = d.checkSurvivor(t, what, small(mem))
	must(t, "Close", l.Close())
	return faulted
}

// afterFault checks that the failed call is not visible, or wholly if only the cleaning up after it
// has failed, and what a crash would leave.
func (d *driver) afterFault(t *testing.T, what string, mem *vfs.MemFS) {
	t.Helper()
	got, err := read(d.log)
	must(t, what, err)
	var effects []effect
	if n := len(d.maybe); n > 0 {
		effects = d.maybe[n-1]
	}
	failed := d.now.apply(effects...)
	switch got.String() {
	case d.now.String():
	case failed.String():
		d.history = append(d.history, effects...)
		d.now, d.maybe = failed, nil
	default:
		t.Fatalf("%s: got\n%swant\n%sor\n%s", what, got, d.now, failed)
	}
	for _, percent := range []int{0, 50, 100} {
		what := fmt.Sprintf("%s, crash with %d %% unsynced", what, percent)
		l, _ := d.checkSurvivor(t, what, small(crashClone(mem, percent, uint64(percent))))
		must(t, "Close", l.Close())
	}
}

func checkBroken(t *testing.T, what string, l *Log) {
	t.Helper()
	first := l.Sync()
	if !errors.Is(first, errorfs.ErrInjected) {
		t.Fatalf("%s: Sync = %v, want the injected error", what, first)
	}
	for call, err := range map[string]error{
		"Write":    l.Write([]Update{{Shard: 1, Reserve: 1 << 40}}),
		"Truncate": l.Truncate(map[uint16]uint64{1: 1000}),
		"Close":    l.Close(),
	} {
		if err != first {
			t.Errorf("%s: %s = %v, want %v", what, call, err, first)
		}
	}
	must(t, "second Close", l.Close())
}

// TestShortWrites cuts random writes in half, with and without an error from the file system, and
// crashes after each.
func TestShortWrites(t *testing.T) {
	for range 10 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 4))
		mem := vfs.NewCrashableMem()
		healthy := false
		inject := func() error {
			if healthy {
				return nil
			}
			switch rng.IntN(8) {
			case 0:
				return errShort
			case 1:
				return syscall.ENOSPC
			}
			return nil
		}
		l := mustOpen(t, small(shortWriteFS{mem, inject}))
		d := newDriver(seed, l, 3)
		for i := range 60 {
			if err := d.step(); err != nil {
				d.afterFault(t, fmt.Sprintf("seed %d: step %d: %v", seed, i, err), mem)
			}
			checkState(t, fmt.Sprintf("seed %d: step %d", seed, i), l, d.now)
		}
		healthy = true
		must(t, "Close", l.Close())
		d.synced, d.maybe = len(d.history), nil // Close has cut off what failed writes have left.
		l, _ = d.checkSurvivor(t, fmt.Sprintf("seed %d: end", seed), small(mem))
		must(t, "Close", l.Close())
	}
}

// TestDiskFull: while the disk is full every Write fails and reads go on; with space again the log
// does too.
func TestDiskFull(t *testing.T) {
	mem := vfs.NewMem()
	full := false
	l := mustOpen(t, small(beforeWrites(mem, func(op errorfs.Op) error {
		if full && !isSync(op) {
			return syscall.ENOSPC
		}
		return nil
	})))
	us := []Update{{Shard: 1, HardState: hard(1, 1, 0), Entries: entries(1, 10, 1)}}
	must(t, "Write", l.Write(us))
	want := state{}.apply(effectsOf(us)...)
	full = true
	for range 3 {
		if err := l.Write([]Update{{Shard: 1, Entries: entries(8, 20, 2)}}); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("Write on a full disk = %v, want %v", err, syscall.ENOSPC)
		}
		checkState(t, "on a full disk", l, want)
		must(t, "Sync", l.Sync())
	}
	full = false
	us = []Update{{Shard: 1, Entries: entries(11, 12, 1)}}
	must(t, "Write", l.Write(us))
	want = want.apply(effectsOf(us)...)
	checkState(t, "with space again", l, want)
	l = reopen(t, l, small(mem))
	checkState(t, "after reopen", l, want.settled())
}

// TestFailedWriteIsCutOff: records of a failed write reached the file whole. They must not come
// back once the log went on.
func TestFailedWriteIsCutOff(t *testing.T) {
	mem := vfs.NewMem()
	fail := false
	l := mustOpen(t, small(failAfterWrite{mem, &fail}))
	must(t, "Write", l.Write([]Update{{Shard: 1, Entries: entries(1, 3, 1)}}))
	fail = true
	if err := l.Write([]Update{{Shard: 1, Entries: entries(2, 5, 2)}, {Shard: 2, Reserve: 7}}); err == nil {
		t.Fatal("Write = nil, want an error")
	}
	fail = false
	must(t, "Close", l.Close())
	l = mustOpen(t, small(mem))
	checkState(t, "after reopen", l, state{}.apply(effectsOf([]Update{{Shard: 1, Entries: entries(1, 3, 1)}})...).settled())
}

type failAfterWrite struct {
	vfs.FS
	fail *bool
}

func (f failAfterWrite) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	return failAfterWriteFile{file, f.fail}, err
}

type failAfterWriteFile struct {
	vfs.File
	fail *bool
}

func (f failAfterWriteFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	if *f.fail {
		return n, syscall.EIO
	}
	return n, err
}

// TestErrorsWhileOpening fails each operation of Open in turn: it returns the error, and the next
// Open finds everything.
func TestErrorsWhileOpening(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, small(mem))
	us := []Update{{Shard: 1, HardState: hard(1, 1, 0), Entries: entries(1, 40, 1)}}
	must(t, "Write", l.Write(us))
	us = append(us, Update{Shard: 1, Entries: entries(41, 50, 1)})
	must(t, "Write", l.Write(us[1:]))
	must(t, "Close", l.Close())
	want := state{}.apply(effectsOf(us)...).settled()
	for k := 0; ; k++ {
		n, opening := 0, true
		fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			n++
			if opening && n-1 == k && op.Kind != errorfs.OpStat {
				return errorfs.ErrInjected
			}
			return nil
		}))
		l, err := Open(small(fs))
		opening = false
		if n <= k {
			must(t, "Open", err)
			checkState(t, "after Open", l, want)
			if k < 10 {
				t.Errorf("Open did %d operations, want at least 10", k)
			}
			return
		}
		if err == nil {
			checkState(t, fmt.Sprintf("operation %d", k), l, want)
		} else if !errors.Is(err, errorfs.ErrInjected) || !strings.HasPrefix(err.Error(), "ual: ") {
			t.Errorf("operation %d: Open = %v, want ual: ... injected error", k, err)
		}
	}
}

// TestReadErrors: an error of the disk while an entry is read back is reported, and is no
// corruption.
func TestReadErrors(t *testing.T) {
	for _, failing := range []errorfs.OpKind{errorfs.OpOpen, errorfs.OpFileReadAt} {
		fail := false
		fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if fail && op.Kind == failing {
				return errorfs.ErrInjected
			}
			return nil
		}))
		o := small(fs)
		o.CacheBytes = -1
		l := mustOpen(t, o)
		must(t, "Write", l.Write([]Update{{Shard: 1, Entries: entries(1, 3, 1)}}))
		fail = true
		_, err := l.Shard(1).Entries(1, 4, 1000)
		if !errors.Is(err, errorfs.ErrInjected) || errors.Is(err, ErrCorrupt) {
			t.Errorf("Entries = %v, want the injected error, no corruption", err)
		}
		fail = false
		if es, err := l.Shard(1).Entries(1, 4, 1000); len(es) != 3 || err != nil {
			t.Errorf("Entries = %v, %v, want 3 entries", es, err)
		}
	}
}
