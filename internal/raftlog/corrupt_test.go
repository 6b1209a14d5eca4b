package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"
)

// closedLog returns the files of a small log that went through everything a log can, and what it
// contains.
func closedLog(t testing.TB) (*vfs.MemFS, state) {
	t.Helper()
	fs := vfs.NewMem()
	o := small(fs)
	o.SegmentSize = 350
	return fs, writeHistory(t, mustOpen(t, o), fs)
}

// reusedLog is closedLog in files that were full of other records before.
func reusedLog(t testing.TB) (*vfs.MemFS, state) {
	t.Helper()
	fs := vfs.NewMem()
	o := small(fs)
	o.SegmentSize, o.Spares = 350, 10
	l := mustOpen(t, o)
	for i := uint64(1); i <= 10; i++ {
		e := entry(i, 1, strings.Repeat(fmt.Sprintf("%07d ", i), 900))
		must(t, "Write", l.Write([]Update{{Shard: 2, Entries: []*raftpb.Entry{e}}}))
	}
	must(t, "Truncate", l.Truncate(map[uint16]uint64{2: 10}))
	if len(l.spares) < 9 {
		t.Fatalf("%d spare files, want at least 9", len(l.spares))
	}
	want := writeHistory(t, l, fs)
	for _, name := range segmentFiles(t, fs)[1:] {
		if b := fileBytes(t, fs, name); !bytes.Contains(b, []byte("00000")) {
			t.Fatalf("%s was not used before", name)
		}
	}
	return fs, want
}

// writeHistory writes to l, which has no entries, closes it, and returns what is in it then.
func writeHistory(t testing.TB, l *Log, fs vfs.FS) state {
	t.Helper()
	want, err := read(l)
	must(t, "read", err)
	for _, us := range [][]Update{
		{{Shard: 1, HardState: hard(1, 1, 0), Entries: entries(1, 3, 1)}},
		{{Shard: 2, Reset: &Position{Index: 9, Term: 1}, Entries: entries(10, 11, 2), Reserve: 50}},
		{{Shard: 1, HardState: hard(2, 3, 2), Entries: entries(3, 4, 2)}},
		{{Shard: 1, Entries: entries(5, 6, 2)}},
	} {
		must(t, "Write", l.Write(us))
		must(t, "Sync", l.Sync())
		want = want.apply(effectsOf(us)...)
	}
	upTo := map[uint16]uint64{1: 1}
	must(t, "Truncate", l.Truncate(upTo))
	want = want.apply(want.cutsOf(upTo)...)
	must(t, "Close", l.Close())
	if got := segmentFiles(t, fs); len(got) < 3 {
		t.Fatalf("files = %v, want at least 3", got)
	}
	return want.settled()
}

// logs are what damage is done to.
var logs = map[string]func(testing.TB) (*vfs.MemFS, state){"new files": closedLog, "files used again": reusedLog}

func copyFS(t testing.TB, fs vfs.FS) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewMem()
	_, err := vfs.Clone(fs, mem, testDir, testDir)
	must(t, "Clone", err)
	return mem
}

func fileBytes(t testing.TB, fs *vfs.MemFS, name string) []byte {
	t.Helper()
	b, err := fs.UnsafeGetFileDataBuffer(fs.PathJoin(testDir, name))
	must(t, "read file", err)
	return b
}

// usedBytes returns the bytes of a segment that hold records.
func usedBytes(t testing.TB, fs *vfs.MemFS, name string) []byte {
	t.Helper()
	b := fileBytes(t, fs, name)
	number, ok := parseFileName(name)
	if !ok {
		t.Fatalf("%s is no segment", name)
	}
	l := &Log{fs: fs, dir: testDir, mark: testMark}
	err := l.withSegment(number, func(file vfs.File, size int64) error {
		sc := l.newScanner(file, number, size)
		for {
			ok, err := sc.scan()
			if !ok || err != nil {
				b = b[:sc.next]
				return err
			}
		}
	})
	must(t, "scan", err)
	return b
}

