package ual

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"
)

// BenchmarkAppend measures durable appends: one Write of one entry for each caller, then Sync, as group commit does it. The
// bare loop writes the same number of bytes with the same number of system calls; the ratio of the two is what the log
// costs.
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
