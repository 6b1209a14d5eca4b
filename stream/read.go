package stream

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/floedb/floe/internal/engine"
)

// Read returns records in the order of their IDs, those of all partitions together unless one is asked for, beginning with the oldest unless told
// where. A read ends early when its records exceed 4 MiB; it costs what it returns, wherever in the stream it is.
//
// In a spread namespace the clocks of several nodes make the IDs: a record may come to stand before one that has been read. Follow and consumer groups do not
// miss it.
//
// Options: From, After, FromTime, Tail, Until, UntilTime, Partition, Limit, Wait. Errors: ErrNotFound if there is no such stream, unless it waits; ErrInvalid for
// a limit that is not 1-1000 or a partition that there is not.
func (s *Store) Read(ctx context.Context, name string, opts ...ReadOption) ([]Record, error) {
	o := readOptions{limit: defaultReadLimit}
	for _, opt := range opts {
		opt.applyRead(&o)
	}
	if o.err != nil {
		return nil, o.err
	}
	if o.wait == 0 {
		return s.read(ctx, name, &reader{o: o})
	}
	waiting, cancel := context.WithTimeout(ctx, o.wait)
	defer cancel()
	recs, err := s.read(waiting, name, &reader{o: o, wait: true})
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return nil, nil
	}
	return recs, err
}