func putFile(t testing.TB, fs vfs.FS, name string, b []byte) {
	t.Helper()
	must(t, "MkdirAll", fs.MkdirAll(testDir, 0o755))
	f, err := fs.Create(fs.PathJoin(testDir, name), writeCategory)
	must(t, "Create", err)
	_, err = f.Write(slices.Clone(b))
	must(t, "Write", err)
	must(t, "Close", f.Close())
}

// detected reports whether the log in fs is refused with an error that names file and offset, when
// opened or when read. If not, its content is returned.
func detected(t testing.TB, what string, fs vfs.FS) (state, bool) {
	t.Helper()
	before := dump(t, fs)
	var got state
	l, err := Open(small(fs))
	if err == nil {
		got, err = read(l)
	}
	if err == nil {
		return got, false
	}
	var corrupt *CorruptionError
	if !errors.As(err, &corrupt) || !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), fileSuffix+": offset ") {
		t.Fatalf("%s: error %v, want one that names file and offset", what, err)
	}
	if after := dump(t, fs); after != before {
		t.Fatalf("%s: Open refused the log, but has changed its files", what)
	}
	return nil, true
}

func dump(t testing.TB, fs vfs.FS) string {
	t.Helper()
	var b strings.Builder
	for _, name := range segmentFiles(t, fs) {
		f, err := fs.Open(fs.PathJoin(testDir, name))
		must(t, "Open", err)
		info, err := f.Stat()
		must(t, "Stat", err)
		data := make([]byte, info.Size())
		_, _ = f.ReadAt(data, 0)
		fmt.Fprintf(&b, "%s %x\n", name, data)
		must(t, "Close", f.Close())
	}
	return b.String()
}

func TestEveryBitFlip(t *testing.T) {
	for name, log := range logs {
		t.Run(name, func(t *testing.T) { flipEveryBit(t, log) })
	}
}

func flipEveryBit(t *testing.T, log func(testing.TB) (*vfs.MemFS, state)) {
	fs, want := log(t)
	text := want.String()
	caught, total := 0, 0
	step := 1
	switch {
	case raceEnabled:
		step = 41
	case brief():
		step = 5
	}
	for _, name := range segmentFiles(t, fs) {
		b := usedBytes(t, fs, name)
		for bit := 0; bit < 8*len(b); bit += step {
			b[bit/8] ^= 1 << (bit % 8)
			what := fmt.Sprintf("%s bit %d of byte %d", name, bit%8, bit/8)
			got, ok := detected(t, what, fs)
			if !ok && got.String() != text {
				t.Fatalf("%s: not detected, got\n%swant\n%s", what, got, want)
			}
			if ok {
				caught++
			}
			total++
			b[bit/8] ^= 1 << (bit % 8)
		}
	}
	if caught < total*7/10 {
		t.Errorf("%d of %d flips detected, want the most: only padding, ends and what lies beyond can be harmless", caught, total)
	}
}

// TestLostBlocks: part of a segment is zero, or what an earlier life of its file had there, as if
// it had never been written.
func TestLostBlocks(t *testing.T) {
	for name, log := range logs {
		for lost, b := range map[string][]byte{"zeroed": make([]byte, blockSize), "as it was": oldFile(blockSize)} {
			t.Run(name+" "+lost, func(t *testing.T) { loseEveryBlock(t, log, b) })
		}
	}
}

func loseEveryBlock(t *testing.T, log func(testing.TB) (*vfs.MemFS, state), before []byte) {
	fs, want := log(t)
	files := segmentFiles(t, fs)
	for k, name := range files {
		size := len(usedBytes(t, fs, name))
		for block := 0; block < size; block += 64 {
			damaged := copyFS(t, fs)
			end := min(block+64, size)
			copy(fileBytes(t, damaged, name)[block:end], before[block:end])
			got, ok := detected(t, fmt.Sprintf("%s: block at %d lost", name, block), damaged)
			// The end record, and what it alone protects, is the only thing in the log whose loss
			// looks like a torn tail.
			if !ok && (k < len(files)-1 || block < size-128) && got.String() != want.String() {
				t.Errorf("%s: block at %d lost: not detected, got\n%swant\n%s", name, block, got, want)
			}
		}
	}
}

