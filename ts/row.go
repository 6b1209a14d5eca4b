package ts

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
)

// rowVersion is the first byte of rows whose layout may change.
const rowVersion = 1

// fieldID is the number of a field in a measurement, counted from 0.
type fieldID uint16

// encode and decode use the same function of a row, so that they cannot differ.
func encode[T any](dst []byte, row *T, code func(*T, *codec.Coder)) []byte {
	c := codec.NewEncoder(dst)
	code(row, &c)
	return c.Encoded()
}

func decode[T any](b []byte, what string, code func(*T, *codec.Coder)) (row T, err error) {
	c := codec.NewDecoder(b)
	code(&row, &c)
	if err := c.Done(); err != nil {
		return row, fmt.Errorf("ts %s row: %w", what, err)
	}
	return row, nil
}

// must returns a value that Apply reads and has itself written.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func codeVersion(c *codec.Coder) {
	v := byte(rowVersion)
	if c.Byte(&v); v != rowVersion {
		c.Fail("unknown version")
	}
}

// measurement is the row that describes a measurement. A field's number is its index in the list.
type measurement struct {
	ns        uint32
	name      string
	createdAt int64
	partition int64 // length of a partition of tier 0, ms
	fields    []field
	// At its home: the parts in other shards that were announced and not withdrawn, in order of
	// arrival.
	elsewhere []announcement
}

// announcement reports that a shard of a spread namespace has a part of a measurement.
type announcement struct {
	shard engine.ShardID
	inc   incarnation
}

func (a *announcement) code(c *codec.Coder) {
	c.Uint16((*uint16)(&a.shard))
	c.Uvarint((*uint64)(&a.inc))
}

type field struct {
	name string
	kind FieldType
}

func (f *field) code(c *codec.Coder) {
	c.String(&f.name)
	c.Byte((*byte)(&f.kind))
	if f.kind > Boolean {
		c.Fail("unknown field type")
	}
}

func (m *measurement) code(c *codec.Coder) {
	codeVersion(c)
	c.Uint32(&m.ns)
	c.String(&m.name)
	c.Varint(&m.createdAt)
	c.Varint(&m.partition)
	codec.List(c, &m.fields, func(c *codec.Coder, f *field) { f.code(c) })
	codec.List(c, &m.elsewhere, func(c *codec.Coder, a *announcement) { a.code(c) })
	if m.partition < minPartition || len(m.fields) > MaxFields {
		c.Fail("measurement out of range")
	}
}

func decodeMeasurement(b []byte) (measurement, error) {
	return decode(b, "measurement", (*measurement).code)
}

func (m *measurement) encode(dst []byte) []byte { return encode(dst, m, (*measurement).code) }

// content is the row with the contents of a measurement in one shard.
type content struct {
	series     uint32 // number of series
	nextSeries uint32
	points     int64 // written; corrected when they are sealed and merged
	blocks     waiting
	sealed     uint64 // LSN: blocks up to it are in chunks
	last       uint64 // LSN of the last write
	oldest     int64  // lowest and highest time ever written, ms; oldest is greater if none exists
	newest     int64
	shape      uint64 // LSN of the last change of chunks other than additions
	rolled     uint64 // LSN of the view of the last rollup
	expired    uint64 // LSN of the last removal by retention
	swept      uint64 // LSN up to which series without points have been removed
	erased     uint32 // number of rows of deletions of time ranges
	deleted    uint32 // number of deleted series whose points may still be in chunks
	retiring   uint32 // number of series being retired
	timer      int64  // next time of the retention timer, 0: none
	kept       int64  // points before this time were outdated at some point: those that exist were written later
	closed     []closing
	lost       []lost // of tiers, ascending
	// of tiers, ascending: earlier buckets are gone, or lack points that retention removed before
	// the tier was added
	since []lost
}

// closing records that the retention was extended. Points before a time were outdated by then.
// Those written up to an LSN stay gone, though they may still be in blocks and chunks.
//
// The tiers of that time are still computed from those points, and chunks keep them until that is
// done. Later tiers have lower bounds.
type closing struct {
	before int64
	upTo   uint64
	tiers  tierID // tiers with lower numbers existed then
}

// How often a retention may be extended before outdated points have been removed, at the home of
// the measurement and elsewhere. Elsewhere the points may be removed later.
const (
	maxClosings = 16
	maxAdopted  = 1024
)

func (l *closing) code(c *codec.Coder) {
	c.Varint(&l.before)
	c.Uvarint(&l.upTo)
	c.Uint16((*uint16)(&l.tiers))
}

// lost records that points before a time were removed after a tier had been computed from them, so
// earlier buckets cannot be recomputed.
type lost struct {
	tier   tierID
	before int64 // start of a bucket
}

