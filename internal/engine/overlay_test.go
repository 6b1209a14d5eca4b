package engine

import (
	"bytes"
	"testing"
)

// TestArenaHoldsManyChunks: the size of chunks was shifted without bound, and became 0 after a few MiB, for ever.
func TestArenaHoldsManyChunks(t *testing.T) {
	var a arena
	for range 2 {
		var pieces [][]byte
		for i := range 300 {
			pieces = append(pieces, a.copy(bytes.Repeat([]byte{byte(i)}, arenaChunk/4-i)))
		}
		for i, piece := range pieces {
			if !bytes.Equal(piece, bytes.Repeat([]byte{byte(i)}, arenaChunk/4-i)) {
				t.Fatalf("piece %d of %d bytes has changed", i, len(piece))
			}
		}
		if n := len(a.chunks); n < 70 {
			t.Errorf("%d chunks for %d pieces: they are not in chunks", n, len(pieces))
		}
		a.reset()
	}
}
