package raftlog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"
)

// BenchmarkAppend measures durable appends: one Write of one entry for each caller, then Sync, as
// group commit does it. The bare loop writes the same number of bytes with the same number of
// system calls; the ratio of the two is what the log costs.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{256, 4096} {
		for _, callers := range []int{1, 8, 64} {
			params := fmt.Sprintf("size=%d/callers=%d", size, callers)
			b.Run("log=bare/"+params, func(b *testing.B) { benchmarkBare(b, size, callers) })
			b.Run("log=ual/"+params, func(b *testing.B) { benchmarkLog(b, size, callers, true) })
			b.Run("log=ual-unsynced/"+params, func(b *testing.B) { benchmarkLog(b, size, callers, false) })
		}
	}
}

func benchmarkBare(b *testing.B, size, callers int) {
	f, err := vfs.Default.Create(b.TempDir()+"/bare", writeCategory)
	must(b, "Create", err)
	defer f.Close()
	buf := make([]byte, int(recordSize(size))*callers)
	b.SetBytes(int64(size * callers))
	b.ReportAllocs()
	for b.Loop() {
		_, err := f.Write(buf)
		must(b, "Write", err)
		must(b, "SyncData", f.SyncData())
	}
	b.ReportMetric(float64(b.N*callers)/b.Elapsed().Seconds(), "appends/s")
}

func benchmarkLog(b *testing.B, size, callers int, sync bool) {
	l := mustOpen(b, Options{FS: vfs.Default, Dir: b.TempDir()})
	data := strings.Repeat("x", size)
	us := make([]Update, callers)
	batch := make([]*raftpb.Entry, callers)
	next := uint64(0)
	b.SetBytes(int64(size * callers))
	b.ReportAllocs()
	for b.Loop() {
		next++
		for i := range us {
			batch[i] = entry(next, 1, data)
			us[i] = Update{Shard: uint16(i), Entries: batch[i : i+1]}
		}
		must(b, "Write", l.Write(us))
		if sync {
			must(b, "Sync", l.Sync())
		}
		if next%10_000 == 0 {
			upTo := make(map[uint16]uint64, callers)
			for i := range us {
				upTo[uint16(i)] = next
			}
			must(b, "Truncate", l.Truncate(upTo))
		}
	}
	b.ReportMetric(float64(b.N*callers)/b.Elapsed().Seconds(), "appends/s")
}

// BenchmarkFiles measures Write and Sync of one batch by what the bytes go into: a bare file that
// grows with each, and the log in a file that grows too, in blocks written ahead, in files prepared
// in the background, in those of dropped segments. All take turns, so that noise is shared; the
// figures are medians, in microseconds.
func BenchmarkFiles(b *testing.B) {
	for _, size := range []int{300, 20_000, 80_000} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) { benchmarkFiles(b, size) })
	}
}

func benchmarkFiles(b *testing.B, size int) {
	kinds := []struct {
		name string
		open func(b *testing.B, size int) (round, between func())
	}{
		{"bare", bareRounds}, {"growing", growingRounds}, {"ahead", aheadRounds}, {"prepared", preparedRounds}, {"recycled",
			recycledRounds},
	}
	rounds, between := make([]func(), len(kinds)), make([]func(), len(kinds))
	for i, k := range kinds {
		rounds[i], between[i] = k.open(b, size)
	}
	times := make([][]float64, len(kinds))
	for b.Loop() {
		for i, round := range rounds {
			start := time.Now()
			round()
			times[i] = append(times[i], float64(time.Since(start).Nanoseconds())/1000)
			between[i]()
		}
	}
	b.ReportMetric(0, "ns/op")
	median := func(i int) float64 {
		slices.Sort(times[i])
		return times[i][len(times[i])/2]
	}
	for i, k := range kinds {
		b.ReportMetric(median(i), k.name+"-us")
		if i > 1 {
			b.ReportMetric(median(i)/median(0), k.name+"/bare")
		}
	}
}

