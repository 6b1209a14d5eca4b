package raftlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// spareFiles returns the names of the spare files.
func spareFiles(t testing.TB, fs vfs.FS) []string {
	t.Helper()
	names, err := fs.List(testDir)
	must(t, "List", err)
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, spareSuffix) })
	slices.Sort(names)
	return names
}

// fillSegment writes entries of shard 1 until a segment is full.
func fillSegment(t testing.TB, l *Log) {
	t.Helper()
	for number := max(1, l.tail.number); l.tail.number <= number; {
		writeNext(t, l)
	}
}

func writeNext(t testing.TB, l *Log) {
	t.Helper()
	i := l.Shard(1).LastIndex() + 1
	must(t, "Write", l.Write([]Update{{Shard: 1, Entries: entries(i, i, 1)}}))
}

func truncateAll(t testing.TB, l *Log) {
	t.Helper()
	must(t, "Truncate", l.Truncate(map[uint16]uint64{1: l.Shard(1).LastIndex()}))
}

// lengths tells of each file how long it is, whenever something was written.
type lengths struct {
	vfs.FS
	created, grown int
}

func (f *lengths) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f.created++
	file, err := f.FS.Create(name, c)
	return lengthFile{file, f}, err
}

func (f *lengths) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(from, to, c)
	return lengthFile{file, f}, err
}

type lengthFile struct {
	vfs.File
	fs *lengths
}

func (f lengthFile) WriteAt(p []byte, off int64) (int, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if off+int64(len(p)) > info.Size() {
		f.fs.grown++
	}
	return f.File.WriteAt(p, off)
}

// TestSteadyStateWritesInPlace: once there are spare files, nothing that the log writes makes a
// file longer, and no file is made.
func TestSteadyStateWritesInPlace(t *testing.T) {
	mem := vfs.NewMem()
	fs := &lengths{FS: mem}
	l := mustOpen(t, reusing(fs))
	fillSegment(t, l)
	fillSegment(t, l)
	truncateAll(t, l)
	fs.created, fs.grown = 0, 0
	first := l.tail.number
	for range 20 {
		fillSegment(t, l)
		must(t, "Sync", l.Sync())
		truncateAll(t, l)
	}
	if fs.created > 0 || fs.grown > 0 || l.tail.number < first+20 {
		t.Errorf("%d files created, %d writes at the end of one, in segments %d to %d, want none", fs.created, fs.grown, first,
			l.tail.number)
	}
	if n := len(segmentFiles(t, mem)) + len(spareFiles(t, mem)); n > 1+defaultSpares {
		t.Errorf("%d files, want at most the segment and %d", n, defaultSpares)
	}
}

// TestPreparedSegmentsAreWrittenInPlace: the same for files that Prepare has made.
func TestPreparedSegmentsAreWrittenInPlace(t *testing.T) {
	mem := vfs.NewMem()
	fs := &lengths{FS: mem}
	l := mustOpen(t, reusing(fs))
	must(t, "Prepare of an empty log", l.Prepare(t.Context()))
	must(t, "Write", l.Write([]Update{{Shard: 1, Entries: entries(1, 1, 1)}}))
	must(t, "Prepare of a small log", l.Prepare(t.Context()))
	if got := spareFiles(t, mem); len(got) != 0 {
		t.Errorf("spare files = %v, want none yet", got)
	}
	for l.tail.end < l.segmentSize/4 {
		writeNext(t, l)
	}
	for range 2 {
		must(t, "Prepare", l.Prepare(t.Context()))
		if got := spareFiles(t, mem); len(got) != 1 {
			t.Errorf("spare files = %v, want one", got)
		}
	}
	fillSegment(t, l)
	fs.grown = 0
	for l.tail.end < l.segmentSize-100 {
		writeNext(t, l)
	}
	if fs.grown > 0 || l.tail.number != 2 {
		t.Errorf("%d writes at the end of the prepared file of segment 2, now %d, want none", fs.grown, l.tail.number)
	}
	size := l.Size()
	must(t, "Prepare", l.Prepare(t.Context()))
	if l.Size() != size {
		t.Errorf("Size() = %d with a spare file, want %d as without", l.Size(), size)
	}
	must(t, "Close", l.Close())
	if got := spareFiles(t, mem); len(got) != 0 {
		t.Errorf("spare files = %v after Close, want none", got)
	}
}

