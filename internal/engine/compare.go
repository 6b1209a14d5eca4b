package engine

import (
	"encoding/binary"

	"github.com/floedb/floe/internal/codec"
)

// Comparison is a node's report on its replica: the state hash after an entry was applied. Replicas
// that applied the same log have the same hash.
type Comparison struct {
	Node  uint64
	Index uint64
	Hash  uint64
}

// Compare is the command that reports a comparison to all replicas. It changes nothing.
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
	tx.x.hashes.compared = append(tx.x.hashes.compared, c)
	return nil
}

// Compared returns the comparisons applied since the last call. Like HashAt, it is for the
// goroutine that applies. The slice is valid until the next entry is applied.
func (x *Executor) Compared() []Comparison {
	c := x.hashes.compared
	x.hashes.compared = c[:0]
	return c
}

// HashAt returns the state hash and the LSN of this replica after it applied an entry. ok is false
// if that was too long ago or before the replica was opened.
func (x *Executor) HashAt(index uint64) (hash uint64, lsn LSN, ok bool) { return x.hashes.at(index) }