// TestTruncatedFiles: a file that lost its end is noticed, except in the last segment: there it
// looks like a torn tail, and what is left must be a prefix.
func TestTruncatedFiles(t *testing.T) {
	fs, want := closedLog(t)
	files := segmentFiles(t, fs)
	for k, name := range files {
		b := usedBytes(t, fs, name)
		end := len(b)
		if k < len(files)-1 {
			end = int(validEnd(t, fs, files[k+1]))
		}
		for size := range len(b) {
			damaged := copyFS(t, fs)
			putFile(t, damaged, name, b[:size])
			what := fmt.Sprintf("%s cut to %d of %d bytes", name, size, len(b))
			got, ok := detected(t, what, damaged)
			switch {
			case !ok && size >= end && got.String() != want.String():
				t.Errorf("%s: only what lies beyond the segment's end is gone, got\n%swant\n%s", what, got, want)
			case !ok && size < end && k < len(files)-1:
				t.Errorf("%s: not detected", what)
			case !ok && !isPrefix(got, want):
				t.Errorf("%s: got\n%swant a prefix of\n%s", what, got, want)
			}
		}
	}
}

// validEnd returns the prevEnd in the start record of a segment.
func validEnd(t testing.TB, fs *vfs.MemFS, name string) int64 {
	t.Helper()
	info, ok := parseStart(fileBytes(t, fs, name)[headerSize:][:startSize])
	if !ok {
		t.Fatalf("%s has no start record", name)
	}
	return info.prevEnd
}

// isPrefix reports whether each entry of got is that of want, which has no conflicts in its last
// segment.
func isPrefix(got, want state) bool {
	for id, sh := range got {
		for _, e := range sh.entries {
			w := want[id]
			i := e.GetIndex()
			if i > w.last() || i > w.compacted.Index && w.entries[i-w.compacted.Index-1].String() != e.String() {
				return false
			}
		}
	}
	return true
}

func TestRemovedAndSwappedSegments(t *testing.T) {
	fs, _ := closedLog(t)
	files := segmentFiles(t, fs)
	for _, name := range files {
		damaged := copyFS(t, fs)
		must(t, "Remove", damaged.Remove(damaged.PathJoin(testDir, name)))
		if got, ok := detected(t, name+" removed", damaged); !ok {
			t.Errorf("%s removed: not detected, got\n%s", name, got)
		}
		damaged = copyFS(t, fs)
		putFile(t, damaged, name, nil)
		if got, ok := detected(t, name+" emptied", damaged); !ok {
			t.Errorf("%s emptied: not detected, got\n%s", name, got)
		}
		for _, other := range files {
			if other <= name {
				continue
			}
			damaged := copyFS(t, fs)
			putFile(t, damaged, name, fileBytes(t, fs, other))
			putFile(t, damaged, other, fileBytes(t, fs, name))
			if got, ok := detected(t, name+" and "+other+" swapped", damaged); !ok {
				t.Errorf("%s and %s swapped: not detected, got\n%s", name, other, got)
			}
		}
	}
}

func TestMissingSegmentIsNamed(t *testing.T) {
	fs, _ := closedLog(t)
	for _, name := range segmentFiles(t, fs) {
		damaged := copyFS(t, fs)
		path := fs.PathJoin(testDir, name)
		must(t, "Remove", damaged.Remove(path))
		_, err := Open(small(damaged))
		if want := "ual: " + path + ": offset 0: segment is missing"; err == nil || err.Error() != want {
			t.Errorf("Open = %v, want %s", err, want)
		}
	}
}