func TestReleaseSpare(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, reusing(mem))
	for range 3 {
		fillSegment(t, l)
	}
	truncateAll(t, l)
	if got := spareFiles(t, mem); len(got) != 3 {
		t.Errorf("spare files = %v, want 3", got)
	}
	must(t, "ReleaseSpare", l.ReleaseSpare())
	fillSegment(t, l)
	truncateAll(t, l)
	if got := spareFiles(t, mem); len(got) != 0 {
		t.Errorf("spare files = %v after ReleaseSpare, want none", got)
	}
	info, err := mem.Stat(l.path(l.tail.number))
	must(t, "Stat", err)
	if got, want := info.Size(), alignBlock(l.tail.end); got != want {
		t.Errorf("segment of %d bytes after ReleaseSpare, want %d: nothing ahead", got, want)
	}
	must(t, "Prepare", l.Prepare(t.Context()))
	fillSegment(t, l)
	fillSegment(t, l)
	truncateAll(t, l)
	if got := spareFiles(t, mem); len(got) == 0 {
		t.Errorf("no spare files after Prepare")
	}
	must(t, "Close", l.Close())
	for call, err := range map[string]error{"ReleaseSpare": l.ReleaseSpare(), "Prepare": l.Prepare(t.Context())} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close = %v, want %v", call, err, ErrClosed)
		}
	}
}

// TestNoSpares: a log that is to keep none makes none and writes nothing ahead.
func TestNoSpares(t *testing.T) {
	mem := vfs.NewMem()
	o := reusing(mem)
	o.Spares = -1
	l := mustOpen(t, o)
	fillSegment(t, l)
	fillSegment(t, l)
	truncateAll(t, l)
	must(t, "Prepare", l.Prepare(t.Context()))
	if got := spareFiles(t, mem); len(got) != 0 {
		t.Errorf("spare files = %v, want none", got)
	}
}

// TestPrepareFails: the disk is full, or breaks, or the caller gives up, at any operation of
// Prepare. The log goes on, and what was begun is removed, at the latest by the next Open.
func TestPrepareFails(t *testing.T) {
	for k := 0; ; k++ {
		mem := vfs.NewMem()
		n, preparing := 0, false
		ctx, cancel := context.WithCancel(context.Background())
		l := mustOpen(t, reusing(beforeWrites(mem, func(op errorfs.Op) error {
			if n++; preparing && n == k+1 {
				return syscall.ENOSPC
			}
			return nil
		})))
		fillSegment(t, l)
		for l.tail.end < l.segmentSize/2 {
			writeNext(t, l)
		}
		n, preparing = 0, true
		err := l.Prepare(ctx)
		preparing = false
		if n <= k {
			must(t, "Prepare", err)
			if k < 3 {
				t.Errorf("Prepare did %d operations, want at least 3", k)
			}
			cancel()
			fillSegment(t, l)
			for l.tail.end < l.segmentSize/2 {
				writeNext(t, l)
			}
			if err := l.Prepare(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Prepare = %v, want %v", err, context.Canceled)
			}
			if got := spareFiles(t, mem); len(got) != 0 {
				t.Errorf("spare files = %v after a canceled Prepare, want none", got)
			}
			return
		}
		cancel()
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("operation %d: Prepare = %v, want %v", k, err, syscall.ENOSPC)
		}
		if got := spareFiles(t, mem); len(got) != 0 {
			t.Errorf("operation %d: spare files = %v after a failed Prepare, want none", k, got)
		}
		fillSegment(t, l)
		want, err := read(l)
		must(t, "read", err)
		checkState(t, "after reopen", reopen(t, l, reusing(mem)), want.settled())
	}
}

// TestWriteAheadFails: the disk has room for the records, and not for zeros.
func TestWriteAheadFails(t *testing.T) {
	mem := vfs.NewMem()
	l := mustOpen(t, Options{Dir: testDir, FS: noZerosFS{mem}, SegmentSize: 12_000})
	fillSegment(t, l)
	want, err := read(l)
	must(t, "read", err)
	info, err := mem.Stat(l.path(2))
	must(t, "Stat", err)
	if info.Size() != alignBlock(l.tail.end) {
		t.Errorf("file of %d bytes, want %d", info.Size(), alignBlock(l.tail.end))
	}
	checkState(t, "after reopen", reopen(t, l, reusing(mem)), want.settled())
}

