package ts

import (
	"encoding/binary"

	"github.com/floedb/floe/internal/key"
)

// Rows of a shard. Each measurement has a number, the LSN of the write that created it. A
// measurement that is deleted and created again gets another number, so the number identifies an
// incarnation. All rows of an incarnation begin with kind and number, so deleting it takes one
// range per kind.
//
//	'n' | namespace u32 | name                                             -> incarnation (uvarint)
//	'y' | namespace u32 | name                                             -> policy: retention and tiers, with a version; see policy
//	'l' | namespace u32                                                    -> limit of series, with a version
//	'u'                                                                    -> bytes of blocks that are not sealed, of the shard
//	'm' | incarnation                                                      -> what a measurement is: name, fields; see measurement
//	'c' | incarnation                                                      -> figures of the measurement, written with each batch; see content
//	's' | incarnation | series u32                                         -> fingerprint and tags, see seriesRow
//	'h' | incarnation | hash (16 bytes) of the tags                        -> series (uvarint)
//	'p' | incarnation | tag | value | series u32                           -> (empty): posting
//	'v' | incarnation | tag | value                                        -> number of series that have it
//	'd' | incarnation | tag                                                -> number of distinct values, and of series that have the tag
//	'f' | incarnation | series u32 / pageSeries (u32)                      -> fingerprints of so many series, u64 each; 0: none
//	'b' | incarnation | LSN u64 | n u16                                    -> block, see block
//	'q' | incarnation | tier u16 | partition i64                           -> what a partition holds, see partitionRow
//	'g' | incarnation | tier u16 | partition i64 | field u16 | column u8 | generation u64 | series u32 | time i64 -> chunk
//	'x' | incarnation | tier u16 | until i64                               -> begin of a range of dirty buckets, see dirty
//	't' | incarnation | series u32                                         -> LSN of the deletion: its points are still in chunks
//	'e' | incarnation | LSN u64                                            -> deletion of a time range, see erasure
//	'r' | incarnation | series u32                                         -> its fingerprint: it is being retired
//
// Series are numbered from 0 in each incarnation, and no number is used twice. Tags and values are
// encoded by key.AppendString. The number of a partition is its start time divided by its length.
const (
	rowName        = 'n'
	rowPolicy      = 'y'
	rowLimit       = 'l'
	rowUnsealed    = 'u'
	rowMeasurement = 'm'
	rowContent     = 'c'
	rowSeries      = 's'
	rowHash        = 'h'
	rowPosting     = 'p'
	rowValue       = 'v'
	rowTag         = 'd'
	rowPrints      = 'f'
	rowBlock       = 'b'
	rowPartition   = 'q'
	rowChunk       = 'g'
	rowDirty       = 'x'
	rowDeleted     = 't'
	rowRetiring    = 'r'
	rowErased      = 'e'
)

// allKinds are the kinds of rows in order; ofIncarnation are those removed when a measurement is
// deleted.
const (
	allKinds      = "bcdefghlmnpqrstuvxy"
	ofIncarnation = "bcdefghmpqrstvx"
)

// incarnation identifies a measurement from its creation until its deletion.
type incarnation uint64

// seriesID is the number of a series in an incarnation.
type seriesID uint32

// tierID identifies a tier of a measurement. The raw points are tier 0.
type tierID uint16

const rawTier tierID = 0

// column is the part of a field stored in a chunk: in tier 0 its values, in other tiers an
// aggregate of each bucket.
type column uint8

// The columns of chunks. The time of a value is that of the point in tier 0, and the start of the
// bucket elsewhere. Times of first and last are ms, as numbers. The exact sum consists of columnSum
// (the sum rounded to the nearest float64), columnSumLow, and further columns starting at
// columnSumRest. columnSumParts is the number of further columns, nearly always 0. Only these may
// lack buckets of the others, or have obsolete values of earlier generations.
const (
	columnValue column = iota
	columnCount
	columnSum
	columnSumLow
	columnMin
	columnMax
	columnFirst
	columnFirstTime
	columnLast
	columnLastTime
	columnSumParts
	columnSumRest
)

// maxSumParts bounds the columns that start at columnSumRest. The exact sum of finite values has at
// most 40 parts, unless it exceeds the largest float64.
const maxSumParts = 62

// Lengths of keys, and offsets in them.
const (
	nameAt        = 1 + 4
	incarnationAt = 1
	numberAt      = 1 + 8 // after the incarnation
	seriesKeyLen  = numberAt + 4
	hashLen       = 16
	blockKeyLen   = numberAt + 8 + 2
	partKeyLen    = numberAt + 2 + 8
	chunkKeyLen   = partKeyLen + 2 + 1 + 8 + 4 + 8
	dirtyKeyLen   = partKeyLen
	pageSeries    = 128 // series per row of fingerprints
)

func nameKey(dst []byte, kind byte, ns uint32, name string) []byte {
	return append(key.AppendUint32(append(dst, kind), ns), name...)
}

func limitKey(dst []byte, ns uint32) []byte { return key.AppendUint32(append(dst, rowLimit), ns) }

// incKey is the key of an incarnation's row of a kind. If it has several rows of the kind, it is
// the prefix of their keys.
func incKey(dst []byte, kind byte, m incarnation) []byte {
	return key.AppendUint64(append(dst, kind), uint64(m))
}

