package stream

import (
	"cmp"
	"context"
	"slices"

	"github.com/floedb/floe/internal/engine"
)

// Refs returns the positions of the records with the given IDs, at most 1,000. It omits records
// that do not exist or were removed.
func (s *Store) Refs(ctx context.Context, name string, ids ...ID) ([]Ref, error) {
	parts, err := s.parts(ctx, name)
	if err != nil {
		return nil, err
	}
	if len(ids) > MaxReadLimit {
		return nil, engine.Errorf(ErrInvalid, "stream: %d ids exceed %d", len(ids), MaxReadLimit)
	}
	var refs []Ref
	for _, p := range parts {
		q := refsQuery{namespace: s.scope.Namespace(), stream: name, id: p.id()}
		for _, id := range ids {
			if p.spec == nil || slices.Contains(p.partitions, int(id.Seq%uint64(p.spec.partitions))) {
				q.ids = append(q.ids, id)
			}
		}
		if len(q.ids) == 0 {
			continue
		}
		if err := s.scope.Query(ctx, p.route, &q); err != nil {
			return nil, err
		}
		refs = append(refs, q.refs...)
	}
	return refs, nil
}

// Records returns the records at the given positions, at most 1,000, in the order of refs. It omits
// those that do not exist or were removed. Errors: ErrNotFound; ErrInvalid for more than 1,000
// refs, and for a partition outside 0-1023.
func (s *Store) Records(ctx context.Context, name string, refs ...Ref) ([]Record, error) {
	if err := engine.CheckName("stream", name); err != nil {
		return nil, err
	}
	if len(refs) > MaxReadLimit {
		return nil, engine.Errorf(ErrInvalid, "stream: %d records exceed %d", len(refs), MaxReadLimit)
	}
	for _, ref := range refs {
		if err := (PartitionOption{ref.Partition}).check(); err != nil {
			return nil, err
		}
	}
	parts, err := s.parts(ctx, name)
	if err != nil {
		return nil, err
	}
	found := make(map[Ref]Record)
	for _, p := range parts {
		q := recordsQuery{namespace: s.scope.Namespace(), stream: name, maxBytes: maxReadBytes}
		for _, ref := range refs {
			if p.spec == nil || slices.Contains(p.partitions, ref.Partition) {
				q.refs = append(q.refs, Ref{Partition: ref.Partition, Offset: ref.Offset})
			}
		}
		for len(q.refs) > 0 {
			if err := s.scope.Query(ctx, p.route, &q); err != nil {
				return nil, err
			}
			for _, rec := range q.records {
				found[Ref{Partition: rec.Partition, Offset: rec.Offset}] = rec
			}
			q.refs, q.records, q.done = q.refs[q.done:], nil, 0
		}
	}
	var recs []Record
	for _, ref := range refs {
		if rec, ok := found[Ref{Partition: ref.Partition, Offset: ref.Offset}]; ok {
			recs = append(recs, rec)
		}
	}
	return recs, nil
}

func (m *machine) queryRefs(v *engine.View, q *refsQuery) error {
	v.Freeze()
	w, err := viewOf(v, q.namespace, q.stream)
	if err != nil || w == nil || q.id != 0 && q.id != w.id {
		return err
	}
	for _, id := range q.ids {
		p := int(id.Seq % uint64(w.partitions))
		part, err := w.partition(p)
		if err != nil {
			return err
		}
		offset, err := offsetOf(v.Get, w.gen, p, part.first, part.last, id)
		if err != nil || offset > part.last {
			if err != nil {
				return err
			}
			continue
		}
		if got, err := idAt(v.Get, w.gen, p, offset); err != nil {
			return err
		} else if got == id {
			q.refs = append(q.refs, Ref{Partition: p, Offset: offset})
		}
	}
	return nil
}

func (m *machine) queryRecords(v *engine.View, q *recordsQuery) error {
	v.Freeze()
	w, err := viewOf(v, q.namespace, q.stream)
	if err != nil || w == nil {
		q.done = len(q.refs)
		return err
	}
	defer func() { m.countReads(w.gen, len(q.records)) }()
	size := 0
	for q.done < len(q.refs) && size <= q.maxBytes {
		n := run(q.refs[q.done:])
		read, err := q.readRun(w, q.refs[q.done], n, &size)
		if err != nil {
			return err
		}
		q.done += read
	}
	return nil
}

// run returns how many of the refs are consecutive.
func run(refs []Ref) int {
	n := 1
	for n < len(refs) && refs[n].Partition == refs[0].Partition && refs[n].Offset == refs[0].Offset+uint64(n) {
		n++
	}
	return n
}

// readRun reads the records of n refs and returns how many refs it processed.
func (q *recordsQuery) readRun(w *view, first Ref, n int, size *int) (read int, err error) {
	part, err := w.partition(first.Partition)
	if err != nil {
		return 0, err
	}
	end := first.Offset + uint64(n)
	from, to := max(first.Offset, part.first), min(end, part.last+1)
	if from >= to {
		return n, nil
	}
	it, err := w.v.Iter(recordKey(nil, w.gen, first.Partition, from), recordKey(nil, w.gen, first.Partition, to))
	if err != nil {
		return 0, err
	}
	for ok := it.First(); from < to && *size <= q.maxBytes; ok = it.Next() {
		var rec Record
		if ok && offsetIn(it.Key()) == from {
			rec, err = decodeRecord(it.Value(), first.Partition, from)
		} else {
			err = cmp.Or(it.Err(), missing(first.Partition, from))
		}
		if err != nil {
			it.Close()
			return 0, err
		}
		q.records = append(q.records, rec)
		*size += len(it.Value())
		from++
	}
	if from == to {
		from = end
	}
	return int(from - first.Offset), it.Close()
}
