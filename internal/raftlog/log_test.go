package raftlog

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

func TestRoundTrip(t *testing.T) {
	o := small(vfs.NewMem())
	l := mustOpen(t, o)
	us := []Update{
		{Shard: 7, HardState: hard(2, 3, 1), Entries: entries(1, 3, 2), Reserve: 1000},
		{Shard: 0, Entries: []*raftpb.Entry{entry(1, 1, "")}},
		{Shard: math.MaxUint16, HardState: hard(1, 0, 0)},
		{Shard: 7, Entries: []*raftpb.Entry{{Index: new(uint64(4)), Term: new(uint64(2)), Type: raftpb.EntryConfChangeV2.Enum()}}},
	}
	must(t, "Write", l.Write(us))
	want := state{}.apply(effectsOf(us)...)
	checkState(t, "after Write", l, want)
	if got, want := l.Shards(), []uint16{0, 7, math.MaxUint16}; !slices.Equal(got, want) {
		t.Errorf("Shards() = %v, want %v", got, want)
	}
	l = reopen(t, l, o)
	checkState(t, "after reopen", l, want.settled())
}

func TestEmptyLog(t *testing.T) {
	fs := vfs.NewMem()
	o := small(fs)
	l := mustOpen(t, o)
	s := l.Shard(3)
	if l.Shard(3) != s {
		t.Errorf("Shard(3) gave two different pointers")
	}
	if first, last, h := s.FirstIndex(), s.LastIndex(), s.HardState(); first != 1 || last != 0 || !raft.IsEmptyHardState(h) {
		t.Errorf("FirstIndex, LastIndex, HardState = %d, %d, %v, want 1, 0, empty", first, last, h)
	}
	if term, err := s.Term(0); term != 0 || err != nil {
		t.Errorf("Term(0) = %d, %v, want 0, nil", term, err)
	}
	must(t, "Write of nothing", l.Write([]Update{{Shard: 3}}))
	must(t, "Sync", l.Sync())
	must(t, "Truncate", l.Truncate(map[uint16]uint64{3: 10, 4: 1}))
	if got := l.Shards(); len(got) != 0 {
		t.Errorf("Shards() = %v, want none", got)
	}
	must(t, "Close", l.Close())
	must(t, "second Close", l.Close())
	if names, err := fs.List(testDir); len(names) != 0 || err != nil {
		t.Errorf("files = %v, %v, want none", names, err)
	}
}

func TestOptions(t *testing.T) {
	_, err := Open(Options{SegmentSize: -1})
	for _, want := range []string{"FS is nil", "Dir is empty", "SegmentSize is -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open error %q, want it to contain %q", err, want)
		}
	}
}

func TestConflictOverwrites(t *testing.T) {
	o := small(vfs.NewMem())
	l := mustOpen(t, o)
	steps := [][]*raftpb.Entry{entries(1, 10, 1), entries(8, 12, 2), entries(4, 5, 3), entries(6, 20, 3), entries(20, 20, 4)}
	want := state{}
	for _, es := range steps {
		us := []Update{{Shard: 1, Entries: es}}
		must(t, "Write", l.Write(us))
		want = want.apply(effectsOf(us)...)
		checkState(t, fmt.Sprintf("after %d..%d", es[0].GetIndex(), es[len(es)-1].GetIndex()), l, want)
	}
	l = reopen(t, l, o)
	checkState(t, "after reopen", l, want.settled())
}

