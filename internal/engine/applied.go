package engine

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/floedb/floe/internal/codec"
)

// Applied is the position of a shard's state in the log. It is a row of the state, written with
// every batch, so the state always records which part of the log it holds.
type Applied struct {
	Index uint64 // raft index of the last applied entry
	Term  uint64 // its term
	LSN   LSN    // last LSN assigned
	Stamp int64  // time of the last entry, ms
	Hash  uint64 // chained over every write since the shard began: equal on replicas at the same index
}

// Bounds returns the key range of a shard's state. A snapshot must contain the whole range.
func Bounds(shard ShardID) (lower, upper []byte) {
	return binary.BigEndian.AppendUint16(nil, uint16(shard)), binary.BigEndian.AppendUint16(nil, uint16(shard)+1)
}

func appliedRow(dst []byte) []byte { return append(dst, 'a') }

// appliedKey returns the complete key of the row.
func appliedKey(shard ShardID) []byte {
	lower, _ := Bounds(shard)
	return appliedRow(append(lower, byte(machineEngine)))
}

// encode appends the row: version u8 | index | term | LSN (uvarints) | stamp (varint) | hash u64
// little-endian.
func (a Applied) encode(dst []byte) []byte {
	dst = append(slices.Grow(dst, 64), 1)
	dst = codec.AppendUvarint(dst, a.Index)
	dst = codec.AppendUvarint(dst, a.Term)
	dst = codec.AppendUvarint(dst, uint64(a.LSN))
	dst = codec.AppendVarint(dst, a.Stamp)
	return binary.LittleEndian.AppendUint64(dst, a.Hash)
}

func decodeApplied(row []byte) (Applied, error) {
	r := codec.NewReader(row)
	if v := r.Byte(); v != 1 {
		return Applied{}, fmt.Errorf("applied row: %w: version %d", codec.ErrCorrupt, v)
	}
	a := Applied{Index: r.Uvarint(), Term: r.Uvarint(), LSN: LSN(r.Uvarint()), Stamp: r.Varint()}
	hash := r.Rest()
	if err := r.Err(); err != nil || len(hash) != 8 {
		return Applied{}, fmt.Errorf("applied row: %w", codec.ErrCorrupt)
	}
	a.Hash = binary.LittleEndian.Uint64(hash)
	return a, nil
}

func readApplied(r pebble.Reader, shard ShardID) (Applied, error) {
	row, ok, err := getRow(r, appliedKey(shard))
	if err != nil || !ok {
		return Applied{}, err
	}
	return decodeApplied(row)
}

// ReadApplied returns the position of the state in r, or zero if r holds no data of the shard.
func ReadApplied(r pebble.Reader, shard ShardID) (Applied, error) {
	a, err := readApplied(r, shard)
	if err != nil {
		return a, fmt.Errorf("shard %d: %w", shard, err)
	}
	return a, nil
}

// DurableApplied returns the Applied that would survive a power failure now: the one that Pebble
// has flushed.
func DurableApplied(db *pebble.DB, shard ShardID) (Applied, error) {
	row := appliedKey(shard)
	it, err := db.NewIter(&pebble.IterOptions{
		LowerBound: row, UpperBound: append(row[:len(row):len(row)], 0), OnlyReadGuaranteedDurable: true,
	})
	if err != nil {
		return Applied{}, fmt.Errorf("shard %d: read durable state: %w", shard, err)
	}
	var a Applied
	if it.First() {
		a, err = decodeApplied(it.Value())
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	return a, err
}
