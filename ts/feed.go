package ts

import (
	"errors"
	"slices"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
	"github.com/floedb/floe/internal/protocol"
)

// ReadSamples is of feed.Sampler: other machines read points in duties of theirs.
func (m *machine) ReadSamples(v *engine.View, s *samples.Samples) (found []samples.Sample, more bool, err error) {
	o := readOptions{tags: s.Tags, from: time.UnixMilli(s.From), to: time.UnixMilli(s.To)}
	sel, err := o.selection(s.Measurement, s.Field)
	if err != nil {
		return nil, false, err
	}
	q := readQuery{namespace: s.Namespace, selection: sel}
	if err := q.answer(v); err != nil {
		return nil, false, err
	}
	if q.refused != "" {
		return nil, true, nil
	}
	tags := make([][][2]string, len(q.series))
	for i := range q.series {
		for _, t := range q.series[i].tags {
			tags[i] = append(tags[i], [2]string{t.name, t.value})
		}
	}
	for _, run := range q.runs {
		for i, at := range run.times {
			found = append(found, samples.Sample{Time: at, Value: run.values[i], Tags: tags[run.series]})
		}
	}
	return found, q.more, nil
}

// CountLate is of feed.Sampler. Blocks say from when their points are, so that most are not looked into.
func (m *machine) CountLate(v *engine.View, s *samples.Samples, since uint64) (n int64, err error) {
	v.Freeze()
	t, ok, err := find(v, s.Namespace, s.Measurement)
	if err != nil || !ok || t.tier != nil {
		return 0, err
	}
	o := readOptions{tags: s.Tags}
	sel, err := o.selection(s.Measurement, s.Field)
	if err != nil {
		return 0, err
	}
	fields := fieldsOf(t.open, []string{s.Field})
	it, err := v.Iter(blockKey(nil, t.open.inc, max(since, t.open.content.sealed)+1, 0), key.PrefixEnd(incKey(nil, rowBlock, t.open.inc)))
	if err != nil {
		return 0, err
	}
	var found *selector
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var b block
		if b, err = decodeBlock(it.Value()); err != nil || b.span.oldest >= s.From {
			continue
		}
		if found == nil {
			if found, err = selectSeries(v, t.open.inc, sel.Filters, sel.Limits.WithDefaults()); err != nil {
				break
			}
		}
		wanted := (&scan{fields: fields, ids: found.ids}).wanted(&b)
		err = b.eachRun(wanted, func(_ uint16, _ seriesID, times []int64, _ []float64) {
			before, _ := slices.BinarySearch(times, s.From)
			n += int64(before)
		})
	}
	return n, errors.Join(err, it.Close())
}
