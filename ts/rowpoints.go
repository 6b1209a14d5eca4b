package ts

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/floedb/floe/internal/codec"
)

// block is the row with the points of one batch: a header written by Apply, and points as encoded
// by the caller. In the points, a series is identified by its index in ids, and a field by its
// index in fields.
type block struct {
	ids    []seriesID
	fields []fieldID
	span   span
	points []byte // see package internal/points
}

// span holds the number of points and their time range.
type span struct {
	points         int64 // each counts once, regardless of its fields
	oldest, newest int64 // ms
}

func (b *block) encode(dst []byte) []byte {
	c := codec.NewEncoder(append(dst, rowVersion))
	b.codeHeader(&c)
	return append(c.Encoded(), b.points...)
}

// decodeBlock reads the row of a block; its points alias the row.
func decodeBlock(row []byte) (b block, err error) {
	c, version := codec.NewDecoder(row), byte(0)
	c.Byte(&version)
	b.codeHeader(&c)
	b.points = row[len(row)-c.Left():]
	if err := c.Err(); err != nil || version != rowVersion || b.span.points < 1 || b.span.oldest > b.span.newest {
		return b, fmt.Errorf("ts block row: %w: %x", codec.ErrCorrupt, row[:min(len(row), 16)])
	}
	return b, nil
}

// codeHeader codes what precedes the points.
func (b *block) codeHeader(c *codec.Coder) {
	codeIDs(c, &b.ids)
	n := uint64(len(b.fields))
	if c.Uvarint(&n); c.Reading() {
		if n > uint64(min(c.Left(), MaxFields)) {
			c.Fail("too many fields")
			return
		}
		b.fields = make([]fieldID, n)
	}
	for i := range b.fields {
		if c.Uint16((*uint16)(&b.fields[i])); b.fields[i] >= MaxFields {
			c.Fail("field out of range")
		}
	}
	c.Varint(&b.span.points)
	c.Varint(&b.span.oldest)
	c.Varint(&b.span.newest)
}

// codeIDs codes series: their number, and for each its distance from the successor of the previous
// one (varint).
func codeIDs(c *codec.Coder, ids *[]seriesID) {
	n := uint64(len(*ids))
	if c.Uvarint(&n); c.Reading() {
		if n > uint64(c.Left()) {
			c.Fail("more series than bytes")
			return
		}
		*ids = make([]seriesID, n)
	}
	last := int64(-1)
	for i := range *ids {
		step := int64((*ids)[i]) - last - 1
		c.Varint(&step)
		if last += step + 1; c.Reading() {
			if last < 0 || last > math.MaxUint32 {
				c.Fail("series out of range")
				return
			}
			(*ids)[i] = seriesID(last)
		}
	}
}

// partitionRow is the row of a partition: its generations, oldest first. Points of a later
// generation replace those of earlier ones at the same time.
type partitionRow struct {
	generations []generation
	changed     int64 // time of the last addition, ms
	// Of tier 0; elsewhere they are 0.
	points int64 // as counted in the measurement: each once, regardless of its fields
	newest int64 // no point is later
	state  countState
}

// countState is the accuracy of the points count of a partition.
type countState uint8

const (
	exact       countState = iota
	overlapping            // some additions may be duplicates; points are recounted after a while without additions
	reduced                // some points were removed; the rest are recounted at once
)

// generation is a set of chunks sealed or merged together.
type generation struct {
	number uint64 // LSN up to which it contains points
	chunks int64
	bytes  int64
}

func (g *generation) code(c *codec.Coder) {
	c.Uvarint(&g.number)
	c.Varint(&g.chunks)
	c.Varint(&g.bytes)
}

func (p *partitionRow) code(c *codec.Coder) {
	codeVersion(c)
	codec.List(c, &p.generations, func(c *codec.Coder, g *generation) { g.code(c) })
	for _, v := range []*int64{&p.changed, &p.points, &p.newest} {
		c.Varint(v)
	}
	if c.Byte((*byte)(&p.state)); p.state > reduced {
		c.Fail("unknown count state")
	}
	if !c.Reading() || c.Err() != nil {
		return
	}
	for i, g := range p.generations {
		if g.chunks < 1 || i > 0 && p.generations[i-1].number >= g.number {
			c.Fail("generations out of order")
		}
	}
}

func decodePartition(b []byte) (partitionRow, error) {
	return decode(b, "partition", (*partitionRow).code)
}

// find returns the index of a generation, and whether it exists.
func (p *partitionRow) find(number uint64) (int, bool) {
	return slices.BinarySearchFunc(p.generations, number, func(g generation, n uint64) int {
		switch {
		case g.number < n:
			return -1
		case g.number > n:
			return 1
		}
		return 0
	})
}

// dirty is the row of a range of buckets of a tier to recompute: those from a time up to the one in
// its key, ms. Ranges of a tier do not overlap. A range too large to compute at once is processed
// bucket by bucket, or by series if a few buckets have too many series.
type dirty struct {
	from   int64
	lsn    uint64 // of the last change that extended it
	chunk  int64  // in the buckets before it, the series before next are done
	series uint32
}

func (d *dirty) code(c *codec.Coder) {
	c.Varint(&d.from)
	c.Uvarint(&d.lsn)
	c.Varint(&d.chunk)
	c.Uint32(&d.series)
}

func decodeDirty(b []byte) (dirty, error) { return decode(b, "dirty", (*dirty).code) }

func (d *dirty) encode(dst []byte) []byte { return encode(dst, d, (*dirty).code) }

// chunkRow is the row of a chunk: its description by package points, and its points, which alias
// the row.
type chunkRow struct {
	last     seriesID
	from, to int64 // lowest and highest time
	values   int64
	data     []byte
}

func (p *chunkRow) encode(dst []byte) []byte {
	dst = codec.AppendUvarint(append(dst, rowVersion), uint64(p.last))
	dst = codec.AppendUvarint(codec.AppendVarint(dst, p.from), uint64(p.to-p.from))
	return append(codec.AppendUvarint(dst, uint64(p.values)), p.data...)
}

func decodeChunk(row []byte) (p chunkRow, err error) {
	r := codec.NewReader(row)
	version, last := r.Byte(), r.Uvarint()
	p.from = r.Varint()
	span, values := r.Uvarint(), r.Uvarint()
	p.last, p.to, p.values = seriesID(last), p.from+int64(span), int64(values)
	p.data = r.Rest()
	if err := r.Err(); err != nil || version != rowVersion || last > math.MaxUint32 || p.to < p.from || p.values < 1 {
		return p, fmt.Errorf("ts chunk row: %w: %x", codec.ErrCorrupt, row[:min(len(row), 16)])
	}
	return p, nil
}

// decodePrints decodes a row of fingerprints.
func decodePrints(b []byte, p *[pageSeries]uint64) error {
	if len(b) != 8*pageSeries {
		return fmt.Errorf("ts fingerprints row: %w: %d bytes", codec.ErrCorrupt, len(b))
	}
	for i := range p {
		p[i] = binary.BigEndian.Uint64(b[8*i:])
	}
	return nil
}

// encodePrints encodes fingerprints, u64 each. It reports whether any is nonzero.
func encodePrints(p *[pageSeries]uint64) (row []byte, some bool) {
	row = make([]byte, 0, 8*pageSeries)
	for _, v := range p {
		row = binary.BigEndian.AppendUint64(row, v)
		some = some || v != 0
	}
	return row, some
}
