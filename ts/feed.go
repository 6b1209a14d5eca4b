package ts

import (
	"time"

	"github.com/floedb/floe/internal/engine"
	samples "github.com/floedb/floe/internal/feed"
)

// SamplesOf is of feed.Sampler: other machines read points in duties of theirs.
func (m *machine) SamplesOf(v *engine.View, s *samples.Samples) (found []samples.Sample, more bool, err error) {
	o := readOptions{tags: s.Tags, from: time.UnixMilli(s.From), to: time.UnixMilli(s.To)}
	sel, err := o.selection(s.Measurement, s.Field)
	if err != nil {
		return nil, false, err
	}
	q := readQuery{namespace: s.Namespace, selection: sel}
	if err := m.Query(v, &q); err != nil {
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
