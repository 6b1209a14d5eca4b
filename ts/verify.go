package ts

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/points"
)

var _ engine.Verifier = (*machine)(nil)

// Verify checks that all rows of the machine fit together, see the comment on rows for what they are, and that what it remembers is what they say.
func (m *machine) Verify(a *engine.Audit) error {
	v := &verifier{Audit: a, m: m, names: a.Names(), all: make(map[incarnation]bool), counts: make(map[uint32]*nsCounts)}
	for _, step := range []func() error{v.unknownRows, v.measurements, v.nameRows, v.orphans, v.timers, v.totals} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// verifier walks over the measurements one by one. What it keeps is a number for each, and a few bits for each series of the present one.
type verifier struct {
	*engine.Audit
	m        *machine
	names    []string // of namespaces
	all      map[incarnation]bool
	counts   map[uint32]*nsCounts
	unsealed int64
}

// nsCounts is what there is in a namespace.
type nsCounts struct{ measurements, series, points int64 }

// unknownRows reports rows that are of no kind.
func (v *verifier) unknownRows() error {
	unknown := func(k, _ []byte) error {
		v.Reportf("ts: row %x is of no known kind", k)
		return nil
	}
	if err := v.Scan(nil, []byte{allKinds[0]}, unknown); err != nil {
		return err
	}
	for i := range allKinds {
		var next []byte
		if i+1 < len(allKinds) {
			next = []byte{allKinds[i+1]}
		}
		if err := v.Scan([]byte{allKinds[i] + 1}, next, unknown); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) measurements() error {
	return v.Scan([]byte{rowMeasurement}, []byte{rowMeasurement + 1}, func(k, value []byte) error {
		m, err := decodeMeasurement(value)
		if err != nil || len(k) != numberAt {
			v.Reportf("ts: row %x: %v", k, err)
			return nil
		}
		inc := incarnationOf(k)
		v.all[inc] = true
		o, ok, err := openView(&v.View, m.ns, m.name)
		if err != nil || !ok || o.inc != inc {
			v.Reportf("ts: measurement %q of %d: its name or its content is not there: %v", m.name, inc, err)
			return nil
		}
		c := v.counts[m.ns]
		if c == nil {
			c = new(nsCounts)
			v.counts[m.ns] = c
		}
		c.series, c.points = c.series+int64(o.content.series), c.points+o.content.points
		if v.isHome(m.ns, m.name) {
			c.measurements++
		}
		v.unsealed += o.content.blocks.bytes
		audited := &auditedMeasurement{verifier: v, open: o}
		return audited.check()
	})
}

// isHome reports whether the shard is the one that counts a measurement.
func (v *verifier) isHome(ns uint32, name string) bool {
	return int(ns) >= len(v.names) || !v.Spread(v.names[ns]) || engine.NameShard(v.names[ns], name, v.Shards()) == v.Shard()
}

// nameRows checks the rows that are found by the name of a measurement, or of a namespace.
func (v *verifier) nameRows() error {
	if err := v.Scan([]byte{rowName}, []byte{rowName + 1}, func(k, value []byte) error {
		if inc, err := decodeCount(value); err != nil || len(k) <= nameAt || !v.all[incarnation(inc)] {
			v.Reportf("ts: row %x names measurement %d, which there is not: %v", k, inc, err)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := v.Scan([]byte{rowPolicy}, []byte{rowPolicy + 1}, func(k, value []byte) error {
		if _, err := decodePolicy(value); err != nil || len(k) <= nameAt {
			v.Reportf("ts: row %x: %v", k, err)
		}
		return nil
	}); err != nil {
		return err
	}
	return v.Scan([]byte{rowLimit}, []byte{rowLimit + 1}, func(k, value []byte) error {
		if _, err := decodeLimit(value); err != nil || len(k) != nameAt {
			v.Reportf("ts: row %x: %v", k, err)
		}
		return nil
	})
}

// orphans reports rows of no measurement.
func (v *verifier) orphans() error {
	for i := range ofIncarnation {
		kind := ofIncarnation[i]
		lower, upper := []byte{kind}, []byte{kind + 1}
		for lower != nil {
			inc, found, err := v.firstIncarnation(lower, upper)
			if err != nil {
				return err
			}
			if !found {
				break
			}
			if !v.all[inc] {
				v.Reportf("ts: rows %q of %d, which is no measurement", kind, inc)
			}
			lower = key.PrefixEnd(incKey(nil, kind, inc))
		}
	}
	return nil
}

func (v *verifier) firstIncarnation(lower, upper []byte) (inc incarnation, found bool, err error) {
	it, err := v.Iter(lower, upper)
	if err != nil {
		return 0, false, err
	}
	for ok := it.First(); ok && !found; ok = it.Next() {
		if found = len(it.Key()) >= numberAt; !found {
			v.Reportf("ts: row %x is too short", it.Key())
			continue
		}
		inc = incarnationOf(it.Key())
	}
	return inc, found, it.Close()
}

// timers checks that every timer has a reason; that every reason has a timer is checked where the reason is.
func (v *verifier) timers() error {
	return v.Timers(func(due int64, ns uint32, token []byte) error {
		if len(token) != numberAt || token[0] != tokenRetention {
			v.Reportf("ts: timer with token %q, which means nothing", token)
			return nil
		}
		b, ok, err := v.Get(incKey(nil, rowContent, incarnation(binary.BigEndian.Uint64(token[1:]))))
		if err != nil {
			return err
		}
		if c, err := decodeContent(b); !ok || err != nil || c.timer != due {
			v.Reportf("ts: measurement %x has a timer at %d, its row says %d", token[1:], due, c.timer)
		}
		return nil
	})
}

// totals checks what is counted over all measurements.
func (v *verifier) totals() error {
	for i := range v.names {
		ns := uint32(i)
		c := v.counts[ns]
		if c == nil {
			c = new(nsCounts)
		}
		for _, n := range []struct {
			counter engine.Counter
			name    string
			is      int64
		}{{countMeasurements, "measurements", c.measurements}, {countSeries, "series", c.series}, {countPoints, "points", c.points}} {
			if counted, known := v.Counted(ns, n.counter); known && counted != n.is {
				v.Reportf("ts: namespace %q: its row counts %d %s, there are %d", v.names[i], counted, n.name, n.is)
			}
		}
	}
	unsealed := uint64(0)
	b, ok, err := v.Get([]byte{rowUnsealed})
	if err != nil {
		return err
	}
	if ok {
		if unsealed, err = decodeCount(b); err != nil {
			v.Reportf("ts: row of what is not sealed: %v", err)
		}
	}
	if int64(unsealed) != v.unsealed {
		v.Reportf("ts: %d bytes are not sealed, a row counts %d", v.unsealed, unsealed)
	}
	return nil
}

// auditedMeasurement is a measurement while it is checked.
type auditedMeasurement struct {
	*verifier
	*open
	live     seriesSet // series that exist
	leaving  seriesSet // and those that were deleted and may have points
	tags     int64     // of all series
	points   int64     // as generations and blocks count them
	reader   points.Reader
	ofPages  map[uint64]generation // of the partition being checked
	contents waiting
}

func (a *auditedMeasurement) problem(format string, args ...any) {
	a.Reportf("ts: measurement %q: %s", a.name, fmt.Sprintf(format, args...))
}

func (a *auditedMeasurement) check() error {
	if o, ok := a.m.measurements.Get(measurementName{a.ns, a.name}); ok && (o.inc != a.inc || o.content != a.content) {
		a.problem("memory differs from the rows: %+v, %+v", o.content, a.content)
	}
	for _, step := range []func() error{a.series, a.hashes, a.postings, a.prints, a.leavers, a.blocks, a.pages, a.dirty, a.timer} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// each calls f for the rows of a kind, whose keys have to have at least a length.
func (a *auditedMeasurement) each(kind byte, length int, f func(k, value []byte) error) error {
	prefix := incKey(nil, kind, a.inc)
	return a.Scan(prefix, key.PrefixEnd(prefix), func(k, value []byte) error {
		if len(k) < length {
			a.problem("row %x is too short", k)
			return nil
		}
		return f(k, value)
	})
}

func (a *auditedMeasurement) series() error {
	n := uint32(0)
	err := a.each(rowSeries, seriesKeyLen, func(k, value []byte) error {
		n++
		row, err := decodeSeries(value)
		id := seriesOf(k)
		if err != nil || uint32(id) >= a.content.nextSeries {
			a.problem("series %d of %d: %v", id, a.content.nextSeries, err)
			return nil
		}
		a.live.add(id)
		a.tags += int64(len(row.tags))
		hash, fingerprint := row.tags.identity()
		b, ok, err := a.Get(hashKey(nil, a.inc, hash))
		if err != nil {
			return err
		}
		if to, err := decodeCount(b); !ok || err != nil || to != uint64(id) || row.fingerprint != fingerprint {
			a.problem("series %d %v is not found by its tags", id, row.tags)
		}
		for _, t := range row.tags {
			if _, ok, err := a.Get(postingKey(nil, a.inc, t.name, t.value, id)); err != nil {
				return err
			} else if !ok {
				a.problem("series %d %v is not found by tag %q", id, row.tags, t.name)
			}
		}
		return nil
	})
	if err == nil && n != a.content.series {
		a.problem("%d series: its row counts %d", n, a.content.series)
	}
	return err
}

func (a *auditedMeasurement) hashes() error {
	n := uint32(0)
	err := a.each(rowHash, numberAt+hashLen, func(k, value []byte) error {
		n++
		return nil
	})
	if err == nil && n != a.content.series {
		a.problem("%d hashes of %d series", n, a.content.series)
	}
	return err
}

// postings checks postings against what is counted of values and tags: all are in the same order.
func (a *auditedMeasurement) postings() error {
	var name, value []byte
	var series, values, ofTag uint64
	n := int64(0)
	endValue := func() error {
		if series == 0 {
			return nil
		}
		b, _, err := a.Get(valueKey(nil, a.inc, string(name), string(value)))
		if err != nil {
			return err
		}
		if counted, err := decodeCount(b); err != nil || counted != series {
			a.problem("tag %q: value %q of %d series: its row counts %d (%v)", name, value, series, counted, err)
		}
		series, values = 0, values+1
		return nil
	}
	endTag := func() error {
		if err := endValue(); err != nil || values == 0 {
			return err
		}
		b, _, err := a.Get(tagKey(nil, a.inc, string(name)))
		if err != nil {
			return err
		}
		if counted, err := decodeTag(b); err != nil || counted != (tagRow{values, ofTag}) {
			a.problem("tag %q with %d values of %d series: its row counts %+v (%v)", name, values, ofTag, counted, err)
		}
		values, ofTag = 0, 0
		return nil
	}
	err := a.each(rowPosting, numberAt+4, func(k, _ []byte) error {
		n++
		t, rest, ok := key.CutString(k[numberAt:])
		val, rest, ok2 := key.CutString(rest)
		if !ok || !ok2 || len(rest) != 4 || !a.live.has(seriesOf(k)) {
			a.problem("posting %x of no series", k)
			return nil
		}
		var err error
		if !bytes.Equal(t, name) {
			err = endTag()
		} else if !bytes.Equal(val, value) {
			err = endValue()
		}
		name, value = append(name[:0], t...), append(value[:0], val...)
		series, ofTag = series+1, ofTag+1
		return err
	})
	if err == nil {
		err = endTag()
	}
	if err == nil && n != a.tags {
		a.problem("%d postings, series have %d tags", n, a.tags)
	}
	return err
}

func (a *auditedMeasurement) prints() error {
	n := uint32(0)
	err := a.each(rowPrints, seriesKeyLen, func(k, value []byte) error {
		var p [pageSeries]uint64
		if err := decodePrints(value, &p); err != nil {
			a.problem("row %x: %v", k, err)
			return nil
		}
		page := uint32(seriesOf(k))
		for i, print := range p {
			id := seriesID(page*pageSeries + uint32(i))
			if print == 0 {
				continue
			}
			n++
			b, ok, err := a.Get(seriesKey(nil, rowSeries, a.inc, id))
			if err != nil {
				return err
			}
			if row, err := decodeSeries(b); !ok || err != nil || row.fingerprint != print {
				a.problem("series %d has another fingerprint: %v", id, err)
			}
		}
		if c, ok := a.m.prints.Get(printsPage{a.inc, page}); ok && *c != p {
			a.problem("memory differs from the fingerprints in row %x", k)
		}
		return nil
	})
	if err == nil && n != a.content.series-a.content.retiring {
		a.problem("%d fingerprints of %d series, of which %d are being retired", n, a.content.series, a.content.retiring)
	}
	return err
}

// leavers checks the series that have been deleted and that are being retired.
func (a *auditedMeasurement) leavers() error {
	n := uint32(0)
	if err := a.each(rowDeleted, seriesKeyLen, func(k, value []byte) error {
		n++
		if _, err := decodeCount(value); err != nil || a.live.has(seriesOf(k)) {
			a.problem("series %d is deleted, and there: %v", seriesOf(k), err)
		}
		a.leaving.add(seriesOf(k))
		return nil
	}); err != nil {
		return err
	}
	if n != a.content.deleted {
		a.problem("%d deleted series, its row counts %d", n, a.content.deleted)
	}
	n = 0
	err := a.each(rowRetiring, seriesKeyLen, func(k, value []byte) error {
		n++
		if _, err := decodeCount(value); err != nil || !a.live.has(seriesOf(k)) {
			a.problem("series %d is being retired, and not there: %v", seriesOf(k), err)
		}
		return nil
	})
	if err == nil && n != a.content.retiring {
		a.problem("%d series are being retired, its row counts %d", n, a.content.retiring)
	}
	return err
}

func (a *auditedMeasurement) blocks() error {
	err := a.each(rowBlock, blockKeyLen, func(k, value []byte) error {
		b, err := decodeBlock(value)
		if err != nil {
			a.problem("block %x: %v", k, err)
			return nil
		}
		if lsn := blockLSN(k); lsn <= a.content.sealed || lsn > a.content.last {
			a.problem("block %x is not between %d and %d", k, a.content.sealed, a.content.last)
		}
		if err := checkEncoded(&a.reader, b.points, b.span, len(b.ids), len(b.fields)); err != nil {
			a.problem("block %x: %v", k, err)
		}
		for _, f := range b.fields {
			if int(f) >= len(a.fields) {
				a.problem("block %x: field %d of %d", k, f, len(a.fields))
			}
		}
		for _, id := range b.ids {
			if !a.live.has(id) && !a.leaving.has(id) {
				a.problem("block %x: series %d, which there is not", k, id)
			}
		}
		a.contents.points += b.span.points
		a.contents.bytes += int64(len(value))
		return nil
	})
	a.points += a.contents.points
	if c := a.content.blocks; err == nil && (c.points != a.contents.points || c.bytes != a.contents.bytes || (c.since == 0) != (c.points == 0)) {
		a.problem("%d points in %d bytes of blocks, its row says %+v", a.contents.points, a.contents.bytes, c)
	}
	return err
}

// pages checks pages, and the rows of partitions against them.
func (a *auditedMeasurement) pages() error {
	partitions := int64(0)
	err := a.each(rowPartition, partKeyLen, func(k, value []byte) error {
		p, err := decodePartition(value)
		if err != nil {
			a.problem("partition %x: %v", k, err)
			return nil
		}
		partitions++
		a.ofPages = make(map[uint64]generation)
		lower, upper := pagesOf(a.inc, tierOf(k), partitionOf(k))
		if err := a.Scan(lower, upper, a.page); err != nil {
			return err
		}
		for _, g := range p.generations {
			is := a.ofPages[g.number]
			if is.pages != g.pages || is.bytes != g.bytes {
				a.problem("partition %x: generation %d has %d pages of %d bytes, its row counts %d of %d", k, g.number, is.pages, is.bytes, g.pages, g.bytes)
			}
			a.points += g.points
			delete(a.ofPages, g.number)
		}
		if len(a.ofPages) > 0 {
			a.problem("partition %x: pages of generations that its row does not have", k)
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

// homeless reports pages whose partition has no row.
func (a *auditedMeasurement) homeless() error {
	return a.each(rowPage, pageKeyLen, func(k, _ []byte) error {
		_, ok, err := a.Get(partKey(nil, rowPartition, a.inc, tierOf(k), partitionOf(k)))
		if err == nil && !ok {
			a.problem("page %x of no partition", k)
		}
		return err
	})
}

func (a *auditedMeasurement) page(k, value []byte) error {
	if len(k) != pageKeyLen {
		a.problem("page %x: its key has %d bytes", k, len(k))
		return nil
	}
	p, err := readPage(k, value)
	if err != nil {
		a.problem("page %x: %v", k, err)
		return nil
	}
	g := a.ofPages[p.generation]
	g.pages, g.bytes = g.pages+1, g.bytes+p.bytes
	a.ofPages[p.generation] = g
	length := a.partition
	if p.group.tier != rawTier {
		t := a.policy.find(p.group.tier)
		if t == nil {
			a.problem("page %x of no tier", k)
			return nil
		}
		length = t.partition(a.partition)
	}
	info, err := a.reader.Check(p.row.data)
	switch {
	case err != nil:
		a.problem("page %x: %v", k, err)
		return nil
	case info.From != p.row.from || info.To != p.row.to || seriesID(info.Last) != p.row.last || int64(info.Points) != p.row.values:
		a.problem("page %x: it says %+v, there is %+v", k, p.row, info)
	case floorDiv(info.From, length) != p.group.partition || floorDiv(info.To, length) != p.group.partition:
		a.problem("page %x: points from %d to %d are of another partition", k, info.From, info.To)
	case int(p.group.field) >= len(a.fields):
		a.problem("page %x: field %d of %d", k, p.group.field, len(a.fields))
	}
	return a.pageSeries(k, &p)
}

// pageSeries checks the series of a page.
func (a *auditedMeasurement) pageSeries(k []byte, p *heldPage) error {
	var c points.Cursor
	if ok, err := a.reader.Runs(uint16(p.group.field), &c); err != nil || !ok {
		a.problem("page %x has no points of its field: %v", k, err)
		return nil
	}
	for first := true; c.Next(); first = false {
		id := seriesID(c.Series())
		if first && (id != p.first || c.First() != p.time) {
			a.problem("page %x begins with series %d at %d", k, id, c.First())
		}
		if !a.live.has(id) && !a.leaving.has(id) {
			a.problem("page %x: series %d, which there is not", k, id)
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
			a.problem("dirty buckets %x from %d are in the range before", k, d.from)
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