type noZerosFS struct{ vfs.FS }

func (f noZerosFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	return noZerosFile{file}, err
}

type noZerosFile struct{ vfs.File }

func (f noZerosFile) WriteAt(p []byte, off int64) (int, error) {
	if bytes.Count(p, []byte{0}) == len(p) {
		return 0, syscall.ENOSPC
	}
	return f.File.WriteAt(p, off)
}

// TestFailedRename: a spare file cannot be made, or not be used. Nothing is lost, and the next
// attempt does without.
func TestFailedRename(t *testing.T) {
	for _, kind := range []errorfs.OpKind{errorfs.OpRename, errorfs.OpReuseForWrite} {
		mem := vfs.NewCrashableMem()
		failing := false
		l := mustOpen(t, reusing(beforeWrites(mem, func(op errorfs.Op) error {
			if failing && op.Kind == kind {
				return errorfs.ErrInjected
			}
			return nil
		})))
		fillSegment(t, l)
		failing = kind == errorfs.OpRename
		err := l.Truncate(map[uint16]uint64{1: l.Shard(1).LastIndex()})
		if failing && !errors.Is(err, errorfs.ErrInjected) || !failing && err != nil {
			t.Errorf("Truncate = %v with failing %v", err, kind)
		}
		failing = true
		failed := 0
		for number := l.tail.number; l.tail.number == number; {
			i := l.Shard(1).LastIndex() + 1
			if err := l.Write([]Update{{Shard: 1, Entries: entries(i, i, 1)}}); errors.Is(err, errorfs.ErrInjected) {
				failed++
			} else {
				must(t, "Write", err)
			}
		}
		if want := map[errorfs.OpKind]int{errorfs.OpReuseForWrite: 1}[kind]; failed != want {
			t.Errorf("%d Writes failed with failing %v, want %d", failed, kind, want)
		}
		failing = false
		must(t, "Sync", l.Sync())
		want, err := read(l)
		must(t, "read", err)
		for _, percent := range []int{0, 50, 100} {
			checkState(t, "after a crash", mustOpen(t, reusing(crashClone(mem, percent, 1))), want.settled())
		}
		truncateAll(t, l)
		if got := segmentFiles(t, mem); len(got) != 1 {
			t.Errorf("segments = %v, want one: what could not be renamed is removed later", got)
		}
	}
}

// oldFile returns the bytes of a file that was segment 3, full of records.
func oldFile(size int) []byte {
	b := startOf(3, startInfo{version: formatVersion, oldest: 1, prevEnd: 4000, head: recordSize(startSize)})
	for i := uint64(1); len(b) < size; i++ {
		h := header{kind: kindEntry, shard: 1, term: 1, index: i, synced: uint64(len(b))}
		b = append(b, buildRecord(h, 3, int64(len(b)), fmt.Append(nil, "old entry ", i))...)
	}
	return b[:size]
}

// TestHeadTornOverOldRecords: the start of a segment, written over an old one, is torn at any
// place, or any part of it is lost. It was never used, and its number is used again.
func TestHeadTornOverOldRecords(t *testing.T) {
	fs, want := closedLog(t)
	newest := uint32(len(segmentFiles(t, fs)))
	l := mustOpen(t, small(copyFS(t, fs)))
	must(t, "Write", l.Write([]Update{{Shard: 7, Reserve: 1}}))
	head := slices.Clone(fileBytes(t, l.fs.(*vfs.MemFS), fileName(newest+1))[:l.tail.head])
	for cut := 0; cut < len(head); cut += 4 {
		for name, part := range map[string][2]int{"torn": {0, cut}, "begins": {cut + 4, len(head)}, "hole": {0, cut}} {
			b := oldFile(blockSize)
			copy(b[part[0]:], head[part[0]:part[1]])
			if name == "hole" {
				copy(b[cut+4:], head[cut+4:])
			}
			if bytes.HasPrefix(b, head) {
				continue // What was lost is equal to what was there.
			}
			torn := copyFS(t, fs)
			putFile(t, torn, fileName(newest+1), b)
			what := fmt.Sprintf("%s at %d", name, cut)
			l := mustOpen(t, small(torn))
			checkState(t, what, l, want)
			us := []Update{{Shard: 9, Entries: entries(1, 2, 1)}}
			must(t, what, l.Write(us))
			checkState(t, what+": after going on", reopen(t, l, small(torn)), want.apply(effectsOf(us)...).settled())
		}
	}
}

