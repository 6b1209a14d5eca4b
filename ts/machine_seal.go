package ts

import (
	"math"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// newChunk is a chunk made by a duty. Its generation is that of the command.
type newChunk struct {
	partition int64
	field     fieldID
	column    column
	first     seriesID
	time      int64 // of its first point
	row       []byte
}

func (p *newChunk) code(f *codec.Fields) {
	f.Varint("partition", &p.partition)
	codec.Narrow(f, "field", &p.field)
	f.Byte("column", (*byte)(&p.column))
	codec.Narrow(f, "first_series", &p.first)
	f.Varint("first_time_ms", &p.time)
	if c := f.Binary(); c != nil {
		c.View(&p.row)
	} else {
		f.Bytes("row", &p.row)
	}
}

func (p *newChunk) key(inc incarnation, tier tierID, generation uint64) []byte {
	return chunkKey(nil, chunkGroup{inc, tier, p.partition, p.field, p.column}, generation, p.first, p.time)
}

// counted is the number of points that a partition gets.
type counted struct{ partition, points int64 }

func (n *counted) code(f *codec.Fields) {
	f.Varint("partition", &n.partition)
	f.Varint("points", &n.points)
}

// dirtyRange is a range of buckets of a tier to recompute.
type dirtyRange struct {
	tier        tierID
	from, until int64
}

func (d *dirtyRange) code(f *codec.Fields) {
	codec.Narrow(f, "tier", &d.tier)
	f.Varint("from_ms", &d.from)
	f.Varint("until_ms", &d.until)
}

// sealBody turns the blocks after one LSN and up to another into chunks.
type sealBody struct {
	inc     incarnation
	from    uint64 // already sealed
	upTo    uint64
	written int64 // points of the blocks, as counted
	bytes   int64 // of the blocks
	chunks  []newChunk
	points  []counted // by partition, ascending
	dirty   []dirtyRange
	shape   uint64 // of the view it was made from
}

func (b *sealBody) code(f *codec.Fields) {
	f.Uvarint("incarnation", (*uint64)(&b.inc))
	f.Uvarint("from", &b.from)
	f.Uvarint("up_to", &b.upTo)
	f.Varint("written", &b.written)
	f.Varint("bytes", &b.bytes)
	codec.ListOf(f, "pages", &b.chunks, (*newChunk).code)
	codec.ListOf(f, "points", &b.points, (*counted).code)
	codec.ListOf(f, "dirty", &b.dirty, (*dirtyRange).code)
	f.Uvarint("shape", &b.shape)
}

func (s *session) seal(b *sealBody) error {
	o, err := s.exactly(b.inc)
	if err != nil {
		return err
	}
	m, tx, c := s.machine, s.tx, &o.content
	fenced := c.sealed == b.from && b.from < b.upTo && b.upTo <= c.last && c.shape == b.shape
	if !fenced {
		return hasChanged(s.name)
	}
	m.touch(tx, o)
	m.addChunks(tx, o, rawTier, b.upTo, b.chunks, b.points)
	tx.DeleteRange(blockKey(nil, o.inc, b.from+1, 0), blockKey(nil, o.inc, b.upTo+1, 0))
	left := int64(0)
	for _, n := range b.points {
		left += n.points
	}
	c.points += left - b.written
	tx.Count(countPoints, left-b.written)
	c.sealed = b.upTo
	c.blocks.points -= b.written
	c.blocks.bytes -= b.bytes
	c.blocks.since = tx.Now()
	if b.upTo == c.last {
		c.blocks.since = 0
	}
	c.blocks.sealed(b.upTo, c.last)
	m.addUnsealed(tx, -b.bytes)
	for _, d := range b.dirty {
		m.markDirty(tx, o, d.tier, d.from, d.until)
	}
	m.expireRaw(tx, o)
	m.saveContent(tx, o)
	return nil
}

// addChunks writes chunks of one generation, and records it in the rows of their partitions.
func (m *machine) addChunks(tx *engine.Tx, o *open, id tierID, generation uint64, chunks []newChunk, points []counted) {
	for from := 0; from < len(chunks); {
		partition, bytes, to := chunks[from].partition, int64(0), from
		oldest, newest := int64(math.MaxInt64), int64(math.MinInt64)
		for ; to < len(chunks) && chunks[to].partition == partition; to++ {
			p := &chunks[to]
			tx.Insert(p.key(o.inc, id, generation), p.row)
			bytes += int64(len(p.row))
			row := must(decodeChunk(p.row))
			oldest, newest = min(oldest, row.from), max(newest, row.to)
		}
		p := m.partition(tx, o, id, partition)
		if id == rawTier {
			if len(p.generations) == 0 {
				p.newest = newest
			} else if oldest <= p.newest {
				p.state = max(p.state, overlapping)
			}
			p.newest = max(p.newest, newest)
		}
		g := p.add(generation)
		g.chunks += int64(to - from)
		g.bytes += bytes
		if i := slices.IndexFunc(points, func(n counted) bool { return n.partition == partition }); i >= 0 {
			p.points += points[i].points
		}
		p.changed = tx.Now()
		m.savePartition(tx, o, id, partition, p)
		from = to
	}
}

func (m *machine) partition(tx *engine.Tx, o *open, id tierID, partition int64) (p partitionRow) {
	if b, ok := tx.Get(partKey(nil, rowPartition, o.inc, id, partition)); ok {
		p = must(decodePartition(b))
	}
	return p
}

func (m *machine) savePartition(tx *engine.Tx, o *open, id tierID, partition int64, p partitionRow) {
	k := partKey(nil, rowPartition, o.inc, id, partition)
	p.generations = slices.DeleteFunc(p.generations, func(g generation) bool { return g.chunks == 0 })
	if len(p.generations) == 0 {
		tx.Delete(k)
		return
	}
	tx.Set(k, encode(nil, &p, (*partitionRow).code))
}

// add returns the generation with a number, and creates it if it does not exist.
func (p *partitionRow) add(number uint64) *generation {
	i, ok := p.find(number)
	if !ok {
		p.generations = slices.Insert(p.generations, i, generation{number: number})
	}
	return &p.generations[i]
}

// oldChunk is a chunk to replace.
type oldChunk struct {
	generation uint64
	field      fieldID
	column     column
	first      seriesID
	time       int64
	bytes      int64
}

func (p *oldChunk) code(f *codec.Fields) {
	f.Uvarint("generation", &p.generation)
	codec.Narrow(f, "field", &p.field)
	f.Byte("column", (*byte)(&p.column))
	codec.Narrow(f, "first_series", &p.first)
	f.Varint("first_time_ms", &p.time)
	f.Varint("bytes", &p.bytes)
}

// placedChunk is a new chunk with its generation: the remainder of a chunk keeps the generation of
// that chunk.
type placedChunk struct {
	newChunk
	generation uint64
}

// rewriteBody replaces chunks of a partition with others that have fewer generations, or no deleted
// series. The contents for existing series do not change.
type rewriteBody struct {
	inc       incarnation
	shape     uint64 // of the view that contained the chunks
	tier      tierID
	partition int64
	old       []oldChunk
	chunks    []placedChunk
	reduces   bool // some points are not in the new chunks
}

func (r *rewriteBody) code(f *codec.Fields) {
	f.Uvarint("incarnation", (*uint64)(&r.inc))
	f.Uvarint("shape", &r.shape)
	codec.Narrow(f, "tier", &r.tier)
	f.Varint("partition", &r.partition)
	codec.ListOf(f, "old", &r.old, (*oldChunk).code)
	codec.ListOf(f, "pages", &r.chunks, func(p *placedChunk, f *codec.Fields) {
		f.Uvarint("generation", &p.generation)
		p.newChunk.code(f)
	})
	f.Bool("reduces", &r.reduces)
}

func (s *session) rewrite(r *rewriteBody) error {
	m, tx := s.machine, s.tx
	o, err := s.exactly(r.inc)
	if err != nil {
		return err
	}
	if o.content.shape != r.shape {
		return hasChanged(s.name)
	}
	m.touch(tx, o)
	p := m.partition(tx, o, r.tier, r.partition)
	for _, old := range r.old {
		at := chunkGroup{o.inc, r.tier, r.partition, old.field, old.column}
		tx.Delete(chunkKey(nil, at, old.generation, old.first, old.time))
		g := p.add(old.generation)
		g.chunks--
		g.bytes -= old.bytes
	}
	for i := range r.chunks {
		n := &r.chunks[i]
		n.partition = r.partition
		tx.Set(n.key(o.inc, r.tier, n.generation), n.row)
		g := p.add(n.generation)
		g.chunks++
		g.bytes += int64(len(n.row))
	}
	if r.reduces && r.tier == rawTier {
		p.state = reduced
	}
	if !slices.ContainsFunc(p.generations, func(g generation) bool { return g.chunks > 0 }) {
		m.recount(tx, o, &p, 0)
	}
	m.savePartition(tx, o, r.tier, r.partition, p)
	o.content.shape = uint64(tx.LSN())
	m.saveContent(tx, o)
	return nil
}

// recount sets the number of points of a partition to the counted one.
func (m *machine) recount(tx *engine.Tx, o *open, p *partitionRow, points int64) {
	o.content.points += points - p.points
	tx.Count(countPoints, points-p.points)
	p.points, p.state = points, exact
}

// countBody sets the number of points of a partition, after some may have been added twice or
// removed.
type countBody struct {
	inc       incarnation
	shape     uint64 // of the view used for counting
	sealed    uint64 // of the same view
	partition int64
	points    int64
}

func (n *countBody) code(f *codec.Fields) {
	f.Uvarint("incarnation", (*uint64)(&n.inc))
	f.Uvarint("shape", &n.shape)
	f.Uvarint("sealed", &n.sealed)
	f.Varint("partition", &n.partition)
	f.Varint("points", &n.points)
}

func (s *session) count(n *countBody) error {
	m, tx := s.machine, s.tx
	o, err := s.exactly(n.inc)
	if err != nil {
		return err
	}
	p := m.partition(tx, o, rawTier, n.partition)
	if o.content.shape != n.shape || o.content.sealed != n.sealed || len(p.generations) == 0 {
		return hasChanged(s.name)
	}
	m.touch(tx, o)
	m.recount(tx, o, &p, n.points)
	m.savePartition(tx, o, rawTier, n.partition, p)
	m.saveContent(tx, o)
	return nil
}

// rollupBody stores recomputed buckets of a tier.
type rollupBody struct {
	inc    incarnation
	tier   tierID
	shape  uint64 // of the view they were computed from
	until  int64  // end of the range of dirty buckets they belong to
	was    dirty  // the row of that range before
	is     dirty  // the rest of the range; it is complete if it begins at its end
	chunks []newChunk
}

func (r *rollupBody) code(f *codec.Fields) {
	f.Uvarint("incarnation", (*uint64)(&r.inc))
	codec.Narrow(f, "tier", &r.tier)
	f.Uvarint("shape", &r.shape)
	f.Varint("until_ms", &r.until)
	r.was.fields(f, "was_")
	r.is.fields(f, "is_")
	codec.ListOf(f, "pages", &r.chunks, (*newChunk).code)
}

// fields codes a dirty range; in JSON its fields begin with a prefix.
func (d *dirty) fields(f *codec.Fields, prefix string) {
	if c := f.Binary(); c != nil {
		d.code(c)
		return
	}
	f.Varint(prefix+"from_ms", &d.from)
	f.Uvarint(prefix+"lsn", &d.lsn)
	f.Varint(prefix+"chunk_ms", &d.chunk)
	codec.Narrow(f, prefix+"series", &d.series)
}

func (s *session) rollup(r *rollupBody) error {
	m, tx := s.machine, s.tx
	o, err := s.exactly(r.inc)
	if err != nil {
		return err
	}
	k := partKey(nil, rowDirty, o.inc, r.tier, r.until)
	b, ok := tx.Get(k)
	if !ok || must(decodeDirty(b)) != r.was || o.content.shape != r.shape {
		return hasChanged(s.name)
	}
	m.touch(tx, o)
	m.addChunks(tx, o, r.tier, uint64(tx.LSN()), r.chunks, nil)
	if r.is.from >= r.until {
		tx.Delete(k)
	} else {
		tx.Set(k, r.is.encode(nil))
	}
	o.content.rolled = uint64(tx.LSN())
	m.expireRaw(tx, o)
	m.saveContent(tx, o)
	return nil
}

// chunksOf returns the key range of all chunks of a partition.
func chunksOf(inc incarnation, id tierID, partition int64) (lower, upper []byte) {
	lower = partKey(nil, rowChunk, inc, id, partition)
	return lower, key.PrefixEnd(lower)
}
