package engine

import (
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// TestFreshRowBits: a row sets six bits of its block, as derived from its hash. A filter has a row
// only if all of them are set.
func TestFreshRowBits(t *testing.T) {
	const blocks = minFreshRows * freshRowBits / 512
	for hash, block := range map[uint64]int{
		0: 0, math.MaxUint64: blocks - 1, 1 << 63: blocks / 2, 0x1234567890abcdef: 0x12345678 * blocks >> 32,
	} {
		var f freshRows
		f.add(hash, 1)
		var want freshBlock
		numbers := hash * 0x9e3779b97f4a7c15 >> 10
		for i := range 6 {
			n := numbers >> (9 * i) % 512
			want[n/64] |= 1 << (n % 64)
		}
		filter := f.filters[0]
		for i, got := range filter.blocks {
			if i == block && got != want || i != block && got != (freshBlock{}) {
				t.Errorf("hash %x sets %x in block %d of %d", hash, got, i, len(filter.blocks))
			}
		}
		if !filter.has(hash) {
			t.Errorf("hash %x is not found", hash)
		}
		for i, word := range want {
			for ; word != 0; word &= word - 1 {
				filter.blocks[block][i] ^= 1 << bits.TrailingZeros64(word)
				if filter.has(hash) {
					t.Errorf("hash %x is found without one of its bits", hash)
				}
				filter.blocks[block][i] ^= 1 << bits.TrailingZeros64(word)
			}
		}
	}
}

func TestFreshRowsAreFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	var f freshRows
	const rows = 3 * minFreshRows
	for range rows {
		h := rng.Uint64()
		if f.add(h, 1); !f.may(h, 1) {
			t.Fatalf("row %x is not found", h)
		}
	}
	found := 0
	for range rows {
		if f.may(rng.Uint64(), 1) {
			found++
		}
	}
	if f.rows() != rows || len(f.filters) != 2 || found > rows/30 {
		t.Errorf("%d rows in %d filters, %d of %d others are found", f.rows(), len(f.filters), found, rows)
	}
}

// TestFreshFilters: filters double in size, the oldest are dropped when their rows are flushed, and
// too many of them are dropped together.
func TestFreshFilters(t *testing.T) {
	var f freshRows
	room := minFreshRows
	for i := range maxFreshFilters {
		f.add(1, uint64(10*i))
		last := f.filters[i]
		if len(f.filters) != i+1 || last.room != room || last.rows != 1 || len(last.blocks) != room*14/512 {
			t.Fatalf("filter %d: %d filters, room %d, %d rows", i, len(f.filters), last.room, last.rows)
		}
		last.rows = room - 1
		f.add(1, uint64(10*i+1))
		if len(f.filters) != i+1 || last.rows != room {
			t.Fatalf("filter %d has %d rows, there are %d filters", i, last.rows, len(f.filters))
		}
		room = min(2*room, maxFreshRows)
	}
	latest := uint64(10*maxFreshFilters - 9)
	if !f.may(1, 0) || f.may(2, 0) {
		t.Error("found: the filters do not hold hash 1 alone")
	}
	f.add(2, latest+1)
	if len(f.filters) != 1 || f.floor != latest || f.filters[0].room != maxFreshRows || f.filters[0].last != latest+1 {
		t.Errorf("%d filters from %d on", len(f.filters), f.floor)
	}
	// Before the floor nothing is known.
	if !f.may(1, latest-1) || f.may(1, latest) || !f.may(2, latest) {
		t.Error("rows of dropped filters are known to be flushed too early or too late")
	}
	f.filters[0].rows = maxFreshRows
	f.add(3, latest+5)
	if f.flushed(latest); len(f.filters) != 2 {
		t.Errorf("%d filters, want 2", len(f.filters))
	}
	if f.flushed(latest + 1); len(f.filters) != 1 || f.filters[0].last != latest+5 || f.rows() != 1 {
		t.Errorf("%d filters with %d rows", len(f.filters), f.rows())
	}
	if f.flushed(latest + 5); len(f.filters) != 0 || f.may(3, latest) {
		t.Errorf("%d filters, want none", len(f.filters))
	}
}

// TestRecentHashes: a replica knows its hashes after the last recentHashes entries.
func TestRecentHashes(t *testing.T) {
	h := hashes{ring: make([]leftState, recentHashes)}
	known := func(index uint64, want bool) {
		t.Helper()
		hash, lsn, ok := h.at(index)
		if ok != want || ok && (hash != index*3 || lsn != LSN(index*5)) || !ok && (hash != 0 || lsn != 0) {
			t.Errorf("after entry %d: hash %d, LSN %d, %t, want %t", index, hash, lsn, ok, want)
		}
	}
	note := func(index uint64) { h.note(Applied{Index: index, Hash: index * 3, LSN: LSN(index * 5)}) }
	known(0, false)
	note(1)
	known(0, false)
	known(1, true)
	known(2, false)
	h.reset(Applied{Index: 10, Hash: 30, LSN: 50})
	known(1, false)
	known(9, false)
	known(10, true)
	for i := range uint64(recentHashes - 1) {
		note(11 + i)
	}
	known(10, true)
	known(11, true)
	known(recentHashes+9, true)
	known(recentHashes+10, false)
	note(recentHashes + 10)
	known(10, false)
	known(11, true)
	known(recentHashes+10, true)
	h.ring = nil
	h.reset(Applied{Index: 7})
	known(7, false)
}

// TestHashOfEntry: the hash is that of the previous hash and the entry's writes, in their order.
func TestHashOfEntry(t *testing.T) {
	var h hashes
	for _, before := range []uint64{7, 1 << 63} {
		over := newOverlay()
		over.set([]byte("gone"), []byte("x"), false)
		over.settle() // written by an earlier command
		over.set([]byte("k"), []byte("v"), false)
		over.insert([]byte("new"), []byte("w"))
		over.set([]byte("gone"), nil, true)
		over.deleteRange([]byte("a"), []byte("b"))
		h.start(before)
		h.write(over)
		want := xxhash.Sum64(append(binary.LittleEndian.AppendUint64(nil, before), "kvnewwgoneab"...))
		if got := h.digest.Sum64(); got != want {
			t.Errorf("after hash %x: %x, want %x", before, got, want)
		}
	}
}