// TestRenameStates: every set of names that a crash may leave of a renamed file, each with old, new
// or mixed content.
func TestRenameStates(t *testing.T) {
	fs, want := closedLog(t)
	files := segmentFiles(t, fs)
	newest := fileBytes(t, fs, files[len(files)-1])
	mixed := slices.Concat(newest[:200], oldFile(blockSize)[200:])
	next := fileName(uint32(len(files) + 1))
	contents := map[string][]byte{"old": oldFile(blockSize), "new": newest, "mixed": mixed, "empty": nil, "zeros": make([]byte, blockSize)}
	for what, b := range contents {
		for _, names := range [][]string{{"00000001.spare"}, {next}, {"00000001.spare", next}, {"00000001.spare", "00000002.spare"}} {
			crashed := copyFS(t, fs)
			for _, name := range names {
				putFile(t, crashed, name, b)
			}
			what := fmt.Sprintf("%s content in %v", what, names)
			l := mustOpen(t, small(crashed))
			checkState(t, what, l, want)
			if got := spareFiles(t, crashed); len(got) != 0 {
				t.Errorf("%s: spare files = %v after Open, want none", what, got)
			}
			must(t, what, l.Write([]Update{{Shard: 1, Reserve: 1}}))
			must(t, "Close", l.Close())
		}
	}
}

// TestOldRecordsBehindTheEnd builds a segment whose file was used before: what lies behind its
// records is no record and no proof, unless it is of this life.
func TestOldRecordsBehindTheEnd(t *testing.T) {
	const segment = 1
	head := recordSize(startSize)
	start := startOf(segment, startInfo{version: formatVersion, oldest: 1, head: head})
	entry := func(index, synced uint64) header {
		return header{kind: kindEntry, shard: 1, term: 1, index: index, synced: synced}
	}
	size := recordSize(8)
	used := slices.Concat(start, buildRecord(entry(1, 0), segment, head, make([]byte, 8)))
	end := int64(len(used))
	own := buildRecord(entry(2, 0), segment, end, make([]byte, 8))
	old := buildRecord(entry(2, 0), 9, end, make([]byte, 8))
	forged := slices.Clone(own)
	le.PutUint32(forged[8:], testMark+1)
	tests := map[string]struct {
		behind  []byte
		entries uint64
		corrupt bool
		torn    bool
	}{
		"nothing":         {nil, 1, false, false},
		"zeros":           {make([]byte, 500), 1, false, false},
		"one more":        {own, 2, false, false},
		"old one":         {old, 1, false, true},
		"old proof":       {slices.Concat(old, buildRecord(entry(3, uint64(end)+1), 9, end+size, nil)), 1, false, true},
		"old next":        {slices.Concat(old, buildRecord(header{kind: kindNext, index: 10}, 9, end+size, nil)), 1, false, true},
		"forged":          {forged, 1, false, true},
		"forged checksum": {sealRecord(slices.Clone(forged), 0, place(segment, end)), 1, false, true},
		"moved":           {slices.Concat(make([]byte, 8), own), 1, false, true},
		"old header":      {slices.Concat(old[:headerSize], own[headerSize:]), 1, false, true},
		"old data": {slices.Concat(own[:headerSize], []byte("old data"), buildRecord(entry(3, 0), 9, end+size, nil)), 1, false,
			true},
		"hole": {slices.Concat(make([]byte, size), buildRecord(entry(3, uint64(end)), segment, end+size, nil)), 1, false,
			true},
		"hole that was full": {slices.Concat(make([]byte, size), buildRecord(entry(3, uint64(end)+1), segment, end+size, nil)), 0, true,
			false},
		"old over synced": {slices.Concat(old, buildRecord(entry(3, uint64(end)+1), segment, end+size, nil)), 0, true, false},
		"old over all":    {slices.Concat(old, buildRecord(header{kind: kindNext, index: 2}, segment, end+size, nil)), 0, true, false},
	}
	for name, tt := range tests {
		fs := vfs.NewMem()
		putFile(t, fs, fileName(segment), slices.Concat(used, tt.behind))
		if got, corrupt := detected(t, name, fs); corrupt != tt.corrupt || !corrupt && uint64(len(got[1].entries)) != tt.entries {
			t.Errorf("%s: corrupt = %v, %d entries, want %v, %d", name, corrupt, len(got[1].entries), tt.corrupt, tt.entries)
		}
		if tt.corrupt {
			continue
		}
		var out bytes.Buffer
		o := small(fs)
		o.Logger = slog.New(slog.NewTextHandler(&out, nil))
		mustOpen(t, o)
		if torn := strings.Contains(out.String(), "torn tail cut"); torn != tt.torn {
			t.Errorf("%s: logged %q, want a torn tail: %v", name, out.String(), tt.torn)
		}
	}
}