func TestWriteRefusesWhatDoesNotFit(t *testing.T) {
	l := mustOpen(t, small(vfs.NewMem()))
	must(t, "Write", l.Write([]Update{{Shard: 1, Entries: entries(1, 9, 1)}}))
	must(t, "Truncate", l.Truncate(map[uint16]uint64{1: 5}))
	before, err := read(l)
	must(t, "read", err)
	size := l.Size()
	huge := entry(10, 1, "")
	huge.Data = make([]byte, maxData+1)
	tests := []struct {
		u    Update
		want string
	}{
		{Update{Shard: 1, Entries: entries(11, 11, 1)}, "ual: shard 1: entry 11 does not follow entry 9"},
		{Update{Shard: 1, Entries: entries(5, 6, 1)}, "ual: shard 1: entry 5 is not above the compacted position 5"},
		{Update{Shard: 1, Entries: append(entries(7, 8, 1), entries(8, 8, 1)...)}, "ual: shard 1: entry 8 does not follow entry 8"},
		{Update{Shard: 1, Reset: &Position{Index: 20}, Entries: entries(10, 10, 1)},
			"ual: shard 1: entry 10 is not above the compacted position 20"},
		{Update{Shard: 2, Entries: entries(2, 2, 1)}, "ual: shard 2: entry 2 does not follow entry 0"},
		{Update{Shard: 1, Reset: &Position{Index: maxIndex}},
			"ual: shard 1: reset to index 4611686018427387904, limit is 4611686018427387904"},
		{Update{Shard: 1, Reset: &Position{Index: maxIndex - 1}, Entries: entries(maxIndex, maxIndex, 1)},
			"ual: shard 1: index 4611686018427387904 of entry, limit is 4611686018427387904"},
		{Update{Shard: 1, Entries: []*raftpb.Entry{huge}}, "ual: shard 1: entry 10 has 268435457 bytes, limit is 268435456"},
	}
	for _, tt := range tests {
		good := Update{Shard: 9, Reserve: 1, HardState: hard(1, 1, 1)}
		if err := l.Write([]Update{good, tt.u}); err == nil || err.Error() != tt.want {
			t.Errorf("Write = %v, want %s", err, tt.want)
		}
	}
	checkState(t, "after refused writes", l, before)
	if l.Size() != size {
		t.Errorf("Size() = %d after refused writes, want %d", l.Size(), size)
	}
}

func TestEntries(t *testing.T) {
	for _, cache := range []int64{-1, 500, 1 << 20} {
		o := small(vfs.NewMem())
		o.CacheBytes = cache
		l := mustOpen(t, o)
		must(t, "Write", l.Write([]Update{{Shard: 1, Entries: entries(1, 20, 1)}}))
		must(t, "Truncate", l.Truncate(map[uint16]uint64{1: 4}))
		mem := raft.NewMemoryStorage()
		must(t, "Append", mem.Append(entries(1, 20, 1)))
		must(t, "Compact", mem.Compact(4))
		for lo := uint64(5); lo <= 20; lo++ {
			for hi := lo + 1; hi <= 21; hi++ {
				for _, limit := range []uint64{0, 30, 60, 100, 101, 200, math.MaxUint64} {
					got, err := l.Shard(1).Entries(lo, hi, limit)
					want, wantErr := mem.Entries(lo, hi, limit)
					if err != wantErr || fmt.Sprint(got) != fmt.Sprint(want) {
						t.Fatalf("cache %d: Entries(%d, %d, %d) = %v, %v, want %v, %v", cache, lo, hi, limit, got, err, want, wantErr)
					}
				}
			}
		}
		for _, tt := range []struct {
			lo, hi uint64
			want   error
		}{{4, 6, raft.ErrCompacted}, {20, 22, raft.ErrUnavailable}, {30, 31, raft.ErrUnavailable}, {7, 7, nil}} {
			if got, err := l.Shard(1).Entries(tt.lo, tt.hi, 100); err != tt.want || got != nil {
				t.Errorf("Entries(%d, %d, 100) = %v, %v, want nil, %v", tt.lo, tt.hi, got, err, tt.want)
			}
		}
		for i, want := range map[uint64]error{3: raft.ErrCompacted, 4: nil, 20: nil, 21: raft.ErrUnavailable} {
			if _, err := l.Shard(1).Term(i); err != want {
				t.Errorf("Term(%d) error = %v, want %v", i, err, want)
			}
		}
	}
}

func TestEntriesSliceIsTheCallers(t *testing.T) {
	l := mustOpen(t, small(vfs.NewMem()))
	must(t, "Write", l.Write([]Update{{Shard: 1, Entries: entries(1, 5, 1)}}))
	before, err := read(l)
	must(t, "read", err)
	es, err := l.Shard(1).Entries(1, 4, math.MaxUint64)
	must(t, "Entries", err)
	es = append(es, entry(99, 9, "foreign"))
	es[0] = nil
	checkState(t, "after a caller changed its slice", l, before)
}

