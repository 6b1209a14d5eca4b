package ts

import (
	"math"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/plant"
)

// newPage is a page that a duty has made. Its generation is that of the command.
type newPage struct {
	partition int64
	field     fieldID
	column    column
	first     seriesID
	time      int64 // of its first point
	row       []byte
}

func (p *newPage) code(c *codec.Coder) {
	c.Varint(&p.partition)
	c.Uint16((*uint16)(&p.field))
	c.Byte((*byte)(&p.column))
	c.Uint32((*uint32)(&p.first))
	c.Varint(&p.time)
	c.Bytes(&p.row)
}

func (p *newPage) key(inc incarnation, tier tierID, generation uint64) []byte {
	return pageKey(nil, pageGroup{inc, tier, p.partition, p.field, p.column}, generation, p.first, p.time)
}

// counted says how many points a partition gets.
type counted struct{ partition, points int64 }

func (n *counted) code(c *codec.Coder) {
	c.Varint(&n.partition)
	c.Varint(&n.points)
}

// dirtyRange are buckets of a tier that are to be computed anew.
type dirtyRange struct {
	tier        tierID
	from, until int64
}

func (d *dirtyRange) code(c *codec.Coder) {
	c.Uint16((*uint16)(&d.tier))
	c.Varint(&d.from)
	c.Varint(&d.until)
}

// sealCommand turns blocks into pages: those behind one LSN and up to another.
type sealCommand struct {
	name    string
	inc     incarnation
	from    uint64 // what is sealed already
	upTo    uint64
	written int64 // points of the blocks, as they counted
	bytes   int64 // of the blocks
	pages   []newPage
	points  []counted // by partition, ascending
	dirty   []dirtyRange
	shape   uint64 // of the view that it was made from
}

func (s *sealCommand) code(c *codec.Coder) {
	c.String(&s.name)
	c.Uvarint((*uint64)(&s.inc))
	c.Uvarint(&s.from)
	c.Uvarint(&s.upTo)
	c.Varint(&s.written)
	c.Varint(&s.bytes)
	codec.List(c, &s.pages, func(c *codec.Coder, p *newPage) { p.code(c) })
	codec.List(c, &s.points, func(c *codec.Coder, n *counted) { n.code(c) })
	codec.List(c, &s.dirty, func(c *codec.Coder, d *dirtyRange) { d.code(c) })
	c.Uvarint(&s.shape)
}

func (m *machine) seal(tx *engine.Tx, body []byte) error {
	s, err := decodeBody(body, (*sealCommand).code)
	if err != nil {
		return err
	}
	o, err := m.loadExact(tx, s.name, s.inc)
	if err != nil {
		return err
	}
	c := &o.content
	fenced := c.sealed == s.from && s.from < s.upTo && s.upTo <= c.last && c.shape == s.shape
	if !fenced && !plant.On(plant.SealUnfenced) {
		return overtaken(s.name)
	}
	m.touch(tx, o)
	m.addPages(tx, o, rawTier, s.upTo, s.pages, s.points)
	tx.DeleteRange(blockKey(nil, o.inc, s.from+1, 0), blockKey(nil, o.inc, s.upTo+1, 0))
	left := int64(0)
	for _, n := range s.points {
		left += n.points
	}
	c.points += left - s.written
	tx.Count(countPoints, left-s.written)
	c.sealed = s.upTo
	c.blocks.points -= s.written
	c.blocks.bytes -= s.bytes
	c.blocks.since = tx.Now()
	if s.upTo == c.last {
		c.blocks.since = 0
	}
	c.blocks.sealed(s.upTo, c.last)
	m.addUnsealed(tx, -s.bytes)
	for _, d := range s.dirty {
		m.markDirty(tx, o, d.tier, d.from, d.until)
	}
	m.expireRaw(tx, o)
	m.saveContent(tx, o)
	return nil
}