// TestTornTail: garbage behind what was synced is cut with one log line; the log goes on in a new
// segment, and the garbage is never looked at again.
func TestTornTail(t *testing.T) {
	full := vfs.NewMem()
	l := mustOpen(t, Options{FS: full, Dir: testDir})
	us := []Update{{Shard: 1, HardState: hard(1, 1, 0), Entries: entries(1, 3, 1)}}
	must(t, "Write", l.Write(us))
	must(t, "Sync", l.Sync())
	end := l.Size()
	must(t, "Write", l.Write([]Update{{Shard: 1, Entries: entries(4, 9, 1)}})) // Never synced: any block may be lost.
	torn := fileBytes(t, full, "00000001.ual")
	clear(torn[end : end+8])

	fs := vfs.NewMem()
	putFile(t, fs, "00000001.ual", torn)
	var out bytes.Buffer
	o := small(fs)
	o.Logger = slog.New(slog.NewTextHandler(&out, nil))
	second := mustOpen(t, o)
	want := state{}.apply(effectsOf(us)...)
	checkState(t, "after Open", second, want)
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "torn tail cut") ||
		!strings.Contains(got, fmt.Sprintf("offset=%d", end)) {
		t.Errorf("logged %q, want one line about the torn tail at %d", got, end)
	}
	us = []Update{{Shard: 1, Entries: entries(4, 4, 2)}}
	must(t, "Write", second.Write(us))
	want = want.apply(effectsOf(us)...)
	second = reopen(t, second, o)
	checkState(t, "after going on", second, want.settled())
	if got := strings.Count(out.String(), "\n"); got != 1 {
		t.Errorf("%d lines logged after all, want 1:\n%s", got, &out)
	}
}

// TestDamageBeforeSyncedRecords: a record is bad, and a later one says that it was durable.
func TestDamageBeforeSyncedRecords(t *testing.T) {
	fs := vfs.NewMem()
	l := mustOpen(t, Options{FS: fs, Dir: testDir})
	must(t, "Write", l.Write([]Update{{Shard: 1, Entries: entries(1, 3, 1)}}))
	must(t, "Sync", l.Sync())
	must(t, "Write", l.Write([]Update{{Shard: 1, Entries: entries(4, 4, 1)}}))
	damaged := copyFS(t, fs)
	fileBytes(t, damaged, "00000001.ual")[recordSize(startSize)+headerSize] ^= 1
	_, err := Open(small(damaged))
	want := fmt.Sprintf("ual: %s/00000001.ual: offset %d: checksum does not match", testDir, recordSize(startSize))
	if err == nil || err.Error() != want {
		t.Errorf("Open = %v, want %s", err, want)
	}
}

func TestDamageWhileOpen(t *testing.T) {
	fs := vfs.NewMem()
	o := Options{FS: fs, Dir: testDir, CacheBytes: -1, Random: sameMark{}}
	l := mustOpen(t, o)
	us := []Update{{Shard: 1, Entries: entries(1, 4, 1)}}
	must(t, "Write", l.Write(us))
	want := state{}.apply(effectsOf(us)...).String()
	b := usedBytes(t, fs, "00000001.ual")
	caught := 0
	for i := range b {
		b[i] ^= 0x10
		es, err := l.Shard(1).Entries(1, 5, math.MaxUint64)
		switch {
		case errors.Is(err, ErrCorrupt):
			caught++
		case err != nil:
			t.Fatalf("byte %d flipped: Entries: %v", i, err)
		default:
			if got := (state{1: {entries: es}}).String(); got != want {
				t.Fatalf("byte %d flipped: got\n%swant\n%s", i, got, want)
			}
		}
		b[i] ^= 0x10
	}
	if caught < len(b)/2 {
		t.Errorf("%d of %d flipped bytes detected, want most", caught, len(b))
	}
	putFile(t, fs, "00000001.ual", b[:len(b)-20])
	if _, err := l.Shard(1).Entries(1, 5, math.MaxUint64); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Entries of a file that lost its end = %v, want %v", err, ErrCorrupt)
	}
}