func bareRounds(b *testing.B, size int) (round, between func()) {
	f, err := vfs.Default.Create(b.TempDir()+"/bare", writeCategory)
	must(b, "Create", err)
	b.Cleanup(func() { _ = f.Close() })
	buf := make([]byte, recordSize(size))
	return func() {
		_, err := f.Write(buf)
		must(b, "Write", err)
		must(b, "SyncData", f.SyncData())
	}, func() {}
}

func growingRounds(b *testing.B, size int) (round, between func()) {
	l := mustOpen(b, Options{FS: vfs.Default, Dir: b.TempDir(), CacheBytes: -1, Spares: -1})
	return logRound(b, l, size), func() {}
}

func aheadRounds(b *testing.B, size int) (round, between func()) {
	l := mustOpen(b, Options{FS: vfs.Default, Dir: b.TempDir(), CacheBytes: -1})
	return logRound(b, l, size), func() {}
}

func preparedRounds(b *testing.B, size int) (round, between func()) {
	l := mustOpen(b, Options{FS: vfs.Default, Dir: b.TempDir(), CacheBytes: -1, SegmentSize: 8 << 20})
	between = func() { must(b, "Prepare", l.Prepare(b.Context())) }
	for ; l.tail.number < 2; between() {
		logRound(b, l, 1<<20)()
	}
	return logRound(b, l, size), between
}

func recycledRounds(b *testing.B, size int) (round, between func()) {
	l := mustOpen(b, Options{FS: vfs.Default, Dir: b.TempDir(), CacheBytes: -1, SegmentSize: 8 << 20})
	between = func() {
		if l.Size() > l.segmentSize {
			must(b, "Truncate", l.Truncate(map[uint16]uint64{1: l.Shard(1).LastIndex()}))
		}
	}
	for ; l.tail.number < 4; between() {
		logRound(b, l, 1<<20)()
	}
	return logRound(b, l, size), between
}

// logRound returns what writes and syncs one entry.
func logRound(b *testing.B, l *Log, size int) func() {
	data := strings.Repeat("x", size)
	return func() {
		e := entry(l.Shard(1).LastIndex()+1, 1, data)
		must(b, "Write", l.Write([]Update{{Shard: 1, Entries: []*raftpb.Entry{e}}}))
		must(b, "Sync", l.Sync())
	}
}

// BenchmarkEntries measures reads of 64 entries, from the cache and from the disk.
func BenchmarkEntries(b *testing.B) {
	for _, cache := range []int64{-1, 1 << 20} {
		b.Run(fmt.Sprintf("cached=%v", cache > 0), func(b *testing.B) {
			l := mustOpen(b, Options{FS: vfs.Default, Dir: b.TempDir(), CacheBytes: cache})
			must(b, "Write", l.Write([]Update{{Shard: 1, Entries: entries(1, 64, 1)}}))
			b.ReportAllocs()
			for b.Loop() {
				es, err := l.Shard(1).Entries(1, 65, 1<<20)
				if len(es) != 64 || err != nil {
					b.Fatalf("Entries(1, 65) = %d entries, %v, want 64", len(es), err)
				}
			}
		})
	}
}

// BenchmarkOpen measures the replay of a log of small entries.
func BenchmarkOpen(b *testing.B) {
	o := Options{FS: vfs.Default, Dir: b.TempDir()}
	l := mustOpen(b, o)
	for i := range uint64(1000) {
		must(b, "Write", l.Write([]Update{{Shard: uint16(i % 8), Entries: entries(i/8*200+1, i/8*200+200, 1)}}))
	}
	must(b, "Close", l.Close())
	b.SetBytes(l.Size())
	b.ReportAllocs()
	for b.Loop() {
		_, err := Open(o)
		must(b, "Open", err)
	}
	b.ReportMetric(200_000*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}
