package stream

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/key"
)

// Rows of consumer groups. They begin with the gen of the stream, so that they are deleted with it;
// id is the LSN at which the shard learned of the group.
//
//	'g' | gen | group name                                     the group, see groupHeader
//	'c' | gen | id | partition u16                             offset of the next record to scan | records held | records pending | LSN of the last seek, if any (uvarints)
//	'b' | gen | id | partition u16 | first offset | LSN        unacknowledged records that were delivered together, see batch
//	'f' | gen | id | partition u16 | offset                    a record that waits for redelivery, see failure
//	'm' | gen | id | consumer                                  joined ms | seen ms (varints) | ending u8 | attended u8 | pending records (uvarint)
//
// KeyShared groups also have rows for records that were scanned and could not be delivered yet (see
// keyshared.go):
//
//	'h' | gen | id | partition u16 | key hash | offset         a record that is held
//	'k' | gen | id | partition u16 | key hash                  how many records of the key are held | offset of the first (uvarints)
//	'y' | gen | id | partition u16 | slot u8 | offset          key hash (u64): the record is the first held one of a key that is free
const (
	rowGroup   = 'g'
	rowCursor  = 'c'
	rowBatch   = 'b'
	rowFailure = 'f'
	rowMember  = 'm'
	rowHeld    = 'h'
	rowKey     = 'k'
	rowFree    = 'y'
)

// groupKinds are the kinds of rows that begin with gen and id.
var groupKinds = [...]byte{rowCursor, rowBatch, rowFailure, rowMember, rowHeld, rowKey, rowFree}

// deliveryKinds are the kinds that describe pending and held records.
var deliveryKinds = [...]byte{rowCursor, rowBatch, rowFailure, rowHeld, rowKey, rowFree}

func groupKey(dst []byte, gen uint64, name string) []byte {
	return append(genKey(dst, rowGroup, gen), name...)
}

func groupPrefix(dst []byte, kind byte, gen, id uint64) []byte {
	return key.AppendUint64(genKey(dst, kind, gen), id)
}

// partPrefix begins the rows of a partition.
func partPrefix(dst []byte, kind byte, gen, id uint64, partition int) []byte {
	return binary.BigEndian.AppendUint16(groupPrefix(dst, kind, gen, id), uint16(partition))
}

// Positions in these keys: of the group's id, after it, and after the partition.
const (
	groupAt     = 1 + 8
	behindGroup = groupAt + 8
	behindPart  = behindGroup + 2
)

func partitionIn(k []byte) int { return int(binary.BigEndian.Uint16(k[behindGroup:])) }

// consumerIn returns the consumer of a row 'm'.
func consumerIn(k []byte) string { return string(k[behindGroup:]) }

func memberKey(dst []byte, gen, id uint64, consumer string) []byte {
	return append(groupPrefix(dst, rowMember, gen, id), consumer...)
}

// groupHeader is the row of a group.
type groupHeader struct {
	groupConfig
	id               uint64 // in the keys of the rows
	home             uint64 // LSN of its creation in the stream's home
	version          uint64 // of the config
	createdAt        int64
	timer            int64   // when the group's timer is due, 0: not set
	announced        mark    // failures due up to here are ready for redelivery, except spent ones
	again            uint64  // number of failures ready for redelivery
	heads            slotSet // of a KeyShared group: slots with a key whose first pending record is ready for redelivery
	recalling        bool    // records of members are being taken back
	membersChangedAt uint64  // LSN of the last change of the active members
	holder           string  // active consumer of an exclusive group; "": none
	epoch            uint64  // number of changes of the holder
}

// mark is a position in the order of due failures.
type mark struct {
	at        int64
	partition int
	offset    uint64
}

// covers reports whether a failure is due at or before the mark.
func (m mark) covers(partition int, f *failure) bool {
	return cmp.Or(cmp.Compare(f.due, m.at), cmp.Compare(partition, m.partition), cmp.Compare(f.offset, m.offset)) <= 0
}

// slotSet is a set of slots.
type slotSet [slots / 64]uint64

func (s *slotSet) has(slot int) bool { return s[slot/64]>>(slot%64)&1 == 1 }

func (s *slotSet) set(slot int, in bool) {
	if s[slot/64] &^= 1 << (slot % 64); in {
		s[slot/64] |= 1 << (slot % 64)
	}
}

func (s *slotSet) append(b []byte) []byte {
	empty := *s == slotSet{}
	if b = codec.AppendBool(b, !empty); empty {
		return b
	}
	for _, w := range s {
		b = codec.AppendUvarint(b, w)
	}
	return b
}