// buildRecord encodes one record as it would lie at off of segment.
func buildRecord(h header, segment uint32, off int64, data []byte) []byte {
	h.mark = testMark
	b := appendHeader(nil, h)
	return sealRecord(append(b, data...), 0, place(segment, off))
}

func startOf(segment uint32, info startInfo) []byte {
	return buildRecord(header{kind: kindStart}, segment, 0, appendStart(nil, info))
}

// TestOldVersionIsRefused: a log of format version 1, whose checksums were made otherwise, is
// neither damaged nor empty.
func TestOldVersionIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	b := appendHeader(nil, header{mark: 1, kind: kindStart})
	b = appendStart(b, startInfo{version: 1, oldest: 1, head: recordSize(startSize)})
	putFile(t, fs, fileName(1), sealRecord(b, 0, 0))
	before := dump(t, fs)
	_, err := Open(small(fs))
	want := "ual: " + testDir + "/00000001.ual: format version 1 is no longer read, this version knows 2"
	if err == nil || err.Error() != want {
		t.Errorf("Open = %v, want %s", err, want)
	}
	if after := dump(t, fs); after != before {
		t.Errorf("Open has changed the files")
	}
}

// TestNewerVersionIsRefused: an unknown kind of record or format version, with a good checksum, is
// not damage.
func TestNewerVersionIsRefused(t *testing.T) {
	info := startInfo{version: formatVersion, oldest: 1, head: recordSize(startSize)}
	newer := info
	newer.version++
	tests := map[string][]byte{
		"kind":    append(startOf(1, info), buildRecord(header{kind: kindMax + 1}, 1, info.head, nil)...),
		"version": startOf(1, newer),
		"layout":  buildRecord(header{kind: kindStart}, 1, 0, append(appendStart(nil, newer), 1, 2, 3)),
	}
	for name, b := range tests {
		fs := vfs.NewMem()
		putFile(t, fs, "00000001.ual", b)
		before := dump(t, fs)
		_, err := Open(small(fs))
		if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "written by a newer version") ||
			!strings.Contains(err.Error(), "00000001.ual") {
			t.Errorf("%s: Open = %v, want %v", name, err, ErrNewer)
		}
		if after := dump(t, fs); after != before {
			t.Errorf("%s: Open has changed the files", name)
		}
	}
}

// TestNonsenseIsRefused: records with good checksums that no log can contain.
func TestNonsenseIsRefused(t *testing.T) {
	head := recordSize(startSize)
	info := startInfo{version: formatVersion, oldest: 1, head: head}
	hardData := make([]byte, voteSize)
	withState := info
	withState.head += recordSize(checkpointSize)
	tests := map[string]struct {
		info startInfo
		h    header
		data []byte
	}{
		"gap":                  {info, header{kind: kindEntry, index: 2}, nil},
		"entry 0":              {info, header{kind: kindEntry, index: 0}, nil},
		"huge index":           {info, header{kind: kindReset, index: maxIndex}, nil},
		"compaction too far":   {info, header{kind: kindCompact, index: 1}, nil},
		"compaction to 0":      {info, header{kind: kindCompact}, nil},
		"second start":         {info, header{kind: kindStart}, appendStart(nil, info)},
		"short hard state":     {info, header{kind: kindHardState}, hardData[1:]},
		"state behind head":    {info, header{kind: kindState}, appendCheckpoint(nil, checkpoint{})},
		"no state in head":     {withState, header{kind: kindHardState}, make([]byte, checkpointSize)},
		"short state":          {startInfo{formatVersion, 1, 0, head + recordSize(0)}, header{kind: kindState}, nil},
		"state going back":     {withState, header{kind: kindState, index: 5}, appendCheckpoint(nil, checkpoint{last: 4})},
		"entries missing":      {withState, header{kind: kindState, index: 5}, appendCheckpoint(nil, checkpoint{last: 7})},
		"oldest beyond newest": {info, header{kind: kindOldest, index: 2}, nil},
		"next beyond newest":   {info, header{kind: kindNext, index: 2}, nil},
	}
	for name, tt := range tests {
		fs := vfs.NewMem()
		putFile(t, fs, "00000001.ual", append(startOf(1, tt.info), buildRecord(tt.h, 1, head, tt.data)...))
		if got, ok := detected(t, name, fs); !ok {
			t.Errorf("%s: accepted, got\n%s", name, got)
		}
	}
	for name, b := range map[string][]byte{
		"no start":        buildRecord(header{kind: kindEntry, index: 1}, 1, 0, nil),
		"short start":     buildRecord(header{kind: kindStart}, 1, 0, appendStart(nil, info)[:20]),
		"version 0":       startOf(1, startInfo{oldest: 1, head: head}),
		"tiny start":      buildRecord(header{kind: kindStart}, 1, 0, []byte{1}),
		"negative offset": startOf(1, startInfo{formatVersion, 1, -1, head}),
	} {
		fs := vfs.NewMem()
		putFile(t, fs, "00000001.ual", b)
		if got, ok := detected(t, name, fs); !ok {
			t.Errorf("%s: accepted, got\n%s", name, got)
		}
	}
}