func TestTruncate(t *testing.T) {
	fs := vfs.NewMem()
	o := small(fs)
	l := mustOpen(t, o)
	want := state{}
	for i := uint64(1); i <= 40; i++ {
		us := []Update{{Shard: 1, HardState: hard(i, 1, i), Entries: entries(i, i, i)}, {Shard: 2, Entries: entries(i, i, i)}}
		must(t, "Write", l.Write(us))
		want = want.apply(effectsOf(us)...)
	}
	full, files := l.Size(), segmentFiles(t, fs)
	if len(files) < 5 {
		t.Fatalf("segments = %v, want at least 5", files)
	}
	upTo := map[uint16]uint64{1: 30, 2: 100, 3: 5}
	want = want.apply(want.cutsOf(upTo)...)
	must(t, "Truncate", l.Truncate(upTo))
	checkState(t, "after Truncate", l, want)
	if l.Size() >= full || len(segmentFiles(t, fs)) >= len(files) {
		t.Errorf("Size() = %d, files %v after Truncate, want less than %d, %v", l.Size(), segmentFiles(t, fs), full, files)
	}
	must(t, "Truncate back", l.Truncate(map[uint16]uint64{1: 3, 2: 0}))
	checkState(t, "after Truncate back", l, want)
	l = reopen(t, l, o)
	checkState(t, "after reopen", l, want.settled())

	must(t, "Truncate", l.Truncate(map[uint16]uint64{1: 40}))
	if got := segmentFiles(t, fs); len(got) != 1 {
		t.Errorf("files = %v after all was truncated, want one", got)
	}
	us := []Update{{Shard: 1, Entries: entries(41, 41, 41)}}
	must(t, "Write", l.Write(us))
	want = want.settled().apply(want.cutsOf(map[uint16]uint64{1: 40})...).apply(effectsOf(us)...)
	l = reopen(t, l, o)
	checkState(t, "after all was truncated", l, want.settled())
}

func TestStaleSegmentsAreIgnored(t *testing.T) {
	fs := vfs.NewMem()
	o := small(fs)
	l := mustOpen(t, o)
	for i := uint64(1); i <= 40; i++ {
		must(t, "Write", l.Write([]Update{{Shard: 1, Entries: entries(i, i, 1)}}))
	}
	kept := vfs.NewMem()
	_, err := vfs.Clone(fs, kept, testDir, testDir)
	must(t, "Clone", err)
	must(t, "Truncate", l.Truncate(map[uint16]uint64{1: 30}))
	want, err := read(l)
	must(t, "read", err)
	live := segmentFiles(t, fs)
	must(t, "Close", l.Close())
	for _, stale := range []string{"00000001.ual", "00000003.ual"} {
		must(t, "copy", vfs.CopyAcrossFS(kept, fs.PathJoin(testDir, stale), fs, fs.PathJoin(testDir, stale)))
	}
	must(t, "copy", vfs.CopyAcrossFS(kept, fs.PathJoin(testDir, "00000001.ual"), fs, fs.PathJoin(testDir, "notes.txt")))
	l = mustOpen(t, o)
	checkState(t, "with stale segments", l, want.settled())
	if got := segmentFiles(t, fs); !slices.Equal(got, live) {
		t.Errorf("files = %v, want %v", got, live)
	}
}

func segmentFiles(t testing.TB, fs vfs.FS) []string {
	t.Helper()
	names, err := fs.List(testDir)
	must(t, "List", err)
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, fileSuffix) })
	slices.Sort(names)
	return names
}

func TestReset(t *testing.T) {
	o := small(vfs.NewMem())
	l := mustOpen(t, o)
	want := state{}
	for _, us := range [][]Update{
		{{Shard: 1, Entries: entries(1, 30, 1)}, {Shard: 2, Entries: entries(1, 3, 1)}},
		{{Shard: 1, Reset: &Position{Index: 100, Term: 4}, HardState: hard(4, 0, 100), Entries: entries(101, 102, 4)}},
		{{Shard: 2, Reset: &Position{Index: 2, Term: 1}}},
		{{Shard: 3, Reset: &Position{Index: 7, Term: 2}}},
	} {
		must(t, "Write", l.Write(us))
		want = want.apply(effectsOf(us)...)
		checkState(t, "after Reset", l, want)
	}
	l = reopen(t, l, o)
	checkState(t, "after reopen", l, want.settled())
	must(t, "Truncate", l.Truncate(nil))
	l = reopen(t, l, o)
	checkState(t, "after Truncate(nil) dropped segments", l, want.settled())
}

