package arena

import "bytes"

// Arena makes copies that stay valid until Reset, or indefinitely if the Arena is dropped instead.
// The zero value is ready for use.
type Arena struct {
	// Chunk is the number of bytes allocated at a time. A retained copy retains its whole chunk. 0
	// starts with 4 KiB, for small uses, and grows up to 256 KiB.
	Chunk int

	chunks [][]byte // chunks[:used] are in use, the last of them is being filled
	used   int
}

const (
	firstChunk = 4 << 10
	lastChunk  = 256 << 10
	growth     = 4
	kept       = 2 << 20 // bytes of chunks that Reset keeps
)

// Copy returns a copy of b, never nil. A copy larger than a quarter of a chunk gets its own memory.
func (a *Arena) Copy(b []byte) []byte {
	if len(b) == 0 {
		return []byte{}
	}
	largest := lastChunk
	if a.Chunk > 0 {
		largest = a.Chunk
	}
	if len(b) > largest/4 {
		return bytes.Clone(b)
	}
	for a.used == 0 || cap(a.chunks[a.used-1])-len(a.chunks[a.used-1]) < len(b) {
		a.next()
	}
	chunk := &a.chunks[a.used-1]
	start := len(*chunk)
	*chunk = append(*chunk, b...)
	return (*chunk)[start:len(*chunk):len(*chunk)]
}

// next starts the next chunk, allocating one if all are in use.
func (a *Arena) next() {
	if a.used == len(a.chunks) {
		size := a.Chunk
		switch {
		case size > 0:
		case a.used == 0:
			size = firstChunk
		default:
			size = min(growth*cap(a.chunks[a.used-1]), lastChunk)
		}
		a.chunks = append(a.chunks, make([]byte, 0, size))
	}
	a.chunks[a.used] = a.chunks[a.used][:0]
	a.used++
}

// Reset invalidates all copies and reuses their memory. It keeps at most 2 MiB, so that one huge
// batch does not hold its memory indefinitely.
func (a *Arena) Reset() {
	n, bytes := 0, 0
	for n < len(a.chunks) && bytes+cap(a.chunks[n]) <= kept {
		bytes += cap(a.chunks[n])
		n++
	}
	clear(a.chunks[n:])
	a.chunks, a.used = a.chunks[:n], 0
}
