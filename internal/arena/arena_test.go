package arena

import (
	"bytes"
	"fmt"
	"testing"
)

// pieceOf returns what is copied as the i-th piece.
func pieceOf(i, size int) []byte { return bytes.Repeat([]byte{byte(i)}, size) }

// TestCopies fills arenas with more than Reset keeps, over and over: the size of chunks was once
// shifted without bound, and became 0 after a few MiB, for ever.
func TestCopies(t *testing.T) {
	for _, chunk := range []int{0, 4 << 10} {
		for _, size := range []int{1, 100, 1024, 1025, lastChunk/4 - 300, lastChunk / 4} {
			t.Run(fmt.Sprintf("chunks of %d, pieces of %d", chunk, size), func(t *testing.T) {
				a := Arena{Chunk: chunk}
				for range 3 {
					pieces := make([][]byte, 300)
					for i := range pieces {
						b := pieceOf(i, size+i%7)
						pieces[i] = a.Copy(b)
						clear(b)
					}
					for i, piece := range pieces {
						if !bytes.Equal(piece, pieceOf(i, size+i%7)) {
							t.Fatalf("piece %d of %d bytes has changed", i, len(piece))
						}
						pieces[i] = append(piece, "behind it"...) // must not write into the next piece
					}
					a.Reset()
					if n := a.bytes(); n > kept {
						t.Errorf("Reset keeps %d bytes, want at most %d", n, kept)
					}
				}
			})
		}
	}
}

func (a *Arena) bytes() (n int) {
	for _, c := range a.chunks {
		n += cap(c)
	}
	return n
}

func TestCopyOfNothingIsNotNil(t *testing.T) {
	var a Arena
	if b := a.Copy(nil); b == nil || len(b) > 0 {
		t.Errorf("Copy(nil) = %#v, want an empty slice", b)
	}
}

func TestChunksGrow(t *testing.T) {
	var a Arena
	a.Copy([]byte("x"))
	if n := a.bytes(); n != firstChunk {
		t.Errorf("one byte takes %d bytes, want %d", n, firstChunk)
	}
	for range kept / 1024 {
		a.Copy(make([]byte, 1024))
	}
	if n := cap(a.chunks[len(a.chunks)-1]); n != lastChunk {
		t.Errorf("the last chunk has %d bytes, want %d", n, lastChunk)
	}
	a.Reset()
	chunks := a.bytes()
	for range kept / 1024 / 2 {
		a.Copy(make([]byte, 1024))
	}
	if n := a.bytes(); n != chunks {
		t.Errorf("%d bytes of chunks after Reset, %d when they are filled again: they are not used again", chunks, n)
	}
}

func TestCopyAllocatesNothingAfterReset(t *testing.T) {
	var a Arena
	b := make([]byte, 100)
	fill := func() {
		a.Reset()
		for range 1000 {
			a.Copy(b)
		}
	}
	fill()
	if n := testing.AllocsPerRun(10, fill); n > 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
