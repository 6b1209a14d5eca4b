package stream_test

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/floedb/floe/stream"
)

// drawAppend draws an append of one or a few messages, sometimes a repeat, sometimes conditional.
func (m *model) drawAppend(name string) modelOp {
	o := modelAppendOp{model: m, name: name, expect: -1, partition: -1}
	scattered := m.spread && name == "a"
	for range 1 + m.rng.IntN(4) {
		m.n++
		msg := stream.Message{Payload: fmt.Append(nil, m.n)}
		if !scattered && m.rng.IntN(2) == 0 {
			msg.Key = fmt.Sprint("key", m.rng.IntN(8))
		}
		o.msgs = append(o.msgs, msg)
	}
	if m.rng.IntN(3) == 0 {
		o.partition = m.rng.IntN(m.partitions)
		o.opts = append(o.opts, stream.Partition(o.partition))
	}
	switch n := m.rng.IntN(6); {
	case n == 0 && (!scattered || o.partition < 0):
		o.producer, o.sequence = fmt.Sprint("p", m.rng.IntN(2)), m.sequence(name)
		o.opts = append(o.opts, stream.Dedup(o.producer, o.sequence))
	case n == 1 && !(m.inTxn && m.deletes): // recreated within a millisecond it has the same IDs again
		o.msgs, o.expect = o.msgs[:1], max(o.partition, 0)
		if o.partition < 0 {
			o.opts = append(o.opts, stream.Partition(0))
			o.partition = 0
		}
		if st := m.streams[name]; st != nil && o.expect < len(st.parts) && m.rng.IntN(4) > 0 {
			if last := st.parts[o.expect].last; last != nil {
				o.lastID = last.id
			}
		}
		o.opts = append(o.opts, stream.IfLastID(o.lastID))
	}
	return modelOp{
		what: fmt.Sprintf("append %d to %s (partition %d, producer %s %d, expect %d)", len(o.msgs), name, o.partition, o.producer,
			o.sequence, o.expect),
		op:     stream.AppendManyOp(name, o.msgs, o.opts...),
		direct: func(ctx context.Context) (any, error) { return m.store.AppendMany(ctx, name, o.msgs, o.opts...) },
		apply:  o.apply,
	}
}

// sequence returns a number that a producer has used, the next one, or one far behind.
func (m *model) sequence(name string) uint64 {
	last := uint64(10)
	if st := m.streams[name]; st != nil {
		for _, p := range st.producers {
			last = max(last, p.appends[len(p.appends)-1].sequence)
		}
	}
	return last + 3 - uint64(m.rng.IntN(6))
}

type modelAppendOp struct {
	*model
	name      string
	msgs      []stream.Message
	opts      []stream.AppendOption
	partition int // requested partition; -1: none
	producer  string
	sequence  uint64
	expect    int // partition whose last ID must be lastID; -1: none
	lastID    stream.ID
}

func (o *modelAppendOp) apply(s modelState) (adopt func(any), want error) {
	st := s[o.name]
	if st == nil {
		st = newModelStream(1, stream.Retention{})
	}
	if p := st.producers[o.producer]; p != nil {
		for _, a := range p.appends {
			if a.sequence == o.sequence {
				return func(result any) { o.adopt(a.records, true, result) }, nil
			}
		}
		if o.sequence < p.appends[len(p.appends)-1].sequence {
			return nil, stream.ErrConflict
		}
	}
	if o.partition >= len(st.parts) {
		return nil, stream.ErrInvalid
	}
	if o.expect >= 0 {
		last := stream.ID{}
		if rec := st.parts[o.expect].last; rec != nil {
			last = rec.id
		}
		if last != o.lastID {
			return nil, stream.ErrConflict
		}
	}
	s[o.name] = st
	recs := make([]*modelRecord, len(o.msgs))
	for i, msg := range o.msgs {
		o.n++
		recs[i] = &modelRecord{msg: msg, partition: -1, id: stream.ID{Millis: math.MaxInt64, Seq: uint64(o.n)}}
	}
	if o.producer != "" {
		p := st.producers[o.producer]
		if p == nil {
			p = new(modelProducer)
			st.producers[o.producer] = p
		}
		p.used = o.ground.Now()
		p.appends = append(p.appends[max(len(p.appends)-7, 0):], modelAppend{o.sequence, recs})
	}
	if o.spread && o.name == "a" {
		// The sender chooses the partition, so the model takes it from the answer.
		return func(result any) {
			if all, ok := result.([]stream.Appended); ok {
				for i := range all {
					recs[i].partition = all[i].Partition
				}
			}
			st.add(recs)
			o.adopt(recs, false, result)
		}, nil
	}
	for _, rec := range recs {
		switch {
		case o.partition >= 0:
			rec.partition = o.partition
		case rec.msg.Key != "":
			rec.partition = int(xxhash.Sum64String(rec.msg.Key) % uint64(len(st.parts)))
		default:
			rec.partition = st.turn
		}
	}
	st.add(recs)
	return func(result any) { o.adopt(recs, false, result) }, nil
}

// adopt takes over the IDs that the store returns, if they are plausible.
func (o *modelAppendOp) adopt(recs []*modelRecord, duplicate bool, result any) {
	all, ok := result.([]stream.Appended)
	if !ok || len(all) != len(recs) {
		o.errorf("%d records appended, want %d", len(all), len(recs))
		return
	}
	for i, a := range all {
		rec := recs[i]
		if !duplicate {
			rec.id = a.ID
		}
		if a.ID != rec.id || a.Partition != rec.partition || a.Offset != rec.offset || a.Duplicate != duplicate || a.LSN == 0 {
			o.errorf("record %d is %+v, want %+v", i, a, rec)
		}
		if !duplicate && (a.ID.Millis != o.ground.Now() || rec.before != nil && a.ID.Compare(rec.before.id) <= 0) {
			o.errorf("record %d has id %v at %d, behind %+v", i, a.ID, o.ground.Now(), rec.before)
		}
	}
}

// add appends records to their partitions.
func (st *modelStream) add(recs []*modelRecord) {
	for _, rec := range recs {
		part := &st.parts[rec.partition]
		part.appended++
		rec.offset, rec.before = part.appended, part.last
		part.last, part.records = rec, append(part.records, rec)
		st.turn = (rec.partition + 1) % len(st.parts)
	}
	for p := range st.parts {
		if slices.ContainsFunc(recs, func(rec *modelRecord) bool { return rec.partition == p }) {
			st.shorten(p)
		}
	}
}