func incarnationOf(k []byte) incarnation {
	return incarnation(binary.BigEndian.Uint64(k[incarnationAt:]))
}

// seriesKey is the key of a row about one series: its own, its deletion, its retirement.
func seriesKey(dst []byte, kind byte, m incarnation, id seriesID) []byte {
	return key.AppendUint32(incKey(dst, kind, m), uint32(id))
}

// seriesOf returns the series at the end of a key.
func seriesOf(k []byte) seriesID { return seriesID(binary.BigEndian.Uint32(k[len(k)-4:])) }

func hashKey(dst []byte, m incarnation, hash [hashLen]byte) []byte {
	return append(incKey(dst, rowHash, m), hash[:]...)
}

// tagKey is the key of a tag's row.
func tagKey(dst []byte, m incarnation, tag string) []byte {
	return append(incKey(dst, rowTag, m), tag...)
}

// valuesPrefix is the prefix of the keys of a tag's values, in order.
func valuesPrefix(dst []byte, m incarnation, tag string) []byte {
	return key.AppendString(incKey(dst, rowValue, m), []byte(tag))
}

func valueKey(dst []byte, m incarnation, tag, value string) []byte {
	return append(valuesPrefix(dst, m, tag), value...)
}

// postingPrefix is the prefix of the keys of the series that have a value of a tag, in order of
// their numbers.
func postingPrefix(dst []byte, m incarnation, tag, value string) []byte {
	dst = key.AppendString(incKey(dst, rowPosting, m), []byte(tag))
	return key.AppendString(dst, []byte(value))
}

func postingKey(dst []byte, m incarnation, tag, value string, id seriesID) []byte {
	return key.AppendUint32(postingPrefix(dst, m, tag, value), uint32(id))
}

// erasedKey is the key of the deletion of a time range.
func erasedKey(dst []byte, m incarnation, lsn uint64) []byte {
	return key.AppendUint64(incKey(dst, rowErased, m), lsn)
}

func printsKey(dst []byte, m incarnation, page uint32) []byte {
	return key.AppendUint32(incKey(dst, rowPrints, m), page)
}

func blockKey(dst []byte, m incarnation, lsn uint64, n int) []byte {
	return binary.BigEndian.AppendUint16(key.AppendUint64(incKey(dst, rowBlock, m), lsn), uint16(n))
}

// blockLSN returns the LSN in the key of a block.
func blockLSN(k []byte) uint64 { return binary.BigEndian.Uint64(k[numberAt:]) }

func tierKey(dst []byte, kind byte, m incarnation, tier tierID) []byte {
	return binary.BigEndian.AppendUint16(incKey(dst, kind, m), uint16(tier))
}

// partKey is the key of a partition's row, and the prefix of the keys of its chunks. For kind
// rowDirty it is the key of a range of dirty buckets.
func partKey(dst []byte, kind byte, m incarnation, tier tierID, partition int64) []byte {
	return key.AppendInt64(tierKey(dst, kind, m, tier), partition)
}

// tierOf returns the tier in the key of a partition, a chunk or a dirty range, and partitionOf the
// number after it.
func tierOf(k []byte) tierID        { return tierID(binary.BigEndian.Uint16(k[numberAt:])) }
func partitionOf(k []byte) int64    { return key.Int64(k[numberAt+2:]) }
func chunkFieldOf(k []byte) fieldID { return fieldID(binary.BigEndian.Uint16(k[partKeyLen:])) }
func chunkColumnOf(k []byte) column { return column(k[partKeyLen+2]) }
func generationOf(k []byte) uint64  { return binary.BigEndian.Uint64(k[partKeyLen+3:]) }

// columnPrefix is the prefix of the keys of a partition's chunks for a column of a field. The keys
// are ordered by generation, then by first point.
func columnPrefix(dst []byte, at chunkGroup) []byte {
	dst = partKey(dst, rowChunk, at.inc, at.tier, at.partition)
	return append(binary.BigEndian.AppendUint16(dst, uint16(at.field)), byte(at.column))
}

// generationPrefix is the prefix of the keys of those chunks in one generation.
func generationPrefix(dst []byte, at chunkGroup, generation uint64) []byte {
	return key.AppendUint64(columnPrefix(dst, at), generation)
}

// chunkKey is the key of a chunk, by the series and time of its first point. The next chunk may
// continue the same series.
func chunkKey(dst []byte, at chunkGroup, generation uint64, first seriesID, time int64) []byte {
	return key.AppendInt64(key.AppendUint32(generationPrefix(dst, at, generation), uint32(first)), time)
}

// firstOf returns the series and the time of the first point of a chunk, from its key.
func firstOf(k []byte) (seriesID, int64) {
	return seriesID(binary.BigEndian.Uint32(k[partKeyLen+11:])), key.Int64(k[partKeyLen+15:])
}

// chunkGroup identifies the chunks of one column of a field in a partition.
type chunkGroup struct {
	inc       incarnation
	tier      tierID
	partition int64
	field     fieldID
	column    column
}

// chunkGroupOf returns the group of a chunk from its key.
func chunkGroupOf(k []byte) chunkGroup {
	return chunkGroup{incarnationOf(k), tierOf(k), partitionOf(k), chunkFieldOf(k), chunkColumnOf(k)}
}

// floorDiv is a/b rounded down; b is positive.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