func readSlotSet(r *codec.Reader) (s slotSet) {
	if r.Bool() {
		for i := range s {
			s[i] = r.Uvarint()
		}
	}
	return s
}

func (g *groupHeader) encode(b []byte) []byte {
	b = g.groupConfig.append(append(b, rowVersion))
	b = codec.AppendUvarint(codec.AppendUvarint(codec.AppendUvarint(b, g.id), g.home), g.version)
	b = codec.AppendVarint(codec.AppendVarint(b, g.createdAt), g.timer)
	b = codec.AppendUvarint(codec.AppendVarint(b, g.announced.at), uint64(g.announced.partition))
	b = codec.AppendUvarint(codec.AppendUvarint(b, g.announced.offset), g.again)
	b = codec.AppendUvarint(codec.AppendBool(g.heads.append(b), g.recalling), g.membersChangedAt)
	return codec.AppendUvarint(codec.AppendString(b, g.holder), g.epoch)
}

func decodeGroup(b []byte) (g groupHeader, err error) {
	r := codec.NewReader(b)
	version := r.Byte()
	g.groupConfig = readGroupConfig(&r)
	g.id, g.home, g.version = r.Uvarint(), r.Uvarint(), r.Uvarint()
	g.createdAt, g.timer = r.Varint(), r.Varint()
	g.announced = mark{r.Varint(), readCount(&r, MaxPartitions-1), r.Uvarint()}
	g.again, g.heads, g.recalling, g.membersChangedAt = r.Uvarint(), readSlotSet(&r), r.Bool(), r.Uvarint()
	g.holder, g.epoch = r.String(), r.Uvarint()
	if err := r.Done(); err != nil || version != rowVersion || g.groupConfig.check() != nil || g.announced.partition < 0 {
		return g, fmt.Errorf("stream group row: %w: %x", codec.ErrCorrupt, b[:min(len(b), 16)])
	}
	return g, nil
}

// batch is the unacknowledged rest of the records of a partition that were delivered together. Its
// row:
//
//	version u8 | attempt, excused uvarint | delivered, deadline ms (varints) | consumer (length, bytes) | offsets | key hash (u64) of each, if KeyShared
type batch struct {
	partition int
	first     uint64 // offset in the row's key; all offsets are in [first, first+batchSpan)
	lsn       uint64 // in the row's key
	attempt   uint64
	excused   uint64 // earlier attempts that do not count towards MaxAttempts, because another record failed
	delivered int64
	deadline  int64
	consumer  string
	offsets   []uint64
	keys      []uint64 // nil unless KeyShared
	dirty     bool     // the row must be written
}

func (b *batch) key(dst []byte, gen, id uint64) []byte {
	dst = partPrefix(dst, rowBatch, gen, id, b.partition)
	return key.AppendUint64(key.AppendUint64(dst, b.first), b.lsn)
}

func (b *batch) encode(dst []byte) []byte {
	dst = codec.AppendUvarint(codec.AppendUvarint(append(dst, rowVersion), b.attempt), b.excused)
	dst = codec.AppendVarint(codec.AppendVarint(dst, b.delivered), b.deadline)
	dst = appendOffsets(codec.AppendString(dst, b.consumer), b.offsets)
	for _, k := range b.keys {
		dst = key.AppendUint64(dst, k)
	}
	return dst
}

func decodeBatch(k, v []byte) (*batch, error) {
	if len(k) != behindPart+16 {
		return nil, fmt.Errorf("stream batch row: %w: key %x", codec.ErrCorrupt, k)
	}
	b := &batch{partition: partitionIn(k), first: binary.BigEndian.Uint64(k[behindPart:]), lsn: binary.BigEndian.Uint64(k[behindPart+8:])}
	r := codec.NewReader(v)
	version := r.Byte()
	b.attempt, b.excused, b.delivered, b.deadline = r.Uvarint(), r.Uvarint(), r.Varint(), r.Varint()
	b.consumer, b.offsets = r.String(), readOffsets(&r)
	keys := r.Rest()
	for len(keys) >= 8 {
		b.keys = append(b.keys, binary.BigEndian.Uint64(keys))
		keys = keys[8:]
	}
	if r.Err() != nil || version != rowVersion || len(b.offsets) == 0 || len(keys) > 0 || b.keys != nil && len(b.keys) != len(b.offsets) {
		return nil, fmt.Errorf("stream batch row: %w: %x", codec.ErrCorrupt, v[:min(len(v), 16)])
	}
	return b, nil
}

