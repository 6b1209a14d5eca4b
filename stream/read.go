package stream

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/floedb/floe/internal/engine"
)

// Read returns records in the order of their IDs, from all partitions unless Partition is given, by
// default beginning with the oldest. A read ends early when its records exceed 4 MiB. Its cost
// depends on its result, not on its position in the stream.
//
// In a spread namespace IDs come from the clocks of several nodes, so a new record may sort before
// one already read. Follow and consumer groups do not miss it.
//
// Options: From, After, FromTime, Tail, Until, UntilTime, Partition, Limit, Wait. Errors:
// ErrNotFound if the stream does not exist, unless Wait is given; ErrInvalid for a limit outside
// 1-1000 or a partition that does not exist.
func (s *Store) Read(ctx context.Context, name string, opts ...ReadOption) ([]Record, error) {
	o := readOptions{limit: defaultReadLimit}
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyRead(&o)
	}
	if o.err != nil {
		return nil, o.err
	}
	if err := engine.CheckName("stream", name); err != nil {
		return nil, err
	}
	r := reader{o: o}
	if o.wait == 0 {
		return s.look(ctx, name, &r)
	}
	ctx = engine.Lasting(ctx)
	waiting, cancel := context.WithTimeout(ctx, o.wait)
	defer cancel()
	recs, err := s.next(ctx, waiting, name, &r)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return nil, nil
	}
	return recs, err
}

// Follow iterates over the records of a stream, from all partitions unless Partition is given, and
// waits for more until ctx is done. Each pair is a record and nil, or a zero Record and an error
// (finally ctx's), after which iteration ends. Nothing runs before the first step. Follow waits for
// a stream that does not exist. Records trimmed before they are read are skipped. If the stream is
// deleted and recreated, Follow continues at the beginning of the new one. Records come in the
// order of IDs within a partition, and across partitions too if the namespace is not spread.
// Between two reads the node keeps no state for the follower.
//
// Options: From, After, FromTime, FromBeginning (the default), FromEnd, Partition.
func (s *Store) Follow(ctx context.Context, name string, opts ...FollowOption) iter.Seq2[Record, error] {
	o := readOptions{limit: MaxReadLimit}
	opts, o.err = engine.Given(opts)
	for _, opt := range opts {
		opt.applyFollow(&o)
	}
	return func(yield func(Record, error) bool) {
		if err := firstError(o.err, engine.CheckName("stream", name)); err != nil {
			yield(Record{}, err)
			return
		}
		ctx, r := engine.Lasting(ctx), reader{o: o}
		for {
			recs, err := s.next(ctx, ctx, name, &r)
			if err != nil {
				yield(Record{}, err)
				return
			}
			for _, rec := range recs {
				if !yield(rec, nil) {
					return
				}
			}
		}
	}
}

// reader is the state of reading a stream.
type reader struct {
	o       readOptions
	id      uint64        // of the stream, 0 before it is known
	parts   []*readerPart // of the shards
	missing bool          // the stream did not exist at the last look
}

type readerPart struct {
	route      string
	partitions []int // nil: all, in the stream's only shard
	from       []position
}

// next returns the next records, and waits for them if necessary. The wait has its own context,
// because its end must not interrupt the first read. next always reads before it waits: a wait that
// is repeated after a lost connection must continue from the same position.
func (s *Store) next(ctx, waiting context.Context, name string, r *reader) ([]Record, error) {
	for ; ; ctx = waiting {
		recs, err := s.look(ctx, name, r)
		if len(recs) > 0 || err != nil && !errors.Is(err, ErrNotFound) {
			return recs, err
		}
		if recs, err = s.wait(waiting, name, r); len(recs) > 0 || err != nil {
			return recs, err
		}
	}
}

// look returns the available records. Errors: ErrNotFound.
func (s *Store) look(ctx context.Context, name string, r *reader) ([]Record, error) {
	found, err := s.locate(ctx, name, r)
	if err != nil {
		return nil, err
	}
	var queries []*readQuery
	if found {
		if queries, err = s.askAll(ctx, name, r); err != nil {
			return nil, err
		}
		found = r.parts[0].partitions != nil || queries[0].found
	}
	if r.missing = !found; r.missing {
		if r.o.start.kind != startAt {
			r.o.start = start{} // all future records are new
		}
		return nil, notFound(name)
	}
	return r.take(queries), nil
}

// wait waits until there are records. It may return them; if not, the caller must look again.
func (s *Store) wait(ctx context.Context, name string, r *reader) ([]Record, error) {
	if err := s.scope.Await(ctx); err != nil {
		return nil, err
	}
	spread, err := s.scattered(ctx, name)
	if err != nil {
		return nil, err
	}
	if !spread {
		q := r.query(s.scope.Namespace(), name, r.parts[0], true)
		if err := s.scope.Query(ctx, name, q); err != nil {
			return nil, err
		}
		return r.take([]*readQuery{q}), nil
	}
	if r.missing {
		return nil, s.scope.Query(ctx, name, &specQuery{namespace: s.scope.Namespace(), stream: name, wait: true})
	}
	return nil, s.awaitAny(ctx, name, r)
}

func (r *reader) query(namespace, name string, p *readerPart, wait bool) *readQuery {
	return &readQuery{
		namespace: namespace, stream: name, partition: r.o.partition - 1, start: r.o.start, id: r.id, strict: p.partitions != nil,
		from: slices.Clone(p.from), end: r.o.end, limit: r.o.limit, maxBytes: maxReadBytes, wait: wait,
	}
}

