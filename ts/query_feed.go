package ts

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/points"
)

// feed provides the points of one column of a field, from one generation of a partition or from one
// block. Callers must seek series in ascending order.
type feed interface {
	// seek moves to the first run of a series, and returns false if none exists.
	seek(id seriesID) (bool, error)
	// read returns the current run, valid until the feed moves.
	read() (times []int64, values []float64)
	// next moves to the next run of the series, and returns false if none exists.
	next() (bool, error)
	close() error
}

// chunkFeed reads the chunks of a generation. It holds one of them in memory.
type chunkFeed struct {
	it     *engine.Iter
	prefix []byte
	field  fieldID
	last   seriesID // of the current chunk
	reader points.Reader
	cursor points.Cursor
	state  feedState
	id     seriesID
}

type feedState uint8

const (
	feedNew   feedState = iota
	feedChunk           // the iterator and the cursor are at a chunk
	feedDone            // no more chunks
)

func newChunkFeed(v *engine.View, at chunkGroup, generation uint64) (*chunkFeed, error) {
	prefix := generationPrefix(nil, at, generation)
	it, err := v.Iter(prefix, key.PrefixEnd(prefix))
	return &chunkFeed{it: it, prefix: prefix, field: at.field}, err
}

func (f *chunkFeed) seek(id seriesID) (bool, error) {
	f.id = id
	if f.state == feedChunk && id > f.last {
		if err := f.enter(f.it.Next()); err != nil {
			return false, err
		}
	}
	if f.state == feedNew || f.state == feedChunk && id > f.last {
		if err := f.find(id); err != nil {
			return false, err
		}
	}
	if f.state != feedChunk || !f.cursor.Seek(uint32(id)) {
		return false, nil
	}
	return f.cursor.Series() == uint32(id), nil
}

// find moves to the first chunk that may have points of a series: the last one that starts before
// it, or the next.
func (f *chunkFeed) find(id seriesID) error {
	k := key.AppendInt64(key.AppendUint32(slices.Clone(f.prefix), uint32(id)), math.MinInt64)
	if f.it.SeekLT(k) {
		if err := f.enter(true); err != nil || id <= f.last {
			return err
		}
		return f.enter(f.it.Next())
	}
	return f.enter(f.it.First())
}

// enter opens the chunk at the iterator.
func (f *chunkFeed) enter(ok bool) error {
	if !ok {
		f.state = feedDone
		return f.it.Err()
	}
	row, err := decodeChunk(f.it.Value())
	if err != nil {
		return err
	}
	f.state, f.last = feedChunk, row.last
	return openRuns(&f.reader, &f.cursor, row.data, uint16(f.field))
}

// openRuns positions c before the points of a field, which must exist.
func openRuns(r *points.Reader, c *points.Cursor, data []byte, field uint16) error {
	if err := r.Open(data); err != nil {
		return fmt.Errorf("ts: %w", err)
	}
	ok, err := r.Runs(field, c)
	if err == nil && !ok {
		err = engine.Errorf(codec.ErrCorrupt, "points without field %d", field)
	}
	if err != nil {
		return fmt.Errorf("ts: %w", err)
	}
	return nil
}

func (f *chunkFeed) read() ([]int64, []float64) { return f.cursor.Read() }

func (f *chunkFeed) next() (bool, error) {
	if f.cursor.Next() {
		return f.cursor.Series() == uint32(f.id), nil
	}
	if err := f.enter(f.it.Next()); err != nil || f.state != feedChunk {
		return false, err
	}
	return f.cursor.Next() && f.cursor.Series() == uint32(f.id), nil
}

func (f *chunkFeed) close() error { return f.it.Close() }

// heldBlock is a block in the memory of a query, with its series in order.
type heldBlock struct {
	block
	lsn    uint64
	reader points.Reader
	runs   []heldRun // instead of points, by field and series
	split  int64     // number of points copied for it, 0 if the block lies in one partition
}

// heldRun holds points of one series and field, given by its index in the fields of the block.
type heldRun struct {
	field  uint16
	id     seriesID
	times  []int64
	values []float64
}

// fewPoints is the number of points of a block and a partition that are held unencoded: encoding
// them would not save memory.
const fewPoints = 32

