package points

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/floedb/floe/internal/codec"
)

// Encoder collects points in any order and encodes them. The zero value is ready for use. A reused
// Encoder keeps its memory.
//
//	e.Reset()
//	e.Decimal(id, field, ms, 125, 1) // 12.5
//	e.Float(id, field, ms, 0.1+0.2)
//	block := e.Append(nil)
type Encoder struct {
	buckets []bucket // by field, in the order of their first points; buckets beyond used are kept for reuse
	used    int
	index   []uint16 // field -> its bucket + 1
	order   []int    // indexes of buckets, sorted by field

	scratch []point
	counts  []uint32
	section sectionBuilder
	body    []byte
	shape   []byte // shape of the previous section
	lengths []int
}

// bucket holds the points of a field.
type bucket struct {
	field  uint16
	sorted bool // by series and time, without duplicates
	points []point
}

// point is a point of a field: value is a mantissa, or the bits of a float64 if exponent is
// notDecimal.
type point struct {
	time     int64
	value    int64
	series   uint32
	exponent uint8
}

const notDecimal = 0xff

// Reset removes all points.
func (e *Encoder) Reset() {
	for i := range e.used {
		b := &e.buckets[i]
		e.index[b.field] = 0
		b.points = b.points[:0]
	}
	e.used = 0
}

// Len returns the number of points added since Reset. If points have the same series, field and
// time, only the last one is encoded.
func (e *Encoder) Len() (n int) {
	for i := range e.used {
		n += len(e.buckets[i].points)
	}
	return n
}

// Float adds a point. The time is in ms, within MinTime and MaxTime, and the value must be finite;
// the Encoder does not check either.
func (e *Encoder) Float(series uint32, field uint16, time int64, value float64) {
	e.add(field, point{time, int64(math.Float64bits(value)), series, notDecimal})
}

// Decimal adds a point with the value mantissa / 10^exponent, see Value. Otherwise it is like
// Float, but cheaper.
func (e *Encoder) Decimal(series uint32, field uint16, time int64, mantissa int64, exponent uint8) {
	e.add(field, point{time, mantissa, series, exponent})
}

// Run adds points of one series and field.
func (e *Encoder) Run(series uint32, field uint16, times []int64, values []float64) {
	for i, t := range times {
		e.Float(series, field, t, values[i])
	}
}

func (e *Encoder) add(field uint16, p point) {
	b := e.bucket(field)
	if n := len(b.points); n > 0 && b.sorted {
		last := &b.points[n-1]
		b.sorted = last.series < p.series || last.series == p.series && last.time < p.time
	}
	b.points = append(b.points, p)
}

func (e *Encoder) bucket(field uint16) *bucket {
	if int(field) < len(e.index) && e.index[field] != 0 {
		return &e.buckets[e.index[field]-1]
	}
	for int(field) >= len(e.index) {
		e.index = append(e.index, make([]uint16, max(16, len(e.index)))...)
	}
	if e.used == len(e.buckets) {
		e.buckets = append(e.buckets, bucket{})
	}
	b := &e.buckets[e.used]
	e.used++
	e.index[field] = uint16(e.used)
	b.field, b.sorted, b.points = field, true, b.points[:0]
	return b
}

// Append appends the encoding of all points to dst. There must be at least one point.
func (e *Encoder) Append(dst []byte) []byte {
	e.sort()
	return e.encode(dst, front, behind)
}

// sort sorts the fields and the points of each.
func (e *Encoder) sort() {
	e.order = e.order[:0]
	for i := range e.used {
		e.order = append(e.order, i)
		if b := &e.buckets[i]; !b.sorted {
			b.points = e.sortPoints(b.points)
			b.sorted = true
		}
	}
	slices.SortFunc(e.order, func(a, b int) int { return cmp.Compare(e.buckets[a].field, e.buckets[b].field) })
}

// sortPoints sorts points by series and time, and keeps the last of equal ones.
func (e *Encoder) sortPoints(points []point) []point {
	e.bySeries(points)
	for from := 0; from < len(points); {
		to := endOfSeries(points, from)
		if run := points[from:to]; !slices.IsSortedFunc(run, byTime) {
			slices.SortStableFunc(run, byTime)
		}
		from = to
	}
	kept := points[:1]
	for _, p := range points[1:] {
		if last := &kept[len(kept)-1]; last.series == p.series && last.time == p.time {
			*last = p
			continue
		}
		kept = append(kept, p)
	}
	return kept
}

func byTime(a, b point) int { return cmp.Compare(a.time, b.time) }

// bySeries sorts points by series, stably. It is a radix sort by 11 of the differing bits at a
// time.
func (e *Encoder) bySeries(points []point) {
	least, most := points[0].series, points[0].series
	for i := range points {
		least, most = min(least, points[i].series), max(most, points[i].series)
	}
	const digit = 11
	if e.counts == nil {
		e.counts = make([]uint32, 1<<digit)
	}
	e.scratch = slices.Grow(e.scratch[:0], len(points))[:len(points)]
	from, to := points, e.scratch
	for shift := 0; (most-least)>>shift != 0; shift += digit {
		clear(e.counts)
		for i := range from {
			e.counts[(from[i].series-least)>>shift&(1<<digit-1)]++
		}
		sum := uint32(0)
		for i, n := range e.counts {
			e.counts[i] = sum
			sum += n
		}
		for i := range from {
			at := &e.counts[(from[i].series-least)>>shift&(1<<digit-1)]
			to[*at] = from[i]
			*at++
		}
		from, to = to, from
	}
	if &from[0] != &points[0] {
		copy(points, from)
	}
}

// endOfSeries returns the index after the points of the series of points[from].
func endOfSeries(points []point, from int) int {
	to := from + 1
	for to < len(points) && points[to].series == points[from].series {
		to++
	}
	return to
}

// encode appends the encoding of the points from one mark to another.
func (e *Encoder) encode(dst []byte, from, to mark) []byte {
	e.body, e.shape, e.lengths = e.body[:0], e.shape[:0], e.lengths[:0]
	fields := 0
	for _, i := range e.order {
		before := len(e.body)
		if points := e.buckets[i].within(from, to); len(points) > 0 {
			fields++
			own := e.appendSection(points)
			e.lengths = append(e.lengths, (len(e.body)-before)<<1|own)
			continue
		}
		e.lengths = append(e.lengths, 0)
	}
	dst = append(dst, version)
	dst = codec.AppendUvarint(dst, uint64(fields))
	last := -1
	for n, i := range e.order {
		if e.lengths[n] == 0 {
			continue
		}
		field := int(e.buckets[i].field)
		dst = codec.AppendUvarint(dst, uint64(field-last-1))
		dst = codec.AppendUvarint(dst, uint64(e.lengths[n]))
		last = field
	}
	return append(dst, e.body...)
}

// appendSection appends the section of a field to the body. It returns 1 if the section has a
// shape, or 0 if it shares that of the previous section.
func (e *Encoder) appendSection(points []point) (own int) {
	e.section.build(points)
	start := len(e.body)
	e.body = e.section.appendShape(e.body)
	if bytes.Equal(e.body[start:], e.shape) {
		e.body = e.body[:start]
	} else {
		e.shape = append(e.shape[:0], e.body[start:]...)
		own = 1
	}
	e.body = e.section.appendValues(e.body)
	return own
}