// locate finds the shards of the stream and reports whether it exists. In a namespace that is not
// spread it returns true without a check.
func (s *Store) locate(ctx context.Context, name string, r *reader) (found bool, err error) {
	spread, err := s.scattered(ctx, name)
	if err != nil {
		return false, err
	}
	if !spread {
		if r.parts == nil {
			r.parts = []*readerPart{{route: name}}
		}
		return true, nil
	}
	q := specQuery{namespace: s.scope.Namespace(), stream: name}
	if err := s.scope.Query(ctx, name, &q); err != nil || !q.found {
		return false, err
	}
	if r.id == q.spec.id {
		return true, nil
	}
	if r.id != 0 {
		r.o.start = start{} // the stream was deleted and recreated
	}
	r.id, r.parts = q.spec.id, nil
	if p := r.o.partition; p > q.spec.partitions {
		return false, noSuchPartition(name, q.spec.partitions, p-1)
	} else if p > 0 {
		r.parts = []*readerPart{{route: route(name, p-1), partitions: []int{p - 1}}}
		return true, nil
	}
	for _, p := range s.partsOf(name, &q.spec) {
		r.parts = append(r.parts, &readerPart{route: p.route, partitions: p.partitions})
	}
	return true, nil
}

// askAll queries all shards concurrently.
func (s *Store) askAll(ctx context.Context, name string, r *reader) ([]*readQuery, error) {
	queries := make([]*readQuery, len(r.parts))
	for i, p := range r.parts {
		queries[i] = r.query(s.scope.Namespace(), name, p, false)
	}
	errs := make([]error, len(queries))
	s.scope.Each(len(queries), func(i int) { errs[i] = s.scope.Query(ctx, r.parts[i].route, queries[i]) })
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return queries, nil
}

// awaitAny waits until one of the shards has records, or the stream's home has another stream of
// that name. It discards the shards' answers, because the next look queries all of them.
func (s *Store) awaitAny(ctx context.Context, name string, r *reader) error {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, len(r.parts)+1)
	ask := func(route string, q engine.Query) { errs <- s.scope.Query(asking, route, q) }
	for _, p := range r.parts {
		q := r.query(s.scope.Namespace(), name, p, true)
		q.limit = 1
		go ask(p.route, q)
	}
	go ask(name, &specQuery{namespace: s.scope.Namespace(), stream: name, wait: true, not: r.id})
	err := <-errs
	cancel()
	for range r.parts {
		<-errs
	}
	return err
}

// take merges the records of the shards in the order of IDs and partitions. It moves each part's
// position after the returned records.
func (r *reader) take(queries []*readQuery) []Record {
	if len(queries) == 1 {
		r.keep(r.parts[0], queries[0])
		return queries[0].records
	}
	var recs []Record
	for _, q := range queries {
		recs = append(recs, q.records...)
	}
	slices.SortFunc(recs, func(a, b Record) int {
		return cmp.Or(a.ID.Compare(b.ID), cmp.Compare(a.Partition, b.Partition))
	})
	recs = r.bound(queries, recs)
	returned := make(map[int]uint64)
	for i := range recs {
		returned[recs[i].Partition] = recs[i].Offset
	}
	for i, q := range queries {
		left := make(map[int]uint64) // the first record of each partition that is not returned
		for j := len(q.records) - 1; j >= 0; j-- {
			if rec := &q.records[j]; rec.Offset > returned[rec.Partition] {
				left[rec.Partition] = rec.Offset
			}
		}
		for j := range q.from {
			if offset, ok := left[q.from[j].partition]; ok {
				q.from[j].next = offset
			}
		}
		r.keep(r.parts[i], q)
	}
	return recs
}

// keep stores the positions in a part.
func (r *reader) keep(p *readerPart, q *readQuery) {
	switch {
	case q.from != nil:
		p.from = q.from
	case p.partitions != nil:
		// The shard has not had a record yet.
		for _, partition := range p.partitions {
			p.from = append(p.from, position{partition, 1})
		}
	}
	if p.partitions == nil && q.found && r.id != q.id {
		if r.id != 0 {
			r.o.start = start{} // the stream was deleted and recreated
		}
		r.id = q.id
	}
}

// bound cuts off records beyond the limit, the size, or the end of a shard's result.
func (r *reader) bound(queries []*readQuery, recs []Record) []Record {
	if r.o.start.kind == startTail {
		return r.boundTail(queries, recs)
	}
	var end *ID
	for _, q := range queries {
		if n := len(q.records); q.more && n > 0 && (end == nil || q.records[n-1].ID.Compare(*end) < 0) {
			end = &q.records[n-1].ID
		}
	}
	size := 0
	for i := range recs {
		if i == r.o.limit || size > maxReadBytes || end != nil && recs[i].ID.Compare(*end) > 0 {
			return recs[:i]
		}
		size += recs[i].size()
	}
	return recs
}

// boundTail is bound for a Tail. Records that a shard has not returned come before the first one it
// returned.
func (r *reader) boundTail(queries []*readQuery, recs []Record) []Record {
	first := ID{}
	for _, q := range queries {
		if len(q.records) > 0 && q.more && q.records[0].ID.Compare(first) > 0 {
			first = q.records[0].ID
		}
	}
	size := 0
	for i := len(recs) - 1; i >= 0; i-- {
		size += recs[i].size()
		if n := len(recs) - i; n > r.o.limit || n > 1 && size > maxReadBytes || recs[i].ID.Compare(first) < 0 {
			return recs[i+1:]
		}
	}
	return recs
}