// TestEntriesCanNotContainRecords: the data of an entry is a chain of records, good in all but the
// mark, for the segment that will use the file again, and that segment's records end right where
// they begin.
func TestEntriesCanNotContainRecords(t *testing.T) {
	const segment = 3
	for mark, forged := range map[uint32]bool{testMark + 1: false, testMark: true} {
		mem := vfs.NewCrashableMem()
		l := mustOpen(t, reusing(mem))
		data := make([]byte, blockSize-recordSize(startSize)-headerSize)
		for off := int64(blockSize); off < 10_000; off += headerSize {
			b := appendHeader(nil, header{mark: mark, kind: kindReserve, shard: 5, index: 1 << 40})
			data = append(data, sealRecord(b, 0, place(segment, off))...)
		}
		must(t, "Write", l.Write([]Update{{Shard: 1, Entries: []*raftpb.Entry{entry(1, 1, string(data))}}}))
		fillSegment(t, l)
		truncateAll(t, l)
		fillSegment(t, l)
		i := l.Shard(1).LastIndex() + 1
		must(t, "Write",
			l.Write([]Update{{Shard: 1, Entries: []*raftpb.Entry{entry(i, 1, strings.Repeat("x", int(blockSize-l.tail.end-headerSize)))}}}))
		must(t, "Sync", l.Sync())
		if l.tail.number != segment || l.tail.end != blockSize {
			t.Fatalf("segment %d ends at %d, want %d, %d", l.tail.number, l.tail.end, segment, blockSize)
		}
		crashed := mustOpen(t, reusing(crashClone(mem, 0, 0)))
		if got := crashed.Shard(5).Reserved() > 0; got != forged {
			t.Errorf("records in the data of an entry count: %v, want %v with the mark %x", got, forged, mark)
		}
	}
}

// TestEntriesWhileFilesAreUsedAgain: between the look-up of entries and reading them their segment
// is dropped, and its file is written as another one. A reader sees what was compacted or what
// replaced them, never damage.
func TestEntriesWhileFilesAreUsedAgain(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		var l *Log
		during := func() {}
		o := reusing(errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileReadAt {
				during()
			}
			return nil
		})))
		o.CacheBytes = -1
		l = mustOpen(t, o)
		must(t, "Write", l.Write([]Update{{Shard: 2, Entries: entries(1, 20, 1)}}))
		fillSegment(t, l)
		during = func() {
			during = func() {}
			if replaced {
				must(t, "Write", l.Write([]Update{{Shard: 2, Entries: entries(1, 20, 2)}}))
			}
			number := l.tail.number
			must(t, "Truncate", l.Truncate(map[uint16]uint64{1: 1000, 2: map[bool]uint64{false: 20}[replaced]}))
			for l.tail.number < number+4 {
				fillSegment(t, l)
				truncateAll(t, l)
			}
		}
		es, err := l.Shard(2).Entries(1, 21, math.MaxUint64)
		if replaced && (err != nil || fmt.Sprint(es) != fmt.Sprint(entries(1, 20, 2))) || !replaced && err != raft.ErrCompacted {
			t.Errorf("replaced = %v: Entries = %v, %v", replaced, es, err)
		}
	}
}

