package ts

import (
	"cmp"
	"math"
	"slices"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/points"
)

// plan is the next write of a batch to a shard.
type plan struct {
	shard    engine.ShardID
	sections []*planSection
	byName   map[int32]*planSection
	fresh    int // series it defines
	tags     int // tags of those
	values   int
	left     int // points for which it had no room
}

// planSection is the part of a plan for one measurement.
type planSection struct {
	measurement int32
	fields      []field
	local       []uint16 // by field of the batch: its index in fields plus one
	partitions  map[int64]bool
	partition   int64 // the last one seen
	closed      bool  // further points are left for the next plan, to keep their order
	known       planPart
	fresh       planPart
}

// planPart holds points of known series, or of series to define.
type planPart struct {
	rows    []int32  // of the batch
	members []int32  // series of the batch, in the order of their indexes in the block
	places  []uint32 // by series of the batch: its index plus one, 0: it is not in the part
	span    span
}

// maxPlanTags bounds the rows created by the definitions of a write.
const maxPlanTags = 20_000

// planAll sorts the pending points by shard. Those that do not fit into one write are left for the
// next.
func (b *batch) planAll() []*plan {
	var plans []*plan
	for i := range b.rows {
		r := &b.rows[i]
		if r.done {
			continue
		}
		s := &b.series[r.series]
		at := slices.IndexFunc(plans, func(p *plan) bool { return p.shard == s.shard })
		if at < 0 {
			at = len(plans)
			plans = append(plans, &plan{shard: s.shard, byName: make(map[int32]*planSection)})
		}
		plans[at].add(b, int32(i))
	}
	return plans
}

// add adds a point, or counts it as left for the next plan.
func (p *plan) add(b *batch, i int32) {
	r := &b.rows[i]
	s := &b.series[r.series]
	sec := p.byName[s.measurement]
	if sec == nil {
		if len(p.sections) == maxSections {
			p.left++
			return
		}
		sec = &planSection{measurement: s.measurement, partitions: make(map[int64]bool), partition: minTime - 1}
		p.sections = append(p.sections, sec)
		p.byName[s.measurement] = sec
	}
	if sec.closed || !p.fits(b, sec, r, s) {
		sec.closed = true
		p.left++
		return
	}
	part := &sec.known
	if s.member == nil {
		part = &sec.fresh
	}
	p.values += int(r.to - r.from)
	for _, v := range b.values[r.from:r.to] {
		sec.use(b, v.field)
	}
	if part.add(r.series, i, r.time, len(b.series)) && s.member == nil {
		p.fresh++
		p.tags += len(s.tags)
	}
}

// fits reports whether there is room for a point.
func (p *plan) fits(b *batch, sec *planSection, r *batchRow, s *batchSeries) bool {
	if p.values > 0 && p.values+int(r.to-r.from) > maxBatch {
		return false
	}
	if s.member == nil && !sec.fresh.has(r.series) {
		if p.fresh == maxNewSeries || p.fresh > 0 && p.tags+len(s.tags) > maxPlanTags {
			return false
		}
	}
	if at := floorDiv(r.time, rawPartition); at != sec.partition {
		fields := len(b.measurements[sec.measurement].fields)
		if !sec.partitions[at] && len(sec.partitions) > 0 {
			if n := len(sec.partitions) + 1; n > maxPartitions || n*fields > maxSpread {
				return false
			}
		}
		sec.partitions[at] = true
		sec.partition = at
	}
	return true
}

// use assigns a field of the batch an index in the section.
func (sec *planSection) use(b *batch, f uint16) {
	for int(f) >= len(sec.local) {
		sec.local = append(sec.local, 0)
	}
	if sec.local[f] == 0 {
		sec.fields = append(sec.fields, b.measurements[sec.measurement].fields[f])
		sec.local[f] = uint16(len(sec.fields))
	}
}

// has reports whether a series of the batch is in the part.
func (part *planPart) has(series int32) bool { return part.places != nil && part.places[series] > 0 }

// add adds a point, and reports whether it is the first of its series. all is the number of series
// of the batch.
func (part *planPart) add(series, row int32, time int64, all int) (first bool) {
	if part.places == nil {
		part.places = make([]uint32, all)
		part.span = span{0, time, time}
	}
	if first = part.places[series] == 0; first {
		part.members = append(part.members, series)
		part.places[series] = uint32(len(part.members))
	}
	part.rows = append(part.rows, row)
	part.span.points++
	part.span.oldest, part.span.newest = min(part.span.oldest, time), max(part.span.newest, time)
	return first
}

// command returns the write.
func (p *plan) command(b *batch, w *writeBody, e *points.Encoder) {
	for _, sec := range p.sections {
		if len(sec.fields) == 0 {
			continue // all of it is left for the next plan
		}
		out := section{name: b.measurements[sec.measurement].name, fields: sec.fields}
		if part := &sec.known; len(part.rows) > 0 {
			out.inc, out.known = part.knownPart(b)
			out.known.points = sec.encode(b, part, e)
		}
		if part := &sec.fresh; len(part.rows) > 0 {
			out.fresh = part.freshPart(b)
			out.fresh.points = sec.encode(b, part, e)
		}
		w.sections = append(w.sections, out)
	}
}

// knownPart sorts the series by their numbers. Equal series share an index: callers may write tags
// in any order, and each order has its own key in the cache.
func (part *planPart) knownPart(b *batch) (inc incarnation, k known) {
	slices.SortFunc(part.members, func(x, y int32) int { return cmp.Compare(b.series[x].member.id, b.series[y].member.id) })
	var prints []uint64
	for _, n := range part.members {
		m := b.series[n].member
		inc = max(inc, m.inc)
		// If a different series has the same number, it is from an earlier incarnation. The shard
		// must see both, and refuses both.
		if last := len(k.ids) - 1; last < 0 || k.ids[last] != m.id || prints[last] != m.fingerprint {
			k.ids = append(k.ids, m.id)
			prints = append(prints, m.fingerprint)
		}
		part.places[n] = uint32(len(k.ids))
	}
	k.prints, k.span = sumPrints(prints), part.span
	return inc, k
}

// freshPart gives equal series the same index, as knownPart does.
func (part *planPart) freshPart(b *batch) (f fresh) {
	first := make(map[[hashLen]byte]uint32, len(part.members))
	for _, n := range part.members {
		s := &b.series[n]
		place, ok := first[s.hash]
		if !ok {
			f.tags = append(f.tags, s.tags)
			place = uint32(len(f.tags))
			first[s.hash] = place
		}
		part.places[n] = place
	}
	f.span = part.span
	return f
}

func (sec *planSection) encode(b *batch, part *planPart, e *points.Encoder) []byte {
	e.Reset()
	for _, i := range part.rows {
		r := &b.rows[i]
		place := part.places[r.series] - 1
		for _, v := range b.values[r.from:r.to] {
			f := sec.local[v.field] - 1
			if v.exponent == notDecimal {
				e.Float(place, f, r.time, math.Float64frombits(uint64(v.bits)))
			} else {
				e.Decimal(place, f, r.time, v.bits, v.exponent)
			}
		}
	}
	return e.Append(nil)
}
