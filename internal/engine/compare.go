package engine

import (
	"encoding/binary"

	"github.com/floedb/floe/internal/codec"
)

// Comparison is what a node says of its replica: the state hash it had when an entry had been applied. Replicas that applied the same log
// have the same one.
type Comparison struct {
	Node  uint64
	Index uint64
	Hash  uint64
}

// Compare is the command that tells all replicas of a comparison. It changes nothing.
//
//	node uvarint | index uvarint | hash u64 little-endian
func Compare(c Comparison) Command {
	body := codec.AppendUvarint(nil, c.Node)
	body = codec.AppendUvarint(body, c.Index)
	return Command{Machine: machineEngine, Kind: kindCompare, Body: binary.LittleEndian.AppendUint64(body, c.Hash)}
}

func (tx *Tx) applyCompare(body []byte) error {
	r := codec.NewReader(body)
	c := Comparison{Node: r.Uvarint(), Index: r.Uvarint()}
	hash := r.Rest()
	if r.Err() != nil || len(hash) != 8 {
		return Errorf(ErrMalformed, "compare: %d bytes are no comparison", len(body))
	}
	c.Hash = binary.LittleEndian.Uint64(hash)
	tx.x.compared = append(tx.x.compared, c)
	return nil
}

// Compared returns the comparisons applied since the last call. Like HashAt it is for the goroutine that applies, and the slice is good
// until it applies the next entry.
func (x *Executor) Compared() []Comparison {
	c := x.compared
	x.compared = x.compared[:0]
	return c
}

// HashAt returns the state hash and the LSN that this replica had when an entry had been applied; ok is false if that was long ago or before it
// was opened.
func (x *Executor) HashAt(index uint64) (hash uint64, lsn LSN, ok bool) { return x.hashes.at(index) }

// recentHashes is how many entries back a replica knows its hash. A comparison is applied some entries behind the one it is about, and the
// answers to it some more: as many as are proposed meanwhile, hundreds on a busy shard.
const recentHashes = 4096

// hashes remembers how each of the last entries left the state.
type hashes struct {
	ring        []leftState // by index of the entry, modulo its length; nil: nothing is remembered
	first, last uint64      // indexes; first is 0 if there are none
}

type leftState struct {
	hash uint64
	lsn  LSN
}

// reset makes the last entry that was applied the only one remembered.
func (h *hashes) reset(a Applied) {
	h.first, h.last = 0, 0
	h.note(a)
}

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
