package ts

import (
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// write applies a write. Known and fresh points of each section are written or refused separately,
// unless the command is atomic.
func (s *session) write(w *writeBody) (result writeResult, err error) {
	if !w.atomic && w.spread != s.tx.Spread() { // a transaction is routed as a whole, and each of its series is checked
		return result, engine.Errorf(ErrConflict, "ts: the points were sorted for another placement of the namespace")
	}
	result.sections = make([]sectionResult, len(w.sections))
	for i := range w.sections {
		one := &sectionWrite{machine: s.machine, tx: s.tx, section: &w.sections[i], result: &result.sections[i], n: 2 * i}
		if err := one.run(w.atomic); err != nil {
			return result, err
		}
	}
	return result, nil
}

// sectionWrite is the write of one section: it checks first and then changes.
type sectionWrite struct {
	*machine
	tx      *engine.Tx
	section *section
	result  *sectionResult
	n       int // number of its blocks in the command

	open   *open
	policy policy
	found  []defined // existing series among those it defines
	added  int       // number of those that do not exist
	fields []fieldID
}

// defined is the series of a definition.
type defined struct {
	hash        [hashLen]byte
	fingerprint uint64
	id          seriesID
	exists      bool
}

func (s *sectionWrite) run(atomic bool) error {
	s.open = s.load(s.tx, s.section.name)
	if s.open != nil {
		s.policy = s.open.policy
	} else {
		s.policy = s.loadPolicy(s.tx, s.section.name)
	}
	hasKnown, hasFresh := len(s.section.known.ids) > 0, len(s.section.fresh.tags) > 0
	if hasKnown {
		s.result.known = s.checkKnown()
	}
	if hasFresh {
		var err error
		if s.result.fresh, err = s.checkFresh(); err != nil {
			return err
		}
	}
	writesKnown, writesFresh := hasKnown && s.result.known.code == written, hasFresh && s.result.fresh.code == written
	if writesKnown || writesFresh {
		if o := s.checkFields(); o.code != written {
			if writesKnown {
				s.result.known, writesKnown = o, false
			}
			if writesFresh {
				s.result.fresh, writesFresh = o, false
			}
		}
	}
	if atomic && (hasKnown != writesKnown || hasFresh != writesFresh) {
		return s.refusal()
	}
	if writesKnown || writesFresh {
		s.change(writesKnown, writesFresh)
	}
	if s.open != nil {
		s.result.inc = s.open.inc
	}
	return nil
}

// refusal returns why an atomic write is refused.
func (s *sectionWrite) refusal() error {
	o := &s.result.fresh
	if o.code == written {
		o = &s.result.known
	}
	return o.err(s.section.name)
}

// checkTimes refuses points that are too old, or too far in the future.
func (s *sectionWrite) checkTimes(sp span) outcome {
	newest := s.tx.Now() + maxAhead.Milliseconds()
	oldest := s.policy.oldest(s.tx.Now())
	if sp.oldest < oldest || sp.newest > newest {
		return outcome{code: outOfTime, oldest: oldest, newest: newest}
	}
	return outcome{}
}

// oldest returns the time of the oldest points to keep.
func (p *policy) oldest(now int64) int64 {
	if p.rawTTL == 0 {
		return minTime
	}
	return now - p.rawTTL
}

func (s *sectionWrite) checkRoom(bytes int) outcome {
	if s.unsealed(s.tx)+int64(bytes) > s.unsealedBound {
		return outcome{code: tooMuch}
	}
	return outcome{}
}

func (s *sectionWrite) checkKnown() outcome {
	k := &s.section.known
	if o := s.checkRoom(len(k.points)); o.code != written {
		return o
	}
	if s.open == nil || s.open.inc != s.section.inc || s.printsOf(k.ids) != k.prints {
		return outcome{code: stale}
	}
	return s.checkTimes(k.span)
}

// printsOf returns the checksum of the fingerprints of series in this shard. The fingerprint of a
// missing series is 0.
func (s *sectionWrite) printsOf(ids []seriesID) uint64 {
	prints := make([]uint64, len(ids))
	for i, id := range ids {
		prints[i] = s.print(s.tx, s.open.inc, id)
	}
	return sumPrints(prints)
}

func (s *sectionWrite) checkFresh() (outcome, error) {
	f := &s.section.fresh
	if o := s.checkRoom(len(f.points)); o.code != written {
		return o, nil
	}
	if o := s.checkTimes(f.span); o.code != written {
		return o, nil
	}
	if err := s.find(f.tags); err != nil {
		return outcome{}, err
	}
	if room := s.room(s.tx); int64(s.added) > room {
		return s.noRoom(room), nil
	}
	return outcome{}, nil
}

// find looks up the series of definitions.
func (s *sectionWrite) find(all []tagList) error {
	s.found = make([]defined, len(all))
	first := make(map[[hashLen]byte]int)
	for i, tags := range all {
		if s.tx.Spread() && !s.tx.Here(routeOf(s.section.name, tags)) {
			return engine.Errorf(ErrConflict, "measurement %q: a series of another shard", s.section.name)
		}
		d := &s.found[i]
		d.hash, d.fingerprint = tags.identity()
		if _, twice := first[d.hash]; twice {
			return engine.Errorf(ErrInvalid, "measurement %q: a series is defined twice", s.section.name)
		}
		first[d.hash] = i
		if s.open != nil {
			d.id, d.exists = s.seriesByHash(s.tx, s.open.inc, d.hash)
		}
		if !d.exists {
			s.added++
		}
	}
	return nil
}

func (m *machine) seriesByHash(tx *engine.Tx, inc incarnation, hash [hashLen]byte) (seriesID, bool) {
	m.buf = hashKey(m.buf[:0], inc, hash)
	b, ok := tx.Get(m.buf)
	if !ok {
		return 0, false
	}
	return seriesID(must(decodeCount(b))), true
}

// limit returns the maximum number of series of the namespace in this shard.
func (m *machine) limit(tx *engine.Tx) int64 {
	l := limitRow{limit: DefaultSeriesLimit}
	if b, ok := tx.Get(limitKey(nil, tx.Namespace())); ok {
		l = must(decodeLimit(b))
	}
	return l.share(tx.Spread(), tx.Shards())
}

// share returns one shard's share of the limit.
func (l *limitRow) share(spread bool, shards int) int64 {
	if spread {
		return max(int64(l.limit)/int64(shards), 1)
	}
	return int64(l.limit)
}

// room returns the number of series that the namespace may still add in this shard.
func (m *machine) room(tx *engine.Tx) int64 { return max(m.limit(tx)-tx.Counted(countSeries), 0) }

func (s *sectionWrite) noRoom(room int64) outcome {
	e := LimitError{
		Namespace: s.tx.NamespaceName(), Limit: s.limit(s.tx), Room: room, Wanted: int64(s.added), Spread: s.tx.Spread(),
	}
	if s.open != nil {
		prefix := incKey(nil, rowTag, s.open.inc)
		it := s.tx.Iter(prefix, key.PrefixEnd(prefix))
		e.Tag, e.Values = worstTag(it)
		if err := it.Close(); err != nil {
			panic(err)
		}
	}
	return outcome{code: noRoom, limit: e}
}

// maxWorst is the maximum number of tags that are searched for the one with the most values.
const maxWorst = 1000

func worstTag(it *engine.Iter) (name string, values int64) {
	n := 0
	for ok := it.First(); ok && n < maxWorst; ok = it.Next() {
		n++
		if t := must(decodeTag(it.Value())); int64(t.values) > values {
			name, values = string(it.Key()[numberAt:]), int64(t.values)
		}
	}
	return name, values
}

func (s *sectionWrite) checkFields() outcome {
	s.fields = make([]fieldID, len(s.section.fields))
	next := 0
	if s.open != nil {
		next = len(s.open.fields)
	}
	for i, f := range s.section.fields {
		if s.open != nil {
			if id, ok := s.open.numbers[f.name]; ok {
				s.fields[i] = id
				continue
			}
		}
		if next == MaxFields {
			return outcome{code: tooManyFields, field: f.name}
		}
		s.fields[i] = fieldID(next)
		next++
	}
	return outcome{}
}

// change writes the checked points.
func (s *sectionWrite) change(writesKnown, writesFresh bool) {
	if s.open == nil {
		s.open = s.machine.found(s.tx, s.section.name)
	}
	s.touch(s.tx, s.open)
	s.addFields()
	if writesKnown {
		k := &s.section.known
		s.addBlock(block{k.ids, s.fields, k.span, k.points}, 0)
	}
	if writesFresh {
		f := &s.section.fresh
		s.result.fresh.ids = s.addSeries(f.tags)
		s.addBlock(block{s.result.fresh.ids, s.fields, f.span, f.points}, 1)
	}
	s.saveContent(s.tx, s.open)
}

func (s *sectionWrite) addFields() {
	before := len(s.open.fields)
	for i, id := range s.fields {
		if int(id) >= before {
			f := s.section.fields[i]
			s.open.fields = append(s.open.fields, field{f.name, f.kind})
			s.open.numbers[f.name] = id
		}
	}
	if len(s.open.fields) > before {
		s.saveMeasurement(s.tx, s.open)
		s.measurements.Weigh(measurementName{s.open.ns, s.open.name}, s.open.weight())
	}
}

// addSeries creates the defined series that do not exist, and returns the numbers of all.
func (s *sectionWrite) addSeries(all []tagList) []seriesID {
	ids := make([]seriesID, len(all))
	prints := newPrintsChange(s.machine, s.tx, s.open.inc)
	tags := make(tagChange)
	for i := range s.found {
		d := &s.found[i]
		if d.exists {
			s.bringBack(d.id, prints)
		} else {
			d.id = seriesID(s.open.content.nextSeries)
			s.open.content.nextSeries++
			s.addSeriesRows(d, all[i], tags)
			prints.set(d.id, d.fingerprint)
		}
		ids[i] = d.id
	}
	prints.save()
	tags.save(s.machine, s.tx, s.open.inc)
	s.open.content.series += uint32(s.added)
	s.tx.Count(countSeries, int64(s.added))
	return ids
}

// bringBack ends the retirement of a series that has been written to again.
func (s *sectionWrite) bringBack(id seriesID, prints *printsChange) {
	if s.open.content.retiring == 0 {
		return
	}
	k := seriesKey(nil, rowRetiring, s.open.inc, id)
	if b, ok := s.tx.Get(k); ok {
		prints.set(id, must(decodeCount(b)))
		s.tx.Delete(k)
		s.open.content.retiring--
	}
}

func (s *sectionWrite) addSeriesRows(d *defined, tags tagList, change tagChange) {
	row := seriesRow{d.fingerprint, tags}
	s.tx.Insert(seriesKey(nil, rowSeries, s.open.inc, d.id), row.encode(nil))
	s.tx.Insert(hashKey(nil, s.open.inc, d.hash), encodeCount(nil, uint64(d.id)))
	for _, t := range tags {
		s.tx.Insert(postingKey(nil, s.open.inc, t.name, t.value, d.id), nil)
		change.add(t, 1)
	}
}

func (s *sectionWrite) addBlock(b block, n int) {
	c, lsn := &s.open.content, uint64(s.tx.LSN())
	s.row = b.encode(s.row[:0])
	s.buf = blockKey(s.buf[:0], s.open.inc, lsn, s.n+n)
	s.tx.Insert(s.buf, s.row)
	before := c.blocks
	size := int64(len(s.row))
	c.blocks.points += b.span.points
	c.blocks.bytes += size
	c.points += b.span.points
	c.last = lsn
	c.blocks.add(b.span.oldest)
	c.oldest, c.newest = min(c.oldest, b.span.oldest), max(c.newest, b.span.newest)
	if before.since == 0 {
		c.blocks.since = s.tx.Now()
	}
	s.addUnsealed(s.tx, size)
	s.tx.Count(countPoints, b.span.points)
	if before.since == 0 || before.full() != c.blocks.full() {
		s.tx.Notify(maintenanceTopic(), -1)
	}
}

// full reports whether the blocks should be sealed now, regardless of their age.
func (w *waiting) full() bool { return w.points >= sealPoints || w.bytes >= sealBytes }

// print returns the fingerprint of a series, 0 if none exists.
func (m *machine) print(tx *engine.Tx, inc incarnation, id seriesID) uint64 {
	return m.printsPage(tx, inc, uint32(id)/pageSeries)[uint32(id)%pageSeries]
}

func (m *machine) printsPage(tx *engine.Tx, inc incarnation, page uint32) *[pageSeries]uint64 {
	at := printsPage{inc, page}
	if p, ok := m.prints.Get(at); ok {
		return p
	}
	p := new([pageSeries]uint64)
	m.buf = printsKey(m.buf[:0], inc, page)
	if b, ok := tx.Get(m.buf); ok {
		must(0, decodePrints(b, p))
	}
	m.prints.Load(at, p, 1)
	return p
}

// printsChange changes fingerprints, writing each row once.
type printsChange struct {
	m     *machine
	tx    *engine.Tx
	inc   incarnation
	pages []uint32 // in order of first change
}

func newPrintsChange(m *machine, tx *engine.Tx, inc incarnation) *printsChange {
	return &printsChange{m: m, tx: tx, inc: inc}
}

func (c *printsChange) set(id seriesID, fingerprint uint64) {
	page := uint32(id) / pageSeries
	if n := len(c.pages); n == 0 || c.pages[n-1] != page {
		c.save()
		c.m.prints.Change(c.tx, printsPage{c.inc, page}, c.m.printsPage(c.tx, c.inc, page), struct{}{})
		c.pages = append(c.pages[:0], page)
	}
	c.m.printsPage(c.tx, c.inc, page)[uint32(id)%pageSeries] = fingerprint
}

func (c *printsChange) save() {
	for _, page := range c.pages {
		c.m.buf = printsKey(c.m.buf[:0], c.inc, page)
		k := append([]byte(nil), c.m.buf...)
		row, some := encodePrints(c.m.printsPage(c.tx, c.inc, page))
		if some {
			c.tx.Set(k, row)
		} else {
			c.tx.Delete(k)
		}
	}
	c.pages = c.pages[:0]
}
