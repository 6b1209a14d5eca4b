package ts

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// errMergeBytes reports that sorting the points of one series takes more memory than the query has.
var errMergeBytes = errors.New("points to sort exceed the memory of a query")

// scan reads the points of a selection in one shard, partition by partition, and within each by
// field and series. So the points of a series come in order of time.
type scan struct {
	view   *engine.View
	open   *open
	tier   *tier  // nil: the raw points
	stands tierID // the points replace buckets of this tier that are not computed yet, unless it is rawTier
	column column
	fields []fieldID
	ids    []seriesID
	from   int64
	to     int64
	bytes  int64                  // of memory, see merger
	blocks map[int64][]*heldBlock // by partition, in order of writing
	limits floql.Limits
	whole  bool  // it takes all series of a single field, so the counts of points apply
	page   int64 // number of points per page; 0: all are read at once
	cut    bool  // to is before the end of the range: the blocks of the partitions before it fill a page
	erased []erasure
	unseen int // points since the last check whether a caller still waits
}

// spot is a position in the order of a scan.
type spot struct {
	partition int64
	field     int // index in the fields of the scan
	series    uint32
	time      int64 // time of the next point, if points of the series were already returned
}

// frontOf returns the start of a partition.
func frontOf(partition int64) spot { return spot{partition: partition, time: math.MinInt64} }

// length returns the length of partitions.
func (s *scan) length() int64 {
	if s.tier != nil {
		return s.tier.partition(s.open.partition)
	}
	return s.open.partition
}

// partitions returns the partitions that have points of the range, ascending, with the numbers of
// their generations.
func (s *scan) partitions(after int64) (all []partitionAt, err error) {
	id := rawTier
	if s.tier != nil {
		id = s.tier.id
	}
	length := s.length()
	first, last := max(floorDiv(s.from, length), after), floorDiv(s.to-1, length)
	it, err := s.view.Iter(partKey(nil, rowPartition, s.open.inc, id, first), partKey(nil, rowPartition, s.open.inc, id, last+1))
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var row partitionRow
		row, err = decodePartition(it.Value())
		all = append(all, partitionAt{number: partitionOf(it.Key()), row: row})
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	stored := all
	for n := range s.blocks {
		if _, found := slices.BinarySearchFunc(stored, n, partitionAt.compare); !found && n >= first && n <= last {
			all = append(all, partitionAt{number: n})
		}
	}
	slices.SortFunc(all, func(a, b partitionAt) int { return a.compare(b.number) })
	return all, err
}

// partitionAt is a partition with its row, which is empty if it only has blocks.
type partitionAt struct {
	number int64
	row    partitionRow
}

func (p partitionAt) compare(n int64) int { return cmp.Compare(p.number, n) }

// hold reads the blocks that have points of the range. They count towards the memory of the query.
// Blocks over many partitions are held only up to the one that fills the page. Otherwise each page
// would rewrite the points of all later ones.
func (s *scan) hold() error {
	if s.tier != nil {
		return nil
	}
	prefix := incKey(nil, rowBlock, s.open.inc)
	it, err := s.view.Iter(blockKey(nil, s.open.inc, s.open.content.sealed+1, 0), key.PrefixEnd(prefix))
	if err != nil {
		return err
	}
	held, split := int64(0), int64(0)
	s.blocks = make(map[int64][]*heldBlock)
	var splitter splitter
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		err = splitter.parts(it.Value(), blockLSN(it.Key()), s, func(partition int64, b *heldBlock) error {
			s.blocks[partition] = append(s.blocks[partition], b)
			n := b.bytes()
			s.view.Holds(int(n))
			held, split = held+n, split+b.split
			return s.limits.CheckBytes(held)
		})
		if s.page == 0 || split <= s.page {
			continue
		}
		for _, newest := range slices.Backward(slices.Sorted(maps.Keys(s.blocks))) {
			var bytes, points int64
			for _, b := range s.blocks[newest] {
				bytes, points = bytes+b.bytes(), points+b.split
			}
			if split-points < s.page {
				break
			}
			delete(s.blocks, newest)
			s.to, s.cut = newest*s.length(), true
			s.view.Holds(-int(bytes))
			held, split = held-bytes, split-points
		}
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	if s.bytes >= 0 {
		s.bytes = max(s.bytes-held, 0)
	}
	return err
}

// Memory of a block in addition to its points: the block, each of its series, and each run of a
// series that is not encoded.
const (
	blockBytes  = 300
	seriesBytes = 4
	runBytes    = 64
)

