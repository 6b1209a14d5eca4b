package ual

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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

// BenchmarkFiles measures Write and Sync of one batch by what the bytes go into: a bare file that grows with each, and the log in a
// file that grows too, in blocks written ahead, in files prepared in the background, in those of dropped segments. All take turns, so
// that noise is shared; the figures are medians, in microseconds.
func BenchmarkFiles(b *testing.B) {
	for _, size := range []int{300, 20_000, 80_000} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) { benchmarkFiles(b, size) })
	}
}

func benchmarkFiles(b *testing.B, size int) {
	bare, err := vfs.Default.Create(b.TempDir()+"/bare", writeCategory)
	must(b, "Create", err)
	defer bare.Close()
	buf := make([]byte, recordSize(size))
	names := []string{"bare", "growing", "ahead", "prepared", "recycled"}
	rounds := []func(){func() {
		_, err := bare.Write(buf)
		must(b, "Write", err)
		must(b, "SyncData", bare.SyncData())
	}}
	var between []func()
	for _, files := range names[1:] {
		o := Options{FS: vfs.Default, Dir: b.TempDir(), SegmentSize: 64 << 20, CacheBytes: -1}
		if files == "growing" {
			o.Spares = -1
		}
		if files == "prepared" || files == "recycled" {
			o.SegmentSize = 8 << 20
		}
		l := mustOpen(b, o)
		next, data := uint64(0), strings.Repeat("x", size)
		round := func() {
			next++
			must(b, "Write", l.Write([]Update{{Shard: 1, Entries: []*raftpb.Entry{entry(next, 1, data)}}}))
			must(b, "Sync", l.Sync())
		}
		if files == "prepared" || files == "recycled" {
			for l.Size() < 17<<20 {
				next++
				must(b, "Write", l.Write([]Update{{Shard: 1, Entries: []*raftpb.Entry{entry(next, 1, strings.Repeat("x", 1<<20))}}}))
				must(b, "Prepare", l.Prepare(b.Context()))
			}
		}
		rounds = append(rounds, round)
		switch files {
		case "prepared":
			between = append(between, func() { must(b, "Prepare", l.Prepare(b.Context())) })
		case "recycled":
			between = append(between, func() {
				if l.Size() > 9<<20 {
					must(b, "Truncate", l.Truncate(map[uint16]uint64{1: next}))
				}
			})
		}
	}
	times := make([][]time.Duration, len(rounds))
	for b.Loop() {
		for i, round := range rounds {
			start := time.Now()
			round()
			times[i] = append(times[i], time.Since(start))
		}
		for _, f := range between {
			f()
		}
	}
	b.ReportMetric(0, "ns/op")
	medians := make([]float64, len(rounds))
	for i, name := range names {
		slices.Sort(times[i])
		medians[i] = float64(times[i][len(times[i])/2].Nanoseconds()) / 1000
		mean := 0.0
		for _, d := range times[i] {
			mean += float64(d.Nanoseconds()) / 1000
		}
		b.ReportMetric(mean/float64(len(times[i])), name+"-mean")
		b.ReportMetric(medians[i], name+"-us")
	}
	b.ReportMetric(medians[4]/medians[0], "recycled/bare")
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
