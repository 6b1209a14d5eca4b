package raftlog

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// TestModel does random operations with random restarts under random sizes and compares with the
// model after each.
func TestModel(t *testing.T) {
	runs := 40
	if brief() {
		runs = 10
	}
	for range runs {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 5))
		fs := vfs.NewMem()
		o := Options{FS: fs, Dir: testDir, SegmentSize: 1 + rng.Int64N(8000), CacheBytes: 1 + rng.Int64N(20_000)}
		d := newDriver(seed, mustOpen(t, o), 1+rng.IntN(6))
		for i := range 150 {
			what := fmt.Sprintf("seed %d: step %d", seed, i)
			must(t, what, d.step())
			if rng.IntN(20) == 0 {
				d.log = reopen(t, d.log, o)
				d.base, d.history = d.now.settled(), nil
				d.now = d.base
			}
			checkState(t, what, d.log, d.now)
			checkReads(t, what, rng, d)
		}
		must(t, "Close", d.log.Close())
	}
}

// checkReads compares the reads of a random range with those of raft's own storage.
func checkReads(t *testing.T, what string, rng *rand.Rand, d *driver) {
	t.Helper()
	id := uint16(rng.IntN(d.shards))
	sh, s := d.now[id], d.log.Shard(id)
	mem := raft.NewMemoryStorage()
	meta := &raftpb.SnapshotMetadata{Index: new(sh.compacted.Index), Term: new(sh.compacted.Term)}
	must(t, "ApplySnapshot", mem.ApplySnapshot(&raftpb.Snapshot{Metadata: meta}))
	must(t, "Append", mem.Append(sh.entries))
	i := sh.compacted.Index + uint64(rng.IntN(len(sh.entries)+3)) - min(1, sh.compacted.Index)
	gotTerm, gotErr := s.Term(i)
	if want, err := mem.Term(i); gotTerm != want || gotErr != err {
		t.Fatalf("%s: shard %d: Term(%d) = %d, %v, want %d, %v", what, id, i, gotTerm, gotErr, want, err)
	}
	if len(sh.entries) == 0 {
		return
	}
	lo := sh.compacted.Index + 1 + uint64(rng.IntN(len(sh.entries)))
	hi := lo + 1 + uint64(rng.IntN(int(sh.last()-lo)+1))
	limit := uint64(rng.IntN(4000))
	got, gotErr := s.Entries(lo, hi, limit)
	want, err := mem.Entries(lo, hi, limit)
	if gotErr != err || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s: shard %d: Entries(%d, %d, %d) = %v, %v, want %v, %v", what, id, lo, hi, limit, got, gotErr, want, err)
	}
}

// TestConcurrentUse writes, syncs, truncates, prepares and reads at once. Readers see each entry as
// it was written, or that it was compacted; what Durable says never exceeds what was written.
func TestConcurrentUse(t *testing.T) {
	const shards, rounds = 4, 400
	o := Options{FS: vfs.NewMem(), Dir: testDir, SegmentSize: 8 << 10, CacheBytes: 4 << 10}
	l := mustOpen(t, o)
	done := make(chan struct{})
	var wg sync.WaitGroup
	loop := func(fn func(id uint16)) {
		wg.Go(func() {
			for id := uint16(0); ; id = (id + 1) % shards {
				select {
				case <-done:
					return
				default:
					fn(id)
				}
			}
		})
	}
	for range 2 {
		loop(func(id uint16) { checkConcurrentRead(t, l.Shard(id)) })
	}
	loop(func(uint16) {
		if err := l.Sync(); err != nil {
			t.Errorf("Sync: %v", err)
		}
	})
	loop(func(id uint16) {
		if err := l.Prepare(t.Context()); err != nil {
			t.Errorf("Prepare: %v", err)
		}
		if id > 0 {
			return
		}
		if err := l.ReleaseSpare(); err != nil {
			t.Errorf("ReleaseSpare: %v", err)
		}
	})
	for i := uint64(1); i <= rounds; i++ {
		var us []Update
		for id := range uint16(shards) {
			us = append(us, Update{Shard: id, HardState: hard(i, 1, i), Entries: entries(i, i, i)})
		}
		must(t, "Write", l.Write(us))
		if i%50 == 0 {
			must(t, "Truncate", l.Truncate(map[uint16]uint64{0: i - 20, 1: i - 20, 2: i - 20, 3: i - 40}))
		}
	}
	close(done)
	wg.Wait()
	must(t, "Sync", l.Sync())
	for id := range uint16(shards) {
		if got := l.Shard(id).Durable(); got != rounds {
			t.Errorf("shard %d: Durable() = %d, want %d", id, got, rounds)
		}
	}
	want, err := read(l)
	must(t, "read", err)
	l = reopen(t, l, o)
	checkState(t, "after reopen", l, want.settled())
}

func checkConcurrentRead(t *testing.T, s *Shard) {
	durable, first, last := s.Durable(), s.FirstIndex(), s.LastIndex()
	if durable > last {
		t.Errorf("shard %d: Durable() = %d, LastIndex() = %d after it", s.id, durable, last)
	}
	if first > last {
		return
	}
	es, err := s.Entries(first, last+1, math.MaxUint64)
	if err != nil && err != raft.ErrCompacted {
		t.Errorf("shard %d: Entries(%d, %d): %v", s.id, first, last+1, err)
	}
	for k, e := range es {
		i := first + uint64(k)
		if want := entries(i, i, i)[0]; e.String() != want.String() {
			t.Errorf("shard %d: entry %v, want %v", s.id, e, want)
		}
	}
}