// bytes returns the memory of a block.
func (h *heldBlock) bytes() int64 {
	n := blockBytes + int64(len(h.points)) + seriesBytes*int64(len(h.ids)) + runBytes*int64(len(h.runs))
	if len(h.runs) > 0 {
		n += pointBytes * h.split
	}
	return n
}

// splitter divides blocks by partitions. Its memory is reused for every block.
type splitter struct {
	encoder points.Encoder
	times   []int64
	values  []float64
	cuts    []cut
}

// cut is the part of a run in one partition, as a range in the points of the splitter.
type cut struct {
	partition int64
	field     uint16
	id        seriesID
	from, to  int
}

func (c cut) compare(o cut) int {
	return cmp.Or(cmp.Compare(c.partition, o.partition), cmp.Compare(c.field, o.field), cmp.Compare(c.id, o.id))
}

// parts calls keep with the part of a block in each partition that has points of a scan. A block
// that covers several partitions is decoded once, and the points of the scan are copied for each.
// So reading a partition does not decode the points of the others.
func (s *splitter) parts(row []byte, lsn uint64, scan *scan, keep func(partition int64, h *heldBlock) error) error {
	length := scan.length()
	b, err := decodeBlock(row)
	if err != nil || b.span.oldest >= scan.to || b.span.newest < scan.from {
		return err
	}
	if first := floorDiv(b.span.oldest, length); first == floorDiv(b.span.newest, length) {
		h, err := holdBlock(b)
		if err != nil {
			return err
		}
		h.lsn = lsn
		return keep(first, h)
	}
	s.times, s.values, s.cuts = s.times[:0], s.values[:0], s.cuts[:0]
	err = b.eachRun(scan.wanted(&b), func(field uint16, id seriesID, times []int64, values []float64) {
		times, values = within(times, values, scan.from, scan.to)
		at := len(s.times)
		s.times, s.values = append(s.times, times...), append(s.values, values...)
		for len(times) > 0 {
			partition := floorDiv(times[0], length)
			n, _ := slices.BinarySearch(times, (partition+1)*length)
			s.cuts = append(s.cuts, cut{partition, field, id, at, at + n})
			times, at = times[n:], at+n
		}
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(s.cuts, cut.compare)
	for cuts := s.cuts; len(cuts) > 0; {
		n := 1
		for n < len(cuts) && cuts[n].partition == cuts[0].partition {
			n++
		}
		h, err := s.hold(cuts[:n])
		if err != nil {
			return err
		}
		h.lsn, h.fields = lsn, b.fields
		if err := keep(cuts[0].partition, h); err != nil {
			return err
		}
		cuts = cuts[n:]
	}
	return nil
}

// hold copies the part of a block in one partition.
func (s *splitter) hold(cuts []cut) (*heldBlock, error) {
	h := &heldBlock{block: block{span: span{oldest: math.MaxInt64, newest: math.MinInt64}}}
	for _, c := range cuts {
		h.split += int64(c.to - c.from)
		h.span.oldest, h.span.newest = min(h.span.oldest, s.times[c.from]), max(h.span.newest, s.times[c.to-1])
	}
	if h.split <= fewPoints {
		h.runs = make([]heldRun, len(cuts))
		times, values := make([]int64, 0, h.split), make([]float64, 0, h.split)
		for i, c := range cuts {
			at := len(times)
			times, values = append(times, s.times[c.from:c.to]...), append(values, s.values[c.from:c.to]...)
			h.runs[i] = heldRun{c.field, c.id, times[at:], values[at:]}
		}
		return h, nil
	}
	for _, c := range cuts {
		h.ids = append(h.ids, c.id)
	}
	slices.Sort(h.ids)
	h.ids = slices.Compact(h.ids)
	s.encoder.Reset()
	for _, c := range cuts {
		place, _ := slices.BinarySearch(h.ids, c.id)
		s.encoder.Run(uint32(place), c.field, s.times[c.from:c.to], s.values[c.from:c.to])
	}
	h.points = s.encoder.Append(nil)
	return h, h.reader.Open(h.points)
}

// wanted returns a function that reports whether a run of a block belongs to the fields and series
// of the scan.
func (s *scan) wanted(b *block) func(field uint16, id seriesID) bool {
	fields := make([]bool, len(b.fields))
	for i, f := range b.fields {
		fields[i] = slices.Contains(s.fields, f)
	}
	return func(field uint16, id seriesID) bool {
		_, ok := slices.BinarySearch(s.ids, id)
		return ok && int(field) < len(fields) && fields[field]
	}
}

// eachRun calls f for the runs of a block, or only for the wanted ones: by the field's index in
// those of the block, and the series.
func (b *block) eachRun(wanted func(field uint16, id seriesID) bool,
	f func(field uint16, id seriesID, times []int64, values []float64)) error {
	var r points.Reader
	var c points.Cursor
	if err := r.Open(b.points); err != nil {
		return err
	}
	for _, field := range r.Fields(nil) {
		if _, err := r.Runs(field, &c); err != nil {
			return err
		}
		for c.Next() {
			if int(c.Series()) >= len(b.ids) {
				return missingPlace(c.Series(), b)
			}
			if id := b.ids[c.Series()]; wanted == nil || wanted(field, id) {
				times, values := c.Read()
				f(field, id, times, values)
			}
		}
	}
	return nil
}

// holdBlock copies a block. If its series are not in the order of their numbers, it is rewritten.
func holdBlock(b block) (*heldBlock, error) {
	h := &heldBlock{block: b}
	if !slices.IsSorted(b.ids) {
		if err := h.sort(); err != nil {
			return nil, err
		}
	} else {
		h.points = slices.Clone(b.points)
	}
	return h, h.reader.Open(h.points)
}

func (h *heldBlock) sort() error {
	ids := slices.Clone(h.ids)
	slices.Sort(ids)
	var e points.Encoder
	err := h.eachRun(nil, func(field uint16, id seriesID, times []int64, values []float64) {
		place, _ := slices.BinarySearch(ids, id)
		e.Run(uint32(place), field, times, values)
	})
	if err != nil {
		return err
	}
	h.ids, h.points = slices.Compact(ids), e.Append(nil)
	return nil
}

// blockFeed reads one field of a block.
type blockFeed struct {
	ids    []seriesID
	at     int // index in ids
	cursor points.Cursor
}

// feed returns the points of a field, or nil if the block has none.
func (h *heldBlock) feed(field fieldID) (feed, error) {
	local := slices.Index(h.fields, field)
	if local < 0 {
		return nil, nil
	}
	if h.runs != nil {
		before := func(r heldRun, field int) int { return cmp.Compare(int(r.field), field) }
		from, found := slices.BinarySearchFunc(h.runs, local, before)
		to, _ := slices.BinarySearchFunc(h.runs, local+1, before)
		if !found {
			return nil, nil
		}
		return &runFeed{h.runs[from:to]}, nil
	}
	f := &blockFeed{ids: h.ids}
	ok, err := h.reader.Runs(uint16(local), &f.cursor)
	if err != nil || !ok {
		return nil, err
	}
	return f, nil
}

// runFeed reads one field of a block of few points. It holds the remaining runs.
type runFeed struct{ runs []heldRun }

func (f *runFeed) seek(id seriesID) (bool, error) {
	for len(f.runs) > 0 && f.runs[0].id < id {
		f.runs = f.runs[1:]
	}
	return len(f.runs) > 0 && f.runs[0].id == id, nil
}

func (f *runFeed) read() ([]int64, []float64) { return f.runs[0].times, f.runs[0].values }

func (f *runFeed) next() (bool, error) {
	id := f.runs[0].id
	f.runs = f.runs[1:]
	return len(f.runs) > 0 && f.runs[0].id == id, nil
}

func (f *runFeed) close() error { return nil }

func (f *blockFeed) seek(id seriesID) (bool, error) {
	if f.at < len(f.ids) && f.ids[f.at] < id {
		if f.at++; f.at < len(f.ids) && f.ids[f.at] < id { // usually it is the next one
			n, _ := slices.BinarySearch(f.ids[f.at:], id)
			f.at += n
		}
	}
	if f.at == len(f.ids) || f.ids[f.at] != id || !f.cursor.Seek(uint32(f.at)) {
		return false, nil
	}
	return f.cursor.Series() == uint32(f.at), nil
}

func (f *blockFeed) read() ([]int64, []float64) { return f.cursor.Read() }

func (f *blockFeed) next() (bool, error) {
	return f.cursor.Next() && f.cursor.Series() == uint32(f.at), nil
}

func (f *blockFeed) close() error { return nil }

// merger joins feeds of one column of a field. If several feeds have a point of a series at the
// same time, the last feed wins.
type merger struct {
	feeds  []fed
	active []fed
	times  []int64
	values []float64
	parts  []copiedRun
	all    []sample
	bytes  int64 // memory limit for sorting points
}

// fed is a feed without the points before a time or in holes.
type fed struct {
	feed
	from  int64
	holes []hole
}

// copiedRun is a copied run: a range in times and values.
type copiedRun struct{ from, to int }

type sample struct {
	time  int64
	value float64
}

func (m *merger) close() (err error) {
	for _, f := range m.feeds {
		err = cmp.Or(err, f.close())
	}
	m.feeds = m.feeds[:0]
	return err
}

// each calls f with the points of a series from one time up to another, in order of time. The
// slices are only valid during the call.
func (m *merger) each(id seriesID, from, to int64, f func(times []int64, values []float64) error) error {
	m.active = m.active[:0]
	for _, feed := range m.feeds {
		ok, err := feed.seek(id)
		if err != nil {
			return err
		}
		if ok {
			m.active = append(m.active, feed)
		}
	}
	if len(m.active) == 1 {
		return m.active[0].eachRun(id, from, to, f)
	}
	m.times, m.values, m.parts = m.times[:0], m.values[:0], m.parts[:0]
	for _, feed := range m.active {
		if err := feed.eachRun(id, from, to, m.keep); err != nil {
			return err
		}
	}
	return m.join(f)
}

// eachRun calls f with the runs of the current series of a feed that are within a range and in no
// hole.
func (f fed) eachRun(id seriesID, from, to int64, yield func(times []int64, values []float64) error) error {
	for ok := true; ok; {
		times, values := f.read()
		times, values = within(times, values, max(from, f.from), to)
		if err := outside(f.holes, id, times, values, yield); err != nil {
			return err
		}
		var err error
		if ok, err = f.next(); err != nil {
			return err
		}
	}
	return nil
}

// within returns the points from one time up to another.
func within(times []int64, values []float64, from, to int64) ([]int64, []float64) {
	n := len(times)
	if times[0] >= from && times[n-1] < to {
		return times, values
	}
	first, _ := slices.BinarySearch(times, from)
	last, _ := slices.BinarySearch(times, to)
	last = max(first, last)
	return times[first:last], values[first:last]
}

func (m *merger) keep(times []int64, values []float64) error {
	if m.bytes >= 0 && int64(len(m.times)+len(times))*32 > m.bytes {
		return errMergeBytes
	}
	m.parts = append(m.parts, copiedRun{len(m.times), len(m.times) + len(times)})
	m.times, m.values = append(m.times, times...), append(m.values, values...)
	return nil
}

// join calls f with all points kept.
func (m *merger) join(f func(times []int64, values []float64) error) error {
	inOrder := slices.Clone(m.parts)
	slices.SortStableFunc(inOrder, func(a, b copiedRun) int { return cmp.Compare(m.times[a.from], m.times[b.from]) })
	apart := true
	for i := 1; i < len(inOrder) && apart; i++ {
		apart = m.times[inOrder[i-1].to-1] < m.times[inOrder[i].from]
	}
	if apart {
		for _, p := range inOrder {
			if err := f(m.times[p.from:p.to], m.values[p.from:p.to]); err != nil {
				return err
			}
		}
		return nil
	}
	m.all = m.all[:0]
	for i, t := range m.times {
		m.all = append(m.all, sample{t, m.values[i]})
	}
	slices.SortStableFunc(m.all, func(a, b sample) int { return cmp.Compare(a.time, b.time) })
	n := 0
	for _, s := range m.all {
		if n > 0 && m.times[n-1] == s.time {
			m.values[n-1] = s.value
			continue
		}
		m.times[n], m.values[n] = s.time, s.value
		n++
	}
	return f(m.times[:n], m.values[:n])
}
