package ts

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/points"
)

// auditedMeasurement is a measurement being checked.
type auditedMeasurement struct {
	*verifier
	*open
	live     seriesSet // existing series
	leaving  seriesSet // deleted series that may still have points
	tags     int64     // of all series
	points   int64     // as counted by partitions and blocks
	values   int64     // of the partition being checked
	reader   points.Reader
	ofChunks map[uint64]generation // of the partition being checked
	contents waiting
}

func (a *auditedMeasurement) problem(format string, args ...any) {
	a.Reportf("ts: measurement %q: %s", a.name, fmt.Sprintf(format, args...))
}

func (a *auditedMeasurement) check() error {
	if o, ok := a.m.measurements.Get(measurementName{a.ns, a.name}); ok &&
		(o.inc != a.inc || !bytes.Equal(o.content.encode(nil), a.content.encode(nil))) {
		a.problem("memory differs from the rows: %+v, %+v", o.content, a.content)
	}
	for _, step := range []func() error{a.series, a.hashes, a.postings, a.prints, a.leavers, a.blocks, a.chunks, a.dirty, a.timer} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// each calls f for the rows of a kind. Their keys must have at least the given length.
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

// postings checks postings against the counts of values and tags, which are in the same order.
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
			a.problem("posting %x has no series", k)
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
		a.problem("%d postings, but the series have %d tags", n, a.tags)
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
				a.problem("series %d has a different fingerprint: %v", id, err)
			}
		}
		if c, ok := a.m.prints.Get(printsPage{a.inc, page}); ok && *c != p {
			a.problem("memory differs from the fingerprints in row %x", k)
		}
		return nil
	})
	if err == nil && n != a.content.series-a.content.retiring {
		a.problem("%d fingerprints of %d series, %d being retired", n, a.content.series, a.content.retiring)
	}
	return err
}

// leavers checks the series that are being deleted or retired.
func (a *auditedMeasurement) leavers() error {
	n := uint32(0)
	if err := a.each(rowDeleted, seriesKeyLen, func(k, value []byte) error {
		n++
		if _, err := decodeCount(value); err != nil || a.live.has(seriesOf(k)) {
			a.problem("series %d is deleted but exists: %v", seriesOf(k), err)
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
	if err := a.each(rowErased, numberAt+8, func(k, value []byte) error {
		n++
		if _, err := decodeErasure(value); err != nil {
			a.problem("deletion of a range %x: %v", k, err)
		}
		return nil
	}); err != nil {
		return err
	}
	if n != a.content.erased {
		a.problem("%d deletions of ranges, its row counts %d", n, a.content.erased)
	}
	n = 0
	err := a.each(rowRetiring, seriesKeyLen, func(k, value []byte) error {
		n++
		if _, err := decodeCount(value); err != nil || !a.live.has(seriesOf(k)) {
			a.problem("series %d is being retired but does not exist: %v", seriesOf(k), err)
		}
		return nil
	})
	if err == nil && n != a.content.retiring {
		a.problem("%d series are being retired, its row counts %d", n, a.content.retiring)
	}
	return err
}

func (a *auditedMeasurement) blocks() error {
	least := a.content.blocks.least()
	for _, l := range slices.Concat(a.content.lost, a.content.since) {
		if t := a.policy.find(l.tier); t == nil || l.before%t.every != 0 {
			a.problem("the bucket at %d of tier %d is limited, but the tier or the bucket does not exist", l.before, l.tier)
		}
	}
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
		if b.span.oldest < least {
			a.problem("block %x: a point at %d, but the content row says that none is before %d", k, b.span.oldest, least)
		}
		for _, f := range b.fields {
			if int(f) >= len(a.fields) {
				a.problem("block %x: field %d of %d", k, f, len(a.fields))
			}
		}
		for _, id := range b.ids {
			if !a.live.has(id) && !a.leaving.has(id) {
				a.problem("block %x: series %d does not exist", k, id)
			}
		}
		a.contents.points += b.span.points
		a.contents.bytes += int64(len(value))
		return nil
	})
	a.points += a.contents.points
	if c := a.content.blocks; err == nil && (c.points != a.contents.points || c.bytes != a.contents.bytes ||
		(c.since == 0) != (c.points == 0)) {
		a.problem("%d points in %d bytes of blocks, its row says %+v", a.contents.points, a.contents.bytes, c)
	}
	return err
}
