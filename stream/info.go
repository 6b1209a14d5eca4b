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
		q := infoQuery{namespace: s.namespace, stream: name, id: p.id()}
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
		info.add(q.info, p.partitions, func(partition int) int { return int(s.shardOf(name, partition)) })
	}
	slices.SortFunc(info.Partitions, func(a, b PartitionInfo) int { return cmp.Compare(a.Partition, b.Partition) })
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
// In a spread namespace their figures are those of their home shards: Info has all.
func (s *Store) Page(ctx context.Context, after string, limit int) ([]Info, error) {
	if limit < 1 || limit > MaxReadLimit {
		return nil, engine.Errorf(ErrInvalid, "stream: limit %d is not in 1-%d", limit, MaxReadLimit)
	}
	shards, err := s.router.Shards(ctx, s.namespace)
	if err != nil {
		return nil, err
	}
	var infos []Info
	end := "" // behind it a shard may have more
	for _, shard := range shards {
		q := listQuery{namespace: s.namespace, after: after, limit: limit}
		if err := s.router.Door().Query(ctx, shard, &q); err != nil {
			return nil, err
		}
		infos = append(infos, q.infos...)
		if n := len(q.infos); q.more && n > 0 && (end == "" || q.infos[n-1].Name < end) {
			end = q.infos[n-1].Name
		}
	}
	slices.SortFunc(infos, func(a, b Info) int { return cmp.Compare(a.Name, b.Name) })
	if end != "" {
		infos = slices.DeleteFunc(infos, func(i Info) bool { return i.Name > end })
	}
	return infos[:min(len(infos), limit)], nil
}

// All iterates over all streams in order of their names. Each pair is a stream and nil, or a zero value and an error, after which iteration ends.
func (s *Store) All(ctx context.Context) iter.Seq2[Info, error] {
	return engine.Paginate(func(after string) ([]Info, string, bool, error) {
		page, err := s.Page(ctx, after, defaultReadLimit)
		if err != nil || len(page) == 0 {
			return nil, "", false, err
		}
		return page, page[len(page)-1].Name, true, nil
	})
}

func (m *Machine) queryInfo(v *engine.View, q *infoQuery) error {
	v.Freeze()
	w, err := viewOf(v, q.namespace, q.stream)
	if err != nil || w == nil || q.id != 0 && q.id != w.id {
		return err
	}
	q.found = true
	q.info, err = m.describe(w)
	return err
}

func (m *Machine) describe(w *view) (Info, error) {
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

func (m *Machine) queryList(v *engine.View, q *listQuery) error {
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
		if q.more = len(q.infos) == q.limit || partitions >= maxListedPartitions; q.more {
			break
		}
		name := string(it.Key()[5:])
		if engine.NameShard(q.namespace, name, v.Shards()) != v.Shard() && v.Spread(q.namespace) {
			continue
		}
		h, err := decodeHeader(it.Value())
		if err == nil && !h.deleted() {
			var info Info
			info, err = m.describe(&view{header: h, v: v, namespace: q.namespace, name: name, spread: v.Spread(q.namespace) && !engine.Tagged(name)})
			q.infos = append(q.infos, info)
			partitions += len(info.Partitions)
		}
		if err != nil {
			it.Close()
			return err
		}
	}
	return it.Close()
}