// failure is a record that waits for redelivery. Its row:
//
//	version u8 | attempts, excused uvarint | spent u8 | delivered, due ms (varints) | key hash u64 | reason
type failure struct {
	offset    uint64
	attempts  uint64 // number of deliveries
	excused   uint64 // attempts that do not count towards MaxAttempts
	spent     bool   // it waits for the dead letters: MaxAttempts was reached when it failed
	delivered int64  // time of the last delivery
	due       int64
	hash      uint64 // of the key, 0 unless KeyShared
	reason    string
}

func failureKey(dst []byte, gen, id uint64, partition int, offset uint64) []byte {
	return key.AppendUint64(partPrefix(dst, rowFailure, gen, id, partition), offset)
}

func (f *failure) encode(dst []byte) []byte {
	dst = codec.AppendUvarint(codec.AppendUvarint(append(dst, rowVersion), f.attempts), f.excused)
	dst = codec.AppendVarint(codec.AppendVarint(codec.AppendBool(dst, f.spent), f.delivered), f.due)
	return append(key.AppendUint64(dst, f.hash), f.reason...)
}

func decodeFailure(k, v []byte) (*failure, error) {
	r := codec.NewReader(v)
	version := r.Byte()
	f := &failure{attempts: r.Uvarint(), excused: r.Uvarint(), spent: r.Bool(), delivered: r.Varint(), due: r.Varint()}
	rest := r.Rest()
	if r.Err() != nil || version != rowVersion || len(rest) < 8 || len(k) != behindPart+8 {
		return nil, fmt.Errorf("stream failure row: %w: %x", codec.ErrCorrupt, v[:min(len(v), 16)])
	}
	f.offset = binary.BigEndian.Uint64(k[behindPart:])
	f.hash, f.reason = binary.BigEndian.Uint64(rest), string(rest[8:])
	return f, nil
}

// groupCursor is a group's position in a partition.
type groupCursor struct {
	next uint64 // offset of the next record to scan
	held uint64 // records that were scanned and are held, in a KeyShared group

	pending uint64 // records in batches and failures, including trimmed ones
	sought  uint64 // LSN of the last seek; 0: none
}

func cursorKey(dst []byte, gen, id uint64, partition int) []byte {
	return partPrefix(dst, rowCursor, gen, id, partition)
}

func (c groupCursor) encode(dst []byte) []byte {
	dst = codec.AppendUvarint(codec.AppendUvarint(codec.AppendUvarint(dst, c.next), c.held), c.pending)
	if c.sought != 0 {
		dst = codec.AppendUvarint(dst, c.sought)
	}
	return dst
}

func decodeCursor(b []byte) (c groupCursor, err error) {
	r := codec.NewReader(b)
	c.next, c.held, c.pending = r.Uvarint(), r.Uvarint(), r.Uvarint()
	more := r.Len() > 0
	if more {
		c.sought = r.Uvarint()
	}
	if err := r.Done(); err != nil || c.next == 0 || more != (c.sought != 0) {
		return c, fmt.Errorf("stream cursor row: %w: %x", codec.ErrCorrupt, b)
	}
	return c, nil
}

// member is a consumer of a group.
type member struct {
	joined   int64
	seen     int64 // when it was last seen, behind by up to an eighth of the ack timeout
	end      ending
	attended bool   // it asked and received nothing, and the leader watches it, see attendance
	pending  uint64 // records in its batches
	spared   int64  // it is not silent before, because the ack timeout became shorter since it was last seen; 0: not set
}

func (m member) encode(dst []byte) []byte {
	dst = codec.AppendBool(append(codec.AppendVarint(codec.AppendVarint(dst, m.joined), m.seen), byte(m.end)), m.attended)
	dst = codec.AppendUvarint(dst, m.pending)
	if m.spared != 0 {
		dst = codec.AppendVarint(dst, m.spared)
	}
	return dst
}

func decodeMember(b []byte) (m member, err error) {
	r := codec.NewReader(b)
	m.joined, m.seen, m.end, m.attended = r.Varint(), r.Varint(), ending(r.Byte()), r.Bool()
	m.pending = r.Uvarint()
	if r.Len() > 0 {
		if m.spared = r.Varint(); m.spared == 0 {
			return m, fmt.Errorf("stream member row: %w: %x", codec.ErrCorrupt, b)
		}
	}
	if err := r.Done(); err != nil || m.end >= numEndings {
		return m, fmt.Errorf("stream member row: %w: %x", codec.ErrCorrupt, b)
	}
	return m, nil
}
