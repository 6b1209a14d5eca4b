package stream

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/key"
)

// Info describes a stream.
type Info struct {
	Name       string
	Retention  Retention
	CreatedAt  time.Time
	Appended   int64 // records ever appended
	Reads      int64 // records read, on the nodes that were asked, since they started
	Partitions []PartitionInfo
}

// PartitionInfo describes a partition.
type PartitionInfo struct {
	Partition int
	Records   int64
	Bytes     int64  // of keys, headers and payloads
	First     uint64 // offset of the first record; one more than Last if there is none
	Last      uint64 // offset of the last record ever appended
	FirstID   ID     // zero if there is no record
	LastID    ID     // of the last record ever appended
	Shard     int
}

// Records returns how many records the stream holds.
func (i *Info) Records() (n int64) {
	for _, p := range i.Partitions {
		n += p.Records
	}
	return n
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
		q := infoQuery{namespace: s.scope.Namespace(), stream: name, id: p.id()}
		if err := s.scope.Query(ctx, p.route, &q); err != nil {
			return Info{}, err
		}
		if i == 0 && !q.found {
			return Info{}, notFound(name)
		}
		if i == 0 {
			info = q.info
			continue
		}
		info.add(q.info, p.partitions, func(partition int) int { return int(s.shardOf(name, partition)) })
	}
	sortPartitions(info.Partitions)
	return info, nil
}

// add adds what another shard knows; a shard that has had no record yet knows nothing, so the partitions are named.
func (i *Info) add(other Info, partitions []int, shard func(partition int) int) {
	i.Appended += other.Appended
	i.Reads += other.Reads
	known := make(map[int]PartitionInfo)
	for _, p := range other.Partitions {
		known[p.Partition] = p
	}
	for _, p := range partitions {
		pi, ok := known[p]
		if !ok {
			pi = PartitionInfo{Partition: p, First: 1, Shard: shard(p)}
		}
		i.Partitions = append(i.Partitions, pi)
	}
}

// Page returns up to limit streams whose names come after the given one, in order of their names: fewer if they have many partitions, none if there are no more.
func (s *Store) Page(ctx context.Context, after string, limit int) ([]Info, error) {
	if limit < 1 || limit > MaxReadLimit {
		return nil, engine.Errorf(ErrInvalid, "stream: limit %d is not in 1-%d", limit, MaxReadLimit)
	}
	for {
		page, end, err := s.page(ctx, after, limit)
		if err != nil || len(page) > 0 || end == "" {
			return page, err
		}
		after = end // what the shards have told is left of streams that were deleted
	}
}

// listed is a stream as a shard tells it in a listing.
type listed struct {
	Info
	id         uint64
	partitions int // in all shards
	home       bool
}

// page asks each shard for limit streams and puts together what they say. Behind end, unless it is "", one of them may have more; what it does not tell is
// left out of what the others do, so the next page begins there.
func (s *Store) page(ctx context.Context, after string, limit int) (page []Info, end string, err error) {
	parts, shards, err := engine.AskAll(ctx, &s.scope, listQuery{namespace: s.scope.Namespace(), after: after, limit: limit})
	if err != nil {
		return nil, "", err
	}
	var all []listed
	for at, q := range parts {
		for i := range q.streams {
			l := &q.streams[i]
			l.home = len(shards) == 1 || s.shardOf(l.Name, 0) == shards[at]
		}
		all = append(all, q.streams...)
		if n := len(q.streams); q.more && n > 0 && (end == "" || q.streams[n-1].Name < end) {
			end = q.streams[n-1].Name
		}
	}
	if end != "" {
		all = slices.DeleteFunc(all, func(l listed) bool { return l.Name > end })
	}
	for _, l := range s.joined(all) {
		page = append(page, l.Info)
	}
	return page[:min(len(page), limit)], end, nil
}