func (l *lost) code(c *codec.Coder) {
	c.Uint16((*uint16)(&l.tier))
	c.Varint(&l.before)
}

// lostBefore returns the time before which no bucket of a tier can be recomputed.
func (n *content) lostBefore(id tierID) int64 {
	for _, l := range n.lost {
		if l.tier == id {
			return l.before
		}
	}
	return minTime
}

// wholeFrom returns the time from which the buckets of a tier are complete.
func (n *content) wholeFrom(id tierID) int64 {
	for _, s := range n.since {
		if s.tier == id {
			return s.before
		}
	}
	return minTime
}

// lose records that points before a time were removed. A tier has been computed from them.
func (n *content) lose(t *tier, before int64) { n.lost = raise(n.lost, t, before) }

// raise moves the time of a tier to the first bucket that begins at or after a time, unless it is
// already later.
func raise(all []lost, t *tier, before int64) []lost {
	before = ceil(before, t.every)
	i, ok := slices.BinarySearchFunc(all, t.id, func(l lost, id tierID) int { return int(l.tier) - int(id) })
	if !ok {
		all = slices.Insert(all, i, lost{t.id, before})
	}
	all[i].before = max(all[i].before, before)
	return all
}

// keptFor returns the time before which a tier is not computed from writes up to an LSN.
func (n *content) keptFor(id tierID, lsn uint64) int64 {
	before := int64(minTime)
	for _, l := range n.closed {
		if id >= l.tiers && lsn <= l.upTo {
			before = max(before, l.before)
		}
	}
	return before
}

// goneBefore returns the time before which writes up to an LSN are gone, regardless of the current
// retention.
func (n *content) goneBefore(lsn uint64) int64 {
	before := int64(minTime)
	for _, l := range n.closed {
		if lsn <= l.upTo {
			before = max(before, l.before)
		}
	}
	return before
}

// closesBetween reports whether the retention was extended between two writes. If so, they must not
// share a generation, because different points of them are gone.
func (n *content) closesBetween(before, after uint64) bool {
	return slices.ContainsFunc(n.closed, func(l closing) bool { return before <= l.upTo && l.upTo < after })
}

// waiting counts unsealed blocks and points.
type waiting struct {
	points int64
	bytes  int64
	since  int64 // stamp of the oldest block, 0: none
	// No point of a block up to the LSN turn is before oldest, and no point of a later one before
	// later. The two marks alternate and follow the blocks as they are sealed, without reading all
	// of them.
	oldest, later int64
	turn          uint64
}

// add records the time of the oldest point of a block.
func (w *waiting) add(oldest int64) { w.later = min(w.later, oldest) }

// sealed records that blocks up to an LSN are now chunks. The newest block is at last.
func (w *waiting) sealed(upTo, last uint64) {
	if upTo >= w.turn {
		w.oldest, w.later, w.turn = w.later, math.MaxInt64, last
	}
	if upTo == last {
		w.oldest = math.MaxInt64
	}
}

// least returns a time before which no block has a point, or math.MaxInt64 if there is no block.
func (w *waiting) least() int64 { return min(w.oldest, w.later) }

func newContent() content {
	return content{oldest: math.MaxInt64, newest: math.MinInt64, kept: minTime,
		blocks: waiting{oldest: math.MaxInt64, later: math.MaxInt64}}
}

func (n *content) code(c *codec.Coder) {
	codeVersion(c)
	for _, v := range []*uint32{&n.series, &n.nextSeries, &n.deleted, &n.retiring, &n.erased} {
		c.Uint32(v)
	}
	for _, v := range []*int64{&n.points, &n.timer, &n.kept, &n.blocks.points, &n.blocks.bytes, &n.blocks.since, &n.blocks.oldest,
		&n.blocks.later, &n.oldest, &n.newest} {
		c.Varint(v)
	}
	for _, v := range []*uint64{&n.sealed, &n.last, &n.shape, &n.rolled, &n.expired, &n.swept, &n.blocks.turn} {
		c.Uvarint(v)
	}
	if codec.List(c, &n.closed, func(c *codec.Coder, l *closing) { l.code(c) }); len(n.closed) > maxAdopted {
		c.Fail("content out of range")
	}
	if codec.List(c, &n.lost, func(c *codec.Coder, l *lost) { l.code(c) }); len(n.lost) > MaxTiers {
		c.Fail("content out of range")
	}
	if c.More(len(n.since) > 0) {
		if codec.List(c, &n.since, func(c *codec.Coder, l *lost) { l.code(c) }); len(n.since) == 0 || len(n.since) > MaxTiers {
			c.Fail("content out of range")
		}
	}
}

func decodeContent(b []byte) (content, error) { return decode(b, "content", (*content).code) }

func (n *content) encode(dst []byte) []byte { return encode(dst, n, (*content).code) }

