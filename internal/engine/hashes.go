package engine

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// recentHashes is the number of past entries for which a replica keeps its hash. A comparison is
// applied some entries after its subject, and its answers some more entries later: hundreds on a
// busy shard.
const recentHashes = 4096

// hashes chains the writes of all entries into the hash of the state, and holds the data for
// comparing the hashes of replicas. It belongs to the goroutine that applies.
//
//	hash of entry n = xxhash(hash of entry n-1 | its writes, in their order)
type hashes struct {
	digest      xxhash.Digest // of the entry being applied
	ring        []leftState   // by index of the entry, modulo its length; nil: no hashes are kept
	first, last uint64        // indexes in ring; first is 0 if it is empty
	compared    []Comparison  // applied since the last call of Executor.Compared
}

// leftState is the state after an entry.
type leftState struct {
	hash uint64
	lsn  LSN
}

// reset forgets all entries but the last applied.
func (h *hashes) reset(a Applied) {
	h.first, h.last = 0, 0
	h.compared = h.compared[:0]
	h.note(a)
}

// start begins the hash of an entry with that of the previous one.
func (h *hashes) start(before uint64) {
	h.digest.Reset()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], before)
	h.digest.Write(b[:])
}

// write adds the writes since the last undo mark.
func (h *hashes) write(over *overlay) {
	for _, u := range over.undo {
		switch u.kind {
		case undoChange, undoFresh:
			op := &over.ops[u.op]
			h.digest.Write(op.key)
			h.digest.Write(op.value)
		case undoRange:
			added := &over.splits[u.op].added
			h.digest.Write(added.lower)
			h.digest.Write(added.upper)
		case undoCover: // which rows of a range are in the overlay differs between replicas
		}
	}
}

// note records the state after an entry.
func (h *hashes) note(a Applied) {
	if h.ring == nil {
		return
	}
	if h.first == 0 {
		h.first = a.Index
	}
	h.last = a.Index
	h.first = max(h.first, a.Index-min(a.Index, recentHashes-1))
	h.ring[a.Index%recentHashes] = leftState{a.Hash, a.LSN}
}

func (h *hashes) at(index uint64) (hash uint64, lsn LSN, ok bool) {
	if h.first == 0 || index < h.first || index > h.last {
		return 0, 0, false
	}
	left := h.ring[index%recentHashes]
	return left.hash, left.lsn, true
}
