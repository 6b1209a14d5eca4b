package ts

import (
	"cmp"
	"math"
	"slices"

	"github.com/floedb/floe/internal/agg"
	"github.com/floedb/floe/internal/points"
)

// Limits of one rollup step: bytes of chunks, and buckets.
const (
	rollupInput = 1 << 20
	maxBuckets  = 4096
	// rollupLag is the time in ms between the end of a bucket and its computation, so that nearly
	// all of its points have arrived.
	rollupLag = sealAge + 60*1000
)

// rollup computes dirty buckets of a tier from the raw points.
func (m *maintenance) rollup() (*step, error) {
	for i := range m.policy.tiers {
		tier := &m.policy.tiers[i]
		until, d, ok, err := firstDirty(m.view.Iter, m.inc, tier.id)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		over := bucketOf(m.view.Now()-m.patience(rollupLag), tier.every) // earlier buckets are over
		if d.from >= over {
			m.wake(d.from + tier.every + m.patience(rollupLag))
			continue
		}
		return m.rollupSome(tier, until, d, min(over, until))
	}
	return nil, nil
}

// area is the part computed in one step: a range of buckets and a range of series.
type area struct {
	from, until int64
	first, last int64 // last is excluded
}

// rollupSome computes some buckets of a dirty range that begin before over.
func (m *maintenance) rollupSome(tier *tier, until int64, d dirty, over int64) (*step, error) {
	cmd := rollupBody{inc: m.inc, tier: tier.id, shape: m.content.shape, until: until, was: d, is: d}
	// Buckets whose points have been removed since keep their values, and buckets beyond the tier's
	// TTL are not computed.
	from := max(d.from, m.content.lostBefore(tier.id), bucketOf(tier.oldest(m.view.Now()), tier.every))
	if d.series > 0 && from != d.from {
		d.series = 0 // its buckets no longer exist
	}
	if from >= over {
		cmd.is = dirty{from: over, lsn: d.lsn}
		return stepOf(m, rollup, cmd)
	}
	a := area{from: from, until: min(over, from+maxBuckets*tier.every), last: math.MaxInt64}
	if a.first = 0; d.series > 0 {
		a.first, a.until = int64(d.series), d.chunk
	} else if day := bucketOf(from+m.partition, tier.every); day > from {
		a.until = min(a.until, day)
	}
	for {
		last, err := m.narrow(a)
		if err != nil {
			return nil, err
		}
		if last != math.MaxInt64 && a.first == 0 && a.until-a.from > tier.every {
			a.until = a.from + max((a.until-a.from)/tier.every/2, 1)*tier.every // fewer buckets of all series
			continue
		}
		a.last = last
		size, err := m.compute(tier, a, &cmd)
		if err != nil {
			return nil, err
		}
		switch {
		case size <= maxSealBytes || a.last-a.first == 1:
		case a.first == 0 && a.last == math.MaxInt64 && a.until-a.from > tier.every:
			a.until = a.from + max((a.until-a.from)/tier.every/2, 1)*tier.every
			continue
		default:
			a.last = a.first + max((min(a.last, int64(m.content.nextSeries))-a.first)/2, 1)
			if _, err = m.compute(tier, a, &cmd); err != nil {
				return nil, err
			}
		}
		break
	}
	if cmd.is = (dirty{from: a.until, lsn: d.lsn}); a.last < int64(m.content.nextSeries) {
		cmd.is = dirty{from: a.from, lsn: d.lsn, chunk: a.until, series: uint32(a.last)}
	}
	return stepOf(m, rollup, cmd)
}

// narrow returns the series up to which the chunks of an area have about rollupInput bytes, or
// math.MaxInt64 if all fit.
func (m *maintenance) narrow(a area) (int64, error) {
	type start struct{ first, bytes int64 }
	var all []start
	size := int64(0)
	err := m.eachChunk(a, func(p *heldChunk) error {
		all = append(all, start{int64(p.first), p.bytes})
		size += p.bytes
		return nil
	})
	if err != nil || size <= rollupInput {
		return math.MaxInt64, err
	}
	slices.SortFunc(all, func(x, y start) int { return cmp.Compare(x.first, y.first) })
	sum := int64(0)
	for _, s := range all {
		if sum += s.bytes; sum > rollupInput && s.first > a.first {
			return s.first, nil
		}
	}
	return math.MaxInt64, nil
}