// addPages writes pages of one generation, and notes it in the rows of their partitions.
func (m *machine) addPages(tx *engine.Tx, o *open, id tierID, generation uint64, pages []newPage, points []counted) {
	for from := 0; from < len(pages); {
		partition, bytes, to := pages[from].partition, int64(0), from
		oldest, newest := int64(math.MaxInt64), int64(math.MinInt64)
		for ; to < len(pages) && pages[to].partition == partition; to++ {
			p := &pages[to]
			tx.Insert(p.key(o.inc, id, generation), p.row)
			bytes += int64(len(p.row))
			row := must(decodePage(p.row))
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
		g.pages += int64(to - from)
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
	p.generations = slices.DeleteFunc(p.generations, func(g generation) bool { return g.pages == 0 })
	if len(p.generations) == 0 {
		tx.Delete(k)
		return
	}
	tx.Set(k, encode(nil, &p, (*partitionRow).code))
}

// add returns a generation, which it makes if there is none of the number.
func (p *partitionRow) add(number uint64) *generation {
	i, ok := p.find(number)
	if !ok {
		p.generations = slices.Insert(p.generations, i, generation{number: number})
	}
	return &p.generations[i]
}

// oldPage is a page that is replaced.
type oldPage struct {
	generation uint64
	field      fieldID
	column     column
	first      seriesID
	time       int64
	bytes      int64
}

func (p *oldPage) code(c *codec.Coder) {
	c.Uvarint(&p.generation)
	c.Uint16((*uint16)(&p.field))
	c.Byte((*byte)(&p.column))
	c.Uint32((*uint32)(&p.first))
	c.Varint(&p.time)
	c.Varint(&p.bytes)
}

// placedPage is a new page with its generation: what is left of one page keeps its own.
type placedPage struct {
	newPage
	generation uint64
}

// rewriteCommand replaces pages of a partition by others that say the same of all series that exist: fewer generations, or without series that have
// been deleted.
type rewriteCommand struct {
	name      string
	inc       incarnation
	shape     uint64 // of the view in which the pages were what they were
	tier      tierID
	partition int64
	old       []oldPage
	pages     []placedPage
	reduces   bool // some points are not in the new pages
}

func (r *rewriteCommand) code(c *codec.Coder) {
	c.String(&r.name)
	c.Uvarint((*uint64)(&r.inc))
	c.Uvarint(&r.shape)
	c.Uint16((*uint16)(&r.tier))
	c.Varint(&r.partition)
	codec.List(c, &r.old, func(c *codec.Coder, p *oldPage) { p.code(c) })
	codec.List(c, &r.pages, func(c *codec.Coder, p *placedPage) {
		c.Uvarint(&p.generation)
		p.newPage.code(c)
	})
	c.Bool(&r.reduces)
}

func (m *machine) rewrite(tx *engine.Tx, body []byte) error {
	r, err := decodeBody(body, (*rewriteCommand).code)
	if err != nil {
		return err
	}
	o, err := m.loadExact(tx, r.name, r.inc)
	if err != nil {
		return err
	}
	if o.content.shape != r.shape && !plant.On(plant.RewriteUnfenced) {
		return overtaken(r.name)
	}
	m.touch(tx, o)
	p := m.partition(tx, o, r.tier, r.partition)
	for _, old := range r.old {
		at := pageGroup{o.inc, r.tier, r.partition, old.field, old.column}
		tx.Delete(pageKey(nil, at, old.generation, old.first, old.time))
		g := p.add(old.generation)
		g.pages--
		g.bytes -= old.bytes
	}
	for i := range r.pages {
		n := &r.pages[i]
		n.partition = r.partition
		tx.Set(n.key(o.inc, r.tier, n.generation), n.row)
		g := p.add(n.generation)
		g.pages++
		g.bytes += int64(len(n.row))
	}
	if r.reduces && r.tier == rawTier {
		p.state = reduced
	}
	if !slices.ContainsFunc(p.generations, func(g generation) bool { return g.pages > 0 }) {
		m.recount(tx, o, &p, 0)
	}
	m.savePartition(tx, o, r.tier, r.partition, p)
	o.content.shape = uint64(tx.LSN())
	m.saveContent(tx, o)
	return nil
}

// recount corrects how many points a partition has.
func (m *machine) recount(tx *engine.Tx, o *open, p *partitionRow, points int64) {
	o.content.points += points - p.points
	tx.Count(countPoints, points-p.points)
	p.points, p.state = points, exact
}

// countCommand says how many points a partition has, after some may have been added twice or have been removed.
type countCommand struct {
	name      string
	inc       incarnation
	shape     uint64 // of the view in which they were counted
	sealed    uint64 // likewise
	partition int64
	points    int64
}

func (n *countCommand) code(c *codec.Coder) {
	c.String(&n.name)
	c.Uvarint((*uint64)(&n.inc))
	c.Uvarint(&n.shape)
	c.Uvarint(&n.sealed)
	c.Varint(&n.partition)
	c.Varint(&n.points)
}

func (m *machine) count(tx *engine.Tx, body []byte) error {
	n, err := decodeBody(body, (*countCommand).code)
	if err != nil {
		return err
	}
	o, err := m.loadExact(tx, n.name, n.inc)
	if err != nil {
		return err
	}
	p := m.partition(tx, o, rawTier, n.partition)
	if o.content.shape != n.shape || o.content.sealed != n.sealed || len(p.generations) == 0 {
		return overtaken(n.name)
	}
	m.touch(tx, o)
	m.recount(tx, o, &p, n.points)
	m.savePartition(tx, o, rawTier, n.partition, p)
	m.saveContent(tx, o)
	return nil
}

// rollupCommand stores buckets of a tier that were computed anew.
type rollupCommand struct {
	name  string
	inc   incarnation
	tier  tierID
	shape uint64 // of the view that they were computed from
	until int64  // of the range of dirty buckets that they belong to
	was   dirty  // what its row said
	is    dirty  // what is left of it; the whole range is done if it begins at its end
	pages []newPage
}

func (r *rollupCommand) code(c *codec.Coder) {
	c.String(&r.name)
	c.Uvarint((*uint64)(&r.inc))
	c.Uint16((*uint16)(&r.tier))
	c.Uvarint(&r.shape)
	c.Varint(&r.until)
	r.was.code(c)
	r.is.code(c)
	codec.List(c, &r.pages, func(c *codec.Coder, p *newPage) { p.code(c) })
}

func (m *machine) rollup(tx *engine.Tx, body []byte) error {
	r, err := decodeBody(body, (*rollupCommand).code)
	if err != nil {
		return err
	}
	o, err := m.loadExact(tx, r.name, r.inc)
	if err != nil {
		return err
	}
	k := partKey(nil, rowDirty, o.inc, r.tier, r.until)
	b, ok := tx.Get(k)
	if !ok || must(decodeDirty(b)) != r.was || o.content.shape != r.shape {
		return overtaken(r.name)
	}
	m.touch(tx, o)
	m.addPages(tx, o, r.tier, uint64(tx.LSN()), r.pages, nil)
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

// pagesOf returns the range of the keys of all pages of a partition.
func pagesOf(inc incarnation, id tierID, partition int64) (lower, upper []byte) {
	lower = partKey(nil, rowPage, inc, id, partition)
	return lower, key.PrefixEnd(lower)
}