// policy is the row of a measurement's retention and tiers. Its home, the shard of its name, has
// the newest version and sends it to the others.
type policy struct {
	version uint64
	rawTTL  int64 // ms, 0: for ever
	tiers   []tier
	next    tierID // number of the next tier
}

// tier is a rollup: the aggregates of each bucket, with the length of buckets and their TTL.
type tier struct {
	id    tierID
	every int64 // ms
	ttl   int64 // ms, 0: for ever
}

func (t *tier) code(c *codec.Coder) {
	c.Uint16((*uint16)(&t.id))
	c.Varint(&t.every)
	c.Varint(&t.ttl)
	if t.id == rawTier || t.every <= 0 || t.ttl < 0 {
		c.Fail("tier out of range")
	}
}

// partition returns the length of the partitions of a tier in ms: a multiple of its buckets, long
// enough for long runs.
func (t *tier) partition(raw int64) int64 {
	const buckets = 1024
	n := max(buckets, (raw+t.every-1)/t.every)
	return n * t.every
}

func (p *policy) code(c *codec.Coder) {
	codeVersion(c)
	c.Uvarint(&p.version)
	c.Varint(&p.rawTTL)
	codec.List(c, &p.tiers, func(c *codec.Coder, t *tier) { t.code(c) })
	c.Uint16((*uint16)(&p.next))
	if p.rawTTL < 0 || len(p.tiers) > MaxTiers {
		c.Fail("retention out of range")
	}
}

func decodePolicy(b []byte) (policy, error) { return decode(b, "policy", (*policy).code) }

func (p *policy) encode(dst []byte) []byte { return encode(dst, p, (*policy).code) }

// limitRow is the row of a namespace's maximum number of series, over all shards.
type limitRow struct {
	version uint64
	limit   uint64
}

func (l *limitRow) code(c *codec.Coder) {
	codeVersion(c)
	c.Uvarint(&l.version)
	c.Uvarint(&l.limit)
}

func decodeLimit(b []byte) (limitRow, error) { return decode(b, "limit", (*limitRow).code) }

// tagList is a tag set: names in order, unique and not empty.
type tagList []tag

type tag struct{ name, value string }

// list codes tags, in any order.
func (l *tagList) list(c *codec.Coder) {
	codec.List(c, (*[]tag)(l), func(c *codec.Coder, t *tag) {
		c.String(&t.name)
		c.String(&t.value)
	})
}

func (l *tagList) code(c *codec.Coder) {
	if l.list(c); !c.Reading() || c.Err() != nil {
		return
	}
	for i, t := range *l {
		if t.name == "" || t.value == "" || i > 0 && (*l)[i-1].name >= t.name {
			c.Fail("tags without a value or out of order")
		}
	}
}

// identity returns the hash used to look up a series, and the fingerprint that verifies its number.
// If an old series and its successor have the same number, their fingerprints differ. No
// fingerprint is 0.
func (l tagList) identity() (hash [hashLen]byte, fingerprint uint64) {
	sum := sha256.Sum256(encode(nil, &l, (*tagList).code))
	copy(hash[:], sum[:hashLen])
	return hash, max(binary.BigEndian.Uint64(sum[hashLen:]), 1)
}

// get returns the value of a tag, "" if none exists.
func (l tagList) get(name string) string {
	i, ok := slices.BinarySearchFunc(l, name, func(t tag, name string) int { return cmpString(t.name, name) })
	if !ok {
		return ""
	}
	return l[i].value
}

func cmpString(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// seriesRow is the row of a series.
type seriesRow struct {
	fingerprint uint64
	tags        tagList
}

func (s *seriesRow) code(c *codec.Coder) {
	c.Uvarint(&s.fingerprint)
	s.tags.code(c)
	if s.fingerprint == 0 {
		c.Fail("series without a fingerprint")
	}
}

func decodeSeries(b []byte) (seriesRow, error) { return decode(b, "series", (*seriesRow).code) }

func (s *seriesRow) encode(dst []byte) []byte { return encode(dst, s, (*seriesRow).code) }

// tagRow is the row of a tag: the number of distinct values, and of series that have it.
type tagRow struct{ values, series uint64 }

func (t *tagRow) code(c *codec.Coder) {
	c.Uvarint(&t.values)
	c.Uvarint(&t.series)
}

func decodeTag(b []byte) (tagRow, error) { return decode(b, "tag", (*tagRow).code) }

// count is a row with a single number.
type count uint64

func (n *count) code(c *codec.Coder) { c.Uvarint((*uint64)(n)) }

func decodeCount(b []byte) (uint64, error) {
	n, err := decode(b, "count", (*count).code)
	return uint64(n), err
}

func encodeCount(dst []byte, n uint64) []byte { return codec.AppendUvarint(dst, n) }