// feeds adds to a merger all feeds of a column of a field in a partition: the generations, then the
// blocks, in the order in which they replace each other.
func (s *scan) feeds(m *merger, p *partitionAt, field fieldID, c column) error {
	at := chunkGroup{inc: s.open.inc, partition: p.number, field: field, column: c}
	if s.tier != nil {
		at.tier = s.tier.id
	}
	for _, g := range p.row.generations {
		f, err := newChunkFeed(s.view, at, g.number)
		if err != nil {
			return err
		}
		from := int64(minTime)
		if s.tier == nil {
			from = s.keptFrom(g.number)
		}
		m.feeds = append(m.feeds, fed{f, from, holesOf(s.erased, at.tier, g.number)})
	}
	if s.tier != nil {
		return nil
	}
	for _, b := range s.blocks[p.number] {
		f, err := b.feed(field)
		if err != nil {
			return err
		}
		if f != nil {
			m.feeds = append(m.feeds, fed{f, s.keptFrom(b.lsn), holesOf(s.erased, rawTier, b.lsn)})
		}
	}
	return nil
}

// keptFrom returns the time before which points written up to an LSN are gone. For the tiers of
// that time, points that were outdated when the retention was extended still count, because the
// tiers' buckets will be computed from them.
func (s *scan) keptFrom(lsn uint64) int64 {
	if s.stands != rawTier {
		return s.open.content.keptFor(s.stands, lsn)
	}
	return s.open.content.goneBefore(lsn)
}

// ended checks at intervals, counted in points, whether a caller still waits for the answer.
func (s *scan) ended(n int) error {
	if s.unseen += n; s.unseen < maxUnseen {
		return nil
	}
	s.unseen = 0
	return s.view.Ended()
}

// maxUnseen is the number of points between two checks: a few milliseconds.
const maxUnseen = 1 << 17

// run calls f with all points, starting at a position. f may end the scan with an error.
func (s *scan) run(start spot, f func(at spot, times []int64, values []float64) error) error {
	if start.partition > floorDiv(s.from, s.length()) {
		s.from = start.partition * s.length() // earlier blocks are not needed
	}
	if err := s.hold(); err != nil {
		return err
	}
	return s.runHeld(start, f)
}

// runHeld is run after the blocks have been read.
func (s *scan) runHeld(start spot, f func(at spot, times []int64, values []float64) error) error {
	partitions, err := s.partitions(start.partition)
	if err != nil {
		return err
	}
	if err := s.limits.CheckPoints(s.atLeast(partitions)); err != nil {
		return err
	}
	for i := range partitions {
		p := &partitions[i]
		at := frontOf(p.number)
		if p.number == start.partition {
			at = start
		}
		for ; at.field < len(s.fields); at = (spot{p.number, at.field + 1, 0, math.MinInt64}) {
			if err := s.runField(p, at, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// atLeast returns a lower bound for the number of points that is known before reading them.
func (s *scan) atLeast(partitions []partitionAt) (n int64) {
	if !s.whole || len(s.fields) == 0 || s.tier != nil || s.open.content.deleted > 0 || len(s.erased) > 0 ||
		len(s.open.content.closed) > 0 {
		return 0
	}
	for i := range partitions {
		p := &partitions[i]
		if p.number*s.length() < s.from || (p.number+1)*s.length() > s.to {
			continue
		}
		if p.row.state == exact {
			n += p.row.points
		}
	}
	return n
}

// runField processes the series of one field in a partition.
func (s *scan) runField(p *partitionAt, at spot, f func(at spot, times []int64, values []float64) error) (err error) {
	m := merger{bytes: s.bytes}
	defer func() { err = cmp.Or(err, m.close()) }()
	if err := s.feeds(&m, p, s.fields[at.field], s.column); err != nil {
		return err
	}
	if len(m.feeds) == 0 {
		return nil
	}
	from, to := max(s.from, p.number*s.length()), min(s.to, (p.number+1)*s.length())
	first, _ := slices.BinarySearch(s.ids, seriesID(at.series))
	for _, id := range s.ids[first:] {
		begin := from
		if uint32(id) == at.series {
			begin = max(from, at.time)
		}
		at.series = uint32(id)
		err := m.each(id, begin, to, func(times []int64, values []float64) error {
			if err := s.ended(len(times)); err != nil {
				return err
			}
			return f(at, times, values)
		})
		if err != nil {
			return err
		}
		at.time = math.MinInt64
		if err := s.ended(1); err != nil {
			return err
		}
	}
	return nil
}

// fieldsOf returns the numbers of the fields in a selection, or of all fields if it names none.
func fieldsOf(o *open, names []string) (fields []fieldID) {
	for i := range o.fields {
		if len(names) == 0 || slices.Contains(names, o.fields[i].name) {
			fields = append(fields, fieldID(i))
		}
	}
	return fields
}

// forQuery returns the tags of a series in the form of queries.
func (l tagList) forQuery() []floql.Tag {
	tags := make([]floql.Tag, len(l))
	for i, t := range l {
		tags[i] = floql.Tag{Key: t.name, Value: t.value}
	}
	return tags
}
