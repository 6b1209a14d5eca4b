package ts

import (
	"cmp"
	"context"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/floedb/floe/floql"
	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/points"
)

// lastPage is the number of series per answer of a lastQuery.
const lastPage = 1 << 14

// lastQuery queries the newest point of each series of a selection, in order of series number,
// starting at a given one.
type lastQuery struct {
	namespace string
	selection floql.Selection
	inc       incarnation
	first     seriesID // if inc is not 0

	points  []lastPoint
	next    seriesID // series to continue from
	more    bool
	refused limitRefusal
}

// lastPoint is the newest point of a series.
type lastPoint struct {
	tags  tagList
	time  int64
	value float64
}

// Machine returns engine.MachineTS.
func (*lastQuery) Machine() engine.MachineID { return engine.MachineTS }

// Kind identifies the kind of query.
func (*lastQuery) Kind() uint8 { return queryLast }

// Arguments codes the arguments of the query.
func (q *lastQuery) Arguments(f *codec.Fields) {
	f.Namespace(&q.namespace)
	codeSelection(f, &q.selection)
	f.Uvarint("incarnation", (*uint64)(&q.inc))
	codec.Narrow(f, "first_series", &q.first)
}

// Results codes the results.
func (q *lastQuery) Results(f *codec.Fields) {
	codec.ListOf(f, "points", &q.points, func(p *lastPoint, f *codec.Fields) {
		p.tags.codeAs(f, "tags")
		codeNanos(f, "time_ns", &p.time)
		f.Float("value", &p.value)
	})
	f.Uvarint("incarnation", (*uint64)(&q.inc))
	codec.Narrow(f, "next_series", &q.next)
	f.Bool("more", &q.more)
	f.Text("limit_exceeded", (*string)(&q.refused))
}

func (q *lastQuery) answer(v *engine.View) error { return q.refused.note(q.find(v)) }

func (q *lastQuery) find(v *engine.View) error {
	q.points, q.more, q.refused = nil, false, ""
	v.Freeze()
	v.Skims()
	t, ok, err := findAgain(v, q.namespace, q.selection.Measurement, q.inc)
	if err != nil || !ok {
		return err
	}
	if q.inc == 0 {
		q.first = 0
	}
	q.inc = t.open.inc
	s, found, err := t.scan(v, &q.selection)
	if err != nil || len(s.fields) == 0 {
		return err
	}
	n, _ := slices.BinarySearch(s.ids, q.first)
	if s.ids = s.ids[n:]; len(s.ids) > lastPage {
		q.next, q.more = s.ids[lastPage], true
		s.ids = s.ids[:lastPage]
	}
	s.to = min(s.to, max(t.open.content.newest, points.MinTime-1)+1)
	if s.from >= s.to {
		return nil
	}
	return s.newest(func(id seriesID, time int64, value float64) error {
		tags, err := found.tagsOf(id)
		v.Holds(answerSize(tags) + pointBytes)
		q.points = append(q.points, lastPoint{tags, time, value})
		return err
	})
}

// newest calls f with the newest point of each series of the scan that has one. It goes back in
// time only while series without a point remain. Its steps grow longer within the newest partition,
// where most series have their newest point.
func (s *scan) newest(f func(id seriesID, time int64, value float64) error) error {
	if err := s.hold(); err != nil {
		return err
	}
	partitions, err := s.partitions(math.MinInt64)
	if err != nil {
		return err
	}
	type newestPoint struct {
		time  int64
		value float64
	}
	ids, length, newest := s.ids, s.length(), make(map[seriesID]newestPoint)
	from, to := s.from, s.to
	s.ids = slices.Clone(ids)
	for i, p := range slices.Backward(partitions) {
		begin, end := max(from, p.number*length), min(to, (p.number+1)*length)
		for step := length / 64; begin < end && len(s.ids) > 0; step *= 4 {
			if i < len(partitions)-1 {
				step = length
			}
			s.from, s.to = max(begin, end-step), end
			err := s.runField(&p, frontOf(p.number), func(at spot, times []int64, values []float64) error {
				n := len(times) - 1
				newest[seriesID(at.series)] = newestPoint{times[n], values[n]}
				return nil
			})
			if err != nil {
				return err
			}
			s.ids = slices.DeleteFunc(s.ids, func(id seriesID) bool {
				_, ok := newest[id]
				return ok
			})
			end = s.from
		}
	}
	for _, id := range ids {
		p, ok := newest[id]
		if !ok {
			continue
		}
		if err := cmp.Or(s.ended(1), f(id, p.time, p.value)); err != nil {
			return err
		}
	}
	return nil
}

// Last iterates over the newest point of a field of each series of a measurement, or of one of its
// rollups ("cpu:5m:max"), in no guaranteed order. Series without a point of the field in the range
// are omitted. Each pair is a sample and nil, or a zero Sample and an error, after which iteration
// ends. Its cost grows with the number of series, and with the age of their newest points.
//
// Options: Tags, Matching, Between. Errors: those of Read.
func (s *Store) Last(ctx context.Context, measurement, field string, opts ...ReadOption) iter.Seq2[Sample, error] {
	return func(yield func(Sample, error) bool) {
		sel, err := readSelection(measurement, field, opts)
		if err != nil || sel.From >= sel.To {
			if err != nil {
				yield(Sample{}, err)
			}
			return
		}
		q := lastQuery{namespace: s.Namespace(), selection: sel}
		parts, shards, err := engine.AskAll(ctx, &s.scope, q)
		if err != nil {
			yield(Sample{}, err)
			return
		}
		for i, part := range parts {
			for {
				if err := part.refused.err(sel.Limits); err != nil {
					yield(Sample{}, err)
					return
				}
				for _, p := range part.points {
					if !yield(Sample{time.UnixMilli(p.time), p.value, p.tags.forQuery()}, nil) {
						return
					}
				}
				if !part.more {
					break
				}
				next := q
				next.inc, next.first = part.inc, part.next
				if err := s.scope.QueryShard(ctx, shards[i], &next); err != nil {
					yield(Sample{}, err)
					return
				}
				part = &next
			}
		}
	}
}