// eachChunk calls f for the chunks of points that may overlap an area, in the order of partitions,
// fields and generations.
func (m *maintenance) eachChunk(a area, f func(p *heldChunk) error) error {
	lower := partKey(nil, rowChunk, m.inc, rawTier, floorDiv(a.from, m.partition))
	upper := partKey(nil, rowChunk, m.inc, rawTier, floorDiv(a.until-1, m.partition)+1)
	it, err := m.view.Iter(lower, upper)
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		if first, _ := firstOf(it.Key()); int64(first) >= a.last {
			continue
		}
		var p heldChunk
		if p, err = readChunk(it.Key(), it.Value()); err == nil && int64(p.row.last) >= a.first && p.row.to >= a.from &&
			p.row.from < a.until {
			err = f(&p)
		}
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	return err
}

// compute makes the chunks of an area, and returns their size.
func (m *maintenance) compute(tier *tier, a area, cmd *rollupBody) (size int, err error) {
	defer m.release()
	gathered := make(map[fieldID]*points.Encoder)
	err = m.eachChunk(a, func(p *heldChunk) error {
		return m.eachRun(p, func(id seriesID, times []int64, values []float64) {
			if int64(id) < a.first || int64(id) >= a.last {
				return
			}
			from, _ := slices.BinarySearch(times, max(a.from, m.content.keptFor(tier.id, p.generation)))
			to, _ := slices.BinarySearch(times, a.until)
			if from >= to {
				return
			}
			e := gathered[p.group.field]
			if e == nil {
				e = new(points.Encoder)
				gathered[p.group.field] = e
			}
			e.Run(uint32(id), uint16(p.group.field), times[from:to], values[from:to])
		})
	})
	if err != nil {
		return 0, err
	}
	length := tier.partition(m.partition)
	var columns []float64
	for f, e := range gathered {
		if err := m.aggregate(f, e, func(id seriesID, b *bucket) {
			at := chunkGroup{m.inc, tier.id, floorDiv(b.start, length), f, columnValue}
			columns = b.columns(columns[:0])
			for i, v := range columns {
				at.column = columnCount + column(i)
				m.encoder(at).Float(uint32(id), uint16(f), b.start, v)
			}
		}, tier.every); err != nil {
			return 0, err
		}
	}
	cmd.chunks, _ = m.chunks(tier.id)
	for i := range cmd.chunks {
		size += len(cmd.chunks[i].row)
	}
	return size, nil
}

// aggregate calls f for each bucket of the points of a field. The points were added in order of
// generations, so later ones have replaced earlier ones.
func (m *maintenance) aggregate(f fieldID, e *points.Encoder, yield func(seriesID, *bucket), every int64) error {
	if err := m.reader.Open(e.Append(nil)); err != nil {
		return err
	}
	if _, err := m.reader.Runs(uint16(f), &m.cursor); err != nil {
		return err
	}
	var b bucket
	series := seriesID(0)
	for m.cursor.Next() {
		id := seriesID(m.cursor.Series())
		times, values := m.cursor.Read()
		for i, at := range times {
			start := bucketOf(at, every)
			if b.count > 0 && (id != series || start != b.start) {
				yield(series, &b)
				b = bucket{}
			}
			if b.count == 0 {
				series, b.start = id, start
			}
			b.add(at, values[i])
		}
	}
	if b.count > 0 {
		yield(series, &b)
	}
	return nil
}

// bucket holds a tier's aggregates of the points of a series and field in one bucket.
type bucket struct {
	start           int64
	count           float64
	sum             agg.Sum
	least, most     float64
	first, last     float64
	firstAt, lastAt int64
}

func (b *bucket) add(at int64, v float64) {
	if b.count == 0 {
		b.least, b.most, b.first, b.firstAt = v, v, v, at
	}
	b.count++
	b.least, b.most = min(b.least, v), max(b.most, v)
	b.last, b.lastAt = v, at
	b.sum.Add(v)
}

// columns appends the aggregates in column order, with as many of the last columns as the sum
// needs.
func (b *bucket) columns(dst []float64) []float64 {
	var room [4]float64
	parts := b.sum.Parts(room[:0], 2+maxSumParts)
	for len(parts) < 2 {
		parts = append(parts, 0)
	}
	dst = append(dst, b.count, parts[0], parts[1], b.least, b.most, b.first, float64(b.firstAt), b.last, float64(b.lastAt),
		float64(len(parts)-2))
	return append(dst, parts[2:]...)
}
