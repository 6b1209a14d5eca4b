package ts

import (
	"bytes"

	"github.com/floedb/floe/internal/points"
)

// chunks checks chunks, and the rows of partitions against them.
func (a *auditedMeasurement) chunks() error {
	partitions := int64(0)
	err := a.each(rowPartition, partKeyLen, func(k, value []byte) error {
		p, err := decodePartition(value)
		if err != nil {
			a.problem("partition %x: %v", k, err)
			return nil
		}
		partitions++
		a.ofChunks, a.values = make(map[uint64]generation), 0
		lower, upper := chunksOf(a.inc, tierOf(k), partitionOf(k))
		if err := a.Scan(lower, upper, a.chunk); err != nil {
			return err
		}
		for _, g := range p.generations {
			is := a.ofChunks[g.number]
			if is.chunks != g.chunks || is.bytes != g.bytes {
				a.problem("partition %x: generation %d has %d chunks of %d bytes, its row counts %d of %d", k, g.number, is.chunks,
					is.bytes, g.chunks, g.bytes)
			}
			delete(a.ofChunks, g.number)
		}
		a.points += p.points
		settled := p.state == exact && len(p.generations) == 1 && a.content.deleted == 0 && a.content.erased == 0 &&
			len(a.content.closed) == 0
		if settled && tierOf(k) == rawTier && len(a.fields) == 1 && p.points != a.values {
			a.problem("partition %x: %d points, its row counts %d", k, a.values, p.points)
		}
		if len(a.ofChunks) > 0 {
			a.problem("partition %x: chunks of generations that are not in its row", k)
		}
		return nil
	})
	if err == nil && a.points != a.content.points {
		a.problem("%d points, its row counts %d", a.points, a.content.points)
	}
	if err != nil {
		return err
	}
	return a.homeless()
}

// homeless reports chunks whose partition has no row.
func (a *auditedMeasurement) homeless() error {
	return a.each(rowChunk, chunkKeyLen, func(k, _ []byte) error {
		_, ok, err := a.Get(partKey(nil, rowPartition, a.inc, tierOf(k), partitionOf(k)))
		if err == nil && !ok {
			a.problem("chunk %x has no partition", k)
		}
		return err
	})
}

func (a *auditedMeasurement) chunk(k, value []byte) error {
	if len(k) != chunkKeyLen {
		a.problem("chunk %x: its key has %d bytes", k, len(k))
		return nil
	}
	p, err := readChunk(k, value)
	if err != nil {
		a.problem("chunk %x: %v", k, err)
		return nil
	}
	a.values += p.row.values
	g := a.ofChunks[p.generation]
	g.chunks, g.bytes = g.chunks+1, g.bytes+p.bytes
	a.ofChunks[p.generation] = g
	length := a.partition
	if p.group.tier != rawTier {
		t := a.policy.find(p.group.tier)
		if t == nil {
			a.problem("chunk %x has no tier", k)
			return nil
		}
		length = t.partition(a.partition)
	}
	info, err := a.reader.Check(p.row.data)
	switch {
	case err != nil:
		a.problem("chunk %x: %v", k, err)
		return nil
	case info.From != p.row.from || info.To != p.row.to || seriesID(info.Last) != p.row.last || int64(info.Points) != p.row.values:
		a.problem("chunk %x: its row says %+v, its points %+v", k, p.row, info)
	case floorDiv(info.From, length) != p.group.partition || floorDiv(info.To, length) != p.group.partition:
		a.problem("chunk %x: points from %d to %d belong to another partition", k, info.From, info.To)
	case int(p.group.field) >= len(a.fields):
		a.problem("chunk %x: field %d of %d", k, p.group.field, len(a.fields))
	}
	return a.pageSeries(k, &p)
}

// pageSeries checks the series of a chunk.
func (a *auditedMeasurement) pageSeries(k []byte, p *heldChunk) error {
	var c points.Cursor
	if ok, err := a.reader.Runs(uint16(p.group.field), &c); err != nil || !ok {
		a.problem("chunk %x has no points of its field: %v", k, err)
		return nil
	}
	for first := true; c.Next(); first = false {
		id := seriesID(c.Series())
		if first && (id != p.first || c.First() != p.time) {
			a.problem("chunk %x begins with series %d at %d", k, id, c.First())
		}
		if !a.live.has(id) && !a.leaving.has(id) {
			a.problem("chunk %x: series %d does not exist", k, id)
		}
	}
	return nil
}

func (a *auditedMeasurement) dirty() error {
	var last []byte
	end := int64(0)
	return a.each(rowDirty, dirtyKeyLen, func(k, value []byte) error {
		d, err := decodeDirty(value)
		until := partitionOf(k)
		t := a.policy.find(tierOf(k))
		if err != nil || t == nil || d.from >= until || d.from%t.every != 0 || until%t.every != 0 {
			a.problem("dirty buckets %x from %d: %v", k, d.from, err)
			return nil
		}
		if bytes.HasPrefix(k, last) && last != nil && d.from < end {
			a.problem("dirty buckets %x from %d overlap the range before", k, d.from)
		}
		last, end = append(last[:0], k[:numberAt+2]...), until
		return nil
	})
}

func (a *auditedMeasurement) timer() error {
	if a.content.timer == 0 {
		return nil
	}
	ok, err := a.HasTimer(a.content.timer, a.ns, retentionToken(a.inc))
	if err == nil && !ok {
		a.problem("has no timer at %d", a.content.timer)
	}
	return err
}