// joined returns the streams of a listing in order of their names, with what all shards say about each. The home of a stream is who knows which one of that
// name there is.
func (s *Store) joined(all []listed) []listed {
	homeFirst := func(l listed) int {
		if l.home {
			return 0
		}
		return 1
	}
	slices.SortFunc(all, func(a, b listed) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(homeFirst(a), homeFirst(b)))
	})
	var streams []listed
	for _, l := range all {
		n := len(streams)
		switch {
		case l.home:
			streams = append(streams, l)
		case n > 0 && streams[n-1].Name == l.Name && streams[n-1].id == l.id:
			known := &streams[n-1]
			known.Appended += l.Appended
			known.Reads += l.Reads
			known.Partitions = append(known.Partitions, l.Partitions...)
		}
	}
	for i := range streams {
		s.complete(&streams[i])
	}
	return streams
}

// complete adds the partitions of shards that have had no record yet, and know nothing.
func (s *Store) complete(l *listed) {
	known := make(map[int]bool, len(l.Partitions))
	for _, p := range l.Partitions {
		known[p.Partition] = true
	}
	for p := range l.partitions {
		if !known[p] {
			l.Partitions = append(l.Partitions, PartitionInfo{Partition: p, First: 1, Shard: int(s.shardOf(l.Name, p))})
		}
	}
	sortPartitions(l.Partitions)
}

func sortPartitions(ps []PartitionInfo) {
	slices.SortFunc(ps, func(a, b PartitionInfo) int { return cmp.Compare(a.Partition, b.Partition) })
}

// All iterates over all streams in order of their names. Each pair is a stream and nil, or a zero value and an error, after which iteration ends.
func (s *Store) All(ctx context.Context) iter.Seq2[Info, error] {
	return engine.Paginate(func(after string) (engine.Page[Info], error) {
		page, err := s.Page(ctx, after, defaultReadLimit)
		if err != nil || len(page) == 0 {
			return engine.Page[Info]{}, err
		}
		return engine.Page[Info]{Items: page, Cursor: page[len(page)-1].Name}, nil
	})
}

func (m *machine) queryInfo(v *engine.View, q *infoQuery) error {
	v.Freeze()
	w, err := viewOf(v, q.namespace, q.stream)
	if err != nil || w == nil || q.id != 0 && q.id != w.id {
		return err
	}
	q.found = true
	q.info, err = m.describe(w)
	return err
}

func (m *machine) describe(w *view) (Info, error) {
	info := Info{
		Name: w.name, Retention: w.policy.retention(), CreatedAt: time.UnixMilli(w.createdAt), Reads: m.readsOf(w.gen),
	}
	parts, err := w.all()
	if err != nil {
		return info, err
	}
	for p := range parts {
		if !w.here(p) {
			continue
		}
		part := &parts[p]
		pi := PartitionInfo{
			Partition: p, Records: int64(part.records()), First: part.first, Last: part.last, LastID: part.lastID, Shard: int(w.v.Shard()),
		}
		if part.records() > 0 {
			s, err := storedAt(w.v.Get, w.gen, p, part.first)
			if err != nil {
				return info, err
			}
			pi.FirstID, pi.Bytes = s.id, int64(part.bytes-s.before)
		}
		info.Appended += int64(part.last)
		info.Partitions = append(info.Partitions, pi)
	}
	return info, nil
}

func (m *machine) queryList(v *engine.View, q *listQuery) error {
	ns, ok := v.Namespace(q.namespace)
	if !ok {
		return nil
	}
	v.Freeze()
	it, err := v.Iter(append(streamKey(nil, ns, q.after), 0), key.PrefixEnd(streamKey(nil, ns, "")))
	if err != nil {
		return err
	}
	partitions := 0
	for ok := it.First(); ok; ok = it.Next() {
		if q.more = len(q.streams) == q.limit || partitions >= maxListedPartitions; q.more {
			break
		}
		name := string(it.Key()[5:])
		h, err := decodeHeader(it.Value())
		if err == nil && !h.deleted() {
			var info Info
			info, err = m.describe(&view{header: h, v: v, namespace: q.namespace, name: name, spread: v.Spread(q.namespace) && !engine.Tagged(name)})
			q.streams = append(q.streams, listed{Info: info, id: h.id, partitions: h.partitions})
			partitions += len(info.Partitions)
		}
		if err != nil {
			it.Close()
			return err
		}
	}
	return it.Close()
}
