package stream

import (
	"context"
	"time"

	"github.com/floedb/floe/internal/engine"
)

// Stats are the properties and contents of a stream.
type Stats struct {
	Name       string
	Retention  Retention
	CreatedAt  time.Time
	Appended   int64 // records ever appended
	Reads      int64 // records ever read on the queried nodes; a node that is killed loses up to five minutes of counts
	Partitions []PartitionStats
}

// PartitionStats are the contents of a partition.
type PartitionStats struct {
	Partition int
	Records   int64
	Bytes     int64  // of keys, headers and payloads as stored: about 2 more for each record and each header
	First     uint64 // offset of the first record; Last+1 if the partition is empty
	Last      uint64 // offset of the last record ever appended
	FirstID   ID     // zero if the partition is empty
	LastID    ID     // of the last record ever appended
	Shard     int
}

// Records returns the number of records in the stream.
func (s *Stats) Records() (n int64) {
	for _, p := range s.Partitions {
		n += p.Records
	}
	return n
}

// Get returns the stream's Stats without counting records. Errors: ErrNotFound.
func (s *Store) Get(ctx context.Context, name string) (Stats, error) {
	if err := engine.CheckName("stream", name); err != nil {
		return Stats{}, err
	}
	parts, err := s.parts(ctx, name)
	if err != nil {
		return Stats{}, err
	}
	var stats Stats
	for i, p := range parts {
		q := statsQuery{namespace: s.scope.Namespace(), stream: name, id: p.id()}
		if err := s.scope.Query(ctx, p.route, &q); err != nil {
			return Stats{}, err
		}
		if i == 0 && !q.found {
			return Stats{}, notFound(name)
		}
		if i == 0 {
			stats = q.stats
			continue
		}
		stats.add(q.stats, p.partitions, func(partition int) int { return int(s.shardOf(name, partition)) })
	}
	sortPartitions(stats.Partitions)
	return stats, nil
}

// add adds the stats of another shard for the given partitions. A shard without a record yet
// returns no stats for them.
func (s *Stats) add(other Stats, partitions []int, shard func(partition int) int) {
	s.Appended += other.Appended
	s.Reads += other.Reads
	known := make(map[int]PartitionStats)
	for _, p := range other.Partitions {
		known[p.Partition] = p
	}
	for _, p := range partitions {
		pi, ok := known[p]
		if !ok {
			pi = PartitionStats{Partition: p, First: 1, Shard: shard(p)}
		}
		s.Partitions = append(s.Partitions, pi)
	}
}

func (m *machine) queryStats(v *engine.View, q *statsQuery) error {
	v.Freeze()
	w, err := viewOf(v, q.namespace, q.stream)
	if err != nil || w == nil || q.id != 0 && q.id != w.id {
		return err
	}
	q.found = true
	q.stats, err = m.describe(w)
	return err
}

func (m *machine) describe(w *view) (Stats, error) {
	stats := Stats{
		Name: w.name, Retention: w.policy.retention(), CreatedAt: time.UnixMilli(w.createdAt), Reads: m.readsOf(w.gen),
	}
	parts, err := w.all()
	if err != nil {
		return stats, err
	}
	for p := range parts {
		if !w.here(p) {
			continue
		}
		part := &parts[p]
		pi := PartitionStats{
			Partition: p, Records: int64(part.records()), First: part.first, Last: part.last, LastID: part.lastID, Shard: int(w.v.Shard()),
		}
		if part.records() > 0 {
			s, err := storedAt(w.v.Get, w.gen, p, part.first)
			if err != nil {
				return stats, err
			}
			pi.FirstID, pi.Bytes = s.id, int64(part.bytes-s.before)
		}
		stats.Appended += int64(part.last)
		stats.Partitions = append(stats.Partitions, pi)
	}
	return stats, nil
}
