package ts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/points/line"
)

// proposal is a plan that has been sent.
type proposal struct {
	plan   *plan
	op     engine.Op
	result writeResult
	err    error
}

// proposeAll sends the writes of all shards concurrently, and records the results of their points.
func (b *batch) proposeAll(ctx context.Context, plans []*plan) error {
	all := make([]proposal, len(plans))
	for i, p := range plans {
		all[i].plan, all[i].op = p, b.op(p)
	}
	b.store.scope.Each(len(all), func(i int) {
		p := &all[i]
		p.result, p.err = engine.Propose(ctx, &b.store.scope, p.op, write.Decode)
	})
	var err error
	for i := range all {
		err = errors.Join(err, b.settle(&all[i]))
	}
	return err
}

// op returns the write of a plan.
func (b *batch) op(p *plan) engine.Op {
	op := write.Make("", func(w *writeBody) error {
		w.spread = b.shards > 0
		p.command(b, w, &b.encoder)
		return nil
	})
	if b.shards > 0 {
		op.Route = engine.RouteTo(b.store.Namespace(), p.shard, b.shards)
	}
	return op
}

// settle records the results of the points of a write.
func (b *batch) settle(p *proposal) error {
	if errors.Is(p.err, ErrConflict) { // it was planned for another placement of the namespace
		for i := range b.series {
			b.unlearn(int32(i))
		}
		return nil
	}
	if p.err != nil {
		return p.err
	}
	n := 0
	for _, sec := range p.plan.sections {
		if len(sec.fields) == 0 {
			continue
		}
		if n == len(p.result.sections) {
			return fmt.Errorf("ts: a write has results for only %d of its measurements", n)
		}
		r := &p.result.sections[n]
		n++
		if err := b.settlePart(sec, &sec.known, &r.known); err != nil {
			return err
		}
		if err := b.settlePart(sec, &sec.fresh, &r.fresh); err != nil {
			return err
		}
		if r.fresh.code == written && len(sec.fresh.rows) > 0 {
			b.learnAll(sec, r)
		}
	}
	return nil
}

func (b *batch) settlePart(sec *planSection, part *planPart, o *outcome) error {
	name := b.measurements[sec.measurement].name
	switch o.code {
	case written:
		for _, i := range part.rows {
			b.rows[i].done = true
		}
		b.pending -= len(part.rows)
		b.result.Written += len(part.rows)
	case stale:
		for _, i := range part.members {
			b.unlearn(i)
		}
	case outOfTime:
		for _, i := range part.rows {
			if at := b.rows[i].time; at < o.oldest || at > o.newest {
				b.refuseRow(i, o.err(name))
			}
		}
	case tooManyFields:
		b.refuseField(sec, part, o)
	case noRoom:
		now, e := time.Now(), o.limit
		for _, i := range part.members {
			b.series[i].err = &e
			b.store.cache.refuse(b.series[i].key, &e, now)
		}
		b.refuseErrors()
	case tooMuch:
		if b.patient {
			return o.err(name)
		}
		fallthrough
	default:
		for _, i := range part.rows {
			b.refuseRow(i, o.err(name))
		}
	}
	return nil
}

// refuseField refuses the points with a field for which the measurement has no room.
func (b *batch) refuseField(sec *planSection, part *planPart, o *outcome) {
	number, ok := b.measurements[sec.measurement].numbers[o.field]
	for _, i := range part.rows {
		r := &b.rows[i]
		for _, v := range b.values[r.from:r.to] {
			if ok && v.field == number {
				b.refuseRow(i, o.err(b.measurements[sec.measurement].name))
				break
			}
		}
	}
}

// learnAll records the numbers of the series that a write defined.
func (b *batch) learnAll(sec *planSection, r *sectionResult) {
	all := make([]*member, 0, len(sec.fresh.members))
	for _, i := range sec.fresh.members {
		if place := sec.fresh.places[i]; int(place) <= len(r.fresh.ids) {
			all = append(all, b.learn(i, r.inc, r.fresh.ids[place-1]))
		}
	}
	b.store.cache.put(all)
}

// unlearn drops the number of a series.
func (b *batch) unlearn(i int32) {
	s := &b.series[i]
	if s.tags == nil {
		_, s.tags, _ = readSeriesKey(s.key)
	}
	s.member, s.identified = nil, false
	b.store.cache.forget([]string{s.key})
}

// pointKey is the prefix of cache keys of series that do not come from lines; measurement and tags
// follow.
const pointKey = 0

func appendSeriesKey(dst []byte, measurement string, tags tagList) []byte {
	dst = codec.AppendString(append(dst, pointKey), measurement)
	return encode(dst, &tags, (*tagList).code)
}

// readSeriesKey decodes a key of the cache: one of a point, or measurement and tags in line form.
func readSeriesKey(key string) (measurement string, tags tagList, err error) {
	if key != "" && key[0] == pointKey {
		c := codec.NewDecoder([]byte(key[1:]))
		c.String(&measurement)
		tags.code(&c)
		return measurement, tags, c.Done()
	}
	measurement, parsed, err := line.ParseSeries([]byte(key))
	for _, t := range parsed {
		tags = append(tags, tag{t.Key, t.Value})
	}
	return measurement, tags, err
}

// err returns the error for points that were not written.
func (o *outcome) err(measurement string) error {
	switch o.code {
	case written:
		return nil
	case outOfTime:
		return engine.Errorf(ErrInvalid, "measurement %q: points are written from %s on until %s: the retention, and a day from now",
			measurement, formatMillis(o.oldest), formatMillis(o.newest))
	case noRoom:
		e := o.limit
		return &e
	case tooManyFields:
		return tooManyFieldsError(measurement, o.field)
	case tooMuch:
		return engine.Errorf(ErrBusy, "ts: the shard has too many points that are not sealed yet")
	}
	return engine.Errorf(ErrConflict, "measurement %q: series have changed meanwhile", measurement)
}

func formatMillis(ms int64) string {
	if ms == minTime {
		return "the beginning"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}
