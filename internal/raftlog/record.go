package raftlog

import (
	"encoding/binary"
	"hash/crc32"
)

// formatVersion is written into the start record of every segment. A log with another version is
// refused without changes.
const formatVersion = 2

// recordKind is the type of a record. The numbers are part of the format.
type recordKind uint8

const (
	kindStart     recordKind = 1  // first record of a segment, see startInfo
	kindEntry     recordKind = 2  // raft entry; sub is the raft entry type
	kindHardState recordKind = 3  // term, index = commit, data = vote (u64)
	kindCompact   recordKind = 4  // term and index are the new compacted position
	kindReset     recordKind = 5  // term and index are the position behind which the shard's log starts anew
	kindReserve   recordKind = 6  // index is the reserved LSN high-water mark
	kindEnd       recordKind = 7  // clean marker: the log was closed here
	kindOldest    recordKind = 8  // index is the number of the oldest live segment
	kindState     recordKind = 9  // checkpoint of one shard, see checkpoint
	kindNext      recordKind = 10 // index is the number of the successor, which exists; the last record of a segment
	kindMax                  = kindNext
)

const (
	headerSize = 40
	alignment  = 8

	// maxData bounds the data of a record. It is far above the size of any raft entry, and low
	// enough that a damaged length field is recognised as damage.
	maxData = 256 << 20

	// maxIndex bounds raft indexes, so that index arithmetic cannot overflow for any contents of a
	// file.
	maxIndex = 1 << 62
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// header is the fixed part of a record. On disk, little endian:
//
//	 0 crc     u32  CRC-32C of bytes [4, 40+length) followed by the record's place as u64
//	 4 length  u32  of data
//	 8 mark    u32  of the log
//	12 shard   u16
//	14 kind    u8
//	15 sub     u8   for entries the raft entry type, else 0
//	16 term    u64
//	24 index   u64
//	32 synced  u64  offset in this segment that was known durable when the record was written
//	40 data, zero padded to a multiple of 8
//
// The checksum covers the segment and the offset, so a record in another place, or from an earlier
// use of the file, is as bad as a flipped bit. The mark is a random number that the log draws when
// it is created and never reveals. So no client can put bytes into an entry that would be mistaken
// for records when the file is reused. synced distinguishes a torn tail from corruption: see [Log]
// and lookAhead.
type header struct {
	length uint32
	mark   uint32
	shard  uint16
	kind   recordKind
	sub    uint8
	term   uint64
	index  uint64
	synced uint64
}

// place encodes a segment and an offset in one number. Two equal records at the same offset of
// different segments always have different checksums.
func place(segment uint32, off int64) uint64 {
	return uint64(off) ^ uint64(segment)<<32
}

// recordSize is the number of bytes a record with n bytes of data takes in the file.
func recordSize(n int) int64 {
	return align(headerSize + int64(n))
}

func align(n int64) int64 {
	return (n + alignment - 1) &^ (alignment - 1)
}

// appendHeader begins a record. The caller then appends the data and calls sealRecord. Checksum and
// length are still zero.
func appendHeader(b []byte, h header) []byte {
	b = le.AppendUint64(b, 0)
	b = le.AppendUint32(b, h.mark)
	b = le.AppendUint16(b, h.shard)
	b = append(b, byte(h.kind), h.sub)
	b = le.AppendUint64(b, h.term)
	b = le.AppendUint64(b, h.index)
	return le.AppendUint64(b, h.synced)
}

// sealRecord completes the record that begins at b[begin] and will be stored at the given place.
func sealRecord(b []byte, begin int, at uint64) []byte {
	end := len(b)
	le.PutUint32(b[begin+4:], uint32(end-begin-headerSize))
	b = le.AppendUint64(b, at)
	le.PutUint32(b[begin:], crc32.Checksum(b[begin+4:], castagnoli))
	b = b[:end]
	for len(b)-begin < int(align(int64(end-begin))) {
		b = append(b, 0)
	}
	return b
}

// parseHeader decodes the header in b, which is at least headerSize long, and returns the stored
// checksum with it.
func parseHeader(b []byte) (header, uint32) {
	return header{
		length: le.Uint32(b[4:]),
		mark:   le.Uint32(b[8:]),
		shard:  le.Uint16(b[12:]),
		kind:   recordKind(b[14]),
		sub:    b[15],
		term:   le.Uint64(b[16:]),
		index:  le.Uint64(b[24:]),
		synced: le.Uint64(b[32:]),
	}, le.Uint32(b)
}

// finishChecksum folds the record's place into crc, which covers its bytes starting at 4. It uses
// the table directly, so that it allocates nothing: a slice passed to crc32 would escape.
func finishChecksum(crc uint32, at uint64) uint32 {
	crc = ^crc
	for range 8 {
		crc = castagnoli[byte(crc)^byte(at)] ^ crc>>8
		at >>= 8
	}
	return ^crc
}

// startInfo is the content of a start record. Data, little endian:
//
//	 0 version u32  format version
//	 4 oldest  u32  oldest live segment when this one was started
//	 8 prevEnd u64  where the valid records of the previous segment end, 0 in segment 1
//	16 head    u64  offset behind the checkpoint that follows the start record
//
// A newest segment without a complete head is an interrupted creation, and was never used.
type startInfo struct {
	version uint32
	oldest  uint32
	prevEnd int64
	head    int64
}

const startSize = 24

func appendStart(b []byte, s startInfo) []byte {
	b = le.AppendUint32(b, s.version)
	b = le.AppendUint32(b, s.oldest)
	b = le.AppendUint64(b, uint64(s.prevEnd))
	return le.AppendUint64(b, uint64(s.head))
}

// parseStart decodes the data of a start record. Only the version has the same place in every
// format.
func parseStart(b []byte) (s startInfo, ok bool) {
	if len(b) < 4 {
		return s, false
	}
	s.version = le.Uint32(b)
	if s.version != formatVersion {
		return s, s.version > formatVersion
	}
	if len(b) != startSize {
		return s, false
	}
	s.oldest = le.Uint32(b[4:])
	s.prevEnd = int64(le.Uint64(b[8:]))
	s.head = int64(le.Uint64(b[16:]))
	return s, s.oldest > 0 && s.prevEnd >= 0 && s.head >= 0
}

// hardState is raft's HardState by value, so that a Write does not allocate for it.
type hardState struct {
	term, vote, commit uint64
}

const voteSize = 8

// checkpoint is the state of a shard at the start of a segment. In its record term and index are
// the compacted position; data, little endian:
//
//	 0 term     u64  of the hard state
//	 8 vote     u64
//	16 commit   u64
//	24 reserved u64  LSN high-water mark
//	32 last     u64  last index of the shard's log
type checkpoint struct {
	hard     hardState
	reserved uint64
	last     uint64
}

const checkpointSize = 40

func appendCheckpoint(b []byte, c checkpoint) []byte {
	b = le.AppendUint64(b, c.hard.term)
	b = le.AppendUint64(b, c.hard.vote)
	b = le.AppendUint64(b, c.hard.commit)
	b = le.AppendUint64(b, c.reserved)
	return le.AppendUint64(b, c.last)
}

func parseCheckpoint(b []byte) (c checkpoint, ok bool) {
	if len(b) != checkpointSize {
		return c, false
	}
	c.hard = hardState{term: le.Uint64(b), vote: le.Uint64(b[8:]), commit: le.Uint64(b[16:])}
	c.reserved = le.Uint64(b[24:])
	c.last = le.Uint64(b[32:])
	return c, true
}
