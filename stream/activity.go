package stream

import (
	"context"
	"slices"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// MaxActivityParts is the largest Parts of an ActivitySpan.
const MaxActivityParts = 1000

const (
	maxActivityStep   = 365 * 24 * time.Hour
	maxActivityMillis = 1 << 48 // about 8,900 years around 1970
)

// ActivitySpan is a time range divided into parts of equal length.
type ActivitySpan struct {
	From       time.Time     // less than 8,900 years from 1970
	Step       time.Duration // length of a part; whole milliseconds, from one to a year
	Parts      int           // 1 to MaxActivityParts
	Partitions []int         // partitions to count; nil: all
}

// Activity is the contents of a stream over a time range, part by part.
type Activity struct {
	Records []int64
	Bytes   []int64 // as in PartitionStats
}

// Activity returns how many of the stream's records and bytes were appended in each part of the
// span, by the times in their IDs. It costs a few lookups per part and partition, regardless of the
// size of the stream. Errors: ErrNotFound; ErrInvalid for a span that is out of bounds or a
// partition that does not exist.
func (s *Store) Activity(ctx context.Context, name string, span ActivitySpan) (Activity, error) {
	if span.Parts < 1 || span.Parts > MaxActivityParts {
		return Activity{}, engine.Errorf(ErrInvalid, "stream: %d parts of activity are not in 1-%d", span.Parts, MaxActivityParts)
	}
	if span.Step < time.Millisecond || span.Step%time.Millisecond != 0 || span.Step > maxActivityStep {
		return Activity{}, engine.Errorf(ErrInvalid, "stream: activity step %v is not in whole milliseconds up to %v", span.Step,
			maxActivityStep)
	}
	if from := span.From.Unix(); from < -maxActivityMillis/1000 || from > maxActivityMillis/1000 {
		return Activity{}, engine.Errorf(ErrInvalid, "stream: activity from %d s is more than %d s from 1970", from,
			int64(maxActivityMillis/1000))
	}
	if n := len(span.Partitions); n > MaxPartitions {
		return Activity{}, engine.Errorf(ErrInvalid, "stream: activity of %d partitions exceeds %d", n, MaxPartitions)
	}
	stats, err := s.Get(ctx, name)
	if err != nil {
		return Activity{}, err
	}
	for _, p := range span.Partitions {
		if p < 0 || p >= len(stats.Partitions) {
			return Activity{}, engine.Errorf(ErrInvalid, "stream: %q has no partition %d, it has %d", name, p, len(stats.Partitions))
		}
	}
	parts, err := s.parts(ctx, name)
	if err != nil {
		return Activity{}, err
	}
	a := Activity{Records: make([]int64, span.Parts), Bytes: make([]int64, span.Parts)}
	for _, p := range parts {
		q := activityQuery{
			namespace: s.scope.Namespace(), stream: name, id: p.id(), from: span.From.UnixMilli(), step: span.Step.Milliseconds(),
			count:      span.Parts,
			partitions: span.Partitions,
		}
		if err := s.scope.Query(ctx, p.route, &q); err != nil {
			return Activity{}, err
		}
		for i := range q.records {
			a.Records[i] += q.records[i]
			a.Bytes[i] += q.bytes[i]
		}
	}
	return a, nil
}

// activityQuery counts the records of a shard's partitions in each part of a time range. The parts
// are its first arguments; nil: all.
type activityQuery struct {
	namespace  string
	stream     string
	id         uint64 // of the stream, 0: any
	from, step int64  // ms
	count      int
	partitions []int // nil: all

	records, bytes []int64 // nil: the stream does not exist
}

func (*activityQuery) Machine() engine.MachineID { return engine.MachineStream }

func (m *machine) queryActivity(v *engine.View, q *activityQuery) error {
	v.Freeze()
	w, err := viewOf(v, q.namespace, q.stream)
	if err != nil || w == nil || q.id != 0 && q.id != w.id {
		return err
	}
	q.records, q.bytes = make([]int64, q.count), make([]int64, q.count)
	parts, err := w.all()
	if err != nil {
		return err
	}
	for p := range parts {
		asked := q.partitions == nil || slices.Contains(q.partitions, p)
		if !asked || !w.here(p) || parts[p].records() == 0 {
			continue
		}
		if err := q.add(w, p, &parts[p]); err != nil {
			return err
		}
	}
	return nil
}

// add counts the records of a partition in each part. It looks up the offsets of times, and takes
// the bytes from the running totals in the rows there.
func (q *activityQuery) add(w *view, p int, part *partition) error {
	at := func(ms int64, from uint64) (offset, before uint64, err error) {
		offset, err = offsetOf(w.v.Get, w.gen, p, from, part.last, ID{Millis: ms})
		if err != nil || offset > part.last {
			return offset, part.bytes, err
		}
		s, err := storedAt(w.v.Get, w.gen, p, offset)
		return offset, s.before, err
	}
	offset, before, err := at(q.from, part.first)
	if err != nil {
		return err
	}
	for i := range q.count {
		if offset > part.last {
			break
		}
		nextOffset, nextBefore, err := at(q.from+int64(i+1)*q.step, offset)
		if err != nil {
			return err
		}
		q.records[i] += int64(nextOffset - offset)
		q.bytes[i] += int64(nextBefore - before)
		offset, before = nextOffset, nextBefore
	}
	return nil
}