// TestCheckpointMustAgree: the checkpoint of a later segment that does not fit the ones before is
// refused.
func TestCheckpointMustAgree(t *testing.T) {
	head := recordSize(startSize)
	first := append(startOf(1, startInfo{formatVersion, 1, 0, head}),
		buildRecord(header{kind: kindReserve, shard: 1, index: 5}, 1, head, nil)...)
	state := func(shard uint16, c checkpoint) []byte {
		return buildRecord(header{kind: kindState, shard: shard}, 2, head, appendCheckpoint(nil, c))
	}
	info := startInfo{formatVersion, 1, int64(len(first)), head + recordSize(checkpointSize)}
	good := append(startOf(2, info), state(1, checkpoint{reserved: 5})...)
	tests := map[string]struct {
		second []byte
		ok     bool
	}{
		"agrees":        {good, true},
		"other reserve": {append(startOf(2, info), state(1, checkpoint{reserved: 6})...), false},
		"other shard":   {append(startOf(2, info), state(2, checkpoint{reserved: 5})...), false},
		"other last":    {append(startOf(2, info), state(1, checkpoint{reserved: 5, last: 1})...), false},
		"no shard":      {startOf(2, startInfo{formatVersion, 1, int64(len(first)), head}), false},
		"other end": {append(startOf(2, startInfo{formatVersion, 1, head + 8, info.head}), state(1, checkpoint{reserved: 5})...),
			false},
		"end too far": {append(startOf(2, startInfo{formatVersion, 1, 1000, info.head}), state(1, checkpoint{reserved: 5})...), false},
	}
	for name, tt := range tests {
		fs := vfs.NewMem()
		putFile(t, fs, "00000001.ual", first)
		putFile(t, fs, "00000002.ual", tt.second)
		if got, ok := detected(t, name, fs); ok == tt.ok {
			t.Errorf("%s: detected = %v, want %v, got\n%s", name, ok, !tt.ok, got)
		}
	}
}

// TestRandomCorruption damages larger random logs and never accepts a wrong answer.
func TestRandomCorruption(t *testing.T) {
	for range 30 {
		seed := rand.Uint64()
		fs := vfs.NewMem()
		d := newDriver(seed, mustOpen(t, small(fs)), 3)
		for range 30 {
			must(t, "step", d.step())
		}
		must(t, "Close", d.log.Close())
		files := segmentFiles(t, fs)
		want := d.now.settled().String()
		for range 10 {
			damaged := copyFS(t, fs)
			name := files[d.rng.IntN(len(files))]
			b := fileBytes(t, damaged, name)
			i := d.rng.IntN(len(b))
			b[i] ^= byte(1 + d.rng.IntN(255))
			what := fmt.Sprintf("seed %d: %s byte %d changed", seed, name, i)
			if got, ok := detected(t, what, damaged); !ok && got.String() != want {
				t.Fatalf("%s: not detected, got\n%swant\n%s", what, got, want)
			}
		}
	}
}
