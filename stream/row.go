package stream

import (
	"encoding/binary"
	"fmt"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// Rows of a shard. gen is the LSN at which the shard learned of the stream, so a stream that is
// deleted and recreated has different rows.
//
//	'S' | namespace u32 | name               the stream: version u8 | gen | id | spec version | partitions (0: deleted) | policy | created ms | timer ms (0: none) |
//	                                         groups dropped at
//	'p' | gen u64 | partition u16            a partition that has had records, see partition
//	'r' | gen u64 | partition u16 | offset   a record: id | LSN | bytes of the partition's records before it | message
//	'd' | gen u64 | producer                 a producer's last appends, see producerRow
const (
	rowStream   = 'S'
	rowPart     = 'p'
	rowRecord   = 'r'
	rowProducer = 'd'
)

// genKinds are the kinds of rows that begin with gen.
var genKinds = [...]byte{
	rowPart, rowRecord, rowProducer, rowGroup, rowCursor, rowBatch, rowFailure, rowMember, rowHeld, rowKey, rowFree,
}

func streamKey(dst []byte, ns uint32, name string) []byte {
	return append(key.AppendUint32(append(dst, rowStream), ns), name...)
}

// streamIn returns the namespace number and the name in the key of a stream's row.
func streamIn(k []byte) (ns uint32, name string) {
	return binary.BigEndian.Uint32(k[1:]), string(k[5:])
}

func genKey(dst []byte, kind byte, gen uint64) []byte {
	return key.AppendUint64(append(dst, kind), gen)
}

func partKey(dst []byte, gen uint64, partition int) []byte {
	return binary.BigEndian.AppendUint16(genKey(dst, rowPart, gen), uint16(partition))
}

func recordPrefix(dst []byte, gen uint64, partition int) []byte {
	return binary.BigEndian.AppendUint16(genKey(dst, rowRecord, gen), uint16(partition))
}

func recordKey(dst []byte, gen uint64, partition int, offset uint64) []byte {
	return key.AppendUint64(recordPrefix(dst, gen, partition), offset)
}

// offsetIn returns the offset in the key of a record's row.
func offsetIn(k []byte) uint64 { return binary.BigEndian.Uint64(k[recordOffsetAt:]) }

const recordOffsetAt = 11

func producerKey(dst []byte, gen uint64, producer string) []byte {
	return append(genKey(dst, rowProducer, gen), producer...)
}

const rowVersion = 1

// header is the row of a stream.
type header struct {
	spec
	gen       uint64
	createdAt int64
	timer     int64 // when the retention timer is due, 0: not set
	// dropped is the LSN at home of the last group deletion that this shard has learned of. The
	// home's messages about a stream arrive in order. So an older group that is not in this shard
	// has been deleted. It is 0 at home.
	dropped uint64
}

// deleted reports whether only the id is remembered. That happens in shards other than the stream's
// home, so that a command for a deleted stream does not recreate it. The row is removed once no
// such command can be in flight; see rememberMillis.
func (h *header) deleted() bool { return h.partitions == 0 }

func (h *header) encode(b []byte) []byte {
	b = codec.AppendUvarint(append(b, rowVersion), h.gen)
	b = codec.AppendUvarint(b, h.id)
	b = codec.AppendUvarint(b, h.version)
	b = codec.AppendUvarint(b, uint64(h.partitions))
	b = h.policy.append(b)
	return codec.AppendUvarint(codec.AppendVarint(codec.AppendVarint(b, h.createdAt), h.timer), h.dropped)
}

func decodeHeader(b []byte) (h header, err error) {
	r := codec.NewReader(b)
	version := r.Byte()
	h.gen = r.Uvarint()
	h.id, h.version = r.Uvarint(), r.Uvarint()
	h.partitions = readCount(&r, MaxPartitions)
	h.policy = readPolicy(&r)
	h.createdAt, h.timer, h.dropped = r.Varint(), r.Varint(), r.Uvarint()
	if err := r.Done(); err != nil || version != rowVersion || h.partitions < 0 || h.policy.check() != nil {
		return h, fmt.Errorf("stream row: %w: %x", codec.ErrCorrupt, b[:min(len(b), 16)])
	}
	return h, nil
}

// partition is the state of a partition, with records first to last. Rows at kept and later may
// still exist.
type partition struct {
	first, last uint64 // offsets; first is last+1 if it is empty
	kept        uint64 // offset of the first row that has not been deleted
	lastID      ID     // of the last record ever appended, zero if there was none
	edge        ID     // of the last record whose row has been deleted
	bytes       uint64 // of all messages ever appended
}

func (p *partition) records() uint64 { return p.last + 1 - p.first }

func (p *partition) encode(b []byte) []byte {
	b = codec.AppendUvarint(append(b, rowVersion), p.first)
	b = codec.AppendUvarint(codec.AppendUvarint(b, p.last), p.kept)
	b = p.edge.append(p.lastID.append(b))
	return codec.AppendUvarint(b, p.bytes)
}

func decodePartition(b []byte) (p partition, err error) {
	r := codec.NewReader(b)
	version := r.Byte()
	p.first, p.last, p.kept = r.Uvarint(), r.Uvarint(), r.Uvarint()
	p.lastID, p.edge, p.bytes = readID(&r), readID(&r), r.Uvarint()
	if err := r.Done(); err != nil || version != rowVersion || p.kept < 1 || p.kept > p.first || p.first > p.last+1 {
		return p, fmt.Errorf("stream partition row: %w: %x", codec.ErrCorrupt, b[:min(len(b), 16)])
	}
	return p, nil
}

// noPartition is a partition that has never had a record.
var noPartition = partition{first: 1, kept: 1}

// stored is the row of a record.
type stored struct {
	id      ID
	lsn     uint64
	before  uint64 // bytes of all messages of the partition before it
	message []byte // aliases the row
}

func (s *stored) encode(b []byte) []byte {
	b = codec.AppendUvarint(s.id.append(b), s.lsn)
	return append(codec.AppendUvarint(b, s.before), s.message...)
}

func decodeStored(b []byte) (s stored, err error) {
	r := codec.NewReader(b)
	s.id, s.lsn, s.before = readID(&r), r.Uvarint(), r.Uvarint()
	s.message = r.Rest()
	if err := r.Err(); err != nil {
		return s, fmt.Errorf("stream record row: %w", err)
	}
	return s, nil
}

// record returns the record of a row, with copies of its message.
func (s *stored) record(partition int, offset uint64) (Record, error) {
	own := *s
	own.message = append(make([]byte, 0, len(s.message)), s.message...)
	return own.aliased(partition, offset)
}

// aliased returns the record of a row; its payload aliases the row.
func (s *stored) aliased(partition int, offset uint64) (Record, error) {
	rec := Record{ID: s.id, Partition: partition, Offset: offset, LSN: s.lsn}
	if err := rec.read(s.message); err != nil {
		return rec, fmt.Errorf("stream record row: %w", err)
	}
	return rec, nil
}

func decodeRecord(b []byte, partition int, offset uint64) (Record, error) {
	s, err := decodeStored(b)
	if err != nil {
		return Record{}, err
	}
	return s.record(partition, offset)
}

// producerRow is a producer's state: the time of its last append, and its last appends, the latest
// first.
//
//	version u8 | used ms | due ms | appends uvarint | sequence uvarint | result (uvarint length, bytes, see encodeAppended) ...
type producerRow struct {
	used    int64
	due     int64 // of the timer that forgets it, if it has not appended since
	appends []producerAppend
}

type producerAppend struct {
	sequence uint64
	result   []byte
}

// Limits of a producer's state.
const (
	maxRepeats     = 8
	producerMillis = 24 * 60 * 60 * 1000
)

func (p *producerRow) encode() []byte {
	b := codec.AppendVarint(codec.AppendVarint([]byte{rowVersion}, p.used), p.due)
	b = codec.AppendUvarint(b, uint64(len(p.appends)))
	for _, a := range p.appends {
		b = codec.AppendBytes(codec.AppendUvarint(b, a.sequence), a.result)
	}
	return b
}

func decodeProducer(b []byte) (p producerRow, err error) {
	r := codec.NewReader(b)
	version := r.Byte()
	p.used, p.due = r.Varint(), r.Varint()
	n := readCount(&r, maxRepeats)
	for range n {
		p.appends = append(p.appends, producerAppend{r.Uvarint(), r.Bytes()})
	}
	if err := r.Done(); err != nil || version != rowVersion || n < 1 {
		return p, fmt.Errorf("stream producer row: %w: %x", codec.ErrCorrupt, b[:min(len(b), 16)])
	}
	return p, nil
}

// must is for data that Apply itself has written, which always decodes.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// getter reads rows, of a Tx or a View.
type getter func(k []byte) (value []byte, ok bool, err error)

func getterOf(tx *engine.Tx) getter {
	return func(k []byte) ([]byte, bool, error) {
		value, ok := tx.Get(k)
		return value, ok, nil
	}
}

// offsetOf returns the offset of the first record in [from, last] with an ID of at least id, or
// last+1 if none exists.
func offsetOf(get getter, gen uint64, partition int, from, last uint64, id ID) (uint64, error) {
	lo, hi := from, last+1
	for lo < hi {
		mid := lo + (hi-lo)/2
		got, err := idAt(get, gen, partition, mid)
		if err != nil {
			return 0, err
		}
		if got.Compare(id) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, nil
}

func idAt(get getter, gen uint64, partition int, offset uint64) (ID, error) {
	s, err := storedAt(get, gen, partition, offset)
	return s.id, err
}

func storedAt(get getter, gen uint64, partition int, offset uint64) (stored, error) {
	b, ok, err := get(recordKey(nil, gen, partition, offset))
	if err != nil {
		return stored{}, err
	}
	if !ok {
		return stored{}, missing(partition, offset)
	}
	return decodeStored(b)
}

func missing(partition int, offset uint64) error {
	return fmt.Errorf("stream: %w: no row for offset %d of partition %d", codec.ErrCorrupt, offset, partition)
}
