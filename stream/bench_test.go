package stream_test

import (
	"bytes"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/floedb/floe"
	"github.com/floedb/floe/stream"
)

func benchNode(b *testing.B) *floe.Node {
	b.Helper()
	n, err := floe.Open(floe.Config{DataDir: b.TempDir(), Shards: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { n.Close() })
	return n
}

// parallel runs f concurrently, once per caller.
func parallel(b *testing.B, callers int, f func(caller int) error) {
	b.SetParallelism((callers + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
	b.ReportAllocs()
	var n atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		caller := int(n.Add(1))
		for pb.Next() {
			if err := f(caller); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkAppend measures durable appends, next to puts of the same size on the same disk.
func BenchmarkAppend(b *testing.B) {
	const callers = 64
	payload := bytes.Repeat([]byte("x"), 256)
	b.Run("work=put", func(b *testing.B) {
		s := benchNode(b).KV("default")
		var n atomic.Int64
		parallel(b, callers, func(int) error {
			_, err := s.Put(b.Context(), fmt.Sprint("key", n.Add(1)), payload)
			return err
		})
	})
	b.Run("work=overwrite", func(b *testing.B) {
		s := benchNode(b).KV("default")
		parallel(b, callers, func(caller int) error {
			_, err := s.Put(b.Context(), "key", payload)
			return err
		})
	})
	for _, partitions := range []int{1, 16} {
		b.Run(fmt.Sprintf("work=append/partitions=%d", partitions), func(b *testing.B) {
			s := benchNode(b).Stream("default")
			create(b, s, "log", stream.Partitions(partitions))
			parallel(b, callers, func(int) error {
				_, err := s.Append(b.Context(), "log", stream.Message{Payload: payload})
				return err
			})
		})
	}
	b.Run("work=batch/records=100", func(b *testing.B) {
		s := benchNode(b).Stream("default")
		kib := bytes.Repeat([]byte("x"), 1<<10)
		msgs := make([]stream.Message, 100)
		for i := range msgs {
			msgs[i].Payload = kib
		}
		b.SetBytes(100 << 10)
		parallel(b, callers, func(int) error {
			_, err := s.AppendMany(b.Context(), "log", msgs)
			return err
		})
	})
}

// BenchmarkRead reads 100 records in the middle of a stream.
func BenchmarkRead(b *testing.B) {
	for _, records := range []int{10_000, 1_000_000} {
		_, s := newStore(b)
		msgs := make([]stream.Message, 10_000)
		for i := range msgs {
			msgs[i].Payload = []byte("payload")
		}
		var middle stream.ID
		for i := range records / len(msgs) {
			all, err := s.AppendMany(b.Context(), "log", msgs)
			if err != nil {
				b.Fatal(err)
			}
			if i == records/len(msgs)/2 {
				middle = all[0].ID
			}
		}
		b.Run(fmt.Sprintf("records=%d", records), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if recs, err := s.Read(b.Context(), "log", stream.From(middle)); err != nil || len(recs) != 100 {
					b.Fatal(len(recs), err)
				}
			}
		})
	}
}

// BenchmarkMemory appends, reads as a group member and acknowledges without a disk, so it shows the
// cost of the commands alone.
func BenchmarkMemory(b *testing.B) {
	for _, records := range []int{1, 100} {
		b.Run(fmt.Sprintf("work=append/records=%d", records), func(b *testing.B) {
			_, s := newStore(b)
			msgs := make([]stream.Message, records)
			for i := range msgs {
				msgs[i] = stream.Message{Key: "key", Payload: []byte("payload"), Headers: map[string]string{"trace": "1"}}
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.AppendMany(b.Context(), "log", msgs); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("work=read and ack/records=%d", records), func(b *testing.B) {
			_, s := newStore(b)
			for range 100 {
				if _, err := s.AppendMany(b.Context(), "log", make([]stream.Message, 3000)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for left := 300_000; b.Loop(); left -= records {
				if left < records {
					b.StopTimer()
					if err := s.Seek(b.Context(), "log", "g", stream.FromBeginning()); err != nil {
						b.Fatal(err)
					}
					left = 300_000
					b.StartTimer()
				}
				ds, err := s.ReadGroup(b.Context(), "log", "g", "c", stream.Limit(records))
				if err != nil || len(ds) != records {
					b.Fatal(len(ds), err)
				}
				if n, err := s.Ack(b.Context(), "log", "g", stream.RefsOf(ds)...); err != nil || n != records {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// TestAppendAllocations pins the allocations of an append, from the store to the rows.
func TestAppendAllocations(t *testing.T) {
	_, s := newStore(t)
	create(t, s, "log", stream.Partitions(3))
	msg := text("payload")
	allocs := testing.AllocsPerRun(500, func() {
		if _, err := s.Append(t.Context(), "log", msg); err != nil {
			t.Fatal(err)
		}
	})
	const most = 30 // 17 today, and more under the race detector
	t.Logf("%v allocations", allocs)
	if allocs > most {
		t.Errorf("an append allocates %v times, want at most %d", allocs, most)
	}
}

// TestReadIsASeek reads in the middle of two streams, one a hundred times as long as the other: no
// read visits the records before its start.
func TestReadIsASeek(t *testing.T) {
	rows := func(batches int) float64 {
		_, s := newStore(t)
		var middle stream.ID
		for i := range batches {
			all, err := s.AppendMany(t.Context(), "log", make([]stream.Message, 1000))
			if err != nil {
				t.Fatal(err)
			}
			if i == batches/2 {
				middle = all[500].ID
			}
		}
		return testing.AllocsPerRun(20, func() {
			if recs, err := s.Read(t.Context(), "log", stream.From(middle), stream.Limit(10)); err != nil || len(recs) != 10 {
				t.Errorf("Read = %d records, %v", len(recs), err)
			}
		})
	}
	// Each row visited costs at least one allocation; finding the first row costs one visit per
	// doubling.
	if small, large := rows(1), rows(100); large > 2*small {
		t.Errorf("a read in the middle of 100,000 records allocates %v times, of 1,000 %v times", large, small)
	}
}
