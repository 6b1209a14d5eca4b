package processing

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/pipeline"
	"github.com/floedb/floe/internal/protocol"
)

// A source of time series is read by time: from its cursor to the current time less the delay of
// the source, but not beyond the applied writes. Points written later with an earlier time are
// missed, and counted as missed. The cursor's stream is the LSN up to which writes have been
// checked for missed points.

// maxUnderWay is the assumed maximum duration of a write, ms. Older times are read even if the log
// has not reached them.
const maxUnderWay = 5000

// firstSpan is the time range of the first read of a series, ms. It is halved while it contains too
// many points, and doubled while it contains few.
const firstSpan = int64(1) << 42

// lookAtSeries adds a measurement.
func (t *task) lookAtSeries(v *engine.View, in *input, i int, s *pipeline.Source) error {
	id, now := cursorID{i, 0}, v.Now()
	c, known := t.cursors[id]
	if !known {
		in.fresh = true
		if s.TS.Start == pipeline.StartLatest {
			c.next = uint64(t.job.runsSince())
		}
	}
	lsn, err := v.LSN()
	if err != nil {
		return err
	}
	// A write in flight gets at least the current stamp of the log. Its points may be older by the
	// duration of the write.
	end := min(now-s.TS.Delay, max(v.Stamp(), now-maxUnderWay))
	open := false
	if last := t.job.runsSince(); t.def.StopAtEnd {
		end, open = min(end, last), end < last
	}
	p := &sourcePartition{id: id, cursor: c, end: uint64(max(end, int64(c.next))), open: open}
	q := protocol.Samples{Namespace: t.namespace, Measurement: s.TS.Measurement, Field: s.TS.Field, Tags: make(map[string]string)}
	for _, tag := range s.TS.Tags {
		q.Tags[tag.Name] = tag.Value
	}
	if known && c.stream != 0 {
		q.From = int64(c.next)
		if p.late, err = q.Late(v, c.stream); err != nil {
			return err
		}
		in.fresh = in.fresh || p.late > 0
	}
	p.cursor.stream = uint64(lsn)
	if err := p.load(v, &q, t.stages[0].limit); err != nil {
		return err
	}
	switch {
	case len(p.samples) == 0 && known && p.late > 0:
		p.cursor.next = p.upTo
	case len(p.samples) == 0 && known:
		p.cursor.next = p.upTo // there are no points before it; this need not be stored
		t.cursors[id] = p.cursor
	}
	if p.upTo < p.end {
		v.WakeAt(now)
	} else {
		v.WakeAt(now + max(s.TS.Poll, 1))
	}
	in.partitions = append(in.partitions, p)
	return nil
}

// load reads points starting at the cursor, up to the limit and only whole milliseconds.
func (p *sourcePartition) load(v *engine.View, q *protocol.Samples, limit int) error {
	from := int64(p.cursor.next)
	for span := firstSpan; ; span /= 2 {
		q.From, q.To = from, min(from+max(span, 1), int64(p.end))
		p.upTo = uint64(q.To)
		if q.From >= q.To {
			return nil
		}
		found, more, err := q.Read(v)
		if err != nil {
			return err
		}
		if (more || len(found) > limit) && q.To > q.From+1 {
			span = min(span, q.To-q.From)
			continue
		}
		if more {
			return fmt.Errorf("processing: measurement %q has too many points at %d ms", q.Measurement, q.From)
		}
		slices.SortFunc(found, func(a, b protocol.Sample) int {
			return cmp.Or(cmp.Compare(a.Time, b.Time), slices.CompareFunc(a.Tags, b.Tags, func(a, b [2]string) int {
				return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
			}))
		})
		p.samples = found
		return nil
	}
}

// readSamples reads all loaded points, because a step cannot end among them.
func (r *reading) readSamples(t *task, p *sourcePartition, batch *[]pipeline.Record, failures *[]failure) error {
	s := &t.def.Sources[p.id.source]
	for i := range p.samples {
		sample := &p.samples[i]
		value := map[string]any{"measurement": s.TS.Measurement, "value": sample.Value, "timestamp_ms": sample.Time}
		if len(sample.Tags) > 0 {
			tags := make(map[string]string, len(sample.Tags))
			for _, tag := range sample.Tags {
				tags[tag[0]] = tag[1]
			}
			value["tags"] = tags
		}
		b, err := json.Marshal(value)
		if err != nil {
			return err
		}
		got := pipeline.Record{
			Value: b, Origin: pipeline.Origin{Source: p.id.source, Offset: uint64(sample.Time),
				ID: pipeline.ID{Millis: sample.Time, Seq: uint64(i)}},
		}
		t.admit(p, &got, batch, failures)
		r.bytes += len(b)
	}
	p.cursor.next, p.samples = p.upTo, nil
	p.measure(s)
	return nil
}

// admit sets the event time of a record, or makes it a failure.
func (t *task) admit(p *sourcePartition, got *pipeline.Record, batch *[]pipeline.Record, failures *[]failure) {
	at, err := t.prog.EventTime(got)
	p.cursor.arrived = got.Origin.ID.Millis
	if err != nil {
		*failures = append(*failures, t.failureOf(&pipeline.Failure{Operator: t.def.Sources[p.id.source].Name, Reason: err.Error(),
			Record: *got}))
		return
	}
	got.EventTime = at
	if !p.cursor.seen || at > p.cursor.newest {
		p.cursor.newest = at
	}
	p.cursor.seen = true
	*batch = append(*batch, *got)
}