// TestManyLives runs a log through hundreds of lives of its few files, with restarts and crashes.
func TestManyLives(t *testing.T) {
	runs, steps := 6, 1500
	if brief() {
		runs, steps = 2, 400
	}
	for range runs {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 6))
		fs := vfs.NewCrashableMem()
		reused := 0
		options := func(fs vfs.FS) Options {
			o := reusing(beforeWrites(fs, func(op errorfs.Op) error {
				if op.Kind == errorfs.OpReuseForWrite {
					reused++
				}
				return nil
			}))
			o.SegmentSize = 1 + rng.Int64N(20_000)
			return o
		}
		d := newDriver(seed, mustOpen(t, options(fs)), 3)
		for i := range steps {
			what := fmt.Sprintf("seed %d: step %d", seed, i)
			must(t, what, d.step())
			switch rng.IntN(100) {
			case 0:
				d.log = reopen(t, d.log, options(fs))
				d.base, d.history, d.synced = d.now.settled(), nil, 0
				d.now = d.base
			case 1, 2:
				fs = crashClone(fs, 50*rng.IntN(3), rng.Uint64())
				l, got := d.checkSurvivor(t, what, options(fs))
				*d = driver{rng: d.rng, log: l, shards: 3, base: got, now: got}
			}
			checkState(t, what, d.log, d.now)
		}
		must(t, "Close", d.log.Close())
		if reused < steps/100 {
			t.Errorf("seed %d: %d spare files used in %d steps, want at least %d", seed, reused, steps, steps/100)
		}
	}
}

// TestSparesWithoutSegments: spare files exist only beside a segment, so the log has lost all of
// them.
func TestSparesWithoutSegments(t *testing.T) {
	fs := vfs.NewMem()
	putFile(t, fs, "00000004.spare", make([]byte, blockSize))
	_, err := Open(small(fs))
	if want := "ual: " + testDir + "/00000004.spare: offset 0: all segments are missing"; !errors.Is(err, ErrCorrupt) ||
		err.Error() != want {
		t.Errorf("Open = %v, want %s", err, want)
	}
}

// TestLostStart: the only segment has lost its start, and with it the mark. It is not taken for an
// empty log.
func TestLostStart(t *testing.T) {
	fs := vfs.NewMem()
	l := mustOpen(t, small(fs))
	for i := uint64(1); i < 5; i++ {
		must(t, "Write", l.Write([]Update{{Shard: 1, Entries: entries(i, i, 1)}}))
		must(t, "Sync", l.Sync())
	}
	damaged := copyFS(t, fs)
	clear(fileBytes(t, damaged, fileName(1))[:recordSize(startSize)])
	if got, ok := detected(t, "start zeroed", damaged); !ok {
		t.Errorf("start zeroed: not detected, got\n%s", got)
	}
}

// TestForeignSegment: a segment of another log, of the right number.
func TestForeignSegment(t *testing.T) {
	fs, _ := closedLog(t)
	o := small(vfs.NewMem())
	o.Random = strings.NewReader("mark of its own")
	o.SegmentSize = 350
	l := mustOpen(t, o)
	must(t, "Write", l.Write([]Update{{Shard: 1, HardState: hard(1, 1, 0), Entries: entries(1, 3, 1)}}))
	must(t, "Close", l.Close())
	putFile(t, fs, fileName(1), fileBytes(t, o.FS.(*vfs.MemFS), fileName(1)))
	if got, ok := detected(t, "foreign segment", fs); !ok {
		t.Errorf("not detected, got\n%s", got)
	}
}

func TestNoRandomness(t *testing.T) {
	o := small(vfs.NewMem())
	o.Random = strings.NewReader("")
	l := mustOpen(t, o)
	if err := l.Write([]Update{{Shard: 1, Reserve: 1}}); err == nil || err.Error() != "ual: draw the mark of the log: EOF" {
		t.Errorf("Write = %v, want that no mark can be drawn", err)
	}
}