func TestReserveNeverFalls(t *testing.T) {
	l := mustOpen(t, small(vfs.NewMem()))
	for _, step := range [][2]uint64{{5, 5}, {3, 5}, {0, 5}, {8, 8}} {
		must(t, "Write", l.Write([]Update{{Shard: 1, Reserve: step[0]}}))
		if got := l.Shard(1).Reserved(); got != step[1] {
			t.Errorf("Reserved() = %d after Reserve %d, want %d", got, step[0], step[1])
		}
	}
}

func TestDurable(t *testing.T) {
	l := mustOpen(t, small(vfs.NewMem()))
	s := l.Shard(1)
	check := func(when string, want uint64) {
		t.Helper()
		if got := s.Durable(); got != want {
			t.Errorf("Durable() = %d %s, want %d", got, when, want)
		}
	}
	must(t, "Write", l.Write([]Update{{Shard: 1, Entries: entries(1, 5, 1)}}))
	check("before Sync", 0)
	must(t, "Sync", l.Sync())
	check("after Sync", 5)
	must(t, "Write", l.Write([]Update{{Shard: 1, Entries: entries(4, 6, 2)}}))
	check("after overwriting 4", 3)
	must(t, "Sync", l.Sync())
	check("after Sync", 6)
	must(t, "Write", l.Write([]Update{{Shard: 1, Reset: &Position{Index: 20, Term: 2}}}))
	must(t, "Sync", l.Sync())
	check("after Reset to 20", 20)
}

// TestOverwriteDuringSync: entries that are replaced while a Sync is in flight are not durable when
// it returns.
func TestOverwriteDuringSync(t *testing.T) {
	var l *Log
	during := func() {}
	l = mustOpen(t, Options{Dir: testDir, FS: beforeWrites(vfs.NewMem(), func(op errorfs.Op) error {
		if l != nil && op.Kind == errorfs.OpFileSyncData {
			during()
		}
		return nil
	})})
	must(t, "Write", l.Write([]Update{{Shard: 1, Entries: entries(1, 5, 1)}, {Shard: 2, Entries: entries(1, 5, 1)}}))
	during = func() {
		during = func() {}
		must(t, "Write", l.Write([]Update{{Shard: 1, Entries: entries(3, 9, 2)}, {Shard: 2, Entries: entries(6, 9, 1)}}))
	}
	for i, want := range [][2]uint64{{2, 5}, {9, 9}} {
		must(t, "Sync", l.Sync())
		if got := [2]uint64{l.Shard(1).Durable(), l.Shard(2).Durable()}; got != want {
			t.Errorf("Durable() = %v after Sync %d, want %v", got, i+1, want)
		}
	}
}

func TestSettleMendsTornWrites(t *testing.T) {
	o := small(vfs.NewMem())
	l := mustOpen(t, o)
	must(t, "Write", l.Write([]Update{
		{Shard: 1, HardState: hard(3, 2, 90), Entries: entries(1, 4, 3)},                            // commit of lost entries
		{Shard: 2, HardState: hard(3, 2, 1), Entries: entries(1, 4, 5)},                             // entries of a lost hard state
		{Shard: 3, HardState: hard(3, 2, 1), Reset: &Position{Index: 8, Term: 3}, Reserve: 1 << 63}, // commit before a snapshot
	}))
	l = reopen(t, l, o)
	for shard, want := range map[uint16]*raftpb.HardState{1: hard(3, 2, 4), 2: hard(5, 0, 1), 3: hard(3, 2, 8)} {
		if got := l.Shard(shard).HardState(); got.String() != want.String() {
			t.Errorf("shard %d: HardState() = %v, want %v", shard, got, want)
		}
	}
}

