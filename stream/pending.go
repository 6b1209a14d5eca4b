package stream

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

func (m *machine) queryPending(v *engine.View, q *pendingQuery) error {
	v.Freeze()
	w, g, err := groupOf(v, q.namespace, q.stream, q.group)
	if err != nil || g == nil || q.streamID != 0 && q.streamID != w.id || q.groupID != 0 && q.groupID != g.home {
		return err
	}
	q.found = true
	if p := q.after.Partition; p >= w.partitions {
		return engine.BadCursor(q.after.cursor())
	}
	now := v.Now()
	parts, err := w.all()
	if err != nil {
		return err
	}
	members, err := w.members(g)
	if err != nil {
		return err
	}
	err = w.rowsFrom(rowBatch, g, q.after.Partition, q.after.Offset-min(q.after.Offset, batchSpan), func(k, v []byte) error {
		b, err := decodeBatch(k, v)
		if err != nil {
			return err
		}
		if q.beyond(Ref{Partition: b.partition, Offset: b.first}) {
			return errEnough
		}
		rec := PendingRecord{Consumer: b.consumer, DeliveredAt: time.UnixMilli(b.delivered), Deadline: time.UnixMilli(b.deadline)}
		if reason := members[b.consumer].end.reason(); reason != "" {
			rec.Consumer, rec.Deadline, rec.Reason = "", time.UnixMilli(now), reason
		}
		for _, o := range b.offsets {
			rec.Ref = Ref{Partition: b.partition, Offset: o, Attempt: int(b.attempt)}
			q.add(parts, rec)
		}
		return nil
	})
	if err == nil {
		err = w.rowsFrom(rowFailure, g, q.after.Partition, q.after.Offset, func(k, v []byte) error {
			f, err := decodeFailure(k, v)
			if err == nil && q.beyond(Ref{Partition: partitionIn(k), Offset: f.offset}) {
				return errEnough
			}
			if err == nil {
				q.add(parts, PendingRecord{
					Ref:         Ref{Partition: partitionIn(k), Offset: f.offset, Attempt: int(f.attempts)},
					DeliveredAt: time.UnixMilli(f.delivered),
					Deadline:    time.UnixMilli(f.due), Reason: f.reason,
				})
			}
			return err
		})
	}
	if err != nil {
		return err
	}
	q.cut()
	return q.identify(w)
}

// errEnough ends a scan of rows early.
var errEnough = errors.New("enough")

// rowsFrom calls f for the group's rows of a kind whose keys begin with partition and offset. It
// starts at a position and ends when f returns errEnough.
func (w *view) rowsFrom(kind byte, g *groupHeader, partition int, offset uint64, f func(k, v []byte) error) error {
	it, err := w.v.Iter(key.AppendUint64(partPrefix(nil, kind, w.gen, g.id, partition), offset),
		key.PrefixEnd(groupPrefix(nil, kind, w.gen, g.id)))
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		err = f(it.Key(), it.Value())
	}
	if err == errEnough {
		err = nil
	}
	return cmp.Or(err, it.Close())
}

// beyond reports whether a position is after all records that will be returned.
func (q *pendingQuery) beyond(place Ref) bool { return q.more && place.compare(q.bound) > 0 }

// add adds a record if it is after the requested position and has not been trimmed. Excess records
// are dropped from time to time.
func (q *pendingQuery) add(parts []partition, rec PendingRecord) {
	after := PendingRecord{Ref: q.after}
	if q.after != (Ref{}) && comparePending(rec, after) <= 0 || rec.Ref.Offset < parts[rec.Ref.Partition].first || q.beyond(rec.Ref) {
		return
	}
	if q.records = append(q.records, rec); len(q.records) >= 2*q.limit+MaxReadLimit {
		q.cut()
	}
}

func (q *pendingQuery) cut() {
	slices.SortFunc(q.records, comparePending)
	if len(q.records) > q.limit {
		q.records, q.more = q.records[:q.limit], true
		q.bound = q.records[q.limit-1].Ref
	}
}

// identify fills in the IDs of the records.
func (q *pendingQuery) identify(w *view) (err error) {
	for i := range q.records {
		rec := &q.records[i]
		if rec.ID, err = idAt(w.v.Get, w.gen, rec.Ref.Partition, rec.Ref.Offset); err != nil {
			return err
		}
	}
	return nil
}