// Follow iterates over the records of a stream, those of all partitions unless one is asked for, and goes on when there are more, until ctx is done. Each pair is a record
// and nil, or a zero Record and an error (in the end ctx's), after which iteration ends; nothing runs before the first step. A stream that does
// not exist is waited for. Records that are trimmed before they are read are left out. If the stream is deleted and made again, the new one is
// followed from its beginning. Within a partition the order is that of IDs; between partitions it is too, in a namespace that is not spread. Between two looks the node keeps
// no state for the follower.
//
// Options: From, After, FromTime, FromBeginning (the default), FromEnd, Partition.
func (s *Store) Follow(ctx context.Context, name string, opts ...FollowOption) iter.Seq2[Record, error] {
	o := readOptions{limit: MaxReadLimit}
	for _, opt := range opts {
		opt.applyFollow(&o)
	}
	return func(yield func(Record, error) bool) {
		if o.err != nil {
			yield(Record{}, o.err)
			return
		}
		r := reader{o: o, wait: true}
		for {
			recs, err := s.read(ctx, name, &r)
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

// reader is where reading of a stream has come to.
type reader struct {
	o     readOptions
	wait  bool
	id    uint64        // of the stream
	parts []*readerPart // of the shards
}

type readerPart struct {
	route      string
	partitions []int // nil: all, in the stream's only shard
	from       []position
}

// read returns what comes next.
func (s *Store) read(ctx context.Context, name string, r *reader) ([]Record, error) {
	if err := engine.CheckName("stream", name); err != nil {
		return nil, err
	}
	if r.wait {
		if err := s.router.Await(ctx, s.namespace); err != nil {
			return nil, err
		}
	}
	if err := s.locate(ctx, name, r); err != nil {
		return nil, err
	}
	// Before it waits it looks: a wait that is repeated, because a connection was lost, has to go on from where it began.
	queries, err := s.askAll(ctx, name, r, false)
	if err != nil {
		return nil, err
	}
	if recs := r.take(queries); len(recs) > 0 {
		return recs, nil
	}
	if !r.wait {
		if r.parts[0].partitions == nil && !queries[0].found {
			return nil, notFound(name)
		}
		return nil, nil
	}
	if queries, err = s.askAll(ctx, name, r, true); err != nil {
		return nil, err
	}
	return r.take(queries), nil
}

func (r *reader) query(namespace, name string, p *readerPart, wait bool) *readQuery {
	return &readQuery{
		namespace: namespace, stream: name, partition: r.o.partition - 1, start: r.o.start, id: r.id, from: p.from, end: r.o.end,
		limit: r.o.limit, maxBytes: maxReadBytes, wait: wait,
	}
}

// locate finds the shards of the stream.
func (s *Store) locate(ctx context.Context, name string, r *reader) error {
	spread, err := s.scattered(ctx, name)
	if err != nil {
		return err
	}
	if !spread {
		if r.parts == nil {
			r.parts = []*readerPart{{route: name}}
		}
		return nil
	}
	q := specQuery{namespace: s.namespace, stream: name, wait: r.wait}
	if err := s.router.Query(ctx, s.namespace, name, &q); err != nil {
		return err
	}
	if !q.found {
		return notFound(name)
	}
	if r.parts != nil && r.id == q.spec.id {
		return nil
	}
	if r.parts != nil {
		r.o.start = start{}
	}
	r.id, r.parts = q.spec.id, nil
	if p := r.o.partition; p > q.spec.partitions {
		return engine.Errorf(ErrInvalid, "stream %q has %d partitions, no partition %d", name, q.spec.partitions, p-1)
	} else if p > 0 {
		r.parts = []*readerPart{{route: route(name, p-1), partitions: []int{p - 1}}}
		return nil
	}
	for _, p := range s.partsOf(name, &q.spec) {
		r.parts = append(r.parts, &readerPart{route: p.route, partitions: p.partitions})
	}
	return nil
}

// askAll queries all shards at once; if they wait, until one has answered.
func (s *Store) askAll(ctx context.Context, name string, r *reader, wait bool) ([]*readQuery, error) {
	if len(r.parts) == 1 {
		q := r.query(s.namespace, name, r.parts[0], wait)
		return []*readQuery{q}, s.router.Query(ctx, s.namespace, r.parts[0].route, q)
	}
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	queries := make([]*readQuery, len(r.parts))
	errs := make(chan error, len(queries))
	for i, p := range r.parts {
		queries[i] = r.query(s.namespace, name, p, wait)
		go func() {
			err := s.router.Query(asking, s.namespace, p.route, queries[i])
			if wait {
				cancel()
			}
			errs <- err
		}()
	}
	var failed error
	answered := false
	for range queries {
		if err := <-errs; err == nil {
			answered = true
		} else if !errors.Is(err, context.Canceled) || failed == nil {
			failed = err
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if wait && answered {
		return queries, nil
	}
	return queries, failed
}

// take merges the records of the shards in the order of IDs and partitions and moves each part behind those that are taken.
func (r *reader) take(queries []*readQuery) []Record {
	var recs []Record
	for _, q := range queries {
		recs = append(recs, q.records...)
	}
	slices.SortFunc(recs, func(a, b Record) int {
		return cmp.Or(a.ID.Compare(b.ID), cmp.Compare(a.Partition, b.Partition))
	})
	recs = r.bound(queries, recs)
	taken := make(map[int]uint64)
	for i := range recs {
		taken[recs[i].Partition] = recs[i].Offset
	}
	for i, q := range queries {
		left := make(map[int]uint64) // the first record of each partition that is not taken
		for j := len(q.records) - 1; j >= 0; j-- {
			if rec := &q.records[j]; rec.Offset > taken[rec.Partition] {
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

// keep notes where reading of a part has come to.
func (r *reader) keep(p *readerPart, q *readQuery) {
	switch {
	case q.from != nil:
		p.from = q.from
		if p.partitions == nil {
			r.id = q.id
		}
	case p.partitions == nil:
		if r.o.start.kind != startAt {
			r.o.start = start{} // there is no stream yet, so all that there will be is new
		}
	default:
		// The shard has not had a record yet.
		for _, partition := range p.partitions {
			p.from = append(p.from, position{partition, 1})
		}
	}
}

// bound cuts what the limit, the size or the end of what a shard returned does not allow.
func (r *reader) bound(queries []*readQuery, recs []Record) []Record {
	if r.o.start.kind == startTail {
		return recs[max(len(recs)-r.o.limit, 0):]
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
		size += len(recs[i].Payload)
	}
	return recs
}

// Info returns what is known of a stream; nothing is counted for it. Errors: ErrNotFound.
func (s *Store) Info(ctx context.Context, name string) (Info, error) {
	if err := engine.CheckName("stream", name); err != nil {
		return Info{}, err
	}
	parts, err := s.parts(ctx, name)
	if err != nil {
		return Info{}, err
	}
	var info Info
	for i, p := range parts {
		q := infoQuery{namespace: s.namespace, stream: name}
		if err := s.router.Query(ctx, s.namespace, p.route, &q); err != nil {
			return Info{}, err
		}
		if i == 0 && !q.found {
			return Info{}, notFound(name)
		}
		if i == 0 {
			info = q.info
			continue
		}
		info.add(q.info, p.partitions)
	}
	slices.SortFunc(info.Partitions, func(a, b PartitionInfo) int { return cmp.Compare(a.Partition, b.Partition) })
	return info, nil
}

// add adds what another shard knows; a shard that has had no record yet knows nothing, so the partitions are named.
func (i *Info) add(other Info, partitions []int) {
	i.Appended += other.Appended
	i.Reads += other.Reads
	known := make(map[int]PartitionInfo)
	for _, p := range other.Partitions {
		known[p.Partition] = p
	}
	for _, p := range partitions {
		pi, ok := known[p]
		if !ok {
			pi = PartitionInfo{Partition: p, First: 1}
		}
		i.Partitions = append(i.Partitions, pi)
	}
}

// Page returns up to limit streams whose names come after the given one, in order of their names. In a spread namespace their figures are those of their
// home shards: Info has all.
func (s *Store) Page(ctx context.Context, after string, limit int) ([]Info, error) {
	if limit < 1 || limit > MaxReadLimit {
		return nil, engine.Errorf(ErrInvalid, "stream: limit %d is not in 1-%d", limit, MaxReadLimit)
	}
	shards, err := s.router.Shards(ctx, s.namespace)
	if err != nil {
		return nil, err
	}
	var infos []Info
	for _, shard := range shards {
		q := listQuery{namespace: s.namespace, after: after, limit: limit}
		if err := s.router.Door().Query(ctx, shard, &q); err != nil {
			return nil, err
		}
		infos = append(infos, q.infos...)
	}
	slices.SortFunc(infos, func(a, b Info) int { return cmp.Compare(a.Name, b.Name) })
	return infos[:min(len(infos), limit)], nil
}

// All iterates over all streams in order of their names. Each pair is a stream and nil, or a zero value and an error, after which iteration ends.
func (s *Store) All(ctx context.Context) iter.Seq2[Info, error] {
	return engine.Paginate(func(after string) ([]Info, string, bool, error) {
		page, err := s.Page(ctx, after, defaultReadLimit)
		if err != nil || len(page) == 0 {
			return nil, "", false, err
		}
		return page, page[len(page)-1].Name, len(page) == defaultReadLimit, nil
	})
}

// Refs returns the places of the records with the given IDs, at most 1,000, leaving out those that there are not (any more).
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
		q := refsQuery{namespace: s.namespace, stream: name}
		for _, id := range ids {
			if p.spec == nil || slices.Contains(p.partitions, int(id.Seq%uint64(p.spec.partitions))) {
				q.ids = append(q.ids, id)
			}
		}
		if len(q.ids) == 0 {
			continue
		}
		if err := s.router.Query(ctx, s.namespace, p.route, &q); err != nil {
			return nil, err
		}
		refs = append(refs, q.refs...)
	}
	return refs, nil
}