func TestManyShards(t *testing.T) {
	o := small(vfs.NewMem())
	o.SegmentSize = 100 << 10
	l := mustOpen(t, o)
	want := state{}
	for round := uint64(1); round <= 5; round++ {
		var us []Update
		for id := range uint16(1000) {
			us = append(us, Update{Shard: id * 65, HardState: hard(1, 1, round-1), Entries: entries(round, round, 1)})
		}
		must(t, "Write", l.Write(us))
		want = want.apply(effectsOf(us)...)
	}
	l = reopen(t, l, o)
	checkState(t, "after reopen", l, want.settled())
}

func TestCacheBudget(t *testing.T) {
	o := small(vfs.NewMem())
	o.CacheBytes = 10_000
	l := mustOpen(t, o)
	big := strings.Repeat("x", 300)
	for i := uint64(1); i <= 200; i++ {
		us := []Update{{Shard: 1, Entries: []*raftpb.Entry{entry(i, 1, big)}}}
		if i <= 3 {
			us = append(us, Update{Shard: 2, Entries: []*raftpb.Entry{entry(i, 1, big)}})
		}
		must(t, "Write", l.Write(us))
		if l.inCache > o.CacheBytes {
			t.Fatalf("%d bytes cached after entry %d, want at most %d", l.inCache, i, o.CacheBytes)
		}
	}
	if got := len(l.Shard(2).cache); got != 3 {
		t.Errorf("the quiet shard has %d entries cached, want all 3", got)
	}
	if got := len(l.Shard(1).cache); got < 10 {
		t.Errorf("the busy shard has %d entries cached, want most of the budget", got)
	}
	must(t, "Truncate", l.Truncate(map[uint16]uint64{1: 200, 2: 3}))
	if l.inCache != 0 || l.Shard(1).cacheBytes != 0 {
		t.Errorf("%d bytes cached of an empty log, want 0", l.inCache)
	}
}

func TestClosedLog(t *testing.T) {
	l := mustOpen(t, small(vfs.NewMem()))
	us := []Update{{Shard: 1, Entries: entries(1, 3, 1)}}
	must(t, "Write", l.Write(us))
	must(t, "Close", l.Close())
	for call, err := range map[string]error{"Write": l.Write(us), "Sync": l.Sync(), "Truncate": l.Truncate(nil)} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close = %v, want %v", call, err, ErrClosed)
		}
	}
	checkState(t, "after Close", l, state{}.apply(effectsOf(us)...))
}

func TestLargeEntryOnRealDisk(t *testing.T) {
	o := Options{FS: vfs.Default, Dir: t.TempDir() + "/a/b", SegmentSize: 1 << 20, CacheBytes: 1 << 10}
	l := mustOpen(t, o)
	var us []Update
	for i := range uint64(5) {
		us = append(us, Update{Shard: 1, Entries: []*raftpb.Entry{entry(i+1, 1, strings.Repeat("0123456789", 90_000))}})
	}
	must(t, "Write", l.Write(us))
	want := state{}.apply(effectsOf(us)...)
	checkState(t, "after Write", l, want)
	l = reopen(t, l, o)
	checkState(t, "after reopen", l, want.settled())
	must(t, "Truncate", l.Truncate(map[uint16]uint64{1: 4}))
	l = reopen(t, l, o)
	checkState(t, "after Truncate", l, want.settled().apply(want.cutsOf(map[uint16]uint64{1: 4})...).settled())
}

func TestWriteAllocatesNothing(t *testing.T) {
	l := mustOpen(t, Options{FS: discardFS{vfs.NewMem()}, Dir: testDir, SegmentSize: 1 << 40})
	us := make([]Update, 4)
	next := uint64(0)
	es := entries(1, 5000, 1)
	got := testing.AllocsPerRun(1000, func() {
		for i := range us {
			us[i] = Update{Shard: uint16(i), HardState: us[i].HardState, Entries: es[next : next+1]}
		}
		next++
		if err := l.Write(us); err != nil {
			t.Fatal(err)
		}
	})
	if got > 0 {
		t.Errorf("Write of four entries allocates %.1f times, want 0", got)
	}
}

// discardFS forgets what is written, to measure what the log costs by itself.
type discardFS struct{ vfs.FS }

func (d discardFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	return discardFile{f}, err
}

type discardFile struct{ vfs.File }

func (discardFile) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
